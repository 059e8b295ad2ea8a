"""kill -9, of the server or of a client: what was acknowledged is there, nothing is half, nothing is left running."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import psycopg
import pytest

from reme_core.errors import DatabaseError, DatabaseUnavailableError
from reme_core.postgres import migrate
from reme_core.postgres.database import Database
from reme_core.postgres.embedded.server import EmbeddedServer, stop_embedded
from reme_core.settings import Settings
from tests.faults.servers import server_pid, wait_until_gone

ADD = "insert into workspace (workspace_id) values (%s)"

HOLD = """
import sys, time
from pathlib import Path
from reme_core.postgres.embedded.server import EmbeddedServer
server = EmbeddedServer.acquire(Path(sys.argv[1]), linger_seconds=float(sys.argv[2]))
print(server.url, flush=True)
time.sleep(600)
"""

WRITE_AND_STALL = """
import asyncio, sys
from pathlib import Path
from reme_core.settings import Settings
from reme_core.postgres.database import Database

async def main():
    database = await Database.open(Settings(data_dir=Path(sys.argv[1])))
    for number in range(20):
        name = f"kept{number}"
        async with database.transaction(name) as connection:
            await connection.execute("insert into workspace (workspace_id) values (%s)", [name])
        print(name, flush=True)
    async with database.transaction("half") as connection:
        await connection.execute("insert into workspace (workspace_id) values ('half')")
        print("in the middle", flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""

OPEN_AND_ADD = """
import asyncio, sys
from pathlib import Path
from reme_core.settings import Settings
from reme_core.postgres.database import Database

async def main():
    async with await Database.open(Settings(data_dir=Path(sys.argv[1]))) as database:
        await database.execute(sys.argv[2], "insert into workspace (workspace_id) values (%s)", [sys.argv[2]])
        print(database.url)

asyncio.run(main())
"""


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", script, *map(str, arguments)], stdout=subprocess.PIPE, text=True)


def read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def supervisor_pid(pid: int) -> int:
    """The process that keeps the server `pid`: its parent."""
    parent = psutil.Process(pid).parent()
    assert parent is not None
    assert any("supervisor.py" in part for part in parent.cmdline())
    return parent.pid


async def workspaces(database: Database) -> set[str]:
    async with database.maintenance() as connection:
        return {row[0] for row in await (await connection.execute("select workspace_id from workspace")).fetchall()}


async def test_a_killed_server_comes_back_with_all_that_was_acknowledged(migrated_data_dir: Path) -> None:
    async with await Database.open(Settings(data_dir=migrated_data_dir)) as database:
        for number in range(20):
            await database.execute(f"kept{number}", ADD, [f"kept{number}"])
        with pytest.raises(DatabaseUnavailableError):
            async with database.transaction("half") as connection:
                await connection.execute(ADD, ["half"])
                os.kill(server_pid(migrated_data_dir), signal.SIGKILL)
                await asyncio.sleep(0.2)
                await connection.execute("select 1")

        assert await database.fetch("kept0", "select workspace_id from workspace") == [("kept0",)]
        assert await workspaces(database) == {f"kept{number}" for number in range(20)}
        await database.execute("after", ADD, ["after"])


async def test_a_server_killed_under_load_keeps_what_it_acknowledged(migrated_data_dir: Path) -> None:
    async with await Database.open(Settings(data_dir=migrated_data_dir)) as database:
        acknowledged: set[str] = set()
        unclear: set[str] = set()
        under_way = asyncio.Event()

        async def write(worker: int) -> None:
            for number in range(200):
                name = f"{worker}-{number}"
                try:
                    await database.execute(name, ADD, [name])
                except DatabaseUnavailableError:
                    unclear.add(name)
                else:
                    acknowledged.add(name)
                if len(acknowledged) >= 100:
                    under_way.set()

        async def strike() -> None:
            await under_way.wait()
            os.kill(server_pid(migrated_data_dir), signal.SIGKILL)

        await asyncio.gather(*(write(worker) for worker in range(4)), strike())
        stored = await workspaces(database)
    assert acknowledged <= stored <= acknowledged | unclear
    assert len(acknowledged) > 700  # it came back while they were writing


async def test_a_killed_backend_is_replaced(migrated_data_dir: Path) -> None:
    async with await Database.open(Settings(data_dir=migrated_data_dir)) as database:
        await database.execute("kept", ADD, ["kept"])
        [(backend,)] = await database.fetch("kept", "select pg_backend_pid()")
        os.kill(backend, signal.SIGKILL)  # upon which the server restarts all its sessions
        await asyncio.sleep(0.1)
        assert await database.fetch("kept", "select workspace_id from workspace") == [("kept",)]
        await database.execute("after", ADD, ["after"])


async def test_a_client_killed_in_a_transaction_leaves_nothing_half(migrated_data_dir: Path) -> None:
    client = start(WRITE_AND_STALL, migrated_data_dir)
    acknowledged = [read_line(client) for _ in range(20)]
    assert read_line(client) == "in the middle"
    kill(client)
    async with await Database.open(Settings(data_dir=migrated_data_dir)) as database:
        assert await workspaces(database) == set(acknowledged)
        await asyncio.wait_for(database.execute("half", ADD, ["half"]), 5)  # its locks are gone as well


def test_a_killed_client_neither_stops_the_server_under_others_nor_keeps_it_for_ever(migrated_data_dir: Path) -> None:
    first, second = start(HOLD, migrated_data_dir, 0), start(HOLD, migrated_data_dir, 0)
    url = read_line(first)
    assert read_line(second) == url
    pid = server_pid(migrated_data_dir)

    kill(first)
    time.sleep(0.5)
    with psycopg.connect(url) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
    assert server_pid(migrated_data_dir) == pid

    kill(second)
    wait_until_gone(pid)


def test_a_killed_supervisor_is_replaced_by_the_next_user(migrated_data_dir: Path) -> None:
    first = EmbeddedServer.acquire(migrated_data_dir, linger_seconds=0)
    pid = server_pid(migrated_data_dir)
    os.kill(supervisor_pid(pid), signal.SIGKILL)
    time.sleep(0.2)

    second = EmbeddedServer.acquire(migrated_data_dir, linger_seconds=0)
    assert server_pid(migrated_data_dir) == pid
    first.release()
    time.sleep(0.3)
    with psycopg.connect(second.url) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
    second.release()
    wait_until_gone(pid)


def test_a_server_comes_back_that_was_killed_under_its_second_supervisor(migrated_data_dir: Path) -> None:
    first = EmbeddedServer.acquire(migrated_data_dir, linger_seconds=0)
    pid = server_pid(migrated_data_dir)
    os.kill(supervisor_pid(pid), signal.SIGKILL)
    time.sleep(0.2)
    second = EmbeddedServer.acquire(migrated_data_dir, linger_seconds=0)
    os.kill(pid, signal.SIGKILL)
    wait_until_gone(pid)
    second.ensure_running()
    assert server_pid(migrated_data_dir) != pid
    first.release()
    second.release()


def test_nothing_is_left_running_after_the_server_was_killed(migrated_data_dir: Path) -> None:
    server = EmbeddedServer.acquire(migrated_data_dir)
    pid = server_pid(migrated_data_dir)
    watcher = supervisor_pid(pid)
    os.kill(pid, signal.SIGKILL)
    wait_until_gone(watcher)
    server.ensure_running()
    assert server_pid(migrated_data_dir) != pid
    server.release()


async def test_a_killed_server_comes_back_when_its_last_process_has_ended(migrated_data_dir: Path) -> None:
    server = await asyncio.to_thread(EmbeddedServer.acquire, migrated_data_dir)
    with psycopg.connect(server.url) as connection:
        backend = connection.info.backend_pid
        os.kill(backend, signal.SIGSTOP)  # as one in a long statement, it does not see that the server is gone
        pid = server_pid(migrated_data_dir)
        os.kill(pid, signal.SIGKILL)
        await asyncio.to_thread(wait_until_gone, pid)
        starting = asyncio.create_task(asyncio.to_thread(server.ensure_running))
        log = migrated_data_dir / "postgres.log"
        try:
            async with asyncio.timeout(60):
                while "pre-existing shared memory block" not in log.read_text():
                    await asyncio.sleep(0.02)
            await asyncio.sleep(0.2)
            assert not starting.done()
        finally:
            os.kill(backend, signal.SIGCONT)
        await starting
    assert server_pid(migrated_data_dir) != pid
    server.release()


@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="only Linux tells which program has a process id")
def test_a_program_that_has_the_number_of_a_killed_server_is_left_alone_and_does_not_block_the_next(
    migrated_data_dir: Path,
) -> None:
    server = EmbeddedServer.acquire(migrated_data_dir)
    pid, pid_file = server_pid(migrated_data_dir), migrated_data_dir / "postgres" / "postmaster.pid"
    watcher = supervisor_pid(pid)
    os.kill(pid, signal.SIGKILL)
    wait_until_gone(watcher)
    owner = pid_file.stat().st_uid  # as Postgres of the user that it runs as itself
    with subprocess.Popen(["sleep", "600"], user=owner if os.geteuid() == 0 else None) as other:
        try:
            pid_file.write_text(pid_file.read_text().replace(str(pid), str(other.pid), 1))  # as after a reset
            stop_embedded(migrated_data_dir)
            server.ensure_running()
            assert other.poll() is None
        finally:
            other.kill()
    assert server_pid(migrated_data_dir) != other.pid
    server.release()


