"""One memory, four frameworks: what one agent learns, another one uses, a third one corrects and a fourth one recalls.

    pip install "reme-core[autogen,agentscope,langchain,llamaindex]"
    python examples/one_memory_four_frameworks.py

It runs offline: the embedded Postgres in a temporary folder (or the one of DATABASE_URL), the embedding model that
comes with reme-core, and chat models that answer by a script. What the models were shown is printed, since that is
what a memory is about.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reme_core import AsyncReMe, Settings

WHO = "alice"
SAID = "Please book my flights from Lisbon, where I live."
QUESTION = "Which airport do I fly from?"
MOVED = "The user lives in Porto and flies from Porto, no longer from Lisbon."


async def autogen_learns(reme: AsyncReMe) -> str:
    """An AutoGen agent is told something."""
    from autogen_core.models import ChatCompletionClient, CreateResult, ModelFamily, ModelInfo, RequestUsage
    from reme_autogen import ReMeAssistantAgent, ReMeMemory

    shown: list[str] = []

    class Scripted(ChatCompletionClient):
        component_config_schema = None  # type: ignore[assignment]  # it is never serialised

        async def create(self, messages: Sequence[Any], **_: Any) -> CreateResult:
            shown.append("\n".join(str(message.content) for message in messages))
            usage = RequestUsage(prompt_tokens=0, completion_tokens=0)
            return CreateResult(finish_reason="stop", content="I will.", usage=usage, cached=False)

        def create_stream(self, messages: Sequence[Any], **_: Any) -> Any:
            raise NotImplementedError

        async def close(self) -> None: ...

        def actual_usage(self) -> RequestUsage:
            return RequestUsage(prompt_tokens=0, completion_tokens=0)

        total_usage = actual_usage

        def count_tokens(self, messages: Sequence[Any], **_: Any) -> int:
            return 0

        remaining_tokens = count_tokens

        @property
        def model_info(self) -> ModelInfo:
            return ModelInfo(
                vision=False,
                function_calling=True,
                json_output=False,
                family=ModelFamily.UNKNOWN,
                structured_output=False,
            )

        capabilities = model_info

    agent = ReMeAssistantAgent("assistant", Scripted(), memory=[ReMeMemory(reme, WHO, write="awaited")])
    await agent.run(task=SAID)
    return shown[0]


async def langgraph_uses(reme: AsyncReMe) -> str:
    """A LangGraph agent, in a conversation of its own, needs it, and keeps it as a fact."""
    from langchain.agents import create_agent
    from langchain_core.language_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage
    from reme_langchain import ReMeMiddleware

    shown: list[str] = []

    class Scripted(GenericFakeChatModel):
        def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:
            return self

        def _generate(self, messages: Sequence[Any], *args: Any, **options: Any) -> Any:
            shown.append("\n".join(str(message.text) for message in messages))
            return super()._generate(list(messages), *args, **options)

    fact = {"content": "The user lives in Lisbon and flies from Lisbon."}
    calls = [{"name": "add_memory", "args": fact, "id": "1"}]
    model = Scripted(messages=iter([AIMessage("", tool_calls=calls), AIMessage("From Lisbon.")]))
    memory = ReMeMiddleware(reme, WHO, tools=True, write="awaited")
    await create_agent(model, middleware=[memory]).ainvoke({"messages": [{"role": "user", "content": QUESTION}]})
    return shown[0]


async def agentscope_corrects(reme: AsyncReMe) -> str:
    """An AgentScope agent hears that it is no longer so, looks the memory up, and corrects it."""
    from agentscope.agent import Agent
    from agentscope.formatter import OpenAIChatFormatter
    from agentscope.message import TextBlock, ToolCallBlock, UserMsg
    from agentscope.model import ChatModelBase, ChatResponse
    from agentscope.tool import Toolkit
    from reme_agentscope import ReMeMiddleware

    shown: list[str] = []

    class Scripted(ChatModelBase):
        def __init__(self) -> None:
            super().__init__(
                credential=None, model="scripted", parameters=self.Parameters(), stream=False, max_retries=0
            )
            self.formatter = OpenAIChatFormatter()

        async def _call_api(self, model_name: str, messages: list[Any], *_: Any, **__: Any) -> Any:
            shown.append(json.dumps(await self.formatter.format(messages), ensure_ascii=False))
            if len(shown) == 1:
                block: Any = ToolCallBlock(id="1", name="search_memory", input=json.dumps({"query": QUESTION}))
            elif len(shown) == 2:
                found = re.search(r"\[([0-9a-f]{32})\]", shown[-1])
                assert found is not None, "search_memory gives each memory with its id"
                change = json.dumps({"memory_id": found[1], "content": MOVED})
                block = ToolCallBlock(id="2", name="update_memory", input=change)
            else:
                block = TextBlock(text="Noted.")
            return ChatResponse(content=[block], is_last=True)

    memory = ReMeMiddleware(reme, WHO, mode="both", write="awaited")
    toolkit = Toolkit(tools=await memory.list_tools())
    agent = Agent("assistant", "You are helpful.", Scripted(), toolkit=toolkit, middlewares=[memory])
    await agent.reply(UserMsg(name="user", content="I moved to Porto. I fly from there now."))
    return shown[0]


async def llamaindex_recalls(reme: AsyncReMe) -> str:
    """A LlamaIndex agent is asked, and knows the fact as it is now."""
    from llama_index.core.agent.workflow import FunctionAgent
    from llama_index.core.llms.mock import MockFunctionCallingLLM
    from reme_llamaindex import ReMeMemory

    shown: list[str] = []

    class Scripted(MockFunctionCallingLLM):
        async def astream_chat(self, messages: Sequence[Any], **options: Any) -> Any:
            shown.append("\n".join(str(message.content) for message in messages))
            return await super().astream_chat(messages, **options)

    memory = ReMeMemory(reme, WHO, kinds=["personal"], write="awaited")
    with warnings.catch_warnings(action="ignore"):  # LlamaIndex's own deprecations
        await FunctionAgent(llm=Scripted()).run(user_msg=QUESTION, memory=memory)
    return shown[0]


async def main() -> None:
    """Hold the four conversations, one after the other."""
    with tempfile.TemporaryDirectory(prefix="reme-", dir="/tmp") as folder:
        settings = Settings.load().model_copy(update={"data_dir": Path(folder)})
        async with AsyncReMe(settings) as reme:
            learned = await autogen_learns(reme)
            used = await langgraph_uses(reme)
            corrected = await agentscope_corrects(reme)
            recalled = await llamaindex_recalls(reme)
    for framework, shown in (
        ("AutoGen", learned), ("LangGraph", used), ("AgentScope", corrected), ("LlamaIndex", recalled)
    ):  # fmt: skip
        print(f"--- What the model of the {framework} agent was shown\n{shown}\n")
    assert "memory_note" not in learned, "nothing was known yet"
    assert SAID in used, "what AutoGen's agent was told, LangGraph's was shown"
    assert "flies from Lisbon" in corrected, "what LangGraph's agent stored, AgentScope's was shown"
    assert MOVED in recalled and "flies from Lisbon." not in recalled, "and LlamaIndex's was shown the correction alone"
    print("One memory: learned in AutoGen, used in LangGraph, corrected in AgentScope, recalled in LlamaIndex.")


if __name__ == "__main__":
    asyncio.run(main())
