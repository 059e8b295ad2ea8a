"""Records AutoGen's model contexts.

AutoGen does not tell a memory of the end of a turn, and the messages of a context have no ids. So a context is watched:
when an answer or the results of tools are added to it, its new messages are handed over. Ids are made from the
conversation and the words, so that messages which were handed over before are recognised.
"""

from __future__ import annotations

import copy
import re
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cache
from types import MethodType
from typing import Any, Final

from autogen_agentchat.agents import AssistantAgent
from autogen_core import AgentId, AgentInstantiationContext, MessageHandlerContext
from autogen_core.model_context import ChatCompletionContext
from autogen_core.models import AssistantMessage, FunctionExecutionResultMessage, LLMMessage, UserMessage
from pydantic import BaseModel

from reme_autogen.convert import NOTE_SOURCE, from_model
from reme_core.turn import ASKER, Asker, ConversationIds, TurnMemory, asking_agent, calls_in
from reme_core.types import Message, new_id

_A_NOTE: Final = re.compile(rf"{NOTE_SOURCE}(?:_\d+)?")  # the numbers are those of `watch`
_UNFINISHED: Final = 1_000  # contexts whose turn has begun and not ended


class Session:
    """What the contexts of one session share.

    These are the `number` of its present conversation, the ids of what was `recorded` in it, and the `last` number.
    """

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.number = self.last = 0
        self.recorded: set[str] = set()


# By workspace, person and id, as long as a recorder has them: the agents of a team may each have a memory of their own.
_sessions: weakref.WeakValueDictionary[tuple[str, str, str], Session] = weakref.WeakValueDictionary()


class ContextRecorder:
    """Records one context as one conversation, or as several if the context is cleared."""

    def __init__(self, turn: TurnMemory, session_id: str) -> None:
        self._turn, self._person = turn, turn.scope["user_id"]
        self._session = _sessions.setdefault((turn.workspace_id, self._person, session_id), Session(session_id))
        self.number = self._session.number  # how many conversations the session had before this one
        self._length = 0

    @property
    def session_id(self) -> str:
        """The id of the present conversation."""
        return f"{self._session.session_id}#{self.number}" if self.number else self._session.session_id

    def go_on(self, number: int, length: int) -> None:
        """Go on with the conversation of that number, of which the context has so many messages."""
        self.number, self._length = number, length
        self._session.number, self._session.last = number, max(self._session.last, number)

    def restart(self) -> None:
        """Begin another conversation, or join the one that another context of the session has begun."""
        # A team is reset agent by agent, and AutoGen does not tell a memory of an agent that has not spoken yet.
        if self.number >= self._session.number:
            self._session.last += 1
            self._session.number, self._session.recorded = self._session.last, set()
        self.number, self._length = self._session.number, 0

    async def record(self, context: ChatCompletionContext) -> None:
        """Hand over the new messages of the context."""
        messages = await all_messages(context)
        said = self._name(messages)
        # A state was loaded: an earlier one of this conversation, or one of another.
        if len(messages) < self._length and not self._is_earlier(said):
            self.restart()
            said = self._name(messages)
        self._length = len(messages)
        self._session.recorded.update(message.message_id for message in said)
        self._turn.record_calls(calls_in(said))
        await self._turn.record(said)

    def _name(self, messages: Sequence[LLMMessage]) -> list[Message]:
        """The messages for memory, with their ids in the present conversation."""
        ids = ConversationIds(self.session_id, self._person)
        named = [ids.name(part) for message in messages for part in from_model(message)]
        return [message.model_copy(update={"session_id": self.session_id}) for message in named]

    def _is_earlier(self, said: Sequence[Message]) -> bool:
        """Whether something stood before this turn, and all of it was recorded, by any context, in this conversation.

        A turn that stands alone begins a conversation, also if it has the words of an earlier one.
        """
        before = {message.message_id for message in said[: _begin_of_turn(said)]}
        # If another context of the session has begun a conversation, this one joins it.
        return self.number >= self._session.number and bool(before) and before <= self._session.recorded


def _begin_of_turn(said: Sequence[Message]) -> int:
    """The place of a person's last words or, if it is later, of the first words of others after the agent's last."""
    heard = [place for place, message in enumerate(said) if message.role == "user"]
    return max((n for n in heard if n and (not said[n].author or said[n - 1].role != "user")), default=0)


