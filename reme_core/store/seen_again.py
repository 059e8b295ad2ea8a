"""Memories that are added and are stored already: they are counted as seen again, and not stored a second time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from psycopg import AsyncConnection

from reme_core.store import rows
from reme_core.store.change import Change
from reme_core.store.sql import load
from reme_core.types import SCOPES, Memory, Source, Status

_SQL = load("memory.sql", columns=rows.SELECTED)
_TIMES = ("observed_at", "valid_from", "valid_until")
_STATED = {"kind", "subject", "when_to_use", "content", "keywords", *_TIMES, "author", "metadata", *SCOPES}


@dataclass(frozen=True, slots=True)
class Addition:
    """What adding some memories changes."""

    change: Change
    new: Sequence[int]
    """The places of the given memories that are new."""
    ids: Sequence[str]
    """For each given memory, the id of the one that is stored for it: itself, or the one that says the same."""


async def addition(conn: AsyncConnection[Any], workspace: str, given: Sequence[Memory]) -> Addition:
    """Find out which of the given memories are stored already, or stand several times among the given ones.

    Two memories are the same if all their stated fields are equal and both are active. A memory with an id of its own
    is always new. Call it under the workspace's write lock: else two callers could add the same at the same time.
    """
    contents = [m.content for m in given if _may_be_known(m)]
    values = {"workspace": workspace, "contents": contents}
    # In binary, as all reads are: so equal values are loaded as equal ones.
    found = await (await conn.execute(_SQL["with_same_content"], values, binary=True)).fetchall() if contents else []
    known = {_statement(m): m for m in (rows.to_memory(workspace, row) for row in found)}
    new: list[int] = []
    confirm: list[str] = []
    support: dict[str, list[Source]] = {}
    ids: list[str] = []
    for place, memory in enumerate(given):
        same = known.setdefault(_statement(memory), memory) if _may_be_known(memory) else memory
        ids.append(same.memory_id)
        if same is memory:
            new.append(place)
        else:
            confirm.append(same.memory_id)
            support.setdefault(same.memory_id, []).extend(memory.sources)
    change = Change(add=[given[place] for place in new], confirm=confirm, support=support)
    return Addition(change, new, ids)


async def read_back(conn: AsyncConnection[Any], workspace: str, ids: Sequence[str]) -> list[Memory]:
    """The memories of these ids as the transaction has stored them, in this order."""
    values = {"workspace": workspace, "ids": list(ids)}
    async with conn.pipeline():
        found = await conn.execute(rows.BY_IDS, values, binary=True)
        sources = await conn.execute(_SQL["sources"], values)
        stored = [row[1:] for row in await found.fetchall()]
        memories = rows.to_memories(workspace, stored, await sources.fetchall())
    by_id = {memory.memory_id: memory for memory in memories}
    return [by_id[memory_id] for memory_id in ids]


def _may_be_known(memory: Memory) -> bool:
    return "memory_id" not in memory.model_fields_set and memory.status == Status.ACTIVE


def _statement(memory: Memory) -> str:
    # Times are stored in UTC, and given in any zone.
    times = {name: time.astimezone(UTC) for name in _TIMES if (time := getattr(memory, name))}
    stated = memory.model_copy(update=times).model_dump(mode="json", include=_STATED)
    return json.dumps(stated, sort_keys=True)
