"""What was written for ReMe 0.1 works: its own configuration, its flows, its ops and each documented parameter."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from reme_core.compat.memoryscope_forgetting import MOST
from reme_core.engine import Engine
from reme_core.errors import ConfigurationError, FlowError
from reme_core.flows import registry
from reme_core.flows.build import _bind, build
from reme_core.flows.catalog import Catalog
from reme_core.flows.grammar import Call, leaves
from reme_core.settings import FlowSettings, Settings, reme01
from reme_core.types import Memory
from tests.loopback import Loopback

DEFAULT = Path(__file__).parent / "reme01_default.yaml"
FLOWS = (
    "retrieve_task_memory", "summary_task_memory", "retrieve_task_memory_simple", "summary_task_memory_simple",
    "retrieve_personal_memory", "summary_personal_memory", "retrieve_tool_memory", "add_tool_call_result",
    "summary_tool_memory", "use_mock_search", "vector_store", "record_task_memory", "delete_task_memory", "react",
)  # fmt: skip

HONOURED = {
    "build_query_op.params.enable_llm_build=true": ("build_query", "enable_llm_build", True),
    "comparative_extraction_op.params.enable_similarity_comparison=false": (
        "comparative_extraction", "enable_similarity_comparison", False,
    ),
    "comparative_extraction_op.params.enable_soft_comparison=false": (
        "comparative_extraction", "enable_soft_comparison", False,
    ),
    "comparative_extraction_op.params.max_similarity_pairs=2": ("comparative_extraction", "max_similarity_pairs", 2),
    "comparative_extraction_op.params.max_similarity_sequences=4": (
        "comparative_extraction", "max_similarity_sequences", 4,
    ),
    "comparative_extraction_op.params.similarity_threshold=0.5": (
        "comparative_extraction", "similarity_threshold", 0.5,
    ),
    "contra_repeat_op.params.enable_contra_repeat=false": ("contra_repeat", "enable_contra_repeat", False),
    "extract_time_op.params.language=zh": ("extract_time", "language", "zh"),
    'fuse_rerank_op.params.fuse_ratio_dict={"observation":3}': ("fuse_rerank", "fuse_ratio_dict", {"observation": 3.0}),
    "fuse_rerank_op.params.fuse_score_threshold=0.2": ("fuse_rerank", "fuse_score_threshold", 0.2),
    "fuse_rerank_op.params.fuse_time_ratio=3.0": ("fuse_rerank", "fuse_time_ratio", 3.0),
    "fuse_rerank_op.params.output_memory_max_count=6": ("fuse_rerank", "output_memory_max_count", 6),
    "get_reflection_subject_op.params.reflect_num_questions=3": ("get_reflection_subject", "new_subjects", 3),
    "get_reflection_subject_op.params.reflect_obs_cnt_threshold=10": (
        "get_reflection_subject", "least_unreflected", 10,
    ),
    "info_filter_op.params.info_filter_msg_max_size=300": ("info_filter", "most_characters", 300),
    "info_filter_op.params.preserved_scores=1,2,3": ("info_filter", "preserved_scores", "1,2,3"),
    "long_contra_repeat_op.params.enable_long_contra_repeat=false": (
        "long_contra_repeat", "enable_long_contra_repeat", False,
    ),
    "long_contra_repeat_op.params.long_contra_repeat_max_count=50": ("long_contra_repeat", "most", 50),
    "memory_validation_op.params.validation_threshold=0.6": ("validation", "validation_threshold", 0.6),
    "read_message_op.params.contextual_msg_max_count=11": ("read_waiting", "limit", 11),
    "rerank_memory_op.params.enable_llm_rerank=false": ("rerank", "enable_llm_rerank", False),
    "rerank_memory_op.params.enable_score_filter=true": ("rerank", "enable_score_filter", True),
    "rerank_memory_op.params.min_score_threshold=0.4": ("rerank", "min_score_threshold", 0.4),
    "rerank_memory_op.params.top_k=6": ("rerank", "top_k", 6),
    "retrieve_memory_op.params.threshold_score=0.4": ("recall", "threshold_score", 0.4),
    "retrieve_memory_op.params.top_k=6": ("recall", "candidates", 6),
    "rewrite_memory_op.params.enable_llm_rewrite=false": ("rewrite", "enable_llm_rewrite", False),
    "semantic_rank_op.params.enable_ranker=false": ("semantic_rank", "enable_ranker", False),
    "semantic_rank_op.params.output_memory_max_count=6": ("semantic_rank", "least_candidates", 6),
    "set_query_op.params.timestamp=1700000000": ("set_query", "timestamp", 1700000000),
    "simple_summary_op.params.success_score_threshold=0.8": ("simple_summary", "success_threshold", 0.8),
    "summary_tool_memory_op.params.recent_call_count=20": ("summarise_tools", "max_calls", 20),
    "trajectory_preprocess_op.params.success_threshold=0.9": ("trajectory_preprocess", "success_threshold", 0.9),
    "trajectory_segmentation_op.params.segment_target=failure": ("segmentation", "segment_target", "failure"),
    "update_insight_op.params.update_insight_max_count=6": ("update_insight", "most", 6),
}  # fmt: skip
"""Each documented parameter, with the op that takes it here, its name there, and the value that arrives."""
WITHOUT_EFFECT = (
    "contra_repeat_op.params.contra_repeat_max_count=50",
    "load_today_memory_op.params.top_k=5",
    "memory_deduplication_op.params.similarity_threshold=0.5",
    "memory_deduplication_op.params.max_existing_task_memories=1000",
    "parse_tool_call_result_op.params.max_history_tool_call_cnt=7",
    "parse_tool_call_result_op.params.evaluation_sleep_interval=1.0",
    "recall_vector_store_op.embedding_model=default",
    "retrieve_memory_op.params.recall_key=query",
    "summary_tool_memory_op.params.summary_sleep_interval=1.0",
    "update_insight_op.params.update_insight_threshold=0.3",
)


def load(*arguments: str, **more: Any) -> Settings:
    return Settings.load(*arguments, environ={}, **more)


def test_its_own_configuration_loads_and_all_its_flows_build(caplog: pytest.LogCaptureFixture) -> None:
    settings = load(config=DEFAULT)
    catalog = Catalog(settings)
    catalog.check()
    assert set(FLOWS) == settings.flow.keys()
    assert (settings.http.port, settings.mcp.port, settings.mcp.transport) == (8002, 8002, "sse")
    told = {record.getMessage().split(" has no effect")[0] for record in caplog.records}
    assert told == {
        "op.memory_deduplication_op.vector_store", "thread_pool_max_workers", "vector_store.default.embedding_model",
        "op.parse_tool_call_result_op.params.max_history_tool_call_cnt",
        "op.memory_deduplication_op.params.similarity_threshold",
        "op.parse_tool_call_result_op.params.evaluation_sleep_interval",
        "op.summary_tool_memory_op.params.summary_sleep_interval",
        "the op 'update_memory_utility_op'", "the op 'load_today_memory_op'",
    }  # fmt: skip
    assert len(told) == len(caplog.records)


@pytest.mark.parametrize(("spelling", "arrives"), HONOURED.items(), ids=HONOURED)
def test_a_documented_parameter_is_honoured(
    spelling: str, arrives: tuple[str, str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    settings = load(f"op.{spelling}")
    Catalog(settings)
    name, parameter, value = arrives
    old = spelling.partition(".")[0]
    step = _bind(Call(old, {}, 0), old, settings.op)
    assert (step.op.name, step.parameters[parameter]) == (name, value)
    assert caplog.records == []


@pytest.mark.parametrize("spelling", WITHOUT_EFFECT)
def test_a_documented_parameter_without_effect_says_once_what_does_its_work(
    spelling: str, caplog: pytest.LogCaptureFixture
) -> None:
    Catalog(load(f"op.{spelling}"))
    [told] = [record.getMessage() for record in caplog.records]
    assert told.startswith(f"op.{spelling.partition('=')[0]} has no effect: ") and len(told) > 80


def test_parameters_have_their_old_names_under_the_present_name_of_a_flow() -> None:
    catalog = Catalog(load("op.rerank_memory_op.params.top_k=7", "op.summary_tool_memory.params.recent_call_count=9"))
    step = catalog.get("retrieve_task_memory").plan.steps[2]  # type: ignore[union-attr]
    assert step.parameters["top_k"] == 7  # type: ignore[union-attr]
    assert catalog.get("summary_tool_memory").plan.parameters["max_calls"] == 9  # type: ignore[union-attr]


def test_a_parameter_that_no_system_had_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no parameter 'recent_calls'"):
        Catalog(load("op.summary_tool_memory_op.params.recent_calls=9"))


def test_settings_of_an_op_that_no_flow_names_are_told(caplog: pytest.LogCaptureFixture) -> None:
    Catalog(load("op.fuse_rerank_op.params.output_memory_max_count=6")).check()
    [told] = [record.getMessage() for record in caplog.records]
    assert told.startswith("op.fuse_rerank_op has no effect: it is in no flow")


def test_every_successor_exists() -> None:
    for name, successor in reme01.ops().items():
        op = registry.find(f"{name}_op")
        assert op.name == successor.name
        taken = [s.name for s in successor.parameters.values() if s.name]
        assert set(taken) | set(successor.given) <= op.parameters.keys()
        assert all(bool(s.name) != bool(s.instead) for s in successor.parameters.values())


@pytest.mark.parametrize("spelling", ["http_service.port=8011", "http.port=8011"])
def test_the_http_service_has_its_earlier_name_too(spelling: str) -> None:
    assert load(spelling).http.port == 8011


def test_the_local_store_has_its_earlier_name_too() -> None:
    assert load("vector_store.default.backend=local_file").vector_store["default"].backend == "local"


def test_models_without_address_take_those_of_the_environment() -> None:
    environ = {"FLOW_LLM_API_KEY": "sk-1", "FLOW_LLM_BASE_URL": "http://127.0.0.1:9/v1", "OPENAI_API_KEY": "sk-2"}
    settings = Settings.load(config=DEFAULT, environ=environ)
    assert {(m.base_url, m.api_key.get_secret_value()) for m in settings.llm.values()} == {
        ("http://127.0.0.1:9/v1", "sk-1")
    }
    assert settings.embedding_model["default"].api_key.get_secret_value() == "sk-2"
    assert len(settings.llm) == 9


@pytest.mark.parametrize("name", ["my_reme_ops", "my_reme_ops.py"])
def test_own_ops_come_from_a_module_or_a_file(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_ops: None
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(__import__("sys").path))
    monkeypatch.delitem(__import__("sys").modules, "my_reme_ops", raising=False)
    (tmp_path / "my_reme_ops.py").write_text(
        "from reme_core.flows.registry import op\n"
        "from reme_core.flows.state import RetrievalState\n"
        "@op(writes={'answer'})\n"
        "async def greet(state: RetrievalState, deps: object) -> None:\n"
        "    'Greet.'\n"
        "    state.answer = 'hello'\n"
    )
    (tmp_path / "mine.yaml").write_text(f"ops: [{name}]\nflow: {{hello: {{flow_content: greet}}}}\n")
    flow = Catalog(load(config=tmp_path / "mine.yaml")).get("hello")
    assert flow.plan.op.name == "greet"  # type: ignore[union-attr]


def test_own_ops_that_cannot_be_loaded_are_named() -> None:
    with pytest.raises(FlowError, match="ops: not_there cannot be loaded: ModuleNotFoundError"):
        Catalog(load('ops=["not_there"]'))
    with pytest.raises(FlowError, match=r"ops: /not/there\.py cannot be loaded: FileNotFoundError"):
        Catalog(load('ops=["/not/there.py"]'))


@pytest.fixture
async def old(settings: Settings, loopback: Loopback) -> Any:
    """Memory that runs the flows of ReMe 0.1's own configuration, with a scripted model."""
    theirs = load(config=DEFAULT)
    for section in theirs.llm.values():
        section.base_url, section.max_retries = loopback.url, 0
    changes = {"flow": theirs.flow, "op": theirs.op, "llm": theirs.llm}
    async with Engine(settings.model_copy(update=changes)) as opened:
        yield opened


