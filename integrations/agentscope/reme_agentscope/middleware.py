"""`ReMeMiddleware`: long-term memory for agents of AgentScope 2."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, Final, Literal, Self, Unpack

from agentscope.agent import Agent
from agentscope.message import Msg, TextBlock, ToolCallBlock, ToolResultBlock, ToolResultState, Usage
from agentscope.middleware import MiddlewareBase
from agentscope.permission import PermissionBehavior, PermissionDecision
from agentscope.tool import ToolBase, ToolChunk, ToolResponse
from agentscope.types import ReplyFinishedReason

from reme_core.errors import InputError
from reme_core.turn import (
    Client,
    MemoryTool,
    MemoryTools,
    ReMeLike,
    TurnMemory,
    TurnOptions,
    observe_call,
    plain_json,
    tool_schema,
)
from reme_core.types import Message, ToolCall, new_id

Mode = Literal["static_control", "agent_control", "both"]

_SUCCESS: Final = {ToolResultState.SUCCESS: True, ToolResultState.ERROR: False}
"""What an end of a tool call says of it; one that was interrupted or denied says nothing."""
_CHANGING: Final = {"add_memory", "update_memory", "forget_memory"}


class ReMeMiddleware(MiddlewareBase):
    """Long-term memory for `Agent(middlewares=[…])`.

    In the modes `static_control` and `both` what is known is recalled once a reply and shown to the model before the
    user's last message; it is never stored in the agent's context. A reply that was completed is recorded; of one that
    was interrupted, only what it was asked. In the modes `agent_control` and `both` there are tools with which the
    agent tends its memory itself; AgentScope leaves it to you to register them:

    ```python
    memory = ReMeMiddleware(workspace_id="alice", mode="both")
    agent = Agent("assistant", "You are helpful.", model, middlewares=[memory],
                  toolkit=Toolkit(tools=await memory.list_tools()))
    ```

    One middleware may serve any number of agents and sessions of its workspace. What belongs to a reply stands in
    `agent.state.middle_context`, so a reply that waits for a person is resumed in another process with the same note.
    """

    def __init__(
        self,
        database_url: ReMeLike = None,
        workspace_id: str | None = None,
        *,
        client: Client | None = None,
        mode: Mode = "static_control",
        **options: Unpack[TurnOptions],
    ) -> None:
        """Say whose memory it is.

        Args:
            database_url: A database URL or settings; None for what the environment says.
            workspace_id: The tenant. Default: `default`, which all share.
            client: An open `AsyncReMe` or `ReMe` in place of a URL; it is never closed here.
            mode: Who uses memory: the middleware, the agent by tools, or both.
            options: How a reply uses memory.

        Raises:
            InputError: There is no such mode, or another value does not fit.
        """
        if mode not in ("static_control", "agent_control", "both"):
            raise InputError(f"mode is 'static_control', 'agent_control' or 'both', not {mode!r}")
        self.mode = mode
        self.turn = TurnMemory(database_url, workspace_id, client=client, **options)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Deliver what waits and disconnect. AgentScope never closes a middleware, so that is yours to do."""
        await self.turn.aclose()

    def close(self) -> None:
        """`aclose` for code that does not await."""
        self.turn.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    async def list_tools(self) -> list[ToolBase]:
        """The memory tools, for a `Toolkit`; none in the mode `static_control`."""
        return [] if self.mode == "static_control" else [ReMeTool(tool) for tool in MemoryTools(self.turn).all()]

    async def get_middleware_key(self) -> str:
        """The key of this middleware's state in `middle_context`: one for each workspace."""
        return f"reme:{self.turn.workspace_id}"

    async def on_reply(
        self, agent: Agent, input_kwargs: dict[str, Any], next_handler: Callable[..., AsyncGenerator[Any, None]]
    ) -> AsyncGenerator[Any, None]:
        """Recall before a reply and record after it."""
        if self.mode == "agent_control":
            async for item in next_handler(**input_kwargs):
                yield item
            return
        key = await self.get_middleware_key()
        inputs = input_kwargs.get("inputs")
        heard = [message for message in _as_list(inputs) if isinstance(message, Msg)]
        said = [message for msg in heard for message in from_msg(msg, agent.name)]
        session_id = agent.state.session_id
        try:
            if heard or inputs is None:  # else it resumes a reply, whose note is kept
                await self._recall(agent, key, said)
            async for item in next_handler(**input_kwargs):
                if isinstance(item, Msg) and item.finished_reason is not None:
                    yield await self._finish(agent, key, item, said)
                else:
                    yield item
        except BaseException:
            self.turn.record_soon(said, session_id=session_id)
            raise

    async def on_model_call(
        self, agent: Agent, input_kwargs: dict[str, Any], next_handler: Callable[..., Awaitable[Any]]
    ) -> Any:
        """Show the model the note of this reply."""
        state = agent.state.middle_context.get(await self.get_middleware_key()) or {}
        shown = with_note(input_kwargs["messages"], state.get("note", ""))
        return await next_handler(**{**input_kwargs, "messages": shown})

    async def on_acting(
        self, agent: Agent, input_kwargs: dict[str, Any], next_handler: Callable[..., AsyncGenerator[Any, None]]
    ) -> AsyncGenerator[Any, None]:
        """Record a call of a tool in tool memory."""
        state, call = agent.state, input_kwargs["tool_call"]
        place = (state.session_id, state.reply_id, state.cur_iter, call.id)
        with observe_call(self.turn, call.name, call.input, *place) as run:
            async for item in next_handler(**input_kwargs):
                if isinstance(item, ToolResponse) and item.state in _SUCCESS:
                    run.finish(_text(item.content), success=_SUCCESS[item.state])
                yield item

    async def _recall(self, agent: Agent, key: str, said: Sequence[Message]) -> None:
        known = [message for msg in agent.state.context for message in from_msg(msg, agent.name)]
        turn_id = said[-1].message_id if said else new_id()
        note = await self.turn.begin([*known, *said], turn_id)
        agent.state.middle_context[key] = {"note": note.text, "asked": [m.model_dump(mode="json") for m in said]}

    async def _finish(self, agent: Agent, key: str, final: Msg, said: Sequence[Message]) -> Msg:
        """Record a reply that has ended, and add what memory itself used of chat models to its usage."""
        state = agent.state.middle_context.pop(key, None) or {}
        asked = list(said) or [Message.model_validate(message) for message in state.get("asked", [])]
        done = final.finished_reason == ReplyFinishedReason.COMPLETED
        answer = from_msg(final, agent.name) if done else []
        await self.turn.record([*asked, *answer], session_id=agent.state.session_id)
        spent = self.turn.take_usage()
        if not spent.calls:
            return final
        used = final.usage or Usage(input_tokens=0, output_tokens=0)
        tokens = {
            "input_tokens": used.input_tokens + spent.prompt_tokens,
            "output_tokens": used.output_tokens + spent.completion_tokens,
        }
        return final.model_copy(update={"usage": used.model_copy(update=tokens)})


