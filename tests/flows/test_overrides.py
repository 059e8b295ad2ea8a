"""What a single request may set (`config`, as ExperienceMaker had it), and above all what it may not."""

from __future__ import annotations

from typing import Any

import pytest

from reme_core.engine import Engine
from reme_core.errors import InputError
from reme_core.flows import registry
from reme_core.flows.build import Flow
from reme_core.flows.catalog import Catalog
from reme_core.flows.deps import Deps
from reme_core.flows.grammar import leaves
from reme_core.flows.overrides import MOST, Overrides, _has_no_free_text, json_schema
from reme_core.flows.state import RetrievalState
from reme_core.models.agent_chat import AgentChat
from reme_core.models.base import Completion
from reme_core.settings import ChatSettings, FlowSettings, Settings
from reme_core.types import Kind, Memory, Message
from tests.flows.attempts import BOOKED, NOT_BOOKED
from tests.loopback import Loopback

CONTENTS = ["Dates as YYYY-MM-DD.", "Compare three airlines.", "Check the baggage rules.", "Ask for an aisle seat."]

NESTED: Any = []
for _ in range(300):
    NESTED = [NESTED]


def made(*overrides: str) -> Settings:
    return Settings.load(*overrides, environ={})


def parameters(flow: Flow, op: str) -> dict[str, Any]:
    (found,) = [step.parameters for step in leaves(flow.plan) if step.op.name == op]
    return found


@pytest.mark.parametrize(
    "config",
    [
        {"op.rerank.params.top_k": 7},
        {"op.rerank_op.params.top_k": 7.0},
        {"op.rerank_experience_op.params.top_k": 7},
        {"op": {"rerank": {"params": {"top_k": 7}}}},
        {"op.rerank": {"params.top_k": 7}},
    ],
)
def test_an_op_is_found_by_all_its_names_and_in_every_spelling(config: dict[str, Any]) -> None:
    set_up = made()
    flow = Catalog(set_up).get("retrieve_task_memory")
    adjusted = Overrides.of(config, set_up).apply_to(flow)
    assert parameters(adjusted, "rerank") == {**parameters(flow, "rerank"), "top_k": 7}
    assert parameters(flow, "rerank")["top_k"] is None, "other requests go on as before"


def test_a_request_wins_over_the_settings_and_over_the_text_of_the_flow() -> None:
    set_up = made("op.recall.params.candidates=20", "flow.mine.flow_content=build_query >> recall(candidates=30)")
    catalog = Catalog(set_up)
    config = Overrides.of({"op.recall.params.candidates": 40}, set_up)
    for name in ("mine", "retrieve_task_memory"):
        assert parameters(config.apply_to(catalog.get(name)), "recall")["candidates"] == 40


def test_a_parameter_has_its_old_name_too() -> None:
    set_up = made("flow.mine.flow_content=build_query >> retrieve_memory_op >> merge_memory_op")
    flow = Overrides.of({"op.retrieve_memory_op.params.top_k": 7}, set_up).apply_to(Catalog(set_up).get("mine"))
    assert parameters(flow, "recall")["candidates"] == 7


def test_variants_of_ops_go_by_their_own_name() -> None:
    set_up = made("op.strict.backend=rerank", "flow.mine.flow_content=build_query >> recall >> strict >> rerank")
    flow = Overrides.of({"op.strict.params.top_k": 2}, set_up).apply_to(Catalog(set_up).get("mine"))
    assert [step.parameters["top_k"] for step in leaves(flow.plan) if step.op.name == "rerank"] == [2, None]