async def test_a_use_is_counted_once_and_unhelpful_lessons_go(old: Engine) -> None:
    [memory] = await old.memories.add("w", Memory(kind="task", content="Log in first.", when_to_use="Before paying"))
    given = [{"memory_id": memory.memory_id}]
    done = await old.execute("record_task_memory", workspace_id="w", memory_dicts=given, update_utility=True)
    assert done.metadata["update_result"]["updated_count"] == 1
    counted = await old.memories.get("w", memory.memory_id)
    assert (counted.freq, counted.utility) == (1, 1)
    await old.execute("record_task_memory", workspace_id="w", memory_dicts=given, update_utility=False)
    gone = await old.execute("delete_task_memory", workspace_id="w", freq_threshold=2, utility_threshold=0.6)
    assert gone.metadata["update_result"]["deleted_count"] == 1


async def test_what_people_say_is_observed_stored_once_and_found_by_kind_and_time(
    old: Engine, loopback: Loopback
) -> None:
    loopback.chat(
        {"scores": [{"number": 1, "score": 3}, {"number": 2, "score": 3}]},
        {"observations": [{"evidence": [1], "content": "Ann likes strong coffee."}]},
        {"observations": [{"evidence": [1], "content": "Ann flew to Rome on 2024-03-05."}]},
    )
    said = [
        {"role": "user", "content": "I like strong coffee.", "time_created": "2024-03-06 09:00:00", "name": "Ann"},
        {"role": "user", "content": "Yesterday I flew to Rome.", "time_created": "2024-03-06 09:01:00", "name": "Ann"},
    ]
    made = await old.execute("summary_personal_memory", workspace_id="w", trajectories=[{"messages": said}])
    assert len(made.metadata["memory_list"]) == made.metadata["update_result"]["inserted_count"] == 2
    again = await old.execute("summary_personal_memory", workspace_id="w", trajectories=[{"messages": said}])
    assert again.metadata["update_result"]["inserted_count"] == 0
    found = await old.execute("retrieve_personal_memory", workspace_id="w", query="What did Ann do on 5 March 2024?")
    assert "Rome" in found.metadata["memory_list"][0]["content"] and "Rome" in found.answer


