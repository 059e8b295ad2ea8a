"""Connecting: wait for a server that is starting up, and raise any other error at once.

While Postgres starts, recovers from a crash or restores a backup, it refuses connections with SQLSTATE 57P03. libpq
does not tell the code, and the message is in the server's language. But libpq's `PQping` answers `REJECT` for this code
alone.
"""

from __future__ import annotations

import asyncio
import ctypes
import sys
import time
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import psycopg
from psycopg import errors as pg
from psycopg.conninfo import make_conninfo
from psycopg.pq import PGconn, Ping

RESTART_SECONDS = 15.0
"""How long to wait for a server that starts; after that, somebody has to look at it."""

_RETRY_SECONDS = 0.1  # between two attempts
_PING_SECONDS = 5  # to wait for the answer to a ping

ENCODING: Final = {"client_encoding": "utf8"}
"""An argument of `psycopg.connect`: the driver takes the encoding of the environment or the database, if one is set."""

UNDERSTOOD: Final = {
    # The driver reads no other forms of times.
    "datestyle": "ISO, YMD",
    "intervalstyle": "postgres",
    "standard_conforming_strings": "on",  # in our statements, a backslash means itself
    "row_security": "on",  # if it is off, a policy is an error in place of a filter
}
"""Settings that whoever runs the database may have changed for it, or for a role, and that we rely on."""

Connection = psycopg.Connection[tuple[Any, ...]]


def connect(url: str, **arguments: Any) -> Connection:
    """Connect, with the arguments of `psycopg.connect`; wait up to `RESTART_SECONDS` for a server that starts.

    The connection has the settings `UNDERSTOOD`.

    Raises:
        psycopg.errors.CannotConnectNow: The server is still starting up, or it is shutting down.
        psycopg.OperationalError: There is no connection for another reason.
    """
    deadline = time.monotonic() + RESTART_SECONDS
    while True:
        try:
            connection = _connect_once(url, arguments | ENCODING)
            break
        except pg.CannotConnectNow:
            if time.monotonic() >= deadline:
                raise
        time.sleep(_RETRY_SECONDS)
    try:
        calls = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in UNDERSTOOD.items())
        connection.execute(f"select {calls}".encode())
        connection.commit()
    except BaseException:
        connection.close()
        raise
    return connection


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
    # The ping found the server running, so it may have come up just now. If not, this raises the same error again.
    return psycopg.connect(url, **arguments)


def has_refused(error: psycopg.OperationalError) -> bool:
    """Whether a connection may have failed because the server is starting: it answered, and asked for no password."""
    attempt = error.pgconn
    asked = attempt is None or attempt.needs_password or attempt.used_password
    return not asked and not isinstance(error, pg.ConnectionTimeout)


async def wait_for_start(url: str) -> None:
    """Return when the server no longer refuses connections because it starts, or after `RESTART_SECONDS`."""
    # A pool would try again half a second later, while a server may recover in tenths of one.
    deadline = time.monotonic() + RESTART_SECONDS
    while time.monotonic() < deadline and await asyncio.to_thread(_ping, url) == Ping.REJECT:  # noqa: ASYNC110 - as above
        await asyncio.sleep(_RETRY_SECONDS)


def _ping(url: str) -> int:
    return _ping_function()(make_conninfo(url, connect_timeout=_PING_SECONDS).encode())


@cache
def _ping_function() -> Callable[[bytes], int]:
    # psycopg's own way to call it stops all threads of Python until the server answers, or for the whole timeout if the
    # server does not. `ctypes` lets them run. It finds the function in the libraries that psycopg's module has loaded.
    try:
        pqping: Callable[[bytes], int] = ctypes.CDLL(sys.modules[PGconn.__module__].__file__).PQping
    except (AttributeError, OSError):  # psycopg's Python implementation, which uses `ctypes` itself; or Windows
        return PGconn.ping
    return pqping
