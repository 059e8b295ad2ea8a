"""The state of a flow: what its ops read and write. It begins with the fields of the caller's request.

Flows that look memories up work on a `RetrievalState`, flows that change memories on a `SummaryState`, others on a
`State`. Each family of flows derives a class of its own from one of these, next to its ops. An op declares the fields
that it reads and writes, so that a flow can be checked when it is built. Ops of other packages keep their values in
`extra`, and declare them as `extra.<name>`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from reme_core.errors import InputError
from reme_core.given import Moment
from reme_core.settings import Names
from reme_core.store.change import Close, Embedded, Version
from reme_core.store.filters import Filters
from reme_core.store.rows import within_scope
from reme_core.text.ids import with_ids
from reme_core.types import (
    SCOPES,
    Hit,
    Memory,
    Message,
    Recollection,
    Scope,
    Status,
    TimeRange,
    Trajectory,
    scope_of_given,
)

T = TypeVar("T")

_INTERNAL: Final = "set by ops"
Internal = Annotated[T, _INTERNAL]
"""A field that only ops set. If a request has a field of this name, it goes to `extra`."""


@dataclasses.dataclass
class UpdateResult:
    """How many memories a flow closed or removed, added, and changed otherwise."""

    deleted_count: int = 0
    inserted_count: int = 0
    updated_count: int = 0


class State(BaseModel):
    """What the states of all flows have: fields that every caller may give, and what a flow says in the end."""

    # Assignments are not validated: the code of ops is type-checked, and validation would cost time at each.
    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    workspace_id: str = "default"
    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    messages: list[Message] = Field(default_factory=list)
    metadata: dict[str, Any] = Field(default_factory=dict)

    answer: Internal[str] = ""
    """What the flow answers its caller."""
    report: Internal[dict[str, Any]] = Field(default_factory=dict)
    """What else it tells the caller, by name: counts, statistics, reasons."""
    transcript: Internal[list[Message]] = Field(default_factory=list)
    """The messages that it gives back: what an agent loop said and did, or a conversation that fits a window."""
    extra: Internal[dict[str, Any]] = Field(default_factory=dict)
    """Fields of the request that the state does not have, and values of ops of other packages."""

    @field_validator("workspace_id")
    @classmethod
    def _empty_is_default(cls, value: str) -> str:
        # To ReMe 0.1 the empty name was a workspace of its own; here no workspace has it.
        return value or "default"

    @property
    def scope(self) -> Scope:
        """The person, agent and run that the request names: the flow looks only there, and what it makes is theirs."""
        return scope_of_given({name: getattr(self, name) for name in SCOPES})

    @model_validator(mode="after")
    def _scope_what_was_said(self) -> Self:
        self.messages = within_scope(self.messages, self.scope)
        return self

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> Self:
        """Make the state out of a caller's request; fields that it may not set go to `extra`.

        Raises:
            InputError: A field does not fit; the message names it.
        """
        inputs = cls.inputs()
        # None counts as not given: clients send `null` for what they leave out.
        known = {name: value for name, value in request.items() if name in inputs and value is not None}
        rest = {name: value for name, value in request.items() if name not in inputs}
        try:
            return cls.model_validate({**known, "extra": rest})
        except ValidationError as error:
            problems = [
                (".".join(map(str, one["loc"])), one["msg"].removeprefix("Value error, ")) for one in error.errors()
            ]
            raise InputError("; ".join(f"{field}: {said}" for field, said in problems)) from None

    @classmethod
    def inputs(cls) -> frozenset[str]:
        """The fields that a caller may give."""
        return frozenset(name for name, field in cls.model_fields.items() if _INTERNAL not in field.metadata)


class RetrievalState(State):
    """The state of a retrieval, from a query, or the messages that lead to one, to an answer."""

    query: str = ""
    top_k: int = Field(3, ge=1, le=1000)
    min_relevance: float = Field(0.0, ge=0, le=1)
    """Nothing is recalled if the chance that anything fits is below this."""
    tool_names: Names = Field(default_factory=list)
    user_name: str = ""
    """Only memories about this person; default is all."""
    now: Moment | None = None
    """When the query is asked, so that "yesterday" in it is understood; default is the present."""
    timezone: str = ""
    """Where the asker is, so that it is known when a day begins there; default is that of the settings."""
    as_of: Moment | None = None
    """Answer from what was known at this moment."""
    held_at: Moment | None = None
    """Answer from what was true at this moment."""
    token_budget: int = Field(800, ge=1)
    """Tokens that the note may take."""
    patience: float | None = Field(None, gt=0)
    """Seconds that the retrieval waits for models; then it goes on without. Default is that of the settings."""

    waited: Internal[float] = 0.0
    """Seconds that it has waited for models."""
    search_query: Internal[str] = ""
    """What recall compares memories with."""
    time_ranges: Internal[list[TimeRange]] = Field(default_factory=list)
    """The times that the query is about."""
    hits: Internal[list[Hit]] = Field(default_factory=list)
    """What was recalled, best first."""
    recalls: Internal[list[Recollection]] = Field(default_factory=list)
    """The recalls that `hits` come from. The note tells the log what became of each of their hits."""
    retrieval_id: Internal[str] = ""
    """The id of this retrieval in the log, by which its outcome can be reported later."""

    @property
    def status(self) -> Status | None:
        """The only status of memories to recall; None is any: what is over by now may have held when it is asked of."""
        return None if self.held_at is not None and self.as_of is None else Status.ACTIVE

    def filters_of(self, kind: str, now: datetime) -> Filters:
        """The filters for memories of a kind that are not over at the moment that is asked of, by default now."""
        filters = Filters.of(kind=kind, status=self.status, as_of=self.as_of, held_at=self.held_at, **self.scope)
        return dataclasses.replace(filters, not_over_at=self.held_at or self.as_of or self.now or now)

    @property
    def memories(self) -> list[Memory]:
        """The recalled memories, best first."""
        return [hit.memory for hit in self.hits]


class SummaryState(State):
    """The state of flows that change memories: the memories to store, and those to close."""

    memories: Internal[list[Memory]] = Field(default_factory=list)
    """What is to be stored; after `store`, what was stored."""
    closing: Internal[list[Close]] = Field(default_factory=list)
    """Stored memories that the new ones replace or end."""
    confirmed: Internal[dict[str, list[Memory]]] = Field(default_factory=dict)
    """New memories that say the same as a stored one, which gets their evidence, by the id of the stored one."""
    vectors: Internal[Embedded] = Field(default_factory=dict)
    """Vectors of `memories`, as far as they are made already."""
    episode_ids: Internal[list[str]] = Field(default_factory=list)
    """Recorded episodes of which the memories are the lessons; if one waits for them no more, nothing is stored."""
    same_from: Internal[float | None] = None
    """The similarity from which two memories count as the same; None if nobody compared them."""
    expected_version: Internal[Version | None] = None
    """The version of the workspace's memories on which this was decided."""
    update_result: Internal[UpdateResult | None] = None
    """What was stored; None as long as no op has stored anything."""


class TrajectoryState(SummaryState):
    """The state of flows that are given attempts, or conversations."""

    trajectories: list[Trajectory] = Field(default_factory=list)
    """A message without an id gets one, made from its words and its place, and from whose it is."""

    @model_validator(mode="after")
    def _identify_what_was_said(self) -> Self:
        speaker = getattr(self, "user_name", "")
        self.trajectories = [
            t.model_copy(update={"messages": with_ids(within_scope(t.messages, self.scope), t.task_id, speaker)})
            for t in self.trajectories
        ]
        return self
