"""`ReMe`: the same memory for code that does not await.

Nothing is implemented a second time. Each method runs the coroutine of `AsyncReMe` in one background thread with an
event loop of its own, so it works in plain scripts, in threads, and where another loop is running (notebooks).
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import ExitStack
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from anyio.from_thread import start_blocking_portal

from reme_core.app import AsyncReMe
from reme_core.background import Background
from reme_core.episodes import Episodes
from reme_core.errors import ReMeError
from reme_core.settings import Settings
from reme_core.store.memories import Memories
from reme_core.store.workspaces import Workspaces
from reme_core.tools import Tools

P = ParamSpec("P")
R = TypeVar("R")


def blocking(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]) -> Callable[Concatenate[Any, P], R]:
    """Make the blocking twin of a coroutine method, with its signature, types and docstring."""

    @wraps(method)
    def twin(self: _Facade, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._background.wait(lambda reme: method(self._part(reme), *args, **kwargs))

    return twin


class _Facade:
    """Forwards to one part of an `AsyncReMe`."""

    def __init__(self, background: _Background, part: Callable[[AsyncReMe], Any]) -> None:
        self._background = background
        self._part = part


class BlockingMemories(_Facade):
    """The memories of all workspaces; every method names the one it works in."""

    add = blocking(Memories.add)
    get = blocking(Memories.get)
    list = blocking(Memories.list)
    update = blocking(Memories.update)
    delete = blocking(Memories.delete)
    history = blocking(Memories.history)
    evidence = blocking(Memories.evidence)
    resting_on = blocking(Memories.resting_on)
    as_of = blocking(Memories.as_of)


class BlockingWorkspaces(_Facade):
    """The workspaces of one database."""

    list = blocking(Workspaces.list)
    describe = blocking(Workspaces.describe)
    spent = blocking(Workspaces.spent)
    load = blocking(Workspaces.load)
    dump = blocking(Workspaces.dump)
    copy = blocking(Workspaces.copy)
    schedule = blocking(Workspaces.schedule)
    clear = blocking(Workspaces.clear)
    reembed = blocking(Workspaces.reembed)
    drop_old_vectors = blocking(Workspaces.drop_old_vectors)


class BlockingEpisodes(_Facade):
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


class BlockingTools(_Facade):
    """The tools of all workspaces; every method names the one it works in."""

    record = blocking(Tools.record)
    statistics = blocking(Tools.statistics)
    summarise = blocking(Tools.summarise)
    guidance = blocking(Tools.guidance)


class BlockingBackground(_Facade):
    """The queue of background work."""

    jobs = blocking(Background.jobs)
    job = blocking(Background.job)
    retry = blocking(Background.retry)
    drain = blocking(Background.drain)


class ReMe(_Facade):
    """Long-term memory on Postgres, for code that does not await.

    ```python
    with ReMe() as reme:
        reme.memories.add("alice", "She drinks her coffee black.")
        print(reme.recall("alice", "How does she like her coffee?").hits[0].content)
    ```

    It opens when it is first used and may be shared by any number of threads. `close` it, or leave the `with` block;
    one that is forgotten is closed when the program ends. A forked child opens connections of its own.

    Attributes:
        memories: Adding, reading, changing, deleting and explaining single memories.
        workspaces: Listing, loading, dumping, copying, clearing and moving whole workspaces.
        episodes: Scored attempts, and what they taught.
        tools: Calls of tools, and guidance for the next ones.
        background: The queue of background work.
        settings: What it was opened with.
    """

    def __init__(self, settings: Settings | None = None, **overrides: Any) -> None:
        """Say what to open; see `AsyncReMe`. With nothing set, the embedded Postgres and the offline model serve.

        Args:
            settings: Everything that can be set; default is `Settings.load()`, which reads the environment.
            overrides: Single settings, such as `database_url="postgresql://…"` or `data_dir=path`.
        """
        self.settings = AsyncReMe(settings, **overrides).settings
        super().__init__(_Background(self.settings), lambda reme: reme)
        self.memories = BlockingMemories(self._background, lambda reme: reme.memories)
        self.workspaces = BlockingWorkspaces(self._background, lambda reme: reme.workspaces)
        self.episodes = BlockingEpisodes(self._background, lambda reme: reme.episodes)
        self.tools = BlockingTools(self._background, lambda reme: reme.tools)
        self.background = BlockingBackground(self._background, lambda reme: reme.background)

    recall = blocking(AsyncReMe.recall)
    record = blocking(AsyncReMe.record)
    erase_messages = blocking(AsyncReMe.erase_messages)
    summarise = blocking(AsyncReMe.summarise)
    reflect = blocking(AsyncReMe.reflect)
    execute = blocking(AsyncReMe.execute)
    retrieve = blocking(AsyncReMe.retrieve)
    get_profile = blocking(AsyncReMe.get_profile)

    def open(self) -> Self:
        """Connect now rather than at the first use.

        Raises:
            DatabaseUnavailableError: No connection to the named database.
            SchemaError: It is not at this version's schema, or lacks pgvector.
        """
        self._background.running()
        return self

    def close(self) -> None:
        """Finish what runs in the background, write the logs, and give all connections back. Closing twice is fine."""
        self._background.close()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *exception: object) -> None:
        self.close()


class _Background:
    """Opens an `AsyncReMe` in a thread when it is first needed, once for all facades that hold this.

    It is not part of a reference cycle, so it goes when the last facade goes, and not in whichever thread the garbage
    collector happens to run: from the loop's own thread nothing could wait for the loop.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._running: _Running | None = None
        self._stop: Callable[[], object] = lambda: None
        self._lock = threading.Lock()
        self._closed = False
        _everyone.add(self)

    def running(self) -> _Running:
        with self._lock:
            if self._closed:
                raise ReMeError("this ReMe has been closed; make a new one with ReMe()")
            if self._running is None:
                self._running = _Running(self._settings)
                self._stop = weakref.finalize(self, self._running.stop)  # also runs when the interpreter exits
            return self._running

    def wait(self, work: Callable[[AsyncReMe], Coroutine[Any, Any, R]]) -> R:
        return self.running().wait(work)

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self._stop()  # runs once, however often it is called

    def forked(self) -> None:
        """Start afresh in a forked child: the thread did not come along, and the connections are the parent's.

        What the parent left is kept, unused: to clean it up would close the parent's connections under its feet.
        """
        self._lock = threading.Lock()
        if self._running is not None:
            _of_parents.append(self._running)
            self._running, self._stop = None, lambda: None


