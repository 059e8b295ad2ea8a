"""Where a turn's memory is: a ReMe that the application opened, or one that is opened here when it is first used."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import cached_property

from pydantic import SecretStr

from reme_core._portal import Portal
from reme_core.client import AsyncReMe
from reme_core.engine import Engine
from reme_core.errors import InputError
from reme_core.models import ModelCall
from reme_core.settings import Settings
from reme_core.sync import ReMe

ReMeLike = AsyncReMe | ReMe | Settings | SecretStr | str | None
"""Where memory is: an `AsyncReMe` or `ReMe`, settings, a database URL, or None for what the environment says."""


class TurnConnection:
    """The engine that turns work with, and who closes it."""

    def __init__(self, reme: ReMeLike, *, on_call: Callable[[str, ModelCall], None] | None = None) -> None:
        """Say where memory is.

        Args:
            reme: An `AsyncReMe` or `ReMe`, whose engine is used and never closed here; or what to open.
            on_call: Told of every model call that memory makes, with the workspace it is made for.

        Raises:
            InputError: It is none of these.

        Attributes:
            reme: The memory, for any event loop.
        """
        self._is_own = not isinstance(reme, AsyncReMe | ReMe)
        self.reme = AsyncReMe.share(reme) if isinstance(reme, ReMe) else _async_reme(reme)
        # Weakly: the engine outlives whoever forgets to close it, and would keep him alive.
        self._on_call = weakref.WeakMethod(on_call) if on_call is not None else None
        self._engine: Engine | None = None

    @property
    def settings(self) -> Settings:
        """How memory is opened, where it has to be."""
        return self.reme.settings

    @property
    def portal(self) -> Portal:
        """The way into the engine's event loop."""
        return self.reme.connection.portal

    async def engine(self) -> Engine:
        """The open engine; in the library's event loop.

        Raises:
            DatabaseUnavailableError: There is no connection. The next call tries again.
            SchemaError: The database is not fit for use.
            ReMeError: The memory that was given has been closed.
        """
        engine = await self.reme.connection.engine()
        if engine is not self._engine:
            self._engine = engine
            if self._on_call is not None:
                engine.log_writer.listeners.append(self._listener)
        return engine

    @cached_property
    def _listener(self) -> Callable[[str, ModelCall], None]:
        heard = self._on_call

        def listen(workspace: str, call: ModelCall) -> None:
            if heard is not None and (on_call := heard()) is not None:
                on_call(workspace, call)

        return listen

    async def close(self) -> None:
        """Close what was opened here; in the library's event loop. The next use opens it again."""
        if self._engine is not None and self._listener in self._engine.log_writer.listeners:
            self._engine.log_writer.listeners.remove(self._listener)
        self._engine = None
        if self._is_own:
            await self.reme.aclose()
            self.reme = AsyncReMe(self.settings)


def _async_reme(reme: AsyncReMe | Settings | SecretStr | str | None) -> AsyncReMe:
    if isinstance(reme, AsyncReMe):
        return reme
    if reme is None or isinstance(reme, Settings):
        return AsyncReMe(reme)
    if isinstance(reme, str | SecretStr):
        url = reme if isinstance(reme, SecretStr) else SecretStr(reme)
        return AsyncReMe(database_url=url)
    raise InputError(f"memory is an AsyncReMe, a ReMe, settings, a database URL or None, not {type(reme).__name__}")
