"""Every change to memories, as one value applied in one transaction: all of it happens, or nothing does.

Extraction and reconciliation decide *what* shall change and say so in a `Change`; this module carries it out, so that
"store these two, close that one, and mark their messages as summarised" cannot end half-way.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from reme_core.errors import ConflictError, InputError
from reme_core.schema import Kind, Memory, Source
from reme_core.store import index, postings, rows
from reme_core.store.sql import load

Vectors = npt.NDArray[np.float32]

_SQL = load("memory.sql")
# One statement for memories with all that makes them findable: each further one would be a round trip.
_INSERT = f"with {_SQL['insert_memories']}, {postings.POST} select memory_id from added"

# How much a term counts by where it stands; keywords and subjects are chosen words, so they say more than prose.
_WHEN_TO_USE_WEIGHT, _CONTENT_WEIGHT, _KEYWORD_WEIGHT, _SUBJECT_WEIGHT = 1.5, 1.0, 1.0, 0.5

_FIRST, _PIECE = 50, 250  # memories inserted by one statement
_POSTED = 5_000  # memories whose postings are written together: the more, the fewer segments
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
    return postings.weigh(
        [
            (memory.when_to_use, _WHEN_TO_USE_WEIGHT),
            (memory.content, _CONTENT_WEIGHT),
            (" ".join(memory.keywords), _KEYWORD_WEIGHT),
            (memory.subject, _SUBJECT_WEIGHT),
        ]
    )


_TEXTS = ("memory_id", "content", "when_to_use", "subject", "author")


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
        texts = (memory.memory_id, memory.content, memory.when_to_use, memory.subject, memory.author)
        if not rows.storable("".join(texts)):
            for name, text in zip(_TEXTS, texts, strict=True):
                rows.check_text(f"{name} of memory '{memory.memory_id!r}'", text)
        if memory.keywords or memory.metadata or memory.sources or not math.isfinite(memory.score):
            rest = [memory.score, memory.keywords, memory.metadata, [(s.id, s.quote) for s in memory.sources]]
            rows.check_json(f"score, keywords, metadata or a source of memory '{memory.memory_id!r}'", rest)
    if len({m.memory_id for m in memories}) < len(memories):
        raise InputError("two memories of one call have the same memory_id; give each its own")


async def apply(
    conn: AsyncConnection[Any], workspace: str, change: Change, vectors: Vectors, *, model: str
) -> index.IndexState:
    """Carry out a change inside the caller's `Database.writing`; `vectors` belong to `change.add`, row by row.

    Returns:
        The state of the index that the change found.

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
    return state


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


_Piece = tuple[list[str], dict[str, Any]]  # the ids of some memories, and the values of `_INSERT` for them


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
    await index.bind(conn, workspace, vectors, state, model=model)
    missing: list[str] = []
    pieces = _pieces(workspace, memories, vectors, state, model)
    async for ids, values in _ahead(pieces, in_thread=len(memories) > _ALONE):
        there = {row[0] for row in await (await conn.execute(_INSERT, values)).fetchall()}
        missing.extend(memory_id for memory_id in ids if memory_id not in there)
    return missing


async def _ahead(pieces: Iterator[_Piece], *, in_thread: bool) -> AsyncIterator[_Piece]:
    """Each piece; many are put together in a thread, the next one while Postgres takes this one in."""
    if not in_thread:
        for piece in pieces:
            yield piece
        return
    loop = asyncio.get_running_loop()
    coming = loop.run_in_executor(None, next, pieces, None)
    while following := await coming:
        coming = loop.run_in_executor(None, next, pieces, None)
        yield following


def _pieces(
    workspace: str, memories: Sequence[Memory], vectors: Vectors, state: index.IndexState, model: str
) -> Iterator[_Piece]:
    """Memories as the values of `_INSERT`, piece by piece; some bring the postings of those before them as well."""
    unposted: list[Counter[str]] = []
    # The first is small, so that Postgres soon has something to do.
    bounds = [0, *range(min(_FIRST, len(memories)), len(memories), _PIECE), len(memories)]
    for start, end in pairwise(bounds):
        part, numbers = memories[start:end], state.document_ids[start:end]
        unposted.extend(weigh(memory) for memory in part)
        posted = unposted if end == len(memories) or len(unposted) >= _POSTED else []
        documents = map(postings.Document, state.document_ids[end - len(posted) : end], posted)
        described = [_described(memory, number) for memory, number in zip(part, numbers, strict=True)]
        stored = [rows.from_memory(workspace, memory, number) for memory, number in zip(part, numbers, strict=True)]
        yield (
            [memory.memory_id for memory in part],
            {
                "rows": json.dumps(stored),
                "sources": json.dumps(_evidence(workspace, {memory.memory_id: memory.sources for memory in part})),
                **index.vector_values(workspace, described, vectors[start:end], model=model, hnsw=state.hnsw),
                **postings.postings(workspace, "memory", documents, state.mean_length),
                **postings.count(added=posted),
            },
        )
        if posted:
            unposted = []


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
    removed, added = weigh(before), weigh(after)
    await index.bind(conn, workspace, vector, state, model=model)
    async with conn.pipeline():
        await postings.remove(conn, workspace, [document_id], among=("memory", removed))
        await index.remove_vectors(conn, workspace, [document_id])
        await index.write_vectors(
            conn, workspace, [_described(after, document_id)], vector, model=model, hnsw=state.hnsw
        )
        document = postings.Document(document_id, added)
        await postings.write(conn, workspace, "memory", [document], state.mean_length, added=[added], removed=[removed])


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