class Contexts:
    """The contexts that one memory records. They are held weakly, except while a turn is not recorded yet."""

    def __init__(self, turn: TurnMemory, session_id: str | None) -> None:
        self._turn = turn
        self._session_id = session_id
        self._recorders: dict[int, ContextRecorder] = {}
        self._unfinished: OrderedDict[int, ChatCompletionContext] = OrderedDict()

    def __deepcopy__(self, memo: dict[int, Any]) -> Contexts:
        """For a copy of the memory, which has no contexts yet: each is known by its identity in this process."""
        return Contexts(copy.deepcopy(self._turn, memo), self._session_id)

    async def begin_turn(self, context: ChatCompletionContext) -> None:
        """Hold the context until its turn is recorded by `record` or `record_all`."""
        self._recorder_of(context)
        self._unfinished[id(context)] = context
        if len(self._unfinished) > _UNFINISHED:
            await self.record(next(iter(self._unfinished.values())))

    async def record(self, context: ChatCompletionContext) -> None:
        """Hand over the new messages of a context."""
        self._unfinished.pop(id(context), None)
        await self._recorder_of(context).record(context)

    async def end_conversation(self, context: ChatCompletionContext) -> None:
        """Hand over the messages of an unfinished turn before the context is cleared; then begin a conversation."""
        if id(context) in self._unfinished:
            await self.record(context)
        self._recorder_of(context).restart()

    async def record_all(self) -> None:
        """Hand over the messages of unfinished turns."""
        for context in list(self._unfinished.values()):
            await self.record(context)

    def number_of(self, context: ChatCompletionContext) -> int:
        """The number of a context's conversation in a named session; 0 if the session has no name."""
        return self._recorder_of(context).number if self._session_id else 0

    async def go_on(self, context: ChatCompletionContext, number: int) -> None:
        """Record a context with a loaded state as the conversation of that number, if the session has a name."""
        if self._session_id:
            self._recorder_of(context).go_on(number, len(await all_messages(context)))

    def session_of(self, context: ChatCompletionContext) -> str:
        """The id of the conversation as which a context is recorded."""
        return self._recorder_of(context).session_id

    def _recorder_of(self, context: ChatCompletionContext) -> ContextRecorder:
        key = id(context)
        if key not in self._recorders:
            session = self._session_id or team_of_running_agent() or new_id()
            self._recorders[key] = ContextRecorder(self._turn, session)
            weakref.finalize(context, self._recorders.pop, key, None)
        return self._recorders[key]


_watching: dict[int, list[Contexts]] = {}


def watch(context: ChatCompletionContext, contexts: Contexts) -> str:
    """Let a context of AutoGen be recorded at the end of its turns, and before it is cleared.

    Returns:
        The source of this memory's notes in the context: an agent may have several memories.
    """
    key = id(context)
    if key not in _watching:
        _watching[key] = []
        weakref.finalize(context, _watching.pop, key, None)
        # Bound methods: a deep copy of the context gets some bound to the copy, which is not in `_watching`.
        context.add_message = MethodType(_add_and_record, context)  # type: ignore[method-assign]  # of this context alone
        context.clear = MethodType(_end_and_clear, context)  # type: ignore[method-assign]  # likewise
    if contexts not in _watching[key]:
        _watching[key].append(contexts)
    # By its number, since an agent asks its memories in their order.
    number = _watching[key].index(contexts)
    return f"{NOTE_SOURCE}_{number + 1}" if number else NOTE_SOURCE


async def _add_and_record(context: ChatCompletionContext, message: LLMMessage) -> None:
    await type(context).add_message(context, message)
    if ends_turn(message):
        for contexts in _watching.get(id(context), ()):
            await contexts.record(context)


async def _end_and_clear(context: ChatCompletionContext) -> None:
    for contexts in _watching.get(id(context), ()):
        await contexts.end_conversation(context)
    await type(context).clear(context)


def ends_turn(message: LLMMessage) -> bool:
    """Whether a turn may end with this message: an answer, or results of tools (AutoGen may answer with these)."""
    answers = isinstance(message, AssistantMessage) and isinstance(message.content, str)
    return answers or isinstance(message, FunctionExecutionResultMessage)


