"""Every change to memories, as one value applied in one transaction: all of it happens, or nothing does.

Extraction and reconciliation decide *what* shall change and say so in a `Change`; this module carries it out, so that
"store these two, close that one, and mark their messages as summarised" cannot end half-way.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from reme_core.errors import ConflictError, InputError
from reme_core.schema import Kind, Memory, Source
from reme_core.store import index, rows
from reme_core.store.sql import load

Vectors = npt.NDArray[np.float32]

_SQL = load("memory.sql")
# One statement for memories with all that makes them findable: each further one would be a round trip.
_INSERT = f"with {_SQL['insert_memories']}, {index.POST} select memory_id from added"

# How much a term counts by where it stands; keywords and subjects are chosen words, so they say more than prose.
_WHEN_TO_USE_WEIGHT, _CONTENT_WEIGHT, _KEYWORD_WEIGHT, _SUBJECT_WEIGHT = 1.5, 1.0, 1.0, 0.5

_PIECE = 250  # memories inserted by one statement
_ALONE = 20  # memories that are put together faster than a thread takes over


@dataclass(frozen=True, slots=True)
class Close:
    """End a memory: `superseded` (by another), `expired` (no longer so) or `deleted` (by a user).

    `holds_until` ends it on the axis of the world as well; without it only our knowledge ends.
    """

    memory_id: str
    status: Literal["superseded", "expired", "deleted"]
    superseded_by: str | None = None
    holds_until: datetime | None = None


@dataclass(slots=True)
class Change:
    """What shall change in one workspace.

    `restate` counts memories that were said again; `summarised` marks messages as done, and the whole change is
    refused if another worker was faster, so that a job that runs twice leaves one result. `support` gives stored
    memories further evidence, and `annotate` adds to their metadata. `decided_after` is the workspace's
    `Memories.version` that the change was decided on: where a memory was added or closed since, it is refused.
    """

    add: Sequence[Memory] = ()
    close: Sequence[Close] = ()
    restate: Sequence[str] = ()
    summarised: Sequence[str] = ()
    support: Mapping[str, Sequence[Source]] = field(default_factory=dict)
    annotate: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    decided_after: int | None = None


def searched_text(memory: Memory) -> str:
    """What a query is compared with by meaning: the situation for experience, the statement for everything else."""
    if memory.kind in (Kind.TASK, Kind.TOOL, Kind.MISTAKE) and memory.when_to_use:
        return memory.when_to_use
    return memory.content or memory.when_to_use


def weigh(memory: Memory) -> Counter[str]:
    """The terms by which the lexical leg finds a memory, each with its weight."""
    return index.weigh(
        [
            (memory.when_to_use, _WHEN_TO_USE_WEIGHT),
            (memory.content, _CONTENT_WEIGHT),
            (" ".join(memory.keywords), _KEYWORD_WEIGHT),
            (memory.subject, _SUBJECT_WEIGHT),
        ]
    )


def check(memories: Sequence[Memory]) -> None:
    """Refuse memories that cannot be stored, before anything is embedded or written.

    Raises:
        InputError: One has no text, a text that Postgres cannot hold, or the kind of a raw message.
    """
    for memory in memories:
        if not (memory.content.strip() or memory.when_to_use.strip()):
            raise InputError(f"memory '{memory.memory_id}' has no text; give it a content")
        if memory.kind == Kind.CONVERSATION:
            raise InputError("kind 'conversation' is for raw messages; record them with record(messages)")
        for name in ("memory_id", "content", "when_to_use", "subject", "author"):
            rows.check_text(f"{name} of memory '{memory.memory_id!r}'", getattr(memory, name))
        rest = [memory.score, memory.keywords, memory.metadata, [(s.id, s.quote) for s in memory.sources]]
        rows.check_json(f"score, keywords, metadata or a source of memory '{memory.memory_id!r}'", rest)
    if len({m.memory_id for m in memories}) < len(memories):
        raise InputError("two memories of one call have the same memory_id; give each its own")


async def apply(conn: AsyncConnection[Any], workspace: str, change: Change, vectors: Vectors, *, model: str) -> int:
    """Carry out a change inside the caller's `Database.writing`; `vectors` belong to `change.add`, row by row.

    Returns:
        How many memories have vectors that are scanned exactly: 0 where the workspace is in the HNSW index.

    Raises:
        ConflictError: An added id exists already, a closed or restated memory is not there, the messages were
            summarised by somebody else, or the store is not the one the change was decided on. The transaction has to
            be rolled back, which leaving it by this error does.
    """
    state = await index.begin(conn, workspace, "memory", count=len(change.add))
    if change.decided_after is not None:
        await _expect_unchanged(conn, workspace, change.decided_after)
    if change.summarised:
        ids = list(change.summarised)
        await _expect(conn, workspace, "mark_summarised", ids, "messages were summarised already")
    if change.add:
        await _add(conn, workspace, change.add, vectors, state, model)
    if change.close:
        closed = await close(conn, workspace, change.close)
        missing = [c.memory_id for c in change.close if c.memory_id not in closed]
        if missing:
            raise _conflict(workspace, "no active memory has the id", missing)
    if change.restate:
        await _expect(conn, workspace, "restate_memories", list(change.restate), "no memory has the id")
    if change.support:
        await conn.execute(_SQL["insert_sources"], {"rows": Jsonb(_evidence(workspace, change.support))})
    if change.annotate:
        notes = [{"memory_id": memory_id, "metadata": dict(note)} for memory_id, note in change.annotate.items()]
        ids = list(change.annotate)
        await _expect(conn, workspace, "annotate_memories", ids, "no memory has the id", rows=Jsonb(notes))
    return 0 if state.hnsw else state.documents + len(change.add)


async def _add(
    conn: AsyncConnection[Any],
    workspace: str,
    memories: Sequence[Memory],
    vectors: Vectors,
    state: index.IndexState,
    model: str,
) -> None:
    missing = await insert(conn, workspace, memories, vectors, state, model)
    if missing:
        raise _conflict(workspace, "a memory with this id exists already", missing)
    gone = await _gone_evidence(conn, workspace, memories)
    if gone:
        raise _conflict(workspace, "what a memory rests on is not there, or was erased meanwhile", gone)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Some of the memories to insert, as the values of the statements that do it."""

    rows: list[dict[str, Any]]
    sources: list[dict[str, Any]]
    described: list[tuple[int, str, bool]]
    vectors: Vectors
    counts: list[Counter[str]]
    postings: dict[str, Any]

    @classmethod
    def of(cls, workspace: str, numbered: Sequence[tuple[Memory, int]], vectors: Vectors, mean_length: float) -> _Piece:
        counts = [weigh(memory) for memory, _ in numbered]
        documents = [index.Document(number, count) for (_, number), count in zip(numbered, counts, strict=True)]
        return cls(
            rows=[rows.from_memory(workspace, memory, number) for memory, number in numbered],
            sources=_evidence(workspace, {memory.memory_id: memory.sources for memory, _ in numbered}),
            described=[_described(memory, number) for memory, number in numbered],
            vectors=vectors,
            counts=counts,
            postings=index.postings(workspace, "memory", documents, mean_length),
        )  # fmt: skip


