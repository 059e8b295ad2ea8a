"""`ReMeAssistantAgent`: AutoGen's `AssistantAgent` with long-term memory."""

from __future__ import annotations

import weakref
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Self

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.agents._assistant_agent import AssistantAgentConfig
from autogen_agentchat.base import Response
from autogen_agentchat.messages import BaseAgentEvent, BaseChatMessage, MemoryQueryEvent
from autogen_core import CancellationToken, ComponentModel
from autogen_core.memory import Memory
from autogen_core.model_context import ChatCompletionContext
from autogen_core.models import ChatCompletionClient, RequestUsage
from autogen_core.tools import StaticStreamWorkbench, StaticWorkbench, Workbench

from reme_autogen.context import ContextWithNote
from reme_autogen.convert import from_chat, from_events, from_model, prefer_person
from reme_autogen.memory import ReMeMemory, cancellable, note_contents
from reme_autogen.recorder import team_of_new_agent, team_of_running_agent
from reme_autogen.tools import ReMeTool
from reme_core.errors import InputError
from reme_core.turn import calls_in, check_flag, stable_id
from reme_core.types import Message, new_id

Event = BaseAgentEvent | BaseChatMessage | Response


class ReMeAssistantAgent(AssistantAgent):
    """An `AssistantAgent` that recalls before each turn and records after it.

    The model is shown the note with the last user message; the note is never stored in the context. The turn is
    recorded before the response is returned, so it works in the same way with `run`, with `run_stream` and in teams. If
    a turn fails or is cancelled, the messages that it was given and the results of tools are recorded, and no partial
    answer.

    ```python
    agent = ReMeAssistantAgent("assistant", model_client, memory=[ReMeMemory(workspace_id="alice")])
    ```
    """

    component_provider_override = "reme_autogen.ReMeAssistantAgent"

    def __init__(
        self,
        name: str,
        model_client: ChatCompletionClient,
        *,
        memory: Sequence[Memory] | None = None,
        model_context: ChatCompletionContext | None = None,
        workbench: Workbench | Sequence[Workbench] | None = None,
        tools: list[Any] | None = None,
        memory_tools: bool = False,
        **options: Any,
    ) -> None:
        """Make an agent.

        Args:
            name: As for `AssistantAgent`.
            model_client: As for `AssistantAgent`.
            memory: One `ReMeMemory`, and any other memories.
            model_context: As for `AssistantAgent`; notes are never stored in it.
            workbench: As for `AssistantAgent`.
            tools: As for `AssistantAgent`.
            memory_tools: Whether the agent gets the memory tools.
            options: The other options of `AssistantAgent`.

        Raises:
            InputError: There is no `ReMeMemory`, or more than one, or `memory_tools` is no bool.
        """
        memories = memory if isinstance(memory, Sequence) else []
        ours = [one for one in memories if isinstance(one, ReMeMemory)]
        if len(ours) != 1:
            raise InputError("give a ReMeAssistantAgent one ReMeMemory: memory=[ReMeMemory(workspace_id=…)]")
        self._reme = ours[0]
        others = [one for one in memories if one is not self._reme]
        check_flag("memory_tools", memory_tools)
        self._session_id = ""  # until the first turn, which knows the team
        self._context_with_note = _AgentContext(model_context, self._reme.turn)
        tools_of_memory = [*(ReMeTool.all(self._reme) if memory_tools else []), *ReMeTool.of_window(self._reme)]
        there = {tool.name for tool in _memory_tools_in(workbench)}  # of an agent that is loaded
        own: list[Any] = [tool for tool in tools_of_memory if tool.name not in there]
        if workbench is not None and own:
            given = list(workbench) if isinstance(workbench, Sequence) else [workbench]
            workbench, own = [*given, StaticStreamWorkbench(own)], []
        super().__init__(
            name,
            model_client,
            memory=others or None,
            model_context=self._context_with_note,
            workbench=workbench,
            tools=[*(tools or []), *own] or None,
            **options,
        )
        self._resets = 0
        self._team = ""
        self._loaded: _Conversation | None = None

    @property
    def description(self) -> str:
        """As for `AssistantAgent`."""
        # A team reads it when it takes the agent in: before a turn, nothing else tells an agent of its team.
        self._team = team_of_new_agent() or self._team
        return super().description

    @property
    def model_context(self) -> ChatCompletionContext:
        """The given context, or an unbounded one; it has the messages without notes."""
        return self._context_with_note.inner

    async def on_messages_stream(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> AsyncGenerator[Event, None]:
        """Run one turn: recall, run the agent, record, and then return the response."""
        self._session_id = self._context_with_note.session_id = self._session_id or self._new_session()
        heard = [from_chat(message, self.name, self._session_id) for message in messages]
        # With its words, since an application may give two messages one id.
        turn_id = stable_id(heard[-1].message_id, heard[-1].content) if heard else new_id()
        is_recorded, done = False, list[Message]()
        try:
            event = await self._recall(heard, turn_id, cancellation_token)
            if event is not None:
                yield event
            async with aclosing(super().on_messages_stream(messages, cancellation_token)) as stream:
                async for item in stream:
                    if not isinstance(item, Response):
                        done += from_events([item])
                        yield item
                        continue
                    inner = [*([event] if event is not None else []), *(item.inner_messages or [])]
                    await self._record(heard, item, turn_id)
                    is_recorded = True
                    if (usage_event := self._usage_event()) is not None:
                        inner.append(usage_event)
                        yield usage_event
                    yield Response(chat_message=item.chat_message, inner_messages=inner)
        except BaseException:
            if not is_recorded:  # AutoGen closes the stream when it has the response
                # A call that has no result yet may not have been made.
                ended = max((place for place, message in enumerate(done, 1) if message.role == "tool"), default=0)
                self._reme.turn.record_calls(calls_in(done))
                self._reme.turn.record_soon([*heard, *done[:ended]], turn_id, session_id=self._session_id)
            raise
        finally:
            self._context_with_note.note = ""

    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        """Begin another conversation; memory stays."""
        await super().on_reset(cancellation_token)
        self._session_id, self._resets = "", self._resets + 1

    def _new_session(self) -> str:
        shared = self._reme.session_id or team_of_running_agent()
        if not shared:
            return new_id()
        loaded = _conversations.get((shared, self._resets))
        return loaded.session_id if loaded else f"{shared}#{self._resets}" if self._resets else shared

    async def save_state(self) -> Mapping[str, Any]:
        """The agent's state, with the id of its conversation, and the number of those before it."""
        own = {"reme_session_id": self._session_id, "reme_resets": self._resets}
        return {**await super().save_state(), **own}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on with a saved conversation."""
        await super().load_state(state)
        self._session_id = state.get("reme_session_id", "")  # empty: nothing was said in it
        self._resets = max(self._resets, state.get("reme_resets", 0))
        self._loaded = _Conversation(self._session_id) if self._session_id and self._team else None
        if self._loaded is not None:
            _conversations[self._team, self._resets] = self._loaded

    async def close(self) -> None:
        """Deliver what waits and disconnect; the next turn connects again."""
        await super().close()
        await self._reme.close()

    async def _recall(
        self, heard: list[Message], turn_id: str, cancellation_token: CancellationToken
    ) -> MemoryQueryEvent | None:
        shown = [said for message in await self._context_with_note.get_messages() for said in from_model(message)]
        asked = prefer_person([*shown, *heard])
        note = await cancellable(self._reme.turn.begin(asked, turn_id, session_id=self._session_id), cancellation_token)
        self._context_with_note.note = note.text
        return MemoryQueryEvent(content=note_contents(note), source=self.name) if note else None

    async def _record(self, heard: list[Message], response: Response, turn_id: str) -> None:
        done = from_events(response.inner_messages or [])
        answer = from_chat(response.chat_message, self.name, self._session_id)
        self._reme.turn.record_calls(calls_in(done))
        await self._reme.turn.record([*heard, *done, answer], turn_id, session_id=self._session_id)

    def _usage_event(self) -> MemoryQueryEvent | None:
        """The tokens that memory used, as an event, since AutoGen counts those of events; None if it used none."""
        spent = self._reme.turn.take_usage()
        if not spent.calls:
            return None
        usage = RequestUsage(prompt_tokens=spent.prompt_tokens, completion_tokens=spent.completion_tokens)
        return MemoryQueryEvent(content=[], source=self.name, models_usage=usage)

    def _to_config(self) -> AssistantAgentConfig:
        config = super()._to_config()
        return config.model_copy(update={"memory": [self._reme.dump_component(), *(config.memory or [])]})

    @classmethod
    def _from_config(cls, config: AssistantAgentConfig) -> Self:
        agent = super()._from_config(config)
        for tool in _memory_tools_in(agent._workbench):
            tool.share(agent._reme)
        return agent


class _Conversation:
    """A conversation that agents of a team have loaded."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id


# By the team that goes on with it and the number of its resets: whoever has not spoken in it yet learns its id here.
_conversations: weakref.WeakValueDictionary[tuple[str, int], _Conversation] = weakref.WeakValueDictionary()


def _memory_tools_in(workbench: Workbench | Sequence[Workbench] | None) -> list[ReMeTool]:
    """The memory tools in workbenches of AutoGen's own make."""
    given = workbench if isinstance(workbench, Sequence) else [workbench]
    tools = [tool for one in given if isinstance(one, StaticWorkbench) for tool in one._tools]
    return [tool for tool in tools if isinstance(tool, ReMeTool)]


class _AgentContext(ContextWithNote):
    """Wraps the agent's own context. Only the inner one is dumped, since loading the agent wraps it again."""

    def dump_component(self) -> ComponentModel:
        return self.inner.dump_component()
