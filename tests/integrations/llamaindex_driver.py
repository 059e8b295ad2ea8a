"""LlamaIndex agents around the scripted model, for the kit and for tests of our own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any

from llama_index.core import Settings
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    ImageBlock,
    LLMMetadata,
    TextBlock,
    ToolCallBlock,
)
from llama_index.core.callbacks import CallbackManager, TokenCountingHandler
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms.callbacks import llm_chat_callback
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.memory import InsertMethod
from llama_index.core.tools import FunctionTool
from pydantic import PrivateAttr
from reme_llamaindex import ReMeMemory

from reme_core.testing import (
    AGENT,
    COMPLETION_TOKENS,
    PROMPT_TOKENS,
    Capability,
    Conversation,
    Driver,
    Reply,
    ScriptedModel,
    clock,
)


class ScriptedLLM(FunctionCallingLLM):
    """The kit's model as one of LlamaIndex's."""

    _script: ScriptedModel = PrivateAttr()

    def __init__(self, script: ScriptedModel) -> None:
        super().__init__(callback_manager=Settings.callback_manager)
        self._script = script

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_chat_model=True, is_function_calling_model=True, model_name="scripted")

    def _prepare_chat_with_tools(self, tools: Any, user_msg: Any = None, chat_history: Any = None, **_: Any) -> Any:
        return {"messages": [*(chat_history or []), *([user_msg] if user_msg else [])]}

    def get_tool_calls_from_response(self, response: Any, **_: Any) -> list[ToolSelection]:
        return [
            ToolSelection(tool_id=b.tool_call_id, tool_name=b.tool_name, tool_kwargs=b.tool_kwargs)
            for b in response.message.blocks
            if isinstance(b, ToolCallBlock)
        ]

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **_: Any) -> ChatResponse:
        return _response(self._script.answer_now(_prompt(messages)))

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], **_: Any) -> ChatResponse:
        return _response(await self._script.answer(_prompt(messages)))

    @llm_chat_callback()
    async def astream_chat(self, messages: Sequence[ChatMessage], **_: Any) -> Any:
        reply = await self._script.answer(_prompt(messages))

        async def pieces() -> AsyncGenerator[ChatResponse, None]:
            yield _response(reply)

        return pieces()

    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        raise NotImplementedError

    stream_complete = acomplete = astream_complete = stream_chat = complete  # type: ignore[assignment]


def _prompt(messages: Sequence[ChatMessage]) -> list[tuple[str, str]]:
    return [(message.role.value, message.content or "") for message in messages]


def _response(reply: Reply) -> ChatResponse:
    blocks: list[Any] = [TextBlock(text=reply.text)] if reply.text else []
    for call in reply.calls:
        given = json.loads(call.arguments)
        blocks.append(ToolCallBlock(tool_call_id=call.call_id, tool_name=call.tool, tool_kwargs=given))
    usage = {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": COMPLETION_TOKENS}
    return ChatResponse(message=ChatMessage(role="assistant", blocks=blocks), delta=reply.text, raw={"usage": usage})


class LlamaIndexConversation(Conversation):
    """A conversation of a `FunctionAgent`."""

    def __init__(self, model: ScriptedModel, memory: ReMeMemory) -> None:
        self.counter = TokenCountingHandler(tokenizer=str.split)
        Settings.callback_manager = CallbackManager([self.counter])
        self.memory = memory
        self.llm = ScriptedLLM(model)
        self.agent = FunctionAgent(
            name=AGENT, llm=self.llm, tools=[FunctionTool.from_defaults(clock)], system_prompt="Be helpful."
        )

    async def say(self, text: str) -> str:
        Settings.callback_manager = CallbackManager([self.counter])
        self.counter.reset_counts()
        handler = self.agent.run(user_msg=text, memory=self.memory)
        try:
            return str(await handler)
        except asyncio.CancelledError:
            await handler.cancel_run()
            raise

    async def show(self, text: str, image: bytes) -> str:
        said = ChatMessage(role="user", blocks=[TextBlock(text=text), ImageBlock(image=image)])
        return str(await self.agent.run(user_msg=said, memory=self.memory))

    def say_sync(self, text: str) -> str:
        return str(SimpleChatEngine.from_defaults(llm=self.llm, memory=self.memory).chat(text))

    async def take_task(self, task: str, asker: str) -> None:
        model = ScriptedModel()
        model.call("say", text=task)
        boss = FunctionAgent(name=asker, llm=ScriptedLLM(model), tools=[FunctionTool.from_defaults(async_fn=self.say)])
        await boss.run(user_msg="Ask somebody.")

    async def resume(self) -> None:
        saved = json.loads(json.dumps(self.memory.to_dict()))
        await self.aclose()
        self.memory = ReMeMemory.from_dict(saved)

    async def reset(self) -> None:
        await self.memory.areset()

    async def stream(self, text: str) -> AsyncIterator[Any]:
        handler = self.agent.run(user_msg=text, memory=self.memory)
        async for event in handler.stream_events():
            yield event
        await handler

    def usage(self) -> tuple[int, int]:
        return self.counter.prompt_llm_token_count, self.counter.completion_llm_token_count

    def export(self) -> Any:
        return self.memory.to_dict()

    async def aclose(self) -> None:
        await self.memory.aclose()


class LlamaIndexDriver(Driver):
    name = "LlamaIndex"
    package = "reme_llamaindex"

    def __init__(self, **options: Any) -> None:
        self.options = options
        away = {Capability.BESIDE} if options.get("insert_method") == InsertMethod.SYSTEM else set()
        # What its memory holds cannot be changed but as a whole, and its messages have no ids.
        self.capabilities = frozenset(Capability) - {Capability.EDITS, Capability.IDS} - away  # type: ignore[misc]

    async def start(self, model: ScriptedModel, options: dict[str, Any]) -> LlamaIndexConversation:
        return LlamaIndexConversation(model, ReMeMemory(**options, **self.options))
