"""Connecting, blocking: a server that is starting up is waited for; whatever else is wrong is said at once.

Postgres refuses connections while it starts, and for longer while it recovers from a crash or restores a backup, with
SQLSTATE 57P03. libpq keeps that code to itself when a connection fails, and the message comes in the server's language;
but its `PQping` looks at the code, and answers `REJECT` for this one alone.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import errors as pg
from psycopg.conninfo import make_conninfo
from psycopg.pq import PGconn, Ping
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

RESTART_SECONDS = 15.0
"""How long a server that starts is waited for: what is longer is somebody's business."""

_AGAIN_SECONDS = 0.1
_PING_SECONDS = 5

Connection = psycopg.Connection[tuple[Any, ...]]


def connect(url: str, **arguments: Any) -> Connection:
    """Connect, with what `psycopg.connect` takes; waits up to `RESTART_SECONDS` for a server that is starting up.

    Raises:
        psycopg.errors.CannotConnectNow: It is starting up still (or shutting down).
        psycopg.OperationalError: There is no connection for another reason.
    """
    waiting = Retrying(
        retry=retry_if_exception_type(pg.CannotConnectNow),
        stop=stop_after_delay(RESTART_SECONDS),
        wait=wait_fixed(_AGAIN_SECONDS),
        reraise=True,
    )
    return waiting(_connect, url, arguments)


def _connect(url: str, arguments: dict[str, Any]) -> Connection:
    try:
        return psycopg.connect(url, **arguments)
    except psycopg.OperationalError as error:
        tried = error.pgconn
        if tried is None or tried.needs_password or tried.used_password:  # nothing was reached; or it has started
            raise
        state = PGconn.ping(make_conninfo(url, connect_timeout=_PING_SECONDS).encode())
        if state == Ping.REJECT:
            raise pg.CannotConnectNow(" ".join(str(error).split())) from error
        if state != Ping.OK:
            raise
    return psycopg.connect(url, **arguments)  # it may have come up just now; if not, it says again what is wrong
