"""The pool of connections, and how it bears that the event loop it was opened in ends.

A loop may end without anything having been closed in it, as in `asyncio.run(turn.begin("Where do I live?"))`. It then
cancels all its tasks and waits for them, the pool's own among them; and who closes the pool later does so from another
loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection
from typing import Any
from weakref import WeakSet

from psycopg_pool import AsyncConnectionPool

from reme_core.store.session import Connection

_AGAIN_SECONDS = 0.2  # from a cancellation that got lost until the next


class Pool(AsyncConnectionPool[Connection]):
    """psycopg's pool, which ends with its event loop and can be closed after it."""

    def __init__(
        self,
        conninfo: Callable[[], Awaitable[str]],
        *,
        configure: Callable[[Connection], Awaitable[None]],
        **options: Any,
    ) -> None:
        """Make a pool, not open yet.

        Args:
            conninfo: Asked anew for each connection.
            configure: Called with each connection.
            options: What else psycopg's pool takes.
        """
        made: WeakSet[Connection] = WeakSet()

        async def noted(connection: Connection) -> None:
            made.add(connection)
            await configure(connection)

        super().__init__(conninfo, connection_class=Connection, configure=noted, open=False, **options)
        self._made = made
        self._keeper: asyncio.Task[None] | None = None

    async def open(self, wait: bool = False, timeout: float = 30.0) -> None:  # noqa: ASYNC109  (psycopg's own)
        """Open it in the running event loop."""
        before = asyncio.all_tasks()
        await super().open()  # which lets nobody else run
        self._keeper = asyncio.create_task(_end_with_the_loop(asyncio.all_tasks() - before), name="reme-keeper")
        if wait:
            await self.wait(timeout)

    async def close(self, timeout: float = 5.0) -> None:  # noqa: ASYNC109  (psycopg's own)
        """Close all connections; where its event loop has ended, without waiting for the tasks that ended with it."""
        if self._keeper is None or not self._keeper.get_loop().is_closed():
            await super().close(timeout)
            await cancel_until_done({self._keeper} if self._keeper is not None else ())
        else:
            for connection in list(self._made):
                await connection.close()


async def cancel_until_done(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks that may lose a cancellation, as those do that wait with a time limit or retry, until they end."""
    while tasks := {task for task in tasks if not task.done()}:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=_AGAIN_SECONDS)


async def _end_with_the_loop(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Wait for the loop's end, which cancels each task once.

    psycopg's take that for a failure of the connection they are making, and would wait for more to do, for ever.
    """
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    await cancel_until_done(tasks)