async def insert(
    conn: AsyncConnection[Any],
    workspace: str,
    memories: Sequence[Memory],
    vectors: Vectors,
    state: index.IndexState,
    model: str,
) -> list[str]:
    """Insert memories with sources, vectors and postings, numbered as `state` says.

    Returns:
        The ids that were there already; when there are any, the transaction must be rolled back.
    """
    numbered = list(zip(memories, state.document_ids, strict=True))
    loop = asyncio.get_running_loop()

    def prepare(start: int) -> _Piece:
        end = start + _PIECE
        return _Piece.of(workspace, numbered[start:end], vectors[start:end], state.mean_length)

    added: list[Counter[str]] = []
    missing: list[str] = []
    ahead = None if len(numbered) < _ALONE else loop.run_in_executor(None, prepare, 0)
    await index.bind(conn, workspace, vectors, state, model=model)
    for start in range(0, len(numbered), _PIECE):
        # While Postgres takes one piece in, the next one is stemmed and put together in a thread.
        piece = await ahead if ahead else prepare(start)
        more = start + _PIECE < len(numbered)
        ahead = loop.run_in_executor(None, prepare, start + _PIECE) if more else None
        added.extend(piece.counts)
        values = {
            "rows": Jsonb(piece.rows),
            "sources": Jsonb(piece.sources),
            **index.vector_values(workspace, piece.described, piece.vectors, model=model, hnsw=state.hnsw),
            **index.posting_values(piece.postings, added=() if more else added),
        }
        inserted = await conn.execute(_INSERT, values)
        there = {row[0] for row in await inserted.fetchall()}
        missing.extend(row["memory_id"] for row in piece.rows if row["memory_id"] not in there)
    return missing


