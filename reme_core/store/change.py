"""A change of memories as one value, which is applied in one transaction: all of it, or nothing.

Summaries and other flows decide what shall change and put it into a `Change`. This module applies it, so that "store
these two, close that one, and mark their messages as summarised" cannot stop half-way.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain, pairwise
from typing import Any, Final, Literal, NamedTuple, TypeVar

import numpy as np
from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from reme_core.errors import ConflictError, InputError
from reme_core.models.base import Embedder, Vectors
from reme_core.store import rows
from reme_core.store.index import hnsw, postings, writer
from reme_core.store.sql import load
from reme_core.types import SCOPES, Kind, Memory, Scope, Source

Result = TypeVar("Result")
Embedded = Mapping[tuple[str, str], Vectors]
"""Vectors that are made already, by the name of their model and their text."""

ATTEMPTS: Final = 8  # chosen, not measured: more than the writers that one workspace usually has at once

_GIVEN = [column for column in rows.COLUMNS if column != "recorded_at"]  # which is when a row is inserted
_SQL = load("memory.sql", columns=rows.select(_GIVEN), names=", ".join(_GIVEN))
# One statement writes memories with their sources, vectors and postings: each further statement costs a round trip.
_INSERT = (
    f"with added as ({_SQL['insert_memories']}), embedded as ({_SQL['insert_embeddings']}),"
    f" evidenced as ({_SQL['insert_sources']}), {postings.POST} select memory_id from added"
)

# How much a term counts in each field of a memory.
_WHEN_TO_USE_WEIGHT, _CONTENT_WEIGHT, _KEYWORD_WEIGHT, _SUBJECT_WEIGHT = 1.5, 1.0, 1.0, 0.5

# Memories that one statement inserts. Postgres works on a batch while the next is prepared; the first batch is small,
# so that Postgres starts soon.
_FIRST_BATCH, _BATCH = 50, 250
_POSTING_BATCH = 5_000  # memories whose postings are written together: larger batches make fewer segments


@dataclass(frozen=True, slots=True)
class Close:
    """Close a memory: as superseded by another, as expired, or as deleted by a user."""

    memory_id: str
    status: Literal["superseded", "expired", "deleted"]
    superseded_by: str | None = None
    holds_until: datetime | None = None
    """The end of the time in which it holds in the world; with None, `valid_during` stays as it is."""


@dataclass(frozen=True, slots=True)
class Erase:
    """Erase memories because a person said so; what others say stays, even in the same words."""

    memory_ids: Sequence[str]
    """Ids of no memory are ignored: somebody else has erased it."""
    subject: str
    """Whose memories are the person's, as well as those that are nobody's in particular."""
    author: str
    """By what name the person's messages are known; those without a name are the person's, too."""
    scope: Scope
    """What is outside of it is said by others."""


class Version(NamedTuple):
    """The state of a workspace's memories: any change of them gives another one."""

    change: int
    """The last entry of their history."""
    erased_at: datetime | None
    """When something was last erased, which leaves no entry."""


