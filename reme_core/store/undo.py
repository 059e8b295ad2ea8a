"""Undo: bringing memories back to an earlier state in their history, all of them or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from reme_core.errors import ConflictError, InputError, NotFoundError
from reme_core.models import Embedder
from reme_core.postgres.database import Database
from reme_core.store import change, rows
from reme_core.store.change import Close, Version
from reme_core.store.index.writer import begin
from reme_core.store.sql import load
from reme_core.types import HistoryEntry, Source, Status

_SQL = load("undo.sql", columns=rows.SELECTED)
_VERSION = load("memory.sql")["version"]
# These columns keep their present values, and a change of these alone is no change to undo.
COUNTS = ["seen_count", "freq", "utility", "updated_at", "document_id"]


@dataclass(frozen=True, slots=True)
class Undone:
    """A change that was undone."""

    changed_at: datetime
    changed_by: str
    reason: str
    restored: int
    """How many memories are there again, as they were before the change."""
    removed: int
    """How many memories are closed as deleted now: those that the change had added or brought back."""


State = dict[str, Any] | None
"""A row of `reme.memory` as the history has it; None if the memory did not exist."""


def earlier_state(entries: Sequence[HistoryEntry], number: int | None) -> State:
    """The state of a memory after the change `number`, or without a number before its last change; an error if none."""
    if number is None:
        changed = [e for e in entries if e.before and _without_counts(e.before) != _without_counts(e.after or {})]
        if not changed:
            raise InputError("it was never changed, so there is no earlier state to restore")
        # What one transaction did, such as to close a memory and to say why, is one change.
        return next(e.before for e in changed if e.changed_at == changed[-1].changed_at)
    for entry in entries:
        if entry.number == number:
            if entry.after is None:
                raise InputError(f"change {number} removed it; name the change whose outcome is to be restored")
            return entry.after
    known = ", ".join(str(entry.number) for entry in entries)
    raise NotFoundError(f"no change of it has the number {number}; their numbers are {known}")


def _without_counts(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in (*COUNTS, "sources")}


async def undo_last(database: Database, workspace: str, embedder: Embedder, *, actor: str, reason: str) -> Undone:
    """Undo the last change of several memories; see `Memories.undo`."""
    values = {"workspace": workspace, "counts": COUNTS}
    (version,) = await database.fetch(workspace, _VERSION, values)
    found = await database.fetch(workspace, _SQL["last_bulk_change"], values)
    if not found:
        raise NotFoundError(
            f"nothing to undo: no change of workspace '{workspace}' concerned several memories; "
            "restore takes back the change of one"
        )
    moment, changed_by, why = found[0]
    changed = await database.fetch(workspace, _SQL["states_before"], values | {"moment": moment})
    if later := [memory_id for memory_id, _, is_later in changed if is_later]:
        raise ConflictError(
            f"nothing was undone: {len(later)} of its memories were changed after it, such as {later[0]}; restore "
            "single ones with `restore`"
        )
    states = {memory_id: state for memory_id, state, _ in changed}
    reason = reason or f"undoes the change of {moment:%Y-%m-%d %H:%M:%S}{f' ({why})' if why else ''}"
    await restore_states(database, workspace, states, Version(*version), embedder, actor=actor, reason=reason)
    removed = sum(state is None or state["status"] == Status.DELETED for state in states.values())
    return Undone(moment, changed_by, why, len(states) - removed, removed)


async def restore_states(
    database: Database,
    workspace: str,
    states: Mapping[str, State],
    version: Version,
    embedder: Embedder,
    *,
    actor: str,
    reason: str,
) -> None:
    """Give memories, by their ids, these states; a memory whose state is None is closed as deleted.

    Raises:
        ConflictError: One of them was changed since `version`, which was read before the states, or something was
            erased; nothing was restored.
    """
    # Texts are embedded before the transaction, which holds the write lock. The version tells whether it is too late.
    values = {"workspace": workspace, "ids": list(states), "states": Jsonb([s for s in states.values() if s])}
    present = {row[1]: row for row in await database.fetch(workspace, rows.BY_IDS, values)}
    target = [
        rows.to_memory(workspace, row, [Source.model_validate(source) for source in sources or ()])
        for *row, sources in await database.fetch(workspace, _SQL["as_memories"], values)
    ]
    before = {name: rows.to_memory(workspace, row[1:]) for name, row in present.items()}
    gone = [memory for memory in target if memory.memory_id not in before]
    kept = [memory for memory in target if memory.memory_id in before]
    reworded = [memory for memory in kept if change.is_found_otherwise(before[memory.memory_id], memory)]
    # The vectors come in this order: first those of memories that are gone, and inserted again.
    vectors = await change.vectors_of([*gone, *reworded], embedder, {})
    async with database.write_transaction(workspace, actor=actor, reason=reason) as conn:
        index = await begin(conn, workspace, "memory", count=len(gone), model=embedder.name)
        since = values | {"counts": COUNTS, **version._asdict()}
        if await (await conn.execute(_SQL["changed_since"], since)).fetchone() != (False,):
            raise ConflictError(f"nothing was restored: workspace '{workspace}' was changed meanwhile; try again")
        if gone:
            await change.insert(index, gone, vectors[: len(gone)])
        put_back = [rows.from_memory(memory) for memory in kept]
        await conn.execute(_SQL["put_back"], values | {"rows": Jsonb(put_back)})
        for memory, vector in zip(reworded, vectors[len(gone) :], strict=True):
            earlier, number = before[memory.memory_id], present[memory.memory_id][0]
            index = await begin(conn, workspace, "memory", model=embedder.name)  # each one changes the mean length
            await change.reindex(index, earlier, memory, number, vector[None])
        closing = [Close(name, "deleted") for name, wanted in states.items() if wanted is None]
        await change.close(conn, workspace, closing)
