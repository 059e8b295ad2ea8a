"""An AutoGen agent that hears the user through others: as the tool of an agent, by a handoff, or after it in a team."""

from __future__ import annotations

from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent, BaseChatAgent
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.teams import RoundRobinGroupChat, Swarm
from autogen_agentchat.tools import AgentTool, TeamTool
from reme_autogen import ReMeAssistantAgent, ReMeMemory, ReMeModelContext

from reme_core import AsyncReMe
from reme_core.testing import ScriptedModel
from tests.integrations.autogen_driver import FakeClient
from tests.integrations.inside import ASKED, TOLD, stored_rows

TASK = "I live in Paris with my dog Rex."  # words that are kept of a user
HOWS = pytest.mark.parametrize("how", ["agent", "memory", "context"])


def writer_of(reme: AsyncReMe, how: str) -> BaseChatAgent:
    memory, client = ReMeMemory(reme, "alice", session_id="s", write="awaited"), FakeClient(ScriptedModel())
    if how == "agent":
        return ReMeAssistantAgent("writer", client, memory=[memory], description="Writes.")
    if how == "memory":
        return AssistantAgent("writer", client, memory=[memory], description="Writes.")
    return AssistantAgent("writer", client, model_context=ReMeModelContext(memory), description="Writes.")


@HOWS
@pytest.mark.parametrize("in_team", [False, True])
async def test_a_task_is_said_by_the_agent_that_gives_it(
    reme: AsyncReMe, model: ScriptedModel, how: str, in_team: bool
) -> None:
    writer = writer_of(reme, how)
    team = RoundRobinGroupChat([writer], termination_condition=MaxMessageTermination(2))
    tool: Any = TeamTool(team, "writers", "Write.") if in_team else AgentTool(writer)
    boss = AssistantAgent("boss", FakeClient(model), tools=[tool])  # without a memory
    for _ in range(2):
        model.call(tool.name, task=TASK)
        await boss.run(task="A poem, please.")
    assert await stored_rows(reme, "role, author, content") == 2 * [
        ("user", "boss", TASK),
        ("assistant", "writer", "ok"),
    ]


@HOWS
async def test_an_agent_that_was_a_tool_hears_the_user_again(reme: AsyncReMe, model: ScriptedModel, how: str) -> None:
    writer = writer_of(reme, how)
    model.call("writer", task=TASK)
    await AssistantAgent("boss", FakeClient(model), tools=[AgentTool(writer)]).run(task="A poem, please.")
    await writer.run(task="Shorter, please.")
    said = await stored_rows(reme, "role, author, content")
    assert [row for row in said if row[0] == "user"] == [("user", "boss", TASK), ("user", "", "Shorter, please.")]


@HOWS
async def test_an_agent_that_is_handed_a_question_recalls_for_the_question(reme: AsyncReMe, how: str) -> None:
    await reme.record("alice", [{"role": "user", "content": TOLD}], session_id="earlier", wait=True)
    model, writer = ScriptedModel(), writer_of(reme, how)
    model.call("transfer_to_writer")
    boss = ReMeAssistantAgent("boss", FakeClient(model), memory=[ReMeMemory(reme, "alice")], handoffs=["writer"])
    seen: ScriptedModel = writer._model_client.model
    await Swarm([boss, writer], termination_condition=MaxMessageTermination(3)).run(task=ASKED)
    assert TOLD in seen.last_prompt


@HOWS
async def test_an_agent_that_speaks_after_another_recalls_for_the_question(reme: AsyncReMe, how: str) -> None:
    await reme.record("alice", [{"role": "user", "content": TOLD}], session_id="earlier", wait=True)
    model, writer = ScriptedModel(), writer_of(reme, how)
    model.say("I have no idea, my friend.")
    team = [AssistantAgent("thinker", FakeClient(model)), writer]
    await RoundRobinGroupChat(team, termination_condition=MaxMessageTermination(3)).run(task=ASKED)
    seen: ScriptedModel = writer._model_client.model
    assert TOLD in seen.last_prompt
