"""The library's own event loop, in a thread of its own: one in a process, for all that is open.

Everything that talks to the database runs there. Synchronous and asynchronous code reach it alike, from any thread and
from any loop.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, Self, TypeVar

from reme_core.errors import ReMeError

R = TypeVar("R")

# Two threads that need a portal at once must not start two.
_lock = threading.Lock()
_portals: dict[str, Portal] = {}
_of_parents: list[dict[str, Portal]] = []  # of the processes that this one was forked from


class Portal:
    """The way into an event loop from any thread and from any other loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop

    @classmethod
    def start(cls, name: str) -> Self:
        """A portal into a new loop, in a thread of this name that runs until the program ends."""
        loop = asyncio.new_event_loop()

        def run() -> None:
            asyncio.set_event_loop(loop)
            loop.run_forever()

        # A daemon: the loop never ends by itself, and a program must not wait for it.
        threading.Thread(target=run, name=name, daemon=True).start()
        return cls(loop)

    @property
    def is_here(self) -> bool:
        """Whether the caller runs in this loop."""
        try:
            return asyncio.get_running_loop() is self.loop
        except RuntimeError:
            return False

    def submit(self, work: Coroutine[Any, Any, R]) -> Future[R]:
        """Start a coroutine in the loop, with the caller's context variables, and return at once."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def wait(self, work: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine and block until it ends.

        Raises:
            ReMeError: The caller runs in this loop, which would wait for itself.
        """
        if self.is_here:
            work.close()  # else Python would warn that it was never awaited
            raise ReMeError("a blocking call was made in the event loop that has to carry it out; await the method")
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            # Ctrl-C above all: work that nobody waits for any more is cancelled, and its transaction rolled back.
            future.cancel()
            raise

    async def run(self, work: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine and await its end from another loop; cancelling the caller cancels it."""
        if self.is_here:
            return await work
        return await asyncio.wrap_future(self.submit(work))


def portal() -> Portal:
    """The portal in which everything runs that talks to the database; made at the first call."""
    # A loop of the application may stand still, in a debugger or in a long computation, and a transaction with it.
    return _portal("reme")


def callers_portal() -> Portal:
    """A second portal, for coroutines of callers that do not await."""
    # Code of callers may block its loop; here it holds up no transaction.
    return _portal("reme-callers")


def _portal(name: str) -> Portal:
    with _lock:
        if name not in _portals:
            _portals[name] = Portal.start(name)
        return _portals[name]


def _start_afresh() -> None:
    # A forked child has none of these threads, and the lock may be held by one of them. The parent's loops are kept, or
    # the garbage collector would close files that the parent still uses.
    global _lock, _portals  # noqa: PLW0603 - there is one set of them in a process
    _lock = threading.Lock()
    _of_parents.append(_portals)
    _portals = {}


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_afresh)
