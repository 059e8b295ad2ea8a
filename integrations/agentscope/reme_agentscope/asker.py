"""Tells memory which agent asks another one by a tool; applications give the task as a message of `user`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from agentscope.agent import Agent
from agentscope.message import Msg

from reme_core.turn import ASKER, Asker, asking_agent


async def run_asking(agent: Agent, acting: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
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


def said_by_asker(msg: Msg) -> Msg:
    """A task that another agent gives, as that agent's words; what it passes on of the user's, as it is."""
    asker = asking_agent(msg.id) if msg.role == "user" and msg.name == "user" else ""
    return msg.model_copy(update={"name": asker}) if asker else msg
