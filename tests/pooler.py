"""PgBouncer before a server: each connection of a client is one of the server's for a transaction only."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.ports import free_port

PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin")
_STARTS_SECONDS = 10.0


@contextmanager
def pooler(server_url: str, *, size: int = 3) -> Iterator[str]:
    """The URL of a PgBouncer before the server at this URL, with `size` connections for each database.

    Clients of all databases are let in, as the role of the URL.
    """
    assert PGBOUNCER is not None, "there is no pgbouncer here (apt-get install pgbouncer)"
    server = conninfo_to_dict(server_url)
    port = free_port()
    target = " ".join(f"{name}={server[name]}" for name in ("host", "port", "user", "password") if name in server)
    folder = Path(tempfile.mkdtemp(prefix="reme-", dir="/tmp"))
    (folder / "pgbouncer.ini").write_text(
        f"[databases]\n* = {target}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
        f"auth_type = any\npool_mode = transaction\ndefault_pool_size = {size}\nmax_client_conn = 500\n"
        "log_connections = 0\nlog_disconnections = 0\nserver_idle_timeout = 2\nquery_wait_timeout = 5\n"
    )
    folder.chmod(0o755)
    # It refuses to run as root, and has to reach the server's socket.
    as_user = ["-u", _owner(str(server.get("host", "")))] if os.geteuid() == 0 else []
    process = subprocess.Popen([PGBOUNCER, "-q", *as_user, str(folder / "pgbouncer.ini")])
    try:
        url = make_conninfo(host="127.0.0.1", port=port, user=server.get("user"), dbname=server.get("dbname"))
        _wait_until_open(url)
        yield url
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder)


def _owner(host: str) -> str:
    """Who owns the folder of a server's socket; nobody where the server is reached by its address."""
    return Path(host).owner() if host.startswith("/") else "nobody"


def _wait_until_open(url: str) -> None:
    deadline = time.monotonic() + _STARTS_SECONDS
    while True:
        try:
            return psycopg.connect(url).close()
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.05)
