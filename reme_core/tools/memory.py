"""The memory of a tool: the guidance in force. If there is none yet, an empty memory with the id that it will have."""

from __future__ import annotations

from reme_core.flows.deps import Deps
from reme_core.ids import stable_id
from reme_core.store.filters import Filters
from reme_core.types import Kind, Memory


async def guidance_of(tool: str, workspace: str, deps: Deps) -> list[Memory]:
    """The guidance for a tool that is in force; at most one, unless a library brought several."""
    return await deps.memories.list(workspace, Filters(kinds=[str(Kind.TOOL)], subject=tool))


async def memory_of(tool: str, workspace: str, deps: Deps) -> Memory:
    """The memory of a tool; an empty one, which is not stored, if there is no guidance yet."""
    if stored := await guidance_of(tool, workspace, deps):
        return stored[0]
    return Memory(kind=Kind.TOOL, memory_id=first_id(tool), workspace_id=workspace, subject=tool, when_to_use=tool)


def first_id(tool: str) -> str:
    """The id of the first guidance for a tool."""
    return stable_id("tool", tool)
