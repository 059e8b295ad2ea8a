"""How the tools of a framework's agent fare is told to tool memory, by each adapter."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import pytest
from agentscope.agent import Agent
from agentscope.event import ConfirmResult, RequireUserConfirmEvent, UserConfirmResultEvent
from agentscope.message import ToolCallBlock, UserMsg
from agentscope.state import AgentState
from agentscope.tool import FunctionTool as AgentScopeTool
from agentscope.tool import Toolkit
from autogen_agentchat.agents import AssistantAgent
from autogen_core.model_context import UnboundedChatCompletionContext
from autogen_core.tools import FunctionTool
from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from llama_index.core.agent.workflow import FunctionAgent, ReActAgent
from llama_index.core.memory import Memory
from llama_index.core.tools import FunctionTool as LlamaIndexTool
from reme_agentscope import ReMeMiddleware as AgentScopeMemory
from reme_autogen import ReMeAssistantAgent
from reme_autogen import ReMeMemory as AutoGenMemory
from reme_langchain import ReMeMiddleware as LangChainMemory
from reme_llamaindex import ConversationStore, ReMeMemoryBlock
from reme_llamaindex import ReMeMemory as LlamaIndexMemory

from reme_core import AsyncReMe
from reme_core.settings import Settings
from reme_core.store.tool_calls import ToolStatistics
from reme_core.testing import Conversation, Driver, ScriptedModel, clock
from reme_core.turn import TurnMemory, tool_call_result
from tests.integrations.agentscope_driver import AgentScopeDriver, FakeModel
from tests.integrations.autogen_driver import AutoGenDriver, FakeClient
from tests.integrations.inside import fetch
from tests.integrations.langchain_driver import LangChainDriver, ScriptedChat
from tests.integrations.llamaindex_driver import LlamaIndexDriver, ScriptedLLM

KINDS = ("conversation", "tool")


async def known(reme: AsyncReMe) -> dict[str, ToolStatistics]:
    return {tool.tool_name: tool for tool in await reme.tools.statistics("alice")}


async def ask(model: ScriptedModel, conversation: Conversation, city: str) -> None:
    model.call("clock", city=city)
    with contextlib.suppress(ValueError):  # LangChain lets what a tool raises end the run
        await conversation.say(f"What time is it in {city}?")


@pytest.mark.parametrize(
    ("driver", "timed"),
    [
        (AutoGenDriver("agent"), True),
        (AutoGenDriver("memory"), False),  # a model context says nothing of time
        (AutoGenDriver("context"), False),
        (AgentScopeDriver(), True),
        (AgentScopeDriver("agent_control"), True),
        (LangChainDriver(), True),
        (LlamaIndexDriver(), True),
    ],
    ids=lambda value: value.name if isinstance(value, Driver) else "",
)
async def test_a_success_and_a_failure_are_counted(
    reme: AsyncReMe, model: ScriptedModel, driver: Driver, timed: bool
) -> None:
    options = {"client": reme, "workspace_id": "alice", "kinds": KINDS, "write": "awaited"}
    conversation = await driver.start(model, options)
    await ask(model, conversation, "Lisbon")
    await ask(model, conversation, "Atlantis")
    await conversation.aclose()
    fared = await known(reme)
    assert list(fared) == ["clock"]
    assert (fared["clock"].calls, fared["clock"].success_rate) == (2, 0.5)
    assert "no clock in Atlantis" in fared["clock"].recent_errors[0]
    assert (fared["clock"].time_p50 is not None) == timed
    given = await fetch(reme, "alice", "select input from reme.tool_call_result where success")
    assert given == [({"city": "Lisbon"},)]


async def test_a_call_that_is_handed_over_again_is_counted_once(reme: AsyncReMe) -> None:
    call = tool_call_result("clock", {}, "noon", True, "session", "message", "call-1")
    for _ in range(2):  # the second is another process; the database knows
        async with TurnMemory(reme, "alice", kinds=["tool"]) as turn:
            assert turn.record_calls([call]) == 1
            assert turn.record_calls([call]) == 0
    assert (await known(reme))["clock"].calls == 1


async def test_nothing_is_kept_unless_tools_are_among_the_kinds_and_writing_is_on(reme: AsyncReMe) -> None:
    call = tool_call_result("clock", {}, "noon", True)
    for options in ({}, {"kinds": ["tool"], "write": "off"}):
        async with TurnMemory(reme, "alice", **options) as turn:  # type: ignore[arg-type]
            assert turn.record_calls([call]) == 0
    assert await known(reme) == {}


async def test_a_call_that_is_refused_does_not_hold_up_messages(reme: AsyncReMe) -> None:
    from reme_core.errors import InputError
    from reme_core.types import Message

    async def refuse(*_: Any) -> Any:
        raise InputError("not this one")

    async with TurnMemory(reme, "alice", kinds=["tool"], write="awaited") as turn:
        reme.tools.record = refuse  # type: ignore[method-assign]
        turn.record_calls([tool_call_result("clock", {}, "noon", True)])
        await turn.record([Message(content="Hello.")])
        assert turn.counts.messages == 1


# --- AutoGen ----------------------------------------------------------------------------------------------------------


async def test_a_restored_autogen_context_counts_its_calls_once(reme: AsyncReMe, model: ScriptedModel) -> None:
    context = UnboundedChatCompletionContext()
    tools = [FunctionTool(clock, description="Tell the time.")]
    for turn in range(2):
        memory = AutoGenMemory(reme, "alice", session_id="monday", kinds=KINDS, write="awaited")
        agent = AssistantAgent("assistant", FakeClient(model), memory=[memory], model_context=context, tools=tools)  # type: ignore[arg-type]
        if turn == 0:
            model.call("clock", city="Lisbon")
        await agent.run(task="What time is it?")
        await memory.close()
        restored = UnboundedChatCompletionContext()
        await restored.load_state(await context.save_state())
        context = restored
    assert (await known(reme))["clock"].calls == 1


async def test_memory_tools_are_no_tools_of_the_agents(reme: AsyncReMe, model: ScriptedModel) -> None:
    memory = AutoGenMemory(reme, "alice", kinds=KINDS, write="awaited")
    agent = ReMeAssistantAgent(
        "assistant", FakeClient(model), memory=[memory], memory_tools=True, max_tool_iterations=2
    )
    model.call("search_memory", query="Rex")
    await agent.run(task="What do you know of Rex?")
    await agent.close()
    assert await known(reme) == {}


# --- AgentScope -------------------------------------------------------------------------------------------------------


async def test_an_agentscope_reply_that_is_resumed_twice_counts_its_call_once(
    reme: AsyncReMe, model: ScriptedModel
) -> None:
    def agent(memory: AgentScopeMemory, state: AgentState | None = None) -> Agent:
        toolkit = Toolkit(tools=[AgentScopeTool(clock)])  # it asks a person
        return Agent("assistant", "Be helpful.", FakeModel(model), toolkit=toolkit, middlewares=[memory], state=state)

    async with AgentScopeMemory(reme, "alice", kinds=KINDS, write="awaited") as memory:
        first = agent(memory)
        model.call("clock", city="Lisbon")
        events = [event async for event in first.reply_stream(UserMsg(name="user", content="What time is it?"))]
        asked = next(event for event in events if isinstance(event, RequireUserConfirmEvent))
        assert await known(reme) == {}
        written = first.state.model_dump_json()
        for _ in range(2):
            resumed = agent(memory, AgentState.model_validate(json.loads(written)))
            calls = [call for call in asked.tool_calls if isinstance(call, ToolCallBlock)]
            confirmed = [ConfirmResult(confirmed=True, tool_call=call) for call in calls]
            await resumed.reply(UserConfirmResultEvent(reply_id=asked.reply_id, confirm_results=confirmed))
    assert (await known(reme))["clock"].calls == 1


# --- LangChain --------------------------------------------------------------------------------------------------------


async def test_a_langgraph_run_that_is_replayed_counts_its_call_once(reme: AsyncReMe, model: ScriptedModel) -> None:
    async with LangChainMemory(reme, "alice", kinds=KINDS, write="awaited") as memory:
        agent: Any = create_agent(ScriptedChat(model), [tool(clock)], middleware=[memory], checkpointer=InMemorySaver())
        config = {"configurable": {"thread_id": "monday"}}
        model.call("clock", city="Lisbon")
        await agent.ainvoke({"messages": [("user", "What time is it?")]}, config)
        before_tools = [state async for state in agent.aget_state_history(config) if state.next == ("tools",)]
        await agent.ainvoke(None, before_tools[0].config)
    assert (await known(reme))["clock"].calls == 1


async def test_a_langchain_tool_that_asks_a_person_has_neither_worked_nor_failed_yet(
    reme: AsyncReMe, model: ScriptedModel
) -> None:
    @tool
    def pay(amount: int) -> str:
        """Pay an amount of money."""
        return f"paid {amount}, as {interrupt('May I?')} said"

    async with LangChainMemory(reme, "alice", kinds=KINDS, write="awaited") as memory:
        agent: Any = create_agent(ScriptedChat(model), [pay], middleware=[memory], checkpointer=InMemorySaver())
        config = {"configurable": {"thread_id": "monday"}}
        model.call("pay", amount=7)
        await agent.ainvoke({"messages": [("user", "Pay.")]}, config)
        assert await known(reme) == {}
        await agent.ainvoke(Command(resume="Bob"), config)
    fared = (await known(reme))["pay"]
    assert (fared.calls, fared.success_rate) == (1, 1.0)


def test_a_langchain_run_without_a_loop_tells_of_its_tools(settings: Settings, model: ScriptedModel) -> None:
    memory = LangChainMemory(settings, "alice", kinds=KINDS)
    agent: Any = create_agent(ScriptedChat(model), [tool(clock)], middleware=[memory])
    model.call("clock", city="Lisbon")
    agent.invoke({"messages": [("user", "What time is it?")]})
    with pytest.raises(ValueError, match="Atlantis"):
        model.call("clock", city="Atlantis")
        agent.invoke({"messages": [("user", "And there?")]})
    memory.close()

    async def fared() -> dict[str, ToolStatistics]:
        async with AsyncReMe(settings) as opened:
            return await known(opened)

    clocks = asyncio.run(fared())["clock"]
    assert (clocks.calls, clocks.success_rate) == (2, 0.5)


# --- LlamaIndex -------------------------------------------------------------------------------------------------------


async def test_agents_that_put_no_tool_messages_and_stock_memories_with_a_block_tell_of_tools(
    reme: AsyncReMe, model: ScriptedModel
) -> None:
    tools = [LlamaIndexTool.from_defaults(clock)]
    block = ReMeMemoryBlock(reme, "alice", kinds=KINDS)
    ours = LlamaIndexMemory(reme, "alice", kinds=KINDS, write="awaited")
    stock = Memory.from_defaults(memory_blocks=[block], chat_store=ConversationStore())
    for memory in (ours, stock):
        model.say('Thought: I need a tool.\nAction: clock\nAction Input: {"city": "Lisbon"}')
        model.say("Thought: I can answer without using any more tools.\nAnswer: It is noon.")
        await ReActAgent(llm=ScriptedLLM(model), tools=tools).run("What time is it?", memory=memory)  # type: ignore[arg-type]
        await ours.aclose()
        await block.aclose()
        assert (await known(reme))["clock"].calls == (1 if memory is ours else 2)


async def test_calls_that_a_model_gives_one_id_are_counted_each(reme: AsyncReMe, model: ScriptedModel) -> None:
    agent = FunctionAgent(llm=ScriptedLLM(model), tools=[LlamaIndexTool.from_defaults(clock)])
    async with LlamaIndexMemory(reme, "alice", kinds=KINDS, write="awaited") as memory:
        for _ in range(3):
            model.call("clock", call_id="clock", city="Lisbon")  # as Ollama names them
        await agent.run("What time is it?", memory=memory)
    assert (await known(reme))["clock"].calls == 3


async def test_a_llamaindex_run_without_our_memory_is_let_alone(reme: AsyncReMe, model: ScriptedModel) -> None:
    async with LlamaIndexMemory(reme, "alice", kinds=KINDS):
        model.say('Thought: I need a tool.\nAction: clock\nAction Input: {"city": "Lisbon"}')
        agent = ReActAgent(llm=ScriptedLLM(model), tools=[LlamaIndexTool.from_defaults(clock)])
        await agent.run("What time is it?", memory=Memory.from_defaults(chat_store=ConversationStore()))
    assert await known(reme) == {}
