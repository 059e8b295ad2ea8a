"""The errors of Postgres and its driver in our own words: each becomes an error of ours that says what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import psycopg
from psycopg import errors as pg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import PoolClosed, PoolTimeout

from reme_core.errors import (
    ConfigurationError,
    ConflictError,
    DatabaseError,
    DatabaseUnavailableError,
    InputError,
    ReMeError,
    SchemaError,
)


class _Reply(NamedTuple):
    """The error of ours for one of Postgres or its driver; `{where}` in its problem is filled in."""

    error: type[ReMeError]
    problem: str
    advice: str


# By class: errors that the server or the driver raises for a statement. The first entry that fits counts.
_BY_CLASS: dict[tuple[type[psycopg.Error], ...], _Reply] = {
    (
        pg.SerializationFailure,
        pg.DeadlockDetected,
        pg.LockNotAvailable,
        pg.ObjectInUse,
        pg.TransactionRollback,
    ): _Reply(ConflictError, "another transaction was at the same rows or tables", "try again"),
    (pg.UndefinedTable, pg.UndefinedFunction, pg.InvalidSchemaName): _Reply(
        SchemaError, "the schema of {where} is not the one needed", "run `reme db upgrade`"
    ),
    (pg.InsufficientPrivilege,): _Reply(
        DatabaseError,
        "the login role of {where} may not do this",
        "grant it the role reme_service; if there is none, let a superuser run `reme db upgrade`, which makes it",
    ),
    (pg.ReadOnlySqlTransaction,): _Reply(
        DatabaseUnavailableError,
        "{where} takes no writes",
        "connect to the primary server, or set default_transaction_read_only to off there",
    ),
    (pg.QueryCanceled,): _Reply(
        DatabaseError,
        "{where} cancelled a statement",
        "if it needs longer, raise limits.read_seconds or limits.write_seconds, or the role's statement_timeout",
    ),
    (pg.DiskFull,): _Reply(DatabaseError, "the disk of {where} is full", "make room and try again"),
    (pg.OutOfMemory,): _Reply(
        DatabaseError, "the server of {where} ran out of memory", "give it more, or change what its hint names"
    ),
    (pg.TooManyConnections,): _Reply(
        DatabaseUnavailableError, "{where} has no connection left", "raise max_connections, or lower pool_size"
    ),
    (pg.ConfigurationLimitExceeded,): _Reply(
        DatabaseError, "a limit set for {where} was reached", "raise that limit, such as temp_file_limit"
    ),
    (pg.ProgramLimitExceeded, pg.StatementTooComplex, pg.TooManyColumns, pg.TooManyArguments): _Reply(
        InputError, "this is more than the database can do at once", "give shorter values, or fewer at a time"
    ),
    (psycopg.DataError,): _Reply(InputError, "a value does not fit", "correct it"),
    (pg.UndefinedFile,): _Reply(
        DatabaseError, "the server of {where} misses a file", "install what it belongs to over there"
    ),
    (pg.IoError, pg.SystemError, pg.DuplicateFile, pg.FileNameTooLong): _Reply(
        DatabaseError, "the server of {where} has trouble with its files", "look at its disk and into its log"
    ),
    (pg.InvalidPassword, pg.InvalidAuthorizationSpecification): _Reply(
        DatabaseUnavailableError, "{where} does not let us in", "correct user and password in DATABASE_URL"
    ),
    (pg.DatabaseDropped,): _Reply(
        DatabaseUnavailableError, "the database {where} was dropped", "create it, or correct DATABASE_URL"
    ),
    (pg.IdleInTransactionSessionTimeout,): _Reply(
        DatabaseUnavailableError, "{where} ended a transaction in which this process stood still", "try again"
    ),
    (pg.CannotConnectNow,): _Reply(
        DatabaseUnavailableError, "{where} is starting or stopping", "try again in a moment"
    ),
    (PoolTimeout,): _Reply(
        DatabaseUnavailableError,
        "all connections to {where} stayed busy",
        "raise pool_size, or look for transactions that stay open",
    ),
    (PoolClosed,): _Reply(DatabaseError, "{where} has been closed", "open a new one"),
    (pg.DuplicatePreparedStatement, pg.InvalidSqlStatementName): _Reply(
        DatabaseError,
        "a pooler before {where} gave this connection to others between transactions",
        "name the pooler in REME_POOLER_URL, and the server itself in DATABASE_URL",
    ),
    (pg.ProtocolViolation,): _Reply(  # what PgBouncer says of itself: query_wait_timeout, no more connections allowed
        DatabaseUnavailableError,
        "a pooler before {where} gave no connection",
        "see that its server is up and its pool large enough, pool_size for each process in session mode",
    ),
    (pg.PipelineAborted,): _Reply(DatabaseError, "a statement sent to {where} before this one failed", "try again"),
}

# By phrase: messages of libpq when it cannot connect or loses a connection. These errors have no SQLSTATE.
_BY_PHRASE: dict[tuple[str, ...], tuple[str, str]] = {
    ("closed the connection", "connection is closed", "connection is lost", "consuming input failed"): (
        "{where} broke off", "try again in a moment",
    ),
    # Before the others: a certificate may be what does not exist.
    ("certificate", "SSL error", "SSL was required"): (
        "no secure connection to {where}",
        "correct the server's certificate, or sslmode and sslrootcert in DATABASE_URL",
    ),
    ("password authentication failed",): (
        "wrong or expired password for user {user} at {where}", "correct it in DATABASE_URL",
    ),
    ("no password supplied",): ("{where} asks for a password for user {user}", "put one into DATABASE_URL"),
    # Before the next: of several hosts, each has its own reason, and the others may be down.
    ("session is read-only", "server is in hot standby mode"): (
        "none of {where} takes writes", "start the primary server, or promote a standby",
    ),
    ("Connection refused", "No such file or directory"): (
        "no server at {where}", "start Postgres there, or correct DATABASE_URL",
    ),
    ("resolve host", "translate host name"): ("the host of {where} is not known", "correct DATABASE_URL"),
    ("no pg_hba.conf entry",): (
        "the server at {where} does not let user {user} in from here", "allow it in pg_hba.conf",
    ),
    ("too many clients", "too many connections", "connection slots"): (
        "the server at {where} has no connection left", "raise its max_connections or the role's limit, or pool less",
    ),
    ("timeout expired",): ("no answer from {where}", "check the address, the network and the firewall"),
    ("starting up", "not yet accepting connections", "in recovery mode"): (
        "the server at {where} is starting", "try again in a moment",
    ),
    ("shutting down",): ("the server at {where} is shutting down", "start it again"),
    ("does not exist",): (
        "the database or the user of {where} does not exist", "create it, or correct DATABASE_URL",
    ),
}  # fmt: skip

# Classes of SQLSTATE that end a connection: failures of the connection, and interventions of an operator.
_LOST_CONNECTION = ("08", "57")


def normalise_url(url: str) -> str:
    """Make a connection string fit for libpq: a driver, as in `postgresql+asyncpg://`, is removed from a URL.

    Raises:
        ConfigurationError: It is neither a URL nor `key=value` pairs, a character in its password ends it, or libpq
            does not know one of its parameters.
    """
    plain = _without_driver(url)
    if _parts(plain) is None:
        raise ConfigurationError(
            f"the database URL '{mask_password(plain)}' is not one for Postgres; write"
            " postgresql://user:password@host:5432/database, and in the password %40 for @, %2F for / and"
            " %25 for %; behind a ? leave out what only other drivers know, such as pgbouncer=true or schema=public"
        )
    return plain


def _without_driver(url: str) -> str:
    scheme, separator, rest = url.strip().partition("://")
    return f"{scheme.partition('+')[0]}://{rest}" if separator else url.strip()


def _parts(url: str) -> dict[str, Any] | None:
    """What a connection string names; None if it is none, or if a part of the password would be taken for the host."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        return None
    _, separator, rest = url.partition("://")
    path = rest.partition("/")[2].partition("?")[0]
    return None if separator and ("@" in str(parts.get("host")) or "@" in path) else parts


