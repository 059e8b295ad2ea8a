"""MemoryScope's operations on the memory of a person, as ops: listing, adding and deleting.

Its other operations are flows: `consolidate`, `reflect`, and for retrieval `retrieve_personal_memory`.
"""

from __future__ import annotations

from pydantic import Field

from reme_core.errors import InputError, NotFoundError
from reme_core.flows.deps import Deps
from reme_core.flows.ops.library import delete_named
from reme_core.flows.registry import op
from reme_core.flows.state import SummaryState, UpdateResult
from reme_core.store.filters import Filters
from reme_core.store.messages import unsummarised_messages
from reme_core.types import PERSONAL_KINDS, SCOPES, Kind, Memory, Status

_PERSONAL = [str(kind) for kind in PERSONAL_KINDS]
_MOST = 1_000  # memories of one list


class OperationState(SummaryState):
    """One of MemoryScope's operations on what is known about people."""

    user_name: str = "user"
    """Whom a statement is about."""
    session_id: str | None = None
    """Of the messages that wait, only those of this conversation."""
    memory_ids: list[str] = Field(default_factory=list)
    memory_id: str = ""
    content: str = ""
    """A statement to remember, or the exact words of one to delete."""
    limit: int = Field(_MOST, ge=1, le=_MOST)
    include_expired: bool = False


@op(uses={"session_id"}, writes={"report"})
async def read_waiting(state: OperationState, deps: Deps, *, limit: int = 500) -> None:
    """Give the messages that were recorded and that no memory was made of yet, oldest first."""
    found = await unsummarised_messages(deps.database, state.workspace_id, session_id=state.session_id, limit=limit)
    state.report["messages"] = [message.model_dump(mode="json") for message in found]


@op(uses={"limit", "include_expired"}, writes={"memories"})
async def list_personal(state: OperationState, deps: Deps) -> None:
    """List what is known about people, newest first; with `include_expired`, what was closed as well."""
    status = None if state.include_expired else Status.ACTIVE
    found = await deps.memories.list(
        state.workspace_id, Filters(kinds=_PERSONAL, status=status, **state.scope), limit=state.limit
    )
    state.memories = [memory for memory in found if memory.status != Status.DELETED]


@op(reads={"content"}, uses={"user_name"}, writes={"memories", "update_result"})
async def add_told(state: OperationState, deps: Deps) -> None:
    """Remember a statement as it is given, as kind `custom`; one that is remembered word for word is not added again.

    Raises:
        InputError: There is no `content`.
    """
    content = state.content.strip()
    if not content:
        raise InputError("content: is empty; say what to remember")
    known = await deps.memories.same_text(state.workspace_id, [content], _PERSONAL, **state.scope)
    if content in known:
        state.memories = [await deps.memories.get(state.workspace_id, known[content])]
        return
    told = Memory(kind=Kind.CUSTOM, subject=state.user_name, content=content, author=state.user_name)
    state.memories = await deps.memories.add(
        state.workspace_id, told, actor=deps.flow, reason="told outright", **state.scope
    )
    state.update_result = UpdateResult(inserted_count=1)


@op(uses={"memory_ids", "memory_id", "content", *SCOPES}, writes={"update_result"}, deletes=True)
async def delete_told(state: OperationState, deps: Deps) -> None:
    """Delete memories by id (`memory_id`, `memory_ids`) or by their exact `content`; the history keeps them.

    With a `user_id`, `agent_id` or `run_id`, only what belongs to it is deleted.

    Raises:
        InputError: Nothing is named.
        NotFoundError: There is no such memory.
    """
    ids = [*state.memory_ids, *([state.memory_id] if state.memory_id else [])]
    if content := state.content.strip():
        known = await deps.memories.same_text(state.workspace_id, [content], _PERSONAL, **state.scope)
        if content not in known:
            raise NotFoundError(f"workspace '{state.workspace_id}' remembers nothing that says exactly {content!r}")
        ids.append(known[content])
    if not ids:
        raise InputError("memory_id, memory_ids or content: name the memory to delete")
    deleted = await delete_named(state, deps, ids, reason="deleted on request")
    if not deleted:
        raise NotFoundError(f"workspace '{state.workspace_id}' has no memory {', '.join(ids)}")
    state.update_result = UpdateResult(deleted_count=deleted)


@op(uses=SCOPES, writes={"update_result"}, deletes=True)
async def delete_all_personal(state: OperationState, deps: Deps) -> None:
    """Delete everything that is known about people in a workspace; experience and messages stay, and the history."""
    deleted = 0
    # Page by page: what is deleted is in no later page.
    while found := await deps.memories.list(state.workspace_id, Filters(kinds=_PERSONAL, **state.scope), limit=_MOST):
        ids = [memory.memory_id for memory in found]
        deleted += await deps.memories.delete(state.workspace_id, ids, actor=deps.flow, reason="all deleted on request")
    state.update_result = UpdateResult(deleted_count=deleted)
