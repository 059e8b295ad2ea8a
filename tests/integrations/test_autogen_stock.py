"""Memory for AutoGen's own agents: what they say is recorded when their turns end, once, and as one conversation."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.messages import MemoryQueryEvent
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import CancellationToken
from autogen_core.model_context import (
    BufferedChatCompletionContext,
    ChatCompletionContext,
    HeadAndTailChatCompletionContext,
    UnboundedChatCompletionContext,
)
from autogen_core.models import AssistantMessage, LLMMessage, UserMessage
from autogen_core.tools import FunctionTool
from reme_autogen import ReMeAssistantAgent, ReMeMemory, ReMeModelContext, recorder

from reme_core import AsyncReMe
from reme_core.errors import InputError
from reme_core.testing import ScriptedModel, clock
from reme_core.types import Memory
from tests.integrations.autogen_driver import FakeClient
from tests.integrations.inside import ASKED, TOLD, stored_rows


async def test_a_turn_is_recorded_when_it_ends(reme: AsyncReMe, model: ScriptedModel) -> None:
    memory = ReMeMemory(reme, "alice", write="awaited")
    tools = [FunctionTool(clock, description="Tell the time of day.")]
    agent = AssistantAgent("assistant", FakeClient(model), memory=[memory], tools=tools)
    await agent.run(task=TOLD)
    assert await stored_rows(reme, "role, author, content") == [("user", "", TOLD), ("assistant", "assistant", "ok")]
    model.call("clock")
    await agent.run(task="What time is it?")  # ends in a tool's summary
    assert (await stored_rows(reme))[2:] == [("user", "What time is it?"), ("assistant", ""), ("tool", "It is noon.")]
    copied = copy.deepcopy(agent.model_context)
    await copied.add_message(UserMessage(content="Only for the copy.", source="user"))
    assert "Only for the copy." not in str(await agent.model_context.get_messages())


def test_only_what_a_memory_wrote_is_a_note() -> None:
    told = {"ann": False, "reme_memory_note": True, "reme_memory_note_2": True, "reme_memory_notes": False}
    assert {source: recorder.is_note(UserMessage(content="…", source=source)) for source in told} == told


async def test_an_agent_with_two_memories_is_shown_the_newest_note_of_each(
    reme: AsyncReMe, model: ScriptedModel
) -> None:
    for workspace, facts in (("ann", ("Rex lives in Lisbon.", "Tom eats fish.")), ("team", ("Rex likes balls.",))):
        await reme.memories.add(workspace, list(facts))

    def agent_with_both() -> AssistantAgent:
        memories = [ReMeMemory(reme, workspace, token_budget=60, top_k=1) for workspace in ("ann", "team")]
        return AssistantAgent("assistant", FakeClient(model), memory=memories)

    agent = agent_with_both()
    await agent.run(task="What do you know about Rex?")
    assert "Lisbon" in model.last_prompt and "balls" in model.last_prompt
    again = agent_with_both()
    await again.load_state(await agent.save_state())
    await again.run(task="Tell me about Rex.")
    assert len(model.notes()) == 2
    alone = AssistantAgent(
        "assistant", FakeClient(model), memory=[ReMeMemory(reme, "ann")], model_context=again.model_context
    )
    await alone.run(task="And what else about Rex?")  # a new object, in a context that two others have used
    assert len(model.notes()) == 1
    await again.run(task="Tell me all about Rex.")
    assert "Lisbon" in model.last_prompt and "balls" in model.last_prompt


async def test_two_people_say_the_same_in_sessions_of_one_name(reme: AsyncReMe, model: ScriptedModel) -> None:
    memories = [
        ReMeMemory(reme, "alice", session_id="s1", user_id=person, write="awaited") for person in ("ann", "bob")
    ]
    for memory in memories:
        await AssistantAgent("assistant", FakeClient(model), memory=[memory]).run(task=TOLD)
    told = [person for person, content in await stored_rows(reme, "user_id, content") if content == TOLD]
    assert told == ["ann", "bob"]


async def test_many_agents_share_a_memory_and_nothing_is_written_twice(reme: AsyncReMe, model: ScriptedModel) -> None:
    memory = ReMeMemory(reme, "alice")
    agents = [AssistantAgent(f"a{number}", FakeClient(model), memory=[memory]) for number in range(70)]
    for turn in range(2):
        for number, agent in enumerate(agents):
            await agent.run(task=f"Remark {turn} to {number}.")
    await memory.close()
    rows = await stored_rows(reme, "content, session_id")
    assert len(rows) == 2 * 2 * 70
    assert len({session for _, session in rows}) == 70


@pytest.mark.parametrize("session_id", [None, "s1"])
async def test_stock_agents_of_a_team_record_one_conversation(
    reme: AsyncReMe, model: ScriptedModel, session_id: str | None
) -> None:
    model.say("Let me think.")
    model.call("clock")
    memories = [ReMeMemory(reme, "alice", session_id=session_id, write="awaited") for _ in range(2)]
    team = RoundRobinGroupChat(
        [
            AssistantAgent("thinker", FakeClient(model), memory=[memories[0]]),
            AssistantAgent(
                "writer", FakeClient(model), memory=[memories[1]], tools=[FunctionTool(clock, description="Tell.")]
            ),
        ],
        termination_condition=MaxMessageTermination(4),
    )
    await team.run(task="Is it late?")
    rows = await stored_rows(reme, "role, author, content, session_id")
    assert [row[:3] for row in rows] == [
        ("user", "", "Is it late?"),
        ("assistant", "thinker", "Let me think."),
        ("assistant", "writer", ""),  # calls the clock
        ("tool", "clock", "It is noon."),
        ("user", "writer", "It is noon."),  # AutoGen's sum of a tool's results: in no context of the agent's own
        ("assistant", "thinker", "ok"),
    ]
    assert len({row[3] for row in rows}) == 1
    assert session_id in (None, rows[0][3])


async def test_after_a_reset_a_team_begins_one_conversation_for_all(reme: AsyncReMe, model: ScriptedModel) -> None:
    memories = [ReMeMemory(reme, "alice", write="awaited") for _ in range(2)]
    team = RoundRobinGroupChat(
        [
            AssistantAgent(name, FakeClient(model), memory=[memory])
            for name, memory in zip(("thinker", "writer"), memories, strict=True)
        ],
        termination_condition=MaxMessageTermination(2),
    )
    await team.run(task="One?")
    await team.reset()  # before the writer, whose memory has seen no context yet, has said anything
    await team.run(task="Two?")
    await team.run(task="Three?")
    await team.reset()
    await team.run(task="Four?")
    rows = await stored_rows(reme, "content, author, session_id")
    assert [row[:2] for row in rows] == [
        ("One?", ""), ("ok", "thinker"),
        ("Two?", ""), ("ok", "thinker"), ("Three?", ""), ("ok", "writer"),
        ("Four?", ""), ("ok", "thinker"),
    ]  # fmt: skip
    sessions = [session for _, _, session in rows]
    assert sessions == [sessions[0]] * 2 + [sessions[2]] * 4 + [sessions[6]] * 2
    assert len(set(sessions)) == 3


async def test_a_restored_context_of_a_named_session_is_not_written_again(
    reme: AsyncReMe, model: ScriptedModel
) -> None:
    state: Any = None
    for task in (TOLD, ASKED):
        memory = ReMeMemory(reme, "alice", session_id="s1", write="awaited")
        agent = AssistantAgent("assistant", FakeClient(model), memory=[memory])
        if state is not None:
            await agent.load_state(state)
        await agent.run(task=task)
        state = json.loads(json.dumps(await agent.save_state()))
        await memory.close()
    assert [content for _, content in await stored_rows(reme)] == [TOLD, "ok", ASKED, "ok"]


@pytest.mark.parametrize("session_id", [None, "undone"])
@pytest.mark.parametrize("is_context", [False, True])
async def test_turns_that_are_undone_are_not_written_again(
    reme: AsyncReMe, model: ScriptedModel, session_id: str | None, is_context: bool
) -> None:
    memory = ReMeMemory(reme, "alice", session_id=session_id, write="awaited")
    place: Any = {"model_context": ReMeModelContext(memory)} if is_context else {"memory": [memory]}
    agent = AssistantAgent("assistant", FakeClient(model), **place)
    await agent.run(task="One.")
    state = json.loads(json.dumps(await agent.save_state()))
    for task in ("Two.", "Three."):
        await agent.run(task=task)
    after_three = json.loads(json.dumps(await agent.save_state()))
    for again in ("Two, again.", "Two."):
        await agent.load_state(state)
        await agent.run(task=again)
    await agent.load_state(after_three)
    await agent.run(task="Four.")
    rows = await stored_rows(reme, "content, session_id")
    assert [content for content, _ in rows if content != "ok"] == ["One.", "Two.", "Three.", "Two, again.", "Four."]
    assert len({session for _, session in rows}) == 1


async def test_a_loaded_conversation_that_begins_otherwise_is_another(reme: AsyncReMe, model: ScriptedModel) -> None:
    memory = ReMeMemory(reme, "alice", session_id="begun", write="awaited")
    agent = AssistantAgent("assistant", FakeClient(model), memory=[memory])
    new = await agent.save_state()
    for task in ("Hello.", "Two.", "Three."):
        await agent.run(task=task)
    await agent.load_state(new)
    await agent.run(task="Hello.")
    other = AssistantAgent("assistant", FakeClient(model))
    await other.run(task="Bye.")
    await agent.run(task="And now?")
    await agent.run(task="And then?")
    await agent.load_state(await other.save_state())
    await agent.run(task="Still here?")
    said = [row for row in await stored_rows(reme, "session_id, content") if row[1] != "ok"]
    assert said == [
        ("begun", "Hello."), ("begun", "Two."), ("begun", "Three."),
        ("begun#1", "Hello."), ("begun#1", "And now?"), ("begun#1", "And then?"),
        ("begun#2", "Bye."), ("begun#2", "Still here?"),
    ]  # fmt: skip


async def test_turns_that_a_team_undoes_are_not_written_again(reme: AsyncReMe, model: ScriptedModel) -> None:
    memories = [ReMeMemory(reme, "alice", session_id="team", write="awaited") for _ in range(2)]
    team = RoundRobinGroupChat(
        [AssistantAgent(f"a{n}", FakeClient(model), memory=[memory]) for n, memory in enumerate(memories)],
        termination_condition=MaxMessageTermination(2),
    )
    await team.run(task="One.")  # only the first agent speaks
    state = json.loads(json.dumps(await team.save_state()))
    for task in ("Two.", "Three.", "Four.", "Five."):
        await team.run(task=task)
    await team.load_state(state)
    for task in ("Six.", "Seven."):
        await team.run(task=task)
    said = [row for row in await stored_rows(reme, "session_id, content") if row[1] != "ok"]
    assert said == [("team", f"{task}.") for task in ("One", "Two", "Three", "Four", "Five", "Six", "Seven")]


async def test_a_loaded_context_goes_on_counting_the_conversations_of_its_session(
    reme: AsyncReMe, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin() -> AssistantAgent:
        memory = ReMeMemory(reme, "alice", session_id="s1", write="awaited")
        return AssistantAgent("assistant", FakeClient(model), model_context=ReMeModelContext(memory))

    agent = begin()
    await agent.run(task="One.")
    await agent.on_reset(CancellationToken())
    await agent.run(task="Two.")
    state = json.loads(json.dumps(await agent.save_state()))
    monkeypatch.setattr(recorder, "_sessions", {})  # as in another process
    agent = begin()
    await agent.load_state(state)
    await agent.run(task="Two and a half.")
    await agent.on_reset(CancellationToken())
    await agent.run(task="Three.")
    await agent.load_state(state)
    await agent.run(task="Two and three quarters.")
    await agent.on_reset(CancellationToken())
    await agent.run(task="Four.")
    said = [row for row in await stored_rows(reme, "session_id, content") if row[1] != "ok"]
    assert said == [
        ("s1", "One."), ("s1#1", "Two."), ("s1#1", "Two and a half."), ("s1#2", "Three."),
        ("s1#1", "Two and three quarters."), ("s1#3", "Four."),
    ]  # fmt: skip


async def test_a_cleared_context_begins_another_conversation(reme: AsyncReMe, model: ScriptedModel) -> None:
    memory = ReMeMemory(reme, "alice", session_id="s1", write="awaited")
    agent = AssistantAgent("assistant", FakeClient(model), memory=[memory])
    for _ in range(2):
        await agent.run(task="Hello.")
        await agent.run(task="Hello.")
        await agent.on_reset(CancellationToken())
    await agent.run(task="Hello.")
    await memory.close()
    texts = [content for role, content in await stored_rows(reme) if role == "user"]
    assert texts == ["Hello."] * 5


async def test_a_context_of_another_make_is_only_appended_to(reme: AsyncReMe) -> None:
    class Plain(UnboundedChatCompletionContext):
        async def save_state(self) -> Any:
            return {"mine": 1}

    await reme.memories.add("alice", "Rex is a dachshund.")
    context = Plain()
    await context.add_message(UserMessage(content="What is Rex?", source="user"))
    memory = ReMeMemory(reme, "alice")
    result = await memory.update_context(context)
    assert [content.content for content in result.memories.results] == ["Rex is a dachshund."]
    last = (await context.get_messages())[-1]
    assert isinstance(last, UserMessage)
    assert "dachshund" in last.content


@pytest.mark.parametrize("how", ["memory", "context"])
async def test_what_a_context_keeps_elsewhere_is_recorded(reme: AsyncReMe, model: ScriptedModel, how: str) -> None:
    class Elsewhere(ChatCompletionContext):
        """Saves, as AutoGen's base class does, a state without messages."""

        def __init__(self) -> None:
            super().__init__()
            self.said: list[LLMMessage] = []

        async def add_message(self, message: LLMMessage) -> None:
            self.said.append(message)

        async def get_messages(self) -> list[LLMMessage]:
            return [*self.said]

    memory, context = ReMeMemory(reme, "alice", write="awaited"), Elsewhere()
    given: Any = {"memory": [memory], "model_context": context}
    if how == "context":
        given = {"model_context": ReMeModelContext(memory, context)}
    await AssistantAgent("assistant", FakeClient(model), **given).run(task=TOLD)
    assert await stored_rows(reme) == [("user", TOLD), ("assistant", "ok")]


