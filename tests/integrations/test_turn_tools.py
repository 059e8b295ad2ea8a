"""What stands around `TurnMemory`: the agent's memory tools, forgetting, and what it cost."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from reme_core import AsyncReMe
from reme_core.errors import InputError, ReMeError
from reme_core.models import ModelCall
from reme_core.settings import Settings
from reme_core.testing import Gate
from reme_core.turn import MemoryTools, ToolFailure, TurnMemory
from reme_core.types import Kind, Memory, Message
from tests.integrations.inside import ASKED, TOLD, engine_of, stored


async def test_the_tools_store_find_change_and_forget(turn: TurnMemory, reme: AsyncReMe) -> None:
    search, add, update, forget = MemoryTools(turn).all()
    assert await search("dogs") == "Nothing is remembered about this."
    told = await add("Rex is a dachshund.")
    memory_id = told.partition("[")[2].partition("]")[0]
    assert memory_id in await add("Rex is a dachshund.")
    assert f"[{memory_id}] Rex is a dachshund." in await search("What is Rex?")
    assert memory_id in await update(f"[{memory_id}]", "Rex is a poodle.")
    assert "poodle" in await search("What is Rex?")
    assert memory_id in await forget(memory_id)
    assert "poodle" not in await search("What is Rex?")
    assert "no memory" in await forget(memory_id)
    assert "That did not work" in await update("nonsense", "x")
    assert "That did not work" in await search(" ")
    history = await reme.memories.history("alice", memory_id)
    assert {entry.changed_by for entry in history} == {"agent"}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [({"query": ["Rex"]}, "query:"), ({}, "query:"), ({"question": "Rex"}, "question:"), ({"limit": "many"}, "limit:")],
)
async def test_a_model_is_told_which_argument_does_not_fit(
    turn: TurnMemory, arguments: dict[str, Any], told: str
) -> None:
    turn.on_error = "raise"
    answer = await MemoryTools(turn).search_memory(**arguments)
    assert isinstance(answer, ToolFailure)
    assert answer.startswith("That did not work: ") and told in answer


async def test_who_forgets_a_memory_twice_at_once_is_told_that_it_is_gone(turn: TurnMemory) -> None:
    turn.on_error = "raise"
    tools = MemoryTools(turn)
    memory_id = (await tools.add_memory("Rex is a dachshund.")).partition("[")[2].partition("]")[0]
    told = await asyncio.gather(*(tools.forget_memory(memory_id) for _ in range(3)))
    assert sorted(answer.startswith("Forgot") for answer in told) == [False, False, True]
    assert all(memory_id in answer for answer in told)


async def test_arguments_that_can_be_read_are_taken(turn: TurnMemory) -> None:
    tools: Any = MemoryTools(turn)
    for number in range(3):
        await tools.add_memory(content=f"Rex has dachshund number {number} as a friend.", when_to_use=None)
    for limit, count in (("2", 2), (None, 3)):
        assert (await tools.search_memory(query="Who are the friends of Rex?", limit=limit)).count("number") == count


async def test_a_tool_changes_only_what_is_of_its_agent(reme: AsyncReMe) -> None:
    bobs = await reme.memories.add("w", ["Bob has a cat."], user_id="bob")
    everybodys = await reme.memories.add("w", ["The office is closed on Sundays."])
    async with TurnMemory(reme, "w", user_id="ann") as turn:
        tools = MemoryTools(turn)
        for memory in (*bobs, *everybodys):
            for refusal in (
                await tools.update_memory(memory.memory_id, "Bob has no cat."),
                await tools.forget_memory(memory.memory_id),
            ):
                assert isinstance(refusal, ToolFailure)
                assert f"no memory [{memory.memory_id}]" in refusal
                assert "What was said just now may become a memory when nothing was said for 30 seconds" in refusal
            found = await reme.memories.get("w", memory.memory_id)
            assert (found.content, found.status) == (memory.content, "active")


async def test_a_tool_changes_what_its_agent_recalls_of_other_agents(reme: AsyncReMe) -> None:
    (stored_memory,) = await reme.memories.add("w", ["Ann eats no nuts."], user_id="ann", agent_id="nurse")
    async with TurnMemory(reme, "w", user_id="ann", agent_id="cook", filters={"agent_id": None}) as turn:
        tools = MemoryTools(turn)
        assert stored_memory.memory_id in await tools.search_memory("Which nuts does Ann eat?")
        assert "Updated" in await tools.update_memory(stored_memory.memory_id, "Ann eats almonds.")
    assert (await reme.memories.get("w", stored_memory.memory_id)).content == "Ann eats almonds."


async def test_a_forgotten_memory_cannot_be_updated(turn: TurnMemory, reme: AsyncReMe) -> None:
    (memory,) = await reme.memories.add("alice", ["Rex is a dachshund."])
    tools = MemoryTools(turn)
    await tools.forget_memory(memory.memory_id)
    assert isinstance(await tools.update_memory(memory.memory_id, "Rex is a poodle."), ToolFailure)


async def test_what_the_tool_forgets_is_not_found_as_a_message_either(turn: TurnMemory, reme: AsyncReMe) -> None:
    await reme.record("alice", [Message(content="My salary is 52,000 euros a year.", session_id="s")])
    await reme.summarise("alice")
    [memory] = await reme.memories.list("alice")
    tools = MemoryTools(turn)
    assert (await tools.search_memory("What is my salary?")).count("52,000") == 1
    assert "Forgot" in await tools.forget_memory(memory.memory_id)
    assert await tools.search_memory("What is my salary?") == "Nothing is remembered about this."


async def test_the_messages_of_a_conversation_are_those_of_the_scope(reme: AsyncReMe) -> None:
    for user in ("ann", "bob"):
        async with TurnMemory(reme, "w", user_id=user, write="awaited") as turn:
            await turn.record([Message(content=f"I am {user}.")], session_id="monday")
    async with TurnMemory(reme, "w", user_id="ann") as turn:
        assert [message.content for message in await turn.messages("monday")] == ["I am ann."]
    async with TurnMemory(reme, "w") as turn:
        assert len(await turn.messages("monday")) == 2


async def test_a_recall_outside_a_turn_gives_nothing_that_is_unlikely_to_fit(turn: TurnMemory, reme: AsyncReMe) -> None:
    await reme.memories.add("alice", [TOLD])
    assert await turn.recall("Which bus goes to the airport?")
    assert not await turn.recall("Which bus goes to the airport?", min_relevance=0.9)
    for chance in (2, "0.5"):
        with pytest.raises(InputError, match="min_relevance is a chance"):
            await turn.recall("Rex", min_relevance=chance)  # type: ignore[arg-type]  # of a text


async def test_a_search_for_blanks_finds_nothing_and_blanks_hide_no_words(turn: TurnMemory) -> None:
    await turn.record([Message(content=TOLD)], "t1", session_id="s1")
    for blank in ("", "   ", "\n\t", "\u3000"):
        assert await turn.recall(blank) == []
        assert "the query is empty" in await MemoryTools(turn).search_memory(blank)
    assert [hit.content for hit in await turn.recall(" " * 5000 + ASKED)] == [TOLD]


async def test_what_was_just_said_is_found_outside_a_turn(reme: AsyncReMe) -> None:
    async with TurnMemory(reme, "alice", write="background") as turn:
        await turn.record([Message(content=TOLD)])
        assert [hit.content for hit in await turn.recall(ASKED)] == [TOLD]


async def test_what_fits_best_comes_first_be_it_a_memory_or_a_message(turn: TurnMemory, reme: AsyncReMe) -> None:
    await reme.memories.add("alice", ["She drinks her tea green.", "Her brother lives in Porto."])
    await reme.record("alice", [Message(content="My dog is called Rex."), Message(content="What a day!")], wait=True)
    for query, best in (
        ("What is the dog called?", "My dog is called Rex."),
        ("Where does her brother live?", "Porto"),
    ):
        first, *others = await turn.recall(query)
        assert best in first.content and len(others) == 3


async def test_what_a_tool_finds_is_told_with_its_dates(turn: TurnMemory, reme: AsyncReMe) -> None:
    said, ended = datetime(2024, 5, 6, 9, tzinfo=UTC), datetime(2024, 9, 1, tzinfo=UTC)
    await reme.memories.add("alice", Memory(kind=Kind.PROFILE, content="Rex lives in Porto.", valid_until=ended))
    await reme.record("alice", [Message(content="Rex is at the vet until tomorrow.", sent_at=said)], wait=True)
    found = await MemoryTools(turn).search_memory("Where is Rex?")
    assert "Rex lives in Porto. (until 2024-08-31)" in found
    assert "user said: Rex is at the vet until tomorrow. (2024-05-06)" in found


async def test_what_a_tool_found_is_not_remembered_as_said(turn: TurnMemory, reme: AsyncReMe) -> None:
    tools = MemoryTools(turn)
    await tools.add_memory("Rex is a dachshund.")
    found = await tools.search_memory("What is Rex?")
    assert "dachshund" in found
    assert await turn.record([Message(role="tool", author="search_memory", content=found)]) == 0
    assert await stored(reme) == []


async def test_a_tool_names_the_memory_that_is_stored(settings: Settings) -> None:
    settings.redact = ["email"]
    said = "Her address is ann@example.com."
    async with AsyncReMe(settings) as reme, TurnMemory(client=reme, workspace_id="alice") as turn:
        answers = await asyncio.gather(*(MemoryTools(turn).add_memory(said) for _ in range(3)))
        [memory] = await reme.memories.list("alice")
        assert sorted(answers) == [
            f"Remembered as [{memory.memory_id}].",
            *[f"This is remembered already, as [{memory.memory_id}]."] * 2,
        ]


async def test_a_lesson_is_stored_as_experience(reme: AsyncReMe) -> None:
    async with TurnMemory(reme, "alice", kinds=["task", "personal"]) as turn:
        await MemoryTools(turn).add_memory("Search the logs first.", "A job fails at night.")
        note = await turn.begin("My job fails at night, what now?")
    assert [hit.memory.kind for hit in note.hits] == [Kind.TASK]
    assert "Search the logs first." in note.text


async def test_a_tool_tells_the_model_that_memory_is_away(gate: Gate, tmp_path: Path) -> None:
    settings = Settings(database_url=gate.url, data_dir=tmp_path)
    gate.close()
    assert "cannot be reached" in await MemoryTools(TurnMemory(settings, "alice")).search_memory("Rex")
    with pytest.raises(ReMeError):
        await MemoryTools(TurnMemory(settings, "alice", on_error="raise")).search_memory("Rex")
    gate.open()


async def test_clearing_forgets_the_workspace_and_no_other(reme: AsyncReMe) -> None:
    for workspace in ("alice", "bob"):
        async with TurnMemory(reme, workspace, write="awaited") as turn:
            await turn.record([Message(content=TOLD)])
            await reme.memories.add(workspace, "Rex is a dachshund.")
    async with TurnMemory(reme, "alice") as turn:
        assert await turn.begin(ASKED, "t1")
        await turn.clear()
        assert not await turn.begin(ASKED, "t1")
        await turn.clear()  # for an adapter there is nothing wrong with clearing what is empty
    assert await stored(reme) == []
    assert await stored(reme, "bob") == [TOLD]


async def test_what_models_cost_is_told_once(turn: TurnMemory, reme: AsyncReMe) -> None:
    await turn.begin(ASKED)
    for purpose, workspace in (("summary", "alice"), ("embed_query", "alice"), ("summary", "bob")):
        for listener in (await engine_of(reme)).log_writer.listeners:
            listener.count_call(workspace, ModelCall("p", "m", purpose, 10, 4))
    spent = turn.take_usage()
    assert (spent.prompt_tokens, spent.completion_tokens, spent.calls) == (10, 4, 1)
    assert turn.take_usage().calls == 0
    await turn.aclose()
    assert len((await engine_of(reme)).log_writer.listeners) == 0


async def test_spans_stand_under_the_callers(turn: TurnMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr("reme_core.turn.memory.tracer", provider.get_tracer("test"))
    with provider.get_tracer("framework").start_as_current_span("agent") as agent:
        await turn.record([Message(content=TOLD)], "t1")
        await turn.begin(ASKED, "t2")
        assert trace.get_current_span() is agent
    spans = {span.name: span for span in exporter.get_finished_spans()}
    for name in ("reme.recall", "reme.record"):
        parent = spans[name].parent
        assert parent is not None
        assert parent.span_id == agent.get_span_context().span_id
    attributes = spans["reme.recall"].attributes or {}
    assert attributes["reme.workspace"] == "alice"
    assert attributes["reme.hits"] == 1
