"""AutoGen agents for the adapter kit: one through each of the three ways to give an agent a memory."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Self

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import TaskResult
from autogen_agentchat.messages import MultiModalMessage, TextMessage
from autogen_agentchat.tools import AgentTool
from autogen_core import CancellationToken, Component, FunctionCall, Image
from autogen_core.models import (
    AssistantMessage,
    ChatCompletionClient,
    CreateResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    ModelInfo,
    RequestUsage,
    SystemMessage,
)
from autogen_core.tools import FunctionTool
from pydantic import BaseModel
from reme_autogen import ReMeAssistantAgent, ReMeMemory, ReMeModelContext
from reme_autogen.convert import text_of

from reme_core.testing import (
    AGENT,
    COMPLETION_TOKENS,
    PROMPT_TOKENS,
    Capability,
    Conversation,
    Driver,
    ScriptedModel,
    clock,
)


class FakeConfig(BaseModel):
    """A scripted model has no settings."""


class FakeClient(ChatCompletionClient, Component[FakeConfig]):
    """The kit's model as AutoGen wants one. Loaded from a component, it has an empty script."""

    component_type = "model"
    component_config_schema = FakeConfig
    component_provider_override = "tests.integrations.autogen_driver.FakeClient"

    def __init__(self, model: ScriptedModel) -> None:
        self.model = model

    def _to_config(self) -> FakeConfig:
        return FakeConfig()

    @classmethod
    def _from_config(cls, config: FakeConfig) -> Self:
        return cls(ScriptedModel())

    async def create(self, messages: Sequence[LLMMessage], **options: Any) -> CreateResult:
        reply = await self.model.answer([(_role(message), _text(message)) for message in messages])
        usage = RequestUsage(prompt_tokens=PROMPT_TOKENS, completion_tokens=COMPLETION_TOKENS)
        if reply.tool:
            calls = [FunctionCall(id=call.call_id, name=call.tool, arguments=call.arguments) for call in reply.calls]
            return CreateResult(finish_reason="function_calls", content=calls, usage=usage, cached=False)
        return CreateResult(finish_reason="stop", content=reply.text, usage=usage, cached=False)

    async def create_stream(
        self, messages: Sequence[LLMMessage], **options: Any
    ) -> AsyncGenerator[str | CreateResult, None]:
        result = await self.create(messages)
        if isinstance(result.content, str):
            for word in result.content.split():
                yield word
        yield result

    async def close(self) -> None: ...

    def actual_usage(self) -> RequestUsage:
        return RequestUsage(prompt_tokens=0, completion_tokens=0)

    def total_usage(self) -> RequestUsage:
        return RequestUsage(prompt_tokens=0, completion_tokens=0)

    def count_tokens(self, messages: Sequence[LLMMessage], **options: Any) -> int:
        return 0

    def remaining_tokens(self, messages: Sequence[LLMMessage], **options: Any) -> int:
        return 1_000_000

    @property
    def capabilities(self) -> Any:
        return self.model_info

    @property
    def model_info(self) -> ModelInfo:
        return ModelInfo(
            vision=True, function_calling=True, json_output=False, family="unknown", structured_output=False
        )


def _role(message: LLMMessage) -> str:
    if isinstance(message, SystemMessage):
        return "system"
    if isinstance(message, AssistantMessage):
        return "assistant"
    return "tool" if isinstance(message, FunctionExecutionResultMessage) else "user"


def _text(message: LLMMessage) -> str:
    if isinstance(message, FunctionExecutionResultMessage):
        return " ".join(result.content for result in message.content)
    return text_of(message.content) if isinstance(message.content, str) else str(message.content)


