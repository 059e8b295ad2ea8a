"""The supervisor: a process beside the embedded Postgres that starts it, and stops it when nobody uses it any more.

Every user of the server holds a shared lock on a file. The operating system releases this lock when the user ends, even
by `kill -9`. The supervisor waits for the exclusive lock: when it gets it, the last user has ended. So nobody counts
users, no process id can be out of date, and no exit handler has to run.

`server` runs this file as a script. It imports the standard library alone, so the process takes only a few megabytes.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

if sys.platform != "win32":
    import fcntl

_STOP_SECONDS = 30.0  # for the server to end, and to answer a query
_LOOK_SECONDS = 0.5  # between two looks at a server that another supervisor has started
_CONNECTIONS = "select count(*) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()"


def server_pid(cluster: Path) -> int | None:
    """The process id that the server of data directory `cluster` has written there, or None if there is none."""
    try:
        return int((cluster / "postmaster.pid").read_text().split("\n", 1)[0])
    except (OSError, ValueError):
        return None


def environment_beside(cluster: Path) -> dict[str, str]:
    """What tells a server that is started that another program has the process id of the one before it, if so.

    After a reset of the machine or its container that is likely, and Postgres would not start while that program runs.
    """
    pid = server_pid(cluster)
    # pg_ctl says this of itself. The file stays, and so Postgres still looks for processes that use the data.
    return {"PG_GRANDPARENT_PID": str(pid)} if pid is not None and _is_another_program(pid, cluster) else {}


def _is_another_program(pid: int, cluster: Path) -> bool:
    """Whether a process is known not to be the server of `cluster`, which would work in that folder; only on Linux."""
    try:
        return not Path(f"/proc/{pid}/cwd").samefile(cluster)
    except OSError:  # it has ended, may not be looked at, or there is no /proc
        return False


def stop_server(cluster: Path) -> bool:
    """Shut a server down, rolling back open transactions; returns whether it has ended within `_STOP_SECONDS`."""
    pid = server_pid(cluster)
    if pid is None or _is_another_program(pid, cluster):
        return True
    deadline = time.monotonic() + _STOP_SECONDS
    try:
        os.kill(pid, signal.SIGINT)  # Postgres's "fast shutdown"
    except ProcessLookupError:
        return True
    while server_pid(cluster) == pid:  # a server that ends normally removes its file last
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def main(plan: dict[str, Any]) -> None:
    """Start the server, unless `command` is empty and one runs already, and stop it after its last user.

    Args:
        plan: `command` starts the server; `user` and `group` are the ids to run it as, or None; `log` is the file for
            its output; `cluster` is its data directory; `socket` is where it listens; `users` is the file that its
            users lock; `linger_seconds` is how long it runs after its last user has ended; `query` is a command that
            runs the SQL statement that is appended to it.
    """
    if os.fork():  # the parent ends at once, so that its caller need not wait
        os._exit(0)
    os.umask(0o077)  # only the owner may read the files of the server, including its log
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
        # When the server ends for any reason, the supervisor ends as well, and the next user starts both.
        threading.Thread(target=lambda: os._exit(server.wait()), daemon=True).start()
    else:
        threading.Thread(target=_end_with_server, args=[plan["socket"]], daemon=True).start()
    with Path(plan["users"]).open("a") as users:
        _wait_for_last_user(users.fileno(), plan)
        if plan["command"]:
            os.kill(server.pid, signal.SIGINT)
            server.wait(_STOP_SECONDS)
        else:
            stop_server(Path(plan["cluster"]))


def _end_with_server(address: str) -> None:
    """End the process when a server that another one has started does not listen at `address` any more."""
    while True:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(address)
            except (ConnectionRefusedError, FileNotFoundError):
                os._exit(0)
        time.sleep(_LOOK_SECONDS)


def _wait_for_last_user(lock: int, plan: dict[str, Any]) -> None:
    """Return, with the exclusive lock held, when the server has had no user for `linger_seconds`.

    A user holds the lock, and sets the time of the file when it comes. A program such as psql is only connected.
    """
    while True:
        # Released at once, so that a new user need not wait while the server lingers.
        fcntl.flock(lock, fcntl.LOCK_EX)
        last_came = os.fstat(lock).st_mtime_ns
        fcntl.flock(lock, fcntl.LOCK_UN)
        time.sleep(plan["linger_seconds"])
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        if os.fstat(lock).st_mtime_ns == last_came and not _connections(plan["query"]):
            return
        fcntl.flock(lock, fcntl.LOCK_UN)
        time.sleep(1)


def _connections(command: list[str]) -> int:
    if not Path(command[0]).exists():  # its environment was removed: such a server is of no use to anybody
        return 0
    try:
        answer = subprocess.run(
            [*command, _CONNECTIONS], capture_output=True, text=True, check=False, timeout=_STOP_SECONDS
        )
    except subprocess.TimeoutExpired:  # the machine is too busy to tell; without a supervisor the server would stay
        return 1
    return int(answer.stdout) if answer.returncode == 0 else 0


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
