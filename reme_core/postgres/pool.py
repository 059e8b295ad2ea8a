"""The pool of connections: how many, for how long, and how they are made."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from psycopg_pool import AsyncConnectionPool
from psycopg_pool.pool_async import AddConnection, MaintenanceTask

from reme_core.postgres.connect import RESTART_SECONDS
from reme_core.postgres.session import Connection

POOL_SECONDS = RESTART_SECONDS
"""How long a connection is waited for: long enough for a restart of the server."""

_MAX_IDLE_SECONDS = 300.0
_MAX_LIFETIME_SECONDS = 3600.0
_CHECK_AFTER_SECONDS = 30.0  # a firewall may have cut a connection that was idle for longer
_PAUSE_SECONDS = 0.5  # between two tries to connect
_SILENT_SECONDS = 30.0  # after a try that failed was logged
_NAME = "reme"


class _OnceInAWhile(logging.Filter):
    """Keeps an outage from filling the log: each connection is tried twice a second, and each try logs a warning."""

    def __init__(self) -> None:
        super().__init__()
        self._said_at = float("-inf")

    def filter(self, record: logging.LogRecord) -> bool:
        """Let through the first failed try of our pools, and one from time to time; and all of other pools."""
        if record.msg.startswith("discarding closed connection"):  # whose caller has had the error
            return not isinstance(record.args, tuple) or not isinstance(record.args[0], Connection)
        if _NAME not in (record.args or ()) or not record.msg.startswith(("error connecting", "reconnection attempt")):
            return True
        if time.monotonic() - self._said_at < _SILENT_SECONDS:  # a clock that is set back would silence it for long
            return False
        self._said_at = time.monotonic()
        return True


ONCE_IN_A_WHILE = _OnceInAWhile()
logging.getLogger("psycopg.pool").addFilter(ONCE_IN_A_WHILE)


class _Pool(AsyncConnectionPool[Connection]):
    """A pool whose pauses between tries to connect do not double: callers would wait long after the server is back."""

    async def schedule_task(self, task: MaintenanceTask, delay: float) -> None:
        await super().schedule_task(task, min(delay, _PAUSE_SECONDS) if isinstance(task, AddConnection) else delay)


def make_pool(
    conninfo: Callable[[], Awaitable[str]],
    configure: Callable[[Connection], Awaitable[None]],
    arguments: dict[str, Any],
    size: int,
) -> AsyncConnectionPool[Connection]:
    """A pool of so many connections, which is not open yet.

    `conninfo` is asked for each new connection, which gets these `arguments`, and `configure` awaited with it.
    """
    return _Pool(
        conninfo,
        connection_class=Connection,
        open=False,
        configure=configure,
        kwargs=arguments,
        min_size=1,
        max_size=size,
        check=_check_if_idle,
        name=_NAME,
        timeout=POOL_SECONDS,
        reconnect_timeout=POOL_SECONDS,  # after that, it tries again when a caller asks for a connection
        max_idle=_MAX_IDLE_SECONDS,
        max_lifetime=_MAX_LIFETIME_SECONDS,
    )


async def _check_if_idle(connection: Connection) -> None:
    """Check a connection that was idle for long; if it is dead, raise an error, and the pool replaces it."""
    if time.monotonic() - connection.last_used > _CHECK_AFTER_SECONDS:
        await AsyncConnectionPool.check_connection(connection)
