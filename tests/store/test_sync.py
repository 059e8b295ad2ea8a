"""The blocking face: the same memory from threads, notebooks, forked children, and code that never awaits."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from reme_core import AsyncReMe, ReMe
from reme_core.connection import Connection, portal
from reme_core.engine import Engine
from reme_core.episodes.api import Episodes
from reme_core.errors import DatabaseUnavailableError, InputError, NotFoundError, ReMeError
from reme_core.given import check_arguments
from reme_core.jobs.queue import Background
from reme_core.settings import ChatSettings, Settings, VectorShares, WorkerSettings
from reme_core.store.items import Items
from reme_core.store.memories import Memories
from reme_core.store.tool_calls import ToolCallResult
from reme_core.store.workspaces import Workspaces
from reme_core.sync import BlockingItems, BlockingMemories, BlockingWorkspaces
from reme_core.tools.api import Tools
from reme_core.types import Kind, Memory, Message, Source
from reme_core.working.api import Working

INTERNAL = {"open", "aclose", "apply", "version"}
"""Coroutines that the flows and the facade itself call, not users."""


@pytest.fixture
def reme(settings: Settings) -> Iterator[ReMe]:
    with ReMe(settings) as opened:
        yield opened


@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        (lambda reme: reme.memories.add("w", "Tea.", kind="x"), "kind: Input should be 'observation'"),
        (lambda reme: reme.memories.add("w", {"content": "Tea."}), "not {'content': 'Tea.'}"),
        (lambda reme: reme.memories.add("w", ["Tea.", 7]), "not 7"),
        (lambda reme: reme.memories.add("w", None), "not None"),
        (
            lambda reme: reme.memories.update("w", reme.memories.add("w", "Tea.")[0].memory_id, importance=7),
            "importance",
        ),
        (lambda reme: reme.memories.list("w", limit=-1), "not -1 and 0"),
        (lambda reme: reme.recall(None, "Tea"), "workspace is a text, not None"),
        (lambda reme: ReMe(databse_url="postgresql://"), "did you mean 'database_url'"),
        (lambda reme: ReMe(worker={"embeded": False}), "did you mean 'worker.embedded'"),
        (lambda reme: ReMe(reme.settings, llm={"default": {"modelname": "x"}}), "mean 'llm.default.model_name'"),
        (lambda reme: ReMe(worker=ChatSettings()), "worker: Input should be a valid dictionary or instance of Worker"),
        (lambda reme: ReMe("postgresql://me:s3cret@db/agents"), "database_url="),
        (lambda reme: AsyncReMe("postgresql://me:s3cret@db/agents"), "database_url="),
        (lambda reme: reme.recall("w", "Tea", now="2026-11-25"), "not '2026-11-25'"),
        (lambda reme: reme.recall("w", "Tea", timezone="Mars/Crater"), "unknown time zone 'Mars/Crater'"),
        (lambda reme: reme.recall("w", "Tea", timezone=5), "timezone is a text or None, not 5"),
        (lambda reme: ReMe(pool_size="x"), "pool_size: Input should be a valid integer"),
    ],
)
def test_a_mistake_of_the_caller_is_an_error_of_ours_that_names_it(
    reme: ReMe, mistake: Callable[[ReMe], object], told: str
) -> None:
    with pytest.raises(ReMeError) as refused:
        mistake(reme)
    assert told in str(refused.value) and "s3cret" not in str(refused.value)
    assert [m.content for m in reme.memories.list("w")] in ([], ["Tea."])


WRONG_TYPES: list[tuple[Callable[[Any], Any], str]] = [
    (lambda reme: reme.messages("w", 5), "session_id is a text, not 5"),
    (lambda reme: reme.memories.history("w", 5), "memory_id is a text, not 5"),
    (lambda reme: reme.memories.restore("w", 5), "memory_id is a text, not 5"),
    (lambda reme: reme.memories.restore("w", "m", number="1"), "number is a whole number or None, not '1'"),
    (lambda reme: reme.memories.evidence("w", None), "memory_id is a text, not None"),
    (lambda reme: reme.memories.delete("w", "m", erase="no"), "erase is True or False, not 'no'"),
    (lambda reme: reme.memories.as_of("w", "blah"), "moment is a datetime, not 'blah'"),
    (lambda reme: reme.memories.as_of("w", "yesterday"), "moment is a datetime, not 'yesterday'"),
    (
        lambda reme: reme.memories.from_source("w", "massage", ["m"]),
        "kind is 'message' or 'episode' or 'memory', not 'massage'",
    ),
    (lambda reme: reme.erase_messages("w", 5), "message_ids is a text or a list of texts, not 5"),
    (lambda reme: reme.erase_messages("w", [5]), "message_ids is a text or a list of texts, not [5]"),
    (lambda reme: reme.get_profile("w", subject=5), "subject is a text or None, not 5"),
    (lambda reme: reme.get_profile("w", user_id=5), "user_id is a text, not 5"),
    (lambda reme: reme.record("w", {"role": "user", "content": "hi"}, session_id=5), "session_id is a text, not 5"),
    (lambda reme: reme.recall("w", "Tea", as_of="today"), "as_of is a datetime or None, not 'today'"),
    (lambda reme: reme.recall("w", "Tea", author=5), "author is a text or None, not 5"),
    (lambda reme: reme.recall("w", "Tea", limit="5"), "limit is a whole number, not '5'"),
    (
        lambda reme: reme.working.fit("w", [{"role": "user", "content": "hi"}], session_id=5, window=1000),
        "session_id is a text, not 5",
    ),
    (lambda reme: reme.working.artifacts("w", 5), "session_id is a text, not 5"),
    (
        lambda reme: reme.workspaces.schedule("w", reflect_every_hours="3"),
        "reflect_every_hours is a number or None, not '3'",
    ),
    (lambda reme: reme.background.job("nope"), "job_id is a whole number, not 'nope'"),
    (lambda reme: reme.background.jobs(statuses="failed"), "statuses is a list of texts or None, not 'failed'"),
    (lambda reme: reme.tools.guidance("w", "search"), "tool_names is a list of texts, not 'search'"),
]


@pytest.mark.parametrize(("mistake", "told"), WRONG_TYPES)
def test_an_argument_of_a_wrong_type_is_refused_by_its_name_before_anything_is_done(
    mistake: Callable[[Any], Any], told: str
) -> None:
    nowhere = "postgresql://nobody@localhost:1/nothing"
    with pytest.raises(InputError) as refused:
        mistake(ReMe(database_url=nowhere))
    assert str(refused.value) == told
    with pytest.raises(InputError) as refused:
        asyncio.run(mistake(AsyncReMe(database_url=nowhere)))
    assert str(refused.value) == told


def test_the_types_of_arguments_are_known_for_every_method() -> None:
    for part in (Engine, Memories, Workspaces, Episodes, Tools, Items, Working, Background):
        for name in coroutines(part):
            if "workspace" in inspect.signature(method := getattr(part, name)).parameters:
                with pytest.raises(InputError, match=r"^workspace is a text"):
                    check_arguments(method, (), {"workspace": 5})


def test_arguments_of_like_types_are_taken(reme: ReMe) -> None:
    (tea,) = reme.memories.add("w", "She drinks tea.", kind=Kind.OBSERVATION)
    found = reme.recall("w", "tea", min_relevance=0, kind=(Kind.OBSERVATION,), without={"no"})
    assert [hit.memory.memory_id for hit in found.hits] == [tea.memory_id]


def test_what_is_wrong_with_a_read_is_said_without_a_word_of_storing(reme: ReMe) -> None:
    long = [{"role": "user", "content": "Read it."}, {"role": "tool", "content": "word " * 5_000, "tool_call_id": "c"}]
    (handle,) = reme.working.fit("w", long, window=1_000).offloaded
    with pytest.raises(InputError, match="size is how many characters to read, 0 or more; not -1"):
        reme.working.read("w", handle, size=-1)
    with pytest.raises(InputError, match="a value does not fit; correct it"):
        reme.memories.get("w", "m\0")


def test_one_id_or_call_is_taken_as_several_are(reme: ReMe) -> None:
    told = Message(content="Tea.", message_id="m1")
    reme.record("w", told)
    (tea,) = reme.memories.add("w", Memory(content="Tea.", sources=[Source(kind="message", id="m1")]))
    for ids in ("m1", ["m1"]):
        assert [m.memory_id for m in reme.memories.from_source("w", "message", ids)] == [tea.memory_id]
    reme.tools.record("w", {"tool_name": "search", "input": {"q": "tea"}, "output": "3 items"})
    reme.tools.record("w", ToolCallResult(tool_name="search", output="4 items"))
    assert [(one.tool_name, one.calls) for one in reme.tools.statistics("w")] == [("search", 2)]
    for wrong in (5, None, "x", ["x"]):
        with pytest.raises(InputError, match="a call is a ToolCallResult or a dict of its fields, not"):
            reme.tools.record("w", wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("facade", [ReMe, AsyncReMe])
@pytest.mark.parametrize("named", [{"embedded": False}, WorkerSettings(embedded=False, concurrency=2)])
def test_a_section_may_be_given_as_a_keyword(
    facade: Callable[..., ReMe], named: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REME_WORKER__CONCURRENCY", "2")
    base = Settings(worker=WorkerSettings(concurrency=2), pool_size=3)
    for settings, pool_size in ((None, 8), (base, 3)):
        made = facade(settings, worker=named).settings
        assert made.worker == WorkerSettings(embedded=False, concurrency=2) and made.pool_size == pool_size
    assert base.worker.embedded, "the settings that were given stay as they are"


@pytest.mark.parametrize("model", [{"model_name": "chatty"}, ChatSettings(model_name="chatty")])
def test_a_model_given_as_a_keyword_stands_beside_those_of_the_environment(
    model: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REME_LLM__SMALL__MODEL_NAME", "tiny")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-env")
    made = ReMe(llm={"default": model}).settings.llm
    assert {name: (one.model_name, one.api_key.get_secret_value()) for name, one in made.items()} == {
        "default": ("chatty", "sk-env"),
        "small": ("tiny", "sk-env"),
    }
    assert model in ({"model_name": "chatty"}, ChatSettings(model_name="chatty"))


def test_sections_within_sections_change_only_what_is_named(settings: Settings) -> None:
    settings.recall.vector_share.personal = 0.3
    given = {"fusion": "rrf", "vector_share": {"task": 0.5}}
    made = ReMe(settings, recall=given, working={"keep_days": 1.0}).settings
    assert made.recall.fusion == "rrf" and made.working.keep_days == 1.0
    assert made.recall.vector_share == VectorShares(personal=0.3, task=0.5)


def test_a_section_given_as_a_keyword_is_in_force(settings: Settings) -> None:
    with ReMe(settings, worker={"embedded": False}, recall={"fusion": "rrf"}, working={"head_tokens": 50}) as reme:
        reme.record("w", Message(content="Rex is a dog.", session_id="s"), wait=True)
        assert reme.recall("w", "Rex", kind="conversation").hits
        assert reme.working.fit("w", [{"role": "user", "content": "Hello."}], window=1_000).messages


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


def test_one_that_is_never_closed_does_not_hold_the_program_up(settings: Settings) -> None:
    assert settings.database_url is not None
    code = (
        "from reme_core import ReMe; reme = ReMe(); reme.memories.add('w', 'kept'); reme.recall('w', 'kept');"
        " print(reme.memories.list('w')[0].content)"
    )
    environment = os.environ | {"DATABASE_URL": settings.database_url.get_secret_value()}
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "kept\n", "")
    with ReMe(settings) as reme:  # what it recalled is in the log, though nobody closed it
        assert "kept" in str(reme.connection.wait(logged))


async def logged(engine: Engine) -> object:
    return await engine.database.fetch("w", "select query from reme.recall_log where workspace_id = 'w'")


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


def test_a_model_that_is_named_and_not_used_is_told(settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    named = settings.model_copy(update={"llm": {"default": ChatSettings(model_name="gpt")}})
    with ReMe(named):
        pass
    assert "llm.default names gpt, which is not used: neither a URL nor a key is set" in caplog.text
    caplog.clear()
    with ReMe(settings):
        pass
    assert not caplog.text
