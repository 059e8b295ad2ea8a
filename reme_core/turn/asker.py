"""Which agent asks another one by a tool.

Frameworks give such a task to the other agent as a message of the user. It is not the user who says it, so memory must
not take it for their words: an adapter sets `ASKER` while a tool runs, and asks `asking_agent` for the author of a
user's message that begins a turn.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final, NamedTuple


class Asker(NamedTuple):
    """An agent whose tool call is running, and may run another agent."""

    name: str
    heard: frozenset[str] = frozenset()
    """The framework's ids of the messages that this agent has heard, and may pass on as they are."""


ASKER: Final[ContextVar[Asker | None]] = ContextVar("reme_asker", default=None)
"""The agent whose tool call is running here; None outside of tool calls."""


def asking_agent(message_id: str = "") -> str:
    """The name of the agent that says a message of the role `user` here; empty if the user says it.

    >>> token = ASKER.set(Asker("planner", frozenset({"1"})))
    >>> asking_agent("2"), asking_agent("1")
    ('planner', '')
    >>> ASKER.reset(token)
    """
    asker = ASKER.get()
    return asker.name if asker and message_id not in asker.heard else ""
