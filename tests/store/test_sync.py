"""The blocking face: the same memory from threads, notebooks, forked children, and code that never awaits."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reme_core import AsyncReMe, ReMe, Turn, connection
from reme_core.connection import Connection, portal
from reme_core.engine import Engine
from reme_core.episodes.api import Episodes
from reme_core.errors import DatabaseUnavailableError, InputError, NotFoundError, ReMeError
from reme_core.given import check_arguments
from reme_core.jobs.queue import Background
from reme_core.settings import Settings
from reme_core.store.items import Items
from reme_core.store.memories import Memories
from reme_core.store.workspaces import Workspaces
from reme_core.sync import BlockingItems, BlockingMemories, BlockingWorkspaces
from reme_core.tools.api import Tools
from reme_core.types import Message
from reme_core.working.api import Working

INTERNAL = {"open", "aclose", "apply", "version"}
"""Coroutines that the flows and the facade itself call, not users."""


@pytest.fixture
def reme(settings: Settings) -> Iterator[ReMe]:
    with ReMe(settings) as opened:
        yield opened


def coroutines(cls: type) -> set[str]:
    return {n for n, member in inspect.getmembers(cls, inspect.iscoroutinefunction) if not n.startswith("_")} - INTERNAL


@pytest.mark.parametrize(
    ("awaited", "blocking"),
    [
        (Engine, ReMe),
        (AsyncReMe, ReMe),
        (Memories, BlockingMemories),
        (Workspaces, BlockingWorkspaces),
        (Items, BlockingItems),
    ],
)
def test_every_coroutine_has_its_blocking_twin_with_the_same_signature(awaited: type, blocking: type) -> None:
    missing = [name for name in sorted(coroutines(awaited)) if not hasattr(blocking, name)]
    assert not missing, f"add to {blocking.__name__} in reme_core/sync.py: name = blocking({awaited.__name__}.name)"
    for name in coroutines(awaited):
        twin, original = getattr(blocking, name), getattr(awaited, name)
        assert inspect.signature(twin) == inspect.signature(original)
        assert inspect.getdoc(twin) == inspect.getdoc(original) and not inspect.iscoroutinefunction(twin)


def test_the_types_of_arguments_are_known_for_every_method() -> None:
    for part in (Engine, Memories, Workspaces, Episodes, Tools, Items, Working, Background):
        for name in coroutines(part):
            if "workspace" in inspect.signature(method := getattr(part, name)).parameters:
                with pytest.raises(InputError, match=r"^workspace is a text"):
                    check_arguments(method, (), {"workspace": 5})


def test_it_adds_recalls_changes_and_explains(reme: ReMe) -> None:
    (tea, _) = reme.memories.add("alice", ["She drinks her tea green.", "Her dog is called Rex."])
    assert reme.recall("alice", "What does she drink?", limit=1).hits[0].memory.memory_id == tea.memory_id
    reme.memories.update("alice", tea.memory_id, content="She drinks her tea black.", actor="bob")
    assert [entry.changed_by for entry in reme.memories.history("alice", tea.memory_id)] == ["", "bob"]
    assert reme.workspaces.list() == ["alice"]
    reme.record("alice", [Message(content="My sister lives in Riga.")])
    assert reme.recall("alice", "Where does her sister live?", kind="conversation").hits[0].content.endswith("Riga.")


def test_an_asynchronous_one_serves_one_event_loop_after_another(settings: Settings) -> None:
    reme = AsyncReMe(settings)
    asyncio.run(reme.memories.add("alice", "She drinks tea."))
    assert asyncio.run(reme.recall("alice", "tea")).hits
    asyncio.run(reme.aclose())
    with pytest.raises(ReMeError, match="has been closed"):
        asyncio.run(reme.recall("alice", "tea"))


def test_errors_come_through_as_they_are(reme: ReMe) -> None:
    with pytest.raises(NotFoundError, match="no memory 'm1'"):
        reme.memories.get("alice", "m1")
    with pytest.raises(InputError, match="query is empty"):
        reme.recall("alice", " ")


def test_many_threads_share_one(reme: ReMe) -> None:
    def work(number: int) -> str:
        reme.memories.add(f"tenant {number}", f"The secret number is {number}.")
        return reme.recall(f"tenant {number}", "secret number").hits[0].content

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(24))) == [f"The secret number is {n}." for n in range(24)]
    assert sum(thread.name == "reme" for thread in threading.enumerate()) == 1


async def test_it_works_inside_a_running_loop(settings: Settings) -> None:
    with ReMe(settings) as reme:  # as a cell of a notebook does
        reme.memories.add("alice", "She moved to Berlin.")
        assert len(reme.memories.list("alice")) == 1


def test_the_parts_keep_it_open_by_themselves(settings: Settings) -> None:
    assert ReMe(settings).memories.add("alice", "One line is enough.")
    memories = ReMe(settings).memories
    assert len(memories.list("alice")) == 1


def test_one_that_is_collected_in_the_librarys_own_thread_ends_as_well(settings: Settings) -> None:
    reme = ReMe(settings).open()
    reme.itself = reme  # type: ignore[attr-defined]  # so that it takes the garbage collector, which any thread may run
    engine = reme.connection.wait(itself)
    del reme
    gc.disable()
    try:
        portal().loop.call_soon_threadsafe(gc.collect)
        deadline = time.monotonic() + 60
        while engine.is_open:
            assert time.monotonic() < deadline, "it is still open"
            time.sleep(0.01)
    finally:
        gc.enable()


def test_one_that_is_collected_by_what_opens_it_holds_nobody_up(settings: Settings) -> None:
    begun, go_on, opened = threading.Event(), threading.Event(), threading.Event()

    def collect() -> None:  # in a thread that the opening waits for, as where modules are imported
        begun.set()
        go_on.wait(10)
        gc.collect()

    class CollectingEngine(Engine):
        async def open(self) -> Engine:  # type: ignore[override]
            await asyncio.to_thread(collect)
            await super().open()
            opened.set()
            return self

    cycle: dict[str, object] = {}
    connection = cycle["connection"] = Connection(settings, CollectingEngine)
    cycle["itself"] = cycle
    opening = connection.portal.submit(connection.open())
    begun.wait(10)
    opening.cancel()  # as Ctrl-C does
    connection = cycle = opening = None  # type: ignore[assignment]
    go_on.set()
    assert opened.wait(10)


async def itself(engine: Engine) -> Engine:
    return engine


def test_after_closing_it_says_so_and_its_connections_are_gone(settings: Settings) -> None:
    reme = ReMe(settings).open()
    engine = reme.connection.wait(itself)
    reme.close()
    reme.close()
    assert not engine.is_open
    with pytest.raises(ReMeError, match="has been closed; make a new one"):
        reme.recall("alice", "tea")


def test_a_closed_one_can_be_opened_again(settings: Settings) -> None:
    reme = ReMe(settings)
    with reme:
        reme.memories.add("alice", "She drinks tea.")
    with reme:
        assert reme.recall("alice", "tea").hits


def test_all_share_one_thread_and_a_failed_start_can_be_tried_again(settings: Settings) -> None:
    reme = ReMe(database_url="postgresql://nobody@127.0.0.1:1/none")
    for _ in range(2):
        with pytest.raises(DatabaseUnavailableError, match="no server at"):
            reme.open()
    with ReMe(settings), ReMe(settings):
        assert sum(thread.name == "reme" for thread in threading.enumerate()) == 1


def test_a_blocking_call_in_the_librarys_own_loop_is_refused_rather_than_waiting_for_itself(reme: ReMe) -> None:
    async def call(_: Engine) -> object:
        return reme.memories.list("alice")

    with pytest.raises(ReMeError, match="await the method"):
        reme.connection.wait(call)


RECALLS = """
from reme_core import ReMe
reme = ReMe()
reme.memories.add("w", "kept")
print(reme.recall("w", "kept").hits[0].content)
"""
CONVERSES = """
from reme_core import ReMe, Turn
reme, messages = ReMe(), []
for said in ("kept", "I am vegetarian."):
    messages.append({"role": "user", "content": said})
    with Turn(reme, "w", messages, session_id="s") as turn:
        messages.append({"role": "assistant", "content": "Fine."})