async def test_what_two_messages_say_at_once_is_one_memory_with_both_as_evidence(
    old: Engine, loopback: Loopback
) -> None:
    seen = [{"evidence": [n], "content": "Ann likes coffee."} for n in (1, 2)]
    loopback.chat({"scores": [{"number": n, "score": 3} for n in (1, 2)]}, {"observations": seen})
    said = [{"role": "user", "content": words, "name": "Ann"} for words in ("I like coffee.", "I do like coffee!")]
    await old.execute("summary_personal_memory", workspace_id="w", trajectories=[{"messages": said}])
    [stored] = await old.memories.list("w")
    assert (stored.content, len(stored.sources)) == ("Ann likes coffee.", 2)


async def test_what_is_said_again_after_an_edit_is_observed_again_and_what_stands_only_once(
    old: Engine, loopback: Loopback
) -> None:
    scored = {"scores": [{"number": 1, "score": 3}]}
    told = [("Rome.", []), ("Rome!", []), ("Oslo.", ["contradicts"]), ("Rome.", ["contradicts"])]
    for words, relations in told:
        seen = {"observations": [{"evidence": [1], "content": f"Ann lives in {words[:-1]}."}]}
        judged = [{"relations": [{"new": 1, "old": 1, "relation": relation}]} for relation in relations]
        loopback.chat(scored, seen, *judged)
        said = {"role": "user", "content": f"I live in {words}", "name": "Ann", "message_id": "m"}
        await old.execute("summary_personal_memory", workspace_id="w", trajectories=[{"messages": [said]}])
    found = await old.memories.list("w", status=None)
    assert [(m.content.split()[-1], m.status) for m in found] == [
        ("Rome.", "active"), ("Oslo.", "superseded"), ("Rome.", "superseded"),
    ]  # fmt: skip


async def test_the_time_that_is_asked_about_counts_for_memories_of_a_loaded_library(
    reme: Engine, flow: Any, tmp_path: Path
) -> None:
    rows = [
        {"memory_id": f"m{day}", "memory_type": "personal", "content": f"The user bought {tea} tea",
         "target": "user", "time_created": f"2024-03-0{day} 09:00:00"}
        for day, tea in enumerate(("green", "black", "white", "mint", "ginger", "sage", "jasmine", "lemon"), 1)
    ]  # fmt: skip
    (tmp_path / "w.jsonl").write_text("\n".join(map(json.dumps, rows)))
    await reme.workspaces.load("w", str(tmp_path))
    content = "set_query_op >> (extract_time_op | (retrieve_memory_op >> semantic_rank_op)) >> fuse_rerank_op"
    reme.settings.flow = {"ask": FlowSettings(flow_content=content)}
    for day in (5, 7):
        query = f"Which tea did I buy on {day} March 2024?"
        state = await flow(reme, "ask", workspace_id="w", query=query, top_k=8)
        assert state.memories[0].memory_id == f"m{day}"


async def test_the_trial_on_made_up_results_says_what_to_do_instead(old: Engine) -> None:
    with pytest.raises(ConfigurationError, match="add_tool_call_result"):
        await old.execute("use_mock_search", workspace_id="w", query="capital of France")


def test_a_flow_of_the_tool_trial_builds() -> None:
    for name in ("llm_mock_search_op", "use_mock_search_op"):
        assert [step.op.name for step in leaves(build(name).plan)] == ["use_mock_search"]


def test_an_op_without_effect_is_told_when_its_flow_is_built(caplog: pytest.LogCaptureFixture) -> None:
    build("take_in >> (info_filter | load_today_memory_op)")
    [told] = [record.getMessage() for record in caplog.records]
    assert told.startswith("the op 'load_today_memory_op' has no effect in a flow: `contra_repeat` compares")


async def test_statements_that_have_nothing_in_common_are_not_put_to_the_model(
    reme_with_chat: Engine, loopback: Loopback, flow: Any
) -> None:
    loopback.chat({"relations": []})
    said = ["I live in Porto.", "I like strong coffee.", "I moved to Lisbon."]
    for number, content in enumerate(said):
        memory = Memory(content=content, subject="user", observed_at=datetime(2024, 1, 1 + number, tzinfo=UTC))
        await reme_with_chat.memories.add("w", memory)
    ops = {"tend": FlowSettings(flow_content="long_contra_repeat_op")}
    reme_with_chat.settings.flow = ops
    await flow(reme_with_chat, "tend", workspace_id="w")
    [asked] = [body["messages"][-1]["content"] for body in loopback.bodies("/chat/completions")]
    assert "Lisbon" in asked and "Porto" in asked and "coffee" not in asked


async def test_a_reflection_finds_what_is_about_its_person_among_many_and_tells_the_speaker_s_days(
    reme_with_chat: Engine, loopback: Loopback
) -> None:
    reme_with_chat.settings.timezone = "Asia/Shanghai"
    loopback.chat(lambda body: {"subjects": []})
    evening = datetime(2024, 5, 1, 22, tzinfo=UTC)  # the next morning in Shanghai
    told = [
        Memory(content=f"Ann likes {what}", subject="Ann", kind="observation", observed_at=evening)
        for what in ("tea", "jam", "maps", "chess", "rain", "trains")
    ]
    await reme_with_chat.memories.add("w", told)
    others = [Memory(content=f"Bob likes number {n}", subject="Bob", kind="observation") for n in range(MOST)]
    await reme_with_chat.memories.add("w", others)
    await reme_with_chat.execute("reflect", workspace_id="w", user_name="Ann")
    [asked] = [body["messages"][-1]["content"] for body in loopback.bodies("/chat/completions")]
    assert "2024-05-02 Ann likes tea" in asked and "Bob" not in asked


async def test_a_deleted_insight_is_not_formed_again_and_stops_no_reflection(
    reme_with_chat: Engine, loopback: Loopback
) -> None:
    def answer(body: dict[str, Any]) -> dict[str, Any]:
        asks_for_subjects = '"subjects"' in body["messages"][0]["content"]
        return {"subjects": ["drinks"]} if asks_for_subjects else {"content": "Likes it warm", "evidence": [1]}

    loopback.chat(answer)
    for told in (("tea", "cocoa", "coffee", "soup", "broth", "milk"), ("maps", "rain", "go", "golf", "pool", "darts")):
        liked = [Memory(content=f"The user likes {what}", subject="user", kind="observation") for what in told]
        await reme_with_chat.memories.add("w", liked)
        reflected = await reme_with_chat.execute("reflect", workspace_id="w")
        assert len(reflected.metadata["memory_list"]) == (told[0] == "tea")
        await reme_with_chat.memories.delete(
            "w", [m.memory_id for m in await reme_with_chat.memories.list("w", kind="insight")]
        )


async def test_a_reflection_goes_on_where_memoryscope_stopped(
    reme_with_chat: Engine, loopback: Loopback, tmp_path: Path
) -> None:
    def node(number: int, content: str, kind: str, **more: Any) -> str:
        row = {"memory_id": f"n{number}", "user_name": "AI", "target_name": "user", "content": content,
               "memory_type": kind, "store_status": "valid", "timestamp": 1700000000 + number}  # fmt: skip
        return json.dumps(row | more)

    loopback.chat(lambda body: {"subjects": []} if "subjects" in str(body) else {"content": "", "evidence": []})
    seen = [node(n, f"The user drinks {n} teas", "observation", obs_reflected=1) for n in range(8)]
    drawn = [node(8, "The user likes tea", "insight", key="favourite drinks")]
    old = {"memory_type": "insight", "content": "The user runs", "target": "user", "reflection_subject": "which sports"}
    (tmp_path / "w.jsonl").write_text("\n".join([*seen, *drawn, json.dumps(old)]))
    await reme_with_chat.workspaces.load("w", str(tmp_path))
    await reme_with_chat.execute("reflect", workspace_id="w")
    assert not loopback.bodies("/chat/completions"), "there is nothing that was not reflected upon"
    new = [Memory(content=f"The user owns {what}", subject="user", kind="observation") for what in "abcdef"]
    await reme_with_chat.memories.add("w", new)
    await reme_with_chat.execute("reflect", workspace_id="w")
    asked = loopback.bodies("/chat/completions")[0]["messages"][-1]["content"]
    assert "favourite drinks" in asked and "which sports" in asked and "teas" not in asked
