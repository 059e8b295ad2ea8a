"""Which `AsyncReMe` serves which event loop.

A connection pool belongs to the loop it was opened in, and frameworks call a memory from whatever loop they happen to
run: the application's, one made for a synchronous call, a new one for each `asyncio.run`. So a link is opened lazily
in the loop that asks, and again in another one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial
from typing import Any, ParamSpec, Protocol, TypeVar

from anyio.from_thread import BlockingPortal, start_blocking_portal
from pydantic import SecretStr

from reme_core.app import AsyncReMe
from reme_core.errors import DatabaseError, DatabaseUnavailableError
from reme_core.models import ModelCall
from reme_core.settings import Settings

log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

Opening = dict[asyncio.AbstractEventLoop, "asyncio.Task[AsyncReMe]"]

_of_parents: list[Any] = []


class HasSettings(Protocol):
    """Anything that says how it was opened, such as `AsyncReMe` and `ReMe`."""

    @property
    def settings(self) -> Settings:
        """What it was opened with."""


class Links:
    """Opens an `AsyncReMe` in each event loop that asks for one, and closes those that it opened itself."""

    def __init__(
        self,
        reme: HasSettings | Settings | SecretStr | str | None,
        *,
        on_call: Callable[[str, ModelCall], None] | None = None,
    ) -> None:
        """Say where memory is.

        Args:
            reme: An open `AsyncReMe` (it is used in its own loop, and never closed here), a `ReMe`, settings, the URL
                of a database, or None for what the environment says, which is the embedded Postgres by default.
            on_call: Told of every model call that memory makes, with the workspace it is made for.
        """
        self.given = reme if isinstance(reme, AsyncReMe) else None
        self._lent = self.given.loop if self.given is not None else None
        self.settings = _settings(reme)
        self._on_call = on_call
        self._opening: Opening = {}
        self._thread: _Thread | None = None
        self._lock = threading.Lock()
        self._process = os.getpid()

    def call(self, work: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a coroutine from code that does not await, in a background thread that all such calls share.

        It works where another loop is running too, which then stands still meanwhile.
        """
        with self._lock:
            self._leave_to_parent()
            if self._thread is None:
                self._thread = _Thread(self._opening)
        return self._thread.call(work, *args, **kwargs)

    def stop(self) -> None:
        """Close what the background thread opened, and end it; for code that does not await."""
        with self._lock:
            self._leave_to_parent()
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.stop()

    async def reme(self) -> AsyncReMe:
        """The open one of the running loop. Cancelling the caller does not stop an opening that others wait for too.

        Raises:
            DatabaseUnavailableError: No connection, or the memory that was given has been closed. The next call tries
                again.
            SchemaError: The database is not fit for use.
        """
        loop = asyncio.get_running_loop()
        if self.given is not None and self.given.loop is loop:
            self._lent = loop
            self._listen(self.given)
            return self.given
        if self._lent is loop:  # nothing connects behind the back of whoever closed it
            raise DatabaseUnavailableError("the AsyncReMe that this memory was given has been closed; open it again")
        self._leave_to_parent()
        task = self._opening.get(loop)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            await self._drop_closed_loops()
            task = self._opening[loop] = loop.create_task(self._open())
        return await asyncio.shield(task)

    async def aclose(self) -> None:
        """Close what was opened here, in all loops that still run."""
        self._leave_to_parent()
        if self.given is not None and self.given.loop is not None and self._on_call in self.given.journal.listeners:
            self.given.journal.listeners.remove(self._on_call)
        here = asyncio.get_running_loop()
        for loop in list(self._opening):
            if loop is here or loop.is_closed():
                await _close(self._opening.pop(loop))
            elif self._thread is None or loop is not self._thread.loop:
                closing = asyncio.run_coroutine_threadsafe(_close(self._opening.pop(loop)), loop)
                await asyncio.wrap_future(closing)
        if self._thread is not None and self._thread.loop is not here:
            await asyncio.to_thread(self.stop)

    async def _open(self) -> AsyncReMe:
        reme = await AsyncReMe(self.settings).open()
        self._listen(reme)
        return reme

    def _listen(self, reme: AsyncReMe) -> None:
        if self._on_call is not None and self._on_call not in reme.journal.listeners:
            reme.journal.listeners.append(self._on_call)

    async def _drop_closed_loops(self) -> None:
        for loop in [loop for loop in self._opening if loop.is_closed()]:
            await _close(self._opening.pop(loop))

    def _leave_to_parent(self) -> None:
        """In a forked child, start afresh: threads did not come along, and the connections are the parent's."""
        if self._process != os.getpid():
            _of_parents.append((self._opening, self._thread))  # to clean up would close them under the parent's feet
            self._opening, self._thread, self._process = {}, None, os.getpid()


class _Thread:
    """A thread with an event loop. It ends with its owner, or with the program."""

    def __init__(self, opening: Opening) -> None:
        stack = ExitStack()
        self._portal = stack.enter_context(start_blocking_portal(name="reme-turns"))
        self.loop = self._portal.call(_running_loop)
        self.stop = weakref.finalize(self, _end, os.getpid(), stack, self._portal, self.loop, opening)

    def call(self, work: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs) -> R:
        future: Future[R] = self._portal.start_task_soon(partial(work, *args, **kwargs))
        try:
            return future.result()
        except BaseException:  # Ctrl-C above all: nobody waits for it any more
            future.cancel()
            raise


async def _running_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def _end(
    process: int, stack: ExitStack, portal: BlockingPortal, loop: asyncio.AbstractEventLoop, opening: Opening
) -> None:
    if process != os.getpid():
        return
    task = opening.pop(loop, None)
    if task is not None:
        portal.call(_close, task)
    stack.close()


async def _close(task: asyncio.Task[AsyncReMe]) -> None:
    if not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([task])
    if task.cancelled() or task.exception() is not None:
        return  # it was never open, and whoever asked for it was told
    try:
        await task.result().aclose()
    except (DatabaseError, RuntimeError) as error:  # RuntimeError: asyncio's, about objects of a loop that is closed
        log.debug("a connection pool of an event loop that has ended was dropped: %s", error)


def _settings(reme: Any) -> Settings:
    if reme is None:
        return Settings.load()
    if isinstance(reme, Settings):
        return reme
    if isinstance(reme, str | SecretStr):
        url = reme if isinstance(reme, SecretStr) else SecretStr(reme)
        return Settings.load().model_copy(update={"database_url": url})
    settings: Settings = reme.settings
    return settings