print("kept")
"""


SAYS = """
from reme_core import Message, ReMe
from reme_core.turn import TurnMemory
turn = TurnMemory(ReMe().open(), "w", spool="memory")
turn.record_soon([Message(content="kept")], session_id="s")
print("kept")
"""


def run_to_its_end(code: str, settings: Settings, home: Path) -> None:
    assert settings.database_url is not None
    environment = os.environ | {"DATABASE_URL": settings.database_url.get_secret_value(), "REME_HOME": str(home)}
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "kept\n", "")


def test_what_is_said_right_before_the_end_of_a_program_is_stored(settings: Settings, tmp_path: Path) -> None:
    run_to_its_end(SAYS, settings, tmp_path)
    with ReMe(settings) as reme:
        assert [message.content for message in reme.messages("w", "s")] == ["kept"]


@pytest.mark.parametrize("code", [RECALLS, CONVERSES])
def test_one_that_is_never_closed_does_not_hold_the_program_up(settings: Settings, tmp_path: Path, code: str) -> None:
    run_to_its_end(code, settings, tmp_path)
    with ReMe(settings) as reme:  # what it recalled is in the log, and what was said is stored, though nobody closed it
        assert "kept" in str(reme.connection.wait(logged))
        assert len(reme.messages("w", "s")) == (4 if code is CONVERSES else 0)


def test_what_was_said_last_is_stored_before_it_is_closed(settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    messages = [{"role": "user", "content": "I am vegetarian."}]
    with ReMe(settings) as reme, Turn(reme, "w", messages, session_id="s"):
        messages.append({"role": "assistant", "content": "Fine."})
    assert caplog.text == ""
    with ReMe(settings) as reme:
        assert [message.content for message in reme.messages("w", "s")] == ["I am vegetarian.", "Fine."]


async def logged(engine: Engine) -> object:
    return await engine.database.fetch("w", "select query from reme.recall_log where workspace_id = 'w'")


async def test_a_close_that_is_given_up_goes_on_and_the_next_one_waits_for_it(settings: Settings) -> None:
    settings.worker.after_messages, settings.worker.stop_seconds = 1, 1
    reme = await AsyncReMe(settings).open()
    engine = await reme.connection.portal.run(reme.connection.engine())
    under_way = threading.Event()

    async def hang(workspace: str, session_id: str | None) -> dict[str, int]:
        under_way.set()
        await asyncio.sleep(600)
        return {}

    engine.background._summarise = hang
    await reme.record("w", {"role": "user", "content": "hello"})
    assert await asyncio.to_thread(under_way.wait, 30)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reme.aclose(), 0.2)
    assert not engine.background.task.done()
    await reme.aclose()
    assert engine.background.task.done()
    with pytest.raises(ReMeError, match="has been closed"):
        await reme.recall("w", "hello")


async def test_one_that_is_opened_while_it_is_closed_is_open_until_it_is_closed_again(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end, close = threading.Event(), Engine.aclose

    async def close_slowly(engine: Engine) -> None:
        await asyncio.to_thread(may_end.wait, 30)
        await close(engine)

    monkeypatch.setattr(Engine, "aclose", close_slowly)
    reme = await AsyncReMe(settings).open()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reme.aclose(), 0.2)
    threading.Timer(2.0, may_end.set).start()
    await reme.open()
    database = (await reme.connection.portal.run(reme.connection.engine())).database
    await reme.memories.add("w", "She lives in Riga.")
    await reme.aclose()
    with pytest.raises(ReMeError, match="has been closed"):
        _ = database.pool


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_child_that_is_forked_while_a_forgotten_memory_is_closed_ends(settings: Settings) -> None:
    forgotten = ReMe(settings).open()
    del forgotten
    gc.collect()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forking beside threads
        child = os.fork()
    if child == 0:
        try:
            signal.alarm(10)
            connection._close_all()  # as when the program ends
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_has_connections_of_its_own(reme: ReMe) -> None:
    reme.memories.add("alice", "Said by the parent.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forking beside threads
        child = os.fork()
    if child == 0:
        try:
            reme.memories.add("alice", "Said by the child.")
            reme.close()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert {memory.content for memory in reme.memories.list("alice")} == {"Said by the parent.", "Said by the child."}
