"""`ReMe`: the same memory for code that does not await.

Each method runs the coroutine of the engine in the library's own event loop and blocks until it is done. So it works in
plain scripts, in threads, and where another loop is running (notebooks).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from reme_core.client import Facade, refuse_block
from reme_core.connection import Connection
from reme_core.engine import Engine
from reme_core.episodes.api import Episodes
from reme_core.given import check_arguments
from reme_core.jobs.queue import Background
from reme_core.settings import Settings
from reme_core.store.items import Items
from reme_core.store.memories import Memories
from reme_core.store.workspaces import Workspaces
from reme_core.tools.api import Tools
from reme_core.working.api import Working

P = ParamSpec("P")
R = TypeVar("R")


def blocking(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]) -> Callable[Concatenate[Any, P], R]:
    """Make the blocking twin of a coroutine method, with its signature, types and docstring; it checks arguments."""

    @wraps(method)
    def twin(self: Facade, /, *args: P.args, **kwargs: P.kwargs) -> R:
        check_arguments(method, args, kwargs)
        return self.connection.wait(lambda engine: method(self._part(engine), *args, **kwargs))

    return twin


# Written out, since type checkers know no methods that are made at run time.
class BlockingMemories(Facade):
    """The memories of all workspaces; every method names the one it works in."""

    add = blocking(Memories.add)
    get = blocking(Memories.get)
    list = blocking(Memories.list)
    update = blocking(Memories.update)
    delete = blocking(Memories.delete)
    history = blocking(Memories.history)
    restore = blocking(Memories.restore)
    undo = blocking(Memories.undo)
    evidence = blocking(Memories.evidence)
    from_source = blocking(Memories.from_source)
    scopes = blocking(Memories.scopes)
    as_of = blocking(Memories.as_of)


class BlockingWorkspaces(Facade):
    """The workspaces of one database."""

    list = blocking(Workspaces.list)
    describe = blocking(Workspaces.describe)
    count_messages = blocking(Workspaces.count_messages)
    model_usage = blocking(Workspaces.model_usage)
    load = blocking(Workspaces.load)
    dump = blocking(Workspaces.dump)
    copy = blocking(Workspaces.copy)
    schedule = blocking(Workspaces.schedule)
    clear = blocking(Workspaces.clear)
    reembed = blocking(Workspaces.reembed)
    drop_old_vectors = blocking(Workspaces.drop_old_vectors)


class BlockingEpisodes(Facade):
    """The episodes of all workspaces; every method names the one it works in."""

    record = blocking(Episodes.record)
    record_many = blocking(Episodes.record_many)
    context = blocking(Episodes.context)
    summary = blocking(Episodes.summary)
    consolidate_if_due = blocking(Episodes.consolidate_if_due)
    curve = blocking(Episodes.curve)
    pass_at_k = blocking(Episodes.pass_at_k)
    as_memory = blocking(Episodes.as_memory)
    continue_with = blocking(Episodes.continue_with)
    load = blocking(Episodes.load)
    dump = blocking(Episodes.dump)


class BlockingTools(Facade):
    """The tools of all workspaces; every method names the one it works in."""

    record = blocking(Tools.record)
    statistics = blocking(Tools.statistics)
    summarise = blocking(Tools.summarise)
    guidance = blocking(Tools.guidance)


class BlockingItems(Facade):
    """JSON values under keys, in all workspaces; every method names the one it works in."""

    get = blocking(Items.get)
    search = blocking(Items.search)
    namespaces = blocking(Items.namespaces)
    write = blocking(Items.write)
    refresh = blocking(Items.refresh)
    sweep = blocking(Items.sweep)


class BlockingWorking(Facade):
    """The working memory of all workspaces; every method names the one it works in."""

    fit = blocking(Working.fit)
    check_context = blocking(Working.check_context)
    grep = blocking(Working.grep)
    read = blocking(Working.read)
    artifacts = blocking(Working.artifacts)
    erase = blocking(Working.erase)


class BlockingBackground(Facade):
    """The queue of background work."""

    jobs = blocking(Background.jobs)
    job = blocking(Background.job)
    load = blocking(Background.load)
    retry = blocking(Background.retry)
    drop = blocking(Background.drop)
    drain = blocking(Background.drain)
    do_waiting = blocking(Background.do_waiting)
    summarise_waiting = blocking(Background.summarise_waiting)


class ReMe(Facade):
    """Long-term memory on Postgres, for code that does not await.

    ```python
    with ReMe() as reme:
        reme.memories.add("alice", "She drinks her coffee black.")
        print(reme.recall("alice", "How does she like her coffee?").hits[0].content)
    ```

    It opens when it is first used and may be shared by any number of threads. `close` it, or leave the `with` block;
    one that is forgotten is closed when the program ends. A forked child opens connections of its own.

    It has the parts of an `AsyncReMe`, which says what they are.
    """

    def __init__(self, settings: Settings | None = None, **overrides: Any) -> None:
        """Say what to open; see `AsyncReMe`. With nothing set, the embedded Postgres and the offline model serve.

        Args:
            settings: Everything that can be set; default is `Settings.load()`, which reads the environment.
            overrides: Single settings, such as `database_url="postgresql://…"` or `worker={"embedded": False}`.
        """
        super().__init__(Connection(Settings.with_overrides(settings, overrides)))
        self.settings = self.connection.settings
        self.memories = BlockingMemories(self.connection, lambda engine: engine.memories)
        self.workspaces = BlockingWorkspaces(self.connection, lambda engine: engine.workspaces)
        self.episodes = BlockingEpisodes(self.connection, lambda engine: engine.episodes)
        self.tools = BlockingTools(self.connection, lambda engine: engine.tools)
        self.items = BlockingItems(self.connection, lambda engine: engine.items)
        self.working = BlockingWorking(self.connection, lambda engine: engine.working)
        self.background = BlockingBackground(self.connection, lambda engine: engine.background)

    recall = blocking(Engine.recall)
    record = blocking(Engine.record)
    messages = blocking(Engine.messages)
    erase_messages = blocking(Engine.erase_messages)
    summarise = blocking(Engine.summarise)
    reflect = blocking(Engine.reflect)
    execute = blocking(Engine.execute)
    retrieve = blocking(Engine.retrieve)
    get_profile = blocking(Engine.get_profile)
    engine = blocking(Engine.engine)

    def open(self) -> Self:
        """Connect now rather than at the first use; see `AsyncReMe.open` for its errors."""
        self.connection.portal.wait(self.connection.open())
        return self

    def close(self) -> None:
        """Finish what runs in the background, write the logs, and give all connections back. Closing twice is fine."""
        self.connection.portal.wait(self.connection.close())

    if not TYPE_CHECKING:
        __aenter__ = __aexit__ = refuse_block("a ReMe opens by `with`; code that awaits uses AsyncReMe")

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *exception: object) -> None:
        self.close()
