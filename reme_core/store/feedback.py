"""How memories fare: which were given to an agent, whether they helped, and which are like others."""

from __future__ import annotations

from collections.abc import Sequence
from string import Template

import numpy as np
import numpy.typing as npt
from pgvector import HalfVector

from reme_core.schema import Memory
from reme_core.store import rows
from reme_core.store.database import Database
from reme_core.store.sql import load

_SQL = load("usage.sql")
_COUNT_USE = load("memory.sql")["count_use"]
_NEAREST = Template(_SQL["nearest"]).substitute(columns=rows.select(rows.COLUMNS, "m"))


async def used(database: Database, workspace: str, memory_ids: Sequence[str], *, helped: bool) -> list[str]:
    """Count that memories were given to an agent, and whether it then succeeded; the retrieval log is told as well.

    Returns:
        The ids that exist.
    """
    ids = sorted(set(memory_ids))
    values = {"workspace": workspace, "ids": ids, "helped": helped}
    async with database.transaction(workspace, actor="usage", reason="given to an agent") as conn:
        counted = [row[0] for row in await (await conn.execute(_COUNT_USE, values)).fetchall()]
        await conn.execute(_SQL["settle_hits"], values)
    return counted


async def settle(database: Database, workspace: str, retrieval_ids: Sequence[str], *, helped: bool) -> list[str]:
    """Tell how whole retrievals turned out. Each hit counts once, however often that is told.

    Returns:
        The ids of the memories that were counted.
    """
    values = {"workspace": workspace, "retrievals": sorted(set(retrieval_ids)), "helped": helped}
    found = await database.execute(
        workspace, _SQL["settle_retrieval"], values, actor="usage", reason="a retrieval turned out"
    )
    return [row[0] for row in found]


async def seldom_useful(
    database: Database, workspace: str, kinds: Sequence[str], *, freq_threshold: int, utility_threshold: float
) -> list[str]:
    """Memories given at least `freq_threshold` times of which less than the share `utility_threshold` helped."""
    values = {"workspace": workspace, "kinds": list(kinds), "freq": freq_threshold, "utility": utility_threshold}
    return [row[0] for row in await database.fetch(workspace, _SQL["seldom_useful"], values)]


async def nearest(
    database: Database,
    workspace: str,
    vectors: npt.NDArray[np.float32],
    *,
    model: str,
    kinds: Sequence[str],
    limit: int,
) -> list[list[tuple[Memory, float]]]:
    """For each vector, the active memories whose own vectors are the nearest, with the cosine. Exact, and not logged.

    Args:
        database: Where.
        workspace: Whose.
        vectors: Unit vectors, shape (number of questions, width).
        model: The embedder that made them.
        kinds: Which kinds to look at.
        limit: How many for each.
    """
    found: list[list[tuple[Memory, float]]] = [[] for _ in vectors]
    if len(vectors):
        values = {
            "workspace": workspace,
            "vectors": [HalfVector(vector) for vector in vectors],
            "model": model,
            "kinds": list(kinds),
            "limit": limit,
        }
        for number, similarity, *row in await database.fetch(workspace, _NEAREST, values):
            found[number - 1].append((rows.to_memory(workspace, row), float(similarity)))
    return found
