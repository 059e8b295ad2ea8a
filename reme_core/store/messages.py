"""Messages in Postgres: recorded durably and once, and read again in the order of their conversation.

A message seldom says by itself what it is about ("yes, next Friday"). So it is also indexed by the terms of its
neighbours in the session, at lower weights, and by the day on which it was said. The terms are indexed in the same
transaction as the message. Its vector follows in the background, so that nobody waits for an embedding endpoint that is
slow or down. The weights lie on plateaus, not peaks, of what `benchmarks.retrieval` measures on LoCoMo.
"""

from __future__ import annotations

import asyncio
import calendar
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from reme_core.errors import ModelError
from reme_core.models import Embedder
from reme_core.postgres.database import Database
from reme_core.store import rows
from reme_core.store.index import postings, writer
from reme_core.store.sql import load
from reme_core.text.redact import redact
from reme_core.text.terms import language_of
from reme_core.types import SCOPES, Message

# How much the terms of a neighbour count, by its offset in the session: -1 is the message before, 1 the one after.
NEIGHBOUR_WEIGHTS = {-1: 0.5, -2: 0.25, 1: 0.25}
_NEXT = max(NEIGHBOUR_WEIGHTS)  # messages before a new one whose index entries take up its terms
_WINDOW = _NEXT - min(NEIGHBOUR_WEIGHTS)  # messages back to the farthest that such an entry takes terms from

_LONGEST = 20_000  # characters of a message that are indexed; what is longer is a pasted file
_EMBED_BATCH = 64
_HARMLESS = "Hello."  # a text that no embedding model refuses
_Waiting = tuple[int, str, str]  # document, author and content of a message without a vector

log = logging.getLogger(__name__)

_SQL = load("message.sql")


@dataclass(slots=True)
class _Turn:
    """A message as the index needs it: its place in the session, and what it is searched by."""

    session_id: str
    position: int
    document_id: int
    author: str
    role: str
    content: str
    sent_at: datetime

    def counts(self) -> Counter[str]:
        """Its own terms with their counts. System prompts and answers of tools have none, since nobody said them."""
        if self.role in ("system", "tool") or not self.content.strip():
            return Counter()
        return postings.weigh(
            [(self.content[:_LONGEST], 1.0), (self.author, 1.0), (_day(self.sent_at, self.content), 1.0)]
        )


def _day(moment: datetime, content: str) -> str:
    """The day in words, as a question would name it, in the language of the message."""
    if language_of(content) == "zh":
        return f"{moment.year}年{moment.month}月{moment.day}日"
    return f"{moment.day} {calendar.month_name[moment.month]} {moment.year}"


async def record(
    database: Database,
    workspace: str,
    messages: Sequence[Message],
    *,
    within: Callable[[AsyncConnection[Any], list[Message]], Any] | None = None,
) -> list[Message]:
    """Store messages in one transaction; those whose id is stored already are skipped.

    But where other words stand under the id, in the same session, the message was edited: it gets the new words, and
    the former ones are kept in its metadata (`former`). An erased message stays erased.

    `within` is awaited inside the transaction with its connection and the new messages. A job that it queues is so
    queued if, and only if, the messages are stored.

    Returns:
        The messages that were new or edited.

    Raises:
        InputError: A message holds what Postgres cannot store; none was stored.
    """
    messages = redact(messages, database.settings.redact)
    for message in messages:
        for name in ("message_id", "session_id", "author", "content", "reasoning_content", "tool_call_id", *SCOPES):
            rows.check_text(f"{name} of message {message.message_id!r}", getattr(message, name))
    by_id: dict[str, Message] = {}
    for message in messages:
        by_id.setdefault(message.message_id, message)
    unique = list(by_id.values())
    async with database.write_transaction(workspace) as conn:
        state = await writer.begin(conn, workspace, "message", count=len(unique))
        sessions = list({m.session_id for m in unique})
        values = {
            "workspace": workspace,
            "ids": [m.message_id for m in unique],
            "sessions": sessions,
            "window": _WINDOW,
        }
        async with conn.pipeline():
            known_cursor = await conn.execute(_SQL["known_messages"], values)
            tail_cursor = await conn.execute(_SQL["session_tails"], values)
        known = {row[0]: row[1:] for row in await known_cursor.fetchall()}
        tails = [_Turn(*row) for row in await tail_cursor.fetchall()]
        edited = [m for m in unique if m.message_id in known and _is_edited(m, *known[m.message_id])]
        fresh = [m for m in unique if m.message_id not in known]
        if fresh:
            await _add(conn, workspace, fresh, tails, state)
        if edited:
            await _edit(conn, workspace, edited)
        if within is not None and (fresh or edited):
            await within(conn, [*fresh, *edited])
    return [*fresh, *edited]


