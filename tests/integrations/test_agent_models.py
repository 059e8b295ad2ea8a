"""The agent's own model reads for its memory, in every adapter that takes one."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from agentscope.agent import Agent
from agentscope.message import UserMsg
from langchain.agents import create_agent
from llama_index.core.agent.workflow import FunctionAgent
from reme_agentscope import ReMeMiddleware
from reme_autogen import ReMeAssistantAgent, ReMeMemory
from reme_langchain import ReMeMiddleware as LangChainMiddleware
from reme_llamaindex import ReMeMemory as LlamaIndexMemory

from reme_core import AsyncReMe, Settings
from reme_core.errors import InputError, ModelUnavailableError
from reme_core.testing import COMPLETION_TOKENS, PROMPT_TOKENS, ScriptedModel
from reme_core.turn import AgentChat, Completion
from reme_core.types import Message
from tests.integrations.agentscope_driver import FakeModel
from tests.integrations.autogen_driver import FakeClient
from tests.integrations.inside import TOLD
from tests.integrations.langchain_driver import ScriptedChat
from tests.integrations.llamaindex_driver import ScriptedLLM

READING = {
    "op": "add",
    "evidence": [1],
    "statement": "The user's dog Rex lives in Lisbon.",
    "value": "Lisbon",
    "thing": "Rex",
}
KINDS: dict[str, Any] = {
    "autogen": (ReMeMemory, FakeClient),
    "llamaindex": (LlamaIndexMemory, ScriptedLLM),
    "agentscope": (ReMeMiddleware, FakeModel),
    "langchain": (LangChainMiddleware, ScriptedChat),
}


async def run_turn(memory: Any, model: Any) -> None:
    if isinstance(memory, ReMeMemory):
        await ReMeAssistantAgent("assistant", model, memory=[memory]).run(task=TOLD)
    elif isinstance(memory, LlamaIndexMemory):
        await FunctionAgent(llm=model).run(user_msg=TOLD, memory=memory)
    elif isinstance(memory, LangChainMiddleware):
        await create_agent(model, middleware=[memory]).ainvoke({"messages": [{"role": "user", "content": TOLD}]})
    else:
        await Agent("assistant", "", model, middlewares=[memory]).reply(UserMsg(name="user", content=TOLD))


@pytest.mark.parametrize("framework", KINDS)
async def test_the_agents_model_reads_for_its_memory(framework: str, settings: Settings) -> None:
    kind, wrap = KINDS[framework]
    script = ScriptedModel()
    model = wrap(script)
    async with kind(settings, "alice", chat_model=model, write="awaited") as memory:
        script.say("ok")  # to the turn; on a slow machine the reading begins before the turn has ended here
        script.say(json.dumps({"operations": [READING]}))
        await run_turn(memory, model)
        turn = memory.turn if framework != "langchain" else memory._memory
        await turn.reme.summarise("alice")
        [known] = await turn.reme.memories.list("alice")
        assert known.content == READING["statement"]
        assert known.metadata["mode"] == "read"
        assert TOLD in script.last_prompt
        spent = turn.take_usage()
        assert (spent.calls, spent.prompt_tokens, spent.completion_tokens) == (1, PROMPT_TOKENS, COMPLETION_TOKENS)


@pytest.mark.parametrize("framework", KINDS)
async def test_an_open_memory_takes_no_model(framework: str, reme: AsyncReMe) -> None:
    kind, wrap = KINDS[framework]
    with pytest.raises(InputError, match="leave chat_model out"):
        kind(client=reme, workspace_id="alice", chat_model=wrap(ScriptedModel()))


async def test_a_model_whose_event_loop_has_ended_is_unavailable_for_now() -> None:
    async def answer(messages: list[Message]) -> Completion:
        return Completion("Yes.")

    chat = AgentChat("mine", answer)
    with pytest.raises(ModelUnavailableError, match="does not run"):
        await chat.complete([Message(content="Well?")])

    async def lend() -> None:
        chat.use_running_loop()

    await asyncio.to_thread(lambda: asyncio.run(lend()))
    with pytest.raises(ModelUnavailableError, match="does not run"):
        await chat.complete([Message(content="Well?")])
    chat.use_running_loop()
    assert (await chat.complete([Message(content="Well?")])).text == "Yes."


async def test_a_model_whose_event_loop_ends_meanwhile_does_not_cancel_who_waits() -> None:
    asked = asyncio.Event()
    here = asyncio.get_running_loop()

    async def answer(messages: list[Message]) -> Completion:
        here.call_soon_threadsafe(asked.set)
        await asyncio.Event().wait()
        raise AssertionError

    chat, ending = AgentChat("mine", answer), asyncio.Event()
    theirs: list[asyncio.AbstractEventLoop] = []

    async def lend() -> None:
        chat.use_running_loop()
        theirs.append(asyncio.get_running_loop())
        here.call_soon_threadsafe(lent.set)
        await ending.wait()

    lent = asyncio.Event()
    thread = asyncio.create_task(asyncio.to_thread(lambda: asyncio.run(lend())))
    await lent.wait()
    waiting = asyncio.create_task(chat.complete([Message(content="Well?")]))
    await asked.wait()
    theirs[0].call_soon_threadsafe(ending.set)
    with pytest.raises(ModelUnavailableError, match="has ended"):
        await waiting
    await thread
