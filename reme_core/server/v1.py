"""The REST endpoints below `/v1`: single memories, recall and records. They are versioned; the flows are not."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, Literal, Self

from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from reme_core.episodes.api import CurvePoint
from reme_core.errors import InputError, NotFoundError, did_you_mean
from reme_core.given import JsonObject
from reme_core.server.errors import COMMON_STATUSES, ErrorBody, degraded_for_caller, openapi_errors
from reme_core.server.route import RawPathRoute
from reme_core.server.service import TheAccess, TheService
from reme_core.server.wire import NOT_BLANK, WITHOUT_NUL, MessageIn, Number, PathWorkspace, Strict, Time, TopK
from reme_core.store.undo import Undone
from reme_core.types import (
    SCOPES,
    HistoryEntry,
    Memory,
    Message,
    Recollection,
    Scope,
    Status,
    TimeRange,
    refuse_mistyped_scope,
    scope_of_given,
)

_ACTOR: Final = "http"
MemoryId = Annotated[str, Path(min_length=1, pattern=WITHOUT_NUL)]
PlainText = Annotated[str, Field(pattern=WITHOUT_NUL)]
Limit = Annotated[int, Query(ge=1, le=1000, description="How many at most.")]
Offset = Annotated[int, Query(ge=0, le=2**31 - 1, description="How many to skip.")]
WritableKind = Literal["observation", "insight", "custom", "instruction", "profile", "task", "rule", "mistake", "tool"]
_StoredKind = Literal[WritableKind, "personal"]
_AnyKind = Literal[_StoredKind, "conversation"]
_OF_USER: Final = "Only what belongs to this person; if empty, only what belongs to no person."
_OF_AGENT: Final = "Only what belongs to this agent; if empty, only what belongs to no agent."
_OF_RUN: Final = "Only what belongs to this run; if empty, only what belongs to no run."
OfUser = Annotated[PlainText | None, Query(description=_OF_USER)]
OfAgent = Annotated[PlainText | None, Query(description=_OF_AGENT)]
OfRun = Annotated[PlainText | None, Query(description=_OF_RUN)]
Subject = Annotated[PlainText | None, Query(description="Only memories about this.")]
Importance = Annotated[Number, Field(ge=0, le=1), AfterValidator(lambda value: round(value, 6))]
Content = Annotated[str, Field(pattern=NOT_BLANK)]


class Workspaces(BaseModel):
    """The workspaces that the caller may see."""

    workspaces: list[str]


class Memories(BaseModel):
    """Memories, with their evidence."""

    memories: list[Memory]


class _MemoryFields(Strict):
    content: Content = Field("", description="What is remembered.")
    kind: WritableKind = "custom"
    subject: str = Field("", description="Whom or what it is about.")
    when_to_use: str = Field("", description="The situation in which it helps.")
    keywords: list[str] = Field(default_factory=list)
    importance: Importance = 0.5
    score: Number = 0.0
    observed_at: Time | None = None
    valid_from: Time | None = None
    valid_until: Time | None = None
    author: str = ""
    user_id: str = Field("", description="The person that it belongs to.")
    agent_id: str = Field("", description="The agent that it belongs to.")
    run_id: str = Field("", description="The run that it belongs to.")
    metadata: JsonObject = Field(default_factory=dict)


_REASON_ALONE: Final[JsonObject] = {"required": ["reason"], "maxProperties": 1}
_CHANGEABLE: Final = f"give a field to change: {', '.join(_MemoryFields.model_fields)}"


class MemoryChange(_MemoryFields):
    """The fields to change; all others stay as they are."""

    model_config = ConfigDict(json_schema_extra={"additionalProperties": False, "not": _REASON_ALONE})
    reason: str = Field("", description="Why, for the history.")

    @model_validator(mode="after")
    def _refuse_reason_alone(self) -> Self:
        if self.model_fields_set == {"reason"}:
            raise ValueError(f"a reason alone changes nothing; {_CHANGEABLE}")
        return self


class MemoryIn(_MemoryFields):
    """A memory to store."""

    content: Content = Field(description="What is remembered.")
    memory_id: str | None = Field(None, min_length=1, description="Default: a new id.")


class _ToStore(Strict):
    user_id: str | None = Field(None, description="The person to whom those belong that name none.")
    agent_id: str | None = Field(None, description="The agent to which those belong that name none.")
    run_id: str | None = Field(None, description="The run to which those belong that name none.")

    @property
    def scope(self) -> Scope:
        return scope_of_given({name: getattr(self, name) for name in SCOPES})


class MemoriesIn(_ToStore):
    """Memories to store, all or none."""

    memories: list[MemoryIn] = Field(min_length=1, max_length=100)


class Range(TimeRange, Strict):
    """From `start` (included) to `end` (excluded); either side may be open."""

    start: Time | None = None
    end: Time | None = None


class RecallIn(Strict):
    """A question to the memory; see `Engine.recall`."""

    query: Content
    kind: list[_AnyKind] | _AnyKind = Field(
        [], description="Kinds, or families of them (`personal`, `task`, `tool`), or one; `conversation`: raw messages."
    )
    limit: TopK = 10
    min_relevance: Annotated[
        Number, Field(ge=0, le=1, description="Give no hits if the chance that any of them fits is below this.")
    ] = 0.0
    time: Range | Literal["query"] | None = Field(
        "query", description="The time asked about; `query` reads it from the query, null ignores it."
    )
    now: Time | None = Field(None, description="When it is asked; default is this moment.")
    timezone: str | None = Field(None, description="IANA name of the zone in which the asker's days begin.")
    current_session: str = Field("", description='The conversation that asks; "three chats ago" skips it.')
    subject: str | None = None
    status: Status | None = Field(Status.ACTIVE, description="null includes closed memories.")
    as_of: Time | None = Field(None, description="What was known at this moment.")
    held_at: Time | None = Field(None, description="Only what holds in the world at this moment.")
    known: Range | None = Field(None, description="Only what we came to know in this range of time.")
    happened: Range | None = Field(None, description="Only what holds, or was said, in this range of time.")
    metadata: JsonObject = Field(default_factory=dict)
    author: str | None = None
    session_id: str | None = None
    user_id: str | None = Field(None, description=_OF_USER)
    agent_id: str | None = Field(None, description=_OF_AGENT)
    run_id: str | None = Field(None, description=_OF_RUN)


class SaidIn(MessageIn):
    """A message to record. Fields that chat APIs add to their messages are ignored."""

    _refuse_mistyped = model_validator(mode="before")(refuse_mistyped_scope)


class RecordIn(_ToStore):
    """What was said. A message whose id is stored already is skipped, unless it was edited."""

    messages: list[SaidIn] = Field(min_length=1, max_length=10_000)
    wait: bool = Field(False, strict=True, description="Answer when their vectors are there, or could not be made.")


class Recorded(BaseModel):
    """The messages that were new or edited."""

    message_ids: list[str]


class Deleted(BaseModel):
    """How many memories were deleted."""

    deleted_count: int


class JobOut(BaseModel):
    """One background job: to make memories of messages, to reflect on memories, or to learn from attempts."""

    id: int
    task: str
    status: str = Field(description="todo, doing, succeeded, failed, cancelled or aborted.")
    session_id: str
    attempts: int
    scheduled_at: datetime | None
    changed_at: datetime | None
    error: str | None = Field(description="Why the last attempt failed, for keys to all workspaces.")


class Jobs(BaseModel):
    """Background work, the newest first."""

    jobs: list[JobOut]


class Curve(BaseModel):
    """How attempts at tasks went, by task and attempt."""

    points: list[CurvePoint]


async def _check_access(request: Request, access: TheAccess) -> None:
    if workspace := request.path_params.get("workspace_id"):
        access.check(workspace)


async def _check_parameters(request: Request) -> None:
    # A name that was ignored would widen what is meant: to everybody's memories, or to an erasure of more than one run.
    known = [field.alias for field in request.scope["route"].dependant.query_params]
    for name in request.query_params:
        if name not in known:
            advice = did_you_mean(name, known, f"there are {', '.join(known) or 'none here'}")
            raise InputError(f"nothing was done: there is no parameter '{name}'; {advice}")
        if name != "kind" and (times := len(request.query_params.getlist(name))) > 1:  # of `kind`, all count
            raise InputError(f"nothing was done: '{name}' is given {times} times; ask for each by itself")


async def _check_what_else_is_sent(request: Request) -> None:
    # As above: with `{"erase": true}` in the body a memory was deleted and not erased, and with If-Match two writers
    # overwrote each other.
    if request.scope["route"].body_field is None and (await request.body()).strip() not in (b"", b"{}", b"null"):
        raise InputError("nothing was done: this takes no body; give parameters in the address, after '?'")
    if request.headers.get("if-match", "*") != "*":
        raise InputError("nothing was done: memories have no ETag, so no If-Match fits; `updated_at` tells of changes")


# A slash in a name should come as %2F. In a workspace it may come as it is, too, since some proxies decode it. So where
# two patterns match a path, the one that takes more of its parts comes first: `memories` may be the id of a memory.
# Every path is written out in full, without nested routers: metrics are labelled by the pattern of the innermost one.
router = APIRouter(
    prefix="/v1/workspaces",
    route_class=RawPathRoute,
    tags=["v1"],
    responses=openapi_errors(*COMMON_STATUSES),
    dependencies=[Depends(_check_access), Depends(_check_parameters), Depends(_check_what_else_is_sent)],
)


@router.get("")
async def list_workspaces(service: TheService, access: TheAccess) -> Workspaces:
    """The workspaces that the caller may use."""
    return Workspaces(workspaces=[name for name in await service.reme.workspaces.list() if access.allows(name)])


@router.get("/{workspace_id:path}/memories/{memory_id}/history", responses=openapi_errors(404))
async def history(workspace_id: PathWorkspace, memory_id: MemoryId, service: TheService) -> list[HistoryEntry]:
    """Every change of one memory, the oldest first."""
    return await service.reme.memories.history(workspace_id, memory_id)


_NO_MEMORY: Final = openapi_errors(404)
_NO_MEMORY[404]["model"] = ErrorBody  # here alone; see `openapi_errors`


@router.get("/{workspace_id:path}/memories/{memory_id}", responses=_NO_MEMORY)
async def get_memory(
    workspace_id: PathWorkspace,
    memory_id: MemoryId,
    service: TheService,
    deleted: Annotated[bool, Query(description="Show it even if it was deleted.")] = False,
) -> Memory:
    """One memory."""
    memory = await service.reme.memories.get(workspace_id, memory_id)
    if memory.status == Status.DELETED and not deleted:
        raise NotFoundError(f"memory '{memory_id}' was deleted; ask with deleted=true to see it")
    return memory


@router.get("/{workspace_id:path}/memories")
async def list_memories(
    workspace_id: PathWorkspace,
    service: TheService,
    kind: Annotated[
        list[_StoredKind] | None,
        Query(description="Only memories of these kinds, or families of them (`personal`, `task`, `tool`)."),
    ] = None,
    subject: Subject = None,
    status: Annotated[Status, Query(description="Only memories of this status.")] = Status.ACTIVE,
    user_id: OfUser = None,
    agent_id: OfAgent = None,
    run_id: OfRun = None,
    limit: Limit = 100,
    offset: Offset = 0,
) -> Memories:
    """Memories, the newest first."""
    found = await service.reme.memories.list(
        workspace_id, kind=kind, subject=subject, status=status,
        user_id=user_id, agent_id=agent_id, run_id=run_id, limit=limit, offset=offset,
    )  # fmt: skip
    return Memories(memories=found)


@router.get("/{workspace_id:path}/curve")
async def curve(
    workspace_id: PathWorkspace,
    service: TheService,
    task_id: Annotated[PlainText | None, Query(description="Only this task.")] = None,
) -> Curve:
    """The learning curve of each task: its scores, and their means so far and over the last ten."""
    return Curve(points=await service.reme.episodes.curve(workspace_id, task_id))


@router.get("/{workspace_id:path}/jobs")
async def list_jobs(workspace_id: PathWorkspace, service: TheService, access: TheAccess, limit: Limit = 100) -> Jobs:
    """What waits, runs and ran in the background for this workspace."""
    jobs = await service.reme.background.jobs(workspace_id, limit=limit)
    told = [JobOut.model_validate(job, from_attributes=True) for job in jobs]
    for job in [job for job in told if job.status != "succeeded"]:  # one that did tells what it refused of an answer
        job.error = access.reason_for_caller(job.error)
    return Jobs(jobs=told)


@router.post("/{workspace_id:path}/recall", responses=openapi_errors(409))
async def recall(workspace_id: PathWorkspace, body: RecallIn, service: TheService) -> Recollection:
    """Find what is remembered about a query, with the parts of each hit's score."""
    found = await service.reme.recall(workspace_id, flow="v1.recall", **(dict(body) | {"kind": body.kind or None}))
    return found.model_copy(update={"degraded": found.degraded and degraded_for_caller(f"recall: {found.degraded}")})


