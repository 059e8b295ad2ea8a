"""One connection: its settings, and how it sends the statements of a workspace."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple, Self

from pgvector.psycopg.halfvec import register_halfvec_info
from pgvector.psycopg.vector import register_vector_info
from psycopg import AsyncClientCursor, AsyncConnection, AsyncRawCursor, OperationalError
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import ExecStatus, Format, PipelineStatus, TransactionStatus
from psycopg.types import TypeInfo
from psycopg.types.json import set_json_loads
from pydantic_core import from_json

from reme_core.errors import SchemaError
from reme_core.postgres import distribute, migrate
from reme_core.postgres.connect import ENCODING, UNDERSTOOD, connect, has_refused, wait_for_start
from reme_core.postgres.connect import Connection as SyncConnection
from reme_core.postgres.errors import mask_password
from reme_core.postgres.migrate import ROLE
from reme_core.settings import LimitSettings

Row = tuple[Any, ...]
Params = Sequence[Any] | Mapping[str, Any] | None

WRITE_LOCK = "select pg_advisory_xact_lock(hashtextextended('reme.write ' || %s, 0))"
"""Takes the write lock of a workspace until the end of the transaction; see `Database.write_transaction`."""

SNAPSHOT: Final = "begin isolation level repeatable read, read only"
"""Begins a transaction that reads all at one moment, also on a standby; see `begin`."""

_PLACEHOLDER = re.compile(r"%(?:\((\w+)\))?[sb]|%%")


class Connection(AsyncConnection[Row]):
    """A pooled connection that knows when it was last used."""

    last_used = 0.0  # on the monotonic clock; with 0, the connection is checked before its first use
    has_nodes = False  # whether other servers have the rows, which have to know the settings of a transaction

    @classmethod
    async def connect(cls, conninfo: str = "", **arguments: Any) -> Self:
        """Connect as psycopg does, but wait for a server that is starting up."""
        # The server is pinged only after it refused, since a ping is a connection of its own.
        try:
            return await super().connect(conninfo, **arguments)
        except OperationalError as error:
            if not has_refused(error):
                raise
        await wait_for_start(conninfo)
        return await super().connect(conninfo, **arguments)


class Session(NamedTuple):
    """The values with which every connection to one database is made."""

    arguments: dict[str, Any]
    """For `psycopg.connect`."""
    search_path: str
    role: str | None
    """The role to act as, or None to act as the login role."""
    has_nodes: bool
    """Whether the database has the extension Citus, and so other servers may have its rows."""

    def settings(self, limits: LimitSettings) -> dict[str, str]:
        """What is set for all statements; `limits` say when transactions end that take, idle or wait for too long."""
        # Compiling a statement costs more than it saves in milliseconds of work.
        settings = UNDERSTOOD | {"search_path": self.search_path, "timezone": "UTC", "jit": "off"}
        if self.has_nodes:  # else, if the tables are distributed meanwhile, they would know no workspace
            settings = {"citus.propagate_set_commands": "local"} | settings
        if self.role is not None:
            settings["role"] = self.role
        return settings | {
            "idle_in_transaction_session_timeout": milliseconds(_IDLE_SECONDS),
            "lock_timeout": milliseconds(limits.lock_seconds),
            "statement_timeout": milliseconds(limits.upkeep_seconds),
        }


def prepare(url: str, embedded: bool) -> Session:
    """Look up what the pool's connections need, after migrating an embedded database. Blocks.

    Raises:
        SchemaError: The database is not fit for this release (see `migrate.require_current`), or distributed in part,
            or row-level security could not keep workspaces apart in it.
    """
    asked = conninfo_to_dict(url)
    arguments: dict[str, Any] = {
        **ENCODING,
        "prepare_threshold": 0,  # statements are prepared at their first use: there are few different texts
        "application_name": asked.get("application_name") or "reme-core",
        "connect_timeout": asked.get("connect_timeout") or 10,
    }
    with connect(url, autocommit=True, **arguments) as connection:
        if embedded and migrate.current_version(connection) != migrate.versions()[-1]:
            migrate.upgrade(url)
        migrate.require_current(connection, url)
        search_path = migrate.search_path(connection)
        _register_vectors(connection)
        set_json_loads(_read_json, connection)
        # Other connections copy the adapters of this one, and need not look up the types of pgvector.
        arguments["context"] = connection
        row = connection.execute(_ROLES, {"role": ROLE}).fetchone()
        assert row is not None
        role, bypasses, has_nodes = row
        if has_nodes and (waiting := distribute.unspread(connection)):
            raise SchemaError(
                f"{mask_password(url)} is distributed but for {', '.join(waiting)}; run `reme db distribute` to its end"
            )
    if bypasses and role is None:
        raise SchemaError(
            f"the login role of {mask_password(url)} bypasses row-level security and may not act as {ROLE}, so"
            f" workspaces would not be kept apart; run `GRANT {ROLE} TO {asked.get('user') or 'the role'}`, or"
            " `reme db upgrade`, which makes that role where a dump was restored without it"
        )
    return Session(arguments, search_path, role, has_nodes)


def _register_vectors(connection: SyncConnection) -> None:
    # As pgvector's `register_vector`, which takes twelve round trips for the types that we use and two others.
    vector, halfvec = (TypeInfo(name, *oids) for name, *oids in connection.execute(_VECTOR_TYPES))
    register_vector_info(connection, vector)
    register_halfvec_info(connection, halfvec)


_VECTOR_TYPES = """
select typname, pg_type.oid, typarray from pg_type join pg_extension on extnamespace = typnamespace
where extname = 'vector' and typname in ('vector', 'halfvec')
order by typname = 'halfvec'
"""


def _read_json(text: str | bytes) -> Any:
    try:
        return from_json(text)  # several times as fast as `json.loads`
    except ValueError:
        return json.loads(text)  # reads what is nested deeper than 200 levels


# The service's role, if the login role may act as it, and whether the login role bypasses the policies: superusers and
# roles with BYPASSRLS see all rows, so they must act as the service's role. And whether there is Citus.
_ROLES = """
select (select rolname from pg_roles where rolname = %(role)s and pg_has_role(session_user, oid,
           case when current_setting('server_version_num')::int < 160000 then 'member' else 'set' end)),
       (select rolsuper or rolbypassrls from pg_roles where rolname = session_user),
       exists (select from pg_extension where extname = 'citus')