def _is_edited(message: Message, session_id: str, content: str | None) -> bool:
    """Whether it says something else than what is stored (None where that was erased) under its id."""
    return message.session_id == session_id and content not in (None, message.content) and bool(message.content.strip())


async def _add(
    conn: AsyncConnection[Any],
    workspace: str,
    fresh: Sequence[Message],
    tails: Sequence[_Turn],
    state: writer.IndexState,
) -> None:
    turns = _append_to_sessions(tails, fresh, state.document_ids)
    around = (*tails, *turns)
    few = len(turns) <= postings.WITHOUT_THREAD
    counts = _count_terms(around) if few else await asyncio.to_thread(_count_terms, around)
    stored = [_row(workspace, m, t, counts[t.document_id]) for m, t in zip(fresh, turns, strict=True)]
    await conn.execute(_SQL["insert_messages"], {"workspace": workspace, "rows": Jsonb(stored)})
    await _index_new(conn, workspace, tails, turns, counts, state)


def _count_terms(turns: Iterable[_Turn]) -> dict[int, Counter[str]]:
    return {turn.document_id: turn.counts() for turn in turns}


async def _edit(conn: AsyncConnection[Any], workspace: str, edited: Sequence[Message]) -> None:
    rows = [message.model_dump(mode="json", include={"message_id", "tool_calls"}) for message in edited]
    await conn.execute(_SQL["keep_former_words"], {"workspace": workspace, "edited": Jsonb(rows)})
    await rewrite(conn, workspace, {message.message_id: message.content for message in edited})


def _append_to_sessions(tails: Iterable[_Turn], fresh: Iterable[Message], document_ids: Iterable[int]) -> list[_Turn]:
    """Give each new message its place in its session."""
    last: dict[str, int] = defaultdict(int)
    for tail in tails:
        last[tail.session_id] = max(last[tail.session_id], tail.position)
    turns = []
    for message, document_id in zip(fresh, document_ids, strict=False):
        last[message.session_id] += 1
        turns.append(
            _Turn(
                message.session_id, last[message.session_id], document_id,
                message.author, message.role, message.content, message.sent_at,
            )
        )  # fmt: skip
    return turns


async def _index_new(
    conn: AsyncConnection[Any],
    workspace: str,
    tails: Sequence[_Turn],
    turns: Sequence[_Turn],
    counts: Mapping[int, Counter[str]],
    state: writer.IndexState,
) -> None:
    """Index new turns, and index again the last ones before them, which get terms of the new ones."""
    ends = {turn.session_id: turn.position for turn in tails}  # tails are in order, so that the last of a session stays
    reached = [t for t in tails if t.position > ends[t.session_id] - _NEXT]
    around, stale = [*tails, *turns], {t.document_id for t in reached}
    known = set(chain.from_iterable(counts[turn.document_id] for turn in tails))
    async with conn.pipeline():
        own = [counts[turn.document_id] for turn in turns]
        await postings.remove(conn, workspace, stale, among=("message", known))
        await index_turns(conn, workspace, around, counts, [*reached, *turns], state, added=own)


