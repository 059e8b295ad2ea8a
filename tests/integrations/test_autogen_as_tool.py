"""An AutoGen agent, or a team, as the tool of another agent: its task is what that agent says, and not the user."""

from __future__ import annotations

from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent, BaseChatAgent
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_agentchat.tools import AgentTool, TeamTool
from reme_autogen import ReMeAssistantAgent, ReMeMemory, ReMeModelContext

from reme_core import AsyncReMe
from reme_core.testing import ScriptedModel
from tests.integrations.autogen_driver import FakeClient
from tests.integrations.inside import stored_rows

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
