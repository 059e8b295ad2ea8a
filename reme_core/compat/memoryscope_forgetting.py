"""MemoryScope's forgetting of observations that nobody needs, and what its reflections share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta

from reme_core.flows.deps import Deps
from reme_core.flows.ops.library import all_memories
from reme_core.flows.registry import op
from reme_core.given import zone_of
from reme_core.personal.state import PersonalState, add_to_result
from reme_core.store.change import Change, Close
from reme_core.store.filters import Filters
from reme_core.types import Kind, Memory, Scoped

MOST = 400
"""How many memories one reflection looks at, the newest. Reflections before it have looked at older ones."""


@op(uses={"user_name"}, writes={"closing", "update_result"})
async def forget(state: PersonalState, deps: Deps, *, half_life_days: float = 0.0, below: float = 0.05) -> None:
    """Let observations fade that are old, unimportant and hardly used. Off unless a half-life is set.

    A forgotten memory expires and is not erased. Wishes, profile facts and what was told outright are never forgotten.

    Args:
        half_life_days: After how long an unused memory is half as strong; 0 forgets nothing.
        below: The strength (see `strength`) below which a memory is forgotten.
    """
    if half_life_days <= 0:
        return
    version = await deps.memories.version(state.workspace_id)
    half_life, now = timedelta(days=half_life_days), deps.now()
    observed = all_memories(state, deps, filters_about(state, [Kind.OBSERVATION]))
    faded = [memory async for memory in observed if strength(memory, now, half_life) < below]
    change = Change(close=[Close(m.memory_id, "expired") for m in faded], expected_version=version)
    if faded:
        await deps.memories.apply(state.workspace_id, change, actor=deps.flow, reason="forgotten")
    add_to_result(state, change)


def strength(memory: Memory, now: datetime, half_life: timedelta) -> float:
    """How strong a memory is, 0 to 1: its importance, halved with every half-life since it was last stated.

    Each doubling of its use (given to an agent, or stated again) adds another half-life to its half-life.

    >>> from datetime import UTC
    >>> memory = Memory(content="likes tea", observed_at=datetime(2024, 1, 1, tzinfo=UTC))
    >>> strength(memory, datetime(2024, 1, 31, tzinfo=UTC), timedelta(days=30))
    0.25
    """
    since = memory.updated_at if memory.seen_count > 1 else memory.observed_at or memory.created_at
    used = memory.freq + memory.seen_count - 1
    # After Ebbinghaus' forgetting curve, in which repetition flattens the decay.
    lives = max(0.0, (now - since) / (half_life * (1 + math.log2(1 + used))))
    return float(memory.importance * 0.5**lives)


async def memories_about(state: PersonalState, deps: Deps, kinds: Sequence[str], *, limit: int = MOST) -> list[Memory]:
    """The newest memories of these kinds about the person, in the scope, that is reflected upon; at most `limit`."""
    return await deps.memories.list(state.workspace_id, filters_about(state, kinds), limit=limit)


def filters_about(state: PersonalState, kinds: Sequence[str]) -> Filters:
    """What is about the person that is reflected upon, or nobody in particular, in the scope of the request alone."""
    return Filters(kinds=[str(kind) for kind in kinds], of_person=state.user_name, **Scoped(**state.scope).scope)


def time_said(memory: Memory) -> datetime:
    """When a memory was said, or made if nobody said it."""
    return memory.observed_at or memory.created_at


def day_said(memory: Memory, deps: Deps) -> str:
    """The day on which a memory was said, in the speakers' time zone, for a prompt; empty if it is not known."""
    zone = zone_of(deps.settings.timezone)
    return f"{memory.observed_at.astimezone(zone):%Y-%m-%d}" if memory.observed_at else ""
