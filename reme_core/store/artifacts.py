"""Artifacts in Postgres: the texts that left the window of a conversation, word for word, found by their handles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Final, Literal

import psycopg
from psycopg.types.json import Jsonb

from reme_core.errors import DatabaseError, InputError, NotFoundError
from reme_core.given import storable
from reme_core.postgres.database import Database, check_workspace
from reme_core.store.rows import check_text, first_by
from reme_core.store.sql import ENSURE_WORKSPACE, NUMBERS, load
from reme_core.text.redact import redact

_SQL = load("artifact.sql")

LINE: Final = 300
"""Most characters of a matching line that are shown before the match, and from the match on."""
# Milliseconds. A model writes the patterns, and a bad regular expression can run for hours.
_GREP: Final = {"statement_timeout": "5000"}
# Characters. No text in Postgres has more bytes, and its functions on texts take no much larger numbers.
_LONGEST: Final = 2**30


@dataclass(frozen=True, slots=True)
class Artifact:
    """A text that left the window."""

    artifact_id: str
    """Its handle."""
    kind: Literal["output", "turns"]
    """The output of a tool or another long message, or old turns that a summary replaces."""
    source: str
    """The call of the tool, or who spoke."""
    content: str
    summary: str = ""
    author: str = ""
    """Who wrote the summary: a model, or `rules`."""


@dataclass(frozen=True, slots=True)
class StoredArtifact:
    """An artifact without its text: its handle, kind, source, length in characters, and when it left the window."""

    artifact_id: str
    kind: str
    source: str
    length: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of an artifact that begins at the character `offset` (counted from 0), and the length of the whole."""

    artifact_id: str
    source: str
    offset: int
    text: str
    length: int


@dataclass(frozen=True, slots=True)
class Match:
    """A line in which a pattern was found, and the character of the artifact at which the line begins."""

    artifact_id: str
    source: str
    offset: int
    line: str


_TEXTS = ("source", "content", "summary")


def stored_text(text: str, kinds: Sequence[str]) -> str:
    """A text as an artifact has it: without these kinds of secrets, and without what Postgres cannot store.

    This text is read, searched and erased later, so its length and its offsets are those to tell.
    """
    clean: str = storable(text)
    return redact(clean, kinds)


class Artifacts:
    """The artifacts of all workspaces; every method names the one it works in."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, workspace: str, session_id: str, artifacts: Sequence[Artifact]) -> None:
        """Store artifacts, all or none; of one that is stored already, only the summary of turns changes."""
        check_text("session_id", session_id)
        kinds = self._database.settings.redact
        # Outputs with the same words have one handle.
        distinct = first_by(artifacts, lambda artifact: artifact.artifact_id).values()
        said = [asdict(one) | {name: stored_text(getattr(one, name), kinds) for name in _TEXTS} for one in distinct]
        sequence = {"sequence": "reme.artifact_number_seq", "count": len(said)}
        async with self._database.transaction(workspace) as connection:
            async with connection.pipeline():
                await connection.execute(ENSURE_WORKSPACE, {"workspace": workspace})
                numbered = await connection.execute(NUMBERS, sequence)
            ((numbers,),) = await numbered.fetchall()
            stored = [row | {"number": number} for row, number in zip(said, numbers, strict=True)]
            values = {"workspace": workspace, "session": session_id, "rows": Jsonb(stored)}
            await connection.execute(_SQL["put"], values)

    async def use(self, workspace: str, session_id: str, handles: Sequence[str]) -> dict[str, str]:
        """The summaries of those artifacts that are stored.

        Their time to expire begins anew, and that of all others of the conversation, unless its id is empty.
        """
        check_text("session_id", session_id)
        values = {"workspace": workspace, "session": session_id, "handles": list(handles)}
        return dict(await self._database.execute(workspace, _SQL["use"], values))

    async def of_session(self, workspace: str, session_id: str) -> list[StoredArtifact]:
        """The artifacts of a conversation, oldest first."""
        check_text("session_id", session_id)
        found = await self._database.fetch(workspace, _SQL["list"], {"workspace": workspace, "session": session_id})
        return [StoredArtifact(*row) for row in found]

    async def read(self, workspace: str, handle: str, *, offset: int, size: int) -> Piece:
        """A part of an artifact; see `Working.read`."""
        check_text("the handle", handle)
        if size < 0:
            raise InputError(f"size is how many characters to read, 0 or more; not {size}")
        # Postgres refuses very large numbers with an error of its own. The check below names the right offsets.
        place = min(max(offset, 0), _LONGEST)
        values = {"workspace": workspace, "handle": handle, "offset": place, "size": min(size, _LONGEST)}
        found = await self._database.fetch(workspace, _SQL["read"], values)
        if not found:
            hint = "a handle is the name in a shortened output or a summary; it may be kept no longer, or was erased"
            raise NotFoundError(f"there is no artifact {handle!r:.200}; {hint}")
        source, text, length = found[0]
        last = max(length - 1, 0)  # an empty artifact has a beginning, too
        if not 0 <= offset <= last:
            raise InputError(f"offset is a character of {handle!r}, 0 to {last}; not {offset}")
        return Piece(handle, source, offset, text, length)

    async def grep(self, workspace: str, pattern: str, *, session_id: str, handle: str, limit: int) -> list[Match]:
        """Lines of artifacts that match a regular expression; see `Working.grep`."""
        check_workspace(workspace)  # else its error would be taken for one of the pattern
        if not pattern:
            raise InputError("the pattern is empty; give words of the line, or a regular expression")
        if limit < 0:
            raise InputError(f"limit is how many lines to give at most, 0 or more; not {limit}")
        for name, text in (("the pattern", pattern), ("session_id", session_id), ("the handle", handle)):
            check_text(name, text)
        values = {
            "workspace": workspace,
            "session": session_id,
            "handle": handle,
            "pattern": pattern,
            "limit": min(limit, _LONGEST),
            "shown": LINE,
        }
        try:
            rows = await self._database.fetch(workspace, _SQL["grep"], values, settings=_GREP)
        # Postgres gives an InternalError for a regular expression that would need too much memory.
        except (InputError, psycopg.InternalError) as error:
            told = str(error.__cause__ or error).partition("\n")[0]
            raise InputError(f"{pattern!r:.200} is no regular expression to use: {told:.200}") from error
        except DatabaseError as error:
            if isinstance(error.__cause__, psycopg.errors.QueryCanceled):
                raise InputError(f"searching for {pattern!r:.200} takes too long; give a simpler pattern") from error
            raise
        if not rows and handle:
            await self.read(workspace, handle, offset=0, size=0)  # raises an error if there is none
        return [_match(*row) for row in rows]

    async def erase(self, workspace: str, session_id: str) -> int:
        """Erase the artifacts of a conversation; returns how many there were."""
        check_text("session_id", session_id)
        values = {"workspace": workspace, "session": session_id}
        return int((await self._database.execute(workspace, _SQL["erase"], values))[0][0])


def _match(handle: str, source: str, at: int, before: str, after: str) -> Match:
    """A match at the character `at`, counted from 1, with some text before it and some from it on."""
    start = before.rpartition("\n")[2]
    line = start + after.partition("\n")[0]
    return Match(handle, source, at - 1 - len(start), line)
