"""Each framework's agent stays within its window, through the framework's own hook, and reads what left it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from agentscope.agent import Agent
from agentscope.message import UserMsg
from agentscope.tool import Toolkit
from autogen_agentchat.agents import AssistantAgent
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.tools import FunctionTool
from reme_agentscope import ReMeMiddleware as ReMeMiddleware2
from reme_autogen import ReMeAssistantAgent, ReMeMemory, ReMeModelContext, ReMeTool
from reme_langchain import ReMeMiddleware
from reme_llamaindex import ReMeMemory as LlamaIndexMemory

from reme_core import AsyncReMe
from reme_core.prompts.budget import most_tokens
from reme_core.testing import ScriptedModel
from tests.integrations.agentscope_driver import AllowedTool, FakeModel
from tests.integrations.autogen_driver import FakeClient
from tests.integrations.langchain_driver import ScriptedChat
from tests.integrations.llamaindex_driver import ScriptedLLM

WINDOW = 4_000
ROWS = 1_200


def read_log(job: int) -> str:
    """Read the log of a job."""
    return "\n".join(f"job {job} step {number} gave {number * 37 + job}" for number in range(ROWS))


def read_rows() -> list[dict[str, Any]]:
    """Read the rows of a log, in a part of its own, as some servers of tools give them."""
    return [{"type": "json", "json": [f"row {number} gave {number * 37}" for number in range(ROWS)]}]


def check(prompt: list[Any]) -> None:
    """What a model was shown is within three quarters of its window."""
    text = "\n".join(message.text for message in prompt)
    assert most_tokens(text) < 0.75 * WINDOW, most_tokens(text)


async def work(model: ScriptedModel, say: Callable[[str], Awaitable[str]], words: int = 100) -> None:
    """Let an agent read three logs, and ask it for what left its window; `say` gives what its model was shown last."""
    for job in range(3):
        model.call("read_log", job=job)
        await say(f"Read the log of job {job}. " + "It matters a lot to me. " * words)
    model.call("grep_working_memory", pattern="job 1 step 600 ")
    found = await say("What did step 600 of job 1 give?")
    check(model.prompts[-1])
    assert "job 1 step 600 gave 22201" in found and "Summary of" in found
    model.call("read_working_memory", handle=re.findall(r"(\w{12}) @", found)[0], offset=0)
    assert "job 1 step 0 gave 1" in await say("And its first step?")


async def test_langchain_with_a_result_that_is_no_text(reme: AsyncReMe) -> None:
    model = ScriptedModel()
    async with ReMeMiddleware(client=reme, workspace_id="alice", window=WINDOW, recall=False) as memory:
        agent: Any = create_agent(ScriptedChat(model), [tool(read_rows)], middleware=[memory])
        model.call("read_rows")
        await agent.ainvoke({"messages": [HumanMessage("What did row 600 give?")]})
    [shown] = [message.text for message in model.prompts[-1] if message.role == "tool"]
    assert "read_working_memory" in shown
    assert "row 0 gave 0" in shown
    check(model.prompts[-1])


@pytest.mark.parametrize("asynchronous", [True, False])
async def test_langchain(reme: AsyncReMe, asynchronous: bool) -> None:
    model = ScriptedModel()
    async with ReMeMiddleware(client=reme, workspace_id="alice", window=WINDOW, recall=False) as memory:
        agent: Any = create_agent(
            ScriptedChat(model), [tool(read_log)], middleware=[memory], checkpointer=InMemorySaver()
        )

        place: Any = {"configurable": {"thread_id": "t"}}

        async def say(text: str) -> str:
            asked = {"messages": [HumanMessage(text)]}
            await agent.ainvoke(asked, place) if asynchronous else agent.invoke(asked, place)
            check(model.prompts[-1])
            return model.last_prompt

        await work(model, say)
        # The state keeps everything, in order.
        said = agent.get_state(place).values["messages"]
        outputs = [str(m.text) for m in said if isinstance(m, ToolMessage)]
        assert outputs[:3] == [read_log(job) for job in range(3)]
        assert not any("Summary of" in str(m.text) for m in said)
        assert [m.tool_calls[0]["id"] for m in said if isinstance(m, AIMessage) and m.tool_calls] == [
            m.tool_call_id for m in said if isinstance(m, ToolMessage)
        ]


@pytest.mark.parametrize("how", ["agent", "context"])
async def test_autogen(reme: AsyncReMe, how: str) -> None:
    model = ScriptedModel()
    memory = ReMeMemory(client=reme, workspace_id="alice", window=WINDOW, kinds=())
    options: dict[str, Any] = {"tools": [read_log], "max_tool_iterations": 3, "reflect_on_tool_use": True}
    if how == "agent":
        agent: AssistantAgent = ReMeAssistantAgent("a", FakeClient(model), memory=[memory], **options)
    else:
        options["tools"] += ReMeTool.of_window(memory)
        agent = AssistantAgent("a", FakeClient(model), model_context=ReMeModelContext(memory), **options)

    async def say(text: str) -> str:
        await agent.run(task=text)
        check(model.prompts[-1])
        return model.last_prompt

    await work(model, say)
    kept = str(await agent.save_state())
    assert "Summary of" not in kept and "job 2 step 700 gave" in kept
    await memory.close()


async def test_agentscope(reme: AsyncReMe) -> None:
    model = ScriptedModel()
    async with ReMeMiddleware2(client=reme, workspace_id="alice", window=WINDOW, kinds=()) as memory:
        toolkit = Toolkit(tools=[AllowedTool(read_log)])
        agent = Agent("a", "You read logs.", FakeModel(model), toolkit=toolkit, middlewares=[memory])

        async def say(text: str) -> str:
            await agent.reply(UserMsg(name="user", content=text))
            check(model.prompts[-1])
            return model.last_prompt

        await work(model, say)
        assert "You read logs." in model.last_prompt
        kept = agent.state.model_dump_json()
        assert "Summary of" not in kept and "job 2 step 700 gave" in kept


async def test_llamaindex(reme: AsyncReMe) -> None:
    model = ScriptedModel()
    memory = LlamaIndexMemory(client=reme, workspace_id="alice", window=WINDOW, kinds=())
    tools = [FunctionTool.from_defaults(read_log), *memory.window_tools()]
    agent = FunctionAgent(name="a", llm=ScriptedLLM(model), tools=tools, streaming=False)

    async def say(text: str) -> str:
        await agent.run(text, memory=memory)
        check(model.prompts[-2])  # what this run itself has read stands beside its memory until the next one
        return model.last_prompt

    await work(model, say, words=130)
    kept = str([str(message) for message in await memory.aget_all()])
    assert "Summary of" not in kept and "job 2 step 700 gave" in kept
    await memory.aclose()
