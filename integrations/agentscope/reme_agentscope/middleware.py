"""`ReMeMiddleware`: long-term memory for agents of AgentScope 2."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, Literal, Unpack

from agentscope.agent import Agent
from agentscope.message import Msg, ToolCallState, ToolResultState, Usage
from agentscope.middleware import MiddlewareBase
from agentscope.model import ChatModelBase
from agentscope.tool import ToolBase, ToolResponse
from agentscope.types import ReplyFinishedReason

from reme_agentscope.convert import as_chat, from_msg, from_reply, text_of, with_note
from reme_agentscope.tools import ReMeTool
from reme_agentscope.window import what_fits
from reme_core.errors import InputError
from reme_core.turn import (
    ASKER,
    TOOLS_HINT,
    Asker,
    Client,
    Closing,
    CountTokens,
    MemoryTools,
    ReMeLike,
    TurnMemory,
    TurnOptions,
    WindowTools,
    asking_agent,
    check_count_tokens,
    check_session,
    json_object,
    observe_call,
    refuse_unknown,
)
from reme_core.types import Message, names_in

Mode = Literal["static_control", "agent_control", "both"]

_SUCCESS: Final = {ToolResultState.SUCCESS: True, ToolResultState.ERROR: False}
"""Whether a tool call succeeded, by its state; interrupted and denied calls are not recorded."""
_TASKS: Final[ContextVar[Mapping[str, str]]] = ContextVar("reme_tasks")
"""The texts that agents gave to tools that run elsewhere, each with the agent: a pipeline gives them to others."""


class ReMeMiddleware(MiddlewareBase, Closing):
    """Long-term memory for `Agent(middlewares=[…])`.

    In the modes `static_control` and `both` each reply recalls once, and the model is shown the note before the last
    message of the user, or of another agent; the note is never stored in the agent's context. A completed reply is
    recorded with its tool calls and with what the agent observed before it. Of a reply that is interrupted, fails, or
    waits for a person, only the messages that it replies to are recorded; the rest follows if it goes on and completes.
    In the modes `agent_control` and `both` the agent gets the memory tools, and a hint to use them.

    ```python
    agent = Agent("assistant", "You are helpful.", model, middlewares=[ReMeMiddleware(workspace_id="alice")])
    ```

    One middleware may serve any number of agents and sessions of its workspace. The state of a reply is kept in
    `agent.state.middle_context`, so a reply that waits for a person can be resumed in another process with its note.
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
        """Choose the workspace, and how a reply uses its memory.

        Args:
            database_url: A database URL or settings; None for the settings of the environment.
            workspace_id: The workspace. By default all users share the workspace `default`.
            client: An open `AsyncReMe` or `ReMe` in place of a URL; it is never closed here.
            session_id: The id of the conversation of all agents with this middleware. By default each agent has its
                own (`agent.state.session_id`).
            mode: Who uses memory: the middleware (`static_control`), the agent by tools (`agent_control`), or both.
            chat_model: The model that reads conversations for memory, such as the agent's own; by default the one in
                the settings. Without any, people's statements are kept word for word.
            count_tokens: The model's own tokenizer for the option `window`; by default an estimate. With a window, the
                agents get tools to read what was left out, and AgentScope's own compression does not run.
            options: How a reply uses memory; see `TurnOptions`.

        Raises:
            InputError: An option is unknown, or a value does not fit.
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
        # Each middleware of an agent needs a state of its own, and finds it again in another process.
        self._key = json.dumps(
            {"workspace_id": self.turn.workspace_id, **names_in(self.turn.scope)}, ensure_ascii=False
        )

    async def aclose(self) -> None:
        """Deliver what waits and disconnect. AgentScope never closes a middleware, so the application must."""
        await self.turn.aclose()

    async def list_tools(self) -> list[ToolBase]:
        """The tools for agents, which get them at their first reply.

        These are the memory tools, unless the mode is `static_control`, and the tools for what left the window.
        """
        tools = [] if self.mode == "static_control" else MemoryTools(self.turn).all()
        tools += WindowTools(self.turn).all()
        return [ReMeTool(tool, self._key) for tool in tools]

    async def get_middleware_key(self) -> str:
        """The key of this middleware's state in `middle_context`: its workspace, and the names of its scope."""
        return f"reme:{self._key}"

    async def on_reply(
        self, agent: Agent, input_kwargs: dict[str, Any], next_handler: Callable[..., AsyncGenerator[Any, None]]
    ) -> AsyncGenerator[Any, None]:
        """Run a reply, and record it when it has ended; what it replies to, however it ends."""
        self._refuse_another(agent)
        await self._register_tools(agent)
        if self.mode == "agent_control":
            async for item in next_handler(**input_kwargs):
                yield item
            return
        inputs = input_kwargs.get("inputs")
        given = [one for one in (inputs if isinstance(inputs, list) else [inputs]) if isinstance(one, Msg)]
        session_id = self._session_of(agent)
        heard = [*_find_observations(agent), *map(_said_by_asker, given)]
        asked = [message for msg in heard for message in from_msg(msg, session_id, agent.name)]
        try:
            async for item in next_handler(**input_kwargs):
                yield await self._finish(agent, item, asked) if isinstance(item, Msg) else item
        except BaseException:
            self.turn.record_soon(asked, session_id=session_id)
            raise

    async def on_system_prompt(self, agent: Agent, current_prompt: str) -> str:
        """Add the hint about the memory tools, unless the mode is `static_control`."""
        return current_prompt if self.mode == "static_control" else f"{current_prompt}\n{TOOLS_HINT}"

    async def on_reasoning(
        self, agent: Agent, input_kwargs: dict[str, Any], next_handler: Callable[..., AsyncGenerator[Any, None]]
    ) -> AsyncGenerator[Any, None]:
        """Recall at the first reasoning of a reply; cancelled here, AgentScope ends the reply as interrupted."""
        if self.mode != "agent_control" and not await self._find_state(agent):
            session_id, reply_id = self._session_of(agent), agent.state.reply_id
            seen = [message for msg in agent.state.context for message in from_msg(msg, session_id, agent.name)]
            note = await self.turn.begin(seen, reply_id, session_id=session_id)
            key = await self.get_middleware_key()
            agent.state.middle_context[key] = {"reply_id": reply_id, "note": note.text}
        async for item in next_handler(**input_kwargs):
            yield item

    async def on_compress_context(
        self, agent: Agent, input_kwargs: dict[str, Any], next_handler: Callable[..., Awaitable[None]]
    ) -> None:
        """Keep the tool calls of the running reply, because the compression may remove them from the context."""
        if state := await self._find_state(agent):
            state["done"] = [message.model_dump(mode="json") for message in self._tool_messages(agent, state)]
        if self.turn.window is None:
            await next_handler(**input_kwargs)

    async def on_model_call(
        self, agent: Agent, input_kwargs: dict[str, Any], next_handler: Callable[..., Awaitable[Any]]
    ) -> Any:
        """Show the model the messages that fit its window, and the note of this reply."""
        state = await self._find_state(agent)
        fitting = await what_fits(self.turn, input_kwargs["messages"], self._session_of(agent), self._count_tokens)
        shown = with_note(fitting, state.get("note", ""), self.turn.position, agent.name)
        return await next_handler(**{**input_kwargs, "messages": shown})

    async def on_acting(
        self, agent: Agent, input_kwargs: dict[str, Any], next_handler: Callable[..., AsyncGenerator[Any, None]]
    ) -> AsyncGenerator[Any, None]:
        """Record a tool call in tool memory."""
        state, call = agent.state, input_kwargs["tool_call"]
        place = (state.session_id, state.reply_id, state.cur_iter, call.id)
        with observe_call(self.turn, call.name, call.input, *place) as run:
            async for item in _run_asking(agent, next_handler(**input_kwargs)):
                if isinstance(item, ToolResponse) and item.state in _SUCCESS:
                    run.finish(text_of(item.content), success=_SUCCESS[item.state])
                yield item

    async def _finish(self, agent: Agent, final: Msg, asked: Sequence[Message]) -> Msg:
        """Record a reply that has ended, and add the tokens that memory used to its usage.

        Of a reply that waits for a person or for a tool, only what was asked is recorded yet.
        """
        session_id = self._session_of(agent)
        others = {text: who for text, who in _TASKS.get({}).items() if who != agent.name}
        _TASKS.set({**others, **dict.fromkeys(_given_texts(agent), agent.name)})
        if final.finished_reason is None:  # it waits, and nobody knows whether it ever goes on
            await self.turn.record(asked, session_id=session_id)
            return final
        state = await self._find_state(agent)
        agent.state.middle_context.pop(await self.get_middleware_key(), None)
        said = [*asked]
        if final.finished_reason != ReplyFinishedReason.INTERRUPTED:
            said += self._tool_messages(agent, state)
        if final.finished_reason == ReplyFinishedReason.COMPLETED:
            said += from_msg(final, session_id)
        await self.turn.record(said, session_id=session_id)
        spent = self.turn.take_usage()
        if not spent.calls:
            return final
        used = final.usage or Usage(input_tokens=0, output_tokens=0)
        tokens = {
            "input_tokens": used.input_tokens + spent.prompt_tokens,
            "output_tokens": used.output_tokens + spent.completion_tokens,
        }
        return final.model_copy(update={"usage": used.model_copy(update=tokens)})

    async def _find_state(self, agent: Agent) -> dict[str, Any]:
        """What is kept of the running reply: its note and its tool calls; empty before its first reasoning."""
        state: dict[str, Any] = agent.state.middle_context.get(await self.get_middleware_key()) or {}
        # A reply that failed leaves its state behind, which is not for the next one.
        return state if state.get("reply_id") == agent.state.reply_id else {}

    def _session_of(self, agent: Agent) -> str:
        return self.session_id or agent.state.session_id

    def _tool_messages(self, agent: Agent, state: dict[str, Any]) -> list[Message]:
        """The tool calls of the running reply, with their results."""
        before = [Message.model_validate(message) for message in state.get("done", [])]
        known = {message.message_id for message in before}
        reply = [msg for msg in agent.state.context if msg.id == agent.state.reply_id]
        found = [message for msg in reply for message in from_reply(msg, self._session_of(agent))]
        return [*before, *(message for message in found if message.message_id not in known)]

    def _refuse_another(self, agent: Agent) -> None:
        others = [one for one in agent._reply_middlewares if isinstance(one, ReMeMiddleware) and one is not self]
        recording = [one for one in (self, *others) if one.mode != "agent_control"]  # the others have no state
        if len({one._key for one in recording}) < len(recording):
            raise InputError(
                f"agent {agent.name!r} has two middlewares for the same memory ({self._key}): leave one out, or give "
                "each a user_id, an agent_id or a run_id of its own"
            )

    async def _register_tools(self, agent: Agent) -> None:
        for tool in await self.list_tools():
            there = await agent.toolkit.get_tool(tool.name)
            if there is None:
                await agent.toolkit.add_tool(tool)
            elif isinstance(there, ReMeTool) and there.memory != self._key:
                raise InputError(
                    f"the toolkit of agent {agent.name!r} has the tools of another memory ({there.memory}): give each "
                    "agent a Toolkit of its own, and tools to one of its middlewares only"
                )


