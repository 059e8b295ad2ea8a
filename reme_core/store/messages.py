"""Messages in Postgres: taken in durably and once, and found again in their conversation.

A turn of a conversation seldom says by itself what it is about ("yes, next Friday"), so its neighbours in the session
lend it their terms at decaying weight, and the day on which it was said is indexed with it. Words are indexed with the
message, in one transaction; the vector follows in the background, since an embedding endpoint that is slow or down
must not cost a turn. The weights are plateaus, not peaks, of `benchmarks/locomo.py`.
"""

from __future__ import annotations

import calendar
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import Any

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from reme_core.models import Embedder
from reme_core.schema import Message
from reme_core.store import index, postings, rows
from reme_core.store.database import Database
from reme_core.store.sql import load
from reme_core.text.terms import language_of

LENT_BY_PREVIOUS = (0.5, 0.25)
"""Weights at which the turn before, and the one before that, lend their terms."""
LENT_BY_NEXT = (0.25,)
"""Weight at which the turn after lends its terms."""
_LENDING = {-n: w for n, w in enumerate(LENT_BY_PREVIOUS, 1)} | dict(enumerate(LENT_BY_NEXT, 1))
_WINDOW = len(LENT_BY_PREVIOUS) + len(LENT_BY_NEXT)  # how far back a new turn changes what an index entry holds

_LONGEST = 20_000  # characters of one message that are indexed; a pasted file is no turn of a conversation
_EMBED_BATCH = 64

_SQL = load("message.sql")


@dataclass(slots=True)
class _Turn:
    """A message as the index sees it: its place, and what of it can be searched."""

    session_id: str
    position: int
    document_id: int
    author: str
    role: str
    content: str
    sent_at: datetime

    def counts(self) -> Counter[str]:
        """Its own terms. System prompts and what tools gave back have none: nobody said them."""
        if self.role in ("system", "tool") or not self.content.strip():
            return Counter()
        return postings.weigh(
            [(self.content[:_LONGEST], 1.0), (self.author, 1.0), (_day(self.sent_at, self.content), 1.0)]
        )


def _day(moment: datetime, content: str) -> str:
    """The day in words, as a question about it would name it, in the script of the message."""
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
    """Take messages in, in one transaction; those whose id is known already are passed over.

    `within` is awaited inside the transaction with the connection and the new messages, so that a job to summarise
    them is queued if and only if they are stored.

    Returns:
        The messages that were new.

    Raises:
        InputError: A message holds what Postgres cannot store; none was taken.
    """
    for message in messages:
        for name in ("message_id", "session_id", "author", "content", "reasoning_content", "tool_call_id"):
            rows.check_text(f"{name} of message {message.message_id!r}", getattr(message, name))
    by_id: dict[str, Message] = {}
    for message in messages:
        by_id.setdefault(message.message_id, message)
    unique = list(by_id.values())
    async with database.writing(workspace) as conn:
        state = await index.begin(conn, workspace, "message", count=len(unique))
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
        known = {row[0] for row in await known_cursor.fetchall()}
        fresh = [m for m in unique if m.message_id not in known]
        if not fresh:
            return []
        tails = [_Turn(*row) for row in await tail_cursor.fetchall()]
        turns = _continue(tails, fresh, state.document_ids)
        counts = {turn.document_id: turn.counts() for turn in (*tails, *turns)}
        stored = [_row(workspace, m, t, counts[t.document_id]) for m, t in zip(fresh, turns, strict=True)]
        await conn.execute(_SQL["insert_messages"], {"rows": Jsonb(stored)})
        await _index_new(conn, workspace, tails, turns, counts, state)
        if within is not None:
            await within(conn, fresh)
    return fresh


def _continue(tails: Iterable[_Turn], fresh: Iterable[Message], document_ids: Iterable[int]) -> list[_Turn]:
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
    state: index.IndexState,
) -> None:
    """Index new turns, and anew the last ones before them, to which they lend."""
    ends = {turn.session_id: turn.position for turn in tails}  # tails come in order, so the last one stays
    reached = [t for t in tails if t.position > ends[t.session_id] - len(LENT_BY_NEXT)]
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
    state: index.IndexState,
    *,
    added: Sequence[Counter[str]],
    removed: Sequence[Counter[str]] = (),
) -> None:
    """Write what each of `written` is found by; `around` are they and their neighbours.

    `added` and `removed` are for the statistics; see `postings.write`.
    """
    places = {(turn.session_id, turn.position): turn.document_id for turn in around}
    documents = []
    for turn in written:
        if not counts[turn.document_id]:
            continue  # what says nothing itself is not found by what stands beside it
        lent: Counter[str] = Counter()
        for offset, weight in _LENDING.items():
            neighbour = places.get((turn.session_id, turn.position + offset))
            for term, count in counts.get(neighbour or 0, {}).items():
                lent[term] += weight * count  # type: ignore[assignment]  # weights are fractions
        own = counts[turn.document_id]
        documents.append(postings.Document(turn.document_id, own + lent, lent.keys() - own.keys()))
    await postings.write(conn, workspace, "message", documents, state.mean_length, added=added, removed=removed)


