"""Retrieve guidance for tools: by their names, or by a query."""

from __future__ import annotations

from reme_core.errors import InputError
from reme_core.flows.degraded import report_degraded
from reme_core.flows.deps import Deps
from reme_core.flows.ops.rewrite import merge
from reme_core.flows.registry import op
from reme_core.flows.state import RetrievalState
from reme_core.store.filters import Filters
from reme_core.store.tool_calls import guidance_ids
from reme_core.types import Hit, Parts


@op(reads={"tool_names", "query", "top_k"}, uses={"messages"}, writes={"hits", "retrieval_id", "answer"})
async def retrieve_tools(state: RetrievalState, deps: Deps) -> None:
    """Find the guidance for tools: for those that are named, in that order, or for those that fit the query.

    Raises:
        InputError: Neither tools nor a query are given.
    """
    if state.tool_names:
        ids = await guidance_ids(deps.database, state.workspace_id, state.tool_names)
        found = await deps.memories.list(state.workspace_id, Filters(ids=ids), limit=max(len(ids), 1)) if ids else []
        order = {name: place for place, name in enumerate(state.tool_names)}
        found.sort(key=lambda memory: order[memory.subject])
        parts = Parts(final=1.0)
        state.hits = [Hit(rank=rank, memory=memory, parts=parts) for rank, memory in enumerate(found, 1)]
        known = {memory.subject for memory in found}
        if unknown := [name for name in state.tool_names if name not in known]:
            state.report["unknown_tools"] = unknown
    elif state.query.strip():
        recalled = await deps.recall(
            state.workspace_id, state.query.strip(), Filters.of(kind="tool"), limit=state.top_k, flow=deps.flow
        )
        state.hits, state.retrieval_id = recalled.hits, recalled.retrieval_id
        report_degraded(state, "recall", recalled.degraded)
    else:
        raise InputError("tool_names: names no tool; name some (comma-separated), or give a query to find them by")
    await merge(state, deps)
