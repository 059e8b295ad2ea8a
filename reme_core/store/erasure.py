"""Erasure: taking words out of the database so that no table holds them any more.

Deletion that leaves the words in a log, in the history or in a message they came from is no deletion. So erasing a
memory also erases what was concluded from it and what says the same, blanks the messages it rests on (they stay as
empty rows, so that the same message recorded again adds nothing), and takes its wordings, present and past, out of
every other text of the workspace.

A wording is looked for inside other texts only if it says something by itself (see `_is_telling`): a memory that
reads "Berlin" must not take the word out of everything that was ever said about the city.

Postgres keeps the old versions of changed rows until the next vacuum, and its write-ahead log and backups for longer;
who needs the bytes gone runs `VACUUM (FULL)` and lets the backups expire.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from psycopg import AsyncConnection, sql

from reme_core.schema import Memory
from reme_core.store import change, index, postings
from reme_core.store.database import Database
from reme_core.store.messages import rewrite
from reme_core.store.sql import load
from reme_core.text.terms import terms

_SQL = load("erasure.sql")

_TELLING_TERMS, _TELLING_CJK_TERMS = 3, 5  # a name in Chinese is three or four characters: up to three bigrams
_SECRET_LENGTH = 6  # characters of a single word with a digit in it: a number, a password


async def erase_memories(database: Database, workspace: str, memory_ids: Sequence[str]) -> int:
    """Erase memories and every trace of their text; returns how many of the named ones there were."""
    async with database.writing(workspace) as conn:
        await conn.execute(_SQL["begin"], {"workspace": workspace})
        doom = await _Doom.of(conn, workspace, memory_ids)
        for message_id, content in await _rows(conn, "evidence", workspace, roots=list(doom.roots)):
            doom.messages[message_id] = content
        await _carry_out(conn, workspace, doom)
    return len(set(memory_ids) & set(doom.ids))


async def erase_messages(database: Database, workspace: str, message_ids: Sequence[str]) -> int:
    """Erase what messages say, and with it the memories that rest on one of them; returns how many messages it were.

    The rows stay, empty, in their places in the conversation.
    """
    async with database.writing(workspace) as conn:
        await conn.execute(_SQL["begin"], {"workspace": workspace})
        resting = await _rows(conn, "resting_on", workspace, messages=list(message_ids))
        doom = await _Doom.of(conn, workspace, [row[0] for row in resting])
        doom.messages.update(await _rows(conn, "messages", workspace, messages=list(message_ids)))
        named = len(doom.messages)
        await _carry_out(conn, workspace, doom)
    return named


@dataclass(slots=True)
class _Doom:
    """What is to go: memories with all their wordings, and messages (`messages`: what each says)."""

    roots: set[str]
    memories: dict[str, tuple[int, Memory]] = field(default_factory=dict)
    statements: set[str] = field(default_factory=set)
    situations: set[str] = field(default_factory=set)
    messages: dict[str, str] = field(default_factory=dict)

    @classmethod
    async def of(cls, conn: AsyncConnection[Any], workspace: str, memory_ids: Collection[str]) -> _Doom:
        """Whatever is concluded from the memories or says the same, and so on until nothing more is found."""
        doom = cls(set(memory_ids))
        saying = doom.roots
        while saying:
            doom.roots |= saying
            for memory_id, number, when_to_use, content, keywords, subject in await _rows(
                conn, "doomed", workspace, roots=list(doom.roots)
            ):
                doom.memories[memory_id] = (
                    number,
                    Memory.model_construct(
                        when_to_use=when_to_use, content=content, keywords=keywords, subject=subject
                    ),
                )
            for wording, statement in await _rows(conn, "wordings", workspace, doomed=doom.ids):
                if statement:
                    doom.statements.add(wording)
                elif len(wording.split()) > 1 or not wording.isascii():  # else the name of a tool, which others use
                    doom.situations.add(wording)
            found = await _rows(conn, "memories_saying", workspace, doomed=doom.ids, **_patterns(doom.statements))
            saying = {row[0] for row in found}
        return doom

    @property
    def ids(self) -> list[str]:
        return list(self.memories)


async def _carry_out(conn: AsyncConnection[Any], workspace: str, doom: _Doom) -> None:
    wordings = doom.statements | doom.situations
    said = set(doom.messages.values())
    for message_id, content in await _rows(
        conn, "messages_saying", workspace, messages=list(doom.messages), **_patterns(wordings)
    ):
        doom.messages[message_id] = content
        said.discard(content)
    rewritten = {
        message_id: "" if content in said else _without(content, wordings)
        for message_id, content in doom.messages.items()
    }
    blank = [message_id for message_id, content in rewritten.items() if not content.strip()]
    numbers = [number for number, _ in doom.memories.values()]
    await rewrite(conn, workspace, rewritten)
    await index.remove_vectors(conn, workspace, numbers)
    await postings.remove(conn, workspace, numbers)
    gone = [change.weigh(memory) for _, memory in doom.memories.values()]
    await postings.write(conn, workspace, "memory", (), 1.0, removed=gone)
    values = {
        "workspace": workspace,
        "doomed": doom.ids,
        "messages": blank,
        "escaped": [json.dumps(w, ensure_ascii=False)[1:-1].lower() for w in wordings if _is_telling(w)],
        **_patterns(wordings | said),
    }
    for statement in ("drop_history", "drop_retrievals", "drop_memories", "forget_answers", "forget_quotes"):
        await conn.execute(_SQL[statement], values)
    await _sweep(conn, workspace, [w for w in wordings if _is_telling(w)])
    await conn.execute(_SQL["mark"], values)


async def _sweep(conn: AsyncConnection[Any], workspace: str, wordings: Sequence[str]) -> None:
    """Take wordings out of every column that holds text of the workspace."""
    if not wordings:
        return
    longest_first = sorted(wordings, key=len, reverse=True)  # a wording may hold another one
    values = {
        "workspace": workspace,
        "wordings": longest_first,
        "patterns": [w.lower() for w in longest_first]
        + [json.dumps(w, ensure_ascii=False)[1:-1].lower() for w in longest_first],
    }
    for table, column in await _rows(conn, "texts", workspace):
        statement = sql.SQL(
            "update reme.{table} set {column} = reme.without({column}, %(wordings)s) where workspace_id = %(workspace)s"
            " and exists (select from unnest(%(patterns)s::text[]) as w (wording)"
            " where strpos(lower({column}::text), w.wording) > 0)"
        ).format(table=sql.Identifier(table), column=sql.Identifier(column))
        await conn.execute(statement, values)


def _patterns(wordings: Collection[str]) -> dict[str, list[str]]:
    """Wordings as the statements compare them: those that are found inside a text, and those that are all of it."""
    return {
        "telling": [wording.lower() for wording in wordings if _is_telling(wording)],
        "whole": [wording.lower() for wording in wordings],
    }


def _is_telling(wording: str) -> bool:
    """Whether a wording is a statement (or a number, or a password), rather than a word that others use too.

    >>> [_is_telling(wording) for wording in ("Her dog is called Rex", "San Francisco", "get_account_info", "hunter2")]
    [True, False, False, True]
    """
    found = set(terms(wording))
    words = wording.split()
    enough = len(words) >= _TELLING_TERMS if wording.isascii() else len(found) >= _TELLING_CJK_TERMS
    return (enough and len(found) >= _TELLING_TERMS) or any(
        len(word) >= _SECRET_LENGTH and any(map(str.isdigit, word)) for word in words
    )


def _without(content: str, wordings: Collection[str]) -> str:
    if content.lower() in {wording.lower() for wording in wordings}:
        return ""
    for wording in sorted(filter(_is_telling, wordings), key=len, reverse=True):
        content = re.sub(re.escape(wording), "", content, flags=re.IGNORECASE)
    return content


async def _rows(conn: AsyncConnection[Any], statement: str, workspace: str, **values: Any) -> list[tuple[Any, ...]]:
    return await (await conn.execute(_SQL[statement], {"workspace": workspace, **values})).fetchall()
