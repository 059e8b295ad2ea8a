"""A worker through an outage of its database, after it stood still, and told to stop at the most awkward moments."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pydantic import SecretStr

from reme_core import Message, Settings
from reme_core.engine import Engine
from reme_core.errors import DatabaseUnavailableError, ModelUnavailableError, ReMeError
from reme_core.postgres.embedded.server import EmbeddedServer
from tests.faults.servers import another_runs, server_pid, wait_until_gone
from tests.summaries import Summaries

PROMPTLY = 8.0  # seconds, on a machine that has other things to do; unhurried, it takes the pool's 15 or the job's 600

RECORD = """
import asyncio, sys
from reme_core import Message, Settings
from reme_core.engine import Engine

async def main(database, content):
    settings = Settings(database_url=database)
    settings.worker.embedded, settings.worker.after_messages = False, 1
    async with Engine(settings) as reme:
        await reme.record("w", [Message(content=content, session_id=content)])

asyncio.run(main(*sys.argv[1:]))
"""


FULL_TWICE = """
create sequence public.times;
grant usage on public.times to public;
create function public.refuse() returns trigger language plpgsql as $$
begin
    if nextval('public.times') < 3 then raise disk_full; end if;
    return new;
end $$;
create trigger refuse before update on reme.procrastinate_jobs for each row when (new.status = 'succeeded')
execute function public.refuse();
"""
"""The disk is full when a job is to be marked as done, twice."""

ANOTHER_HAS_IT = """
with other as (insert into procrastinate_workers default values returning id)
update procrastinate_jobs set worker_id = other.id from other returning worker_id
"""


@pytest.fixture
async def server(migrated_data_dir: Path) -> AsyncIterator[EmbeddedServer]:
    """A server of the test's own, that nobody starts again but the test."""
    server = await asyncio.to_thread(EmbeddedServer.acquire, migrated_data_dir)
    yield server
    server.release()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection is waited for for three seconds, not for fifteen."""
    for module in ("database", "pool"):
        monkeypatch.setattr(f"reme_core.postgres.{module}.POOL_SECONDS", 3.0)


@pytest.fixture
def settings(server: EmbeddedServer, tmp_path: Path) -> Settings:
    """Settings that name that server by its URL, as if it were somewhere else."""
    settings = Settings(database_url=SecretStr(server.url), data_dir=tmp_path)
    settings.worker.after_messages = 1
    return settings


def strike(data_dir: Path) -> None:
    """kill -9 the postmaster, and wait until it is gone."""
    pid = server_pid(data_dir)
    os.kill(pid, signal.SIGKILL)
    wait_until_gone(pid)


async def record_elsewhere(settings: Settings, content: str) -> None:
    """Another process records, and works on nothing."""
    assert settings.database_url is not None
    command = [sys.executable, "-c", RECORD, settings.database_url.get_secret_value(), content]
    await asyncio.to_thread(subprocess.run, command, check=True)


async def begin_without_end(reme: Engine, content: str) -> None:
    """Record, and wait until a job is under way that goes on and on."""
    under_way = asyncio.Event()

    async def hang(workspace: str, session_id: str) -> None:
        under_way.set()
        await asyncio.sleep(600)

    reme.background._summarise = hang
    await reme.record("w", [Message(content=content)])
    await asyncio.wait_for(under_way.wait(), 30)


async def until(happened: Callable[[], Any], seconds: float = 60) -> None:
    """Wait for something to happen."""
    async with asyncio.timeout(seconds):
        while not happened():
            await asyncio.sleep(0.05)


@pytest.mark.usefixtures("impatient")
@pytest.mark.long
async def test_a_worker_takes_up_its_work_when_the_database_is_back(
    settings: Settings, server: EmbeddedServer, migrated_data_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Engine(settings) as reme:
        summaries = Summaries(reme)
        await reme.record("w", [Message(content="before", session_id="before")])
        await until(lambda: summaries.done == {"before"})
        await reme.background.drain()  # a worker whose job has ended, but is not noted as ended, tells of that alone
        with caplog.at_level(logging.WARNING, "reme_core.jobs.worker"):
            await asyncio.to_thread(strike, migrated_data_dir)
            await until(lambda: "background work waits" in caplog.text)
            await asyncio.sleep(3)  # for another attempt or two
        assert caplog.text.count("background work waits for the database") == 1
        assert "no server at" in caplog.text

        await asyncio.to_thread(server.ensure_running)
        await record_elsewhere(settings, "after")
        await until(lambda: summaries.done == {"before", "after"})
        assert not reme.background.task.done()


async def test_a_worker_of_the_embedded_server_takes_up_its_work_again(
    settings: Settings, server: EmbeddedServer, migrated_data_dir: Path
) -> None:
    async with Engine(settings.model_copy(update={"database_url": None, "data_dir": migrated_data_dir})) as reme:
        summaries = Summaries(reme)
        reme.background.start()
        await asyncio.sleep(1)
        before = server_pid(migrated_data_dir)
        await asyncio.to_thread(strike, migrated_data_dir)
        await until(lambda: another_runs(migrated_data_dir, before))  # the worker itself has it started
        await asyncio.to_thread(server.ensure_running)
        await record_elsewhere(settings, "after")
        await until(lambda: summaries.done == {"after"})


@pytest.mark.usefixtures("impatient")
async def test_a_job_that_an_outage_broke_off_runs_again(
    settings: Settings,
    server: EmbeddedServer,
    migrated_data_dir: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("reme_core.jobs.worker.STALLED_SECONDS", 0.0)
    monkeypatch.setattr("reme_core.jobs.worker._UPKEEP_SECONDS", 0.5)
    settings.worker.stop_seconds, settings.worker.concurrency = 1, 2  # with room for another job, it looks for one
    async with Engine(settings) as reme:
        summaries = Summaries(reme)
        await begin_without_end(reme, "do not lose me")
        await asyncio.to_thread(strike, migrated_data_dir)
        reme.background._summarise = summaries
        await until(lambda: "could not be noted" in caplog.text)  # the worker has noticed, and broken the job off
        await asyncio.to_thread(server.ensure_running)
        await until(lambda: summaries.done == {"do not lose me"})


async def test_a_job_whose_end_cannot_be_written_for_a_while_is_not_left_under_way(
    settings: Settings, server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(FULL_TWICE)
        async with Engine(settings) as reme:
            summaries = Summaries(reme)
            await reme.record("w", [Message(content="one", session_id="s")])
            await until(lambda: summaries.done == {"one"})
            await reme.record("w", [Message(content="two", session_id="s")])
            await until(lambda: summaries.done == {"one", "two"}, 30)
            await reme.background.drain()
            assert {job.status for job in await reme.background.jobs("w")} == {"succeeded"}
    assert caplog.text.count("the end of job 1 could not be noted") == 2
    assert "the disk of" in caplog.text


@pytest.mark.parametrize("after", [0.0, 0.003, 0.03])
async def test_a_worker_that_is_only_starting_ends_at_once(
    settings: Settings, after: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reme_core.jobs.worker._FIRST_SECONDS", 0.0)
    for _ in range(5):
        reme = await Engine(settings).open()
        reme.background.start()
        await asyncio.sleep(after)
        begun = time.monotonic()
        await reme.aclose()
        assert time.monotonic() - begun < PROMPTLY
        assert reme.background.task.done()


async def test_a_memory_that_is_open_for_a_moment_has_no_worker(
    settings: Settings, server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reme_core.jobs.worker._FIRST_SECONDS", 60.0)
    begun = time.monotonic()
    async with Engine(settings) as reme:
        await reme.record("w", [Message(content="hello")])
        assert not reme.background.task.done()
        await asyncio.sleep(0.5)
    assert reme.background.task.done()
    assert time.monotonic() - begun < PROMPTLY
    settings.worker.embedded = False
    async with Engine(settings) as later:
        with psycopg.connect(server.url) as connection:
            begun_ever = connection.execute("select is_called from reme.procrastinate_workers_id_seq").fetchall()
        assert begun_ever == [(False,)]
        assert [job.status for job in await later.background.jobs("w")] == ["todo"]


@pytest.mark.parametrize("after", [0.0, 2.0])
async def test_a_worker_ends_in_the_middle_of_an_outage(
    settings: Settings, migrated_data_dir: Path, after: float
) -> None:
    reme = await Engine(settings).open()
    summaries = Summaries(reme)
    await reme.record("w", [Message(content="before")])
    await until(lambda: summaries.done)
    await reme.recall("w", "before")  # leaves log entries to be written
    await asyncio.to_thread(strike, migrated_data_dir)
    await asyncio.sleep(after)
    begun = time.monotonic()
    await reme.aclose()
    assert time.monotonic() - begun < PROMPTLY
    assert reme.background.task.done()


@pytest.mark.parametrize("away", [False, True])
async def test_a_worker_ends_in_the_middle_of_a_job_which_runs_again(
    settings: Settings, server: EmbeddedServer, migrated_data_dir: Path, away: bool
) -> None:
    settings.worker.stop_seconds = 1
    reme = await Engine(settings).open()
    await begin_without_end(reme, "do not lose me")
    if away:
        await asyncio.to_thread(strike, migrated_data_dir)
    begun = time.monotonic()
    await reme.aclose()
    assert time.monotonic() - begun < PROMPTLY
    assert reme.background.task.done()

    await asyncio.to_thread(server.ensure_running)
    settings.worker.embedded = False
    async with Engine(settings) as later:
        (job,) = await later.background.jobs("w")
        assert job.status == ("doing" if away else "todo")  # left by a dead worker, or given back


@pytest.mark.usefixtures("impatient")
async def test_who_waits_for_work_in_an_outage_is_told(settings: Settings, migrated_data_dir: Path) -> None:
    settings.worker.embedded = False
    async with Engine(settings) as reme:
        await reme.record("w", [Message(content="before")])
        await asyncio.to_thread(strike, migrated_data_dir)
        with pytest.raises(DatabaseUnavailableError):
            await reme.background._worker.work_off()


async def test_a_worker_that_stood_still_does_not_take_its_own_jobs_for_those_of_a_dead_one(settings: Settings) -> None:
    settings.worker.stop_seconds = 1  # for which closing waits for the job
    async with Engine(settings) as reme:
        await begin_without_end(reme, "read me once")
        await reme.database.execute_anywhere(
            "update procrastinate_workers set last_heartbeat = now() - interval '1 hour'"
        )
        await reme.background._worker._rescue()
        assert [job.status for job in await reme.background.jobs("w")] == ["doing"]


@pytest.mark.parametrize("failure", [None, ModelUnavailableError("the model is down")])
async def test_the_end_of_a_job_that_another_worker_has_by_now_is_not_noted(
    settings: Settings, caplog: pytest.LogCaptureFixture, failure: ReMeError | None
) -> None:
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async with Engine(settings) as reme:
        summaries = Summaries(reme)
        summaries.failure = failure

        async def summarise(workspace: str, session_id: str) -> None:
            begun.set()
            await goes_on.wait()
            await summaries(workspace, session_id)

        reme.background._summarise = summarise
        await reme.record("w", [Message(content="hello")])
        await asyncio.wait_for(begun.wait(), 30)
        ((other,),) = await reme.database.execute_anywhere(ANOTHER_HAS_IT)
        goes_on.set()
        await until(lambda: "was taken from this worker" in caplog.text)
        of_job = "select status::text, worker_id, attempts from procrastinate_jobs"
        assert await reme.database.execute_anywhere(of_job) == [("doing", other, 0)]


@pytest.mark.usefixtures("impatient")
@pytest.mark.long
async def test_after_an_outage_the_jobs_of_workers_that_live_are_left_to_them(
    settings: Settings, server: EmbeddedServer, migrated_data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, seconds in (("STALLED", 3.0), ("_HEARTBEAT", 0.5), ("_UPKEEP", 4.0), ("_LONGEST_PAUSE", 0.5)):
        monkeypatch.setattr(f"reme_core.jobs.worker.{name}_SECONDS", seconds)
    settings.worker.stop_seconds = 1
    settings.worker.concurrency = 1  # a busy worker looks for no other job, and so hears nothing of the outage
    async with Engine(settings) as busy, Engine(settings) as other:
        await begin_without_end(busy, "read me once")
        summaries = Summaries(other)
        other.background.start()
        await asyncio.sleep(1)
        await asyncio.to_thread(strike, migrated_data_dir)
        await asyncio.sleep(5)
        await asyncio.to_thread(server.ensure_running)
        await asyncio.sleep(8)
        assert summaries.seen == []
        assert [job.status for job in await other.background.jobs("w")] == ["doing"]
