"""How many connections of the pool one workspace may use: callers who wait for a lock there leave some to all others.

Writes may wait for a lock, and reads do not. So a quarter of the pool is kept free of writes, for recalls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from weakref import WeakValueDictionary


class Shares:
    """Semaphores that a call has to hold while it uses a connection; calls wait for them in the order they came."""

    def __init__(self, pool_size: int) -> None:
        self._pool_size = pool_size
        self._quarter = max(1, pool_size // 4)
        self._all_writes = asyncio.Semaphore(max(1, pool_size - self._quarter))
        self._of_workspaces = WeakValueDictionary[tuple[str, str], asyncio.Semaphore]()  # those that are in use

    def of_read(self, workspace: str) -> Sequence[asyncio.Semaphore]:
        """For reads: those of one workspace may use half of the pool."""
        return [self._place("read", workspace, max(1, self._pool_size // 2))]

    def of_write(self, workspace: str) -> Sequence[asyncio.Semaphore]:
        """For writes: those of one workspace may use a quarter of the pool, and all together three quarters."""
        return [self._place("write", workspace, self._quarter), self._all_writes]

    def of_lock(self, workspace: str) -> asyncio.Semaphore:
        """For the write lock of a workspace, which one caller holds at a time; others wait without a connection."""
        return self._place("lock", workspace, 1)

    def _place(self, kind: str, workspace: str, most: int) -> asyncio.Semaphore:
        return self._of_workspaces.setdefault((kind, workspace), asyncio.Semaphore(most))
