"""AgentScope 2 agents for the adapter kit."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from agentscope.agent import Agent
from agentscope.formatter import OpenAIChatFormatter
from agentscope.message import Base64Source, DataBlock, Msg, TextBlock, ToolCallBlock, UserMsg
from agentscope.model import ChatModelBase, ChatResponse, ChatUsage
from agentscope.permission import PermissionBehavior, PermissionDecision
from agentscope.state import AgentState
from agentscope.tool import FunctionTool, Toolkit
from reme_agentscope import ReMeMiddleware

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


class FakeModel(ChatModelBase):
    """The kit's model as AgentScope wants one; it is shown what the formatter makes of the messages."""

    def __init__(self, model: ScriptedModel) -> None:
        super().__init__(credential=None, model="fake", parameters=self.Parameters(), stream=False, max_retries=0)  # type: ignore[arg-type,call-arg]
        self.formatter = OpenAIChatFormatter()
        self.scripted = model

    async def _call_api(self, model_name: str, messages: list[Msg], *args: Any, **options: Any) -> ChatResponse:
        formatted = await self.formatter.format(messages)
        reply = await self.scripted.answer([(str(m["role"]), _text(m)) for m in formatted])
        blocks: list[Any] = [
            ToolCallBlock(id=call.call_id, name=call.tool, input=call.arguments) for call in reply.calls
        ]
        usage = ChatUsage(input_tokens=PROMPT_TOKENS, output_tokens=COMPLETION_TOKENS, time=0.1)
        return ChatResponse(content=blocks or [TextBlock(text=reply.text)], is_last=True, usage=usage)


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


class AllowedTool(FunctionTool):
    """A function as a tool that may be called without asking a person."""

    async def check_permissions(self, *args: Any, **kwargs: Any) -> PermissionDecision:
        return PermissionDecision(behavior=PermissionBehavior.ALLOW, message="only a test")


class AgentScopeConversation(Conversation):
    def __init__(
        self, agent: Agent, memory: ReMeMiddleware, again: Callable[[AgentState], Awaitable[AgentScopeConversation]]
    ) -> None:
        self.agent, self.memory, self.again = agent, memory, again
        self.last: Msg | None = None

    async def say(self, text: str) -> str:
        self.last = await self.agent.reply(UserMsg(name="user", content=text))
        return self.last.get_text_content() or ""

    async def show(self, text: str, image: bytes) -> str:
        picture = Base64Source(data=base64.b64encode(image).decode(), media_type="image/png")
        said = UserMsg(name="user", content=[TextBlock(text=text), DataBlock(source=picture)])
        self.last = await self.agent.reply(said)
        return self.last.get_text_content() or ""

    async def send(self, text: str, message_id: str) -> str:
        self.last = await self.agent.reply(UserMsg(name="user", content=text, id=message_id))
        return self.last.get_text_content() or ""

    async def take_task(self, task: str, asker: str) -> None:
        model = ScriptedModel()
        model.call("say", text=task)
        tools = Toolkit(tools=[AllowedTool(self.say)])
        boss = Agent(asker, "You are helpful.", FakeModel(model), toolkit=tools, middlewares=[self.memory])
        await boss.reply(UserMsg(name="user", content="Ask somebody."))

    async def resume(self) -> None:
        saved = self.agent.state.model_dump_json()
        await self.aclose()
        other = await self.again(AgentState.model_validate_json(saved))
        self.agent, self.memory = other.agent, other.memory

    async def stream(self, text: str) -> AsyncIterator[Any]:
        async for event in self.agent.reply_stream(UserMsg(name="user", content=text)):
            yield event

    def usage(self) -> tuple[int, int]:
        assert self.last is not None
        assert self.last.usage is not None
        return self.last.usage.input_tokens, self.last.usage.output_tokens

    def export(self) -> Any:
        state = self.agent.state.model_dump(mode="json")
        assert AgentState.model_validate(json.loads(json.dumps(state))).context == self.agent.state.context
        return state | {"middle": self.agent.state.middle_context}

    async def aclose(self) -> None:
        await self.memory.aclose()


class AgentScopeDriver(Driver):
    name = "AgentScope 2"
    package = "reme_agentscope"
    capabilities = frozenset(
        {
            Capability.STREAM,
            Capability.TOOLS,
            Capability.EXPORT,
            Capability.USAGE,
            Capability.SYSTEM,
            Capability.BESIDE,
            Capability.QUIET,
            Capability.NAMES,
            Capability.IMAGES,
            Capability.IDS,
            Capability.SESSIONS,
            Capability.TASKS,
            Capability.PARALLEL,
            Capability.RESUMES,
        }
    )

    def __init__(self, mode: str = "static_control") -> None:
        self.mode = mode

    async def start(
        self, model: ScriptedModel, options: dict[str, Any], state: AgentState | None = None
    ) -> AgentScopeConversation:
        memory = ReMeMiddleware(**options, mode=self.mode)  # type: ignore[arg-type]
        toolkit = Toolkit(tools=[AllowedTool(clock), *await memory.list_tools()])
        agent = Agent(AGENT, "You are helpful.", FakeModel(model), toolkit=toolkit, middlewares=[memory], state=state)
        return AgentScopeConversation(agent, memory, lambda state: self.start(model, options, state))
