"""One connection: its settings when it is made, and how the statements of a workspace are sent over it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple, Self

from pgvector.psycopg import register_vector
from psycopg import AsyncClientCursor, AsyncConnection, OperationalError
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import ExecStatus
from psycopg_pool import AsyncConnectionPool

from reme_core.errors import SchemaError
from reme_core.postgres import migrate
from reme_core.postgres.connect import connect, has_refused, wait_for_start
from reme_core.postgres.errors import mask_password
from reme_core.settings import LimitSettings

Row = tuple[Any, ...]
Params = Sequence[Any] | Mapping[str, Any] | None

ROLE = "reme_service"

WRITE_LOCK = "select pg_advisory_xact_lock(hashtextextended('reme.write ' || %s, 0))"
"""Takes the write lock of a workspace until the end of the transaction; see `Database.write_transaction`."""

_CHECK_AFTER_SECONDS = 30.0  # a firewall may have cut a connection that was idle for longer


class Connection(AsyncConnection[Row]):
    """A pooled connection that knows when it was last used."""

    last_used = 0.0  # on the monotonic clock; at 0 it is checked before its first use
    has_nodes = False  # whether other servers hold the rows, and have to know the settings of a transaction

    @classmethod
    async def connect(cls, conninfo: str = "", **arguments: Any) -> Self:
        """Connect, as psycopg does; a server that is starting up is waited for.

        It is asked only where it let nobody in: libpq's ping holds up every thread of Python until it is answered.
        """
        try:
            return await super().connect(conninfo, **arguments)
        except OperationalError as error:
            if not has_refused(error):
                raise
        await wait_for_start(conninfo)
        return await super().connect(conninfo, **arguments)


class Session(NamedTuple):
    """With what every connection to one database is made."""

    arguments: dict[str, Any]
    """For `psycopg.connect`."""
    search_path: str
    role: str | None
    """The role to act as, or None to act as the login role."""
    has_nodes: bool
    """Whether the database has the extension Citus, by which other servers hold its rows."""


def prepare(url: str, embedded: bool) -> Session:
    """Look up, once and blocking, what the pool's connections need to know. An embedded database is migrated first.

    Raises:
        SchemaError: The database is not fit for this release (see `migrate.require_current`), or row-level security
            could not keep workspaces apart in it.
    """
    asked = conninfo_to_dict(url)
    arguments: dict[str, Any] = {
        "prepare_threshold": 0,
        "application_name": asked.get("application_name") or "reme-core",
        "connect_timeout": asked.get("connect_timeout") or 10,
    }
    with connect(url, autocommit=True, **arguments) as connection:
        if embedded and migrate.current_version(connection) != migrate.versions()[-1]:
            migrate.upgrade(url)
        migrate.require_current(connection, url)
        search_path = migrate.search_path(connection)
        connection.execute("select set_config('search_path', %s, false)", [search_path])
        register_vector(connection)
        arguments["context"] = connection  # the others copy its adapters and need not look up the types of pgvector
        row = connection.execute(_ROLES, {"role": ROLE}).fetchone()
    assert row is not None
    role, bypasses, has_nodes = row
    if bypasses and role is None:
        raise SchemaError(
            f"the login role of {mask_password(url)} bypasses row-level security and may not act as {ROLE}, so"
            f" workspaces would not be kept apart; run `GRANT {ROLE} TO {asked.get('user') or 'the role'}`, or"
            " `reme db upgrade`, which makes that role where a dump was restored without it"
        )
    return Session(arguments, search_path, role, has_nodes)


# The service's role, if the login role may act as it, and whether the login role bypasses the policies: superusers and
# roles with BYPASSRLS see all rows, so they must act as the service's role. And whether there is Citus.
_ROLES = """
select (select rolname from pg_roles where rolname = %(role)s and pg_has_role(session_user, oid,
           case when current_setting('server_version_num')::int < 160000 then 'member' else 'set' end)),
       (select rolsuper or rolbypassrls from pg_roles where rolname = session_user),
       exists (select from pg_extension where extname = 'citus')
