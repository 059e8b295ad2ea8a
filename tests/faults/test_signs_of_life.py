"""What a worker does beside its jobs, through an outage: it listens for new ones, and gives signs of life."""

from __future__ import annotations

import asyncio

import psycopg
import pytest
from pydantic import SecretStr

from reme_core import Settings
from reme_core.engine import Engine
from reme_core.testing.gate import Gate


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
