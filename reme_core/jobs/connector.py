"""The connection of the queue to the database, where the queue's own statements see the jobs of all workspaces."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from procrastinate import PsycopgConnector
from psycopg import AsyncConnection, AsyncCursor

from reme_core.postgres.database import Database


class QueueConnector(PsycopgConnector):
    """Runs statements of the queue in transactions of its own, unless a caller gives a connection."""

    def __init__(self, database: Database) -> None:
        super().__init__()
        self._database = database

    @asynccontextmanager
    async def _get_cursor(self, connection: AsyncConnection[Any] | None = None) -> AsyncGenerator[AsyncCursor[Any]]:
        async with AsyncExitStack() as stack:
            if connection is None:
                connection = await stack.enter_async_context(self._database.maintenance())
            yield await stack.enter_async_context(super()._get_cursor(connection))
