"""What a worker does beside its jobs, through an outage: it listens for new ones, and gives signs of life."""

from __future__ import annotations

import asyncio
import gc
from unittest.mock import AsyncMock

import psycopg
import pytest
from pydantic import SecretStr

from reme_core import Settings
from reme_core.engine import Engine
from reme_core.testing.gate import Gate
from tests.summaries import Summaries, turns


async def listeners(database_url: str) -> int:
    """How many connections listen for new jobs."""
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        cursor = await connection.execute(
            "select count(*) from pg_stat_activity where datname = current_database() and query ilike 'listen %'"
        )
        row = await cursor.fetchone()
        assert row is not None
        return int(row[0])


async def until_listening(database_url: str) -> None:
    async with asyncio.timeout(30):
        while not await listeners(database_url):
            await asyncio.sleep(0.1)


async def test_a_worker_listens_again_after_an_outage(database_url: str, caplog: pytest.LogCaptureFixture) -> None:
    with Gate(database_url) as gate:
        async with Engine(Settings(database_url=SecretStr(gate.url))) as reme:
            reme.background.start()
            await until_listening(database_url)
            gate.close()
            await asyncio.sleep(0.5)
            assert await listeners(database_url) == 0
            gate.open()
            await until_listening(database_url)
    assert "listener" not in caplog.text and "Traceback" not in caplog.text


async def test_closing_while_the_database_is_away_shows_no_traceback(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Gate(database_url) as gate:
        async with Engine(Settings(database_url=SecretStr(gate.url))) as reme:
            reme.background.start()
            await until_listening(database_url)
            gate.close()
            await asyncio.sleep(0.5)
    assert "listener" not in caplog.text and "Traceback" not in caplog.text


async def test_a_worker_whose_heartbeat_failed_once_has_more(
    database_url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reme_core.jobs.worker._HEARTBEAT_SECONDS", 0.2)
    async with Engine(Settings(database_url=SecretStr(database_url))) as reme:
        reme.background.start()
        await until_listening(database_url)
        age = "select extract(epoch from now() - max(last_heartbeat))::float8 from procrastinate_workers"
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute(
                "create function reme.refuse() returns trigger language plpgsql as"
                " $$ begin raise 'no room' using errcode = 'disk_full'; end $$"
            )
            connection.execute(
                "create trigger refuse before update on reme.procrastinate_workers execute function reme.refuse()"
            )
            await asyncio.sleep(2)
            connection.execute("drop trigger refuse on reme.procrastinate_workers")
        await asyncio.sleep(1)
        ((seconds,),) = await reme.database.execute_anywhere(age)
        assert seconds < 0.9
    assert "a heartbeat of this worker failed" in caplog.text and "no room" in caplog.text
    assert "Traceback" not in caplog.text


async def test_a_worker_that_was_taken_for_dead_goes_on(database_url: str, caplog: pytest.LogCaptureFixture) -> None:
    settings = Settings(database_url=SecretStr(database_url))
    settings.worker.after_messages = 1
    async with Engine(settings) as reme:
        summaries = Summaries(reme)
        reme.background.start()
        await until_listening(database_url)
        # As another worker does that begins after this one stood still, on a machine that slept.
        await reme.database.execute_anywhere("delete from procrastinate_workers returning id")
        await reme.record("w", turns("said after it"))
        await reme.background.drain()
        assert summaries.done == {"said after it"}
        assert not reme.background.task.done()
    assert "Traceback" not in caplog.text


async def test_a_job_that_others_did_while_its_worker_stood_still_ends_without_an_error(
    database_url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(database_url=SecretStr(database_url))
    settings.worker.embedded = False
    async with Engine(settings) as reme:

        async def stand_still(workspace: str, session_id: str) -> None:
            await reme.database.execute_anywhere("delete from procrastinate_workers returning id")
            await reme.database.execute_anywhere("update procrastinate_jobs set status = 'succeeded' returning id")

        monkeypatch.setattr(reme.background, "_first_waiting", AsyncMock(side_effect=["m", None]))
        reme.background._summarise = AsyncMock(side_effect=stand_still, return_value={})
        await reme.record("w", turns("done elsewhere"))
        await reme.background.drain()
        gc.collect()  # an error that nobody awaited would be logged now
        assert [job.status for job in await reme.background.jobs()] == ["succeeded"]
    assert "never retrieved" not in caplog.text


async def test_a_job_of_a_dead_worker_is_given_back_once_by_many_that_look(database_url: str) -> None:
    settings = Settings(database_url=SecretStr(database_url))
    settings.worker.embedded = False
    async with Engine(settings) as one, Engine(settings) as other:
        await one.database.execute_anywhere(
            "insert into procrastinate_jobs (queue_name, task_name, args, status)"
            " select 'reme', 'reme.summarise', '{\"workspace\": \"w\", \"session_id\": \"\"}', 'doing'"
            " from generate_series(1, 50) returning id"
        )
        await asyncio.gather(*(reme.background._worker._rescue() for reme in (one, other, one, other)))
        assert {(job.status, job.attempts) for job in await one.background.jobs()} == {("todo", 1)}


async def test_upkeep_goes_on_after_an_error_of_whatever_kind(
    database_url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reme_core.jobs.worker._UPKEEP_SECONDS", 0.1)
    async with Engine(Settings(database_url=SecretStr(database_url))) as reme:
        reme.background._worker._now_and_then = looks = AsyncMock(side_effect=[KeyError("unforeseen"), None, None])
        reme.background.start()
        async with asyncio.timeout(30):
            while looks.await_count < 3:
                await asyncio.sleep(0.05)
    assert "KeyError: 'unforeseen'" in caplog.text
