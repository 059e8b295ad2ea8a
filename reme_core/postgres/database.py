"""The connection to Postgres: a pool whose every statement runs for one workspace, under row-level security.

The workspace is set for a transaction and never for a connection, so that a pooled connection carries nothing from one
caller to the next. A read that needs one statement takes one round trip (`Database.fetch`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Self

import anyio
import anyio.to_thread
import psycopg
from psycopg import AsyncConnection
from psycopg_pool import PoolTimeout

from reme_core.errors import DatabaseError, InputError
from reme_core.settings import Settings
from reme_core.store.connect import RESTART_SECONDS
from reme_core.store.embedded import EmbeddedServer
from reme_core.store.pool import Pool
from reme_core.store.session import Connection, Params, Row, Session, begin, check_if_idle, configure, prepare, run
from reme_core.store.translate import masked, normalise_url, translated

ALL_WORKSPACES = "*"
"""What the policies take for "every workspace"; no workspace can be named so."""

_POOL_SECONDS = RESTART_SECONDS  # for a connection, a restart of the server included
_MAX_IDLE_SECONDS = 300.0
_MAX_LIFETIME_SECONDS = 3600.0
_WORKSPACE_LENGTH = 200


def check_workspace(workspace_id: str) -> str:
    """Return the workspace id as it is.

    Raises:
        InputError: It is empty, `*`, longer than 200 characters, or holds a NUL.
    """
    if not 0 < len(workspace_id) <= _WORKSPACE_LENGTH or workspace_id == ALL_WORKSPACES or "\0" in workspace_id:
        raise InputError(
            f"{workspace_id[:60]!r} cannot name a workspace: give 1 to {_WORKSPACE_LENGTH} characters, no NUL, not '*'"
        )
    return workspace_id


class Database:
    """Postgres, as the rest of the store sees it. Open one with `Database.open` and close it.

    It belongs to the event loop it was opened in: a program with several loops opens one in each. It may be used from
    any number of tasks of that loop.
    """

    def __init__(self, settings: Settings, url: str, server: EmbeddedServer | None) -> None:
        self.settings = settings
        self.url = url
        """The connection string, password included: for programs, not for people (see `repr`)."""
        self._server = server
        self._session: Session
        self._pool: Pool | None = None

    @classmethod
    async def open(cls, settings: Settings) -> Self:
        """Connect to `settings.database_url`, or to the embedded server, which is started and migrated as needed.

        Raises:
            ConfigurationError: `database_url` is no Postgres URL.
            DatabaseUnavailableError: No connection; the message says why and what to do.
            SchemaError: The database's schema is not at this release's version, or pgvector is missing or too old.
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
        """Close all connections. The embedded server goes on for its other users, or stops a little later."""
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
        return f"Database({masked(self.url)})"

    async def fetch(
        self, workspace_id: str, sql: str, params: Params = None, *, settings: Mapping[str, str] | None = None
    ) -> list[Row]:
        """Run one reading statement for a workspace, in one round trip, and return its rows.

        A connection that turns out to be dead is replaced and the statement run again, once; so it must not write (see
        `execute`).

        Args:
            workspace_id: Whose rows it may see.
            sql: One statement with `%s` or `%(name)s` placeholders. It is prepared at once and reused: its text should
                be one of a few.
            params: Values for the placeholders.
            settings: Settings of Postgres for this statement alone, such as `{"hnsw.ef_search": "100"}`.

        Raises:
            InputError: The workspace id cannot be one.
            DatabaseUnavailableError: There is no connection, and none could be made.
        """
        settings = {"reme.workspace": check_workspace(workspace_id), **(settings or {})}
        with translated(self.url):
            async with self._connection() as connection:
                try:
                    return await run(connection, settings, sql, params)
                except psycopg.OperationalError:
                    if not connection.closed:
                        raise
            await self._replace_dead_connections()
            async with self._connection() as connection:
                return await run(connection, settings, sql, params)

    async def execute(
        self, workspace_id: str, sql: str, params: Params = None, *, actor: str = "", reason: str = ""
    ) -> list[Row]:
        """Run one writing statement as a transaction of its own, in one round trip; return what it returns.

        Args:
            workspace_id: Whose rows it may see and write.
            sql: One statement; it is prepared at once.
            params: Values for its placeholders.
            actor: Who does it, for the history.
            reason: Why, for the history.

        Raises:
            InputError: The workspace id cannot be one.
            DatabaseUnavailableError: There is no connection. When it broke off under way, the statement may have been
                carried out or not.
        """
        settings = {"reme.workspace": check_workspace(workspace_id), "reme.actor": actor, "reme.reason": reason}
        with translated(self.url):
            async with self._connection() as connection:
                return await run(connection, settings, sql, params)

    @asynccontextmanager
    async def transaction(
        self, workspace_id: str, *, actor: str = "", reason: str = ""
    ) -> AsyncIterator[AsyncConnection[Row]]:
        """A transaction that sees and writes one workspace; leaving it by an exception rolls it back.

        Args:
            workspace_id: Whose rows it may see and write.
            actor: Who does it, for the history.
            reason: Why, for the history.

        Raises:
            InputError: The workspace id cannot be one.
            DatabaseUnavailableError: There is no connection, or it broke off: unless this was in the commit itself,
                nothing of it was kept.
        """
        settings = {"reme.workspace": check_workspace(workspace_id), "reme.actor": actor, "reme.reason": reason}
        async with self._transaction(settings) as connection:
            yield connection

    @asynccontextmanager
    async def writing(
        self, workspace_id: str, *, actor: str = "", reason: str = ""
    ) -> AsyncIterator[AsyncConnection[Row]]:
        """A `transaction` that has the workspace's turn to write, from before its first statement.

        Those who write messages, memories, vectors or postings of one workspace take turns, so that places in a session
        and document frequencies are counted once, and no two wait for each other's rows.
        """
        settings = {"reme.workspace": check_workspace(workspace_id), "reme.actor": actor, "reme.reason": reason}
        async with self._transaction(settings, turn=True) as connection:
            yield connection

    @asynccontextmanager
    async def maintenance(self) -> AsyncIterator[AsyncConnection[Row]]:
        """A transaction over all workspaces, for what belongs to none: listing them, statistics, clearing up."""
        async with self._transaction({"reme.workspace": ALL_WORKSPACES}) as connection:
            yield connection

    async def execute_anywhere(self, sql: str, params: Params = None) -> list[Row]:
        """Run one statement over all workspaces as a transaction of its own: upkeep, and what belongs to none."""
        with translated(self.url):
            async with self._connection() as connection:
                return await run(connection, {"reme.workspace": ALL_WORKSPACES}, sql, params)

    async def answers(self, within: float) -> bool:
        """Whether it can be worked with at present: it answers `within` so many seconds."""
        try:
            async with asyncio.timeout(within):
                await self.fetch("reme", "select 1")  # of no workspace in particular
        except (DatabaseError, TimeoutError):
            return False
        return True

    @property
    def pool(self) -> Pool:
        """The pool itself, for a library that brings its own statements (the queue).

        Raises:
            DatabaseError: It has been closed.
        """
        if self._pool is None:
            raise DatabaseError("the database has been closed; open a new one")
        return self._pool

    @asynccontextmanager
    async def owner_connection(self) -> AsyncIterator[AsyncConnection[Row]]:
        """A connection of the login role, outside pool and transaction, for `CREATE INDEX CONCURRENTLY` and such."""
        with translated(self.url):
            await self._ensure_server()
            connection = await AsyncConnection.connect(self.url, **self._session.arguments)
            try:
                await configure(connection, self._session.search_path, role=None)
                yield connection
            finally:
                with anyio.CancelScope(shield=True):
                    await connection.close()

    async def _start(self) -> None:
        with translated(self.url):
            self._session = await anyio.to_thread.run_sync(prepare, self.url, self._server is not None)
            self._pool = Pool(
                self._conninfo,
                configure=self._configure,
                kwargs=self._session.arguments,
                min_size=1,
                max_size=self.settings.pool_size,
                check=check_if_idle,
                name="reme",
                timeout=_POOL_SECONDS,
                reconnect_timeout=_POOL_SECONDS,  # it asks at growing intervals; after that, whenever someone needs one
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
        await configure(connection, self._session.search_path, self._session.role)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Connection]:
        pool = self.pool
        try:
            connection = await pool.getconn()
        except PoolTimeout:
            await self._ping()  # says why there is no connection; where there could be one, all were busy
            raise
        try:
            yield connection
        finally:
            connection.last_used = time.monotonic()
            with anyio.CancelScope(shield=True):
                await pool.putconn(connection)

    @asynccontextmanager
    async def _transaction(
        self, settings: Mapping[str, str], *, turn: bool = False
    ) -> AsyncIterator[AsyncConnection[Row]]:
        with translated(self.url):
            async with self._begun(settings, turn) as connection:
                try:
                    yield connection
                except BaseException:
                    with anyio.CancelScope(shield=True), suppress(psycopg.OperationalError):  # dead: rolled back anyhow
                        await connection.rollback()
                    raise
                await connection.commit()

    @asynccontextmanager
    async def _begun(self, settings: Mapping[str, str], turn: bool) -> AsyncIterator[Connection]:
        """A connection with a transaction begun; a dead one is replaced, since nothing is lost at that point."""
        async with AsyncExitStack() as stack:
            connection = await stack.enter_async_context(self._connection())
            try:
                await begin(connection, settings, turn=turn)
            except psycopg.OperationalError:
                if not connection.closed:
                    raise
                await stack.aclose()
                await self._replace_dead_connections()
                connection = await stack.enter_async_context(self._connection())
                await begin(connection, settings, turn=turn)
            yield connection

    async def _ping(self) -> None:
        await self._ensure_server()
        connection = await AsyncConnection.connect(self.url, **self._session.arguments)
        await connection.close()

    async def _replace_dead_connections(self) -> None:
        """After one connection was found dead (the server was restarted, say), the others probably are as well."""
        if self._pool is not None:
            await self._pool.check()