class _Running:
    """An open `AsyncReMe`, and the thread whose event loop it belongs to."""

    def __init__(self, settings: Settings) -> None:
        self._process = os.getpid()
        self._thread = ExitStack()
        self._portal = self._thread.enter_context(start_blocking_portal(name="reme"))
        self._ident = self._portal.call(threading.get_ident)
        self._reme = AsyncReMe(settings)
        try:
            self.wait(AsyncReMe.open)
        except BaseException:
            self._thread.close()
            raise

    def wait(self, work: Callable[[AsyncReMe], Coroutine[Any, Any, R]]) -> R:
        future: Future[R] = self._portal.start_task_soon(work, self._reme)
        try:
            return future.result()
        except BaseException:  # Ctrl-C above all: what nobody waits for any more is cancelled, and rolled back
            future.cancel()
            raise

    def stop(self) -> None:
        if self._process != os.getpid():
            return
        if threading.get_ident() == self._ident:  # the garbage collector found it here; no thread awaits its own end
            threading.Thread(target=self._end, name="reme-end").start()
        else:
            self._end()

    def _end(self) -> None:
        try:
            self.wait(AsyncReMe.aclose)
        finally:
            self._thread.close()


_everyone: weakref.WeakSet[_Background] = weakref.WeakSet()
_of_parents: list[_Running] = []


def _after_fork() -> None:
    for background in list(_everyone):
        background.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