@router.post("/{workspace_id:path}/memories", status_code=201, responses=openapi_errors(409))
async def add_memories(workspace_id: PathWorkspace, body: MemoriesIn, service: TheService) -> Memories:
    """Store memories, all or none."""
    memories = [Memory(**memory.model_dump(exclude_none=True)) for memory in body.memories]
    return Memories(memories=await service.reme.memories.add(workspace_id, memories, actor=_ACTOR, **body.scope))


@router.patch("/{workspace_id:path}/memories/{memory_id}", responses=openapi_errors(404, 409))
async def change_memory(
    workspace_id: PathWorkspace, memory_id: MemoryId, body: MemoryChange, service: TheService
) -> Memory:
    """Change a memory; its earlier wording stays in the history."""
    values = body.model_dump(exclude_unset=True)
    return await service.reme.memories.update(workspace_id, memory_id, actor=_ACTOR, **values)


@router.delete("/{workspace_id:path}/memories/{memory_id}", responses=openapi_errors(404, 409))
async def delete_memory(
    workspace_id: PathWorkspace,
    memory_id: MemoryId,
    service: TheService,
    erase: Annotated[bool, Query(description="Remove every trace, the history too.")] = False,
) -> Deleted:
    """Delete a memory, which its history keeps; with `erase`, remove it from the database."""
    await service.reme.memories.get(workspace_id, memory_id)  # raises NotFoundError, while `delete` returns 0
    count = await service.reme.memories.delete(workspace_id, [memory_id], erase=erase, actor=_ACTOR)
    return Deleted(deleted_count=count)


@router.delete("/{workspace_id:path}/memories", responses=openapi_errors(404))
async def erase_scope(
    workspace_id: PathWorkspace,
    service: TheService,
    user_id: Annotated[PlainText | None, Query(description="Only what belongs to this person.")] = None,
    agent_id: Annotated[PlainText | None, Query(description="Only what belongs to this agent.")] = None,
    run_id: Annotated[PlainText | None, Query(description="Only what belongs to this run.")] = None,
) -> Deleted:
    """Erase the memories and messages of a person, an agent or a run, and the conclusions from them."""
    scope = scope_of_given({"user_id": user_id, "agent_id": agent_id, "run_id": run_id})
    if not scope:
        raise InputError("say whose memory to erase: give user_id, agent_id or run_id")
    return Deleted(deleted_count=await service.reme.workspaces.clear(workspace_id, **scope))


@router.post("/{workspace_id:path}/memories/{memory_id}/restore", responses=openapi_errors(404, 409))
async def restore_memory(
    workspace_id: PathWorkspace,
    memory_id: MemoryId,
    service: TheService,
    number: Annotated[
        int | None,
        Query(ge=1, description="A change in `history`, to restore the state after it; default: before the last one."),
    ] = None,
) -> Memory:
    """Bring a memory back to an earlier state, even if it is closed or a load removed it."""
    return await service.reme.memories.restore(workspace_id, memory_id, number=number, actor=_ACTOR)


@router.post("/{workspace_id:path}/undo", responses=openapi_errors(404, 409))
async def undo(workspace_id: PathWorkspace, service: TheService) -> Undone:
    """Undo the last change of several memories: a load, a deletion, a summary. A second undo redoes it."""
    return await service.reme.memories.undo(workspace_id, actor=_ACTOR)


@router.post("/{workspace_id:path}/records", responses=openapi_errors(409))
async def record(workspace_id: PathWorkspace, body: RecordIn, service: TheService) -> Recorded:
    """Store what was said, durably."""
    messages = [Message(**m.model_dump(exclude_unset=True, exclude_none=True)) for m in body.messages]
    fresh = await service.reme.record(workspace_id, messages, wait=body.wait, **body.scope)
    return Recorded(message_ids=[message.message_id for message in fresh])
