"""Leaving out what is known already, by the store or within the batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from reme_core.models import Embedder, Vectors
from reme_core.ops.deps import Deps
from reme_core.ops.drafts import RULES
from reme_core.ops.registry import op
from reme_core.ops.state import SummaryState
from reme_core.schema import TASK_KINDS, Memory, Source
from reme_core.store.change import searched_text
from reme_core.store.usage import nearest
from reme_core.text.terms import terms

SAME = 0.96
"""Cosine of two lessons (situation and content as one text) from which they count as one.

Measured with the offline embedder on two libraries, of 193 and 474 lessons that a model wrote. ReMe 0.1's bound of 0.5
would leave one lesson of each library: *all* pairs are above it (median 0.86, 99 % of them below 0.945). Read by eye,
pairs from 0.96 up are the same lesson in other words (29 and 48 pairs), from 0.95 to 0.96 mostly so; below 0.95 they
share a topic and differ in what to do. Embedders that spread texts wider only merge less at this bound.
"""
_WORDS_OF_RULES = 0.8
_CANDIDATES = 5


@dataclass(slots=True)
class Sorted:
    """What of a batch is new, and which stored memories it says again (by id, with the new evidence)."""

    fresh: list[Memory] = field(default_factory=list)
    restated: dict[str, list[Source]] = field(default_factory=dict)


@op(
    reads={"memories"},
    writes={"memories", "restated", "same_from", "decided_after"},
    aliases=("memory_deduplication", "dedup"),
)
async def deduplication(state: SummaryState, deps: Deps, *, similarity_threshold: float = SAME) -> None:
    """Leave out what the store, or an earlier draft, says already; what the store says is counted as said again."""
    state.same_from = similarity_threshold
    state.decided_after = await deps.memories.version(state.workspace_id)
    found = await sort_out(state.memories, state.workspace_id, deps, same_from=similarity_threshold)
    state.memories, state.restated = found.fresh, found.restated


async def sort_out(memories: Sequence[Memory], workspace: str, deps: Deps, *, same_from: float) -> Sorted:
    """Compare a batch with the lessons that are stored, and its members with each other; the first of a kind stays."""
    found = Sorted()
    if not memories:
        return found
    embedder = await deps.serving.embedder(workspace)
    situations = await embedder.embed([searched_text(m) for m in memories], "passage")
    kinds = [str(kind) for kind in TASK_KINDS]
    near = await nearest(deps.database, workspace, situations, model=embedder.name, kinds=kinds, limit=_CANDIDATES)
    stored = list({memory.memory_id: memory for candidates in near for memory, _ in candidates}.values())
    vectors = await _embedded([*stored, *memories], embedder)
    known, places = list(stored), list(range(len(stored)))
    for place, memory in enumerate(memories, len(stored)):
        twin = _twin(memory, known, vectors[places] @ vectors[place], same_from)
        if twin is None:
            found.fresh.append(memory)
            known.append(memory)
            places.append(place)
        elif twin < len(stored):
            found.restated.setdefault(stored[twin].memory_id, []).extend(memory.sources)
    return found


async def _embedded(memories: Sequence[Memory], embedder: Embedder) -> Vectors:
    return await embedder.embed([f"{memory.when_to_use}\n{memory.content}" for memory in memories], "passage")


def _twin(memory: Memory, known: Sequence[Memory], likeness: np.ndarray, least: float) -> int | None:
    """The place of the known memory that says the same, the most similar first."""
    for place in np.argsort(-likeness, kind="stable"):
        other = known[int(place)]
        if other.memory_id == memory.memory_id:
            return int(place)
        if likeness[place] >= least and _comparable(memory, other):
            return int(place)
    return None


def _comparable(one: Memory, other: Memory) -> bool:
    """Whether likeness of meaning tells that two lessons are one.

    Rules write by template, so two of theirs are alike even where tools, errors and answers differ: their words must
    agree too.
    """
    if not (one.author == other.author == RULES):
        return True
    first, second = (set(terms(f"{m.when_to_use} {m.content}")) for m in (one, other))
    return len(first & second) >= _WORDS_OF_RULES * len(first | second)
