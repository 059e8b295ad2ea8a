"""LangChain agents around the scripted model, for the kit and for tests of our own."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.callbacks import UsageMetadataCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import PrivateAttr
from reme_langchain import ReMeMiddleware

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
from reme_core.types import new_id

ROLES = {"human": "user", "ai": "assistant"}


class ScriptedChat(BaseChatModel):
    """The kit's model as one of LangChain's."""

    _script: ScriptedModel = PrivateAttr()

    def __init__(self, script: ScriptedModel) -> None:
        super().__init__()
        self._script = script

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return _result(self._script.answer_now(_prompt(messages)))

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return _result(await self._script.answer(_prompt(messages)))


def _prompt(messages: list[BaseMessage]) -> list[tuple[str, str]]:
    return [(ROLES.get(message.type, message.type), str(message.text)) for message in messages]


def _result(reply: Reply) -> ChatResult:
    calls = [{"name": call.tool, "args": json.loads(call.arguments), "id": call.call_id} for call in reply.calls]
    message = AIMessage(
        content=reply.text,
        tool_calls=calls,
        usage_metadata={
            "input_tokens": PROMPT_TOKENS,
            "output_tokens": COMPLETION_TOKENS,
            "total_tokens": PROMPT_TOKENS + COMPLETION_TOKENS,
        },
        response_metadata={"model_name": "scripted"},
    )
    return ChatResult(generations=[ChatGeneration(message=message)])


class LangChainConversation(Conversation):
    """A thread of an agent with a checkpointer; or one that is given its whole history each time."""

    def __init__(self, model: ScriptedModel, memory: ReMeMiddleware, *, checkpointed: bool = True) -> None:
        self.model, self.checkpointed, self.saver = model, checkpointed, InMemorySaver() if checkpointed else None
        self.history: list[Any] = []
        self.again: Callable[[], ReMeMiddleware]
        self._use(memory)
        self.thread = new_id()
        self.handler = UsageMetadataCallbackHandler()

    def _use(self, memory: ReMeMiddleware) -> None:
        self.memory = memory
        self.agent: Any = create_agent(
            ScriptedChat(self.model),
            [tool(clock)],
            system_prompt="You are helpful.",
            middleware=[memory],
            checkpointer=self.saver,
            name=AGENT,
        )

    def _begin(self, text: str | list[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        self.handler = UsageMetadataCallbackHandler()
        self.history.append({"role": "user", "content": text})
        messages = [HumanMessage(text)] if self.checkpointed else list(self.history)
        configurable = {"thread_id": self.thread} if self.checkpointed else {}
        return {"messages": messages}, {"configurable": configurable, "callbacks": [self.handler]}

    def _end(self, state: dict[str, Any]) -> str:
        text = str(state["messages"][-1].text)
        self.history.append({"role": "assistant", "content": text})
        return text

    async def say(self, text: str) -> str:
        given, config = self._begin(text)
        return self._end(await self.agent.ainvoke(given, config))

    async def show(self, text: str, image: bytes) -> str:
        url = f"data:image/png;base64,{base64.b64encode(image).decode()}"
        given, config = self._begin([{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": url}}])
        return self._end(await self.agent.ainvoke(given, config))

    async def send(self, text: str, message_id: str) -> str:
        given, config = self._begin(text)
        given["messages"][-1] = HumanMessage(text, id=message_id)
        return self._end(await self.agent.ainvoke(given, config))

    async def take_task(self, task: str, asker: str) -> None:
        @tool
        async def ask(task: str) -> str:
            """Ask another agent."""
            return await self.say(task)

        model = ScriptedModel()
        model.call("ask", task=task)
        boss: Any = create_agent(ScriptedChat(model), [ask], middleware=[self.memory], name=asker)
        await boss.ainvoke({"messages": [HumanMessage("Ask somebody.")]})

    async def resume(self) -> None:
        await self.aclose()
        self._use(self.again())

    async def reset(self) -> None:
        self.thread, self.history = new_id(), []

    async def edit(self, text: str) -> None:
        config = {"configurable": {"thread_id": self.thread}}
        said = (await self.agent.aget_state(config)).values["messages"]
        last = next(message for message in reversed(said) if isinstance(message, HumanMessage))
        await self.agent.aupdate_state(config, {"messages": [HumanMessage(text, id=last.id)]})

    def say_sync(self, text: str) -> str:
        given, config = self._begin(text)
        return self._end(self.agent.invoke(given, config))

    def stream(self, text: str) -> AsyncIterator[Any]:
        given, config = self._begin(text)
        events: AsyncIterator[Any] = self.agent.astream(given, config, stream_mode=["messages", "updates", "values"])
        return events

    def usage(self) -> tuple[int, int]:
        spent = self.handler.usage_metadata.values()
        return sum(u["input_tokens"] for u in spent), sum(u["output_tokens"] for u in spent)

    def export(self) -> Any:
        if not self.checkpointed:
            return self.history
        values = self.agent.get_state({"configurable": {"thread_id": self.thread}}).values
        return {k: [m.model_dump() for m in v] if k == "messages" else v for k, v in values.items()}

    async def aclose(self) -> None:
        await self.memory.aclose()


class LangChainDriver(Driver):
    name = "LangChain"
    package = "reme_langchain"
    capabilities = frozenset(Capability)

    def __init__(self, *, checkpointed: bool = True) -> None:
        self.checkpointed = checkpointed
        if not checkpointed:
            self.capabilities = self.capabilities - {Capability.EDITS, Capability.SESSIONS}  # type: ignore[misc]

    async def start(self, model: ScriptedModel, options: dict[str, Any]) -> LangChainConversation:
        conversation = LangChainConversation(model, ReMeMiddleware(**options), checkpointed=self.checkpointed)
        conversation.again = lambda: ReMeMiddleware(**options)
        return conversation
