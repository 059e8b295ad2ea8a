"""The one place where a complaint of Postgres or its driver becomes an error of ours, with what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors as pg
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import PoolClosed, PoolTimeout

from reme_core.errors import (
    ConfigurationError,
    ConflictError,
    DatabaseError,
    DatabaseUnavailableError,
    ReMeError,
    SchemaError,
)

# What libpq and the server say when a connection fails or is lost (there is no SQLSTATE then), and what to do about it.
_CONNECTING: tuple[tuple[str, str, str], ...] = (
    ("closed the connection", "{where} broke off", "try again in a moment"),
    ("connection is closed", "{where} broke off", "try again in a moment"),
    ("connection is lost", "{where} broke off", "try again in a moment"),
    ("consuming input failed", "{where} broke off", "try again in a moment"),
    ("password authentication failed", "wrong password for user {user} at {where}", "correct it in DATABASE_URL"),
    ("no password supplied", "{where} asks for a password for user {user}", "put one into DATABASE_URL"),
    ("Connection refused", "no server at {where}", "start Postgres there, or correct DATABASE_URL"),
    ("No such file or directory", "no server at {where}", "start Postgres there, or correct DATABASE_URL"),
    ("resolve host", "the host of {where} is not known", "correct DATABASE_URL"),
    ("translate host name", "the host of {where} is not known", "correct DATABASE_URL"),
    ("no pg_hba.conf entry", "the server at {where} does not let user {user} in from here", "allow it in pg_hba.conf"),
    ("too many clients", "the server at {where} has no connection left", "raise its max_connections, or pool less"),
    ("connection slots", "the server at {where} has no connection left", "raise its max_connections, or pool less"),
    ("timeout expired", "no answer from {where}", "check the address, the network and the firewall"),
    ("starting up", "the server at {where} is starting", "try again in a moment"),
    ("not yet accepting connections", "the server at {where} is starting", "try again in a moment"),
    ("in recovery mode", "the server at {where} is starting", "try again in a moment"),
    ("shutting down", "the server at {where} is shutting down", "start it again"),
    ("does not exist", "the database or the user of {where} does not exist", "create it, or correct DATABASE_URL"),
)

# What the server says to a statement; the first that fits counts.
_RUNNING: tuple[tuple[tuple[type[psycopg.Error], ...], type[ReMeError], str, str], ...] = (
    (
        (pg.SerializationFailure, pg.DeadlockDetected, pg.LockNotAvailable, pg.ObjectInUse, pg.TransactionRollback),
        *(ConflictError, "another transaction was at the same rows or tables", "try again"),
    ),
    (
        (pg.UndefinedTable, pg.InvalidSchemaName),
        *(SchemaError, "the schema of {where} is not the one needed", "run `reme db upgrade`"),
    ),
    (
        (pg.InsufficientPrivilege,),
        *(DatabaseError, "the login role of {where} may not do this", "grant it the role reme_service"),
    ),
    (
        (pg.ReadOnlySqlTransaction,),
        *(DatabaseUnavailableError, "{where} takes no writes", "connect to the primary server"),
    ),
    (
        (pg.QueryCanceled,),
        *(DatabaseError, "{where} cancelled a statement", "raise statement_timeout if it needs longer"),
    ),
    ((pg.DiskFull,), DatabaseError, "the disk of {where} is full", "make room and try again"),
    (
        (pg.OutOfMemory,),
        *(DatabaseError, "the server of {where} ran out of memory", "give it more, or change what its hint names"),
    ),
    (
        (pg.TooManyConnections,),
        *(DatabaseUnavailableError, "{where} has no connection left", "raise max_connections, or lower pool_size"),
    ),
    (
        (pg.ConfigurationLimitExceeded,),
        *(DatabaseError, "a limit set for {where} was reached", "raise that limit, such as temp_file_limit"),
    ),
    (
        (pg.ProgramLimitExceeded, pg.StatementTooComplex, pg.TooManyColumns, pg.TooManyArguments),
        *(
            DatabaseError,
            "this is more than {where} can do at once",
            "give shorter values, or fewer at a time",
        ),
    ),
    (
        (pg.UndefinedFile,),
        *(
            DatabaseError,
            "the server of {where} misses a file",
            "install what it belongs to over there",
        ),
    ),
    (
        (pg.IoError, pg.SystemError, pg.DuplicateFile, pg.FileNameTooLong),
        *(DatabaseError, "the server of {where} has trouble with its files", "look at its disk and into its log"),
    ),
    (
        (pg.InvalidPassword, pg.InvalidAuthorizationSpecification),
        *(DatabaseUnavailableError, "{where} does not let us in", "correct user and password in DATABASE_URL"),
    ),
    (
        (pg.DatabaseDropped,),
        *(DatabaseUnavailableError, "the database {where} was dropped", "create it, or correct DATABASE_URL"),
    ),
    (
        (pg.CannotConnectNow,),
        *(DatabaseUnavailableError, "{where} is starting or stopping", "try again in a moment"),
    ),
)

# Classes of SQLSTATE after which a connection is gone: what befell the connection itself, and what an operator did.
_BROKEN_OFF = ("08", "57")

# What the driver complains of by itself.
_DRIVER: tuple[tuple[type[psycopg.Error], type[DatabaseError], str, str], ...] = (
    (
        PoolTimeout,
        *(DatabaseUnavailableError, "all connections to {where} stayed busy"),
        "raise pool_size, or look for transactions that stay open",
    ),
    (PoolClosed, DatabaseError, "{where} has been closed", "open a new one"),
    (pg.PipelineAborted, DatabaseError, "a statement sent to {where} before this one failed", "try again"),
)


def normalise_url(url: str) -> str:
    """A connection string for libpq: a URL (a driver as in `postgresql+asyncpg://` is dropped) or `key=value` pairs.

    Raises:
        ConfigurationError: It is neither.
    """
    scheme, separator, rest = url.strip().partition("://")
    plain = f"{scheme.partition('+')[0]}://{rest}" if separator else url.strip()
    try:
        conninfo_to_dict(plain)
    except psycopg.ProgrammingError:
        raise ConfigurationError(
            f"the database URL '{masked(plain)}' is not one for Postgres; write postgresql://user:password@host:5432/database"
        ) from None
    return plain


def masked(url: str) -> str:
    """Name the place that a connection string leads to, `user@host:port/database`, and never the password."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        return url.partition("://")[0] + "://…"
    host = parts.get("host") or parts.get("hostaddr") or "localhost"
    place = f"{host}:{parts.get('port') or 5432}" if not str(host).startswith("/") else host
    return f"{parts.get('user') or 'default user'}@{place}/{parts.get('dbname') or parts.get('user') or ''}"


