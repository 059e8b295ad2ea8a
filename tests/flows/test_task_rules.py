"""Task memory without any chat model: what rules learn from attempts is useful, true, and found again."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from reme_core.engine import Engine
from reme_core.errors import InputError
from reme_core.flows.drafts import RULES
from reme_core.types import Kind, Memory
from tests.flows.attempts import ASKED, BOOKED, CANCELLED, NOT_BOOKED, attempt, calls, says, user

Flow = Any


async def test_a_success_tells_the_tools_in_order_the_fix_and_the_answer(reme: Engine, flow: Flow) -> None:
    state = await flow(reme, "summary_task_memory", workspace_id="w", trajectories=[BOOKED])
    done, fix = state.memories
    assert done.when_to_use == f"A task like: {ASKED}"
    assert "search_flights(origin, date) → book_flight(flight_id, card_token)" in done.content
    assert "“Flight F2 is booked for 70 euros.”" in done.content
    assert fix.when_to_use == "search_flights fails with: date must be YYYY-MM-DD"
    assert 'It worked with date="2025-03-02" instead of date="tomorrow".' in fix.content
    assert {memory.author for memory in state.memories} == {RULES}
    assert {memory.score for memory in state.memories} == {0.8}


async def test_secrets_and_system_prompts_are_not_remembered(reme: Engine, flow: Flow) -> None:
    state = await flow(reme, "summary_task_memory", workspace_id="w", trajectories=[BOOKED, NOT_BOOKED])
    everything = " ".join(memory.model_dump_json() for memory in state.memories)
    assert "sk-very-secret" not in everything
    assert "ACME" not in everything


async def test_a_failure_tells_what_was_never_overcome(reme: Engine, flow: Flow) -> None:
    state = await flow(reme, "summary_task_memory", workspace_id="w", trajectories=[NOT_BOOKED])
    (failed,) = state.memories
    assert 'search_flights(origin="BER", date="tomorrow") failed with “date must be YYYY-MM-DD”' in failed.content
    assert "not accepted: “There are no flights.”" in failed.content


async def test_a_loop_is_told_as_leading_nowhere(reme: Engine, flow: Flow) -> None:
    stuck = attempt(user("Cross the lake."), *[calls("step", "You are at a hole.", d="left")] * 5, score=0.0)
    state = await flow(reme, "summary_task_memory", workspace_id="w", trajectories=[stuck])
    assert 'step(d="left") was called 5 times with the same result' in state.memories[0].content
    assert "ended without an answer" in state.memories[0].content


async def test_an_unscored_attempt_without_an_error_is_not_called_a_failure(reme: Engine, flow: Flow) -> None:
    unscored = attempt(user("What is 2+2?"), says("4"), score=None)
    state = await flow(reme, "summary_task_memory", workspace_id="w", trajectories=[unscored])
    assert state.memories == []
    stuck = attempt(user("Find it."), calls("find", "Error: gone", q="x"), score=None)
    (memory,) = (await flow(reme, "summary_task_memory", workspace_id="w", trajectories=[stuck])).memories
    assert "failed with “Error: gone”" in memory.content
    assert "score" not in memory.content


async def test_the_best_and_the_worst_attempt_are_compared(reme: Engine, flow: Flow) -> None:
    trajectories = [BOOKED, NOT_BOOKED, NOT_BOOKED | {"score": 0.4}]
    state = await flow(reme, "summary_task_memory", workspace_id="w", trajectories=trajectories)
    (compared,) = [m for m in state.memories if m.metadata["step_type"] == "comparison"]
    assert compared.when_to_use == f"Choosing how to go about: {ASKED}"
    assert "one of score 1 and one of score 0" in compared.content
    assert "Only the better one used book_flight." in compared.content
    assert 'it worked with date="2025-03-02" instead of date="tomorrow"' in compared.content
    assert compared.metadata["trajectory_scores"] == [1.0, 0.0]


async def test_attempts_of_equal_score_are_not_compared(reme: Engine, flow: Flow) -> None:
    state = await flow(reme, "summary_task_memory", workspace_id="w", trajectories=[NOT_BOOKED, NOT_BOOKED])
    assert "comparison" not in {m.metadata["step_type"] for m in state.memories}


async def test_the_other_order_of_tools_is_told(reme: Engine, flow: Flow) -> None:
    good = attempt(user("Drive."), calls("lock", "ok"), calls("start", "ok"), says("Driving"), score=1.0, task_id="car")
    bad = attempt(user("Drive."), calls("start", "ok"), calls("lock", "ok"), says("Standing"), score=0.0, task_id="car")
    state = await flow(reme, "summary_task_memory", workspace_id="w", trajectories=[good, bad])
    assert any("called lock before start" in memory.content for memory in state.memories)


async def test_similar_segments_of_other_tasks_are_compared(reme: Engine, flow: Flow) -> None:
    good = attempt(user("Book a flight to Rome."), calls("pay", "ok"), says("Done"), score=1.0, task_id="rome")
    bad = attempt(user("Book a flight to Nice."), calls("ask", "ok"), says("Sorry"), score=0.0, task_id="nice")
    state = await flow(reme, "summary_task_memory", workspace_id="w", trajectories=[good, bad])
    (pair,) = [m for m in state.memories if m.metadata["step_type"] == "comparison"]
    assert "succeeded once (task Book a flight to Rome.) and failed once (task Book a flight to Nice.)" in pair.content


async def test_segments_that_have_nothing_in_common_are_not_compared(reme: Engine, flow: Flow) -> None:
    good = attempt(user("Book a flight to Rome."), calls("pay", "ok"), says("Done"), score=1.0, task_id="rome")
    bad = attempt(user("Cook lentils with onions."), calls("stir", "ok"), says("Burnt"), score=0.0, task_id="stew")
    state = await flow(reme, "summary_task_memory", workspace_id="w", trajectories=[good, bad])
    assert [m.metadata["step_type"] for m in state.memories] == ["success", "failure"]


async def test_a_success_that_shows_nothing_of_how_it_was_done_is_no_experience(reme: Engine, flow: Flow) -> None:
    bare = attempt(user("Help me create a project plan."), score=1.0)
    for name in ("summary_task_memory", "summary_task_memory_simple"):
        assert (await flow(reme, name, workspace_id="w", trajectories=[bare])).memories == []


async def test_chinese_attempts_give_chinese_memories(reme: Engine, flow: Flow) -> None:
    state = await flow(reme, "summary_task_memory", workspace_id="w", trajectories=[CANCELLED])
    done, fix = state.memories
    assert done.when_to_use == "类似的任务：帮我取消昨天下的那个订单"
    assert "依次奏效的工具：list_orders(days) → cancel_order(order)。" in done.content
    assert "先执行 list_orders(days) 后成功" in fix.content
    found = await flow(reme, "retrieve_task_memory", workspace_id="w", query="怎么取消订单？", top_k=2)
    assert "以下来自记忆" in found.answer
    assert "list_orders" in found.answer


async def test_the_evidence_is_stored_with_each_memory(reme: Engine, flow: Flow) -> None:
    messages = [{**m, "message_id": f"m{n}"} for n, m in enumerate(BOOKED["messages"])]
    posted = {**BOOKED, "messages": messages, "metadata": {"episode_id": "run-7"}}
    state = await flow(reme, "summary_task_memory", workspace_id="w", trajectories=[posted])
    stored = await reme.memories.get("w", state.memories[1].memory_id)
    sources = {(source.kind, source.id): source.quote for source in stored.sources}
    assert sources.keys() == {*(("message", f"m{n}") for n in (2, 3, 4, 5)), ("episode", "run-7")}
    assert sources["message", "m3"] == '{"error": "date must be YYYY-MM-DD"}'


async def test_what_was_learned_is_found_by_a_similar_task(reme: Engine, flow: Flow) -> None:
    await flow(reme, "summary_task_memory", workspace_id="w", trajectories=[BOOKED, CANCELLED])
    state = await flow(
        reme, "retrieve_task_memory", workspace_id="w", query="Find a flight from Paris to Rome", top_k=2
    )
    assert len(state.hits) == 2
    assert "book_flight" in state.answer
    assert state.answer.startswith("<memory_note>") and state.answer.endswith("</memory_note>")
    simple = await flow(reme, "retrieve_task_memory_simple", workspace_id="w", query="Find a flight to Rome", top_k=1)
    assert "search_flights" in simple.answer


async def test_nothing_known_gives_an_empty_answer(reme: Engine, flow: Flow) -> None:
    state = await flow(reme, "retrieve_task_memory", workspace_id="nobody", query="anything")
    assert (state.answer, state.memories) == ("", [])


async def test_a_query_is_made_from_the_last_messages(reme: Engine, flow: Flow) -> None:
    messages = [user(f"word{n} " + "x" * 300) for n in range(5)]
    state = await flow(reme, "retrieve_task_memory", workspace_id="w", query="", messages=messages)
    assert [line.split()[0] for line in state.search_query.split("\n")] == ["word2", "word3", "word4"]
    assert all(len(line) <= 200 for line in state.search_query.split("\n"))
    with pytest.raises(InputError, match="give a query, or messages"):
        await flow(reme, "retrieve_task_memory", workspace_id="w", query="  ")


async def test_recall_keeps_a_bound_and_gives_the_places_of_equal_contents_to_others(reme: Engine, flow: Flow) -> None:
    from reme_core.types import Kind, Memory

    same = [
        Memory(kind=Kind.TASK, subject=f"task {n}", when_to_use=f"Booking flight {n}", content="Check the date.")
        for n in range(3)
    ]
    other = Memory(kind=Kind.TASK, when_to_use="Baking bread", content="Wait for the yeast.")
    await reme.memories.add("w", [*same, other])
    state = await flow(reme, "retrieve_task_memory", workspace_id="w", query="Booking flight 1", top_k=2)
    assert [memory.content for memory in state.memories] == ["Check the date.", "Wait for the yeast."]
    assert [hit.rank for hit in state.hits] == [1, 2]
    near = {"recall": {"params": {"threshold_score": 0.9}}}
    strict = reme.settings.model_validate(reme.settings.model_dump() | {"op": near})
    reme.settings = strict
    state = await flow(reme, "retrieve_task_memory", workspace_id="w", query="Booking flight 1", top_k=4)
    assert [memory.content for memory in state.memories] == ["Check the date."]


async def test_the_score_filter_leaves_out_what_its_maker_thought_little_of(reme: Engine, flow: Flow) -> None:
    from reme_core.types import Kind, Memory

    weak = Memory(kind=Kind.TASK, when_to_use="Booking a flight", content="Guess.", metadata={"confidence": 0.1})
    strong = Memory(kind=Kind.TASK, when_to_use="Booking a flight", content="Look it up.", score=0.8)
    nested = Memory(
        kind=Kind.TASK, when_to_use="Booking a flight", content="Ask.", metadata={"extra_info": {"confidence": 0.9}}
    )
    await reme.memories.add("w", [weak, strong, nested])
    override = {"rerank_memory_op": {"params": {"enable_score_filter": True}}}
    reme.settings = reme.settings.model_validate(reme.settings.model_dump() | {"op": override})
    state = await flow(reme, "retrieve_task_memory", workspace_id="w", query="book a flight", top_k=5)
    assert {memory.content for memory in state.memories} == {"Look it up.", "Ask."}


async def test_the_simple_flow_counts_from_nine_tenths(reme: Engine, flow: Flow) -> None:
    trajectories = [BOOKED | {"score": 0.95}]
    state = await flow(reme, "summary_task_memory_simple", workspace_id="w", trajectories=trajectories)
    assert [m.metadata["step_type"] for m in state.memories] == ["success", "fix"]
    strict = await flow(reme, "summary_task_memory", workspace_id="v", trajectories=trajectories)
    assert [m.metadata["step_type"] for m in strict.memories] == ["failure", "fix"]


async def test_the_simple_comparison_passes_over_an_attempt_that_says_nothing(reme: Engine, flow: Flow) -> None:
    trajectories = [BOOKED, NOT_BOOKED, {"task_id": "flight", "score": 2.0, "messages": []}]
    state = await flow(reme, "summary_task_memory_comparative", workspace_id="w", trajectories=trajectories)
    assert [memory.metadata["trajectory_scores"] for memory in state.memories] == [[1.0, 0.0]]


async def test_the_simple_comparison_groups_by_task(reme: Engine, flow: Flow) -> None:
    trajectories = [BOOKED, NOT_BOOKED, CANCELLED]
    state = await flow(reme, "summary_task_memory_comparative", workspace_id="w", trajectories=trajectories)
    (memory,) = state.memories
    assert memory.subject == "flight"


@pytest.mark.parametrize("name", ["retrieve_task_memory", "retrieve_task_memory_simple"])
async def test_a_lesson_that_is_over_is_not_given(reme: Engine, name: str) -> None:
    lessons = [
        Memory(kind=Kind.TASK, when_to_use="Booking a flight", content=f"Use {name}.", valid_until=until)
        for name, until in (("Kite", datetime(2024, 5, 1, tzinfo=UTC)), ("Lark", datetime(2024, 7, 1, tzinfo=UTC)))
    ]
    await reme.memories.add("w", lessons)
    for day, given in (("2024-04-30", {"Kite", "Lark"}), ("2024-05-01", {"Lark"}), ("2024-07-01", set())):
        found = await reme.execute(name, workspace_id="w", query="book a flight", now=f"{day}T00:00:00Z")
        assert {word for word in ("Kite", "Lark") if word in found.answer} == given