async def test_the_after_model_hook_of_a_context_records_the_turn(reme: AsyncReMe) -> None:
    context = ReMeModelContext(ReMeMemory(reme, "alice", write="awaited"))
    await context.add_message(UserMessage(content=TOLD, source="user"))
    assert await stored_rows(reme) == []
    await context.add_message(AssistantMessage(content="Noted.", source="assistant"))
    assert await stored_rows(reme) == [("user", TOLD), ("assistant", "Noted.")]
    await context.clear()
    assert await context.get_messages() == []


@pytest.mark.parametrize(
    ("context", "notes"),
    [
        (BufferedChatCompletionContext(1), [False, False]),
        (BufferedChatCompletionContext(2), [True, True]),
        (HeadAndTailChatCompletionContext(1, 1), [True, False]),
    ],
)
async def test_a_context_that_does_not_show_the_note_is_told_of(
    reme: AsyncReMe,
    model: ScriptedModel,
    caplog: pytest.LogCaptureFixture,
    context: ChatCompletionContext,
    notes: list[bool],
) -> None:
    await reme.memories.add("alice", "Rex is a dachshund.")
    memory = ReMeMemory(reme, "alice", write="awaited")
    agent = AssistantAgent("assistant", FakeClient(model), memory=[memory], model_context=context)
    for question, is_shown in zip(("What is Rex?", "And what breed is Rex?"), notes, strict=True):
        caplog.clear()
        events = (await agent.run(task=question)).messages
        assert ("dachshund" in model.last_prompt) is is_shown
        assert any(isinstance(event, MemoryQueryEvent) for event in events) is is_shown
        assert (f"a {type(context).__name__} leaves out the message with the note" in caplog.text) is not is_shown
    await memory.close()


