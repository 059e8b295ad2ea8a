"""Count how often lessons were used and how often they helped, and delete those that seldom do."""

from __future__ import annotations

from collections.abc import Sequence

from reme_core.errors import InputError
from reme_core.flows.deps import Deps
from reme_core.flows.registry import op
from reme_core.flows.state import UpdateResult
from reme_core.marks import PRUNED
from reme_core.store import feedback
from reme_core.store.change import Change, Close, retry_conflicts
from reme_core.store.filters import Filters
from reme_core.task.state import TaskState, is_scored
from reme_core.types import TASK_KINDS


@op(reads={"memory_dicts", "update_utility", "metadata"}, uses={"retrieval_id"}, writes={"memories", "update_result"})
async def record_use(state: TaskState, deps: Deps) -> None:
    """Count that memories were given to an agent (freq), and that it then succeeded (utility, with `update_utility`).

    The request names memories by their dicts (`memory_id`), by `retrieval_id` (also in `metadata`), or both. A
    retrieval counts once, even if it is reported again. Ids that the workspace does not know are reported as
    `unknown_ids` and `unknown_retrieval_ids`.

    Raises:
        InputError: A dict has no `memory_id`.
    """
    ids = []
    for number, memory in enumerate(state.memory_dicts):
        memory_id = memory.get("memory_id", memory.get("experience_id"))
        if not isinstance(memory_id, str) or not memory_id:
            raise InputError(f"memory_dicts.{number}: has no memory_id; give the memories as they were retrieved")
        ids.append(memory_id)
    retrievals = _retrieval_ids(state.metadata) + ([state.retrieval_id] if state.retrieval_id else [])
    await deps.log_writer.flush()  # the retrieval may not be in the log yet
    counted: list[str] = []
    retrieved: set[str] = set()
    if retrievals:
        await _report_unknown(retrievals, state, deps)
        counted += await feedback.rate_retrievals(
            deps.database, state.workspace_id, retrievals, named=ids, helped=state.update_utility
        )
        retrieved = await feedback.retrieved_ids(deps.database, state.workspace_id, retrievals)
    # What the retrieval counts, now or when it was reported before, must not count a second time by its id.
    others = [memory_id for memory_id in ids if memory_id not in retrieved]
    if others:
        counted += await feedback.count_uses(deps.database, state.workspace_id, others, helped=state.update_utility)
    order = {memory_id: place for place, memory_id in enumerate(dict.fromkeys([*ids, *counted]))}
    found = await deps.memories.list(state.workspace_id, Filters(ids=[*order], status=None), limit=len(order))
    state.memories = sorted(found, key=lambda memory: order[memory.memory_id])
    state.update_result = UpdateResult(updated_count=len(counted))
    state.report["deleted_memory_ids"] = []  # ReMe 0.1 deleted each memory and stored it anew; here it is only counted
    if unknown := sorted(set(ids) - {memory.memory_id for memory in found}):
        state.report["unknown_ids"] = unknown


@op(reads={"freq_threshold", "utility_threshold"}, writes={"update_result"}, deletes=True)
async def delete_unhelpful(state: TaskState, deps: Deps) -> None:
    """Delete lessons that were used `freq_threshold` times or more and helped in too small a share (utility / freq).

    One that is learned again is there again, and its use is counted anew.
    """

    async def prune(_: int) -> list[str]:
        ids = await feedback.seldom_useful(
            deps.database,
            state.workspace_id,
            [str(kind) for kind in TASK_KINDS],
            freq_threshold=state.freq_threshold,
            utility_threshold=state.utility_threshold,
        )
        if ids:
            reason = f"helped in less than {state.utility_threshold:g} of {state.freq_threshold} uses or more"
            closing = [Close(memory_id, "deleted") for memory_id in ids]
            pruned = Change(close=closing, annotate={key: {PRUNED: True} for key in ids})
            await deps.memories.apply(state.workspace_id, pruned, actor=deps.flow, reason=reason)
        return ids

    ids = await retry_conflicts(prune)
    state.update_result = UpdateResult(deleted_count=len(ids))
    state.report["deleted_memory_ids"] = ids


@op(reads={"successes", "failures"})
async def settle_retrievals(state: TaskState, deps: Deps) -> None:
    """Note in the retrieval log whether the attempts that used a retrieval (`metadata.retrieval_id`) succeeded.

    An attempt without a score tells nothing of that.
    """
    outcomes = [(state.successes, True), (state.failures, False)]
    uses = [(_retrieval_ids(t.metadata), helped) for attempts, helped in outcomes for t in attempts if is_scored(t)]
    uses = [(retrievals, helped) for retrievals, helped in uses if retrievals]
    if uses:
        await deps.log_writer.flush()  # the retrievals may not be in the log yet
        await _report_unknown([one for retrievals, _ in uses for one in retrievals], state, deps)
    for retrievals, helped in uses:
        await feedback.rate_retrievals(deps.database, state.workspace_id, retrievals, helped=helped)


async def _report_unknown(retrievals: Sequence[str], state: TaskState, deps: Deps) -> None:
    """Tell the caller which retrievals are not in the log of the workspace, so that nothing counts for them."""
    if unknown := await feedback.unknown_retrievals(deps.database, state.workspace_id, retrievals):
        state.report["unknown_retrieval_ids"] = unknown


def _retrieval_ids(metadata: dict[str, object]) -> list[str]:
    several = metadata.get("retrieval_ids")
    ids = [metadata.get("retrieval_id"), *(several if isinstance(several, list) else [])]
    return [name for name in ids if isinstance(name, str) and name]
