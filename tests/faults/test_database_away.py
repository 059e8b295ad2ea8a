"""A database that is away: who asks again is told at once, and who asks when it is back is served."""

from __future__ import annotations

import asyncio

import pytest
from pydantic import SecretStr

from reme_core import Settings
from reme_core.errors import DatabaseUnavailableError
from reme_core.postgres import database as module
from reme_core.postgres.database import Database
from reme_core.testing.gate import Gate


async def test_once_it_is_known_to_be_away_nobody_waits_long(
    settings: Settings, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Gate(database_url) as gate:
        settings.database_url = SecretStr(gate.url)
        monkeypatch.setattr(module, "_POOL_SECONDS", 1.0)
        async with await Database.open(settings) as database:
            gate.close()
            with pytest.raises(DatabaseUnavailableError):
                await database.fetch("w", "select 1")
            monkeypatch.setattr(module, "_POOL_SECONDS", 600.0)
            async with asyncio.timeout(60):
                for _ in range(5):
                    with pytest.raises(DatabaseUnavailableError, match="no server at"):
                        await database.fetch("w", "select 1")
                gate.open()
                while not await database.answers(within=5):
                    await asyncio.sleep(0.1)
                assert await database.fetch("w", "select 1") == [(1,)]