@pytest.mark.parametrize(
    "key",
    [
        "llm.default.api_key",
        "llm.default.base_url",
        "embedding_model.default.base_url",
        "rerank_model.default.api_key",
        "database_url",
        "data_dir",
        "library_dirs",
        "http.max_body_bytes",
        "flow.retrieve_task_memory.flow_content",
        "api.retriever",
        "op.rerank.backend",
        "op.rerank.params",
        "op.recall.embedding_model",
        "worker.embedded",
        "op",
        "",
    ],
)
@pytest.mark.parametrize("nested", [False, True])
def test_credentials_addresses_paths_and_flows_are_out_of_reach(key: str, nested: bool) -> None:
    config: Any = {key: "http://evil.example/secret"}
    if nested:
        config = "http://evil.example/secret"
        for part in reversed(key.split(".")):
            config = {part: config}
    with pytest.raises(InputError) as refused:
        Overrides.of(config, made())
    assert str(refused.value).startswith(f"config.{key}: a request cannot set this")
    assert "evil" not in str(refused.value), "what was sent may be a secret"


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"langage": "zh"}, r"config\.langage: .*did you mean 'language'"),
        ({"op.rerank.params.topk": 1}, r"config\.op\.rerank\.params\.topk: .*did you mean 'top_k'"),
        ({"op.retrieve_memory_op.params.recall_key": "query"}, r"params\.recall_key: it has no effect here: "),
        ({"op.rerak.params.top_k": 1}, r"config\.op\.rerak\.params\.top_k: .*did you mean 'rerank'"),
        ({"op.rerank.params.top_k": "many"}, r"config\.op\.rerank\.params\.top_k: .* must be int"),
        ({"op.rerank.params.top_k": -1}, r"config\.op\.rerank\.params\.top_k: .* cannot be negative"),
        ({"op.rerank.params.top_k": MOST + 1}, r"config\.op\.rerank\.params\.top_k: whole numbers go from 0 to 1,000"),
        ({"op.react.params.max_steps": MOST + 1}, r"config\.op\.react\.params\.max_steps: whole numbers go from 0"),
        ({"op.recall.params.threshold_score": 1e300}, r"others from -10,000 to 10,000"),
        ({"op.recall.params.threshold_score": float("nan")}, r"op\.recall\.params\.threshold_score"),
        ({"op.rerank.params.top_k": "7"}, r"must be int"),
        ({"op.rerank.params.top_k": NESTED}, r"config\.op\.rerank\.params\.top_k: .* JSON"),
        ({"language": "\ud800"}, r"config\.language: .* JSON"),
        ({"op.recall_personal.params.type_weights": {"insight": 1e300}}, r"others from -10,000 to 10,000"),
        ({"language": "fr"}, r"config\.language: "),
        ({"op.rerank.language": "fr"}, r"config\.op\.rerank\.language: "),
        ({"op.rerank.llm": "big"}, r"config\.op\.rerank\.llm: the service has no chat model of this name"),
        ({"op.rerank.llm": ["small"]}, r"config\.op\.rerank\.llm: the service has no chat model of this name"),
        (["op.rerank.params.top_k=1"], "config: give an object"),
        ("op.rerank.params.top_k=1", "config: give an object"),
    ],
)
def test_what_does_not_fit_is_told_by_its_key(config: object, told: str) -> None:
    with pytest.raises(InputError, match=told):
        Overrides.of(config, made("llm.small.model_name=x"))


def test_every_key_that_is_documented_can_be_set() -> None:
    documented = json_schema()["properties"]
    assert "op.rerank.params.min_score_threshold" in documented
    assert "op.recall.params.kind" not in documented
    values = {"boolean": True, "integer": MOST, "number": -0.5, "null": None}
    for key, shape in documented.items():
        for value in shape["enum"] if "enum" in shape else [values[one["type"]] for one in shape["anyOf"]]:
            Overrides.of({key: value}, made())


def test_an_object_without_end_is_refused_as_any_other() -> None:
    config: Any = {"a": 1}
    for _ in range(5_000):
        config = {"a": config}
    with pytest.raises(InputError, match=r"config\.a\.a\.a\.a: a request cannot set this"):
        Overrides.of(config, made())


def test_no_parameter_takes_free_text_from_a_request(own_ops: None) -> None:
    @registry.op(writes={"extra.page"})
    async def fetch(state: RetrievalState, deps: Deps, *, url: str = "", headers: dict[str, str] | None = None) -> None:
        """Fetch a page."""

    for key, value in {"url": "http://evil.example", "headers": {"a": "b"}}.items():
        with pytest.raises(InputError, match=rf"config\.op\.fetch\.params\.{key}: it takes any text"):
            Overrides.of({f"op.fetch.params.{key}": value}, made())
    free = {
        (op.name, p.name)
        for op in registry.all_ops()
        for p in op.parameters.values()
        if not _has_no_free_text(p.annotation)
    }
    assert free == {("recall", "kind"), ("info_filter", "preserved_scores"), ("fetch", "url"), ("fetch", "headers")}