"""


# If a process freezes in the middle of a transaction, Postgres releases its locks after this time. Our own transactions
# idle for a second at most, while their next batch is put together.
_IDLE_SECONDS = 10.0
_TRY_LOCK_SECONDS = 0.5  # for which a connection waits for a write lock, before another workspace may have it


async def configure(connection: AsyncConnection[Row], settings: Mapping[str, str]) -> None:
    """Give a new connection its settings, for as long as it lives."""
    # Set here, and not by the arguments for connecting: a library that uses these passes an `autocommit` of its own.
    await connection.set_autocommit(True)
    if settings:
        calls = ", ".join(f"set_config('{name}', %s, false)" for name in settings)
        await connection.execute(f"select {calls}", list(settings.values()), prepare=False)


def is_tidy(connection: Connection) -> bool:
    """Whether others can go on with a connection as it is."""
    info = connection.info
    return info.pipeline_status == PipelineStatus.OFF and info.transaction_status == TransactionStatus.IDLE


async def tidy(connection: Connection) -> None:
    """Roll back what failed or was cancelled, so that others can go on with the connection; or else close it."""
    if connection.info.pipeline_status != PipelineStatus.OFF:  # cancelled within a pipeline, where it fails for others
        await connection.close()
    else:
        with suppress(OperationalError):  # the server rolls back the transaction of a dead connection
            await connection.rollback()


async def begin(connection: Connection, settings: Mapping[str, str], opening: str) -> None:
    """Begin a transaction with these settings in one round trip; `opening` is `begin`, `SNAPSHOT` or `LOCKED`.

    Raises:
        LockNotAvailable: Somebody else did not release the workspace's write lock within half a second.
    """
    workspace = [settings["reme.workspace"]] if opening == LOCKED else []
    # Postgres takes no parameters with several statements in one message, so the client puts the values into the text.
    statements = f"{opening}; {_set_local(tuple(settings), connection.has_nodes)}"
    await AsyncClientCursor(connection).execute(statements, [*workspace, *settings.values()])


async def run(connection: Connection, settings: Mapping[str, str], sql: str, params: Params) -> list[Row]:
    """Run a statement with these settings as one transaction, in one round trip."""
    # Without values, a % is no placeholder.
    text, names = (sql.encode(), []) if params is None else _number_placeholders(sql)
    values = [params[name] for name in names] if isinstance(params, Mapping) else params
    cursor: AsyncRawCursor[Row] = AsyncRawCursor(connection)
    cursor.format = Format.BINARY
    # The pipeline sends both together, and Postgres takes what one pipeline sends as one transaction.
    async with connection.pipeline():
        await connection.execute(_set_local(tuple(settings), connection.has_nodes), list(settings.values()))
        await cursor.execute(text, values)
    # `cursor.description` would say the same, but builds an object for each column.
    has_rows = cursor.pgresult is not None and cursor.pgresult.status == ExecStatus.TUPLES_OK
    return await cursor.fetchall() if has_rows else []


@lru_cache(maxsize=512)
def _number_placeholders(sql: str) -> tuple[bytes, list[str]]:
    """A statement with `$1`, `$2` … in place of `%(name)s` or `%s`, and the names in the order of their numbers.

    >>> _number_placeholders("select %(a)s, %(b)b::halfvec, %(a)s, 5 %% 3"), _number_placeholders("select %s, %s")[0]
    ((b'select $1, $2::halfvec, $1, 5 % 3', ['a', 'b']), b'select $1, $2')
    """
    # psycopg can do it too, but does it each time for a statement above 4,096 characters, which a recall is.
    numbers: dict[str, int] = {}

    def number(found: re.Match[str]) -> str:
        if found[0] == "%%":
            return "%"
        name = found[1] or str(len(numbers))  # each `%s` is a value of its own
        return f"${numbers.setdefault(name, len(numbers) + 1)}"

    return _PLACEHOLDER.sub(number, sql).encode(), list(numbers)


def milliseconds(seconds: float) -> str:
    """A length of time as a setting of Postgres."""
    return f"{round(seconds * 1000)}ms"


# The limit is for the write lock alone: the settings of a transaction have that for all other locks after it.
_LIMIT = f"select set_config('lock_timeout', '{milliseconds(_TRY_LOCK_SECONDS)}', true)"
LOCKED: Final = f"begin; {_LIMIT}; {WRITE_LOCK}"
"""Begins a transaction that holds the workspace's write lock; see `begin`."""


@cache
def _set_local(names: Sequence[str], has_nodes: bool) -> str:
    # The procedure sets them on the nodes as well. It takes thirty microseconds longer.
    if has_nodes:
        return "call reme.set_local(" + ", ".join(f"'{name}', %s" for name in names) + ")"
    return "select " + ", ".join(f"set_config('{name}', %s, true)" for name in names)
