"""Upkeep: contradictions and repetitions that months lie between, and the fading of what nobody needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta

import numpy as np

from reme_core.models import ChatModel
from reme_core.ops.deps import Deps
from reme_core.ops.personal.ledger import Ledger
from reme_core.ops.personal.neighbours import STATED, judge
from reme_core.ops.personal.relations import Relation
from reme_core.ops.registry import op
from reme_core.ops.state import SummaryState, UpdateResult
from reme_core.schema import Kind, Memory
from reme_core.store.change import Change, Close
from reme_core.store.filters import Filters

MOST = 400
"""Memories that one reflection looks at, the newest; what is older has been looked at before."""
_COMPARED = "compared"
"""Marks statements that a model has been asked about, so that no pair is put to it twice."""


@op(uses={"user_name"}, writes={"memories", "closing", "update_result"})
async def long_contra_repeat(state: SummaryState, deps: Deps, *, similarity: float = 0.5, neighbours: int = 3) -> None:
    """Close what was contradicted or repeated over the months, however far apart it was said.

    Rules look at all pairs; the model, where one is set, at each statement's nearest older ones, once.

    Args:
        state: Reads `user_name`.
        deps: Uses `memories` and `chat`.
        similarity: The least cosine similarity at which the model is asked about a pair (MemoryScope's 0.5).
        neighbours: Older statements that one statement is compared with by the model.
    """
    version = await deps.memories.version(state.workspace_id)
    stored = [
        m for m in await deps.memories.list(state.workspace_id, Filters(kinds=STATED), limit=MOST) if is_about(m, state)
    ]
    if len(stored) < 2:
        return
    ledger = Ledger(stored)
    fresh: list[str] = []
    if deps.chat is None:
        ledger.revisit()
    else:
        fresh = [m.memory_id for m in stored if not m.metadata.get(_COMPARED)]
        ledger.revisit(await _judged(stored, similarity, neighbours, state.workspace_id, deps, deps.chat))
    change = ledger.change(decided_after=version)
    change.annotate = {memory_id: {_COMPARED: True} for memory_id in fresh}
    if change.close or change.restate or change.annotate:
        await deps.memories.apply(state.workspace_id, change, actor=deps.flow, reason="contradicted or repeated")
    tell(state, change)


@op(uses={"user_name"}, writes={"closing", "update_result"})
async def forget(state: SummaryState, deps: Deps, *, half_life_days: float = 0.0, below: float = 0.05) -> None:
    """Let observations fade that are old, unimportant and hardly used. Off unless a half-life is set.

    Forgotten is expired, not erased. Wishes, profile facts and what was told outright are never forgotten.

    Args:
        state: Reads `user_name`.
        deps: Uses `memories` and tells the time.
        half_life_days: After how long an unused memory is half as strong; 0 forgets nothing.
        below: The strength (see `strength`) below which a memory is forgotten.
    """
    if half_life_days <= 0:
        return
    version = await deps.memories.version(state.workspace_id)
    half_life, now = timedelta(days=half_life_days), deps.now()
    stored = await deps.memories.list(state.workspace_id, Filters(kinds=[str(Kind.OBSERVATION)]), limit=10 * MOST)
    faded = [m for m in stored if is_about(m, state) and strength(m, now, half_life) < below]
    change = Change(close=[Close(m.memory_id, "expired") for m in faded], decided_after=version)
    if faded:
        await deps.memories.apply(state.workspace_id, change, actor=deps.flow, reason="forgotten")
    tell(state, change)


def strength(memory: Memory, now: datetime, half_life: timedelta) -> float:
    """How strong a memory is, 0 to 1: its importance, halved with every half-life since it was last stated.

    Each doubling of its use (given to an agent, or stated again) makes its half-life longer by one: after Ebbinghaus'
    forgetting curve, in which repetition flattens the decay.

    >>> from datetime import UTC
    >>> memory = Memory(content="likes tea", observed_at=datetime(2024, 1, 1, tzinfo=UTC))
    >>> strength(memory, datetime(2024, 1, 31, tzinfo=UTC), timedelta(days=30))
    0.25
    """
    since = memory.updated_at if memory.seen_count > 1 else memory.observed_at or memory.created_at
    used = memory.freq + memory.seen_count - 1
    lives = max(0.0, (now - since) / (half_life * (1 + math.log2(1 + used))))
    return float(memory.importance * 0.5**lives)


def is_about(memory: Memory, state: SummaryState) -> bool:
    """Whether a memory is about the person that is reflected upon; what was added by hand names nobody."""
    return memory.subject in (state.user_name, "")


def said_at(memory: Memory) -> datetime:
    """When it was said, or else made."""
    return memory.observed_at or memory.created_at


def tell(state: SummaryState, change: Change) -> None:
    """Add a change that was made to what the flow tells."""
    state.memories = [*state.memories, *(m.model_copy(update={"workspace_id": state.workspace_id}) for m in change.add)]
    state.closing = [*state.closing, *change.close]
    before = state.update_result
    state.update_result = UpdateResult(
        before.deleted_count + len(change.close),
        before.inserted_count + len(change.add),
        before.updated_count + len(change.restate),
    )


async def _judged(
    stored: Sequence[Memory], similarity: float, neighbours: int, workspace: str, deps: Deps, chat: ChatModel
) -> dict[tuple[str, str], Relation]:
    ordered = sorted(stored, key=said_at)
    embedder = await deps.serving.embedder(workspace)
    vectors = await embedder.embed([m.content for m in ordered], "passage")
    likeness = np.tril(vectors @ vectors.T, -1)
    seen = {m.memory_id for m in ordered if m.metadata.get(_COMPARED)}
    pairs = {
        newer.memory_id: [
            ordered[i]
            for i in np.argsort(-row)[:neighbours]
            if row[i] >= similarity and not {newer.memory_id, ordered[i].memory_id} <= seen
        ]
        for newer, row in zip(ordered, likeness, strict=True)
    }
    return await judge(pairs, {m.memory_id: m for m in ordered}, deps, chat)