class AutoGenConversation(Conversation):
    def __init__(self, make: Callable[[], tuple[AssistantAgent, ReMeMemory]]) -> None:
        self.make = make
        self.agent, self.memory = make()
        self.last: TaskResult | None = None

    async def say(self, text: str) -> str:
        token = CancellationToken()
        self.last = await self.agent.run(task=text, cancellation_token=token)
        return self.last.messages[-1].to_text()  # type: ignore[union-attr]

    async def show(self, text: str, image: bytes) -> str:
        picture = Image.from_base64(base64.b64encode(image).decode())
        self.last = await self.agent.run(task=MultiModalMessage(content=[text, picture], source="user"))
        return self.last.messages[-1].to_text()  # type: ignore[union-attr]

    async def send(self, text: str, message_id: str) -> str:
        self.last = await self.agent.run(task=TextMessage(content=text, source="user", id=message_id))
        return self.last.messages[-1].to_text()  # type: ignore[union-attr]

    async def take_task(self, task: str, asker: str) -> None:
        model = ScriptedModel()
        model.call(AGENT, task=task)
        boss = AssistantAgent(asker, FakeClient(model), tools=[AgentTool(self.agent)])
        await boss.run(task="Ask somebody.")

    async def resume(self) -> None:
        saved = json.loads(json.dumps(await self.agent.save_state()))
        await self.aclose()
        self.agent, self.memory = self.make()
        await self.agent.load_state(saved)

    async def reset(self) -> None:
        await self.agent.on_reset(CancellationToken())

    async def stream(self, text: str) -> AsyncIterator[Any]:
        async for event in self.agent.run_stream(task=text):
            yield event

    def usage(self) -> tuple[int, int]:
        assert self.last is not None
        used = [message.models_usage for message in self.last.messages if message.models_usage]
        return sum(one.prompt_tokens for one in used), sum(one.completion_tokens for one in used)

    def export(self) -> Any:
        assert self.last is not None
        return [message.dump() for message in self.last.messages]

    async def aclose(self) -> None:
        await self.memory.close()


QUIET = (Capability.STREAM, Capability.QUIET, Capability.BESIDE)


class AutoGenDriver(Driver):
    """`how`: through the agent, the memory list of a stock agent, or its model context."""

    package = "reme_autogen"

    def __init__(self, how: str = "agent") -> None:
        self.how = how
        self.name = f"AutoGen, {how}"
        self.capabilities = {*QUIET, Capability.TOOLS, Capability.EXPORT, Capability.NAMES, Capability.IMAGES}  # type: ignore[misc,assignment]
        self.capabilities |= {Capability.IDS, Capability.SESSIONS, Capability.RESETS, Capability.TASKS}  # type: ignore[misc]
        self.capabilities |= {Capability.PARALLEL}  # type: ignore[misc]
        if how == "agent":
            # A conversation of stock agents goes on only where it has a name; see test_autogen_stock.py.
            self.capabilities |= {Capability.USAGE, Capability.RESUMES}  # type: ignore[misc]
        if how != "memory":
            self.capabilities |= {Capability.SYSTEM}  # type: ignore[misc]

    async def start(self, model: ScriptedModel, options: dict[str, Any]) -> AutoGenConversation:
        return AutoGenConversation(lambda: self._agent(model, options))

    def _agent(self, model: ScriptedModel, options: dict[str, Any]) -> tuple[AssistantAgent, ReMeMemory]:
        memory = ReMeMemory(**options)
        tools = [FunctionTool(clock, description="Tell the time of day.")]
        common: Mapping[str, Any] = {"tools": tools, "max_tool_iterations": 3, "system_message": "You are helpful."}
        client = FakeClient(model)
        if self.how == "agent":
            agent: AssistantAgent = ReMeAssistantAgent(AGENT, client, memory=[memory], **common)
        elif self.how == "memory":
            agent = AssistantAgent(AGENT, client, memory=[memory], **common)
        else:
            agent = AssistantAgent(AGENT, client, model_context=ReMeModelContext(memory), **common)
        return agent, memory


def agent_of(model: ScriptedModel, memory: ReMeMemory, name: str = "assistant", **options: Any) -> ReMeAssistantAgent:
    """An agent of ours with a scripted model."""
    return ReMeAssistantAgent(name, FakeClient(model), memory=[memory], **options)
