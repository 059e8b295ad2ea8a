"""The process beside the embedded Postgres: it starts the server, and stops it when nobody uses it any more.

Every user of the server holds a shared lock on a file. The operating system drops that lock however the user ends,
`kill -9` included; so the keeper only has to wait for the exclusive lock to know that it was the last. Nothing is
counted, no process id can go stale, and no exit handler has to run.

It is run as a script by `reme_core.store.embedded`, and imports the standard library only: it stays at a few megabytes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

if sys.platform != "win32":
    import fcntl

_STOP_SECONDS = 30.0
_CONNECTIONS = "select count(*) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()"


def server_pid(cluster: Path) -> int | None:
    """The process id that the server in data directory `cluster` has noted, or None where none is noted."""
    try:
        return int((cluster / "postmaster.pid").read_text().split("\n", 1)[0])
    except (OSError, ValueError):
        return None


def stop_server(cluster: Path, timeout_seconds: float = _STOP_SECONDS) -> bool:
    """Shut the server down (open transactions are rolled back), and wait for its end.

    Returns:
        True when no server runs in `cluster` any more; False when it has not ended within the timeout.
    """
    pid = server_pid(cluster)
    if pid is None:
        return True
    deadline = time.monotonic() + timeout_seconds
    try:
        os.kill(pid, signal.SIGINT)
    except ProcessLookupError:
        return True
    while server_pid(cluster) == pid:  # a server that ends in order removes the file last
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def main(plan: dict[str, Any]) -> None:
    """Start the server (unless `command` is empty: one is running already) and stop it after its last user.

    `plan` holds `command`, `user` and `group` (ids to run it as, or null), `log`, `cluster`, `users` (the file whose
    lock the users share), `linger_seconds`, and `query` (a command that runs the SQL statement put after it).
    """
    if os.fork():  # the parent ends at once: nobody has to wait for us
        os._exit(0)
    os.umask(0o077)  # what the server writes, its log too, is for its owner
    if plan["command"]:
        with Path(plan["log"]).open("ab") as log:
            server = subprocess.Popen(
                plan["command"],
                user=plan["user"],
                group=plan["group"],
                extra_groups=None if plan["user"] is None else [],
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        # With the server gone, by its own fault or another's hand, the next user starts both anew.
        threading.Thread(target=lambda: os._exit(server.wait()), daemon=True).start()
    with Path(plan["users"]).open("a") as users:
        _wait_for_last_user(users.fileno(), plan)
        if plan["command"]:
            os.kill(server.pid, signal.SIGINT)
            server.wait(_STOP_SECONDS)
        else:
            stop_server(Path(plan["cluster"]))


def _wait_for_last_user(lock: int, plan: dict[str, Any]) -> None:
    """Return holding the exclusive lock, when the server has been idle for `linger_seconds`."""
    while True:
        fcntl.flock(lock, fcntl.LOCK_EX)
        fcntl.flock(lock, fcntl.LOCK_UN)
        time.sleep(plan["linger_seconds"])
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        if not _connections(plan["query"]):
            return
        fcntl.flock(lock, fcntl.LOCK_UN)  # somebody's psql: it holds no lock, but it is in use
        time.sleep(1)


def _connections(command: list[str]) -> int:
    answer = subprocess.run(
        [*command, _CONNECTIONS], capture_output=True, text=True, check=False, timeout=_STOP_SECONDS
    )
    return int(answer.stdout) if answer.returncode == 0 else 0


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
