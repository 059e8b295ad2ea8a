"""Making memories of drafts: reconciled with all that is stored, in one change that happens whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from reme_core.errors import ConflictError
from reme_core.ops.deps import Deps
from reme_core.ops.personal.ledger import Ledger
from reme_core.ops.personal.neighbours import Vectors, around, judge
from reme_core.ops.personal.relations import Relation
from reme_core.ops.registry import op
from reme_core.ops.state import SummaryState, UpdateResult
from reme_core.schema import Memory, Status
from reme_core.store.change import Change
from reme_core.store.messages import unsummarised

_ATTEMPTS = 8
_STORED = 2
"""Stored statements that a draft is compared with by the model."""
_BESIDE = 1
"""Earlier drafts of the same conversation that it is compared with: what a model says twice lies nearest."""


@op(
    reads={"waiting", "untimed_drafts", "timed_drafts"},
    uses={"taken_back"},
    writes={"memories", "closing", "update_result"},
    aliases=("contra_repeat",),
)
async def reconcile(state: SummaryState, deps: Deps) -> None:
    """Lay the drafts beside what is stored, store what is new, close what it replaces, and count what is repeated.

    By rule where slots or words make it certain, else by the model where one is set. All of it is one change, with the
    messages it was made from marked as summarised: a job that dies in the middle or runs twice doubles nothing. When
    somebody else changed the same workspace meanwhile, it is decided again.

    Raises:
        ConflictError: Others changed the workspace again and again.
    """
    drafts = sorted([*state.untimed_drafts, *state.timed_drafts], key=_said)
    waiting = [message.message_id for message in state.waiting]
    vectors = await _embedded(state.workspace_id, drafts, deps)
    for attempt in range(_ATTEMPTS):
        if not waiting:
            return
        change = await _decided(state, drafts, vectors, waiting, deps)
        try:
            await deps.memories.apply(
                state.workspace_id,
                change,
                embeddings=np.array([vectors[memory.memory_id] for memory in change.add]) if change.add else None,
                actor=deps.flow,
                reason="said in a conversation",
            )
        except ConflictError:
            if attempt == _ATTEMPTS - 1:
                raise
            left = await unsummarised(deps.database, state.workspace_id, ids=waiting, limit=len(waiting))
            waiting = [message.message_id for message in left]
            # What rests on messages that somebody else has summarised is theirs.
            drafts = [d for d in drafts if {source.id for source in d.sources} <= set(waiting)]
        else:
            _tell(state, change)
            return


async def _decided(
    state: SummaryState, drafts: Sequence[Memory], vectors: Mapping[str, Vectors], waiting: Sequence[str], deps: Deps
) -> Change:
    version = await deps.memories.version(state.workspace_id)
    chosen = np.array([vectors[d.memory_id] for d in drafts])
    near = await around(state.workspace_id, drafts, chosen, deps) if drafts else {}
    withdrawn = await deps.memories.resting_on(state.workspace_id, "message", state.taken_back)
    stored = {m.memory_id: m for m in [*withdrawn, *(m for found in near.values() for m in found)]}
    judged: dict[tuple[str, str], Relation] = {}
    if deps.chat is not None and drafts:
        pairs = {
            d.memory_id: [*near[d.memory_id][:_STORED], *_before(place, drafts, chosen)]
            for place, d in enumerate(drafts)
        }
        judged = await judge(pairs, {d.memory_id: d for d in drafts}, deps, deps.chat)
    ledger = Ledger(stored.values())
    ledger.expire(memory.memory_id for memory in withdrawn)
    for draft in drafts:
        ledger.take(draft, {old: relation for (new, old), relation in judged.items() if new == draft.memory_id})
    return ledger.change(waiting, version)


def _before(place: int, drafts: Sequence[Memory], vectors: Vectors) -> list[Memory]:
    """The nearest of the drafts that were said before."""
    if place == 0:
        return []
    order = np.argsort(-(vectors[:place] @ vectors[place]))
    return [drafts[index] for index in order[:_BESIDE]]


async def _embedded(workspace: str, drafts: Sequence[Memory], deps: Deps) -> dict[str, Vectors]:
    if not drafts:
        return {}
    embedder = await deps.serving.embedder(workspace)
    vectors = await embedder.embed([draft.content for draft in drafts], "passage")
    return {draft.memory_id: vector for draft, vector in zip(drafts, vectors, strict=True)}


def _said(draft: Memory) -> float:
    return draft.observed_at.timestamp() if draft.observed_at else 0.0


def _tell(state: SummaryState, change: Change) -> None:
    state.memories = [
        m.model_copy(update={"workspace_id": state.workspace_id}) for m in change.add if m.status == Status.ACTIVE
    ]
    state.closing = list(change.close)
    state.update_result = UpdateResult(len(change.close), len(change.add), len(change.restate))