async def test_a_request_sets_how_many_come_back_for_itself_alone(reme: Engine) -> None:
    memories = [Memory(kind=Kind.TASK, when_to_use="Booking a flight", content=content) for content in CONTENTS]
    await reme.memories.add("w", memories)
    asked = {"workspace_id": "w", "query": "book a flight", "top_k": 3}
    for config, expected in (({"op.rerank.params.top_k": 1}, 1), ({}, 3), (None, 3)):
        found = await reme.flows.execute("retrieve_task_memory", {**asked, "config": config})
        assert len(found.metadata["memory_list"]) == expected


async def test_a_request_sets_its_language(reme_with_chat: Engine, loopback: Loopback) -> None:
    loopback.chat(lambda _: {"lessons": []})
    for config, said in (({"language": "zh"}, "标签之间"), ({}, "between")):
        before = len(loopback.bodies("/chat/completions"))
        request = {"workspace_id": "w", "trajectories": [BOOKED], "config": config}
        await reme_with_chat.flows.execute("summary_task_memory_simple", request)
        assert said in str(loopback.bodies("/chat/completions")[before]["messages"][0]["content"])


async def test_a_request_chooses_among_the_models_that_are_set(settings: Settings, loopback: Loopback) -> None:
    chat = ChatSettings(model_name="loop-chat", base_url=loopback.url, max_retries=0)
    models = {"default": chat, "small": chat.model_copy(update={"model_name": "loop-small"})}
    loopback.chat(lambda _: {"lessons": []})
    async with Engine(settings.model_copy(update={"llm": models})) as reme:
        request = {"workspace_id": "w", "trajectories": [BOOKED], "config": {"op.simple_summary.llm": "small"}}
        await reme.flows.execute("summary_task_memory_simple", request)
    assert {body["model"] for body in loopback.bodies("/chat/completions")} == {"loop-small"}


async def test_a_request_may_name_the_default_model_of_an_agent_or_where_rules_serve(settings: Settings) -> None:
    asked: list[list[Message]] = []

    async def answer(conversation: list[Message]) -> Completion:
        asked.append(conversation)
        return Completion(text='{"lessons": []}')

    request = {"workspace_id": "w", "trajectories": [BOOKED], "config": {"op.simple_summary.llm": "default"}}
    for chat in (AgentChat("mine", answer), None):
        async with Engine(settings, chat=chat) as reme:
            if chat:
                chat.use_running_loop()
            await reme.flows.execute("summary_task_memory_simple", request)
            assert len(asked) == 1 and bool(await reme.memories.list("w")) == (chat is None)


async def test_a_flow_with_a_config_of_its_own_keeps_it(settings: Settings, own_ops: None) -> None:
    @registry.op(writes={"extra.seen"})
    async def look(state: RetrievalState, deps: Deps) -> None:
        """Show what came."""
        state.answer = str(state.extra["config"])

    flow = FlowSettings(flow_content="look", input_schema={"config": {"type": "object"}})
    async with Engine(settings.model_copy(update={"flow": {"mine": flow}})) as reme:
        assert (await reme.flows.execute("mine", {"config": {"colour": "red"}})).answer == "{'colour': 'red'}"


@pytest.mark.parametrize("number", [0, MOST])
async def test_no_number_within_the_limits_breaks_an_op(reme: Engine, number: int) -> None:
    config = {}
    for op in registry.all_ops():
        for parameter in op.parameters.values():
            if parameter.type_name.split(" |")[0] in ("int", "float"):
                config[f"op.{op.name}.params.{parameter.name}"] = number
    posted = {"workspace_id": "w", "config": config}
    said = [{"role": "user", "content": "I like tea. I moved to Berlin in May 2023."}]
    await reme.record("w", [Message(role="user", content="I like green tea.")])
    for name, request in {
        "summary_task_memory": {"trajectories": [BOOKED, NOT_BOOKED]},
        "summary_task_memory_simple": {"trajectories": [BOOKED]},
        "summary_task_memory_comparative": {"trajectories": [BOOKED, NOT_BOOKED]},
        "summary_personal_memory": {"trajectories": [{"messages": said}]},
        "retrieve_task_memory": {"query": "book a flight"},
        "retrieve_task_memory_simple": {"query": "book a flight"},
        "retrieve_personal_memory": {"query": "tea in May 2023"},
        "add_tool_call_result": {"tool_call_results": [{"tool_name": "search", "success": True}]},
        "summary_tool_memory": {"tool_names": "search"},
        "reflect": {},
        "read_message": {},
    }.items():
        assert (await reme.flows.execute(name, posted | request)).success