def without_password(url: str) -> str:
    """The connection string as `key=value` pairs, all but the password."""
    parts = conninfo_to_dict(normalise_url(url))
    return make_conninfo("", **{name: value for name, value in parts.items() if name != "password"})


def mask_password(url: str) -> str:
    """A connection string in the form `user@host:port/database`, without the password; several hosts have commas."""
    url = _without_driver(url)
    if (parts := _parts(url)) is None:
        # In what is no URL, a password may stand anywhere.
        scheme, separator, _ = url.partition("://")
        return f"{scheme}://…" if separator and scheme.isalpha() else "…"
    hosts = str(parts.get("host") or parts.get("hostaddr") or "localhost").split(",")
    ports = str(parts.get("port") or "").split(",")
    ports *= len(hosts) if len(ports) == 1 else 1  # one port is that of all hosts
    places = [h if h.startswith("/") else f"{h}:{p or 5432}" for h, p in zip(hosts, ports, strict=False)]
    return f"{parts.get('user') or 'default user'}@{','.join(places)}/{parts.get('dbname') or parts.get('user') or ''}"


@contextmanager
def translating_errors(url: str) -> Iterator[None]:
    """Raise errors of ours, which say what to do, for those of Postgres and its driver about the database at `url`.

    Every function that takes a URL works within it, and so raises `DatabaseUnavailableError` if there is no connection.
    Errors of violated constraints are raised as they are: what they mean depends on the statement.
    """
    try:
        yield
    except UnicodeEncodeError as error:  # the driver's, for any text that goes to Postgres
        raise InputError(
            f"{error.object!r:.60} holds half of a surrogate pair and is not valid Unicode; decode it again"
        ) from None
    except psycopg.Error as error:
        # Errors of the server have an SQLSTATE, and errors of the driver have none.
        ours = _translate_of_server(error, url) if error.sqlstate else _translate_of_driver(error, url)
        if ours is None:
            raise
        raise ours from error