async def rewrite(conn: AsyncConnection[Any], workspace: str, contents: Mapping[str, str]) -> None:
    """Give messages other words, by message id, inside the caller's transaction; no words at all empties them.

    The neighbours to which they lent their terms are indexed anew.
    """
    if not contents:
        return
    state = await index.begin(conn, workspace, "message", count=0)
    values = {"workspace": workspace, "ids": list(contents), "window": _WINDOW}
    found = await (await conn.execute(_SQL["session_window"], values)).fetchall()
    turns = [_Turn(*row[1:]) for row in found]
    changed = {
        turn.document_id: _reworded(turn, contents[row[0]])
        for row, turn in zip(found, turns, strict=True)
        if row[0] in contents
    }
    counts = {turn.document_id: turn.counts() for turn in turns}
    before = [counts[document_id] for document_id in changed]
    around = [changed.get(turn.document_id, turn) for turn in turns]
    counts |= {document_id: turn.counts() for document_id, turn in changed.items()}
    reached = {(t.session_id, t.position - offset) for t in changed.values() for offset in (0, *_LENDING)}
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
    await index.remove_vectors(conn, workspace, changed)
    await postings.remove(conn, workspace, [turn.document_id for turn in written])
    added = [counts[document_id] for document_id in changed]
    await index_turns(conn, workspace, around, counts, written, state, added=added, removed=before)


def _reworded(turn: _Turn, content: str) -> _Turn:
    return replace(turn, content=content) if content.strip() else replace(turn, content="", author="")


def passage(content: str, author: str) -> str:
    """The text whose vector stands for a message."""
    return f"{author}: {content[:_LONGEST]}" if author else content[:_LONGEST]


async def embed_waiting(database: Database, workspace: str, embedder: Embedder) -> int:
    """Give vectors to messages that wait for one, oldest first; returns how many got one.

    May run in several places at once: a vector that is there already is written over with the same value.
    """
    done = 0
    while True:
        values = {"workspace": workspace, "limit": _EMBED_BATCH}
        waiting = await database.fetch(workspace, _SQL["unembedded"], values)
        if not waiting:
            return done
        vectors = await embedder.embed([passage(content, author) for _, author, content in waiting], "passage")
        async with database.writing(workspace) as conn:
            state = await index.begin(conn, workspace, "message", count=0)
            await index.bind(conn, workspace, vectors, state, model=embedder.name)
            values = {"workspace": workspace, "documents": [row[0] for row in waiting]}
            # A vector of words that were erased meanwhile would be a trace of them.
            still = set(await (await conn.execute(_SQL["still_unembedded"], values)).fetchall())
            kept = [place for place, row in enumerate(waiting) if row in still]
            documents = [(waiting[place][0], "conversation", True) for place in kept]
            await index.write_vectors(conn, workspace, documents, vectors[kept], model=embedder.name, hnsw=state.hnsw)
            values["documents"] = [document[0] for document in documents]
            await conn.execute(_SQL["mark_embedded"], values)
        done += len(waiting)


async def unsummarised(
    database: Database,
    workspace: str,
    *,
    ids: Sequence[str] | None = None,
    session_id: str | None = None,
    limit: int = 500,
) -> list[Message]:
    """Messages that no memory was made of yet, oldest first: of `ids`, of one session, or of the whole workspace."""
    values = {"workspace": workspace, "ids": list(ids) if ids is not None else None, "session": session_id}
    found = await database.fetch(workspace, _SQL["unsummarised"], values | {"limit": limit})
    return [rows.to_message(row) for row in found]


async def said_before(database: Database, workspace: str, ids: Sequence[str], *, window: int) -> list[Message]:
    """The up to `window` messages that stand before the first of these in each of their sessions."""
    values = {"workspace": workspace, "ids": list(ids), "window": window}
    return [rows.to_message(row) for row in await database.fetch(workspace, _SQL["before_these"], values)]
