"""Leaving out what is known already, by the store or within the batch."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from reme_core.models import Embedder
from reme_core.ops.deps import Deps
from reme_core.ops.drafts import RULES
from reme_core.ops.registry import op
from reme_core.ops.state import SummaryState
from reme_core.schema import TASK_KINDS, Memory, Source
from reme_core.store.change import searched_text
from reme_core.store.usage import nearest

SAME = 0.96
"""Cosine of two lessons (situation and content as one text) from which they count as one.

Measured with the offline embedder on two libraries, of 193 and 474 lessons that a model wrote. ReMe 0.1's bound of 0.5
would leave one lesson of each library: *all* pairs are above it (median 0.86, 99 % of them below 0.945). Read by eye,
pairs from 0.96 up are the same lesson in other words (29 and 48 pairs), from 0.95 to 0.96 mostly so; below 0.95 they
share a topic and differ in what to do. Embedders that spread texts wider only merge less at this bound.
"""
_SAME_SITUATION = 0.88
"""Of the pairs above `SAME` none had situations less alike than 0.90, so what is below need not be looked at."""
_CANDIDATES = 5

_NUMBER = re.compile(r"\w*\d[\w.:/-]*")


@dataclass(slots=True)
class Sorted:
    """What of a batch is new, and which stored memories it says again (by id, with the new evidence)."""

    fresh: list[Memory] = field(default_factory=list)
    restated: dict[str, list[Source]] = field(default_factory=dict)


@op(
    reads={"memories"},
    writes={"memories", "restated", "vectors", "same_from", "decided_after"},
    aliases=("memory_deduplication", "experience_deduplication", "dedup"),
)
async def deduplication(state: SummaryState, deps: Deps, *, similarity_threshold: float = SAME) -> None:
    """Leave out what the store, or an earlier draft, says already; what the store says is counted as said again."""
    if any(memory.author != RULES for memory in state.memories):
        # What rules write is known by its id alone, so others may write beside it.
        state.same_from = similarity_threshold
        state.decided_after = await deps.memories.version(state.workspace_id)
    embedder = await deps.serving.embedder(state.workspace_id)
    if state.memories:
        vectors = await embedder.embed([searched_text(m) for m in state.memories], "passage")
        state.vectors = {m.memory_id: vector for m, vector in zip(state.memories, vectors, strict=True)}
    found = await sort_out(state.memories, state.vectors, state.workspace_id, deps, same_from=similarity_threshold)
    state.memories, state.restated = found.fresh, found.restated


async def sort_out(
    memories: Sequence[Memory],
    vectors: Mapping[str, npt.NDArray[np.float32]],
    workspace: str,
    deps: Deps,
    *,
    same_from: float,
) -> Sorted:
    """Compare a batch with the lessons that are stored, and its members with each other; the first of a kind stays.

    Args:
        memories: The batch.
        vectors: The embeddings of what each is searched by, by id.
        workspace: Where to look.
        deps: Uses `database` and `serving`.
        same_from: The cosine from which two lessons are one.
    """
    found = Sorted()
    if not memories:
        return found
    embedder = await deps.serving.embedder(workspace)
    asked = np.stack([vectors[memory.memory_id] for memory in memories])
    kinds = [str(kind) for kind in TASK_KINDS]
    near = await nearest(deps.database, workspace, asked, model=embedder.name, kinds=kinds, limit=_CANDIDATES)
    stored = {memory.memory_id: memory for candidates in near for memory, _ in candidates}
    pairs: dict[str, list[Memory]] = {}
    for place, memory in enumerate(memories):
        earlier = [(other, float(asked[number] @ asked[place])) for number, other in enumerate(memories[:place])]
        pairs[memory.memory_id] = [
            other
            for other, alike in (*near[place], *earlier)
            if alike >= _SAME_SITUATION and _comparable(memory, other)
        ]
    likeness = await _likeness(memories, pairs, embedder)
    fresh: dict[str, Memory] = {}
    for memory in memories:
        alike = [o.memory_id for o in pairs[memory.memory_id] if likeness[memory.memory_id, o.memory_id] >= same_from]
        same = [memory.memory_id, *alike]
        if known := next((memory_id for memory_id in same if memory_id in stored), None):
            found.restated.setdefault(known, []).extend(memory.sources)
        elif twin := next((memory_id for memory_id in same if memory_id in fresh), None):
            both = list(dict.fromkeys([*fresh[twin].sources, *memory.sources]))
            fresh[twin] = fresh[twin].model_copy(update={"sources": both})
        else:
            fresh[memory.memory_id] = memory
    found.fresh = list(fresh.values())
    return found


async def _likeness(
    memories: Sequence[Memory], pairs: Mapping[str, Sequence[Memory]], embedder: Embedder
) -> dict[tuple[str, str], float]:
    """The cosine of each pair of lessons, by their ids."""
    involved = {other.memory_id: other for others in pairs.values() for other in others}
    involved.update({memory.memory_id: memory for memory in memories if pairs[memory.memory_id]})
    if not involved:
        return {}
    rows = await embedder.embed([f"{m.when_to_use}\n{m.content}" for m in involved.values()], "passage")
    whole = dict(zip(involved, rows, strict=True))
    return {
        (memory_id, other.memory_id): float(whole[memory_id] @ whole[other.memory_id])
        for memory_id, others in pairs.items()
        for other in others
    }


def _comparable(one: Memory, other: Memory) -> bool:
    """Whether likeness of meaning can tell that two lessons are one.

    Rules write by template, so two of theirs are alike even where tools and errors differ; and embedders hardly see
    numbers, which may be all that sets two lessons apart.
    """
    if one.author == other.author == RULES:
        return False
    first, second = (set(_NUMBER.findall(f"{m.when_to_use} {m.content}")) for m in (one, other))
    return first == second
