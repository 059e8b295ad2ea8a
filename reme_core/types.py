"""The words of this project as types: messages and trajectories go in, memories and recollections come out.

Times are aware `datetime`s throughout; a naive one is taken as UTC. Every identifier is a string of the caller's
choosing or a fresh hexadecimal UUID.
"""

from __future__ import annotations

import enum
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field, field_validator, model_validator


def new_id() -> str:
    """A fresh identifier: 32 hexadecimal digits."""
    return uuid.uuid4().hex


def now() -> datetime:
    """The present moment in UTC."""
    return datetime.now(UTC)


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


Moment = Annotated[datetime, AfterValidator(_aware)]
"""A point in time; naive values are taken as UTC."""

Count = Annotated[int, Field(ge=-(2**31), lt=2**31)]
"""A number that Postgres keeps as an integer; imported libraries have negative ones too."""


class Kind(enum.StrEnum):
    """What sort of statement a memory is."""

    OBSERVATION = "observation"
    """Something a person said about themselves, or that was seen to hold."""
    INSIGHT = "insight"
    """What several observations say together."""
    CUSTOM = "custom"
    """Told to us outright, by `add`."""
    INSTRUCTION = "instruction"
    """A standing wish about how to be answered; given with every retrieval."""
    PROFILE = "profile"
    """A stable fact about a person (name, home, job); given with every retrieval."""
    TASK = "task"
    """Reusable experience: when to use it, and what to do."""
    RULE = "rule"
    """What works or is to be avoided, for one task or for all."""
    MISTAKE = "mistake"
    """A mistake that was made, with its lesson."""
    TOOL = "tool"
    """How a tool behaves, and how to call it."""
    CONVERSATION = "conversation"
    """A raw message, recalled as it was said; never written as a memory."""


PERSONAL_KINDS = (Kind.OBSERVATION, Kind.INSIGHT, Kind.CUSTOM, Kind.INSTRUCTION, Kind.PROFILE)
TASK_KINDS = (Kind.TASK, Kind.RULE, Kind.MISTAKE)
TOOL_KINDS = (Kind.TOOL,)


class Status(enum.StrEnum):
    """Where a memory stands in its life."""

    ACTIVE = "active"
    SUPERSEDED = "superseded"
    """Closed because a newer memory replaces it (`superseded_by`)."""
    EXPIRED = "expired"
    """Closed without a successor: no longer true, or forgotten."""
    DELETED = "deleted"
    """Taken out by a user; kept for history until erased."""


class TimeRange(BaseModel):
    """From `start` (included) to `end` (excluded); either side may be open."""

    model_config = ConfigDict(frozen=True)

    start: Moment | None = None
    end: Moment | None = None

    @model_validator(mode="after")
    def _ordered(self) -> TimeRange:
        if self.start and self.end and self.start > self.end:
            raise ValueError(f"a time range cannot end ({self.end}) before it starts ({self.start})")
        return self


class ToolCall(BaseModel):
    """One call of a tool, as an assistant message carries it."""

    model_config = ConfigDict(extra="allow")

    id: str = ""
    name: str = ""
    arguments: str = ""
    """The arguments as JSON text."""
    type: str = "function"
    index: int = 0

    @model_validator(mode="before")
    @classmethod
    def _flatten_openai(cls, value: Any) -> Any:
        # OpenAI nests name and arguments below "function"; both forms are met in the wild.
        if isinstance(value, dict) and isinstance(value.get("function"), dict):
            return {**{k: v for k, v in value.items() if k != "function"}, **value["function"]}
        return value


class Message(BaseModel):
    """One turn of a conversation.

    `message_id` makes recording idempotent: the same id in one workspace is stored once. `sent_at` is when it was
    said (the seeds' `time_created` is read too); what was said last year is about last year.
    """

    model_config = ConfigDict(populate_by_name=True, extra="ignore")

    role: Literal["user", "assistant", "system", "tool"] = "user"
    content: str = ""
    author: str = Field("", validation_alias=AliasChoices("author", "name"))
    """Who speaks, where the role alone does not say it."""
    message_id: str = Field(default_factory=new_id, min_length=1, validation_alias=AliasChoices("message_id", "id"))
    session_id: str = ""
    """The conversation it belongs to; neighbouring turns of one session lend each other meaning in recall."""
    sent_at: Moment = Field(default_factory=now, validation_alias=AliasChoices("sent_at", "time_created"))
    reasoning_content: str = ""
    tool_calls: list[ToolCall] = Field(default_factory=list)
    tool_call_id: str = ""
    metadata: dict[str, Any] = Field(default_factory=dict)

    @field_validator("content", "reasoning_content", "author", "tool_call_id", "session_id", mode="before")
    @classmethod
    def _none_is_empty(cls, value: Any) -> Any:
        return "" if value is None else value

    @field_validator("tool_calls", "metadata", mode="before")
    @classmethod
    def _none_is_missing(cls, value: Any, info: Any) -> Any:
        return ([] if info.field_name == "tool_calls" else {}) if value is None else value


