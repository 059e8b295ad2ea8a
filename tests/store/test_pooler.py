"""Behind a pooler a connection is the server's for one transaction, and the next one may be somebody else's."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from pydantic import SecretStr

from reme_core import AsyncReMe, Settings
from reme_core.errors import ConfigurationError, DatabaseUnavailableError
from tests.pooler import PGBOUNCER, pooler

CLIENTS = 6


@pytest.fixture
def behind_pooler(database_url: str, tmp_path: Path) -> Iterator[Settings]:
    """Settings of a database that is reached through two connections."""
    if PGBOUNCER is None:
        pytest.skip("there is no pgbouncer (apt-get install pgbouncer)")
    with pooler(database_url, size=2) as url:
        yield Settings(database_url=SecretStr(database_url), pooler_url=SecretStr(url), data_dir=tmp_path / "data")


async def test_clients_that_share_connections_keep_apart(behind_pooler: Settings) -> None:
    async def live(number: int) -> list[str]:
        workspace = f"w{number}"
        async with AsyncReMe(behind_pooler) as reme:
            for turn in range(3):
                said = {"role": "user", "content": f"Remember that locker {turn} of mine has the code {number}{turn}."}
                await reme.record(workspace, [said])
            await reme.summarise(workspace)
            found = await reme.recall(workspace, "Which code has my locker?", kind="personal", limit=10)
            await reme.memories.delete(workspace, found.hits[0].memory.memory_id, erase=True)
            return [memory.content for memory in await reme.memories.list(workspace)]

    kept = await asyncio.gather(*(live(number) for number in range(CLIENTS)))

    for number, contents in enumerate(kept):
        assert len(contents) == 2
        assert all(f" code {number}" in content for content in contents)


async def test_a_shared_connection_carries_nothing_over(behind_pooler: Settings) -> None:
    async with AsyncReMe(behind_pooler) as reme:
        await reme.memories.add("alice", "Alice lives in Lisbon.")
        assert (await reme.recall("alice", "Where does Alice live?")).hits
    assert behind_pooler.pooler_url is not None
    with psycopg.connect(behind_pooler.pooler_url.get_secret_value(), autocommit=True) as connection:
        names = ("role", "search_path", "reme.workspace", "statement_timeout")
        left = [connection.execute("select current_setting(%s, true)", [name]).fetchone() for name in names]
    assert left == [("none",), ('"$user", public',), ("",), ("0",)]


async def test_a_worker_takes_jobs_on(behind_pooler: Settings) -> None:
    settings = behind_pooler.model_copy(deep=True)
    settings.worker.after_seconds = 0
    settings.worker.after_messages = 1
    async with AsyncReMe(settings) as reme:
        await reme.record("alice", [{"role": "user", "content": "Remember that my sister is called Ines."}])
        async with asyncio.timeout(60):
            while not await reme.memories.list("alice"):
                await asyncio.sleep(0.05)


async def test_of_a_pooler_that_is_away_its_own_address_is_told(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reme_core.postgres.database.POOL_SECONDS", 1.0)
    away = SecretStr("postgresql://nobody@127.0.0.1:1/none")
    settings = Settings(database_url=SecretStr(database_url), pooler_url=away, data_dir=tmp_path / "data")
    with pytest.raises(DatabaseUnavailableError, match=r"no server at nobody@127\.0\.0\.1:1/none"):
        await AsyncReMe(settings).open()


def test_it_is_said_that_a_pooler_alone_is_not_enough() -> None:
    with pytest.raises(ConfigurationError, match=r"^pooler_url needs database_url"):
        Settings.of({"pooler_url": "postgresql://127.0.0.1:6432/reme"})
