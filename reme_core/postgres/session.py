"""One connection: what it is given when it is made, and how a workspace's statements are sent over it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from pgvector.psycopg import register_vector
from psycopg import AsyncClientCursor, AsyncConnection
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import ExecStatus
from psycopg_pool import AsyncConnectionPool

from reme_core.errors import SchemaError
from reme_core.store import migrate
from reme_core.store.connect import connect
from reme_core.store.translate import masked

Row = tuple[Any, ...]
Params = Sequence[Any] | Mapping[str, Any] | None

ROLE = "reme_service"

TAKE_TURN = "select pg_advisory_xact_lock(hashtextextended('reme.index ' || %s, 0))"
"""Takes a workspace's turn to write, until the end of the transaction; see `Database.writing`."""

_CHECK_AFTER_SECONDS = 30.0  # idle for longer, a connection may have been cut by a firewall: it is asked first


class Connection(AsyncConnection[Row]):
    """A pooled connection that knows when it was last of use."""

    last_used = 0.0  # on the monotonic clock; a fresh one is checked


class Session(NamedTuple):
    """What every connection to one database is given."""

    arguments: dict[str, Any]
    search_path: str
    role: str | None


def prepare(url: str, embedded: bool) -> Session:
    """Look once, blocking, at what the pool's connections need to know; brings the embedded database up to date."""
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
        arguments["context"] = connection  # its adapters are copied, so that no other has to look up the types
        row = connection.execute(_LOOK, {"role": ROLE}).fetchone()
    assert row is not None
    role, bypasses = row
    if bypasses and role is None:
        raise SchemaError(
            f"the login role of {masked(url)} bypasses row-level security and may not act as {ROLE}, so workspaces"
            f" would not be kept apart; run `GRANT {ROLE} TO {asked.get('user') or 'the role'}`"
        )
    return Session(arguments, search_path, role)


# Superusers, and roles with BYPASSRLS, see all rows whatever the policies say; so we act as the service's role.
_LOOK = """
select (select rolname from pg_roles where rolname = %(role)s and pg_has_role(session_user, oid,
           case when current_setting('server_version_num')::int < 160000 then 'member' else 'set' end)),
       (select rolsuper or rolbypassrls from pg_roles where rolname = session_user)
"""


async def configure(connection: AsyncConnection[Row], search_path: str, role: str | None) -> None:
    """Give a new connection its settings; with a `role` it acts as that from now on, and not as its login."""
    await connection.set_autocommit(True)  # set here: a library that connects by the pool's arguments passes its own
    settings = {"search_path": search_path, "timezone": "UTC", "jit": "off"}
    if role is not None:
        settings["role"] = role
    calls = ", ".join(["set_config(%s, %s, false)"] * len(settings))
    await connection.execute(f"select {calls}", _flat(settings), prepare=False)


async def check_if_idle(connection: Connection) -> None:
    """Ask a connection that was idle for long whether it is still there; raises if not, and the pool replaces it."""
    if time.monotonic() - connection.last_used > _CHECK_AFTER_SECONDS:
        await AsyncConnectionPool.check_connection(connection)


async def begin(connection: Connection, settings: Mapping[str, str], *, turn: bool) -> None:
    """Begin a transaction with these settings, in one round trip: as one message, whose values the client puts in.

    With `turn`, it waits for the workspace's turn to write, and has it until it ends.
    """
    statement, values = "begin; " + _set_local(len(settings)), _flat(settings)
    if turn:
        statement, values = f"{statement}; {TAKE_TURN}", [*values, settings["reme.workspace"]]
    await AsyncClientCursor(connection).execute(statement, values)


async def run(connection: Connection, settings: Mapping[str, str], sql: str, params: Params) -> list[Row]:
    """Send the settings and the statement together; without an explicit transaction they form one of their own."""
    cursor = connection.cursor(binary=True)
    async with connection.pipeline():
        await connection.execute(_set_local(len(settings)), _flat(settings))
        await cursor.execute(sql, params)
    # Asking the cursor for its description would build an object for each column.
    answered = cursor.pgresult is not None and cursor.pgresult.status == ExecStatus.TUPLES_OK
    return await cursor.fetchall() if answered else []


def _flat(settings: Mapping[str, str]) -> list[str]:
    return [part for item in settings.items() for part in item]


@cache
def _set_local(count: int) -> str:
    return "select " + ", ".join(["set_config(%s, %s, true)"] * count)
