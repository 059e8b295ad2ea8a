"""How many connections of the pool one workspace may hold, so that one whose locks are held leaves some to all others.

Reads wait for no lock, writes may; so a quarter of the pool is kept from writes, and a recall waits for none of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from weakref import WeakValueDictionary


class Shares:
    """The places in which calls wait for their turn, in the order in which they came: hold them to use a connection.

    Args:
        pool_size: How many connections there are.
    """

    def __init__(self, pool_size: int) -> None:
        self._pool_size = pool_size
        self._quarter = max(1, pool_size // 4)
        self._all_writes = asyncio.Semaphore(max(1, pool_size - self._quarter))
        self._of_workspaces = WeakValueDictionary[tuple[str, str], asyncio.Semaphore]()  # those that are in use

    def of_read(self, workspace: str) -> Sequence[asyncio.Semaphore]:
        """For reads, which may hold half of the pool for one workspace."""
        return [self._place("read", workspace, max(1, self._pool_size // 2))]

    def of_write(self, workspace: str) -> Sequence[asyncio.Semaphore]:
        """For writes, which may hold a quarter of the pool for one workspace, and three for all together."""
        return [self._place("write", workspace, self._quarter), self._all_writes]

    def of_lock(self, workspace: str) -> asyncio.Semaphore:
        """For the write lock, which one holds at a time: who waits for another here needs no connection for that."""
        return self._place("lock", workspace, 1)

    def _place(self, kind: str, workspace: str, most: int) -> asyncio.Semaphore:
        return self._of_workspaces.setdefault((kind, workspace), asyncio.Semaphore(most))
