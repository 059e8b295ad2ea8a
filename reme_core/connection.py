"""The connection to an engine that runs in the library's own event loop, in a thread of its own: one in a process.

Everything that talks to the database runs there. Synchronous and asynchronous code reach it alike, from any thread and
from any loop.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures.thread  # noqa: F401 - its end is registered before ours, see below
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Final, Self, TypeVar

from reme_core.engine import Engine
from reme_core.errors import ReMeError
from reme_core.settings import Settings

R = TypeVar("R")

Work = Callable[[Engine], Coroutine[Any, Any, R]]
"""What is to be done with an open engine, in its own event loop."""

_LAST_SECONDS: Final = 10.0
"""How long closing waits for work that is to end before; as long as a turn has patience."""

# Two threads that need a portal at once must not start two.
_lock = threading.Lock()
_portals: dict[str, Portal] = {}
_of_parents: list[Any] = []  # loops and engines of the parent process, which a forked child must not clean up
_open_ones: set[weakref.finalize[..., Any]] = set()  # finalizers of open engines, called when the program ends
_closings: set[Future[None]] = set()  # closings under way, for which the end of the program waits


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
    _of_parents.append((_portals, set(_closings)))
    _portals = {}
    _closings.clear()  # their ends never come here, and this process would wait for them when it ends


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_afresh)


class Connection:
    """One engine in the library's event loop. It opens when it is first used, and in a forked child it opens anew.

    Attributes:
        is_closed: Whether `close` was called.
        unfinished: Tasks in the engine's event loop that are to end before it is closed: deliveries of turns.
    """

    def __init__(self, settings: Settings, make: Callable[[Settings], Engine] = Engine) -> None:
        self.settings = settings
        self._make = make
        self._given: Portal | None = None
        self._portal: Portal | None = None
        self._opening: asyncio.Task[Engine] | None = None
        self._closing: Future[None] | None = None
        self.is_closed = False
        self.unfinished: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()
        self._finalizer: weakref.finalize[..., Any] | None = None

    @classmethod
    def of(cls, engine: Engine) -> Self:
        """A connection to an engine that is open in the running event loop, which then does the work."""
        connection = cls(engine.settings)
        connection._given = connection._portal = Portal(asyncio.get_running_loop())
        # The engine is open, and `open` gives it back at once.
        connection._opening = asyncio.create_task(engine.open())
        return connection

    @property
    def portal(self) -> Portal:
        """The way into the event loop of the engine."""
        return self._given or portal()

    def wait(self, work: Work[R]) -> R:
        """Do something with the engine and block until it is done.

        Raises:
            ReMeError: It was closed; or the caller stands in the library's own event loop.
        """
        return self.portal.wait(self._do(work))

    async def run(self, work: Work[R]) -> R:
        """Do something with the engine and await its end, from any event loop; cancelling the caller cancels it.

        Raises:
            ReMeError: It was closed.
        """
        return await self.portal.run(self._do(work))

    async def open(self) -> None:
        """Open the engine now, if it is not open; one that was closed opens again."""
        await self.portal.run(self._reopen())

    async def close(self) -> None:
        """Close the engine, if it is open; afterwards every use but `open` is an error. Closing twice is fine.

        Who is cancelled here no longer waits; the engine is closed all the same.
        """
        await self.portal.run(self._end())

    async def _reopen(self) -> None:
        if self._closing is not None and not self._closing.done() and self._portal is self.portal:
            await asyncio.wait([asyncio.wrap_future(self._closing)])  # else it would close what is opened now
        self.is_closed = False
        await self.engine()

    async def _do(self, work: Work[R]) -> R:
        return await work(await self.engine())

    async def engine(self) -> Engine:
        """The open engine, for code that runs in the library's event loop.

        Raises:
            ReMeError: The connection was closed.
            DatabaseUnavailableError: The database cannot be reached. The next use tries again.
            SchemaError: The database is not fit for use.
        """
        if self.is_closed:
            raise ReMeError("this ReMe has been closed; make a new one with ReMe() or AsyncReMe()")
        # Another portal than before: this is the first use, or a forked child, which has none of its parent's threads.
        if self._portal is not self.portal:
            if self._opening is not None:
                # Kept, since cleaning up would close the connections of the parent, which still uses them.
                _of_parents.append((self._opening, self._finalizer))
            self._portal, self._opening, self._closing = self.portal, None, None
        # All callers wait for one task that opens the engine. If it failed, the next use tries again.
        if self._opening is None or (self._opening.done() and _has_failed(self._opening)):
            self._opening = asyncio.create_task(self._make(self.settings).open())
            self._finalizer = weakref.finalize(self, _close_forgotten, self._portal, self._opening, self.unfinished)
            self._finalizer.atexit = False  # when the program ends, `_close_all` calls it, and waits
            _open_ones.difference_update([one for one in _open_ones if not one.alive])
            _open_ones.add(self._finalizer)
        # A caller that is cancelled must not cancel an opening that others wait for too.
        return await asyncio.shield(self._opening)

    async def _end(self) -> None:
        is_own = self._portal is self.portal  # not so in a forked child, where the engine is the parent's
        if not is_own or self._opening is None:
            self._let_go()
        elif self._closing is None or self._closing.done():
            self._closing = _begin_to_close(self.portal, self._finish())
        if is_own and self._closing is not None:
            # Who waits may be cancelled, by a time limit perhaps. The engine is closed all the same, and the next one
            # who closes it waits for that.
            await asyncio.shield(asyncio.wrap_future(self._closing))

    async def _finish(self) -> None:
        await _end_of(self.unfinished)
        if (opening := self._let_go()) is not None:
            await _close(opening)

    def _let_go(self) -> asyncio.Task[Engine] | None:
        self.is_closed = True
        # It is closed here, so nothing is left to do when the object is collected or the program ends.
        if self._finalizer is not None:
            self._finalizer.detach()
            _open_ones.discard(self._finalizer)
        opening, self._opening = self._opening, None
        return opening


def _has_failed(opening: asyncio.Task[Engine]) -> bool:
    return opening.cancelled() or opening.exception() is not None


async def _end_of(unfinished: weakref.WeakSet[asyncio.Task[Any]]) -> None:
    """Wait for these tasks and those that they begin, but not for ever: a database may not answer."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _LAST_SECONDS
    # In a forked child they are the parent's, of another loop.
    while tasks := {task for task in unfinished if task.get_loop() is loop and not task.done()}:
        if (patience := deadline - loop.time()) <= 0:
            return
        await asyncio.wait(tasks, timeout=patience)