@dataclass(slots=True)
class Change:
    """What shall change in one workspace."""

    add: Sequence[Memory] = ()
    close: Sequence[Close] = ()
    confirm: Sequence[str] = ()
    """Ids of memories that were said again."""
    renew: Sequence[str] = ()
    """Ids of memories that were pruned and are learned again: they are active, and no use of them was counted yet."""
    summarised: Mapping[str, str] = field(default_factory=dict)
    """Ids of messages to mark as summarised, with the words that were read. If another job has marked one of them, or
    it was edited, the change is refused."""
    guided: Sequence[str] = ()
    """Hashes of calls of tools to mark as used for guidance. If another job has marked one, the change is refused."""
    learned: Sequence[str] = ()
    """Ids of episodes whose lessons these are. If one is gone, or its lessons were made, the change is refused."""
    support: Mapping[str, Sequence[Source]] = field(default_factory=dict)
    """Further evidence for stored memories, by their ids; the newest dates a memory that is word for word."""
    annotate: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What to add to the metadata of stored memories, by their ids."""
    erase: Sequence[Erase] = ()
    """What to erase, after all else."""
    expected_version: Version | None = None
    """The `Memories.version` on which the change was decided; if memories changed since then, the change is refused."""
    embedded: Embedded = field(default_factory=dict)
    """Vectors of what is added, as far as they are made already."""


async def retry_conflicts(change: Callable[[int], Awaitable[Result]], attempts: int = ATTEMPTS) -> Result:
    """Await `change(0)`, then `change(1)` and so on, until one meets no conflict; each decides anew what to change.

    Raises:
        ConflictError: All attempts met a conflict.
    """
    for attempt in range(attempts - 1):
        with suppress(ConflictError):
            return await change(attempt)
    return await change(attempts - 1)  # the last one raises its conflict


def searched_text(memory: Memory) -> str:
    """The text that is embedded for a memory: for experience the situation and the lesson, else the statement."""
    # A query names the situation in other words, or names what went wrong in it. docs/retrieval.md has the figures.
    if memory.kind in (Kind.TASK, Kind.TOOL, Kind.MISTAKE):
        return "\n".join(text for text in (memory.when_to_use, memory.content) if text)
    return memory.content or memory.when_to_use


async def vectors_of(memories: Sequence[Memory], embedder: Embedder, embedded: Embedded) -> Vectors:
    """The vectors of memories, a row each; those that this embedder made already are not made again."""
    texts = [searched_text(memory) for memory in memories]
    known = {text: embedded[embedder.name, text] for text in texts if (embedder.name, text) in embedded}
    if missing := [text for text in dict.fromkeys(texts) if text not in known]:
        known |= zip(missing, await embedder.embed(missing, "passage"), strict=True)
    return np.stack([known[text] for text in texts]) if texts else np.empty((0, 1), np.float32)


def weigh(memory: Memory) -> Counter[str]:
    """The terms by which the lexical leg finds a memory, each with its weight."""
    return postings.weigh(
        [
            (memory.when_to_use, _WHEN_TO_USE_WEIGHT),
            (memory.content, _CONTENT_WEIGHT),
            (" ".join(memory.keywords), _KEYWORD_WEIGHT),
            (memory.subject, _SUBJECT_WEIGHT),
        ]
    )


def is_found_otherwise(before: Memory, after: Memory) -> bool:
    """Whether a memory that was changed has to be indexed again, by its words and its vector."""
    # Words in another order have another vector, and of what is searched the kind decides.
    return any(getattr(before, name) != getattr(after, name) for name in _INDEXED)


_INDEXED = ("kind", "subject", "when_to_use", "content", "keywords")
_TEXTS = ("memory_id", "content", "when_to_use", "subject", "author", *SCOPES)


def check(memories: Sequence[Memory]) -> None:
    """Raise an `InputError` for memories that cannot be stored, before anything is embedded or written."""
    for place, memory in enumerate(memories, 1):
        name = rows.name_of(memory, place, len(memories))
        if not (memory.content.strip() or memory.when_to_use.strip()):
            raise InputError(f"{name} has no text; give it a content")
        if memory.kind == Kind.CONVERSATION:
            raise InputError("kind 'conversation' is for raw messages; record them with record(messages)")
        if memory.status == "active" and memory.expired_at:
            raise InputError(f"{name} is active and has an expired_at; valid_until is the end of the time it holds for")
        begins, ends = memory.valid_from, memory.valid_until
        # In UTC: else what the clocks of one zone show is compared, also in the night in which they are set back.
        if begins and ends and ends.astimezone(UTC) < begins.astimezone(UTC):
            span = f"valid_until of {name} ({memory.valid_until}) is before its valid_from ({memory.valid_from})"
            raise InputError(f"{span}; swap them")
        rows.check_texts(name, memory, _TEXTS)
        if memory.keywords or memory.metadata or memory.sources or not math.isfinite(memory.score):
            rest = [memory.score, memory.keywords, memory.metadata, [(s.id, s.quote) for s in memory.sources]]
            rows.check_json(f"score, keywords, metadata or a source of {name}", rest)
    if len({m.memory_id for m in memories}) < len(memories):
        raise InputError("two memories of one call have the same memory_id; give each its own")


async def apply(
    conn: AsyncConnection[Any], workspace: str, change: Change, vectors: Vectors, *, model: str
) -> writer.IndexWriter:
    """Carry out a change in the caller's `Database.write_transaction`; returns what has written to the index.

    What is to be erased is left to the caller (`reme_core.store.erasure.erase_as_told`).

    Row n of `vectors` belongs to `change.add[n]`.

    Raises:
        ConflictError: An added id exists already, a memory to close or confirm does not exist, a message or a call was
            used already, or memories were changed since the change was decided. This error has to leave the
            transaction, so that it is rolled back.
    """
    index = await writer.begin(conn, workspace, "memory", count=len(change.add), model=model)
    if change.expected_version is not None:
        await _expect_unchanged(conn, workspace, change.expected_version)
    read = change.summarised
    hashes = [hashlib.md5(words.encode(), usedforsecurity=False).hexdigest() for words in read.values()]
    await _expect(conn, workspace, "mark_read", read, "messages were summarised already, or edited", hashes=hashes)
    await _expect(conn, workspace, "mark_guided", change.guided, "guidance was made from these calls already")
    await _expect(conn, workspace, "mark_learned", change.learned, "episodes are gone, or were learned from already")
    if change.add:
        if existing := await insert(index, change.add, vectors):
            raise _conflict(workspace, "a memory with this id exists already", existing)
        if missing := await _missing_evidence(conn, workspace, change.add):
            raise _conflict(workspace, "what a memory rests on is not there, or was erased meanwhile", missing)
    if change.close:
        closed = await close(conn, workspace, change.close)
        if missing := [c.memory_id for c in change.close if c.memory_id not in closed]:
            raise _conflict(workspace, "no active memory has the id", missing)
    await _expect(conn, workspace, "renew_memories", change.renew, "no pruned memory has the id")
    # After the additions: a memory that was just added may get evidence and notes, too.
    await _expect(conn, workspace, "confirm_memories", change.confirm, "no memory has the id")
    if change.support:
        values = {"workspace": workspace, "sources": Jsonb(_source_rows(change.support)), "ids": list(change.support)}
        await conn.execute(_SQL["insert_sources"], values)
        await conn.execute(_SQL["date_quotes"], values)
    notes = Jsonb([{"memory_id": name, "metadata": dict(note)} for name, note in change.annotate.items()])
    await _expect(conn, workspace, "annotate_memories", change.annotate, "no memory has the id", rows=notes)
    return index


_Batch = tuple[list[str], dict[str, Any]]  # the ids of some memories, and the values of `_INSERT` for them


async def insert(index: writer.IndexWriter, memories: Sequence[Memory], vectors: Vectors) -> list[str]:
    """Insert memories with sources, vectors and postings, under the document numbers of `index`.

    If they are many, their vectors join the HNSW index later: until this transaction ends, other writers wait.

    Returns the ids that existed already; if there are any, the transaction must be rolled back.
    """
    await index.bind(vectors)
    if index.hnsw and len(memories) > hnsw.INSERTED:
        await hnsw.leave_for_later(index.conn, index.workspace, index.document_ids[0])
        index = replace(index, hnsw=False)
    existing: list[str] = []
    batches = _batches(index, memories, vectors)
    async for ids, values in _prepare(batches, ahead=len(memories) > postings.WITHOUT_THREAD):
        inserted = {row[0] for row in await (await index.conn.execute(_INSERT, values)).fetchall()}
        existing.extend(memory_id for memory_id in ids if memory_id not in inserted)
    return existing


async def _prepare(batches: Iterator[_Batch], *, ahead: bool) -> AsyncIterator[_Batch]:
    """The batches; with `ahead`, a thread prepares each one while Postgres works on the one before."""
    if not ahead:
        for batch in batches:
            yield batch
        return
    loop = asyncio.get_running_loop()
    coming = loop.run_in_executor(None, next, batches, None)
    while found := await coming:
        coming = loop.run_in_executor(None, next, batches, None)
        yield found


def _batches(index: writer.IndexWriter, memories: Sequence[Memory], vectors: Vectors) -> Iterator[_Batch]:
    """Memories as values of `_INSERT`. A batch may also have the postings of the memories before it."""
    unposted: list[Counter[str]] = []
    bounds = [0, *range(min(_FIRST_BATCH, len(memories)), len(memories), _BATCH), len(memories)]
    for start, end in pairwise(bounds):
        part, numbers = memories[start:end], index.document_ids[start:end]
        unposted.extend(weigh(memory) for memory in part)
        to_post = unposted if end == len(memories) or len(unposted) >= _POSTING_BATCH else []
        # The memories without postings are the last ones up to `end`, and so are their numbers.
        documents = map(postings.Document, index.document_ids[end - len(to_post) : end], to_post)
        vector_keys = [_vector_key(memory, number) for memory, number in zip(part, numbers, strict=True)]
        stored = [rows.from_memory(memory, number) for memory, number in zip(part, numbers, strict=True)]
        yield (
            [memory.memory_id for memory in part],
            {
                "rows": json.dumps(stored),
                "sources": json.dumps(_source_rows({memory.memory_id: memory.sources for memory in part})),
                **index.vector_values(vector_keys, vectors[start:end]),
                **postings.postings(index.workspace, "memory", documents, index.mean_length),
                **postings.count(added=to_post),
            },
        )
        if to_post:
            unposted = []


async def reindex(index: writer.IndexWriter, before: Memory, after: Memory, document_id: int, vector: Vectors) -> None:
    """Index a changed memory by its new words and its new vector, of shape (1, width)."""
    removed, added = weigh(before), weigh(after)
    await index.bind(vector)
    async with index.conn.pipeline():
        await postings.remove(index.conn, index.workspace, [document_id], among=("memory", removed))
        await writer.remove_vectors(index.conn, index.workspace, [document_id])
        await index.write_vectors([_vector_key(after, document_id)], vector)
        await index.write_postings([postings.Document(document_id, added)], added=[added], removed=[removed])


async def unindex(
    conn: AsyncConnection[Any], workspace: str, memories: Mapping[int, Memory], *, without_trace: bool
) -> None:
    """Remove memories, which stand by their document numbers, from the index.

    With `without_trace`, terms that an earlier release made of them are looked for, too; see `postings.remove`.
    """
    removed = await asyncio.to_thread(list, map(weigh, memories.values()))
    known = set(chain.from_iterable(removed))
    await writer.remove_vectors(conn, workspace, memories)
    await postings.remove(conn, workspace, memories, among=None if without_trace else ("memory", known))
    nothing = postings.postings(workspace, "memory", (), 1.0)
    await conn.execute(postings.WRITE, nothing | postings.count(removed=removed))


def _vector_key(memory: Memory, number: int) -> writer.VectorKey:
    return number, str(memory.kind), memory.status == "active"


async def _missing_evidence(conn: AsyncConnection[Any], workspace: str, memories: Sequence[Memory]) -> list[str]:
    """Ids of the evidence of memories that is gone or was erased."""
    # A message may be erased while a model reads it; what was concluded from it must not be stored then.
    sources = [source for memory in memories for source in memory.sources]
    if not sources:
        return []
    values = {
        "workspace": workspace,
        "messages": [s.id for s in sources if s.kind == "message"],
        "memories": [s.id for s in sources if s.kind == "memory"],
    }
    return [row[0] for row in await (await conn.execute(_SQL["missing_evidence"], values)).fetchall()]


async def close(conn: AsyncConnection[Any], workspace: str, closing: Sequence[Close]) -> set[str]:
    """Close active memories, or delete closed ones, in the caller's transaction; returns the ids of these."""
    values = [asdict(one) | {"holds_until": one.holds_until and one.holds_until.isoformat()} for one in closing]
    cursor = await conn.execute(_SQL["close_memories"], {"workspace": workspace, "rows": Jsonb(values)})
    return {row[0] for row in await cursor.fetchall()}