class Trajectory(BaseModel):
    """One attempt at a task: its messages, and how well it went (`score`, 0 to 1)."""

    model_config = ConfigDict(extra="ignore")

    task_id: str = ""
    messages: list[Message] = Field(default_factory=list)
    score: float = 0.0
    metadata: dict[str, Any] = Field(default_factory=dict)


class Source(BaseModel):
    """One piece of evidence for a memory."""

    model_config = ConfigDict(frozen=True)

    kind: Literal["message", "episode", "memory"]
    id: str
    quote: str = ""
    """The words it rests on, where one passage can be named."""


class Evidence(BaseModel):
    """What a memory rests on, in words: the message, episode or other memory that one of its sources names."""

    kind: Literal["message", "episode", "memory"]
    id: str
    text: str
    """The quoted words, or all of it where none are quoted; empty once it is gone."""
    at: Moment | None
    """When it was said, seen or done."""
    by: str
    """Who said it."""


class Memory(BaseModel):
    """One remembered statement.

    Two time axes: `recorded_at`/`expired_at` say when we knew it, `valid_from`/`valid_until` when it holds in the
    world. `observed_at` is when it was said or seen.
    """

    workspace_id: str = ""
    memory_id: str = Field(default_factory=new_id, min_length=1)
    kind: Kind = Kind.OBSERVATION
    subject: str = ""
    """Whom or what it is about: a person's name, a task id, a tool's name."""
    when_to_use: str = ""
    """The situation in which it helps (task and tool memories); what recall compares a query with."""
    content: str = ""
    keywords: list[str] = Field(default_factory=list)
    importance: float = Field(0.5, ge=0, le=1)
    score: float = 0.0
    """How good it proved, as its maker judged it; recall never overwrites it."""
    status: Status = Status.ACTIVE
    superseded_by: str | None = None
    observed_at: Moment | None = None
    valid_from: Moment | None = None
    valid_until: Moment | None = None
    recorded_at: Moment | None = None
    """When the database came to know it; set by the database."""
    expired_at: Moment | None = None
    created_at: Moment = Field(default_factory=now)
    """When its maker made it; keeps its value when a library is loaded."""
    updated_at: Moment = Field(default_factory=now)
    author: str = ""
    """Who made it: a model's name, `rules`, or a person."""
    seen_count: Count = 1
    """How often it was stated."""
    freq: Count = 0
    """How often it was given to an agent."""
    utility: Count = 0
    """How often that agent then succeeded."""
    sources: list[Source] = Field(default_factory=list)
    metadata: dict[str, Any] = Field(default_factory=dict)


class Parts(BaseModel):
    """Why a hit stands where it stands. Every leg is scaled to 0…1 over the candidates of its query."""

    vector: float = 0.0
    lexical: float = 0.0
    session: float = 0.0
    speaker: float = 0.0
    time: float = 0.0
    type: float = 1.0
    final: float = 0.0
    similarity: float | None = None
    """The raw cosine similarity, -1…1, where the vector leg looked at it."""


class Hit(BaseModel):
    """One recalled memory (or message), with its rank (from 1) and the parts of its score."""

    rank: int
    memory: Memory
    parts: Parts

    @property
    def content(self) -> str:
        """The remembered text."""
        return self.memory.content


class Recollection(BaseModel):
    """What a recall found, best first. `retrieval_id` names it in the retrieval log."""

    retrieval_id: str = Field(default_factory=new_id)
    workspace_id: str
    query: str
    hits: list[Hit] = Field(default_factory=list)

    @property
    def memories(self) -> list[Memory]:
        """The recalled memories, best first."""
        return [hit.memory for hit in self.hits]

    def __len__(self) -> int:
        return len(self.hits)

    def __bool__(self) -> bool:
        return bool(self.hits)


class HistoryEntry(BaseModel):
    """One change of one memory, as the database's trigger wrote it down."""

    operation: Literal["insert", "update", "delete"]
    changed_at: Moment
    changed_by: str
    reason: str
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None


def kinds_of(kind: str | Sequence[str] | None) -> list[str]:
    """Spell out a kind, a family of kinds (`personal`, `task`, `tool`), or several of either."""
    families = {"personal": PERSONAL_KINDS, "task": TASK_KINDS, "tool": TOOL_KINDS}
    if kind is None:
        return []
    names = [kind] if isinstance(kind, str) else list(kind)
    # "task" is both a family and a kind; asked for by name, the family answers.
    return [str(member) for name in names for member in families.get(str(name)) or (Kind(name),)]
