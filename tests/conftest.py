"""Databases for tests: one server for the session, one migrated template, and a clone of it for each test.

Unless told otherwise this is the embedded Postgres in a temporary directory. With `REME_TEST_DATABASE_URL` (of a
superuser, since the tests create databases, extensions and roles) the same tests run against that server; with
`REME_TEST_CITUS_URL`, of the coordinator of a Citus cluster, against that (see `tests/citus.py`). With
`REME_TEST_POOLER=1` a PgBouncer in transaction mode stands between.
"""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from pydantic import SecretStr

from reme_core.engine import Engine
from reme_core.models import local
from reme_core.postgres import migrate
from reme_core.postgres.database import Database
from reme_core.postgres.embedded.files import initialise
from reme_core.postgres.embedded.server import EmbeddedServer, stop_embedded
from reme_core.postgres.errors import normalise_url
from reme_core.settings import ChatSettings, Settings
from tests.citus import distributed_database, empty
from tests.loopback import Loopback, loopback, loopback_server  # noqa: F401  (fixtures)
from tests.pooler import pooler

CITUS_URL = os.environ.get("REME_TEST_CITUS_URL")
WITH_POOLER = bool(os.environ.get("REME_TEST_POOLER"))

Admin = psycopg.Connection[tuple[Any, ...]]

# Hundreds of processes are started here; what the first has compiled, the others need not.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Several processes embed at once, and threads of one would only wait for those of another.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Each process would look through the nearly three hundred packages of the frameworks for a plugin, and there is none.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One process more than processors: a third of the time a test waits, for Postgres, a process or an installer."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let each process begin with its share of the tests that take long, so that at the end none waits for another.

    Of the tests in their order, xdist gives the first process the first part, and so on.
    """
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    long = [item for item in items if item.get_closest_marker("long")]
    others = [item for item in items if not item.get_closest_marker("long")]
    ordered: list[pytest.Item] = []
    for number in range(processes):
        ordered += long[number::processes]
        room = (number + 1) * len(items) // processes - len(ordered)
        ordered += others[: max(room, 0)]
        del others[: max(room, 0)]
    items[:] = ordered + others


def pytest_collection_finish() -> None:
    """Leave half a million objects of frameworks out of what each garbage collection in a test looks through."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def no_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep the developer's own database, keys and data out of the tests."""
    for name in list(os.environ):
        if name.startswith(("REME_", "FLOW_", "OPENAI_", "DASHSCOPE_")) or name == "DATABASE_URL":
            monkeypatch.delenv(name)
    monkeypatch.setenv("REME_HOME", str(tmp_path / "reme-home"))


@pytest.fixture(scope="session", autouse=True)
def told_once() -> Iterator[Callable[..., local.Vectors]]:
    """Have the offline model embed a text once: hundreds of tests tell it the same few stories. Gives the real way."""
    embed, known = local._encode, dict[tuple[str, bool, str], local.Vectors]()

    def recalled(engine: str, texts: list[str], is_query: bool) -> local.Vectors:
        new = [text for text in dict.fromkeys(texts) if (engine, is_query, text) not in known]
        if new:
            known.update(zip([(engine, is_query, text) for text in new], embed(engine, new, is_query), strict=True))
        return np.stack([known[engine, is_query, text] for text in texts])

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(local, "_encode", recalled)
        yield embed


def make_data_dir() -> Path:
    """A folder for the data of a server: in memory if there is room, where making a database takes a tenth."""
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 4 * 2**30
    # Its name is short, since the socket stands in it.
    return Path(tempfile.mkdtemp(prefix="reme-", dir=memory if roomy else "/tmp"))


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    """The server that the session's databases are made on."""
    external = CITUS_URL or os.environ.get("REME_TEST_DATABASE_URL")
    if external:
        yield normalise_url(external)
        return
    folder = make_data_dir()
    initialise(folder)
    with (folder / "postgres" / "postgresql.conf").open("a") as configuration:
        # Nothing is kept. To make or drop a database Postgres looks through its whole cache; and it waits for a vacuum
        # that it began there by itself.
        configuration.write("fsync = off\nfull_page_writes = off\nsynchronous_commit = off\n")
        configuration.write("shared_buffers = 128MB\nautovacuum = off\n")
    server = EmbeddedServer.acquire(folder, linger_seconds=0)
    yield server.url
    stop_embedded(folder)
    server.release()
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def admin(server_url: str) -> Iterator[Admin]:
    """A connection to it, on which databases are made and dropped: to connect for each takes a third of the time."""
    with psycopg.connect(server_url, autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="session")