def _source_rows(sources: Mapping[str, Sequence[Source]]) -> list[dict[str, str]]:
    return [
        {"memory_id": memory_id, "source_kind": s.kind, "source_id": s.id, "quote": s.quote}
        for memory_id, of_it in sources.items()
        for s in of_it
    ]


async def _expect_unchanged(conn: AsyncConnection[Any], workspace: str, version: Version) -> None:
    cursor = await conn.execute(_SQL["changed_since"], {"workspace": workspace, **version._asdict()})
    if await cursor.fetchone() != (False,):
        raise ConflictError(
            f"nothing was changed in workspace '{workspace}': its memories changed since this was decided; decide again"
        )


async def _expect(
    conn: AsyncConnection[Any], workspace: str, statement: str, ids: Collection[str], problem: str, **values: Any
) -> None:
    """Run a statement that returns which of `ids` it changed, if there are any; raise a conflict if it left one out."""
    if not ids:
        return
    cursor = await conn.execute(_SQL[statement], {"workspace": workspace, "ids": list(ids), **values})
    changed = {row[0] for row in await cursor.fetchall()}
    if missing := [i for i in ids if i not in changed]:
        raise _conflict(workspace, problem, missing)


def _conflict(workspace: str, problem: str, ids: Sequence[str]) -> ConflictError:
    shown = ", ".join(ids[:5]) + (f" and {len(ids) - 5} more" if len(ids) > 5 else "")
    return ConflictError(f"nothing was changed in workspace '{workspace}': {problem}: {shown}")
