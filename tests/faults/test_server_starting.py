"""A server that is starting up: who connects meanwhile waits for it, for so long, and for nothing else."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo
from psycopg.pq import PGconn, Ping
from pydantic import SecretStr

from reme_core.errors import DatabaseUnavailableError
from reme_core.postgres import connect, migrate
from reme_core.postgres.database import Database
from reme_core.postgres.embedded.files import initialise
from reme_core.postgres.embedded.server import EmbeddedServer, stop_embedded
from reme_core.settings import Settings
from reme_core.testing import Gate


@dataclass
class Starting:
    """A server that stays in its start, as one does that has much to recover, until it is let go."""

    url: str
    signal: Path

    @property
    def settings(self) -> Settings:
        return Settings(database_url=SecretStr(self.url))

    @property
    def state(self) -> int:
        """What libpq makes of the server's answer: `REJECT` stands for SQLSTATE 57P03 alone."""
        return PGconn.ping(self.url.encode())

    def let_go(self) -> None:
        self.signal.touch()

    def wait_until(self, state: Ping) -> None:
        deadline = time.monotonic() + 60
        while self.state != state:
            assert time.monotonic() < deadline
            time.sleep(0.02)


@pytest.fixture
async def starting(own_data_dir: Path) -> AsyncIterator[Starting]:
    """Such a server: it recovers from an archive, which keeps it waiting for its first file."""
    data, signal = own_data_dir / "postgres", own_data_dir / "go"
    await asyncio.to_thread(initialise, own_data_dir)
    with (data / "postgresql.conf").open("a") as settings:
        settings.write("wal_level = replica\n")  # nothing less can be recovered from an archive
        settings.write("hot_standby = off\n")  # nor is it read meanwhile
        settings.write(f"restore_command = 'until [ -e {signal} ]; do sleep 0.02; done; false'\n")
    async with await Database.open(Settings(data_dir=own_data_dir)) as database:  # makes the schema
        url = database.url
    await asyncio.to_thread(stop_embedded, own_data_dir)

    (data / "recovery.signal").touch()
    held = asyncio.create_task(asyncio.to_thread(EmbeddedServer.acquire, own_data_dir))
    server = Starting(url, signal)
    await asyncio.to_thread(server.wait_until, Ping.REJECT)
    yield server
    server.let_go()
    (await held).release()


async def test_it_is_waited_for(starting: Starting) -> None:
    opening = asyncio.create_task(Database.open(starting.settings))
    asking = asyncio.create_task(asyncio.to_thread(migrate.status, starting.url))
    upgrading = asyncio.create_task(asyncio.to_thread(migrate.upgrade, starting.url))
    await asyncio.sleep(1)
    assert not (opening.done() or asking.done() or upgrading.done())

    starting.let_go()
    async with await opening as database:
        assert await database.fetch("w", "select count(*) from memory") == [(0,)]
    assert len(set(await asking)) == 1
    await upgrading


async def test_a_pool_does_not_connect_in_vain_to_one_that_starts_again(starting: Starting, own_data_dir: Path) -> None:
    starting.let_go()
    async with await Database.open(starting.settings) as database:
        await database.fetch("w", "select 1")
        await asyncio.to_thread(stop_embedded, own_data_dir)
        starting.signal.unlink()
        (own_data_dir / "postgres" / "recovery.signal").touch()
        held = asyncio.create_task(asyncio.to_thread(EmbeddedServer.acquire, own_data_dir))
        await asyncio.to_thread(starting.wait_until, Ping.REJECT)
        errors = database.pool.get_stats().get("connections_errors", 0)  # made while there was no server at all
        asking = asyncio.create_task(database.fetch("w", "select 1"))
        await asyncio.sleep(1.5)
        assert not asking.done()
        starting.let_go()
        assert await asking == [(1,)]
        assert database.pool.get_stats().get("connections_errors", 0) == errors
        (await held).release()


async def test_a_server_that_is_there_is_not_asked_whether_it_starts(settings: Settings, database_url: str) -> None:
    with Gate(database_url) as gate:
        through = settings.model_copy(update={"database_url": SecretStr(gate.url)})
        async with await Database.open(through) as database, asyncio.timeout(4):
            await asyncio.gather(*(database.fetch(f"w{n}", "select pg_sleep(0.2)") for n in range(6)))


async def test_whether_it_starts_is_asked_without_stopping_other_threads(starting: Starting) -> None:
    with Gate(starting.url) as gate:  # a proxy in this process, by whose threads alone the server can answer
        assert await asyncio.to_thread(connect._ping, gate.url) == Ping.REJECT


async def test_it_is_waited_for_no_longer_than_for_any_connection(
    starting: Starting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reme_core.postgres.connect.RESTART_SECONDS", 0.5)
    with pytest.raises(DatabaseUnavailableError, match=r"is starting or stopping .*; try again in a moment") as caught:
        await Database.open(starting.settings)
    assert "the database system is starting up" in str(caught.value)
    assert starting.state == Ping.REJECT


async def test_one_that_comes_up_while_it_is_asked_why_it_refused_is_not_given_up(
    starting: Starting, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(url: str) -> int:
        starting.let_go()
        starting.wait_until(Ping.OK)
        return PGconn.ping(url.encode())

    monkeypatch.setattr("reme_core.postgres.connect._ping", late)
    async with await Database.open(starting.settings) as database:
        assert await database.fetch("w", "select count(*) from memory") == [(0,)]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [({"dbname": "nowhere"}, "does not exist"), ({"port": "1"}, "no server at")],
)
async def test_what_else_is_wrong_is_said_at_once(
    server_url: str, change: dict[str, str], complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reme_core.postgres.connect.RESTART_SECONDS", 600.0)
    elsewhere = Settings(database_url=SecretStr(make_conninfo(server_url, **change)))
    with pytest.raises(DatabaseUnavailableError, match=complaint):
        async with asyncio.timeout(60):
            await Database.open(elsewhere)
