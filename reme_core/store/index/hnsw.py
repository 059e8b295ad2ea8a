"""The HNSW indexes: one for each embedding model, holding only workspaces that are large enough to gain by it.

Below the threshold an exact scan is as fast, always right, and spares each insert the walk through a graph (measured:
21 times the time of a single insert). So rows take part only once their workspace has grown past it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from typing import Any

from psycopg import AsyncConnection, sql

from reme_core.store.database import Database
from reme_core.store.sql import load

log = logging.getLogger(__name__)

WIDEST = 4_000
"""Dimensions that pgvector indexes as halfvec; wider vectors are always scanned exactly."""

_PART = 5_000  # rows that join while the workspace's writers wait: about a tenth of a second
_WAIT_SECONDS = 0.2  # between attempts to become the one who builds

_SQL = load("hnsw.sql")


async def ensure(database: Database, workspace: str, *, exact_below: int) -> bool:
    """Bring a workspace that has grown past `exact_below` rows into its model's index.

    Reading and writing go on meanwhile: the index is built concurrently, and recall uses it once it is complete.

    Returns:
        Whether the workspace was brought in now.

    Raises:
        DatabaseError: The login role may not create an index; the message names the statement to run.
    """
    values = {"workspace": workspace, "exact_below": exact_below}
    due = await database.fetch(workspace, _SQL["due"], values)
    if not due or due[0][1] > WIDEST:
        return False
    model, dimensions = due[0]
    await prepare(database, workspace, model, dimensions)
    async with database.writing(workspace) as conn:  # whoever wrote until now has seen a workspace outside the index
        await serve(conn, workspace, model)
    log.info("workspace '%s' is now searched by the HNSW index of '%s'", workspace, model)
    return True


async def prepare(database: Database, workspace: str, model: str, dimensions: int) -> None:
    """Put the vectors that a workspace has of a model into the model's index, which is made if it is not there."""
    values: dict[str, Any] = {"workspace": workspace, "model": model, "after": -1, "limit": _PART}
    while values["after"] is not None:
        # Whoever changes these rows has the turn: without it, this and a writer could wait for each other.
        async with database.writing(workspace) as conn:
            row = await (await conn.execute(_SQL["take_part"], values)).fetchone()
        values["after"] = row[0] if row else None
    async with database.owner_connection() as conn:
        # One builder at a time. It is asked again and again, since a builder waits for all statements that run, and so
        # for one that waits for it.
        while not (await (await conn.execute(_SQL["try_to_build"])).fetchone() or (False,))[0]:  # noqa: ASYNC110 - it sends no event
            await asyncio.sleep(_WAIT_SECONDS)
        await conn.execute("set maintenance_work_mem = '512MB'")
        await conn.execute(
            sql.SQL(
                "create index concurrently if not exists {name} on reme.embedding"
                " using hnsw ((embedding::halfvec({dimensions})) halfvec_ip_ops) where model = {model} and hnsw"
            ).format(
                name=sql.Identifier(index_name(model)), dimensions=sql.Literal(dimensions), model=sql.Literal(model)
            )
        )


async def serve(conn: AsyncConnection[Any], workspace: str, model: str) -> None:
    """Have a workspace searched by the index, with rows that were written since `prepare`; its turn must be held."""
    values = {"workspace": workspace, "model": model}
    await conn.execute(_SQL["serve"], values)
    await conn.execute(_SQL["take_rest"], values)


def index_name(model: str) -> str:
    """Name of a model's index: readable, and short enough for Postgres."""
    readable = "".join(c if c.isalnum() else "_" for c in model.lower())[:30]
    return f"embedding_hnsw_{readable}_{hashlib.sha256(model.encode()).hexdigest()[:8]}"