def test_a_start_that_failed_does_not_stand_in_the_way_of_the_next(own_data_dir: Path) -> None:
    EmbeddedServer.acquire(own_data_dir, linger_seconds=0).release()
    stop_embedded(own_data_dir)
    settings = own_data_dir / "postgres" / "postgresql.conf"
    good = settings.read_text()
    settings.write_text(good + "shared_buffers = none\n")
    with pytest.raises(DatabaseError, match="did not start"):
        EmbeddedServer.acquire(own_data_dir)
    settings.write_text(good)
    server = EmbeddedServer.acquire(own_data_dir)
    with psycopg.connect(server.url) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
    server.release()


async def test_many_processes_open_one_new_server_at_once(own_data_dir: Path) -> None:
    names = {f"process{number}" for number in range(8)}
    processes = [start(OPEN_AND_ADD, own_data_dir, name) for name in names]
    urls = {process.communicate(timeout=60)[0].strip() for process in processes}
    assert [process.returncode for process in processes] == [0] * 8
    async with await Database.open(Settings(data_dir=own_data_dir)) as database:
        assert urls == {database.url}
        assert await workspaces(database) == names
    assert migrate.status(database.url)[0] == migrate.versions()[-1]
    log = (own_data_dir / "postgres.log").read_text()
    assert log.count("ready to accept connections") == 1
    assert "already exists" not in log
