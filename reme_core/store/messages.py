"""Messages in Postgres: each is recorded once and durably, and read again in the order of its conversation.

A message seldom says by itself what it is about ("yes, next Friday"). So its index entry also has the terms of its
neighbours in the session, with lower weights, and the day on which it was said. The terms are written in the same
transaction as the message, and its vector follows in the background.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain
from typing import Any, Final, Unpack

import numpy as np
from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from reme_core.errors import ModelError
from reme_core.models.base import Embedder, Vectors
from reme_core.postgres.database import Database
from reme_core.store import rows
from reme_core.store.index import postings, writer
from reme_core.store.sql import load
from reme_core.text.ids import earlier_ids
from reme_core.text.named import MONTHS
from reme_core.text.redact import redact
from reme_core.text.terms import language_of
from reme_core.types import SCOPES, Message, Scope

# How much the terms of a neighbour count, by its offset in the session: -1 is the message before, 1 the one after.
# Chosen by `benchmarks.retrieval` on LoCoMo, where somewhat larger or smaller weights find as much.
NEIGHBOUR_WEIGHTS = {-1: 0.5, -2: 0.25, 1: 0.25}
_NEXT = max(NEIGHBOUR_WEIGHTS)  # a new message changes the index entries of so many messages before it
_WINDOW = _NEXT - min(NEIGHBOUR_WEIGHTS)  # so many messages before it are needed to make these entries again

_LONGEST = 20_000  # characters of a message that are indexed; a longer message is a pasted file
_EMBED_BATCH = 64
_HARMLESS = "Hello."  # a text that no embedding model refuses
_Waiting = tuple[int, str, str]  # document, author and content of a message without a vector
_Stored = tuple[str, str | None, str]  # session, content and person of a message; it has no content if it was erased

log = logging.getLogger(__name__)

_SQL = load("message.sql", columns=rows.select(rows.MESSAGE_COLUMNS), names=", ".join(rows.MESSAGE_COLUMNS))


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
        """Its own terms with their counts; none for system prompts and answers of tools, since nobody said them."""
        if self.role in ("system", "tool") or not self.content.strip():
            return Counter()
        return postings.weigh(
            [(self.content[:_LONGEST], 1.0), (self.author, 1.0), (_day(self.sent_at, self.content), 1.0)]
        )


def _day(moment: datetime, content: str) -> str:
    """The day in words, as a question in the language of the message would name it."""
    if language_of(content) == "zh":
        return f"{moment.year}年{moment.month}月{moment.day}日"
    return f"{moment.day} {MONTHS[moment.month - 1]} {moment.year}"


_TEXTS = ("message_id", "session_id", "author", "content", "reasoning_content", "tool_call_id", *SCOPES)

WRITES: Final = {"actor": "record", "reason": "a message was edited"}
"""For the `Database.write_transaction` of `add`: what the history says of the memories that it changes."""


async def record(
    database: Database,
    workspace: str,
    messages: Sequence[Message],
    *,
    within: Callable[[AsyncConnection[Any], list[Message]], Any] | None = None,
) -> list[Message]:
    """Store messages in one transaction, as `add` does; returns those that were new or edited.

    `within` is awaited inside the transaction, with the connection and these messages. So a job that it queues is
    queued if, and only if, the messages are stored.
    """
    messages = redact(messages, database.settings.redact)
    check(messages)
    async with database.write_transaction(workspace, **WRITES) as conn:
        changed = await add(conn, workspace, messages)
        if within is not None and changed:
            await within(conn, changed)
    return changed


def check(messages: Sequence[Message]) -> None:
    """Raise an `InputError` for messages that cannot be stored, before anything is written."""
    for place, message in enumerate(messages, 1):
        rows.check_texts(rows.name_of(message, place, len(messages)), message, _TEXTS)


async def add(conn: AsyncConnection[Any], workspace: str, messages: Sequence[Message]) -> list[Message]:
    """Store messages that passed `check`, in a `Database.write_transaction`; one that is stored already is skipped.

    A message with a stored id, the same session and other words was edited: it gets the new words, and its metadata
    keep the old ones (`former`); a memory that is the old words expires. What lost its words, or some of them, to an
    erasure stays as it is. With two messages of one id in one call, the second one is the first one edited.

    Returns the messages that were new or edited.
    """
    ids = dict.fromkeys(m.message_id for m in messages)
    index = await writer.begin(conn, workspace, "message", count=len(ids))
    values = {
        "workspace": workspace,
        "ids": [*ids, *chain.from_iterable(map(earlier_ids, messages))],
        "sessions": list({m.session_id for m in messages}),
        "window": _WINDOW,
    }
    async with conn.pipeline():  # both in one round trip
        known_cursor = await conn.execute(_SQL["known_messages"], values)
        tail_cursor = await conn.execute(_SQL["session_tails"], values)
    known: dict[str, _Stored] = {row[0]: row[1:] for row in await known_cursor.fetchall()}
    tails = [_Turn(*row) for row in await tail_cursor.fetchall()]
    messages = [_under_stored_id(m, known) for m in messages]
    unique = rows.first_by(messages, lambda message: message.message_id)
    fresh = [m for m in unique.values() if m.message_id not in known]
    stored = known | {m.message_id: (m.session_id, m.content, m.user_id) for m in fresh}
    edited = _edits_in(messages, stored)
    _warn_of_taken_ids(workspace, messages, stored)
    if fresh:
        await _insert(index, fresh, tails)
    if edited:
        await _edit(conn, workspace, edited)
    return list({m.message_id: m for m in (*fresh, *edited)}.values())


def _under_stored_id(message: Message, stored: Mapping[str, _Stored]) -> Message:
    """A message under the id by which it was stored earlier, if it was."""
    if message.message_id in stored:
        return message
    for earlier in filter(stored.__contains__, earlier_ids(message)):
        session, content, person = stored[earlier]
        # What is nobody's was erased, or recorded before it was said whose it is. Other words are somebody else's.
        is_same = person == message.user_id or (not person and content in (None, message.content))
        if is_same and session == message.session_id:
            return message.model_copy(update={"message_id": earlier})
    return message


def _edits_in(messages: Sequence[Message], stored: Mapping[str, _Stored]) -> list[Message]:
    """The messages with other words than the stored ones of their ids, if these were not erased."""
    # Of several with one id the last counts, so that the same messages change nothing when they are recorded again.
    last = {m.message_id: m for m in messages if m.session_id == stored[m.message_id][0] and m.content.strip()}
    return [m for m in last.values() if stored[m.message_id][1] not in (None, m.content)]


def _warn_of_taken_ids(workspace: str, messages: Sequence[Message], stored: Mapping[str, _Stored]) -> None:
    """Log that messages were skipped whose ids are taken by others: a client may count anew in each conversation."""
    for m in messages:
        session, content, _ = stored[m.message_id]
        if m.session_id != session and m.content.strip() and content not in (None, m.content):
            log.warning(
                "message %r of session '%s' in workspace '%s' was not recorded, since one of session '%s' has its id;"
                " give messages ids of their own, or none",
                m.message_id, m.session_id, workspace, session,
            )  # fmt: skip
            return  # one line tells it: a long history would fill the log


async def _insert(index: writer.IndexWriter, fresh: Sequence[Message], tails: Sequence[_Turn]) -> None:
    """Store and index new messages, and index the last ones before them again, which get terms of the new ones."""
    ends = {turn.session_id: turn.position for turn in tails}  # tails are in order: the last of each session remains
    turns = _append_to_sessions(ends, fresh, index.document_ids)
    around = (*tails, *turns)
    few = len(turns) <= postings.WITHOUT_THREAD
    # Counting the terms of many messages would hold up the event loop.
    counts = _count_terms(around) if few else await asyncio.to_thread(_count_terms, around)
    stored = [_row(m, t, counts[t.document_id]) for m, t in zip(fresh, turns, strict=True)]
    await index.conn.execute(_SQL["insert_messages"], {"workspace": index.workspace, "rows": Jsonb(stored)})
    reached = [t for t in tails if t.position > ends[t.session_id] - _NEXT]
    known = set(chain.from_iterable(counts[turn.document_id] for turn in tails))
    documents = _documents(around, counts, [*reached, *turns])
    own = [counts[turn.document_id] for turn in turns]
    async with index.conn.pipeline():
        removed = {turn.document_id for turn in reached}
        await postings.remove(index.conn, index.workspace, removed, among=("message", known))
        await index.write_postings(documents, added=own)


def _count_terms(turns: Iterable[_Turn]) -> dict[int, Counter[str]]:
    return {turn.document_id: turn.counts() for turn in turns}


async def _edit(conn: AsyncConnection[Any], workspace: str, edited: Sequence[Message]) -> None:
    words = {message.message_id: message.content for message in edited}
    calls = {m.message_id: m.model_dump(mode="json", include={"tool_calls"})["tool_calls"] for m in edited}
    values = {"workspace": workspace, "ids": list(words), "words": Jsonb(words), "tool_calls": Jsonb(calls)}
    async with conn.pipeline():
        for statement in ("keep_former_words", "end_quotes", "drop_edited_evidence"):
            await conn.execute(_SQL[statement], values)
    await rewrite(conn, workspace, words, without_trace=False)


def _append_to_sessions(ends: Mapping[str, int], fresh: Iterable[Message], document_ids: Iterable[int]) -> list[_Turn]:
    """Give each new message its place behind the `ends` of the sessions."""
    last = Counter(ends)
    turns = []
    for message, document_id in zip(fresh, document_ids, strict=False):  # numbers were taken for known messages, too
        last[message.session_id] += 1
        turns.append(
            _Turn(
                message.session_id, last[message.session_id], document_id,
                message.author, message.role, message.content, message.sent_at.astimezone(UTC),
            )
        )  # fmt: skip
    return turns


def _row(message: Message, turn: _Turn, counts: Counter[str]) -> dict[str, Any]:
    # A message without terms gets no vector and no summary: it counts as embedded and summarised at once.
    said = bool(counts)
    return message.model_dump(mode="json", include=set(rows.MESSAGE_COLUMNS)) | {
        "document_id": turn.document_id,
        "position": turn.position,
        "terms": len(counts),
        "embedded_at": None if said else turn.sent_at.isoformat(),
        "summarised_at": None if said else turn.sent_at.isoformat(),
    }


def _documents(
    around: Sequence[_Turn], counts: Mapping[int, Counter[str]], written: Sequence[_Turn]
) -> Iterator[postings.Document]:
    """The messages `written` as documents of the index, with terms from their neighbours.

    `around` has these messages and their neighbours, and `counts` the own terms of all of them, by document id.
    """
    places = {(turn.session_id, turn.position): turn.document_id for turn in around}
    for turn in written:
        if not counts[turn.document_id]:
            continue  # the terms of its neighbours alone must not find a message
        beside: Counter[str] = Counter()
        for offset, weight in NEIGHBOUR_WEIGHTS.items():
            neighbour = places.get((turn.session_id, turn.position + offset))
            for term, count in counts.get(neighbour or 0, {}).items():
                beside[term] += weight * count  # type: ignore[assignment]  # weights are fractions
        own = counts[turn.document_id]
        yield postings.Document(turn.document_id, own + beside, beside.keys() - own.keys())


async def rewrite(
    conn: AsyncConnection[Any], workspace: str, contents: Mapping[str, str], *, without_trace: bool
) -> None:
    """Replace the contents of messages, by their ids, in the caller's transaction; an empty one empties a message.

    With `without_trace`, the whole index of the workspace is looked through, for terms that an earlier release made of
    the former words, too.
    """
    if not contents:
        return
    index = await writer.begin(conn, workspace, "message")
    values = {"workspace": workspace, "ids": list(contents), "window": _WINDOW}
    found = await (await conn.execute(_SQL["session_window"], values)).fetchall()
    turns = [_Turn(*row[1:]) for row in found]
    changed = {
        turn.document_id: _with_content(turn, contents[row[0]])
        for row, turn in zip(found, turns, strict=True)
        if row[0] in contents
    }
    counts = await asyncio.to_thread(_count_terms, turns)
    before = [counts[document_id] for document_id in changed]
    known = set(chain.from_iterable(counts.values()))
    around = [changed.get(turn.document_id, turn) for turn in turns]
    counts |= await asyncio.to_thread(_count_terms, changed.values())
    # Their neighbours are indexed again, since their entries have terms of the changed messages.
    reached = {(t.session_id, t.position - offset) for t in changed.values() for offset in (0, *NEIGHBOUR_WEIGHTS)}
    written = [turn for turn in around if (turn.session_id, turn.position) in reached]
    await conn.execute(
        _SQL["rewrite_messages"],
        {
            "workspace": workspace,
            "documents": list(changed),
            "contents": [turn.content for turn in changed.values()],
            "terms": [len(counts[document_id]) for document_id in changed],
            "without_trace": without_trace,
        },
    )
    await writer.remove_vectors(conn, workspace, changed)
    among: tuple[postings.Corpus, set[str]] | None = None if without_trace else ("message", known)
    await postings.remove(conn, workspace, [turn.document_id for turn in written], among=among)
    documents = _documents(around, counts, written)
    added = [counts[document_id] for document_id in changed]
    await index.write_postings(documents, added=added, removed=before)


def _with_content(turn: _Turn, content: str) -> _Turn:
    return replace(turn, content=content) if content.strip() else replace(turn, content="", author="")


def passage(content: str, author: str) -> str:
    """The text of a message that is embedded."""
    return f"{author}: {content[:_LONGEST]}" if author else content[:_LONGEST]


async def embed_waiting(database: Database, workspace: str, embedder: Embedder) -> int:
    """Embed the messages that have no vector yet, oldest first; returns how many there were.

    Several processes may do this at once: they write the same vectors.
    """
    done = 0
    while True:
        values = {"workspace": workspace, "limit": _EMBED_BATCH}
        waiting = await database.fetch(workspace, _SQL["unembedded"], values)
        if not waiting:
            return done
        made = await _embed_what_can_be(database, workspace, embedder, waiting)
        if not made:
            continue
        async with database.write_transaction(workspace) as conn:
            values = {"workspace": workspace, "documents": [row[0] for row, _ in made]}
            # A message that was erased meanwhile must get no vector: it would be a trace of its words.
            still = set(await (await conn.execute(_SQL["still_unembedded"], values)).fetchall())
            kept = [(row[0], vector) for row, vector in made if row in still]
            if not kept:
                continue  # nor may a workspace be made again that was cleared
            vectors = np.stack([vector for _, vector in kept])
            index = await writer.begin(conn, workspace, "message", model=embedder.name)
            await index.bind(vectors)
            await index.write_vectors([(document, "conversation", True) for document, _ in kept], vectors)
            await conn.execute(_SQL["mark_embedded"], values | {"documents": [document for document, _ in kept]})
        done += len(made)


async def _embed_what_can_be(
    database: Database, workspace: str, embedder: Embedder, waiting: Sequence[_Waiting]
) -> list[tuple[_Waiting, Vectors]]:
    """Embed messages, and return them with their vectors, without those that the model refuses even alone."""
    passages = [passage(content, author) for _, author, content in waiting]
    try:
        return list(zip(waiting, await embedder.embed(passages, "passage"), strict=True))
    except ModelError:
        await embedder.embed([_HARMLESS], "passage")  # if this fails too, the endpoint is at fault, and not a text
    if len(waiting) > 1:
        # One text makes an endpoint refuse the whole batch. Halving the batch again and again finds it.
        middle = len(waiting) // 2
        first = await _embed_what_can_be(database, workspace, embedder, waiting[:middle])
        return first + await _embed_what_can_be(database, workspace, embedder, waiting[middle:])
    try:  # once more: it may have been away for a moment, which was over when the harmless text came
        return list(zip(waiting, await embedder.embed(passages, "passage"), strict=True))
    except ModelError as error:
        document, author, content = waiting[0]
        values = {"workspace": workspace, "document": document, "author": author, "content": content}
        if await database.execute(workspace, _SQL["mark_refused"], values | {"reason": str(error)}):
            log.warning("a message of workspace '%s' gets no vector, words alone find it: %s", workspace, error)
        return []


async def unsummarised_messages(
    database: Database,
    workspace: str,
    *,
    ids: Sequence[str] | None = None,
    session_id: str | None = None,
    limit: int = 500,
    **scope: Unpack[Scope],
) -> list[Message]:
    """Messages that were not summarised yet, oldest first: of `ids`, of a session, of a scope, or of the workspace."""
    values: dict[str, Any] = dict.fromkeys(SCOPES) | {**scope, "workspace": workspace, "session": session_id}
    values |= {"ids": list(ids) if ids is not None else None, "limit": limit}
    found = await database.fetch(workspace, _SQL["unsummarised"], values)
    return [rows.to_message(row) for row in found]


async def conversation(database: Database, workspace: str, session_id: str) -> list[Message]:
    """The messages of one session, in order; erased ones are left out."""
    found = await database.fetch(workspace, _SQL["conversation"], {"workspace": workspace, "session": session_id})
    return [rows.to_message(row) for row in found]


async def said_by_others(database: Database, workspace: str, ids: Sequence[str], author: str) -> set[str]:
    """Those of some messages that other people said; the assistant is nobody else."""
    values = {"workspace": workspace, "ids": list(ids), "author": author}
    return {row[0] for row in await database.fetch(workspace, _SQL["said_by_others"], values)}


async def messages_in_context(database: Database, workspace: str, ids: Sequence[str], *, window: int) -> list[Message]:
    """The messages `ids`, each behind the last `window` messages before it, in the order of their sessions."""
    values = {"workspace": workspace, "ids": list(ids), "window": window}
    return [rows.to_message(row) for row in await database.fetch(workspace, _SQL["in_context"], values)]
