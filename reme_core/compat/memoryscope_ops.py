"""MemoryScope's operations on the memory of a person, as ops: listing, adding and deleting.

Its other operations are flows: `consolidate`, `reflect`, and for retrieval `retrieve_personal_memory`.
"""

from __future__ import annotations

from dataclasses import replace

from pydantic import Field

from reme_core.errors import InputError, NotFoundError
from reme_core.flows.deps import Deps
from reme_core.flows.ops.library import all_memories
from reme_core.flows.registry import op
from reme_core.flows.state import SummaryState, UpdateResult
from reme_core.store.filters import Filters
from reme_core.store.messages import unsummarised_messages
from reme_core.types import PERSONAL_KINDS, SCOPES, Kind, Memory, Scoped, Status

_PERSONAL = [str(kind) for kind in PERSONAL_KINDS]
_MOST = 1_000  # memories of one list


class OperationState(SummaryState):
    """One of MemoryScope's operations on what is known about people."""

    user_name: str = ""
    """Whom it is about; by default everyone, and `user` for a statement that is added."""
    session_id: str | None = None
    """Of the messages that wait, only those of this conversation."""
    memory_ids: list[str] = Field(default_factory=list)
    memory_id: str = ""
    content: str = ""
    """A statement to remember, or the exact words of one to delete."""
    limit: int = Field(_MOST, ge=1, le=_MOST)
    include_expired: bool = False


@op(uses={"session_id", *SCOPES}, writes={"report"}, only_reads=True)
async def read_waiting(state: OperationState, deps: Deps, *, limit: int = 500) -> None:
    """Give the messages that were recorded and that no memory was made of yet, oldest first."""
    found = await unsummarised_messages(
        deps.database, state.workspace_id, session_id=state.session_id, limit=limit, **state.scope
    )
    state.report["messages"] = [message.model_dump(mode="json") for message in found]


@op(uses={"limit", "include_expired", "user_name"}, writes={"memories"}, only_reads=True)
async def list_personal(state: OperationState, deps: Deps) -> None:
    """List what is known about people, newest first; with `include_expired`, what was closed as well."""
    filters = Filters(kinds=_PERSONAL, subject=state.user_name or None, **state.scope)
    if not state.include_expired:
        state.memories = await deps.memories.list(state.workspace_id, filters, limit=state.limit)
        return
    async for memory in all_memories(state, deps, replace(filters, status=None)):
        if memory.status != Status.DELETED:
            state.memories.append(memory)
        if len(state.memories) == state.limit:
            return


@op(reads={"content"}, uses={"user_name"}, writes={"memories", "update_result"})
async def add_told(state: OperationState, deps: Deps) -> None:
    """Remember a statement as it is given, as kind `custom`; one that was told before is not added again.

    Two people may have said the same: each has a memory of it.

    Raises:
        InputError: There is no `content`.
    """
    content = state.content.strip()
    if not content:
        raise InputError("content: is empty; say what to remember")
    person = state.user_name or "user"
    told = Memory(kind=Kind.CUSTOM, subject=person, content=content, author=person)
    state.memories = await deps.memories.add(
        state.workspace_id, told, actor=deps.flow, reason="told outright", **state.scope
    )
    state.update_result = UpdateResult(inserted_count=sum(memory.seen_count == 1 for memory in state.memories))


@op(uses={"memory_ids", "memory_id", "content", "user_name", *SCOPES}, writes={"update_result"}, deletes=True)
async def delete_told(state: OperationState, deps: Deps) -> None:
    """Delete memories by id (`memory_id`, `memory_ids`) or by their exact `content`; the history keeps them.

    With a `user_name`, only memories about this person are deleted; with a `user_id`, `agent_id` or `run_id`, only what
    belongs to it. What has expired is deleted as well.

    Raises:
        InputError: Nothing is named.
        NotFoundError: There is no such memory.
    """
    ids = [*state.memory_ids, *([state.memory_id] if state.memory_id else [])]
    content = state.content.strip()
    if not (ids or content):
        raise InputError("memory_id, memory_ids or content: name the memory to delete")
    whose = f" about {state.user_name}" if state.user_name else ""
    found = await _undeleted_ids(state, deps, Filters(ids=ids, **state.scope)) if ids else []
    if ids and not found:
        raise NotFoundError(f"workspace '{state.workspace_id}' has no memory {', '.join(ids)}{whose}")
    if content:
        same = Filters(kinds=_PERSONAL, content=content, **Scoped(**state.scope).scope)
        said = await _undeleted_ids(state, deps, same)
        if not said:
            raise NotFoundError(
                f"workspace '{state.workspace_id}' remembers nothing{whose} that says exactly {content!r}"
            )
        found += said
    deleted = await deps.memories.delete(state.workspace_id, found, actor=deps.flow, reason="deleted on request")
    state.update_result = UpdateResult(deleted_count=deleted)


@op(uses={"user_name", *SCOPES}, writes={"update_result"}, deletes=True)
async def delete_all_personal(state: OperationState, deps: Deps) -> None:
    """Delete everything that is known about people in a workspace; experience and messages stay, and the history.

    With a `user_name`, only what is known about this person is deleted.
    """
    ids = await _undeleted_ids(state, deps, Filters(kinds=_PERSONAL, **state.scope))
    deleted = 0
    for place in range(0, len(ids), _MOST):  # in parts, or other writers would wait for the whole
        some = ids[place : place + _MOST]
        deleted += await deps.memories.delete(
            state.workspace_id, some, actor=deps.flow, reason="all deleted on request"
        )
    state.update_result = UpdateResult(deleted_count=deleted)


async def _undeleted_ids(state: OperationState, deps: Deps, filters: Filters) -> list[str]:
    """The ids of memories, closed ones too, that are not deleted; only of those about the person of the request."""
    wanted = replace(filters, subject=state.user_name or None, status=None)
    found = all_memories(state, deps, wanted)
    return [memory.memory_id async for memory in found if memory.status != Status.DELETED]
