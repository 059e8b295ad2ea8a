"""Which `AsyncReMe` serves which event loop.

A connection pool belongs to the loop it was opened in, and frameworks call a memory from whatever loop they happen to
run: the application's, one made for a synchronous call, a new one for each `asyncio.run`. So a link is opened lazily
in the loop that asks, and again in another one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any, Protocol

from pydantic import SecretStr

from reme_core.app import AsyncReMe
from reme_core.errors import DatabaseError
from reme_core.settings import Settings

log = logging.getLogger(__name__)


class HasSettings(Protocol):
    """Anything that says how it was opened, such as `AsyncReMe` and `ReMe`."""

    @property
    def settings(self) -> Settings:
        """What it was opened with."""


class Links:
    """Opens an `AsyncReMe` in each event loop that asks for one, and closes those that it opened itself."""

    def __init__(self, reme: HasSettings | Settings | SecretStr | str | None) -> None:
        """Say where memory is.

        Args:
            reme: An open `AsyncReMe` (it is used in its own loop, and never closed here), a `ReMe`, settings, the URL
                of a database, or None for what the environment says, which is the embedded Postgres by default.
        """
        self.given = reme if isinstance(reme, AsyncReMe) else None
        self.settings = _settings(reme)
        self._opening: dict[asyncio.AbstractEventLoop, asyncio.Task[AsyncReMe]] = {}

    async def reme(self) -> AsyncReMe:
        """The open one of the running loop. Cancelling the caller does not stop an opening that others wait for too.

        Raises:
            DatabaseUnavailableError: No connection; the next call tries again.
            SchemaError: The database is not fit for use.
        """
        loop = asyncio.get_running_loop()
        if self.given is not None and self.given.loop is loop:
            return self.given
        task = self._opening.get(loop)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            await self._drop_closed_loops()
            task = self._opening[loop] = loop.create_task(AsyncReMe(self.settings).open())
        return await asyncio.shield(task)

    async def aclose(self) -> None:
        """Close what was opened here, in the loops that still run."""
        opening, self._opening = self._opening, {}
        here = asyncio.get_running_loop()
        for loop, task in opening.items():
            if loop is here or loop.is_closed():
                await _close(task)
            else:
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_close(task), loop))

    async def _drop_closed_loops(self) -> None:
        for loop in [loop for loop in self._opening if loop.is_closed()]:
            await _close(self._opening.pop(loop))


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