def _translate_of_server(error: psycopg.Error, url: str) -> ReMeError | None:
    text, where = error.diag.message_primary or str(error), mask_password(url)
    if isinstance(error, pg.ProgramLimitExceeded) and text.startswith("index row"):
        return InputError("an id or another name is too long for the database; give one of at most 200 characters")
    if reply := _reply_to(error):
        return reply.error(f"{reply.problem.format(where=where)} ({text}); {reply.advice}")
    if not isinstance(error, psycopg.OperationalError):
        return None
    if (error.sqlstate or "").startswith(_LOST_CONNECTION):
        return DatabaseUnavailableError(f"{where} broke off ({text}); try again in a moment")
    return DatabaseError(f"{where} cannot do this ({text}, SQLSTATE {error.sqlstate}); look into the server's log")


def _translate_of_driver(error: psycopg.Error, url: str) -> ReMeError | None:
    text, where = " ".join(str(error).split()), mask_password(url)
    if reply := _reply_to(error):
        return reply.error(f"{reply.problem.format(where=where)}; {reply.advice} ({text})")
    if not isinstance(error, psycopg.OperationalError):
        return None
    for phrases, (problem, advice) in _BY_PHRASE.items():
        if any(phrase in text for phrase in phrases):
            user = conninfo_to_dict(url).get("user") or "(default)"
            return DatabaseUnavailableError(f"{problem.format(user=user, where=where)}; {advice} ({text})")
    return DatabaseUnavailableError(f"no connection to {where}: {text}; check the server and DATABASE_URL")


def _reply_to(error: psycopg.Error) -> _Reply | None:
    return next((reply for classes, reply in _BY_CLASS.items() if isinstance(error, classes)), None)
