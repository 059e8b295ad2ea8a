"""Where a turn's memory is: a ReMe that the application opened, or one that is opened here when it is first used."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from functools import cached_property

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict
from pydantic import SecretStr

from reme_core._portal import Portal
from reme_core.client import AsyncReMe
from reme_core.engine import Engine
from reme_core.errors import DatabaseUnavailableError, InputError
from reme_core.models import ModelCall
from reme_core.models.agent_chat import AgentChat
from reme_core.postgres.errors import normalise_url
from reme_core.postgres.migrate import upgrade
from reme_core.settings import Settings
from reme_core.sync import ReMe

Client = AsyncReMe | ReMe
"""An open memory, which its opener closes."""

ReMeLike = Client | Settings | SecretStr | str | None
"""Where memory is: a database URL, settings, an open memory, or None for what the environment says."""


class TurnConnection:
    """The engine that turns work with, and who closes it."""

    def __init__(
        self,
        database_url: ReMeLike,
        client: Client | None = None,
        *,
        chat: AgentChat | None = None,
        on_call: Callable[[str, ModelCall], None] | None = None,
    ) -> None:
        """Say where memory is.

        Args:
            database_url: What to open, or an open memory.
            client: An open memory, whose engine is used and never closed here.
            chat: The model of the agent, which then reads for its memory.
            on_call: Told of every model call that memory makes, with the workspace it is made for.

        Raises:
            InputError: It is none of these, both are given, or a model for a memory that is open.

        Attributes:
            reme: The memory, for any event loop.
        """
        if client is not None and not isinstance(client, AsyncReMe | ReMe):
            raise InputError(f"client is an open AsyncReMe or ReMe, not {type(client).__name__}")
        if client is not None and database_url is not None:
            raise InputError("give database_url, or client for a memory that is open; not both")
        reme = database_url if client is None else client
        self._is_own = not isinstance(reme, AsyncReMe | ReMe)
        if chat is not None and not self._is_own:
            raise InputError("an open memory has the chat model that it was opened with; leave chat_model out")
        self._chat = chat
        self.reme = AsyncReMe.share(reme) if isinstance(reme, ReMe) else _async_reme(reme, chat)
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

    async def set_up(self) -> None:
        """Bring the database to this version's schema, and connect.

        Raises:
            DatabaseUnavailableError: There is no connection.
            SchemaError: The role may not make the schema, or pgvector is missing.
        """
        if (url := self.settings.database_url) is not None:  # the embedded server does it by itself
            await asyncio.to_thread(upgrade, normalise_url(url.get_secret_value()))
        await self.reme.open()

    async def close(self) -> None:
        """Close what was opened here; in the library's event loop. The next use opens it again."""
        if self._engine is not None and self._listener in self._engine.log_writer.listeners:
            self._engine.log_writer.listeners.remove(self._listener)
        self._engine = None
        if self._is_own:
            await self.reme.aclose()
            self.reme = AsyncReMe(self.settings, chat=self._chat)


def _async_reme(reme: AsyncReMe | Settings | SecretStr | str | None, chat: AgentChat | None) -> AsyncReMe:
    if isinstance(reme, AsyncReMe):
        return reme
    if reme is None or isinstance(reme, Settings):
        return AsyncReMe(reme, chat=chat)
    if isinstance(reme, str | SecretStr):
        url = reme if isinstance(reme, SecretStr) else SecretStr(reme)
        if not url.get_secret_value().strip():
            raise InputError("database_url is empty; leave it out for the database that the settings name")
        try:
            conninfo_to_dict(url.get_secret_value())
        except ProgrammingError:
            # Not shown: it may hold a password. Often it is a workspace in the wrong place.
            raise InputError("database_url is no postgresql://…; a workspace is named by workspace_id=…") from None
        return AsyncReMe(chat=chat, database_url=url)
    raise InputError(f"database_url is a URL, settings or an open AsyncReMe or ReMe, not {type(reme).__name__}")


def explain_timeout(error: Exception, patience: float) -> Exception:
    """The error to show for one that a turn met: a `TimeoutError` says nothing of memory."""
    if isinstance(error, TimeoutError):
        return DatabaseUnavailableError(
            f"memory did not answer within {patience:g} seconds; is the database reachable?"
        )
    return error
