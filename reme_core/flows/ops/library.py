"""Actions on a whole workspace: copy, clear, load from a library, dump to a library, list."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import count
from typing import Any, Literal, get_args

import anyio
from pydantic import Field

from reme_core.errors import InputError, NotFoundError
from reme_core.flows.deps import Deps
from reme_core.flows.registry import op
from reme_core.flows.state import State
from reme_core.store.filters import Filters
from reme_core.store.libraries.calls import add_calls
from reme_core.store.libraries.format import to_wire
from reme_core.types import SCOPES, Memory

_PAGE = 1_000  # memories of one statement

Action = Literal["copy", "delete", "delete_ids", "dump", "load", "list"]
"""What can be done with a whole workspace."""


class WorkspaceState(State):
    """An action on a whole workspace."""

    action: Action | None = None
    path: str = ""
    """The folder of the library to load or dump."""
    src_workspace_id: str = ""
    """The workspace to copy from."""
    memory_ids: list[str] = Field(default_factory=list)
    """The memories to delete."""


@op(reads={"action", "src_workspace_id", "memory_ids", "path"}, uses=SCOPES, deletes=True)
async def vector_store_action(state: WorkspaceState, deps: Deps) -> None:
    """Do `copy`, `delete`, `delete_ids`, `dump`, `load` or `list`; the report has an `action_result`.

    `load` and `dump` use the file `{path}/{workspace_id}.jsonl`; `dump` makes a missing folder. `copy` copies into an
    empty workspace only. Memories that `delete_ids` deletes stay in the history until they are erased. With a
    `user_id`, `agent_id` or `run_id`, the actions `delete`, `delete_ids` and `list` concern only what belongs to it.

    Raises:
        InputError: The action is unknown, lacks what it needs, or is given a scope and knows only whole workspaces.
        LibraryError: A line of the library cannot be read; nothing was loaded.
        NotFoundError: There is no workspace to copy or dump.
        ConflictError: The workspace to copy into is not empty.
    """
    state.report["action_result"] = await _act(state, deps)


async def _act(state: WorkspaceState, deps: Deps) -> dict[str, int] | list[dict[str, Any]]:
    workspace, scope = state.workspace_id, state.scope
    if scope and state.action in ("copy", "dump", "load"):
        raise InputError(f"{', '.join(scope)}: the action '{state.action}' is about a whole workspace; leave it out")
    if state.action == "list":
        listed = [to_wire(memory) async for memory in all_memories(state, deps, Filters(**scope))]
        await add_calls(deps.database, workspace, listed)
        return listed
    if state.action == "copy":
        if not state.src_workspace_id:
            raise InputError("src_workspace_id: the action 'copy' needs the workspace to copy from")
        return {"size": await deps.workspaces.copy(state.src_workspace_id, workspace)}
    if state.action == "delete":
        removed = 0
        with suppress(NotFoundError):  # programs of ReMe 0.1 begin with `delete`, whether there is a workspace or not
            removed = await deps.workspaces.clear(workspace, **scope)
        return {"size": removed}
    if state.action == "delete_ids":
        if not state.memory_ids:
            raise InputError("memory_ids: the action 'delete_ids' needs the ids of the memories to delete")
        filters = Filters(ids=state.memory_ids, status=None, **scope)
        ids = [memory.memory_id async for memory in all_memories(state, deps, filters)]
        return {"size": await deps.memories.delete(workspace, ids, actor=deps.flow, reason="delete_ids")}
    if state.action == "dump":
        folder = anyio.Path(state.path or ".")
        await folder.mkdir(parents=True, exist_ok=True)
        return {"size": await deps.workspaces.dump(workspace, str(folder))}
    if state.action == "load":
        return {"size": await deps.workspaces.load(workspace, state.path or ".", replace=True)}
    raise InputError(f"action: is missing; give one of {', '.join(get_args(Action))}")


async def all_memories(state: State, deps: Deps, filters: Filters) -> AsyncIterator[Memory]:
    """All memories of the workspace that pass, the last stored first; they are read in parts."""
    for offset in count(step=_PAGE):
        page = await deps.memories.list(state.workspace_id, filters, limit=_PAGE, offset=offset)
        for memory in page:
            yield memory
        if len(page) < _PAGE:
            return