def _find_observations(agent: Agent) -> list[Msg]:
    """The messages that an agent observed since its last reply."""
    context = agent.state.context
    own = [place for place, msg in enumerate(context) if msg.role == "assistant" and msg.name == agent.name]
    return context[own[-1] + 1 if own else 0 :]


async def _run_asking(agent: Agent, acting: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
    """Run a tool call of an agent, so that another agent, which the tool runs, knows who asks."""
    asker = Asker(agent.name, frozenset(msg.id for msg in agent.state.context))
    while True:
        token = ASKER.set(asker)  # not while the application handles an item
        try:
            item = await anext(acting)
        except StopAsyncIteration:
            return
        finally:
            ASKER.reset(token)
        yield item


def _given_texts(agent: Agent) -> list[str]:
    """The texts that an agent gave to tools that run elsewhere, and for whose results it waits."""
    waiting = agent.state.get_awaiting_tool_calls(agent.name)
    given = [json_object(call.input) or {} for call in waiting if call.state == ToolCallState.SUBMITTED]
    return [text for arguments in given for text in arguments.values() if isinstance(text, str)]


def _said_by_asker(msg: Msg) -> Msg:
    """A task that another agent gives, as that agent's words; what it passes on of the user's, as it is."""
    is_users = msg.role == "user" and msg.name == "user"
    asker = (asking_agent(msg.id) or _TASKS.get({}).get(msg.get_text_content() or "", "")) if is_users else ""
    return msg.model_copy(update={"name": asker}) if asker else msg