async def reindex(
    conn: AsyncConnection[Any],
    workspace: str,
    before: Memory,
    after: Memory,
    document_id: int,
    vector: Vectors,
    state: index.IndexState,
    model: str,
) -> None:
    """Make a changed memory findable by its new words and its new vector, shape (1, width)."""
    counts = weigh(after)
    found = index.postings(workspace, "memory", [index.Document(document_id, counts)], state.mean_length)
    await index.bind(conn, workspace, vector, state, model=model)
    async with conn.pipeline():
        await index.remove(conn, workspace, [document_id])
        await index.write_vectors(
            conn, workspace, [_described(after, document_id)], vector, model=model, hnsw=state.hnsw
        )
        await index.write_postings(conn, found, added=[counts], removed=[weigh(before)])


def _described(memory: Memory, number: int) -> tuple[int, str, bool]:
    return number, str(memory.kind), memory.status == "active"


async def _gone_evidence(conn: AsyncConnection[Any], workspace: str, memories: Sequence[Memory]) -> list[str]:
    """Evidence that was erased, so that what was concluded from it before must not be stored after."""
    sources = [source for memory in memories for source in memory.sources]
    if not sources:
        return []
    values = {
        "workspace": workspace,
        "messages": [s.id for s in sources if s.kind == "message"],
        "memories": [s.id for s in sources if s.kind == "memory"],
    }
    return [row[0] for row in await (await conn.execute(_SQL["gone_evidence"], values)).fetchall()]


async def close(conn: AsyncConnection[Any], workspace: str, closing: Sequence[Close]) -> set[str]:
    """End memories inside the caller's transaction; returns the ids of those that were active."""
    values = [
        {
            "memory_id": c.memory_id,
            "status": c.status,
            "superseded_by": c.superseded_by,
            "holds_until": c.holds_until.isoformat() if c.holds_until else None,
        }
        for c in closing
    ]
    cursor = await conn.execute(_SQL["close_memories"], {"workspace": workspace, "rows": Jsonb(values)})
    return {row[0] for row in await cursor.fetchall()}


def _evidence(workspace: str, sources: Mapping[str, Sequence[Source]]) -> list[dict[str, str]]:
    return [
        {
            "workspace_id": workspace,
            "memory_id": memory_id,
            "source_kind": s.kind,
            "source_id": s.id,
            "quote": s.quote,
        }
        for memory_id, of_it in sources.items()
        for s in of_it
    ]


async def _expect_unchanged(conn: AsyncConnection[Any], workspace: str, version: int) -> None:
    cursor = await conn.execute(_SQL["changed_since"], {"workspace": workspace, "version": version})
    if await cursor.fetchone():
        raise ConflictError(
            f"nothing was changed in workspace '{workspace}': its memories changed since this was decided; decide again"
        )


async def _expect(
    conn: AsyncConnection[Any], workspace: str, statement: str, ids: Sequence[str], problem: str, **values: Any
) -> None:
    """Run a statement that returns the ids it touched; any that is missing is a conflict."""
    cursor = await conn.execute(_SQL[statement], {"workspace": workspace, "ids": ids, **values})
    touched = {row[0] for row in await cursor.fetchall()}
    missing = [i for i in ids if i not in touched]
    if missing:
        raise _conflict(workspace, problem, missing)


def _conflict(workspace: str, problem: str, ids: Sequence[str]) -> ConflictError:
    shown = ", ".join(ids[:5]) + (f" and {len(ids) - 5} more" if len(ids) > 5 else "")
    return ConflictError(f"nothing was changed in workspace '{workspace}': {problem}: {shown}")
