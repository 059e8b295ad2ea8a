"""What Postgres and its driver complain of, and what a user is told and advised to do."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from psycopg import errors as pg
from psycopg_pool import PoolClosed, PoolTimeout

from reme_core.errors import ConflictError, DatabaseError, DatabaseUnavailableError, InputError, ReMeError, SchemaError
from reme_core.postgres.errors import mask_password, translating_errors
from reme_core.settings import Settings
from reme_core.spool.waiting import spool_path

URL = "postgresql://ada:secret@db.example:5433/memory"
WHERE = "ada@db.example:5433/memory"


def told(error: psycopg.Error) -> ReMeError:
    """What is raised for an error of the driver."""
    with pytest.raises(ReMeError) as caught, translating_errors(URL):
        raise error
    assert caught.value.__cause__ is error
    return caught.value


def operational(kind: type[psycopg.Error] = psycopg.OperationalError) -> list[type[psycopg.Error]]:
    """All that psycopg counts as trouble of the database's operation."""
    return [each for child in kind.__subclasses__() for each in (child, *operational(child))]


@pytest.mark.parametrize(
    ("error", "kind", "wrong", "advice"),
    [
        (pg.UndefinedFile('could not access file "$libdir/vector"'), DatabaseError, "misses a file", "install"),
        (
            pg.UndefinedFunction("function procrastinate_unregister_worker_v1(smallint) does not exist"),
            *(SchemaError, "not the one needed", "reme db upgrade"),
        ),
        (pg.DiskFull("could not extend file"), DatabaseError, "disk of", "make room"),
        (pg.OutOfMemory("out of shared memory"), DatabaseError, "ran out of memory", "give it more"),
        (pg.TooManyConnections("too many"), DatabaseUnavailableError, "no connection left", "max_connections"),
        (pg.ConfigurationLimitExceeded("temporary file size"), DatabaseError, "a limit set for", "temp_file_limit"),
        (
            pg.ProgramLimitExceeded("index row size 2712"),
            InputError,
            "an id or another name is too long",
            "at most 200",
        ),
        (pg.IoError("could not read block 3"), DatabaseError, "trouble with its files", "log"),
        (pg.ObjectInUse("is being accessed"), ConflictError, "another transaction", "try again"),
        (pg.DeadlockDetected("deadlock detected"), ConflictError, "another transaction", "try again"),
        (pg.InvalidPassword("wrong"), DatabaseUnavailableError, "does not let us in", "password in DATABASE_URL"),
        (pg.DatabaseDropped("dropped"), DatabaseUnavailableError, "was dropped", "create it"),
        (pg.CannotConnectNow("starting up"), DatabaseUnavailableError, "starting or stopping", "in a moment"),
        (pg.AdminShutdown("terminating connection"), DatabaseUnavailableError, "broke off", "in a moment"),
        (pg.ConnectionFailure("gone"), DatabaseUnavailableError, "broke off", "in a moment"),
        (psycopg.OperationalError("the connection is closed"), DatabaseUnavailableError, "broke off", "in a moment"),
        (
            psycopg.OperationalError("consuming input failed: server closed the connection unexpectedly"),
            *(DatabaseUnavailableError, "broke off", "in a moment"),
        ),
        (
            psycopg.OperationalError('root certificate file "/root/.postgresql/root.crt" does not exist'),
            *(DatabaseUnavailableError, "no secure connection", "sslrootcert"),
        ),
        (
            psycopg.OperationalError("server does not support SSL, but SSL was required"),
            *(DatabaseUnavailableError, "no secure connection", "sslmode"),
        ),
        (
            psycopg.OperationalError("port 1 failed: session is read-only, port 2 failed: Connection refused"),
            *(DatabaseUnavailableError, "takes writes", "promote a standby"),
        ),
        (
            pg.DuplicatePreparedStatement('prepared statement "_pg3_0" already exists'),
            *(DatabaseError, "a pooler before", "REME_POOLER_URL"),
        ),
        (
            pg.InvalidSqlStatementName('prepared statement "_pg3_9" does not exist'),
            *(DatabaseError, "a pooler before", "REME_POOLER_URL"),
        ),
        (
            pg.ProtocolViolation("query_wait_timeout"),
            DatabaseUnavailableError,
            "gave no connection",
            "pool large enough",
        ),
        (pg.PipelineAborted("pipeline aborted"), DatabaseError, "before this one failed", "try again"),
        (pg.ExternalRoutineException("plpython"), DatabaseError, "cannot do this", "log"),
        (PoolTimeout("15 s"), DatabaseUnavailableError, "stayed busy", "pool_size"),
        (PoolClosed("closed"), DatabaseError, "has been closed", "open a new one"),
    ],
)
def test_each_trouble_has_its_own_true_message(
    error: psycopg.Error, kind: type[ReMeError], wrong: str, advice: str
) -> None:
    ours = told(error)
    assert type(ours) is kind
    assert wrong in str(ours)
    assert advice in str(ours)


@pytest.mark.parametrize("kind", operational(), ids=lambda kind: kind.__name__)
def test_only_a_lost_connection_is_said_to_have_broken_off(kind: type[psycopg.Error]) -> None:
    ours = told(kind("what the server says"))
    named = (pg.QueryCanceled, pg.DatabaseDropped, pg.CannotConnectNow, pg.ProtocolViolation)
    lost = (kind.sqlstate or "").startswith(("08", "57")) and kind not in named
    assert ("broke off" in str(ours)) == lost
    assert WHERE in str(ours) or isinstance(ours, ConflictError | InputError)
    assert "what the server says" in str(ours)
    assert "secret" not in str(ours)


def test_what_the_statement_itself_is_to_blame_for_is_left_to_its_author() -> None:
    with pytest.raises(pg.UniqueViolation), translating_errors(URL):
        raise pg.UniqueViolation("duplicate key")


@pytest.mark.parametrize(
    ("hosts", "named"),
    [("a:1,b:2", "a:1,b:2"), ("a,b", "a:5432,b:5432"), ("a,b:2", "a:5432,b:2"), ("a:1", "a:1")],
)
def test_an_address_names_each_host_with_its_port(hosts: str, named: str) -> None:
    assert mask_password(f"postgresql://ada:secret@{hosts}/memory") == f"ada@{named}/memory"
    assert mask_password("host=a,/run/pg port=1 user=ada dbname=memory") == "ada@a:1,/run/pg/memory"
    assert mask_password(f"postgresql+asyncpg://ada:secret@{hosts}/memory") == f"ada@{named}/memory"


def test_the_spools_of_two_databases_are_two_files_whatever_driver_their_urls_name(tmp_path: Path) -> None:
    urls = ("postgresql+asyncpg://ada:secret@db/first", "postgresql+asyncpg://ada:secret@db/second")
    files = {
        spool_path("file", Settings.load(f"database_url={url}", f"data_dir={tmp_path}", environ={})) for url in urls
    }
    assert len(files) == 2
