"""The state that the ops of tool memory read and write, and the guidance in force."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from reme_core.flows.deps import Deps
from reme_core.flows.state import SummaryState
from reme_core.settings import Names
from reme_core.store.filters import Filters
from reme_core.store.tool_calls import memory_without_guidance
from reme_core.types import Kind, Memory


class ToolState(SummaryState):
    """Calls of tools to be stored, or the names of tools to make guidance for."""

    tool_names: Names = Field(default_factory=list)
    tool_call_results: list[dict[str, Any]] = Field(default_factory=list)


async def guidance_of(tool: str, workspace: str, deps: Deps) -> list[Memory]:
    """The guidance for a tool that is in force; at most one, unless a library brought several."""
    return await deps.memories.list(workspace, Filters(kinds=[str(Kind.TOOL)], subject=tool))


async def memory_of(tool: str, workspace: str, deps: Deps) -> Memory:
    """The memory of a tool; an empty one, which is not stored, if there is no guidance yet."""
    stored = await guidance_of(tool, workspace, deps)
    return stored[0] if stored else memory_without_guidance(tool, workspace)
