"""Every change to memories, as one value applied in one transaction: all of it happens, or nothing does.

Extraction and reconciliation decide *what* shall change and say so in a `Change`; this module carries it out, so that
"store these two, close that one, and mark their messages as summarised" cannot end half-way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import anyio.to_thread
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

# How much a term counts by where it stands; keywords and subjects are chosen words, so they say more than prose.
_WHEN_TO_USE_WEIGHT, _CONTENT_WEIGHT, _KEYWORD_WEIGHT, _SUBJECT_WEIGHT = 1.5, 1.0, 1.0, 0.5


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


def lexical_fields(memory: Memory) -> list[tuple[str, float]]:
    """The texts that the lexical leg looks at, each with its weight."""
    return [
        (memory.when_to_use, _WHEN_TO_USE_WEIGHT),
        (memory.content, _CONTENT_WEIGHT),
        (" ".join(memory.keywords), _KEYWORD_WEIGHT),
        (memory.subject, _SUBJECT_WEIGHT),
    ]


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
    if len({m.memory_id for m in memories}) < len(memories):
        raise InputError("two memories of one call have the same memory_id; give each its own")


async def apply(conn: AsyncConnection[Any], workspace: str, change: Change, vectors: Vectors, *, model: str) -> None:
    """Carry out a change inside the caller's transaction; `vectors` belong to `change.add`, row by row.

    Raises:
        ConflictError: An added id exists already, a closed or restated memory is not there, the messages were
            summarised by somebody else, or the store is not the one the change was decided on. The transaction has to
            be rolled back, which leaving it by this error does.
    """
    if change.decided_after is not None:
        await _expect_unchanged(conn, workspace, change.decided_after)
    if change.summarised:
        ids = list(change.summarised)
        await _expect(conn, workspace, "mark_summarised", ids, "messages were summarised already")
    if change.add:
        await _add(conn, workspace, change.add, vectors, model)
    if change.close:
        closing = [
            {
                "memory_id": c.memory_id,
                "status": c.status,
                "superseded_by": c.superseded_by,
                "holds_until": c.holds_until.isoformat() if c.holds_until else None,
            }
            for c in change.close
        ]
        ids = [c.memory_id for c in change.close]
        await _expect(conn, workspace, "close_memories", ids, "no active memory has the id", rows=Jsonb(closing))
    if change.restate:
        await _expect(conn, workspace, "restate_memories", list(change.restate), "no memory has the id")
    if change.support:
        await conn.execute(_SQL["insert_sources"], {"rows": Jsonb(_evidence(workspace, change.support))})
    if change.annotate:
        notes = [{"memory_id": memory_id, "metadata": dict(note)} for memory_id, note in change.annotate.items()]
        ids = list(change.annotate)
        await _expect(conn, workspace, "annotate_memories", ids, "no memory has the id", rows=Jsonb(notes))


async def _add(
    conn: AsyncConnection[Any], workspace: str, memories: Sequence[Memory], vectors: Vectors, model: str
) -> None:
    state = await index.begin(conn, workspace, "memory", count=len(memories))
    numbered = list(zip(memories, state.document_ids, strict=True))
    added = [rows.from_memory(workspace, memory, number) for memory, number in numbered]
    ids = [m.memory_id for m in memories]
    await _expect(conn, workspace, "insert_memories", ids, "a memory with this id exists already", rows=Jsonb(added))
    evidence = _evidence(workspace, {m.memory_id: m.sources for m in memories})
    if evidence:
        await conn.execute(_SQL["insert_sources"], {"rows": Jsonb(evidence)})
    await write_index(conn, workspace, numbered, vectors, state, model)


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
    values = {"workspace": workspace, "version": version}
    await conn.execute(_SQL["lock_index"], values)
    cursor = await conn.execute(_SQL["changed_since"], values)
    if await cursor.fetchone():
        raise ConflictError(
            f"nothing was changed in workspace '{workspace}': its memories changed since this was decided; decide again"
        )


async def write_index(
    conn: AsyncConnection[Any],
    workspace: str,
    numbered: Sequence[tuple[Memory, int]],
    vectors: Vectors,
    state: index.IndexState,
    model: str,
) -> None:
    """Make memories findable: `numbered` gives each with its document number, `vectors` row by row."""

    def weigh_all() -> list[index.Document]:
        return [index.Document(number, index.weigh(lexical_fields(memory))) for memory, number in numbered]

    # Stemming many texts takes a while, so that happens in a thread.
    documents = weigh_all() if len(numbered) < 20 else await anyio.to_thread.run_sync(weigh_all)
    described = [(number, str(memory.kind), memory.status == "active") for memory, number in numbered]
    await index.add_vectors(conn, workspace, described, vectors, state, model=model)
    await index.write_postings(conn, workspace, "memory", documents, state)
    await index.count(conn, workspace, "memory", added=[document.counts for document in documents])


async def _expect(
    conn: AsyncConnection[Any], workspace: str, statement: str, ids: Sequence[str], problem: str, **values: Any
) -> None:
    """Run a statement that returns the ids it touched; any that is missing is a conflict."""
    cursor = await conn.execute(_SQL[statement], {"workspace": workspace, "ids": ids, **values})
    touched = {row[0] for row in await cursor.fetchall()}
    missing = [i for i in ids if i not in touched]
    if missing:
        shown = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        raise ConflictError(f"nothing was changed in workspace '{workspace}': {problem}: {shown}")