"""


# A last resort against a process that is frozen in the middle of a transaction: its locks are released after this time.
# Our own transactions idle only while their next batch is put together, for a second at most.
_IDLE_SECONDS = 10.0
_TRY_LOCK_SECONDS = 0.5  # for which a connection waits for a write lock, before another workspace may have it


async def configure(
    connection: AsyncConnection[Row], search_path: str, role: str | None, limits: LimitSettings | None = None
) -> None:
    """Give a new connection its settings.

    Args:
        connection: The new connection.
        search_path: The schemas in which names are looked up.
        role: The role that it acts as; None is its login role.
        limits: When its transactions are ended that take, idle or wait for a lock for too long; None is never.
    """
    await connection.set_autocommit(True)  # not in the arguments: a library that connects with them passes its own
    settings = {"search_path": search_path, "timezone": "UTC", "jit": "off"}
    if role is not None:
        settings["role"] = role
    if limits is not None:
        settings |= {
            "idle_in_transaction_session_timeout": milliseconds(_IDLE_SECONDS),
            "lock_timeout": milliseconds(limits.lock_seconds),
            "statement_timeout": milliseconds(limits.upkeep_seconds),
        }
    calls = ", ".join(["set_config(%s, %s, false)"] * len(settings))
    await connection.execute(f"select {calls}", _flat(settings), prepare=False)


async def roll_back(connection: AsyncConnection[Any]) -> None:
    """End a transaction, on a connection that may be dead, where the server rolls back itself."""
    with suppress(OperationalError):
        await connection.rollback()


async def check_if_idle(connection: Connection) -> None:
    """Check a connection that was idle for long; raises if it is dead, so that the pool replaces it."""
    if time.monotonic() - connection.last_used > _CHECK_AFTER_SECONDS:
        await AsyncConnectionPool.check_connection(connection)


async def begin(connection: Connection, settings: Mapping[str, str], *, write_lock: bool) -> None:
    """Begin a transaction with these settings, in one round trip; with `write_lock`, with the workspace's lock.

    Raises:
        LockNotAvailable: Somebody else holds that lock, and did not release it within half a second.
    """
    statement, values = _set_local(len(settings), connection.has_nodes), _flat(settings)
    if write_lock:
        limit = f"select set_config('lock_timeout', '{milliseconds(_TRY_LOCK_SECONDS)}', true)"
        statement, values = f"{limit}; {WRITE_LOCK}; {statement}", [settings["reme.workspace"], *values]
    # One message with several statements can have no parameters, so the client puts the values into its text.
    await AsyncClientCursor(connection).execute(f"begin; {statement}", values)


async def run(connection: Connection, settings: Mapping[str, str], sql: str, params: Params) -> list[Row]:
    """Send the settings and the statement together, outside of a transaction: the two form one of their own."""
    cursor = connection.cursor(binary=True)
    async with connection.pipeline():
        await connection.execute(_set_local(len(settings), connection.has_nodes), _flat(settings))
        await cursor.execute(sql, params)
    # `cursor.description` would say the same, but builds an object for each column.
    has_rows = cursor.pgresult is not None and cursor.pgresult.status == ExecStatus.TUPLES_OK
    return await cursor.fetchall() if has_rows else []


def milliseconds(seconds: float) -> str:
    """A length of time as a setting of Postgres."""
    return f"{round(seconds * 1000)}ms"


def _flat(settings: Mapping[str, str]) -> list[str]:
    return [part for item in settings.items() for part in item]


@cache
def _set_local(count: int, has_nodes: bool) -> str:
    # The procedure tells the nodes as well, and takes thirty microseconds longer.
    if has_nodes:
        return f"call reme.set_local({', '.join(['%s, %s'] * count)})"
    return "select " + ", ".join(["set_config(%s, %s, true)"] * count)
