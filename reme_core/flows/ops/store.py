"""Stores the memories that a flow has made, in one transaction."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from reme_core.flows.conflicts import ATTEMPTS, retry_conflicts
from reme_core.flows.deps import Deps
from reme_core.flows.ops.deduplication import separate_known
from reme_core.flows.registry import op
from reme_core.flows.state import SummaryState, UpdateResult
from reme_core.store.change import Change
from reme_core.store.filters import Filters
from reme_core.types import Memory, Source, Status


@op(
    reads={"memories"},
    uses={"confirmed", "closing", "vectors", "same_from", "expected_version"},
    writes={"memories", "confirmed", "expected_version", "update_result"},
)
async def store(state: SummaryState, deps: Deps) -> None:
    """Store the new memories, close those that they replace, and add evidence to those that were said again.

    If somebody else has written to the workspace since `deduplication`, duplicates are looked for again.

    Raises:
        ConflictError: Somebody else changed the same memories meanwhile, at each of several attempts. If the flow
            decided on the change by itself, without `deduplication`, there is one attempt.
    """

    async def apply(attempt: int) -> Change:
        if attempt and state.same_from is not None:
            await _look_again(state, deps, state.same_from)
            if attempt == ATTEMPTS - 1:
                # Others write too often to look for all duplicates; equal words still have equal ids.
                state.expected_version = None
        change = await _decide_change(state, deps)
        if change.add or change.close or change.confirm:
            vectors = [state.vectors[m.memory_id] for m in change.add if m.memory_id in state.vectors]
            await deps.memories.apply(
                state.workspace_id,
                change,
                embeddings=np.stack(vectors) if change.add and len(vectors) == len(change.add) else None,
                actor=deps.flow,
                reason=f"learned by the flow {deps.flow}",
            )
        return change

    # A change that another op decided on, given a version, cannot be decided again here.
    can_decide_again = state.expected_version is None or state.same_from is not None
    change = await (retry_conflicts(apply) if can_decide_again else apply(0))
    state.memories = [memory.model_copy(update={"workspace_id": state.workspace_id}) for memory in change.add]
    state.update_result = UpdateResult(len(change.close), len(change.add), len(change.confirm))


async def _look_again(state: SummaryState, deps: Deps, same_from: float) -> None:
    state.expected_version = await deps.memories.version(state.workspace_id)
    found = await separate_known(state.memories, state.vectors, state.workspace_id, deps, same_from=same_from)
    state.memories = found.fresh
    for memory_id, sources in found.confirmed.items():
        state.confirmed.setdefault(memory_id, []).extend(sources)


async def _decide_change(state: SummaryState, deps: Deps) -> Change:
    """The change to make, given what is stored at this moment."""
    # A memory whose id is stored already was said again if it comes with new evidence. A request that is sent twice
    # has none.
    again: dict[str, list[Source]] = {memory_id: list(sources) for memory_id, sources in state.confirmed.items()}
    wanted = {memory.memory_id: memory for memory in state.memories}
    ids = [*wanted, *again, *(close.memory_id for close in state.closing)]
    # Closed memories as well: their ids are taken.
    stored = await deps.memories.list(state.workspace_id, Filters(ids=ids, status=None), limit=max(len(ids), 1))
    known: Mapping[str, Memory] = {memory.memory_id: memory for memory in stored}
    for memory_id in wanted.keys() & known.keys():
        again.setdefault(memory_id, []).extend(wanted[memory_id].sources)
    support: dict[str, list[Source]] = {}
    for memory_id in again.keys() & known.keys():
        seen = {(source.kind, source.id) for source in known[memory_id].sources}
        if new := [source for source in again[memory_id] if (source.kind, source.id) not in seen]:
            support[memory_id] = new
    return Change(
        add=[memory for memory in wanted.values() if memory.memory_id not in known],
        close=[c for c in state.closing if c.memory_id in known and known[c.memory_id].status == Status.ACTIVE],
        confirm=sorted(support),
        support=support,
        expected_version=state.expected_version,
    )
