"""`AsyncReMe`: memory for agents, for code that awaits; and the connection that it shares with its blocking twin.

Nothing is implemented here. An `Engine` runs in the library's own event loop (`_portal`), and every method hands its
call over to it. So one `AsyncReMe` serves any number of event loops and threads.
"""

from __future__ import annotations

import asyncio
import atexit
import inspect
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, cast

from reme_core._portal import Portal, portal
from reme_core.engine import Engine
from reme_core.episodes.api import Episodes
from reme_core.errors import ReMeError
from reme_core.given import check_arguments
from reme_core.jobs.queue import Background
from reme_core.models.agent_chat import AgentChat
from reme_core.settings import Settings
from reme_core.store.items import Items
from reme_core.store.memories import Memories
from reme_core.store.workspaces import Workspaces
from reme_core.tools.api import Tools
from reme_core.working.api import Working

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

Work = Callable[[Engine], Coroutine[Any, Any, R]]
"""What is to be done with an open engine, in its own event loop."""

_of_parents: list[Any] = []  # engines of the parent process, which a forked child must not clean up
_open_ones: set[weakref.finalize[..., Any]] = set()  # finalizers of open engines, called when the program ends
_closings: set[Future[None]] = set()  # closings under way, of connections that were garbage collected


class Connection:
    """One engine in the library's event loop. It opens when it is first used, and in a forked child it opens anew.

    Attributes:
        is_closed: Whether `close` was called.
    """

    def __init__(self, settings: Settings, make: Callable[[Settings], Engine] = Engine) -> None:
        self.settings = settings
        self._make = make
        self._given: Portal | None = None
        self._portal: Portal | None = None
        self._opening: asyncio.Task[Engine] | None = None
        self.is_closed = False
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
        self.is_closed = False
        await self.portal.run(self.engine())

    async def close(self) -> None:
        """Close the engine, if it is open; afterwards every use but `open` is an error. Closing twice is fine."""
        self.is_closed = True
        await self.portal.run(self._end())

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
            self._portal, self._opening = self.portal, None
        # All callers wait for one task that opens the engine. If it failed, the next use tries again.
        if self._opening is None or (self._opening.done() and _has_failed(self._opening)):
            self._opening = asyncio.create_task(self._make(self.settings).open())
            self._finalizer = weakref.finalize(self, _close_forgotten, self._portal, self._opening)
            self._finalizer.atexit = False  # when the program ends, `_close_all` calls it, and waits
            _open_ones.difference_update([one for one in _open_ones if not one.alive])
            _open_ones.add(self._finalizer)
        # A caller that is cancelled must not cancel an opening that others wait for too.
        return await asyncio.shield(self._opening)

    async def _end(self) -> None:
        # It is closed here, so nothing is left to do when the object is collected or the program ends.
        if self._finalizer is not None:
            self._finalizer.detach()
            _open_ones.discard(self._finalizer)
        opening, self._opening = self._opening, None
        if opening is not None and self._portal is self.portal:
            await _close(opening)


def _has_failed(opening: asyncio.Task[Engine]) -> bool:
    return opening.cancelled() or opening.exception() is not None


async def _close(opening: asyncio.Task[Engine]) -> None:
    await asyncio.wait([opening])  # not `await opening`, which would raise its error here as well
    if not _has_failed(opening):
        await opening.result().aclose()


def _close_forgotten(owner: Portal, opening: asyncio.Task[Engine]) -> None:
    """Close the engine of a connection that was garbage collected, or is open when the program ends."""
    if owner is portal():  # not so in a forked child, where the engine is the parent's
        # Nobody waits here: the garbage collector may run in any thread, even in that of the loop itself.
        closing = owner.submit(_close(opening))
        _closings.add(closing)
        closing.add_done_callback(_closings.discard)


@atexit.register
def _close_all() -> None:
    for finalizer in list(_open_ones):
        # Detached and called by hand: by now `weakref` may have stopped calling finalizers.
        if found := finalizer.detach():
            _, close, args, _ = found
            close(*args)
    for closing in list(_closings):
        closing.result()


class Facade:
    """Hands calls over to an engine, or to one part of it."""

    def __init__(self, connection: Connection, part: Callable[[Engine], Any] = lambda engine: engine) -> None:
        self.connection = connection
        self._part = part


