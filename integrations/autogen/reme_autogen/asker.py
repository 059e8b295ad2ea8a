"""Tells memory which agent asks another one by a tool, such as an `AgentTool`; to AutoGen, the user gives the task."""

from __future__ import annotations

from functools import cache
from typing import Any

from autogen_agentchat.agents import AssistantAgent

from reme_core.turn import ASKER, Asker


@cache
def listen_to_tool_calls() -> None:
    """Begin to observe which agents of this process call tools."""
    execute = AssistantAgent._execute_tool_call

    async def execute_as_agent(*args: Any, **kwargs: Any) -> Any:
        # For this call only: it is a task with its own context. If the private method changes, the call must still run.
        ASKER.set(Asker(kwargs.get("agent_name", "")))
        return await execute(*args, **kwargs)

    AssistantAgent._execute_tool_call = staticmethod(execute_as_agent)  # type: ignore[assignment,method-assign]
