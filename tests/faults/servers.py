"""The processes of an embedded server, for tests that kill them."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import psutil

from reme_core.postgres.embedded import supervisor


def server_pid(data_dir: Path) -> int:
    """The postmaster of the server under a data directory."""
    pid = supervisor.server_pid(data_dir / "postgres")
    assert pid is not None
    return pid


def another_runs(data_dir: Path, pid: int) -> bool:
    """Whether another server has taken the place of `pid`; while it does so, the file with its number may be away."""
    return supervisor.server_pid(data_dir / "postgres") not in (None, pid)


def wait_until_gone(pid: int) -> None:
    """Wait until a process that was killed has ended."""
    deadline = time.monotonic() + 20
    with contextlib.suppress(psutil.NoSuchProcess):
        while psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < deadline, f"process {pid} is still running"
            time.sleep(0.05)
