"""`ReMeMiddleware`: long-term memory for agents of AgentScope 2."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, Final, Literal, Unpack

from agentscope.agent import Agent
from agentscope.message import Msg, ToolResultState, Usage
from agentscope.middleware import MiddlewareBase
from agentscope.model import ChatModelBase
from agentscope.tool import ToolBase, ToolResponse
from agentscope.types import ReplyFinishedReason

from reme_agentscope.convert import as_chat, from_msg, from_reply, text_of, with_note
from reme_agentscope.tools import ReMeTool
from reme_agentscope.window import SESSION, what_fits
from reme_core.errors import InputError
from reme_core.turn import (
    TOOLS_HINT,
    Client,
    Closing,
    CountTokens,
    MemoryTools,
    ReMeLike,
    TurnMemory,
    TurnOptions,
    WindowTools,
    check_count_tokens,
    check_session,
    observe_call,
    refuse_unknown,
)
from reme_core.types import Message

Mode = Literal["static_control", "agent_control", "both"]

_SUCCESS: Final = {ToolResultState.SUCCESS: True, ToolResultState.ERROR: False}
"""What an end of a tool call says of it; one that was interrupted or denied says nothing."""


class ReMeMiddleware(MiddlewareBase, Closing):
    """Long-term memory for `Agent(middlewares=[…])`.

    In the modes `static_control` and `both` what is known is recalled once a reply and shown to the model before the
    user's last message; it is never stored in the agent's context. A reply that was completed is recorded, with its
    calls of tools and what the agent observed before it; of one that was interrupted, only what it was asked. In the
    modes `agent_control` and `both` the agent has tools with which it tends its memory itself, and is told so.

    ```python
    agent = Agent("assistant", "You are helpful.", model, middlewares=[ReMeMiddleware(workspace_id="alice")])
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
        session_id: str | None = None,
        mode: Mode = "static_control",
        chat_model: ChatModelBase | None = None,
        count_tokens: CountTokens | None = None,
        **options: Unpack[TurnOptions],
    ) -> None:
        """Say whose memory it is.

        Args:
            database_url: A database URL or settings; None for what the environment says.
            workspace_id: The tenant. Default: `default`, which all share.
            client: An open `AsyncReMe` or `ReMe` in place of a URL; it is never closed here.
            session_id: Names the conversation of all agents with this middleware. Default: each one's own
                (`agent.state.session_id`).
            mode: Who uses memory: the middleware, the agent by tools, or both.
            chat_model: A model that reads conversations for memory, such as the agent's own. Default: what the settings
                name; without one, what people said is kept word for word.
            count_tokens: The model's own tokenizer, by which the option `window` is kept; default is an estimate. With
                a window the model is shown what fits it, agents get tools to read the rest, and AgentScope's own
                compression is left out.
            options: How a reply uses memory.

        Raises:
            InputError: There is no such mode, or another value does not fit.
        """
        if mode not in ("static_control", "agent_control", "both"):
            raise InputError(f"mode is 'static_control', 'agent_control' or 'both', not {mode!r}")
        refuse_unknown(options.keys() - TurnOptions.__annotations__.keys(), "mode", "count_tokens")
        check_count_tokens(count_tokens, options.get("window"))
        self.mode = mode
        self.session_id = check_session(session_id)
        self._count_tokens = count_tokens
        chat = as_chat(chat_model) if chat_model is not None else None
        self.turn = TurnMemory(database_url, workspace_id, client=client, chat=chat, **options)

    async def aclose(self) -> None:
        """Deliver what waits and disconnect. AgentScope never closes a middleware, so that is yours to do."""
        await self.turn.aclose()

    def close(self) -> None:
        """`aclose` for code that does not await."""
        self.turn.close()

    async def list_tools(self) -> list[ToolBase]:
        """The memory tools, but in the mode `static_control`, and with a window those that read what left it.

        An agent gets them when it first replies.
        """
        tools = [] if self.mode == "static_control" else MemoryTools(self.turn).all()
        tools += WindowTools(self.turn, SESSION.get).all()
        return [ReMeTool(tool, self.turn.workspace_id) for tool in tools]

    async def get_middleware_key(self) -> str:
        """The key of this middleware's state in `middle_context`: one for each workspace."""
        return f"reme:{self.turn.workspace_id}"

    async def on_reply(
        self, agent: Agent, input_kwargs: dict[str, Any], next_handler: Callable[..., AsyncGenerator[Any, None]]
    ) -> AsyncGenerator[Any, None]:
        """Record a reply when it has ended."""
        await self._register_tools(agent)
        if self.mode == "agent_control":
            async for item in next_handler(**input_kwargs):
                yield item
            return
        inputs = input_kwargs.get("inputs")
        heard = [message for message in _as_list(inputs) if isinstance(message, Msg)]
        asked = [message for msg in [*_find_observations(agent), *heard] for message in from_msg(msg)]
        if heard or inputs is None:  # else it resumes a reply, whose note is kept
            state = {"asked": [message.model_dump(mode="json") for message in asked]}
            agent.state.middle_context[await self.get_middleware_key()] = state
        try:
            async for item in next_handler(**input_kwargs):
                if isinstance(item, Msg) and item.finished_reason is not None:
                    yield await self._finish(agent, item, asked)
                else:
                    yield item
        except BaseException:
            self.turn.record_soon(asked, session_id=self._session_of(agent))
            raise

    async def on_system_prompt(self, agent: Agent, current_prompt: str) -> str:
        """Tell the agent that it has tools to tend its memory with, if it has."""
        return current_prompt if self.mode == "static_control" else f"{current_prompt}\n{TOOLS_HINT}"

    async def on_reasoning(
        self, agent: Agent, input_kwargs: dict[str, Any], next_handler: Callable[..., AsyncGenerator[Any, None]]
    ) -> AsyncGenerator[Any, None]:
        """Recall when a reply first thinks: if it is cancelled in here, AgentScope ends it as interrupted."""
        state = agent.state.middle_context.get(await self.get_middleware_key())
        if state is not None and "note" not in state:
            seen = [message for msg in agent.state.context for message in from_msg(msg)]
            asked = state["asked"]
            turn_id = asked[-1]["message_id"] if asked else agent.state.reply_id
            note = await self.turn.begin(seen, turn_id, session_id=self._session_of(agent))
            state["note"] = note.text
        async for item in next_handler(**input_kwargs):
            yield item

    async def on_compress_context(
        self, agent: Agent, input_kwargs: dict[str, Any], next_handler: Callable[..., Awaitable[None]]
    ) -> None:
        """Keep the calls of tools that this reply has made, which may leave the context here."""
        state = agent.state.middle_context.get(await self.get_middleware_key())
        if state is not None:
            state["done"] = [message.model_dump(mode="json") for message in _tool_messages(agent, state)]
        if self.turn.window is None:
            await next_handler(**input_kwargs)

    async def on_model_call(
        self, agent: Agent, input_kwargs: dict[str, Any], next_handler: Callable[..., Awaitable[Any]]
    ) -> Any:
        """Show the model what fits its window, and the note of this reply."""
        state = agent.state.middle_context.get(await self.get_middleware_key()) or {}
        fitting = await what_fits(self.turn, input_kwargs["messages"], self._session_of(agent), self._count_tokens)
        shown = with_note(fitting, state.get("note", ""), self.turn.position)
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
                    run.finish(text_of(item.content), success=_SUCCESS[item.state])
                yield item

    async def _finish(self, agent: Agent, final: Msg, asked: Sequence[Message]) -> Msg:
        """Record a reply that has ended, and add what memory itself used of chat models to its usage."""
        state = agent.state.middle_context.pop(await self.get_middleware_key(), None) or {}
        said = [*(Message.model_validate(message) for message in state.get("asked", [])), *asked]
        if final.finished_reason != ReplyFinishedReason.INTERRUPTED:
            said += _tool_messages(agent, state)
        if final.finished_reason == ReplyFinishedReason.COMPLETED:
            said += from_msg(final)
        await self.turn.record(said, session_id=self._session_of(agent))
        spent = self.turn.take_usage()
        if not spent.calls:
            return final
        used = final.usage or Usage(input_tokens=0, output_tokens=0)
        tokens = {
            "input_tokens": used.input_tokens + spent.prompt_tokens,
            "output_tokens": used.output_tokens + spent.completion_tokens,
        }
        return final.model_copy(update={"usage": used.model_copy(update=tokens)})

    def _session_of(self, agent: Agent) -> str:
        return self.session_id or agent.state.session_id

    async def _register_tools(self, agent: Agent) -> None:
        for tool in await self.list_tools():
            there = await agent.toolkit.get_tool(tool.name)
            if there is None:
                await agent.toolkit.add_tool(tool)
            elif isinstance(there, ReMeTool) and there.workspace_id != self.turn.workspace_id:
                raise InputError(
                    f"the toolkit of agent {agent.name!r} has the memory tools of workspace {there.workspace_id!r}: "
                    "give each agent a Toolkit of its own"
                )


def _find_observations(agent: Agent) -> list[Msg]:
    """What an agent observed since its last reply."""
    context = agent.state.context
    own = [place for place, msg in enumerate(context) if msg.role == "assistant" and msg.name == agent.name]
    return context[own[-1] + 1 if own else 0 :]


def _tool_messages(agent: Agent, state: dict[str, Any]) -> list[Message]:
    """The calls of tools in the reply that is running, with their results."""
    before = [Message.model_validate(message) for message in state.get("done", [])]
    known = {message.message_id for message in before}
    reply = [msg for msg in agent.state.context if msg.id == agent.state.reply_id]
    return [*before, *(m for msg in reply for m in from_reply(msg) if m.message_id not in known)]


def _as_list(inputs: Any) -> list[Any]:
    return inputs if isinstance(inputs, list) else [inputs]
