"""A database that is away: who asks again is told at once, and who asks when it is back is served."""

from __future__ import annotations

import asyncio

import pytest
from pydantic import SecretStr

from reme_core import Settings
from reme_core.errors import DatabaseUnavailableError
from reme_core.postgres import database as module
from reme_core.postgres import pool
from reme_core.postgres.database import Database
from reme_core.testing.gate import Gate


async def test_once_it_is_known_to_be_away_nobody_waits_long(
    settings: Settings, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Gate(database_url) as gate:
        settings.database_url = SecretStr(gate.url)
        monkeypatch.setattr(module, "POOL_SECONDS", 1.0)
        async with await Database.open(settings) as database:
            gate.close()
            with pytest.raises(DatabaseUnavailableError):
                await database.fetch("w", "select 1")
            monkeypatch.setattr(module, "POOL_SECONDS", 600.0)
            async with asyncio.timeout(60):
                for _ in range(5):
                    with pytest.raises(DatabaseUnavailableError, match="no server at"):
                        await database.fetch("w", "select 1")
                gate.open()
                while not await database.answers(within=5):
                    await asyncio.sleep(0.1)
                assert await database.fetch("w", "select 1") == [(1,)]


async def test_a_pool_asks_often_whether_the_database_is_back(
    settings: Settings, database_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(pool, "_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(pool, "_SILENT_SECONDS", 0.0)
    with Gate(database_url) as gate:
        settings.database_url = SecretStr(gate.url)
        async with await Database.open(settings) as database:
            gate.close()
            asking = asyncio.create_task(database.fetch("w", "select 1"))
            async with asyncio.timeout(10):  # tries whose pauses double would be four by then
                while caplog.text.count("error connecting") < 8:
                    await asyncio.sleep(0.05)
            gate.open()
            assert await asking == [(1,)]


async def test_an_outage_does_not_fill_the_log(
    settings: Settings, database_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "POOL_SECONDS", 3.0)
    monkeypatch.setattr(pool, "_SILENT_SECONDS", 600.0)
    monkeypatch.setattr(pool.ONCE_IN_A_WHILE, "_said_at", float("-inf"))
    with Gate(database_url) as gate:
        settings.database_url = SecretStr(gate.url)
        async with await Database.open(settings) as database:
            await asyncio.gather(*(database.fetch("w", "select pg_sleep(0.2)") for _ in range(4)))
            gate.close()
            asked = [database.fetch("w", "select 1") for _ in range(8)]
            answers = await asyncio.gather(*asked, return_exceptions=True)
            assert {type(answer) for answer in answers} == {DatabaseUnavailableError}
    assert caplog.text.count("error connecting") == 1
