"""The connection to Postgres: a pool of connections, where each statement sees one workspace by row-level security.

The workspace is set for a transaction and never for a connection: so a pooled connection takes nothing over from one
caller to the next. A read of one statement takes one round trip (`Database.fetch`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Self

import anyio
import anyio.to_thread
import psycopg
from psycopg import AsyncConnection
from psycopg import errors as pg
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from reme_core.errors import ConflictError, DatabaseError, DatabaseUnavailableError, InputError
from reme_core.postgres.embedded.server import EmbeddedServer
from reme_core.postgres.errors import mask_password, normalise_url, translating_errors
from reme_core.postgres.pool import POOL_SECONDS, make_pool
from reme_core.postgres.session import (
    LOCKED,
    SNAPSHOT,
    Connection,
    Params,
    Row,
    Session,
    begin,
    configure,
    is_tidy,
    milliseconds,
    prepare,
    run,
    tidy,
)
from reme_core.postgres.shares import Shares
from reme_core.settings import Settings

Transaction = AbstractAsyncContextManager[AsyncConnection[Row]]

ALL_WORKSPACES = "*"
"""With this name the policies show the rows of every workspace; no workspace may have it."""

# Once a caller has waited for a connection in vain, others wait less, until one of them gets one.
_AWAY_SECONDS = 0.5
_WORKSPACE_LENGTH = 200


def check_workspace(workspace_id: str) -> str:
    """Return the workspace id as it is.

    Raises:
        InputError: It is blank, `*`, longer than 200 characters, or holds a NUL.
    """
    if not isinstance(workspace_id, str):
        raise InputError(f"a workspace is named by a text, such as 'alice', not by {workspace_id!r:.60}")
    is_name = bool(workspace_id.strip()) and len(workspace_id) <= _WORKSPACE_LENGTH and "\0" not in workspace_id
    if not is_name or workspace_id == ALL_WORKSPACES:
        rule = f"give 1 to {_WORKSPACE_LENGTH} characters, not only blanks, no NUL, not '*'"
        raise InputError(f"{workspace_id[:60]!r} cannot name a workspace: {rule}")
    return workspace_id


class Database:
    """A Postgres database with its pool of connections. Open one with `Database.open`, and close it.

    It belongs to the event loop in which it was opened. Any number of tasks of that loop may use it. What runs
    statements raises `InputError` for what cannot name a workspace, and `DatabaseUnavailableError` if there is no
    connection, or it broke off. Then nothing was written, unless it broke off in a commit, or while `execute` waited
    for the answer.
    """

    def __init__(self, settings: Settings, url: str, server: EmbeddedServer | None) -> None:
        self.settings = settings
        self.url = url
        """The connection string with its password, for programs; messages for people use `repr`."""
        self._server = server
        pooler = settings.pooler_url
        self._pooler = normalise_url(pooler.get_secret_value()) if pooler is not None else None
        self._session: Session
        self._each: dict[str, str] = {}  # settings that each transaction begins with
        limits = settings.limits
        read, write, lock = map(milliseconds, (limits.read_seconds, limits.write_seconds, limits.lock_seconds))
        self._of_read, self._of_write = {"statement_timeout": read}, {"lock_timeout": lock, "statement_timeout": write}
        self._shares = Shares(settings.pool_size)
        self._pool: AsyncConnectionPool[Connection] | None = None
        self._tidying: set[asyncio.Task[None]] = set()
        self._away: str | None = None  # why the last caller who waited for a connection in vain got none

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
        """Close all connections; an embedded server without other users stops a little later."""
        pool, self._pool = self._pool, None
        if self._tidying:
            await asyncio.wait(set(self._tidying))
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

        If the connection turns out to be dead, the statement is run again on a new one. So it must not write: use
        `execute` for that. It has `%s` or `%(name)s` placeholders. Each connection prepares it, so use few different
        texts. The settings are Postgres', for this statement alone, such as `{"hnsw.ef_search": "100"}`.
        """
        settings = self._each | self._of_read | {"reme.workspace": check_workspace(workspace_id), **(settings or {})}
        if self._session.has_nodes:
            settings.pop("plan_cache_mode", None)  # Citus has no generic plans: it plans by the workspace
        share = self._shares.of_read(workspace_id)
        async with self._connection(share) as connection:
            try:
                return await run(connection, settings, sql, params)
            except psycopg.OperationalError:
                if not connection.closed:
                    raise
        await self.pool.check()  # a restart of the server may have ended the other connections as well
        async with self._connection(share) as connection:
            return await run(connection, settings, sql, params)

    async def execute(
        self, workspace_id: str, sql: str, params: Params = None, *, actor: str = "", reason: str = ""
    ) -> list[Row]:
        """Run one statement that writes, as a transaction of its own and in one round trip; return its rows.

        The workspace and the statement are as for `fetch`. Who does it, and the reason, are for the history.
        """
        settings = self._write_settings(workspace_id, actor, reason)
        async with self._connection(self._shares.of_write(workspace_id)) as connection:
            return await run(connection, settings, sql, params)

    def transaction(self, workspace_id: str, *, actor: str = "", reason: str = "") -> Transaction:
        """A transaction that sees and writes one workspace; an exception inside it rolls it back."""
        return self._transaction(self._write_settings(workspace_id, actor, reason), self._shares.of_write(workspace_id))

    @asynccontextmanager
    async def write_transaction(
        self, workspace_id: str, *, actor: str = "", reason: str = ""
    ) -> AsyncIterator[AsyncConnection[Row]]:
        """A `transaction` that holds the workspace's write lock from its beginning to its end.

        In one workspace, one such transaction runs at a time. So each sees what the ones before it wrote, and no two of
        them can deadlock.

        Raises:
            ConflictError: Others held the lock for all of `limits.lock_seconds`.
        """
        settings, share = self._write_settings(workspace_id, actor, reason), self._shares.of_write(workspace_id)
        patience = self.settings.limits.lock_seconds
        async with AsyncExitStack() as stack:
            try:
                # Without a connection; only the first writer of this process waits for the lock of Postgres.
                async with asyncio.timeout(patience):
                    await stack.enter_async_context(self._shares.of_lock(workspace_id))
            except TimeoutError:
                await self._ping()
                problem = f"others wrote to workspace '{workspace_id}' for all of {patience:g} s; try again"
                raise ConflictError(problem) from None
            yield await stack.enter_async_context(self._transaction(settings, share, LOCKED))

    def snapshot(self, workspace_id: str) -> Transaction:
        """A transaction whose statements read one workspace as it is at one moment; it writes and locks nothing."""
        settings = self._each | self._of_read | {"reme.workspace": check_workspace(workspace_id)}
        return self._transaction(settings, self._shares.of_read(workspace_id), SNAPSHOT)

    def maintenance(self) -> Transaction:
        """A transaction that sees and writes all workspaces, and what belongs to none."""
        return self._transaction(self._each | {"reme.workspace": ALL_WORKSPACES}, ())

    async def execute_anywhere(self, sql: str, params: Params = None) -> list[Row]:
        """Run one statement that sees and writes all workspaces, as a transaction of its own; return its rows."""
        async with self._connection() as connection:
            return await run(connection, self._each | {"reme.workspace": ALL_WORKSPACES}, sql, params)

    @property
    def has_pooler(self) -> bool:
        """Whether a connection is the server's for a transaction only, so that nothing can be listened for on it."""
        return self._pooler is not None

    @property
    def sql_session(self) -> dict[str, str]:
        """The settings by which a connection that a caller opens works like those of the pool."""
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
        """The pool itself, for a library that brings its own statements; an error if the database has been closed."""
        if self._pool is None:
            raise DatabaseError("the database has been closed; open a new one")
        return self._pool

    @asynccontextmanager
    async def owner_connection(self) -> AsyncIterator[AsyncConnection[Row]]:
        """A connection of the login role outside of the pool and of transactions, for `CREATE INDEX CONCURRENTLY`."""
        with translating_errors(self.url):
            await self._ensure_server()
            connection = await AsyncConnection.connect(self.url, **self._session.arguments)
            try:
                # Without limits: building an index concurrently waits until all earlier transactions have ended.
                await configure(connection, {"search_path": self._session.search_path})
                yield connection
            finally:
                with anyio.CancelScope(shield=True):
                    await connection.close()

    async def _start(self) -> None:
        with translating_errors(self.url):
            self._session = await anyio.to_thread.run_sync(prepare, self.url, self._server is not None)
            arguments = self._session.arguments
            if self.has_pooler:
                self._each = self._session.settings(self.settings.limits)
                # The next transaction may be on a connection that prepared nothing.
                arguments = arguments | {"prepare_threshold": None}
            self._pool = make_pool(self._conninfo, self._configure, arguments, self.settings.pool_size)
            try:
                await self._pool.open(wait=True, timeout=POOL_SECONDS)  # else the first caller has a second one made
            except PoolTimeout:
                await self._ping()  # raises the reason
                raise

    async def _conninfo(self) -> str:
        await self._ensure_server()
        return self._pooler or self.url

    async def _ensure_server(self) -> None:
        if self._server is not None:
            await anyio.to_thread.run_sync(self._server.ensure_running)

    async def _configure(self, connection: Connection) -> None:
        connection.has_nodes = self._session.has_nodes
        # What a pooler's connection is set to, its next user would find.
        await configure(connection, {} if self.has_pooler else self._session.settings(self.settings.limits))

    def _write_settings(self, workspace_id: str, actor: str, reason: str) -> dict[str, str]:
        about = {"reme.workspace": check_workspace(workspace_id), "reme.actor": actor, "reme.reason": reason}
        return self._each | self._of_write | about

    @asynccontextmanager
    async def _connection(self, share: Collection[asyncio.Semaphore] = ()) -> AsyncIterator[Connection]:
        pool = self.pool
        async with AsyncExitStack() as stack:
            stack.enter_context(translating_errors(self._pooler or self.url))
            patience = POOL_SECONDS if self._away is None else _AWAY_SECONDS
            try:
                # Where all places are free, nothing is waited for, and the timer need not be set.
                async with asyncio.timeout(patience if any(place.locked() for place in share) else None):
                    for place in share:
                        await stack.enter_async_context(place)
                connection = await pool.getconn(patience)
            except (PoolTimeout, TimeoutError) as error:
                if self._away is not None:  # another caller has found out the reason already
                    raise DatabaseUnavailableError(self._away) from error
                await self._ping()  # raises the reason; if this can connect, all connections of the pool were busy
                raise PoolTimeout(f"none became free within {patience:g} s") from error
            self._away = None
            try:
                yield connection
            except pg.ReadOnlySqlTransaction:
                # A connection that was opened while the server took no writes takes none after that either.
                await connection.close()
                raise
            finally:
                connection.last_used = time.monotonic()
                with anyio.CancelScope(shield=True):
                    if is_tidy(connection):
                        await pool.putconn(connection)  # it waits for nothing
                    else:
                        # In a task: who is cancelled during a rollback would take the connection away for ever.
                        tidying = asyncio.create_task(_tidy_and_give_back(connection, pool))
                        self._tidying.add(tidying)
                        tidying.add_done_callback(self._tidying.discard)
                        await asyncio.shield(tidying)

    @asynccontextmanager
    async def _transaction(
        self, settings: Mapping[str, str], share: Collection[asyncio.Semaphore], opening: str = "begin"
    ) -> AsyncIterator[AsyncConnection[Row]]:
        deadline = time.monotonic() + self.settings.limits.lock_seconds
        while True:
            async with AsyncExitStack() as stack:
                try:
                    connection = await self._begin(stack, settings, share, opening)
                # The connection goes back to the pool before the next attempt: others may need no lock.
                except pg.LockNotAvailable:
                    if time.monotonic() > deadline:
                        raise
                    continue
                yield connection  # where this raises an error, `_connection` rolls back
                await connection.commit()
                return

    async def _begin(
        self, stack: AsyncExitStack, settings: Mapping[str, str], share: Collection[asyncio.Semaphore], opening: str
    ) -> Connection:
        """Begin a transaction; if the connection turns out to be dead, begin it on a new one."""
        connection = await stack.enter_async_context(self._connection(share))
        try:
            await begin(connection, settings, opening)
        except psycopg.OperationalError:
            if not connection.closed:
                raise
            await stack.aclose()
            await self.pool.check()
            connection = await stack.enter_async_context(self._connection(share))
            await begin(connection, settings, opening)
        return connection

    async def _ping(self) -> None:
        await self._ensure_server()
        # A pooler lets callers in while its server is away, so the server itself is asked too.
        for url in filter(None, (self.url, self._pooler)):
            try:
                with translating_errors(url):
                    connection = await AsyncConnection.connect(url, **self._session.arguments)
            except DatabaseError as error:
                self._away = str(error)
                raise
            await connection.close()


async def _tidy_and_give_back(connection: Connection, pool: AsyncConnectionPool[Connection]) -> None:
    await tidy(connection)
    await pool.putconn(connection)
