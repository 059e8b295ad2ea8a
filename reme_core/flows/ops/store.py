"""Stores the memories that a flow has made, in one transaction, without those that say what is known already."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from reme_core.flows.deps import Deps
from reme_core.flows.drafts import RULES
from reme_core.flows.registry import op
from reme_core.flows.state import SummaryState, UpdateResult
from reme_core.marks import is_pruned
from reme_core.models import Embedder
from reme_core.store.change import ATTEMPTS, Change, retry_conflicts, searched_text, vectors_of
from reme_core.store.feedback import nearest
from reme_core.store.filters import Filters
from reme_core.types import TASK_KINDS, Memory, Source, Status

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

_NUMBER = re.compile(r"\b\w*\d[\w.:/-]*")  # from the begin of a word only: else a very long one takes minutes


@op(reads={"memories"}, writes={"memories", "confirmed", "vectors", "same_from", "expected_version"})
async def deduplication(state: SummaryState, deps: Deps, *, similarity_threshold: float = SAME) -> None:
    """Leave out what a stored memory or an earlier draft says already; the stored memory gets the evidence."""
    if any(memory.author != RULES for memory in state.memories):
        # What others store meanwhile matters, so the change needs the version that it was decided on. Memories by rules
        # are the same only if their ids are, and that shows when they are stored.
        state.same_from = similarity_threshold
        state.expected_version = await deps.memories.version(state.workspace_id)
    await _separate_known(state, deps, similarity_threshold)


async def _separate_known(state: SummaryState, deps: Deps, same_from: float) -> None:
    """Compare new lessons with the stored ones and with each other; of several that say the same, the first stays.

    `state.memories` keeps those that are new; those that stored ones say already go to `state.confirmed`.
    """
    memories, workspace = state.memories, state.workspace_id
    if not memories:
        return
    embedder = await deps.workspace_models.embedder(workspace)
    asked = await vectors_of(memories, embedder, state.vectors)
    state.vectors = {(embedder.name, searched_text(m)): vector for m, vector in zip(memories, asked, strict=True)}
    kinds = [str(kind) for kind in TASK_KINDS]
    near = await nearest(deps.database, workspace, memories, asked, model=embedder.name, kinds=kinds, limit=_CANDIDATES)
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
    for memory in memories:
        alike = [o.memory_id for o in pairs[memory.memory_id] if likeness[memory.memory_id, o.memory_id] >= same_from]
        same = [memory.memory_id, *alike]
        if known := next((memory_id for memory_id in same if memory_id in stored), None):
            state.confirmed.setdefault(known, []).append(memory)
        elif twin := next((memory_id for memory_id in same if memory_id in fresh), None):
            both = list(dict.fromkeys([*fresh[twin].sources, *memory.sources]))
            fresh[twin] = fresh[twin].model_copy(update={"sources": both})
        else:
            fresh[memory.memory_id] = memory
    state.memories = list(fresh.values())


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


@op(
    reads={"memories"},
    uses={"confirmed", "closing", "vectors", "same_from", "expected_version", "episode_ids"},
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
            # At the last attempt, others write too often to look for all duplicates; equal words still have equal ids.
            is_last = attempt == ATTEMPTS - 1
            state.expected_version = None if is_last else await deps.memories.version(state.workspace_id)
            await _separate_known(state, deps, state.same_from)
        change = await _decide_change(state, deps)
        if change.add or change.renew or change.close or change.confirm or change.learned:
            reason = f"learned by the flow {deps.flow}"
            await deps.memories.apply(state.workspace_id, change, actor=deps.flow, reason=reason)
        return change

    # A change that another op decided on, given a version, cannot be decided again here.
    can_decide_again = state.expected_version is None or state.same_from is not None
    change = await (retry_conflicts(apply) if can_decide_again else apply(0))
    state.memories = [memory.model_copy(update={"workspace_id": state.workspace_id}) for memory in change.add]
    if change.renew:
        again = Filters(ids=change.renew)
        state.memories += await deps.memories.list(state.workspace_id, again, limit=len(change.renew))
    state.update_result = UpdateResult(len(change.close), len(change.add) + len(change.renew), len(change.confirm))


async def _decide_change(state: SummaryState, deps: Deps) -> Change:
    """The change to make, given what is stored at this moment."""
    wanted = {memory.memory_id: memory for memory in state.memories}
    ids = [*wanted, *state.confirmed, *(close.memory_id for close in state.closing)]
    ids += [memory.memory_id for same in state.confirmed.values() for memory in same]
    # Closed memories as well: their ids are taken.
    stored = await deps.memories.list(state.workspace_id, Filters(ids=ids, status=None), limit=len(ids))
    known: Mapping[str, Memory] = {memory.memory_id: memory for memory in stored}
    # What somebody deleted stays so, and counts as nothing.
    unwanted = {memory.memory_id for memory in stored if memory.status == Status.DELETED and not is_pruned(memory)}
    again: dict[str, list[Source]] = {}
    for memory_id, same in state.confirmed.items():
        if memory_id in known and known[memory_id].status == Status.ACTIVE:
            again[memory_id] = [source for memory in same for source in memory.sources]
        else:  # what said the same was closed meanwhile, or erased
            wanted |= {memory.memory_id: memory for memory in same}
    # A memory whose id is stored already was said again if it comes with new evidence. A request that is sent twice
    # has none.
    for memory_id in (wanted.keys() & known.keys()) - unwanted:
        again.setdefault(memory_id, []).extend(wanted[memory_id].sources)
    support: dict[str, list[Source]] = {}
    for memory_id in again.keys() & known.keys():
        seen = {(source.kind, source.id) for source in known[memory_id].sources}
        if new := [source for source in again[memory_id] if (source.kind, source.id) not in seen]:
            support[memory_id] = new
    renew = sorted(memory_id for memory_id in wanted.keys() & known.keys() if is_pruned(known[memory_id]))
    return Change(
        add=[memory for memory in wanted.values() if memory.memory_id not in known],
        close=[c for c in state.closing if c.memory_id in known and known[c.memory_id].status == Status.ACTIVE],
        confirm=sorted(support.keys() - set(renew)),
        renew=renew,
        support=support,
        learned=state.episode_ids,
        expected_version=state.expected_version,
        embedded=state.vectors,
    )