def template_database(server_url: str, admin: Admin) -> Iterator[str]:
    """The name of a database with our schema and nothing in it; on a cluster, which clones none, that of all tests."""
    if CITUS_URL:
        with distributed_database(server_url) as url:
            yield str(conninfo_to_dict(url)["dbname"])
        return
    name = f"reme_template_{uuid.uuid4().hex[:12]}"
    admin.execute(f"create database {name}")
    migrate.upgrade(make_conninfo(server_url, dbname=name))
    yield name
    admin.execute(f"drop database {name} with (force)")


@pytest.fixture
def database_url(server_url: str, admin: Admin, template_database: str) -> Iterator[str]:
    """The URL of a fresh database with our schema, for one test."""
    if CITUS_URL:
        url = make_conninfo(server_url, dbname=template_database)
        empty(url)
        yield url
        return
    with clone(admin, template_database) as name:
        yield make_conninfo(server_url, dbname=name)


@pytest.fixture
def empty_database_url(server_url: str, admin: Admin) -> Iterator[str]:
    """The URL of a fresh database with nothing in it, for one test."""
    with clone(admin, "template1") as name:
        yield make_conninfo(server_url, dbname=name)


@contextmanager
def clone(admin: Admin, template: str) -> Iterator[str]:
    """The name of a database that is made after the template, and dropped in the end."""
    name = f"reme_test_{uuid.uuid4().hex[:12]}"
    # Copying the files of a small template takes half the time of reading and writing their pages.
    admin.execute(f"create database {name} template {template} strategy file_copy")
    yield name
    admin.execute(f"drop database {name} with (force)")


@pytest.fixture
def own_data_dir() -> Iterator[Path]:
    """A data directory for an embedded server of the test's own, which is stopped afterwards."""
    folder = make_data_dir()
    yield folder
    stop_embedded(folder)
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def migrated_cluster() -> Iterator[Path]:
    """The files of an embedded server that has our schema and does not run."""
    folder = make_data_dir()
    server = EmbeddedServer.acquire(folder, linger_seconds=0)
    migrate.upgrade(server.url)
    stop_embedded(folder)
    server.release()
    yield folder / "postgres"
    shutil.rmtree(folder)


@pytest.fixture
def migrated_data_dir(own_data_dir: Path, migrated_cluster: Path) -> Path:
    """The same as `own_data_dir`, where all has been made already: copied, in a tenth of the time."""
    subprocess.run(["cp", "-a", migrated_cluster, own_data_dir], check=True)  # who owns it included
    return own_data_dir


@pytest.fixture(scope="session")
def pooler_url(server_url: str) -> Iterator[str | None]:
    """The PgBouncer between, if one is asked for."""
    if not WITH_POOLER:
        yield None
        return
    with pooler(server_url) as url:
        yield url


@pytest.fixture
def settings(database_url: str, pooler_url: str | None, tmp_path: Path) -> Settings:
    """Settings that name the test's own database, and nothing else."""
    settings = Settings(database_url=SecretStr(database_url), data_dir=tmp_path / "data")
    if pooler_url is not None:
        name = str(conninfo_to_dict(database_url)["dbname"])
        settings.pooler_url = SecretStr(make_conninfo(pooler_url, dbname=name))
    return settings


@pytest.fixture
async def database(settings: Settings) -> AsyncIterator[Database]:
    """The test's own database, open."""
    async with await Database.open(settings) as opened:
        yield opened


@pytest.fixture
async def reme(settings: Settings) -> AsyncIterator[Engine]:
    """An open memory on it in which no worker runs by itself; the offline rules and the offline embedder serve."""
    settings.worker.embedded = False
    async with Engine(settings) as opened:
        yield opened


@pytest.fixture
async def reme_with_chat(settings: Settings, loopback: Loopback) -> AsyncIterator[Engine]:  # noqa: F811 - the fixture
    """`reme` with a chat model, which answers as the loopback server is told."""
    settings.worker.embedded = False
    chat = ChatSettings(model_name="loop-chat", base_url=loopback.url, max_retries=0)
    async with Engine(settings.model_copy(update={"llm": {"default": chat}})) as opened:
        yield opened


@pytest.fixture
def plain_owner_url(empty_database_url: str) -> Iterator[str]:
    """An empty database that belongs to an ordinary role: no superuser, no right to make roles."""
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute("create role plain_owner login")
        connection.execute(f"alter database {connection.info.dbname} owner to plain_owner")
        yield make_conninfo(empty_database_url, user="plain_owner")
        connection.execute(
            "reassign owned by plain_owner to current_user; drop owned by plain_owner; drop role plain_owner"
        )
