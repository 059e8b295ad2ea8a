"""Whole workspaces by one flow: copied, cleared, loaded from a library, dumped to one, and listed."""

from __future__ import annotations

from typing import Any, get_args

import anyio

from reme_core.errors import InputError
from reme_core.ops.deps import Deps
from reme_core.ops.registry import op
from reme_core.ops.state import Action, SummaryState
from reme_core.store.libraries import to_wire

_PAGE = 1_000


@op(reads={"action", "src_workspace_id", "memory_ids", "path"}, aliases=("vector_store",))
async def vector_store_action(state: SummaryState, deps: Deps) -> None:
    """Act on a workspace: `copy`, `delete`, `delete_ids`, `dump`, `load` or `list`; the report has `action_result`.

    `load` and `dump` work on `{path}/{workspace_id}.jsonl`; a missing folder is made. `copy` needs an empty
    workspace to copy into. What `delete_ids` takes out is kept for the history until it is erased.

    Raises:
        InputError: The action is unknown, or lacks what it needs.
        LibraryError: A line of the library cannot be read; nothing was loaded.
        NotFoundError: There is no workspace to copy or dump.
        ConflictError: The workspace to copy into is not empty.
    """
    state.report["action_result"] = await _act(state, deps)


async def _act(state: SummaryState, deps: Deps) -> dict[str, int] | list[dict[str, Any]]:
    workspace = state.workspace_id
    if state.action == "list":
        return await _listed(workspace, deps)
    if state.action == "copy":
        if not state.src_workspace_id:
            raise InputError("src_workspace_id: the action 'copy' needs the workspace to copy from")
        return {"size": await deps.workspaces.copy(state.src_workspace_id, workspace)}
    if state.action == "delete":
        return {"size": await deps.workspaces.clear(workspace)}
    if state.action == "delete_ids":
        if not state.memory_ids:
            raise InputError("memory_ids: the action 'delete_ids' needs the ids of the memories to delete")
        return {"size": await deps.memories.delete(workspace, state.memory_ids, actor=deps.flow, reason="delete_ids")}
    if state.action == "dump":
        folder = anyio.Path(state.path or ".")
        await folder.mkdir(parents=True, exist_ok=True)
        return {"size": await deps.workspaces.dump(workspace, str(folder))}
    if state.action == "load":
        return {"size": await deps.workspaces.load(workspace, state.path or ".")}
    raise InputError(f"action: is missing; give one of {', '.join(get_args(Action))}")


async def _listed(workspace: str, deps: Deps) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while True:
        page = await deps.memories.list(workspace, limit=_PAGE, offset=len(found))
        found.extend(to_wire(memory) for memory in page)
        if len(page) < _PAGE:
            return found