async def _close(opening: asyncio.Task[Engine]) -> None:
    await asyncio.wait([opening])  # not `await opening`, which would raise its error here as well
    if not _has_failed(opening):
        await opening.result().aclose()


async def _end_and_close(opening: asyncio.Task[Engine], unfinished: weakref.WeakSet[asyncio.Task[Any]]) -> None:
    await _end_of(unfinished)
    await _close(opening)


def _begin_to_close(owner: Portal, work: Coroutine[Any, Any, None]) -> Future[None]:
    closing = owner.submit(work)
    if owner is _portals.get("reme"):  # a loop of the application may end before, and the program would wait for ever
        _closings.add(closing)
        closing.add_done_callback(_closings.discard)
    return closing


def _close_forgotten(
    owner: Portal, opening: asyncio.Task[Engine], unfinished: weakref.WeakSet[asyncio.Task[Any]]
) -> None:
    """Close the engine of a connection that was garbage collected, or is open when the program ends."""
    if owner is portal():  # not so in a forked child, where the engine is the parent's
        # Nobody waits here: the garbage collector may run in any thread, even in that of the loop itself.
        _begin_to_close(owner, _end_and_close(opening, unfinished))


def _close_all() -> None:
    for finalizer in list(_open_ones):
        # Detached and called by hand: by now `weakref` may have stopped calling finalizers.
        if found := finalizer.detach():
            _, close, args, _ = found
            close(*args)
    for closing in list(_closings):
        closing.result()


# Closing needs threads, and executors give none as soon as the main thread has ended, before `atexit` calls anything.
# Their own end is registered in this same place, whose last entry is called first.
getattr(threading, "_register_atexit", atexit.register)(_close_all)
