"""Connecting. A server that is starting up is waited for; any other error is raised at once.

While Postgres starts, and for longer while it recovers from a crash or restores a backup, it refuses connections with
SQLSTATE 57P03. libpq does not pass that code on, and the message is in the server's language; but libpq's `PQping`
looks at the code, and answers `REJECT` for this one alone.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import psycopg
from psycopg import errors as pg
from psycopg.conninfo import make_conninfo
from psycopg.pq import PGconn, Ping

RESTART_SECONDS = 15.0
"""How long a server that starts is waited for; a start that takes longer needs somebody to look at it."""

_RETRY_SECONDS = 0.1
_PING_SECONDS = 5

Connection = psycopg.Connection[tuple[Any, ...]]


def connect(url: str, **arguments: Any) -> Connection:
    """Connect, with the arguments of `psycopg.connect`; wait up to `RESTART_SECONDS` for a server that starts.

    Raises:
        psycopg.errors.CannotConnectNow: The server is still starting up, or it is shutting down.
        psycopg.OperationalError: There is no connection for another reason.
    """
    deadline = time.monotonic() + RESTART_SECONDS
    while True:
        try:
            return _connect_once(url, arguments)
        except pg.CannotConnectNow:
            if time.monotonic() >= deadline:
                raise
        time.sleep(_RETRY_SECONDS)


def _connect_once(url: str, arguments: dict[str, Any]) -> Connection:
    try:
        return psycopg.connect(url, **arguments)
    except psycopg.OperationalError as error:
        if not has_refused(error):
            raise
        state = _ping(url)
        if state == Ping.REJECT:
            raise pg.CannotConnectNow(" ".join(str(error).split())) from error
        if state != Ping.OK:
            raise
    return psycopg.connect(url, **arguments)  # it may have come up just now; if not, this raises what is wrong


def has_refused(error: psycopg.OperationalError) -> bool:
    """Whether a server may be starting that let nobody in: it did not ask for a password, and answered in time."""
    attempt = error.pgconn
    asked = attempt is None or attempt.needs_password or attempt.used_password
    return not asked and not isinstance(error, pg.ConnectionTimeout)


async def wait_for_start(url: str) -> None:
    """Return when the server does not refuse connections for its start any more, or after `RESTART_SECONDS`.

    A pool that connects in vain tries again after 1, 2, 4 … seconds, while a server may need tenths to recover.
    """
    deadline = time.monotonic() + RESTART_SECONDS
    while time.monotonic() < deadline and await asyncio.to_thread(_ping, url) == Ping.REJECT:  # noqa: ASYNC110
        await asyncio.sleep(_RETRY_SECONDS)


def _ping(url: str) -> int:
    return PGconn.ping(make_conninfo(url, connect_timeout=_PING_SECONDS).encode())