def _row(workspace: str, message: Message, turn: _Turn, counts: Counter[str]) -> dict[str, Any]:
    said = bool(counts)
    return message.model_dump(mode="json", include=set(rows.MESSAGE_COLUMNS)) | {
        "workspace_id": workspace,
        "document_id": turn.document_id,
        "position": turn.position,
        "terms": len(counts),
        "embedded_at": None if said else turn.sent_at.isoformat(),
        "summarised_at": None if said else turn.sent_at.isoformat(),
    }


async def index_turns(
    conn: AsyncConnection[Any],
    workspace: str,
    around: Sequence[_Turn],
    counts: Mapping[int, Counter[str]],
    written: Sequence[_Turn],
    state: writer.IndexState,
    *,
    added: Sequence[Counter[str]],
    removed: Sequence[Counter[str]] = (),
) -> None:
    """Write the postings of the turns `written`.

    Args:
        conn: A connection in a `Database.write_transaction`.
        workspace: The workspace.
        around: These turns and their neighbours.
        counts: The own terms of all of these, by document id.
        written: The turns whose postings are written.
        state: The index, as `writer.begin` read it.
        added: See `postings.write`.
        removed: See `postings.write`.
    """
    documents = _documents(around, counts, written)
    await postings.write(conn, workspace, "message", documents, state.mean_length, added=added, removed=removed)


def _documents(
    around: Sequence[_Turn], counts: Mapping[int, Counter[str]], written: Sequence[_Turn]
) -> Iterator[postings.Document]:
    """The turns `written` as documents of the index, with the terms that `around` lends them."""
    places = {(turn.session_id, turn.position): turn.document_id for turn in around}
    for turn in written:
        if not counts[turn.document_id]:
            continue  # a message without terms of its own is not found by those of its neighbours
        beside: Counter[str] = Counter()
        for offset, weight in NEIGHBOUR_WEIGHTS.items():
            neighbour = places.get((turn.session_id, turn.position + offset))
            for term, count in counts.get(neighbour or 0, {}).items():
                beside[term] += weight * count  # type: ignore[assignment]  # weights are fractions
        own = counts[turn.document_id]
        yield postings.Document(turn.document_id, own + beside, beside.keys() - own.keys())


async def rewrite(conn: AsyncConnection[Any], workspace: str, contents: Mapping[str, str]) -> None:
    """Replace the contents of messages, by their ids, in the caller's transaction; an empty content empties a message.

    The neighbours that have terms of theirs are indexed again.
    """
    if not contents:
        return
    state = await writer.begin(conn, workspace, "message", count=0)
    values = {"workspace": workspace, "ids": list(contents), "window": _WINDOW}
    found = await (await conn.execute(_SQL["session_window"], values)).fetchall()
    turns = [_Turn(*row[1:]) for row in found]
    changed = {
        turn.document_id: _with_content(turn, contents[row[0]])
        for row, turn in zip(found, turns, strict=True)
        if row[0] in contents
    }
    counts = {turn.document_id: turn.counts() for turn in turns}
    before = [counts[document_id] for document_id in changed]
    around = [changed.get(turn.document_id, turn) for turn in turns]
    counts |= {document_id: turn.counts() for document_id, turn in changed.items()}
    reached = {(t.session_id, t.position - offset) for t in changed.values() for offset in (0, *NEIGHBOUR_WEIGHTS)}
    written = [turn for turn in around if (turn.session_id, turn.position) in reached]
    await conn.execute(
        _SQL["rewrite_messages"],
        {
            "workspace": workspace,
            "documents": list(changed),
            "contents": [turn.content for turn in changed.values()],
            "terms": [len(counts[document_id]) for document_id in changed],
        },
    )
    await writer.remove_vectors(conn, workspace, changed)
    await postings.remove(conn, workspace, [turn.document_id for turn in written])
    added = [counts[document_id] for document_id in changed]
    await index_turns(conn, workspace, around, counts, written, state, added=added, removed=before)


def _with_content(turn: _Turn, content: str) -> _Turn:
    return replace(turn, content=content) if content.strip() else replace(turn, content="", author="")


