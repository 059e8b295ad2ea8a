"""The memory tools as tools of AgentScope 2."""

from __future__ import annotations

from typing import Any, Final

from agentscope.message import TextBlock, ToolResultState
from agentscope.permission import PermissionBehavior, PermissionDecision
from agentscope.tool import ToolBase, ToolChunk

from reme_core.turn import MemoryTool, ToolFailure, tool_schema

_CHANGING: Final = {"add_memory", "update_memory", "forget_memory"}


class ReMeTool(ToolBase):
    """One of the memory tools. It needs no permission."""

    is_external_tool = False
    is_state_injected = False
    is_mcp = False
    mcp_name = None

    def __init__(self, tool: MemoryTool, memory: str) -> None:
        """Wrap a tool of a memory, which has this name."""
        super().__init__()
        schema = tool_schema(tool)
        self.name = schema.name
        self.description = schema.description
        self.input_schema = schema.parameters
        self.is_read_only = tool.__name__ not in _CHANGING
        self.is_concurrency_safe = self.is_read_only
        self.memory = memory
        self._tool = tool

    async def check_permissions(self, *args: Any, **kwargs: Any) -> PermissionDecision:
        """Allow it: memory is part of the agent, and changes only its own workspace."""
        return PermissionDecision(behavior=PermissionBehavior.ALLOW, message="the agent's own memory")

    async def call(self, *args: Any, **kwargs: Any) -> ToolChunk:
        """Call the tool."""
        told = await self._tool(**kwargs)
        state = ToolResultState.ERROR if isinstance(told, ToolFailure) else ToolResultState.SUCCESS
        return ToolChunk(content=[TextBlock(text=told)], state=state)
