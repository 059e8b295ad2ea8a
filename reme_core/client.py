"""`AsyncReMe`: memory for agents, for code that awaits.

Nothing is implemented here. An `Engine` runs in the library's own event loop (`connection`), and every method hands its
call over to it. So one `AsyncReMe` serves any number of event loops and threads.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, cast

from reme_core.connection import Connection
from reme_core.engine import Engine
from reme_core.episodes.api import Episodes
from reme_core.errors import InputError, ReMeError
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


class Facade:
    """Hands calls over to an engine, or to one part of it."""

    def __init__(self, connection: Connection, part: Callable[[Engine], Any] = lambda engine: engine) -> None:
        self.connection = connection
        self._part = part

    def __copy__(self) -> Self:
        """The same one: a copy, as frameworks make of agents and their parts, shares the open memory."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> str:
        raise ReMeError(
            f"{type(self).__name__} stands on connections of this process and cannot be pickled; hand the settings"
            " over, and make one from them there: ReMe(settings)"
        )

    if not TYPE_CHECKING:  # type checkers would take every name for that of an attribute

        def __getattr__(self, name: str) -> Any:
            parts = [part for part, one in vars(self).items() if isinstance(one, Facade) and hasattr(type(one), name)]
            meant = _MEANT.get(name) or " or ".join(f"{part}.{name}" for part in parts)
            hint = f"; did you mean {meant}?" if meant else ""
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{hint}", name=name, obj=self)


_MEANT = {"search": "recall", "query": "recall", "remember": "record or memories.add", "forget": "memories.delete"}


def refuse_block(told: str) -> Callable[..., Any]:
    """Make the method that the wrong kind of block calls: the error says which one to write."""

    def refuse(self: Facade, *_: object) -> Any:
        raise ReMeError(told)

    return refuse


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

        Raises:
            ConfigurationError: A setting is unknown, or its value does not fit.
            InputError: `chat` is no `AgentChat`.
        """
        if chat is not None and not isinstance(chat, AgentChat):
            told = "chat is the AgentChat that an adapter made of an agent's model"
            raise InputError(f"{told}, not {chat!r:.60}; name a model by llm={{'default': {{'model_name': …}}}}")
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

    if not TYPE_CHECKING:
        __enter__ = __exit__ = refuse_block("an AsyncReMe opens by `async with`; code that does not await uses ReMe")

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()