@contextmanager
def translated(url: str) -> Iterator[None]:
    """Raise our errors for the driver's, about the database at `url`.

    Violated constraints and values that do not fit are left as they are: whoever wrote the statement knows what they
    mean.
    """
    try:
        yield
    except psycopg.Error as error:
        ours = _of_statement(error, url) if error.sqlstate else _of_connection(error, url)
        if ours is None:
            raise
        raise ours from error


def _of_connection(error: psycopg.Error, url: str) -> DatabaseError | None:
    text = " ".join(str(error).split())
    for kind, ours, wrong, advice in _DRIVER:
        if isinstance(error, kind):
            return ours(f"{wrong.format(where=masked(url))}; {advice} ({text})")
    if not isinstance(error, psycopg.OperationalError):
        return None
    for sign, wrong, advice in _CONNECTING:
        if sign in text:
            user = conninfo_to_dict(url).get("user") or "(default)"
            return DatabaseUnavailableError(f"{wrong.format(user=user, where=masked(url))}; {advice} ({text})")
    return DatabaseUnavailableError(f"no connection to {masked(url)}: {text}; check the server and DATABASE_URL")


def _of_statement(error: psycopg.Error, url: str) -> ReMeError | None:
    text = error.diag.message_primary or str(error)
    for classes, ours, wrong, advice in _RUNNING:
        if isinstance(error, classes):
            return ours(f"{wrong.format(where=masked(url))} ({text}); {advice}")
    if not isinstance(error, psycopg.OperationalError):
        return None
    if (error.sqlstate or "").startswith(_BROKEN_OFF):
        return DatabaseUnavailableError(f"{masked(url)} broke off ({text}); try again in a moment")
    return DatabaseError(
        f"{masked(url)} cannot do this ({text}, SQLSTATE {error.sqlstate}); look into the server's log"
    )
