"""Writing what a flow has found: all of it in one transaction, and nothing twice."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from reme_core.errors import ConflictError
from reme_core.ops.deduplication import sort_out
from reme_core.ops.deps import Deps
from reme_core.ops.registry import op
from reme_core.ops.state import SummaryState, UpdateResult
from reme_core.schema import Memory, Source, Status
from reme_core.store.change import Change
from reme_core.store.filters import Filters

_ATTEMPTS = 8


@op(
    reads={"memories"},
    uses={"restated", "closing", "vectors", "same_from", "decided_after"},
    writes={"memories", "restated", "decided_after", "update_result"},
    aliases=("update_vector_store", "update_memory", "experience_storage"),
)
async def store(state: SummaryState, deps: Deps) -> None:
    """Store the new memories, close those they replace, and give further evidence to those that were said again.

    When others have written to the workspace since duplicates were looked for, they are looked for again.

    Raises:
        ConflictError: Others changed the same memories, again and again; or at all, where the flow decided otherwise
            than by `deduplication` what is to change, and has to decide anew.
    """
    for attempt in range(_ATTEMPTS):
        if attempt and state.same_from is not None:
            await _look_again(state, deps, state.same_from)
            if attempt == _ATTEMPTS - 1:
                # In so busy a workspace it is enough that no memory is stored twice, which its id sees to.
                state.decided_after = None
        change = await _change(state, deps)
        try:
            if change.add or change.close or change.restate:
                reason = f"learned by the flow {deps.flow}"
                vectors = [state.vectors[m.memory_id] for m in change.add if m.memory_id in state.vectors]
                await deps.memories.apply(
                    state.workspace_id,
                    change,
                    embeddings=np.stack(vectors) if change.add and len(vectors) == len(change.add) else None,
                    actor=deps.flow,
                    reason=reason,
                )
            break
        except ConflictError:
            if attempt == _ATTEMPTS - 1 or (state.decided_after is not None and state.same_from is None):
                raise
    state.memories = [memory.model_copy(update={"workspace_id": state.workspace_id}) for memory in change.add]
    state.update_result = UpdateResult(len(change.close), len(change.add), len(change.restate))


async def _look_again(state: SummaryState, deps: Deps, same_from: float) -> None:
    state.decided_after = await deps.memories.version(state.workspace_id)
    found = await sort_out(state.memories, state.vectors, state.workspace_id, deps, same_from=same_from)
    state.memories = found.fresh
    for memory_id, sources in found.restated.items():
        state.restated.setdefault(memory_id, []).extend(sources)


async def _change(state: SummaryState, deps: Deps) -> Change:
    """What is to be done, given what is stored at this moment.

    A memory whose id is there already is one that was said again. It counts only if it brings evidence: what is posted
    a second time was not said a second time.
    """
    again: dict[str, list[Source]] = {memory_id: list(sources) for memory_id, sources in state.restated.items()}
    wanted = {memory.memory_id: memory for memory in state.memories}
    ids = [*wanted, *again, *(close.memory_id for close in state.closing)]
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
        restate=sorted(support),
        support=support,
        decided_after=state.decided_after,
    )
