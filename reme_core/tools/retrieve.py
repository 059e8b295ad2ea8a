"""Retrieve guidance for tools: by their names, or by a query."""

from __future__ import annotations

from collections.abc import Sequence

from reme_core.errors import InputError
from reme_core.flows.degraded import report_degraded
from reme_core.flows.deps import Deps
from reme_core.flows.ops.retrieval import merge
from reme_core.flows.registry import op
from reme_core.flows.state import RetrievalState
from reme_core.store.filters import Filters
from reme_core.store.tool_calls import guidance_ids, newest_calls
from reme_core.tools.state import memory_of
from reme_core.types import Hit, Memory, Parts


@op(
    reads={"tool_names", "query", "top_k"},
    uses={"messages"},
    writes={"hits", "retrieval_id", "answer"},
    only_reads=True,
)
async def retrieve_tools(state: RetrievalState, deps: Deps) -> None:
    """Find the guidance for tools: for those that are named, in that order, or for those that fit the query.

    A tool that is named and has calls but no guidance yet comes with an empty memory, which the answer leaves out.

    Raises:
        InputError: Neither tools nor a query are given.
    """
    if state.tool_names:
        found = await _find_named(state, deps)
        state.hits = _hits([memory for memory in found if memory.content])
        await merge(state, deps)
        state.hits = _hits(found)
        return
    if not state.query.strip():
        raise InputError("tool_names: names no tool; name some (comma-separated), or give a query to find them by")
    recalled = await deps.recall(
        state.workspace_id, state.query.strip(), Filters.of(kind="tool"), limit=state.top_k, flow=deps.flow
    )
    state.hits, state.retrieval_id = recalled.hits, recalled.retrieval_id
    report_degraded(state, "recall", recalled.degraded)
    await merge(state, deps)


async def _find_named(state: RetrievalState, deps: Deps) -> list[Memory]:
    """The memories of the tools that are named, in that order; the report says which tools there are none of."""
    workspace, names = state.workspace_id, state.tool_names
    ids = await guidance_ids(deps.database, workspace, names)
    found = await deps.memories.list(workspace, Filters(ids=ids), limit=len(ids)) if ids else []
    rest = set(names) - {memory.subject for memory in found}
    calls = await newest_calls(deps.database, workspace, sorted(rest), limit=1) if rest else {}
    found += [await memory_of(name, workspace, deps) for name in rest if calls[name]]
    if unknown := [name for name in names if name in rest and not calls[name]]:
        state.report["unknown_tools"] = unknown
    return sorted(found, key=lambda memory: names.index(memory.subject))


def _hits(memories: Sequence[Memory]) -> list[Hit]:
    return [Hit(rank=rank, memory=memory, parts=Parts(final=1.0)) for rank, memory in enumerate(memories, 1)]