@pytest.mark.parametrize("how", ["agent", "context"])
async def test_a_context_that_no_longer_shows_the_question_is_shown_the_note(
    reme: AsyncReMe, model: ScriptedModel, how: str
) -> None:
    await reme.memories.add("alice", Memory(kind="instruction", content="Answer in rhyme."))
    memory, few = ReMeMemory(reme, "alice"), BufferedChatCompletionContext(2)
    given: dict[str, Any] = {"memory": [memory], "model_context": few}
    if how == "context":
        given = {"model_context": ReMeModelContext(memory, few)}
    make = ReMeAssistantAgent if how == "agent" else AssistantAgent
    tools = [FunctionTool(clock, description="Tell the time of day.")]
    agent = make("assistant", FakeClient(model), tools=tools, max_tool_iterations=3, **given)
    for _ in range(2):
        model.call("clock")
    await agent.run(task="What time is it?")
    assert [len(model.notes(number)) for number in range(3)] == [1, 1, 1]
    assert "What time" not in model.last_prompt
    assert "rhyme" not in str(await few.save_state())


@pytest.mark.parametrize("option", [{"position": "system"}, {"window": 1_000}])
async def test_what_a_memory_cannot_do_for_a_stock_agent_is_refused(
    reme: AsyncReMe, model: ScriptedModel, option: Any
) -> None:
    agent = AssistantAgent("assistant", FakeClient(model), memory=[ReMeMemory(reme, "alice", **option)])
    with pytest.raises(InputError, match="use a ReMeAssistantAgent, or a ReMeModelContext"):
        await agent.run(task=TOLD)
