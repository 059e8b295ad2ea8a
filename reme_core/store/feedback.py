"""Use of memories: how often agents got them, whether they helped, and which memories are alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pgvector import HalfVector

from reme_core.models.base import Vectors
from reme_core.postgres.database import Database
from reme_core.store import rows
from reme_core.store.sql import load
from reme_core.types import SCOPES, Memory

_SQL = load("feedback.sql", columns=rows.SELECTED)


async def count_uses(database: Database, workspace: str, memory_ids: Sequence[str], *, helped: bool) -> list[str]:
    """Count that an agent got memories, and whether it succeeded, also in the log of recalls; returns the known ids."""
    ids = sorted(set(memory_ids))
    values = {"workspace": workspace, "ids": ids, "helped": helped}
    # With the write lock, since several reports, and other changes, may have memories in common.
    async with database.write_transaction(workspace, actor="usage", reason="given to an agent") as conn:
        counted = [row[0] for row in await (await conn.execute(_SQL["count_use"], values)).fetchall()]
        await conn.execute(_SQL["rate_newest_hits"], values)
    return counted


async def rate_retrievals(
    database: Database, workspace: str, retrieval_ids: Sequence[str], *, named: Sequence[str] = (), helped: bool
) -> list[str]:
    """Note whether the hits of some recalls helped, each hit once; returns the ids of the memories that counted.

    Hits that were left out of the note count only if they are `named`.
    """
    values = {"workspace": workspace, "retrievals": sorted(set(retrieval_ids)), "named": list(named), "helped": helped}
    async with database.write_transaction(workspace, actor="usage", reason="a retrieval turned out") as conn:
        found = await conn.execute(_SQL["rate_retrievals"], values)
        return [row[0] for row in await found.fetchall()]


async def retrieved_ids(database: Database, workspace: str, retrieval_ids: Sequence[str]) -> set[str]:
    """The ids of what some recalls found."""
    values = {"workspace": workspace, "retrievals": list(retrieval_ids)}
    return {row[0] for row in await database.fetch(workspace, _SQL["retrieved_ids"], values)}


async def unknown_retrievals(database: Database, workspace: str, retrieval_ids: Sequence[str]) -> list[str]:
    """Those of some ids that name no recall in the log of this workspace."""
    values = {"workspace": workspace, "retrievals": list(retrieval_ids)}
    known = {row[0] for row in await database.fetch(workspace, _SQL["known_retrievals"], values)}
    return sorted(set(retrieval_ids) - known)


async def seldom_useful(
    database: Database, workspace: str, kinds: Sequence[str], *, freq_threshold: int, utility_threshold: float
) -> list[str]:
    """Ids of memories that agents got `freq_threshold` times or more, and that helped in too few of these.

    Too few is a share below `utility_threshold`.
    """
    values = {"workspace": workspace, "kinds": list(kinds), "freq": freq_threshold, "utility": utility_threshold}
    return [row[0] for row in await database.fetch(workspace, _SQL["seldom_useful"], values)]


async def nearest(
    database: Database,
    workspace: str,
    memories: Sequence[Memory],
    vectors: Vectors,
    *,
    model: str,
    kinds: Sequence[str],
    limit: int,
) -> list[list[tuple[Memory, float]]]:
    """For each of these memories the nearest active ones of its scope with their cosine, nearest first.

    Row n of `vectors` is the unit vector of `memories[n]`, by the `model`. It is exact, and not logged.
    """
    found: list[list[tuple[Memory, float]]] = [[] for _ in memories]
    if memories:
        values: dict[str, Any] = {
            "workspace": workspace,
            "vectors": [HalfVector(vector) for vector in vectors],
            "model": model,
            "kinds": list(kinds),
            "limit": limit,
        }
        values |= {f"{name}s": [getattr(memory, name) for memory in memories] for name in SCOPES}
        for number, similarity, *row in await database.fetch(workspace, _SQL["nearest"], values):
            found[number - 1].append((rows.to_memory(workspace, row), float(similarity)))
    return found
