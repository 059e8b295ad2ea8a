"""Which agent asks another one by a tool.

Applications give such a task as a message of `user`. It is not the user who says it, so memory must not take it for
their words.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextvars import ContextVar
from typing import Any, Final, NamedTuple

from agentscope.agent import Agent
from agentscope.message import Msg


class _Asker(NamedTuple):
    name: str
    heard: frozenset[str]


_asker: Final[ContextVar[_Asker | None]] = ContextVar("reme_agentscope_asker", default=None)


async def run_asking(agent: Agent, acting: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
    """Run a tool call of an agent, so that another agent, which the tool runs, knows who asks."""
    asker = _Asker(agent.name, frozenset(msg.id for msg in agent.state.context))
    while True:
        token = _asker.set(asker)  # not while the application handles an item
        try:
            item = await anext(acting)
        except StopAsyncIteration:
            return
        finally:
            _asker.reset(token)
        yield item


def said_by_asker(msg: Msg) -> Msg:
    """A task that another agent gives, as that agent's words; what it passes on of the user's, as it is."""
    asker = _asker.get()
    is_task = asker is not None and msg.role == "user" and msg.name == "user" and msg.id not in asker.heard
    return msg.model_copy(update={"name": asker.name}) if asker is not None and is_task else msg
