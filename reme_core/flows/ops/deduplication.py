"""Finds new memories that say the same as a stored one, or as each other."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reme_core.flows.deps import Deps
from reme_core.flows.drafts import RULES
from reme_core.flows.registry import op
from reme_core.flows.state import SummaryState
from reme_core.models import Embedder
from reme_core.store.change import searched_text
from reme_core.store.feedback import nearest
from reme_core.types import TASK_KINDS, Memory, Source

SAME = 0.96
"""The cosine from which two lessons (situation and content as one text) count as the same.

Measured with the offline embedder on two libraries of 193 and 474 lessons that a model wrote. With the bound of ReMe
0.1, 0.5, one lesson of each library would be left: *all* pairs are above it (median 0.86, 99 % of them below 0.945).
Pairs from 0.96 up are the same lesson in other words (29 and 48 pairs, all read), those from 0.95 to 0.96 mostly; below
0.95 they have a topic in common and differ in what to do. With an embedder whose cosines are lower, fewer lessons are
merged.
"""
# The cosine of situations below which pairs are not compared; no pair above `SAME` had one below 0.90.
_SAME_SITUATION = 0.88
_CANDIDATES = 5  # stored lessons that a new one is compared with

_NUMBER = re.compile(r"\w*\d[\w.:/-]*")


@dataclass(frozen=True, slots=True)
class Separation:
    """The new memories of a batch, and the evidence that the others add to stored memories, by the ids of these."""

    fresh: list[Memory]
    confirmed: dict[str, list[Source]]


@op(
    reads={"memories"},
    writes={"memories", "confirmed", "vectors", "same_from", "expected_version"},
)
async def deduplication(state: SummaryState, deps: Deps, *, similarity_threshold: float = SAME) -> None:
    """Leave out what a stored memory or an earlier draft says already; the stored memory gets the evidence."""
    if any(memory.author != RULES for memory in state.memories):
        # What others store meanwhile matters, so the change needs the version that it was decided on. Memories by rules
        # are the same only if their ids are, and that shows when they are stored.
        state.same_from = similarity_threshold
        state.expected_version = await deps.memories.version(state.workspace_id)
    embedder = await deps.workspace_models.embedder(state.workspace_id)
    if state.memories:
        vectors = await embedder.embed([searched_text(m) for m in state.memories], "passage")
        state.vectors = {m.memory_id: vector for m, vector in zip(state.memories, vectors, strict=True)}
    found = await separate_known(
        state.memories, state.vectors, state.workspace_id, deps, same_from=similarity_threshold
    )
    state.memories, state.confirmed = found.fresh, found.confirmed


async def separate_known(
    memories: Sequence[Memory],
    vectors: Mapping[str, npt.NDArray[np.float32]],
    workspace: str,
    deps: Deps,
    *,
    same_from: float,
) -> Separation:
    """Compare new lessons with the stored ones and with each other; of several that say the same, the first stays.

    Args:
        memories: The new lessons.
        vectors: The embeddings of the texts by which they are found, by memory id.
        workspace: The workspace of the stored lessons.
        deps: Uses `database` and `workspace_models`.
        same_from: The cosine from which two lessons count as the same.
    """
    if not memories:
        return Separation([], {})
    embedder = await deps.workspace_models.embedder(workspace)
    asked = np.stack([vectors[memory.memory_id] for memory in memories])
    kinds = [str(kind) for kind in TASK_KINDS]
    near = await nearest(deps.database, workspace, asked, model=embedder.name, kinds=kinds, limit=_CANDIDATES)
    stored = {memory.memory_id: memory for candidates in near for memory, _ in candidates}
    # Situations are compared first: their embeddings are there. Those of whole lessons cost a call of the model.
    pairs: dict[str, list[Memory]] = {}
    for place, memory in enumerate(memories):
        earlier = [(other, float(asked[number] @ asked[place])) for number, other in enumerate(memories[:place])]
        pairs[memory.memory_id] = [
            other
            for other, alike in (*near[place], *earlier)
            if alike >= _SAME_SITUATION and _can_compare(memory, other)
        ]
    likeness = await _likeness(memories, pairs, embedder)
    fresh: dict[str, Memory] = {}
    confirmed: dict[str, list[Source]] = {}
    for memory in memories:
        alike = [o.memory_id for o in pairs[memory.memory_id] if likeness[memory.memory_id, o.memory_id] >= same_from]
        same = [memory.memory_id, *alike]
        if known := next((memory_id for memory_id in same if memory_id in stored), None):
            confirmed.setdefault(known, []).extend(memory.sources)
        elif twin := next((memory_id for memory_id in same if memory_id in fresh), None):
            both = list(dict.fromkeys([*fresh[twin].sources, *memory.sources]))
            fresh[twin] = fresh[twin].model_copy(update={"sources": both})
        else:
            fresh[memory.memory_id] = memory
    return Separation(list(fresh.values()), confirmed)


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


def _can_compare(one: Memory, other: Memory) -> bool:
    """Whether a high cosine means that two lessons say the same."""
    # Rules write by template, so their lessons are alike even if tools and errors differ.
    if one.author == other.author == RULES or one.scope != other.scope:
        return False
    # Embedders hardly see numbers, and two lessons may differ in nothing else.
    first, second = (set(_NUMBER.findall(f"{m.when_to_use} {m.content}")) for m in (one, other))
    return first == second
