"""The connection to Postgres: a pool, each of whose statements runs for one workspace, under row-level security.

The workspace is set for a transaction and never for a connection, so that a pooled connection carries nothing over from
one caller to the next. A read of one statement takes one round trip (`Database.fetch`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Self

import anyio
import anyio.to_thread
import psycopg
from psycopg import AsyncConnection
from psycopg import errors as pg
from psycopg.pq import PipelineStatus
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from reme_core.errors import ConflictError, DatabaseError, InputError
from reme_core.postgres.connect import RESTART_SECONDS
from reme_core.postgres.embedded.server import EmbeddedServer
from reme_core.postgres.errors import mask_password, normalise_url, translating_errors
from reme_core.postgres.session import (
    Connection,
    Params,
    Row,
    Session,
    begin,
    check_if_idle,
    configure,
    milliseconds,
    prepare,
    roll_back,
    run,
)
from reme_core.postgres.shares import Shares
from reme_core.settings import Settings

ALL_WORKSPACES = "*"
"""The name by which the policies show the rows of every workspace; no workspace may have it."""

_POOL_SECONDS = RESTART_SECONDS  # to wait for a connection: long enough for a restart of the server
_AWAY_SECONDS = 0.5  # the same, where somebody has waited in vain already and nobody got one since
_MAX_IDLE_SECONDS = 300.0
_MAX_LIFETIME_SECONDS = 3600.0
_WORKSPACE_LENGTH = 200


def check_workspace(workspace_id: str) -> str:
    """Return the workspace id as it is.

    Raises:
        InputError: It is empty, `*`, longer than 200 characters, or holds a NUL.
    """
    if not isinstance(workspace_id, str):
        raise InputError(f"a workspace is named by a text, such as 'alice', not by {workspace_id!r:.60}")
    if not 0 < len(workspace_id) <= _WORKSPACE_LENGTH or workspace_id == ALL_WORKSPACES or "\0" in workspace_id:
        rule = f"give 1 to {_WORKSPACE_LENGTH} characters, no NUL, not '*'"
        raise InputError(f"{workspace_id[:60]!r} cannot name a workspace: {rule}")
    return workspace_id


class Database:
    """A Postgres database with its pool of connections. Open one with `Database.open`, and close it.

    It belongs to the event loop in which it was opened. Any number of tasks of that loop may use it.
    """

    def __init__(self, settings: Settings, url: str, server: EmbeddedServer | None) -> None:
        self.settings = settings
        self.url = url
        """The connection string with its password: for programs; people get `repr`."""
        self._server = server
        self._session: Session
        self._shares = Shares(settings.pool_size)
        self._pool: AsyncConnectionPool[Connection] | None = None
        self._away: str | None = None  # why there was no connection when somebody last waited for one in vain

    @classmethod
    async def open(cls, settings: Settings) -> Self:
        """Connect to `settings.database_url`, or to the embedded server, which is started and migrated as needed.

        Raises:
            ConfigurationError: `database_url` is no Postgres URL.
            DatabaseUnavailableError: There is no connection; the message says why and what to do.
            SchemaError: The schema is not at the version of this release, or pgvector is missing or too old.
            DatabaseError: The embedded server does not start.
        """
        if settings.database_url is not None:
            database = cls(settings, normalise_url(settings.database_url.get_secret_value()), None)
        else:
            server = await anyio.to_thread.run_sync(EmbeddedServer.acquire, settings.data_dir)
            database = cls(settings, server.url, server)
        try:
            await database._start()
        except BaseException:
            await database.close()
            raise
        return database

    async def close(self) -> None:
        """Close all connections. The embedded server runs on for its other users, or else stops a little later."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()
        if self._server is not None:
            self._server.release()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"Database({mask_password(self.url)})"

    async def fetch(
        self, workspace_id: str, sql: str, params: Params = None, *, settings: Mapping[str, str] | None = None
    ) -> list[Row]:
        """Run one statement that reads, for one workspace and in one round trip, and return its rows.

        Where the connection turns out to be dead, the statement is run once more on a new one. So it must not write;
        `execute` is for those that do.

        Args:
            workspace_id: The workspace whose rows it sees.
            sql: One statement with `%s` or `%(name)s` placeholders. Each connection prepares it, so a program should
                use few different texts.
            params: Values for the placeholders.
            settings: Settings of Postgres for this statement alone, such as `{"hnsw.ef_search": "100"}`.

        Raises:
            InputError: `workspace_id` is no valid name of a workspace.
            DatabaseUnavailableError: There is no connection, and none could be made.
        """
        limit = milliseconds(self.settings.limits.read_seconds)
        settings = {"reme.workspace": check_workspace(workspace_id), "statement_timeout": limit, **(settings or {})}
        if self._session.has_nodes:
            settings.pop("plan_cache_mode", None)  # Citus has to know the workspace to plan, so it has no generic plans
        share = self._shares.of_read(workspace_id)
        with translating_errors(self.url):
            async with self._connection(share) as connection:
                try:
                    return await run(connection, settings, sql, params)
                except psycopg.OperationalError:
                    if not connection.closed:
                        raise
            await self.pool.check()  # all of them: a restart of the server may have ended more than this one
            async with self._connection(share) as connection:
                return await run(connection, settings, sql, params)

    async def execute(
        self, workspace_id: str, sql: str, params: Params = None, *, actor: str = "", reason: str = ""
    ) -> list[Row]:
        """Run one statement that writes, as a transaction of its own and in one round trip; return its rows.

        Args:
            workspace_id: The workspace whose rows it sees and writes.
            sql: One statement, as for `fetch`.
            params: Values for its placeholders.
            actor: Who does it, for the history.
            reason: Why, for the history.

        Raises:
            InputError: `workspace_id` is no valid name of a workspace.
            DatabaseUnavailableError: There is no connection. If it broke off after the statement was sent, nobody knows
                whether the statement was carried out.
        """
        settings = self._of_write(workspace_id, actor, reason)
        with translating_errors(self.url):
            async with self._connection(self._shares.of_write(workspace_id)) as connection:
                return await run(connection, settings, sql, params)

    @asynccontextmanager
    async def transaction(
        self, workspace_id: str, *, actor: str = "", reason: str = ""
    ) -> AsyncIterator[AsyncConnection[Row]]:
        """A transaction that sees and writes one workspace; an exception inside it rolls it back.

        Args:
            workspace_id: The workspace whose rows it sees and writes.
            actor: Who does it, for the history.
            reason: Why, for the history.

        Raises:
            InputError: `workspace_id` is no valid name of a workspace.
            DatabaseUnavailableError: There is no connection, or it broke off. Then nothing was written, unless it broke
                off in the commit itself.
        """
        settings = self._of_write(workspace_id, actor, reason)
        async with self._transaction(settings, self._shares.of_write(workspace_id)) as connection:
            yield connection

    @asynccontextmanager
    async def write_transaction(
        self, workspace_id: str, *, actor: str = "", reason: str = ""
    ) -> AsyncIterator[AsyncConnection[Row]]:
        """A `transaction` that holds the workspace's write lock from before its first statement until its end.

        Of the transactions with the write lock of one workspace, one runs at a time. So each sees what the ones before
        it wrote, and no two of them wait for each other's rows.

        Raises:
            ConflictError: Others held the lock for all of `limits.lock_seconds`.
        """
        settings, share = self._of_write(workspace_id, actor, reason), self._shares.of_write(workspace_id)
        async with (
            self._turn_to_lock(workspace_id),
            self._transaction(settings, share, write_lock=True) as connection,
        ):
            yield connection

    @asynccontextmanager
    async def maintenance(self) -> AsyncIterator[AsyncConnection[Row]]:
        """A transaction that sees and writes all workspaces: for upkeep, and for what belongs to none."""
        async with self._transaction({"reme.workspace": ALL_WORKSPACES}, ()) as connection:
            yield connection

    async def execute_anywhere(self, sql: str, params: Params = None) -> list[Row]:
        """Run one statement that sees and writes all workspaces, as a transaction of its own; return its rows."""
        with translating_errors(self.url):
            async with self._connection() as connection:
                return await run(connection, {"reme.workspace": ALL_WORKSPACES}, sql, params)

    @property
    def sql_session(self) -> dict[str, str]:
        """The settings with which a connection of one's own works like those of the pool."""
        role = {"role": self._session.role} if self._session.role else {}
        return {"search_path": self._session.search_path, "timezone": "UTC"} | role

    async def answers(self, within: float) -> bool:
        """Whether the database answers a statement `within` so many seconds."""
        try:
            async with asyncio.timeout(within):
                await self.fetch("reme", "select 1")  # the statement reads no workspace; any name will do
        except (DatabaseError, TimeoutError):
            return False
        return True

    @property
    def pool(self) -> AsyncConnectionPool[Connection]:
        """The pool itself, for a library that brings its own statements.

        Raises:
            DatabaseError: The database has been closed.
        """
        if self._pool is None:
            raise DatabaseError("the database has been closed; open a new one")
        return self._pool

    @asynccontextmanager
    async def owner_connection(self) -> AsyncIterator[AsyncConnection[Row]]:
        """A connection of the login role, outside of pool and transactions, as `CREATE INDEX CONCURRENTLY` needs it."""
        with translating_errors(self.url):
            await self._ensure_server()
            connection = await AsyncConnection.connect(self.url, **self._session.arguments)
            try:
                # An index that is built concurrently waits for all transactions before it, however long they take.
                await configure(connection, self._session.search_path, role=None)
                yield connection
            finally:
                with anyio.CancelScope(shield=True):
                    await connection.close()

    async def _start(self) -> None:
        with translating_errors(self.url):
            self._session = await anyio.to_thread.run_sync(prepare, self.url, self._server is not None)
            self._pool = AsyncConnectionPool(
                self._conninfo,
                connection_class=Connection,
                open=False,
                configure=self._configure,
                kwargs=self._session.arguments,
                min_size=1,
                max_size=self.settings.pool_size,
                check=check_if_idle,
                name="reme",
                timeout=_POOL_SECONDS,
                reconnect_timeout=_POOL_SECONDS,  # then it tries again when a connection is asked for
                max_idle=_MAX_IDLE_SECONDS,
                max_lifetime=_MAX_LIFETIME_SECONDS,
            )
            await self._pool.open()

    async def _conninfo(self) -> str:
        await self._ensure_server()
        return self.url

    async def _ensure_server(self) -> None:
        if self._server is not None:
            await anyio.to_thread.run_sync(self._server.ensure_running)

    async def _configure(self, connection: Connection) -> None:
        connection.has_nodes = self._session.has_nodes
        await configure(connection, self._session.search_path, self._session.role, self.settings.limits)

    def _of_write(self, workspace_id: str, actor: str, reason: str) -> dict[str, str]:
        return {
            "reme.workspace": check_workspace(workspace_id),
            "reme.actor": actor,
            "reme.reason": reason,
            "lock_timeout": milliseconds(self.settings.limits.lock_seconds),
            "statement_timeout": milliseconds(self.settings.limits.write_seconds),
        }

    @asynccontextmanager
    async def _connection(self, share: Collection[asyncio.Semaphore] = ()) -> AsyncIterator[Connection]:
        pool = self.pool
        async with AsyncExitStack() as stack:
            patience = _POOL_SECONDS if self._away is None else _AWAY_SECONDS
            try:
                async with asyncio.timeout(patience):
                    for place in share:
                        await stack.enter_async_context(place)
                connection = await pool.getconn(patience)
            except (PoolTimeout, TimeoutError) as error:
                if self._away is not None:  # others have waited long enough to know
                    raise psycopg.OperationalError(self._away) from error
                await self._ping()  # raises the reason why there is no connection; if it can connect, all were busy
                raise PoolTimeout(f"none became free within {patience:g} s") from error
            self._away = None
            try:
                yield connection
            finally:
                connection.last_used = time.monotonic()
                with anyio.CancelScope(shield=True):
                    # Whoever was cancelled within a pipeline may leave the connection in it; nobody else is to get it.
                    if connection.info.pipeline_status != PipelineStatus.OFF:
                        await connection.close()
                    await pool.putconn(connection)

    @asynccontextmanager
    async def _turn_to_lock(self, workspace_id: str) -> AsyncIterator[None]:
        """Wait for the writers of this process that came before."""
        patience = self.settings.limits.lock_seconds
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(patience):
                    await stack.enter_async_context(self._shares.of_lock(workspace_id))
            except TimeoutError:
                with translating_errors(self.url):
                    await self._ping()
                problem = f"others wrote to workspace '{workspace_id}' for all of {patience:g} s; try again"
                raise ConflictError(problem) from None
            yield

    @asynccontextmanager
    async def _transaction(
        self, settings: Mapping[str, str], share: Collection[asyncio.Semaphore], *, write_lock: bool = False
    ) -> AsyncIterator[AsyncConnection[Row]]:
        deadline = time.monotonic() + self.settings.limits.lock_seconds
        with translating_errors(self.url):
            while True:
                async with AsyncExitStack() as stack:
                    try:
                        connection = await self._begin(stack, settings, share, write_lock)
                    except pg.LockNotAvailable:  # the connection is given back meanwhile: others may need none
                        if time.monotonic() > deadline:
                            raise
                        continue
                    try:
                        yield connection
                    except BaseException:
                        with anyio.CancelScope(shield=True):
                            await roll_back(connection)
                        raise
                    await connection.commit()
                    return

    async def _begin(
        self, stack: AsyncExitStack, settings: Mapping[str, str], share: Collection[asyncio.Semaphore], write_lock: bool
    ) -> Connection:
        """Begin a transaction; where the connection is dead, on a new one, since nothing was sent yet."""
        connection = await stack.enter_async_context(self._connection(share))
        try:
            await begin(connection, settings, write_lock=write_lock)
        except psycopg.OperationalError:
            if not connection.closed:
                await roll_back(connection)
                raise
            await stack.aclose()
            await self.pool.check()
            connection = await stack.enter_async_context(self._connection(share))
            await begin(connection, settings, write_lock=write_lock)
        return connection

    async def _ping(self) -> None:
        await self._ensure_server()
        try:
            connection = await AsyncConnection.connect(self.url, **self._session.arguments)
        except psycopg.OperationalError as error:
            self._away = str(error)
            raise
        await connection.close()
