"""AgentScope agents with a memory: what is particular to AgentScope, and the rules for its version 1."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import reme_agentscope
from agentscope.agent import Agent
from agentscope.event import ConfirmResult, ReplyEndEvent, RequireUserConfirmEvent, UserConfirmResultEvent
from agentscope.message import ToolCallBlock, ToolResultState, UserMsg
from agentscope.pipeline import GoalPipeline, TeamMember, TeamPipeline
from agentscope.state import AgentState
from agentscope.tool import FunctionTool, Toolkit
from agentscope.types import ReplyFinishedReason
from reme_agentscope import ReMeMiddleware

from reme_core import AsyncReMe
from reme_core.errors import InputError
from reme_core.testing import ScriptedModel, clock
from reme_core.turn import TOOLS_HINT
from reme_core.types import Kind, Memory
from tests.integrations.agentscope_driver import AllowedTool, FakeModel
from tests.integrations.inside import ASKED, TOLD, fetch, hold_up_recalls, stored_rows
from tests.second_environment import CHECKOUT, python_with_version_1  # noqa: F401 - a fixture

HERE = Path(__file__).parent


def agent_of(model: ScriptedModel, memory: ReMeMiddleware, **options: Any) -> Agent:
    return Agent("assistant", "You are helpful.", FakeModel(model), middlewares=[memory], **options)


async def test_a_task_that_an_agent_gives_by_a_tool_is_not_said_by_the_user(
    reme: AsyncReMe, model: ScriptedModel
) -> None:
    writer = agent_of(ScriptedModel(), ReMeMiddleware(reme, "alice", write="awaited"))
    asked = UserMsg("user", "A poem, please.")

    async def write(task: str) -> str:
        """Write a text."""
        return (await writer.reply([asked, UserMsg("user", task)])).get_text_content() or ""

    memory = ReMeMiddleware(reme, "alice", write="awaited", session_id="s")
    tools = Toolkit(tools=[AllowedTool(write)])
    boss = Agent("boss", "You are helpful.", FakeModel(model), middlewares=[memory], toolkit=tools)
    model.call("write", task=TOLD)
    await boss.reply(asked)
    await writer.reply(UserMsg("user", "Shorter, please."))
    rows = await fetch(
        reme, "alice", "select author, content from reme.message where role = 'user' order by document_id"
    )
    said = ("", "A poem, please.")  # in both conversations
    assert sorted(map(tuple, rows)) == sorted([said, ("boss", TOLD), said, ("", "Shorter, please.")])


async def test_a_team_and_a_goal_record_what_the_user_said_alone_as_the_users(reme: AsyncReMe) -> None:
    memory = ReMeMiddleware(reme, "alice", write="awaited", session_id="s")
    models = boss, writer, checker = ScriptedModel(), ScriptedModel(), ScriptedModel()
    agents = [Agent(f"a{n}", "Help.", FakeModel(one), middlewares=[memory]) for n, one in enumerate(models)]
    boss.call("TeamAssign", member="a1", prompt="Write a poem.")
    team = TeamPipeline(agents[0], [TeamMember(agent=agents[1], description="Writes.")])
    [_ async for _ in team.reply_stream(UserMsg("user", "A poem, please."))]
    writer.call("GenerateStructuredOutput", report="I wrote it.")
    checker.call("GenerateStructuredOutput", result="pass", message="Well done.")
    goal = GoalPipeline(agents[1], agents[2])
    [_ async for _ in goal.reply_stream(UserMsg("user", TOLD))]
    rows = await stored_rows(reme, "role, author, content")
    assert [(who, words) for role, who, words in rows if role == "user"] == [
        ("", "A poem, please."),
        ("a0", "Write a poem."),
        ("", TOLD),
        ("", TOLD),  # as the goal that is checked
    ]


async def test_a_note_is_shown_and_never_stored(reme: AsyncReMe, model: ScriptedModel) -> None:
    await reme.memories.add("alice", "Rex is a dachshund.")
    memory = ReMeMiddleware(reme, "alice")
    agent = agent_of(model, memory)
    await agent.reply(UserMsg(name="user", content="What is Rex?"))
    assert "dachshund" in model.last_prompt
    assert "dachshund" not in agent.state.model_dump_json()
    assert agent.state.middle_context == {}


async def test_an_interrupted_reply_is_not_recorded_and_its_question_is(reme: AsyncReMe, model: ScriptedModel) -> None:
    memory = ReMeMiddleware(reme, "alice", write="awaited")
    agent = agent_of(model, memory)
    model.hold()
    turn = asyncio.ensure_future(agent.reply(UserMsg(name="user", content=TOLD)))
    await model.answering.wait()
    turn.cancel()
    reply = await turn
    assert reply.finished_reason == ReplyFinishedReason.INTERRUPTED
    assert await stored_rows(reme) == [("user", TOLD)]


async def test_a_stream_that_is_left_early_keeps_the_question(reme: AsyncReMe, model: ScriptedModel) -> None:
    memory = ReMeMiddleware(reme, "alice", write="awaited")
    stream = agent_of(model, memory).reply_stream(UserMsg(name="user", content=TOLD))
    async for _ in stream:
        break
    await stream.aclose()
    await asyncio.sleep(0.1)  # AgentScope leaves its inner generators to the event loop to close
    await memory.aclose()
    assert await stored_rows(reme) == [("user", TOLD)]


async def ask_and_wait(agent: Agent, model: ScriptedModel, question: str) -> UserConfirmResultEvent:
    """Ask what needs the clock, which a person must allow, and return the event that allows it."""
    model.call("clock")
    events = [event async for event in agent.reply_stream(UserMsg(name="user", content=question))]
    asked = next(event for event in events if isinstance(event, RequireUserConfirmEvent))
    calls = [call for call in asked.tool_calls if isinstance(call, ToolCallBlock)]
    results = [ConfirmResult(confirmed=True, tool_call=call) for call in calls]
    return UserConfirmResultEvent(reply_id=asked.reply_id, confirm_results=results)


def with_clock() -> Toolkit:
    return Toolkit(tools=[FunctionTool(clock)])


async def test_a_reply_that_waits_for_a_person_goes_on_elsewhere_with_its_note(
    reme: AsyncReMe, model: ScriptedModel
) -> None:
    await reme.memories.add("alice", "Rex is a dachshund.")
    first = agent_of(model, ReMeMiddleware(reme, "alice", write="awaited"), toolkit=with_clock())
    confirmed = await ask_and_wait(first, model, "When does Rex eat?")
    assert await stored_rows(reme) == [("user", "When does Rex eat?")]
    state = AgentState.model_validate(json.loads(first.state.model_dump_json()))

    memory = ReMeMiddleware(reme, "alice", write="awaited")
    second = agent_of(model, memory, toolkit=with_clock(), state=state)
    model.say("At noon.")
    reply = await second.reply(confirmed)
    assert reply.get_text_content() == "At noon."
    assert "dachshund" in model.last_prompt
    assert memory.turn.counts.recalls == 0
    rows = await stored_rows(reme, "role, author, content, tool_calls")
    assert [row[:3] for row in rows] == [
        ("user", "", "When does Rex eat?"),
        ("assistant", "assistant", ""),
        ("tool", "clock", "It is noon."),
        ("assistant", "assistant", "At noon."),
    ]
    assert [call["name"] for call in rows[1][3]] == ["clock"]


async def test_a_message_that_is_refused_while_a_reply_waits_leaves_the_reply_as_it_was(
    reme: AsyncReMe, model: ScriptedModel
) -> None:
    await reme.memories.add("alice", "Rex is a dachshund.")
    memory = ReMeMiddleware(reme, "alice", write="awaited")
    agent = agent_of(model, memory, toolkit=with_clock())
    confirmed = await ask_and_wait(agent, model, "When does Rex eat?")
    kept = json.dumps(agent.state.middle_context)
    with pytest.raises(ValueError, match="waiting"):
        await agent.reply(UserMsg(name="user", content="Never mind."))
    assert json.dumps(agent.state.middle_context) == kept
    model.say("At noon.")
    await agent.reply(confirmed)
    assert "dachshund" in model.last_prompt
    assert memory.turn.counts.recalls == 1
    assert await stored_rows(reme) == [
        ("user", "When does Rex eat?"),
        ("user", "Never mind."),
        ("assistant", ""),
        ("tool", "It is noon."),
        ("assistant", "At noon."),
    ]
    assert agent.state.middle_context == {}


@pytest.mark.parametrize("end", ["fails", "is left", "is given up"])
async def test_the_question_of_a_reply_that_waited_is_kept_however_the_reply_ends(
    reme: AsyncReMe, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    memory = ReMeMiddleware(reme, "alice", write="awaited")
    agent = agent_of(model, memory, toolkit=with_clock())
    confirmed = await ask_and_wait(agent, model, TOLD)
    if end == "fails":

        async def fail(*asked: object, **options: object) -> None:
            raise RuntimeError("the provider is down")

        with monkeypatch.context() as broken:
            broken.setattr(agent.model, "_call_api", fail)
            with pytest.raises(RuntimeError, match="provider"):
                await agent.reply(confirmed)
    elif end == "is left":
        stream = agent.reply_stream(confirmed)
        async for _ in stream:
            break
        await stream.aclose()
        await asyncio.sleep(0.1)  # as above
    else:
        await agent.observe(UserMsg(name="user", content="Rex barks."))  # now AgentScope waits no more
    await agent.reply(UserMsg(name="user", content=ASKED))
    observed = [("user", "Rex barks.")] if end == "is given up" else []
    assert await stored_rows(reme) == [("user", TOLD), *observed, ("user", ASKED), ("assistant", "ok")]
    assert agent.state.middle_context == {}


async def test_what_an_agent_observes_is_recorded_with_its_next_reply(reme: AsyncReMe, model: ScriptedModel) -> None:
    memory = ReMeMiddleware(reme, "alice", session_id="s1", write="awaited")
    agent, other = agent_of(model, memory), Agent("other", "", FakeModel(model), middlewares=[memory])
    for words in ("Rex barks.", "Rex sleeps."):
        heard = UserMsg(name="neighbour", content=words)
        await agent.observe(heard)
        await other.observe(await agent.reply(UserMsg(name="user", content="What is new?")))
    await other.reply(None)
    rows = await stored_rows(reme, "author, content, session_id")
    turn = [("neighbour", "Rex barks."), ("", "What is new?"), ("assistant", "ok")]
    assert [row[:2] for row in rows] == [*turn, ("neighbour", "Rex sleeps."), *turn[1:], ("other", "ok")]
    assert {row[2] for row in rows} == {"s1"}


@pytest.mark.parametrize("inputs", [None, []])
async def test_a_reply_to_what_was_observed_alone_recalls_for_it_and_is_recorded(
    reme: AsyncReMe, model: ScriptedModel, inputs: Any
) -> None:
    await reme.memories.add("alice", "Rex is a dachshund.")
    memory = ReMeMiddleware(reme, "alice", write="awaited")
    agent = agent_of(model, memory)
    await agent.observe(UserMsg(name="user", content="What is Rex?"))
    await agent.reply(inputs)
    assert "dachshund" in model.last_prompt
    assert await stored_rows(reme) == [("user", "What is Rex?"), ("assistant", "ok")]
    assert agent.state.middle_context == {}


@pytest.mark.parametrize("position", ["user", "system"])
async def test_an_agent_that_answers_another_agent_is_shown_the_note(
    reme: AsyncReMe, model: ScriptedModel, position: Any
) -> None:
    await reme.memories.add("alice", Memory(kind=Kind.INSTRUCTION, content="Answer in metric units."))
    await reme.memories.add("alice", "Rex the dog weighs nine kilograms.")
    memory = ReMeMiddleware(reme, "alice", write="awaited", position=position)
    asker = Agent("asker", "You ask.", FakeModel(model))
    model.say("How heavy is the dog Rex?")
    model.say("Nine kilograms.")
    answerer = agent_of(model, memory)
    await answerer.observe(UserMsg(name="user", content="We talk about dogs."))
    await answerer.reply(await asker.reply(UserMsg(name="user", content="Ask something.")))
    noted = [message for message in model.prompts[-1] if "nine kilograms" in message.text]
    assert ["metric" in message.text for message in noted] == [True]
    place = "You are helpful." if position == "system" else "How heavy is the dog Rex?"
    assert place in noted[0].text
    rows = await stored_rows(reme, "role, author, content")
    assert rows == [
        ("user", "", "We talk about dogs."),
        ("user", "asker", "How heavy is the dog Rex?"),
        ("assistant", "assistant", "Nine kilograms."),
    ]


async def test_two_middlewares_of_an_agent_have_notes_of_their_own(reme: AsyncReMe, model: ScriptedModel) -> None:
    for user_id, breed in (("ann", "dachshund"), ("bob", "poodle")):
        await reme.memories.add("alice", Memory(kind=Kind.CUSTOM, content=f"Rex is a {breed}.", user_id=user_id))
    both = [ReMeMiddleware(reme, "alice", user_id=user_id, write="awaited") for user_id in ("ann", "bob")]
    agent = Agent("assistant", "You are helpful.", FakeModel(model), middlewares=list(both))
    for question in ("What breed is Rex?", "And which breed is Rex really?"):
        await agent.reply(UserMsg(name="user", content=question))
        assert [model.last_prompt.count(f"Rex is a {breed}.") for breed in ("dachshund", "poodle")] == [1, 1]
    assert agent.state.middle_context == {}


async def test_two_middlewares_for_the_same_memory_are_refused(reme: AsyncReMe, model: ScriptedModel) -> None:
    both = [ReMeMiddleware(reme, "alice", kinds=[kind]) for kind in ("personal", "task")]
    agent = Agent("assistant", "You are helpful.", FakeModel(model), middlewares=list(both))
    with pytest.raises(InputError, match="two middlewares for the same memory"):
        await agent.reply(UserMsg(name="user", content=ASKED))


async def test_an_agent_does_not_get_the_tools_of_another_persons_memory(reme: AsyncReMe, model: ScriptedModel) -> None:
    tools = Toolkit()
    ann, bob = (ReMeMiddleware(reme, "alice", user_id=user_id, mode="both") for user_id in ("ann", "bob"))
    await agent_of(model, ann, toolkit=tools).reply(UserMsg(name="user", content=ASKED))
    with pytest.raises(InputError, match="a Toolkit of its own"):
        await agent_of(model, bob, toolkit=tools).reply(UserMsg(name="user", content=ASKED))


async def test_a_message_that_two_agents_hear_is_recorded_once_in_each_conversation(
    reme: AsyncReMe, model: ScriptedModel
) -> None:
    told = UserMsg(name="user", content=TOLD)
    for session_id in (None, None, "s1", "s1"):
        await agent_of(model, ReMeMiddleware(reme, "alice", session_id=session_id, write="awaited")).reply(told)
    said = "select session_id, content from reme.message where role = 'user' order by document_id"
    rows = await fetch(reme, "alice", said)
    assert [content for _, content in rows] == [TOLD] * 3
    assert len({session for session, _ in rows}) == 3


async def test_a_reply_that_is_cancelled_while_it_recalls_ends_as_interrupted(
    reme: AsyncReMe, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    recalling = await hold_up_recalls(reme, monkeypatch)
    agent = agent_of(model, ReMeMiddleware(reme, "alice", write="awaited"))
    events: list[Any] = []

    async def reply() -> None:
        async for event in agent.reply_stream(UserMsg(name="user", content=TOLD)):
            events.append(event)

    turn = asyncio.ensure_future(reply())
    await asyncio.to_thread(recalling.wait, 20)
    turn.cancel()
    await turn
    assert model.prompts == []
    assert await stored_rows(reme) == [("user", TOLD)]
    assert isinstance(events[-1], ReplyEndEvent)
    assert events[-1].finished_reason == ReplyFinishedReason.INTERRUPTED


async def test_an_agent_that_tends_its_memory_has_the_tools_and_is_told(reme: AsyncReMe, model: ScriptedModel) -> None:
    memory = ReMeMiddleware(reme, "alice", mode="both", write="awaited")
    toolkit = Toolkit()
    agent = agent_of(model, memory, toolkit=toolkit)
    model.call("update_memory", memory_id="nothing", content="Rex is a poodle.")
    await agent.reply(UserMsg(name="user", content="Remember my dog."))
    system = model.prompts[0][0]
    assert system.role == "system"
    assert TOOLS_HINT in system.text
    results = [block for msg in agent.state.context for block in msg.get_content_blocks("tool_result")]
    assert [block.state for block in results] == [ToolResultState.ERROR]
    stranger = agent_of(model, ReMeMiddleware(reme, "bob", mode="both"), toolkit=toolkit)
    with pytest.raises(InputError, match=r"another memory .*alice"):
        await stranger.reply(UserMsg(name="user", content="What is Rex?"))
    await agent_of(model, ReMeMiddleware(reme, "alice")).reply(UserMsg(name="user", content="Hello."))
    assert "search_memory" not in model.prompts[-1][0].text


async def test_the_agent_alone_decides_in_agent_control(reme: AsyncReMe, model: ScriptedModel) -> None:
    memory = ReMeMiddleware(reme, "alice", mode="agent_control", write="awaited")
    agent = agent_of(model, memory)
    model.call("add_memory", content="Rex is a dachshund.")
    await agent.reply(UserMsg(name="user", content="Remember my dog."))
    assert await stored_rows(reme) == []
    [known] = await reme.memories.list("alice")
    model.call("search_memory", query="Rex")
    await agent.reply(UserMsg(name="user", content="What is Rex?"))
    assert f"[{known.memory_id}] Rex is a dachshund." in model.last_prompt
    assert memory.turn.counts.recalls == 0
    model.call("forget_memory", memory_id=known.memory_id)
    await agent.reply(UserMsg(name="user", content="Forget him."))
    assert await reme.memories.list("alice") == []


async def test_tools_are_described_for_the_model(reme: AsyncReMe) -> None:
    tools = {tool.name: tool for tool in await ReMeMiddleware(reme, "alice", mode="both").list_tools()}
    assert list(tools) == ["search_memory", "add_memory", "update_memory", "forget_memory"]
    assert tools["search_memory"].input_schema["required"] == ["query"]
    assert [name for name, tool in tools.items() if tool.is_read_only] == ["search_memory"]
    assert await ReMeMiddleware(reme, "alice").list_tools() == []


async def test_what_does_not_fit_is_said(reme: AsyncReMe) -> None:
    with pytest.raises(InputError, match="mode is"):
        ReMeMiddleware(reme, "alice", mode="telepathy")  # type: ignore[arg-type]
    with pytest.raises(ImportError, match=r"AgentScope 1, and 2.*use ReMeMiddleware"):
        _ = reme_agentscope.ReMeLongTermMemory
    with pytest.raises(AttributeError):
        _ = reme_agentscope.nothing


def test_all_that_is_for_the_installed_version_is_imported() -> None:
    names: dict[str, object] = {}
    exec("from reme_agentscope import *", names)
    assert names["ReMeMiddleware"] is ReMeMiddleware


# --- version 1, in an environment of its own --------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_the_rules_are_kept_with_version_1(
    python_with_version_1: str,  # noqa: F811
    database_url: str,
) -> None:
    command = [python_with_version_1, str(HERE / "agentscope1_run.py"), database_url]
    variables = {**os.environ, **CHECKOUT}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "AgentScope 1: keeps all rules" in done.stdout