def team_of_running_agent() -> str:
    """The id of the running agent's team, which has one conversation; empty if it has no team."""
    return _team_of(MessageHandlerContext.agent_id)


def team_of_new_agent() -> str:
    """The id of the team that is taking an agent in; empty if none is."""
    return _team_of(AgentInstantiationContext.current_agent_id)


def _team_of(find_agent: Callable[[], AgentId]) -> str:
    try:
        agent = find_agent()
    except RuntimeError:  # there is none
        return ""
    # AutoGen calls the members of a team `<agent>_<team>`. Other agents of a runtime may all have the key `default`.
    return agent.key if agent.type.endswith(f"_{agent.key}") else ""


async def all_messages(context: ChatCompletionContext) -> list[LLMMessage]:
    """All messages of a context except notes, including those that it no longer shows the model."""
    state = await context.save_state()
    whole = ChatState.model_validate(state).messages if "messages" in state else []
    # A context of another make may keep its messages elsewhere; AutoGen's base class then saves an empty state.
    return [message for message in whole or await context.get_messages() if not is_note(message)]


async def visible_messages(context: ChatCompletionContext) -> list[Message]:
    """The messages that a context shows the model, without notes."""
    shown = [message for message in await context.get_messages() if not is_note(message)]
    return [said for message in shown for said in from_model(message)]


async def replace_note(context: ChatCompletionContext, note: str, source: str) -> None:
    """Put the note before the last user message, and remove older notes: of this source, and all of earlier turns."""
    state = await context.save_state()
    if "messages" not in state:  # not a context of AutoGen itself, so messages can only be appended
        if note:
            await context.add_message(UserMessage(content=note, source=source))
        return
    messages = ChatState.model_validate(state).messages
    said = [place for place, message in enumerate(messages) if not is_note(message)]
    asked = [place for place in said if isinstance(messages[place], UserMessage)]
    last = asked[-1] if asked else len(messages)
    before = max((place for place in said if place < last), default=-1)
    others = {place for place in range(before + 1, last) if not is_note(messages[place], source)}  # of this turn
    kept = [message for place, message in enumerate(messages) if place in others or not is_note(message)]
    if note:
        users = [place for place, message in enumerate(kept) if isinstance(message, UserMessage)]
        kept.insert(users[-1] if users else len(kept), UserMessage(content=note, source=source))
    if len(kept) != len(messages) or note:
        await context.load_state({**state, "messages": [message.model_dump() for message in kept]})


@cache
def listen_to_tool_calls() -> None:
    """Begin to observe which agents of this process call tools; to AutoGen, the user gives an `AgentTool` its task."""
    execute = AssistantAgent._execute_tool_call

    async def execute_as_agent(*args: Any, **kwargs: Any) -> Any:
        # For this call only: it is a task with its own context. If the private method changes, the call must still run.
        ASKER.set(Asker(kwargs.get("agent_name", "")))
        return await execute(*args, **kwargs)

    AssistantAgent._execute_tool_call = staticmethod(execute_as_agent)  # type: ignore[assignment,method-assign]


def said_by_asker(message: LLMMessage) -> LLMMessage:
    """A task that another agent gives by a tool, as that agent's words; any other message as it is."""
    # In the message itself, so that whoever reads it later, also in another process, knows.
    is_task = isinstance(message, UserMessage) and message.source == "user" and asking_agent()
    return message.model_copy(update={"source": asking_agent()}) if is_task else message


async def name_asker(context: ChatCompletionContext) -> None:
    """`said_by_asker` for what a context heard since the agent's last words, if it is a context of AutoGen itself."""
    state = await context.save_state()
    if not asking_agent() or "messages" not in state:
        return
    messages = ChatState.model_validate(state).messages
    own = [place for place, message in enumerate(messages) if not isinstance(message, UserMessage)]
    begin = own[-1] + 1 if own else 0
    named = [*messages[:begin], *map(said_by_asker, messages[begin:])]
    await context.load_state({**state, "messages": [message.model_dump() for message in named]})


class ChatState(BaseModel):
    """The state that AutoGen's model contexts save."""

    messages: list[LLMMessage]


def is_note(message: LLMMessage, source: str = "") -> bool:
    """Whether a message of a model context is a note, of this source or of any."""
    if not isinstance(message, UserMessage):
        return False
    return message.source == source if source else _A_NOTE.fullmatch(message.source) is not None
