"""The queue's tables, in SQL as the role of the service: a workspace sees and touches its own jobs alone."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest

from reme_core.engine import Engine
from reme_core.errors import DatabaseError
from reme_core.postgres.session import ROLE
from reme_core.settings import Settings

TABLES = ("procrastinate_jobs", "procrastinate_events", "procrastinate_workers", "procrastinate_periodic_defers")

# What somebody who stands in workspace `spy` may try; `{job}` is a job of another one.
ATTEMPTS = [
    *(f"select * from reme.{table}" for table in TABLES),
    *(f"delete from reme.{table} returning *" for table in TABLES),
    "select * from reme.procrastinate_jobs where id = {job}",
    "select * from reme.procrastinate_jobs where lock like '%%victim%%'",
    "select * from reme.procrastinate_events where job_id = {job}",
    "update reme.procrastinate_jobs set status = 'cancelled' returning *",
    'update reme.procrastinate_jobs set args = args || \'{{"workspace": "spy"}}\' where id = {job} returning *',
    "update reme.procrastinate_events set at = now() where job_id = {job} returning *",
    "update reme.procrastinate_workers set last_heartbeat = '-infinity' returning *",
    "select * from reme.procrastinate_fetch_job_v2(null, null) where id is not null",
    "select * from reme.procrastinate_prune_stalled_workers_v1(0)",
    "select reme.procrastinate_finish_job_v1({job}, 'succeeded', true)",
    "select 1 where reme.procrastinate_cancel_job_v1({job}, true, true) is not null",
    "select reme.procrastinate_retry_job_v2({job}, now(), 0, 'reme', 'spy')",
    "select reme.procrastinate_update_heartbeat_v1(1) from reme.procrastinate_workers",
    "insert into reme.procrastinate_events (job_id, type) values ({job}, 'succeeded') returning *",
    "insert into reme.procrastinate_jobs (queue_name, task_name, args)"
    ' values (\'reme\', \'reme.summarise\', \'{{"workspace": "victim", "session_id": "s"}}\') returning *',
    "select j.args from reme.job_error e right join reme.procrastinate_jobs j on j.id = e.job_id",
]


@pytest.fixture
async def engine(settings: Settings) -> AsyncIterator[Engine]:
    """A memory in which a conversation of the workspace `victim` waits to be summarised, by a worker that runs."""
    settings.worker.embedded = False
    async with Engine(settings) as engine:
        await engine.record("victim", {"role": "user", "content": "I live in Oslo."}, session_id="secret")
        await engine.database.execute_anywhere("insert into reme.procrastinate_workers default values")
        yield engine


async def seen(engine: Engine, workspace: str, sql: str) -> list[tuple[object, ...]]:
    """The rows that a statement gives in a workspace; none where it is refused."""
    try:
        return await engine.database.execute(workspace, sql)
    except (DatabaseError, psycopg.Error):
        return []


@pytest.mark.parametrize("attempt", ATTEMPTS)
async def test_nothing_of_another_workspace_is_seen_or_changed(engine: Engine, attempt: str) -> None:
    everything = "select j.*, e.*, w.* from procrastinate_jobs j, procrastinate_events e, procrastinate_workers w"
    before = await engine.database.execute_anywhere(everything)
    assert len(before) == 2  # a job, that it was deferred, and when it is scheduled for
    statement = attempt.format(job=before[0][0])
    assert await seen(engine, "spy", statement) == []
    with psycopg.connect(engine.database.url, autocommit=True) as connection:  # nor is it where no workspace is named
        connection.execute(f"set role {ROLE}")
        try:
            cursor = connection.execute(statement)
            assert cursor.description is None or cursor.fetchall() == []
        except psycopg.Error:
            pass
    assert await engine.database.execute_anywhere(everything) == before


async def test_a_workspace_sees_its_own_jobs(engine: Engine) -> None:
    asked = "select args ->> 'session_id' from procrastinate_jobs"
    assert await engine.database.fetch("victim", asked) == [("secret",)]
    assert len(await engine.database.fetch("victim", "select from procrastinate_events")) == 2
    assert [job.workspace for job in await engine.background.jobs()] == ["victim"]
    await engine.background.drain()
    assert [job.status for job in await engine.background.jobs("victim")] == ["succeeded"]
