"""What the tests of personal memory share: turns, what a model answers of them, and the memories that are made."""

from __future__ import annotations

from typing import Any

from reme_core.engine import Engine
from reme_core.store.filters import Filters
from reme_core.types import Memory


def turn(content: str, day: str = "2024-05-06", role: str = "user", **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, "time_created": f"{day} 09:00:00", **more}


async def summarise(reme: Engine, *turns: dict[str, Any], workspace: str = "w") -> Any:
    return await reme.execute(
        "summary_personal_memory", workspace_id=workspace, trajectories=[{"messages": list(turns)}]
    )


async def everything(reme: Engine, workspace: str = "w") -> list[Memory]:
    """All memories, closed ones too, in the order in which they were said."""
    found = await reme.memories.list(workspace, Filters(status=None), limit=1_000)
    return sorted(found, key=lambda m: (m.observed_at or m.created_at, m.content))


def operation(op: str, statement: str = "", evidence: tuple[int, ...] = (1,), **more: Any) -> dict[str, Any]:
    return {"op": op, "evidence": list(evidence), "memory": 0, "statement": statement, **more}


def answering(*operations: dict[str, Any]) -> dict[str, Any]:
    return {"operations": list(operations)}


async def contents(reme: Engine, status: str = "active") -> list[str]:
    return [m.content for m in await everything(reme) if m.status == status]
