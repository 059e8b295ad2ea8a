"""The state of a LangChain agent's run as memory sees it: which run it is, of which conversation, and what it heard."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, NotRequired

from langchain.agents import AgentState
from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.channels.untracked_value import UntrackedValue
from langgraph.config import get_config

from reme_core.turn import TurnMemory, asking_agent, stable_id
from reme_core.types import Message, new_id
from reme_langchain.convert import from_langchain, is_generated

Place = tuple[str, str, str]
"""Where a turn takes place: its workspace, its conversation, and the agent's place within the graphs of a run."""

_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class MemoryState(AgentState[Any]):
    """The agent's state, with the id of a run, and of its conversation if it has no thread.

    Both are private, and never checkpointed: a run that is resumed has none.
    """

    reme_run: NotRequired[Annotated[str, UntrackedValue, PrivateStateAttr]]
    reme_session: NotRequired[Annotated[str, UntrackedValue, PrivateStateAttr]]


@dataclass(slots=True)
class Turn:
    """One run of the agent: its memory and its messages."""

    memory: TurnMemory
    run_id: str
    place: Place
    turn_id: str
    before: Sequence[AnyMessage]
    """The messages of earlier runs, if their ids are not lasting; none of them is recorded again."""
    heard: dict[str, BaseMessage] = field(default_factory=dict)
    """The messages that may be new, by their ids: all if their ids are lasting, otherwise those of this run."""
    answers: dict[str, ToolMessage] = field(default_factory=dict)
    """What tools answered, by the ids of their calls."""
    note: str = ""

    @property
    def session_id(self) -> str:
        """The conversation."""
        return self.place[1]

    @property
    def new(self) -> list[Message]:
        """The messages that may be new, for memory."""
        said: list[BaseMessage] = []
        for message in self.heard.values():
            said.append(message)
            calls = message.tool_calls if isinstance(message, AIMessage) else []
            answers = [self.answers[call["id"]] for call in calls if call["id"] in self.answers]
            said += [answer for answer in answers if answer.id not in self.heard]
        return from_langchain(said, self.session_id)

    def hear(self, messages: Iterable[BaseMessage]) -> None:
        """Keep messages of this run, since other middleware may take them out of the state before it ends."""
        earlier = {message.id for message in self.before}
        for message in messages:
            if message.id and message.id not in earlier:
                self.heard[message.id] = _as_said(message)


def _as_said(message: BaseMessage) -> BaseMessage:
    """The message; if it is a task that another agent gives, as that agent's words."""
    asker = asking_agent(message.id or "") if isinstance(message, HumanMessage) and not message.name else ""
    return message.model_copy(update={"name": asker}) if asker else message


def configurable() -> dict[str, Any]:
    """What the present run was configured with."""
    return get_config().get("configurable") or {}


def thread_id() -> str:
    """The thread of the present run; empty if it has none."""
    return str(configurable().get("thread_id") or "")


def name_run(state: Any) -> dict[str, str]:
    """The ids of a run that begins, as a change of its state."""
    named = {"reme_run": state.get("reme_run") or new_id()}  # another middleware of the agent may have named it
    if not thread_id():
        # The agents of one graph hear the same question, which has an id that LangGraph made.
        place = _last_question(state["messages"])
        asked = (state["messages"][place].id or "") if place >= 0 else ""
        named["reme_session"] = stable_id("run", asked) if _UUID.fullmatch(asked) else named["reme_run"]
    return named


def session_of(state: Any) -> str:
    """The id of the conversation: the thread, or this run if there is no thread."""
    return thread_id() or state.get("reme_session") or ""


def run_id(state: Any, memory: TurnMemory) -> str:
    """The id of a run; of one that was resumed, an id of its place."""
    return state.get("reme_run") or stable_id(*place_of(state, memory))


def place_of(state: Any, memory: TurnMemory) -> Place:
    """Where the present run of an agent takes place."""
    # LangGraph's path ends with the node of this agent that runs at present.
    within, _, _ = str(configurable().get("checkpoint_ns") or "").rpartition("|")
    return memory.workspace_id, session_of(state) or turn_id_of(state), within


def start_of_run(messages: Sequence[AnyMessage]) -> int:
    """The index at which the last run begins: the first of the user's messages in a row right before the answer."""
    start = _last_question(messages)
    while start > 0 and isinstance(messages[start - 1], HumanMessage):
        start -= 1
    return max(start, 0)


def _last_question(messages: Sequence[AnyMessage]) -> int:
    """The index of the user's last message; -1 if there is none."""
    asked = (isinstance(message, HumanMessage) and not is_generated(message) for message in messages)
    return max((place for place, is_asked in enumerate(asked) if is_asked), default=-1)


def turn_id_of(state: Any) -> str:
    """An id made from the conversation and the user's last message; an edited message begins another turn."""
    messages: Sequence[AnyMessage] = state["messages"]
    place = _last_question(messages)
    return stable_id(session_of(state), *((messages[place].id, str(messages[place].text)) if place >= 0 else ()))
