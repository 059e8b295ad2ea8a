"""The connection of a turn's memory, to a ReMe that was opened before or here, and reports of one that fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self

from opentelemetry import trace
from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict
from pydantic import SecretStr

from reme_core.client import AsyncReMe
from reme_core.connection import callers_portal
from reme_core.engine import Engine
from reme_core.errors import DatabaseUnavailableError, InputError, ReMeError
from reme_core.models.agent_chat import AgentChat
from reme_core.postgres.errors import normalise_url
from reme_core.postgres.migrate import upgrade
from reme_core.settings import Settings
from reme_core.sync import ReMe
from reme_core.turn.accounts import UsageByWorkspace

log = logging.getLogger(__name__)

Client = AsyncReMe | ReMe
"""An open memory. Whoever opened it also closes it."""

ReMeLike = Client | Settings | SecretStr | str | None
"""The place of memory: a database URL, settings, an open memory, or None for the settings of the environment."""


class Closing:
    """A base for classes with `aclose`; leaving the block closes them."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()

    def close(self) -> Any:
        """`aclose` for code that does not await."""
        return callers_portal().wait(self.aclose())

    async def aclose(self) -> None:
        """Deliver what waits, and close the connection if it was opened here."""
        raise NotImplementedError


class TurnConnection:
    """The engine that turns use. It is closed here only if it was opened here.

    Attributes:
        reme: The memory, for any event loop.
        is_own: Whether it is opened and closed here.
    """

    def __init__(
        self,
        database_url: ReMeLike,
        client: Client | None = None,
        *,
        chat: AgentChat | None = None,
        usage: UsageByWorkspace | None = None,
    ) -> None:
        """Choose the memory; it is not opened yet.

        Args:
            database_url: A database URL or settings to open, or an open memory.
            client: An open memory in place of `database_url`; it is never closed here.
            chat: The agent's chat model, which then also reads conversations for memory.
            usage: Counts the model calls that memory makes.

        Raises:
            InputError: A value is none of these, both `database_url` and `client` are given, or `chat` is given for a
                memory that is open already.
        """
        if client is not None and not isinstance(client, AsyncReMe | ReMe):
            raise InputError(f"client is an open AsyncReMe or ReMe, not {type(client).__name__}")
        if client is not None and database_url is not None:
            raise InputError("give database_url, or client for a memory that is open; not both")
        reme = database_url if client is None else client
        self.is_own = not isinstance(reme, AsyncReMe | ReMe)
        if chat is not None and not self.is_own:
            raise InputError("an open memory has the chat model that it was opened with; leave chat_model out")
        self._chat = chat
        self.reme = AsyncReMe.share(reme) if isinstance(reme, ReMe) else _async_reme(reme, chat)
        self._usage = usage
        self._engine: Engine | None = None

    async def engine(self) -> Engine:
        """The open engine. To be called in the library's event loop.

        Raises:
            DatabaseUnavailableError: There is no connection. The next call tries again.
            SchemaError: The database is not fit for use.
            ReMeError: The memory that was given has been closed.
        """
        engine = self._engine = await self.reme.connection.engine()
        if self._usage is not None:
            engine.log_writer.listeners.add(self._usage)
        return engine

    async def set_up(self) -> None:
        """Bring the database to this version's schema, and connect.

        Raises:
            DatabaseUnavailableError: There is no connection.
            SchemaError: The role may not make the schema, or pgvector is missing.
        """
        if (url := self.reme.settings.database_url) is not None:  # the embedded server does it by itself
            await asyncio.to_thread(upgrade, normalise_url(url.get_secret_value()))
        await self.reme.open()

    async def close(self) -> None:
        """Close the engine if it was opened here; the next use opens it again. In its loop, if it has `usage`."""
        if self._engine is not None and self._usage is not None:
            self._engine.log_writer.listeners.discard(self._usage)
        self._engine = None
        if self.is_own:
            await self.reme.aclose()
            self.reme = AsyncReMe(self.reme.settings, chat=self._chat)


def also_redact(settings: Settings, kinds: Sequence[str]) -> Settings:
    """The settings, where these kinds of secrets are taken out too.

    For a memory that was written down and is made again with the settings of another environment.
    """
    return settings.model_copy(update={"redact": list(dict.fromkeys([*settings.redact, *kinds]))})


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
            # The URL is not shown, since it may hold a password. Often it is a workspace's name in the wrong place.
            raise InputError("database_url is no postgresql://…; a workspace is named by workspace_id=…") from None
        return AsyncReMe(chat=chat, database_url=url)
    raise InputError(f"database_url is a URL, settings or an open AsyncReMe or ReMe, not {type(reme).__name__}")


@asynccontextmanager
async def within(patience: float) -> AsyncIterator[None]:
    """Let memory answer within so many seconds, or raise a `DatabaseUnavailableError` that says that it did not."""
    try:
        async with asyncio.timeout(patience):
            yield
    except TimeoutError:
        waited = f"memory did not answer within {patience:g} seconds"
        why = "it is still being opened, is busy, or cannot be reached"
        raise DatabaseUnavailableError(f"{waited}: {why}") from None


def report_failure(span: trace.Span, error: Exception, what: str) -> None:
    """Report an error to the trace and the log; `what` says what it means for the turn."""
    span.record_exception(error)
    span.set_status(trace.StatusCode.ERROR, str(error))
    log_failure(error, what)


def log_failure(error: Exception, what: str) -> None:
    """Report an error to the log, with its trace if it is none of ours."""
    log.warning("%s: %s", what, error, exc_info=None if isinstance(error, ReMeError) else error)
