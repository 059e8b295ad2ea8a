"""Servers of other people: over TCP with passwords, with settings of their own, without pgvector, with an old one."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from pydantic import SecretStr

from reme_core.cli import doctor
from reme_core.engine import Engine
from reme_core.errors import DatabaseUnavailableError, SchemaError
from reme_core.postgres import migrate
from reme_core.postgres.backup import backup
from reme_core.postgres.database import Database
from reme_core.postgres.embedded.files import environment, postgres_binary
from reme_core.postgres.embedded.server import EmbeddedServer, stop_embedded
from reme_core.settings import Settings
from reme_core.types import Message
from tests.conftest import make_data_dir
from tests.ports import free_port

PASSWORD = "right"


@pytest.fixture(scope="module")
def tcp_server() -> Iterator[str]:
    """A server on a loopback port that asks for a password; yields `host:port`."""
    folder = make_data_dir()
    folder.chmod(0o711)
    EmbeddedServer.acquire(folder, linger_seconds=0).release()  # its way of making one as root serves here, too
    stop_embedded(folder)
    data = folder / "postgres"
    with (data / "pg_hba.conf").open("w") as rules:
        rules.write("local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
    port, owner = free_port(), data.stat()
    server = subprocess.Popen(
        [postgres_binary("postgres"), "-D", data, "-h", "127.0.0.1", "-p", str(port), "-k", data],
        **({"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []} if os.geteuid() == 0 else {}),
        cwd="/",
        env=environment(),
        stderr=subprocess.DEVNULL,
    )
    try:
        with connect_when_up(f"postgresql://postgres@/postgres?host={data}&port={port}") as connection:
            connection.execute(f"alter role postgres password '{PASSWORD}'")
        yield f"127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(folder)


def connect_when_up(url: str) -> psycopg.Connection[tuple[object, ...]]:
    deadline = time.monotonic() + 20
    while True:
        try:
            return psycopg.connect(url, autocommit=True)
        except psycopg.OperationalError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.fixture
def make_database(tcp_server: str) -> Iterator[Callable[..., str]]:
    """Make a database there with these settings, and give its URL."""
    made: list[str] = []
    with psycopg.connect(f"postgresql://postgres:{PASSWORD}@{tcp_server}/postgres", autocommit=True) as connection:

        def make(**settings: str) -> str:
            made.append(f"db{time.monotonic_ns()}")
            connection.execute(f"create database {made[-1]}")
            for name, value in settings.items():
                connection.execute(f"alter database {made[-1]} set {name} = '{value}'")
            return f"postgresql://postgres:{PASSWORD}@{tcp_server}/{made[-1]}"

        yield make
        for name in made:
            connection.execute(f"drop database {name} with (force)")


async def test_over_tcp_with_a_password(make_database: Callable[..., str]) -> None:
    url = make_database()
    migrate.upgrade(url)
    async with await Database.open(Settings(database_url=SecretStr(url))) as database:
        assert await database.fetch("w", "select count(*) from memory") == [(0,)]
        assert PASSWORD not in repr(database)


async def test_a_wrong_password_is_called_that(make_database: Callable[..., str]) -> None:
    url = make_database().replace(f":{PASSWORD}@", ":wr0ng@")
    told = r"wrong or expired password for user postgres at .*127\.0\.0\.1"
    with pytest.raises(DatabaseUnavailableError, match=told) as caught:
        await Database.open(Settings(database_url=SecretStr(url)))
    assert "DATABASE_URL" in str(caught.value)
    assert "wr0ng" not in str(caught.value)
    with pytest.raises(DatabaseUnavailableError, match="wrong or expired password"):
        migrate.upgrade(url)


async def test_a_missing_password_is_called_that(
    make_database: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSFILE", "/nowhere")
    with pytest.raises(DatabaseUnavailableError, match="asks for a password"):
        await Database.open(Settings(database_url=SecretStr(make_database().replace(f":{PASSWORD}@", "@"))))


@pytest.mark.parametrize(
    ("of_database", "of_process"),
    [
        ({"datestyle": "German", "intervalstyle": "sql_standard"}, {}),
        ({"client_encoding": "LATIN1"}, {}),
        ({}, {"PGCLIENTENCODING": "LATIN1", "PGDATESTYLE": "SQL"}),
        ({"standard_conforming_strings": "off"}, {}),
        ({"row_security": "off"}, {}),
    ],
)
async def test_what_is_set_for_a_database_or_a_process_changes_nothing(
    make_database: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    of_database: dict[str, str],
    of_process: dict[str, str],
) -> None:
    url = make_database(**of_database)
    for name, value in of_process.items():
        monkeypatch.setenv(name, value)
    migrate.upgrade(url)
    settings = Settings(database_url=SecretStr(url))
    async with Engine(settings) as reme:
        (tea,) = await reme.memories.add("w", "她喝茶, c:\\tea, it's green")
        assert (await reme.memories.history("w", tea.memory_id))[0].operation == "insert"
        await reme.record("w", [Message(message_id="m", content="I moved to Porto in May.")])
        await reme.summarise("w")
        assert await reme.memories.delete("w", tea.memory_id, erase=True) == 1
    assert backup(url, tmp_path / "backup").workspaces == 1
    found = doctor._check_database(settings)
    assert [one for one in found if one.state != "fine"] == []


@pytest.fixture
def extension_folder() -> Iterator[Path]:
    """A folder of extensions, empty so far, that the server may read."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        (Path(folder) / "extension").mkdir(mode=0o755)
        yield Path(folder) / "extension"


def test_a_server_without_pgvector(make_database: Callable[..., str], extension_folder: Path) -> None:
    url = make_database(extension_control_path=str(extension_folder.parent))
    with pytest.raises(SchemaError, match=r"has no pgvector; install it there .*postgresql-\d+-pgvector"):
        migrate.upgrade(url)


def test_a_server_whose_pgvector_is_too_old(make_database: Callable[..., str], extension_folder: Path) -> None:
    (extension_folder / "vector.control").write_text("default_version = '0.7.4'\nrelocatable = true\n")
    (extension_folder / "vector--0.7.4.sql").write_text("select 1;")
    url = make_database(extension_control_path=str(extension_folder.parent))
    with pytest.raises(SchemaError, match=r"has pgvector 0\.7\.4; install 0\.8 or newer there"):
        migrate.upgrade(url)


async def test_pgvector_in_a_schema_of_its_own_is_found(make_database: Callable[..., str]) -> None:
    url = make_database()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create schema extensions; create extension vector schema extensions")
        connection.execute("grant usage on schema extensions to public")
    migrate.upgrade(url)
    async with await Database.open(Settings(database_url=SecretStr(url))) as database:
        assert await database.fetch("w", "select '[3,4]'::vector <-> '[0,0]'") == [(5.0,)]
