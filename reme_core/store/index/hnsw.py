"""The HNSW indexes: one for each embedding model, with the vectors of large workspaces only.

A workspace's vectors join the index once the workspace has grown past a number of rows. In a smaller one an exact scan
is as fast and always right. Its inserts are quick: with the index, a single insert takes 21 times as long (measured).
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from typing import Any

from psycopg import AsyncConnection, sql
from psycopg.errors import DiskFull

from reme_core.postgres.database import Database
from reme_core.store.sql import load

log = logging.getLogger(__name__)

WIDEST = 4_000
"""Dimensions that pgvector indexes as halfvec; wider vectors are always scanned exactly."""

EF_SEARCH = 200
"""Candidates that a search keeps, which find .98 of the ten sentences nearest to a question among 40,000."""
# From so many documents on, as good an answer needs so many. Of 90,000 sentences, 200 candidates find .96.
_LARGER_EF_SEARCH = ((500_000, 800), (100_000, 400), (50_000, 300))

# Pgvector's 16 links to each vector are few for questions, which lie farther from all texts than these from each other:
# for LoCoMo's, 200 candidates found .96 of the ten nearest of 40,000 sentences, and with 24 links .99 in the same time.
# The index is a twentieth larger and takes a third longer to build. `python -m benchmarks.nearest` measures it.
_LINKS = 24
_EF_CONSTRUCTION = 128  # with pgvector's 64, a fiftieth of 60,000 vectors was not found even by itself

_MARKED = 5_000  # rows that one transaction marks for an index that is not there yet, in a tenth of a second
INSERTED = 100
"""Rows that one transaction puts into an index that is there, each in some milliseconds; others wait so long."""
_RETRY_SECONDS = 0.2  # between two attempts to get the lock for building an index

_SQL = load("hnsw.sql")


async def ensure(database: Database, workspace: str, *, exact_below: int) -> bool:
    """Put the vectors of a workspace into its model's index if the workspace has `exact_below` documents or more.

    Reading and writing go on: the index is built concurrently, and recall uses it when it is complete. So do those of
    an indexed workspace that were left for later (`leave_for_later`). Returns whether any of this was done now.
    """
    values = {"workspace": workspace, "exact_below": exact_below}
    due = await database.fetch(workspace, _SQL["due"], values)
    if not due or due[0][1] > WIDEST:
        return False
    model, dimensions, unindexed_from = due[0]
    if unindexed_from is None:
        await prepare(database, workspace, model, dimensions)
        async with database.write_transaction(workspace) as conn:
            unindexed_from = await switch_to_index(conn, workspace, model)
        log.info("workspace '%s' is now searched by the HNSW index of '%s'", workspace, model)
    if unindexed_from is not None:
        await _join(database, workspace, model, after=unindexed_from - 1, batch=INSERTED)
    return True


async def prepare(database: Database, workspace: str, model: str, dimensions: int) -> None:
    """Put a workspace's vectors of a model into the model's index; build the index if there is none."""
    # Other workspaces of the model may have its index already. Then each vector has to find its place in it.
    ((exists,),) = await database.fetch(workspace, _SQL["exists"], {"name": index_name(model)})
    await _join(database, workspace, model, after=-1, batch=INSERTED if exists else _MARKED)
    async with database.owner_connection() as conn:
        # One process builds at a time. The others try the lock again and again. If a statement of theirs waited for it,
        # the builder would wait for them: it builds concurrently, and so waits until all running statements have ended.
        while not (await (await conn.execute(_SQL["try_to_build"])).fetchone() or (False,))[0]:  # noqa: ASYNC110 - it sends no event
            await asyncio.sleep(_RETRY_SECONDS)
        await _build(conn, model, dimensions, database.settings.recall.index_megabytes)


async def leave_for_later(conn: AsyncConnection[Any], workspace: str, document_id: int) -> None:
    """Say that vectors from this document on are outside of the index; `ensure` lets them join it."""
    await conn.execute(_SQL["leave_behind"], {"workspace": workspace, "first": document_id})


async def left_behind(database: Database) -> list[str]:
    """The workspaces whose vectors were left for later, and that nobody has gone on with."""
    return [workspace for (workspace,) in await database.execute_anywhere(_SQL["left_behind"], {})]


async def _join(database: Database, workspace: str, model: str, *, after: int, batch: int) -> None:
    """Let the vectors of the documents after this one join the index, a batch in each transaction."""
    while True:
        values = {"workspace": workspace, "model": model, "after": after, "limit": batch}
        # Under the write lock: else this statement and a writer's could wait for each other's rows.
        async with database.write_transaction(workspace) as conn:
            ((found, last),) = await (await conn.execute(_SQL["join_batch"], values)).fetchall()
            await conn.execute(_SQL["advance"], values | {"next": None if found < batch else last + 1})
        if found < batch:
            return
        after = last


async def _build(conn: AsyncConnection[Any], model: str, dimensions: int, most_megabytes: int) -> None:
    create = sql.SQL(
        "create index concurrently if not exists {name} on reme.embedding"
        " using hnsw ((embedding::halfvec({dimensions})) halfvec_ip_ops)"
        " with (m = {links}, ef_construction = {candidates}) where model = {model} and hnsw"
    ).format(
        name=sql.Identifier(index_name(model)), dimensions=sql.Literal(dimensions), model=sql.Literal(model),
        links=sql.Literal(_LINKS), candidates=sql.Literal(_EF_CONSTRUCTION),
    )  # fmt: skip
    await conn.execute(_SQL["give_memory"], {"most_megabytes": most_megabytes})
    await _drop_unfinished(conn, model)
    try:
        await conn.execute(create)
    except DiskFull:
        # Workers that build in parallel share this memory in /dev/shm, which has 64 MB in a container.
        await conn.execute("set max_parallel_maintenance_workers = 0")
        await _drop_unfinished(conn, model)
        await conn.execute(create)


async def _drop_unfinished(conn: AsyncConnection[Any], model: str) -> None:
    """Drop what a build has left that was broken off: every insert would go into it, and no recall could use it."""
    if await (await conn.execute(_SQL["unfinished"], {"name": index_name(model)})).fetchone():
        await conn.execute(sql.SQL("drop index concurrently reme.{}").format(sql.Identifier(index_name(model))))


async def switch_to_index(conn: AsyncConnection[Any], workspace: str, model: str) -> int | None:
    """Let recall in a workspace use the index. Hold the write lock.

    Vectors that others wrote since `prepare`, which may be thousands, are left for later: `ensure` lets them join.
    Returns the first document of these, if there are any.
    """
    row = await (await conn.execute(_SQL["switch"], {"workspace": workspace, "model": model})).fetchone()
    return None if row is None else row[0]


def ef_search(documents: int) -> int:
    """How many candidates a search keeps in a workspace with so many documents."""
    return next((candidates for large, candidates in _LARGER_EF_SEARCH if documents >= large), EF_SEARCH)


def index_name(model: str) -> str:
    """The name of a model's index: readable, and short enough for Postgres, which cuts off what is beyond 63 bytes."""
    readable = "".join(c if c.isalnum() else "_" for c in model.lower()).encode()[:30].decode(errors="ignore")
    return f"embedding_hnsw_{readable}_{hashlib.sha256(model.encode()).hexdigest()[:8]}"
