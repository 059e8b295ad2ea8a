"""Which agent asks another one by a tool, such as an `AgentTool`.

AutoGen gives such a task the source `user`. It is not the user who says it, so memory must not take it for their words.
"""

from __future__ import annotations

from contextvars import ContextVar
from functools import cache
from typing import Any, Final

from autogen_agentchat.agents import AssistantAgent

_asking: Final[ContextVar[str]] = ContextVar("reme_autogen_asking", default="")


def asking_agent() -> str:
    """The name of the agent whose tool call is running here; empty outside of tool calls."""
    return _asking.get()


@cache
def listen_to_tool_calls() -> None:
    """Begin to observe which agents of this process call tools."""
    execute = AssistantAgent._execute_tool_call

    async def execute_as_agent(*args: Any, **kwargs: Any) -> Any:
        # For this call only: it is a task with its own context. If the private method changes, the call must still run.
        _asking.set(kwargs.get("agent_name", ""))
        return await execute(*args, **kwargs)

    AssistantAgent._execute_tool_call = staticmethod(execute_as_agent)  # type: ignore[assignment,method-assign]