def passage(content: str, author: str) -> str:
    """The text of a message that is embedded."""
    return f"{author}: {content[:_LONGEST]}" if author else content[:_LONGEST]


async def embed_waiting(database: Database, workspace: str, embedder: Embedder) -> int:
    """Embed the messages that have no vector yet, oldest first; returns how many there were.

    It may run in several processes at once: they write the same vectors.
    """
    done = 0
    while True:
        values = {"workspace": workspace, "limit": _EMBED_BATCH}
        waiting = await database.fetch(workspace, _SQL["unembedded"], values)
        if not waiting:
            return done
        waiting, vectors = await _embed_what_can_be(database, workspace, embedder, waiting)
        if not waiting:
            continue
        async with database.write_transaction(workspace) as conn:
            state = await writer.begin(conn, workspace, "message", count=0)
            await writer.bind(conn, workspace, vectors, state, model=embedder.name)
            values = {"workspace": workspace, "documents": [row[0] for row in waiting]}
            # What was erased meanwhile must get no vector, which would be a trace of its words.
            still = set(await (await conn.execute(_SQL["still_unembedded"], values)).fetchall())
            kept = [place for place, row in enumerate(waiting) if row in still]
            documents = [(waiting[place][0], "conversation", True) for place in kept]
            await writer.write_vectors(conn, workspace, documents, vectors[kept], model=embedder.name, hnsw=state.hnsw)
            values["documents"] = [document[0] for document in documents]
            await conn.execute(_SQL["mark_embedded"], values)
        done += len(waiting)


async def _embed_what_can_be(
    database: Database, workspace: str, embedder: Embedder, waiting: Sequence[_Waiting]
) -> tuple[list[_Waiting], npt.NDArray[np.float32]]:
    """Embed messages; those that the model refuses even alone are marked, and left out of what is returned.

    Raises:
        ModelError: The model fails with any text.
    """
    try:
        vectors = await embedder.embed([passage(content, author) for _, author, content in waiting], "passage")
        return list(waiting), vectors
    except ModelError as error:
        await embedder.embed([_HARMLESS], "passage")  # fails where it is the endpoint, and no text, that is at fault
        if len(waiting) == 1:
            values = {"workspace": workspace, "document": waiting[0][0], "reason": str(error)}
            await database.execute(workspace, _SQL["mark_refused"], values)
            log.warning("a message of workspace '%s' gets no vector, words alone find it: %s", workspace, error)
            return [], np.empty((0, 0), np.float32)
    middle = len(waiting) // 2
    parts = [
        await _embed_what_can_be(database, workspace, embedder, part) for part in (waiting[:middle], waiting[middle:])
    ]
    found = [(some, vectors) for some, vectors in parts if some]
    if not found:
        return [], np.empty((0, 0), np.float32)
    return [row for some, _ in found for row in some], np.concatenate([vectors for _, vectors in found])


async def unsummarised_messages(
    database: Database,
    workspace: str,
    *,
    ids: Sequence[str] | None = None,
    session_id: str | None = None,
    limit: int = 500,
) -> list[Message]:
    """Messages from which no memories were made yet, oldest first: of `ids`, of a session, or of the workspace."""
    values = {"workspace": workspace, "ids": list(ids) if ids is not None else None, "session": session_id}
    found = await database.fetch(workspace, _SQL["unsummarised"], values | {"limit": limit})
    return [rows.to_message(row) for row in found]


async def conversation(database: Database, workspace: str, session_id: str) -> list[Message]:
    """The messages of one session, in order; erased ones are left out."""
    found = await database.fetch(workspace, _SQL["conversation"], {"workspace": workspace, "session": session_id})
    return [rows.to_message(row) for row in found]


async def messages_before(database: Database, workspace: str, ids: Sequence[str], *, window: int) -> list[Message]:
    """For each session of the messages `ids`, the last `window` messages before the first of them."""
    values = {"workspace": workspace, "ids": list(ids), "window": window}
    return [rows.to_message(row) for row in await database.fetch(workspace, _SQL["before_these"], values)]
