"""How lessons fared with the agents that were given them, and what follows from that."""

from __future__ import annotations

from reme_core.errors import InputError
from reme_core.ops.deps import Deps
from reme_core.ops.registry import op
from reme_core.ops.state import SummaryState, UpdateResult
from reme_core.schema import TASK_KINDS
from reme_core.store import usage
from reme_core.store.filters import Filters


@op(
    reads={"memory_dicts", "update_utility", "metadata"},
    writes={"memories", "update_result"},
    aliases=("update_memory_freq", "update_memory_utility"),
)
async def record_use(state: SummaryState, deps: Deps) -> None:
    """Count that memories were given to an agent (freq), and that it then succeeded (utility, with `update_utility`).

    They are named by their dicts (`memory_id`), by `metadata.retrieval_id`, or both; a retrieval counts once, however
    often it is told. Where nothing was retrieved there is nothing to count.

    Raises:
        InputError: A dict has no `memory_id`.
    """
    ids = []
    for number, given in enumerate(state.memory_dicts):
        memory_id = given.get("memory_id", given.get("experience_id"))
        if not isinstance(memory_id, str) or not memory_id:
            raise InputError(f"memory_dicts.{number}: has no memory_id; give the memories as they were retrieved")
        ids.append(memory_id)
    retrievals = _retrievals(state.metadata)
    await deps.journal.flush()  # the retrieval that they come from may be a moment old
    counted: list[str] = []
    if retrievals:
        counted += await usage.settle(deps.database, state.workspace_id, retrievals, helped=state.update_utility)
    named = [memory_id for memory_id in ids if memory_id not in counted]
    if named:
        counted += await usage.used(deps.database, state.workspace_id, named, helped=state.update_utility)
    found = await deps.memories.list(state.workspace_id, Filters(ids=counted, status=None), limit=max(len(counted), 1))
    order = {memory_id: place for place, memory_id in enumerate(dict.fromkeys([*ids, *counted]))}
    state.memories = sorted(found, key=lambda memory: order[memory.memory_id])
    state.update_result = UpdateResult(updated_count=len(counted))
    if unknown := sorted(set(ids) - set(counted)):
        state.report["unknown_ids"] = unknown


@op(
    reads={"freq_threshold", "utility_threshold"},
    writes={"update_result"},
    aliases=("delete_memory",),
)
async def delete_unhelpful(state: SummaryState, deps: Deps) -> None:
    """Delete lessons that were given often enough (freq) and helped too seldom (utility of freq)."""
    ids = await usage.seldom_useful(
        deps.database,
        state.workspace_id,
        [str(kind) for kind in TASK_KINDS],
        freq_threshold=state.freq_threshold,
        utility_threshold=state.utility_threshold,
    )
    reason = f"helped in less than {state.utility_threshold:g} of {state.freq_threshold} uses or more"
    deleted = await deps.memories.delete(state.workspace_id, ids, actor=deps.flow, reason=reason) if ids else 0
    state.update_result = UpdateResult(deleted_count=deleted)
    state.report["deleted_memory_ids"] = ids


@op(reads={"successes", "failures"})
async def settle_retrievals(state: SummaryState, deps: Deps) -> None:
    """Tell the retrieval log how attempts went that say which retrievals they used (`metadata.retrieval_id`)."""
    outcomes = [(state.successes, True), (state.failures, False)]
    told = [(_retrievals(t.metadata), helped) for attempts, helped in outcomes for t in attempts]
    told = [(retrievals, helped) for retrievals, helped in told if retrievals]
    if told:
        await deps.journal.flush()
    for retrievals, helped in told:
        await usage.settle(deps.database, state.workspace_id, retrievals, helped=helped)


def _retrievals(metadata: dict[str, object]) -> list[str]:
    given = [metadata.get("retrieval_id"), *_listed(metadata.get("retrieval_ids"))]
    return [name for name in given if isinstance(name, str) and name]


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []
