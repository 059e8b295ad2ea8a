"""What flows work on: one typed state for retrieval, one for summary.

A request holds what the caller gives; its state adds what the ops find out on the way. An op declares which fields it
reads and writes, so a flow is checked when it is built. An op that comes from elsewhere keeps what it finds under
`extra`, and declares it as `extra.<name>`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from reme_core.errors import InputError
from reme_core.ops.identity import identified
from reme_core.schema import Hit, Memory, Message, Moment, Source, TimeRange, Trajectory
from reme_core.store.change import Close

Action = Literal["copy", "delete", "delete_ids", "dump", "load", "list"]
"""What can be done with a whole workspace."""


class Request(BaseModel):
    """What every caller of a flow may give."""

    model_config = ConfigDict(extra="ignore")

    workspace_id: str = "default"
    messages: list[Message] = Field(default_factory=list)
    metadata: dict[str, Any] = Field(default_factory=dict)

    @field_validator("workspace_id")
    @classmethod
    def _empty_is_default(cls, value: str) -> str:
        return value or "default"


class RetrievalRequest(Request):
    """What a retrieval starts from: a query, or the messages it follows from."""

    query: str = ""
    top_k: int = Field(3, ge=1, le=1000)
    tool_names: list[str] = Field(default_factory=list)
    user_name: str = ""
    """Only memories about this person; default is everybody's."""
    now: Moment | None = None
    """When the query is asked, which "yesterday" in it depends on; default is the present."""
    timezone: str = ""
    """In which the asker's days begin; default is that of the settings."""
    as_of: Moment | None = None
    """Answer from what was known at this moment."""
    held_at: Moment | None = None
    """Answer from what was true at this moment."""
    token_budget: int = Field(800, ge=1)
    """Tokens that the note may take."""

    @field_validator("tool_names", mode="before")
    @classmethod
    def _comma_string(cls, value: Any) -> Any:
        return _split(value)


class SummaryRequest(Request):
    """What a summary (or another change of what is stored) starts from."""

    trajectories: list[Trajectory] = Field(default_factory=list)
    user_name: str = "user"
    session_id: str | None = None
    """Of the messages that wait in the store, only those of this conversation."""
    tool_names: list[str] = Field(default_factory=list)
    tool_call_results: list[dict[str, Any]] = Field(default_factory=list)
    memory_dicts: list[dict[str, Any]] = Field(default_factory=list)
    """Memories that an agent was given, as they went out."""
    update_utility: bool = False
    """Whether the agent that was given them succeeded."""
    freq_threshold: int = Field(0, ge=0)
    utility_threshold: float = 0.0
    action: Action | None = None
    path: str = ""
    src_workspace_id: str = ""
    memory_ids: list[str] = Field(default_factory=list)
    memory_id: str = ""
    content: str = ""
    """A statement to remember, or the exact words of one to delete."""
    limit: int = Field(1000, ge=1, le=1000)
    include_expired: bool = False

    @field_validator("tool_names", mode="before")
    @classmethod
    def _comma_string(cls, value: Any) -> Any:
        return _split(value)

    @field_validator("trajectories")
    @classmethod
    def _with_ids(cls, value: list[Trajectory]) -> list[Trajectory]:
        return [t.model_copy(update={"messages": identified(t.messages, t.task_id)}) for t in value]


@dataclasses.dataclass(frozen=True)
class Segment:
    """One stretch of a trajectory that pursues one goal; the whole of it where nobody marked any."""

    trajectory: Trajectory
    messages: list[Message]
    goal: str = ""


@dataclasses.dataclass
class UpdateResult:
    """How many memories a flow closed or removed, stored anew, and changed otherwise."""

    deleted_count: int = 0
    inserted_count: int = 0
    updated_count: int = 0


class _State(BaseModel):
    """What both kinds of state share. Assignments are not validated again: ops are typed, and speed counts here."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    answer: str = ""
    """What the flow says to its caller."""
    report: dict[str, Any] = Field(default_factory=dict)
    """What else it tells, by name: counts, statistics, why nothing was made."""
    extra: dict[str, Any] = Field(default_factory=dict)
    """Room for ops from elsewhere: what the request held besides the known fields, and what they find."""

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> Self:
        """Take in a caller's request; what it may not set is left to `extra`.

        Raises:
            InputError: A field does not fit; the message names it.
        """
        given = cls.inputs()
        known = {name: value for name, value in request.items() if name in given and value is not None}
        rest = {name: value for name, value in request.items() if name not in given}
        try:
            return cls.model_validate({**known, "extra": rest})
        except ValidationError as error:
            problems = [f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in error.errors()]
            raise InputError("; ".join(problems)) from None

    @classmethod
    def inputs(cls) -> frozenset[str]:
        """The fields that a caller may give."""
        request = RetrievalRequest if issubclass(cls, RetrievalRequest) else SummaryRequest
        return frozenset(request.model_fields)


class RetrievalState(_State, RetrievalRequest):
    """A retrieval on its way from a query to an answer."""

    search_query: str = ""
    """What recall compares memories with."""
    time_ranges: list[TimeRange] = Field(default_factory=list)
    """The times that the query speaks of."""
    hits: list[Hit] = Field(default_factory=list)
    """What was recalled, best first."""
    retrieval_id: str = ""
    """Names this retrieval in the log, so that its outcome can be told later."""
    transcript: list[Message] = Field(default_factory=list)
    """What an agent loop said and did."""

    @property
    def memories(self) -> list[Memory]:
        """The recalled memories, best first."""
        return [hit.memory for hit in self.hits]


class SummaryState(_State, SummaryRequest):
    """A summary on its way from what happened to what is remembered."""

    successes: list[Trajectory] = Field(default_factory=list)
    failures: list[Trajectory] = Field(default_factory=list)
    segments: list[Segment] = Field(default_factory=list)
    success_drafts: list[Memory] = Field(default_factory=list)
    failure_drafts: list[Memory] = Field(default_factory=list)
    comparative_drafts: list[Memory] = Field(default_factory=list)
    waiting: list[Message] = Field(default_factory=list)
    """Recorded messages that no memory was made of yet, all of which count as summarised in the end."""
    context: list[Message] = Field(default_factory=list)
    """What was said before them, in their conversations."""
    heard: list[Message] = Field(default_factory=list)
    """Of those that wait, the ones in which a person may have said something about themselves."""
    taken_back: list[str] = Field(default_factory=list)
    """Ids of messages that were withdrawn later ("just kidding"); what was made of them is closed."""
    untimed_drafts: list[Memory] = Field(default_factory=list)
    timed_drafts: list[Memory] = Field(default_factory=list)
    subjects: list[str] = Field(default_factory=list)
    """Sides of a person that no insight is about yet."""
    memories: list[Memory] = Field(default_factory=list)
    """What is to be stored; after `store`, what is."""
    restated: dict[str, list[Source]] = Field(default_factory=dict)
    """Stored memories that say the same as a new one, by id, with the evidence of the new one."""
    vectors: dict[str, npt.NDArray[np.float32]] = Field(default_factory=dict)
    """Embeddings of what memories are searched by, by id, where they are at hand."""
    same_from: float | None = None
    """The similarity from which two memories counted as the same, where that was looked into."""
    decided_after: int | None = None
    """The version of the workspace's memories that this was decided on."""
    closing: list[Close] = Field(default_factory=list)
    """Stored memories that the new ones replace or end."""
    update_result: UpdateResult = Field(default_factory=UpdateResult)


State = RetrievalState | SummaryState


def _split(value: Any) -> Any:
    """A list of names may come as one comma-separated string."""
    return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value