def awaitable(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    """Make the twin of an engine's coroutine method that can be awaited in any event loop; it checks arguments."""

    @wraps(method)
    async def twin(self: Facade, /, *args: P.args, **kwargs: P.kwargs) -> R:
        check_arguments(method, args, kwargs)
        return await self.connection.run(lambda engine: method(self._part(engine), *args, **kwargs))

    return twin


def awaitable_part(kind: type[T], connection: Connection, part: Callable[[Engine], T]) -> T:
    """A part of the engine with the public coroutine methods of its class, for any event loop."""
    # Made rather than written out as in `sync`: a type checker takes the result for a `kind`, whose methods it has.
    methods = {
        name: awaitable(method)
        for name, method in inspect.getmembers(kind, inspect.iscoroutinefunction)
        if not name.startswith("_")
    }
    return cast(T, type(kind.__name__, (Facade,), methods)(connection, part))


class AsyncReMe(Facade):
    """Long-term memory on Postgres.

    ```python
    async with AsyncReMe() as reme:
        await reme.memories.add("alice", "She drinks her coffee black.")
        recollection = await reme.recall("alice", "How does she like her coffee?")
        print(recollection.hits[0].content)
    ```

    One may be shared by any number of tasks, threads and event loops. It opens when it is first used; `aclose` it, or
    leave the `async with` block. One that is forgotten is closed when the program ends.

    Attributes:
        memories: Adding, reading, changing, deleting and explaining single memories.
        workspaces: Listing, loading, dumping, copying, clearing and moving whole workspaces.
        episodes: Scored attempts, and what they taught.
        tools: Calls of tools, and guidance for the next ones.
        items: JSON values that programs put and get under a key of their own.
        working: What keeps a long task within its model's window, and gives back what left it.
        background: The queue of background work.
        settings: What it was opened with.
    """

    def __init__(self, settings: Settings | None = None, *, chat: AgentChat | None = None, **overrides: Any) -> None:
        """Say what to open.

        Args:
            settings: Everything that can be set; default is `Settings.load()`, which reads the environment. With
                nothing set, the embedded Postgres and the offline embedding model serve.
            chat: The model of an agent, in place of the settings' `llm.default`.
            overrides: Single settings, such as `database_url="postgresql://…"` or `worker={"embedded": False}`.
        """
        self._connect(
            Connection(Settings.with_overrides(settings, overrides), lambda settings: Engine(settings, chat=chat))
        )

    @classmethod
    def share(cls, other: Facade) -> Self:
        """An `AsyncReMe` over the connection of another one, or of a `ReMe`; closing either closes both."""
        return cls._over(other.connection)

    @classmethod
    def of(cls, engine: Engine) -> Self:
        """An `AsyncReMe` over an engine that is open in the running event loop."""
        return cls._over(Connection.of(engine))

    @classmethod
    def _over(cls, connection: Connection) -> Self:
        reme = cls.__new__(cls)
        reme._connect(connection)
        return reme

    def _connect(self, connection: Connection) -> None:
        super().__init__(connection)
        self.settings = connection.settings
        self.memories = awaitable_part(Memories, connection, lambda engine: engine.memories)
        self.workspaces = awaitable_part(Workspaces, connection, lambda engine: engine.workspaces)
        self.episodes = awaitable_part(Episodes, connection, lambda engine: engine.episodes)
        self.tools = awaitable_part(Tools, connection, lambda engine: engine.tools)
        self.items = awaitable_part(Items, connection, lambda engine: engine.items)
        self.working = awaitable_part(Working, connection, lambda engine: engine.working)
        self.background = awaitable_part(Background, connection, lambda engine: engine.background)

    recall = awaitable(Engine.recall)
    record = awaitable(Engine.record)
    messages = awaitable(Engine.messages)
    erase_messages = awaitable(Engine.erase_messages)
    summarise = awaitable(Engine.summarise)
    reflect = awaitable(Engine.reflect)
    execute = awaitable(Engine.execute)
    retrieve = awaitable(Engine.retrieve)
    get_profile = awaitable(Engine.get_profile)
    engine = awaitable(Engine.engine)

    async def open(self) -> Self:
        """Connect now rather than at the first use, starting the embedded server where no database is named.

        Raises:
            ConfigurationError: The settings name an op, a parameter or a model that does not exist.
            DatabaseUnavailableError: The database cannot be reached.
            SchemaError: The database has another version's schema, or lacks pgvector.
        """
        await self.connection.open()
        return self

    async def aclose(self) -> None:
        """Finish what runs in the background, write the logs, and give all connections back. Closing twice is fine."""
        await self.connection.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()