class ReMeTool(ToolBase):
    """One of the memory tools. It needs no permission."""

    is_external_tool = False
    is_state_injected = False
    is_mcp = False
    mcp_name = None

    def __init__(self, tool: MemoryTool) -> None:
        """Wrap a tool of `MemoryTools`."""
        super().__init__()
        schema = tool_schema(tool)
        self.name = schema.name
        self.description = schema.description
        self.input_schema = schema.parameters
        self.is_read_only = tool.__name__ not in _CHANGING
        self.is_concurrency_safe = self.is_read_only
        self._tool = tool

    async def check_permissions(self, *args: Any, **kwargs: Any) -> PermissionDecision:
        """Allow it: memory is part of the agent, and changes only its own workspace."""
        return PermissionDecision(behavior=PermissionBehavior.ALLOW, message="the agent's own memory")

    async def call(self, *args: Any, **kwargs: Any) -> ToolChunk:
        """Call the tool."""
        return ToolChunk(content=[TextBlock(text=await self._tool(**kwargs))])


def from_msg(msg: Msg, agent: str) -> list[Message]:
    """A message of AgentScope as ours: its text, the tools it called, and what came of them. Hints are left out."""
    own = msg.name == agent
    calls = [block for block in msg.content if isinstance(block, ToolCallBlock)]
    text = Message(
        role="assistant" if own or msg.role == "assistant" else msg.role,
        author="" if own or msg.name in ("user", "memory") else msg.name,
        content=msg.get_text_content() or "",
        message_id=msg.id,
        sent_at=msg.created_at,
        tool_calls=[ToolCall(id=call.id, name=call.name, arguments=call.input) for call in calls],
        metadata=plain_json(msg.metadata),
    )
    results = [
        text.model_copy(
            update={
                "role": "tool",
                "author": block.name,
                "content": _text(block.output),
                "message_id": f"{msg.id}:{block.id}",
                "tool_calls": [],
                "tool_call_id": block.id,
            }
        )
        for block in msg.content
        if isinstance(block, ToolResultBlock)
    ]
    return [*results, text] if text.content else [text, *results]


def with_note(messages: Sequence[Msg], note: str) -> list[Msg]:
    """The messages, the last of the user's beginning with the note."""
    shown = list(messages)
    places = [place for place, msg in enumerate(shown) if msg.role == "user"]
    if note and places:
        asked = shown[places[-1]]
        shown[places[-1]] = asked.model_copy(update={"content": [TextBlock(text=note), *asked.content]})
    return shown


def _text(output: Any) -> str:
    """The text of what a tool gave, without images and other data."""
    if isinstance(output, str):
        return output
    return "\n".join(part.text for part in output if isinstance(part, TextBlock))


def _as_list(inputs: Any) -> list[Any]:
    return inputs if isinstance(inputs, list) else [inputs]
