"""The types of this project: messages and trajectories go in, memories and recollections come out.

All times are `datetime`s with a time zone (UTC if none is given), in the years 2 to 9998. An id is any string that the
caller chooses, or a new hexadecimal UUID.
"""

from __future__ import annotations

import enum
import uuid
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, cast

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator
from typing_extensions import TypedDict  # Pydantic wants this one before Python 3.12

from reme_core.errors import InputError
from reme_core.given import WHEN_SAID, Count, Given, JsonObject, Measure, Moment, Observed, StrictlyNamed, json_text


def new_id() -> str:
    """A new id: 32 hexadecimal digits."""
    return uuid.uuid4().hex


def now() -> datetime:
    """The present moment in UTC."""
    return datetime.now(UTC)


class Kind(enum.StrEnum):
    """What sort of statement a memory is."""

    OBSERVATION = "observation"
    """Something a person said about themselves, or that was seen to hold."""
    INSIGHT = "insight"
    """What several observations say together."""
    CUSTOM = "custom"
    """Stated by a caller, with `add`."""
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
    """A message as it was said; recall finds it, but it is not stored as a memory."""


PERSONAL_KINDS = (Kind.OBSERVATION, Kind.INSIGHT, Kind.CUSTOM, Kind.INSTRUCTION, Kind.PROFILE)
TASK_KINDS = (Kind.TASK, Kind.RULE, Kind.MISTAKE)
TOOL_KINDS = (Kind.TOOL,)
_FAMILIES: Final = {"personal": PERSONAL_KINDS, "task": TASK_KINDS, "tool": TOOL_KINDS}


class Status(enum.StrEnum):
    """Whether a memory is in use, and if not, why."""

    ACTIVE = "active"
    SUPERSEDED = "superseded"
    """Closed because a newer memory replaces it (`superseded_by`)."""
    EXPIRED = "expired"
    """Closed without a successor, because it is no longer true or was forgotten."""
    DELETED = "deleted"
    """Deleted by a user; it stays in the history until it is erased."""


class TimeRange(Given):
    """From `start` (included) to `end` (excluded); either side may be open."""

    model_config = ConfigDict(frozen=True)

    start: Moment | None = None
    end: Moment | None = None

    @model_validator(mode="after")
    def _check_order(self) -> TimeRange:
        # In UTC: times of one zone are compared by what the clocks show, which on some days they show twice.
        if self.start and self.end and self.start.astimezone(UTC) > self.end.astimezone(UTC):
            raise ValueError(f"a time range cannot end ({self.end}) before it starts ({self.start})")
        return self


class _FromClient(Given):
    """Base of what clients send: some send `null` for a field that they leave out, or an empty text for a time."""

    model_config = ConfigDict(extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {k: own for k, own in value.items() if own is not None and (own != "" or k not in WHEN_SAID.choices)}


class ToolCall(_FromClient):
    """One call of a tool, as an assistant message carries it."""

    model_config = ConfigDict(extra="allow")

    id: str = ""
    name: str = ""
    arguments: str = ""
    """The arguments as JSON text; an object is converted to it."""
    type: str = "function"
    index: int = 0

    @model_validator(mode="before")
    @classmethod
    def _flatten_openai(cls, value: Any) -> Any:
        # OpenAI puts name and arguments below "function"; clients send both forms.
        if isinstance(value, dict) and isinstance(value.get("function"), dict):
            return {**{k: v for k, v in value.items() if k != "function"}, **value["function"]}
        return value

    @field_validator("arguments", mode="before")
    @classmethod
    def _write_as_json(cls, value: Any) -> Any:
        return json_text(value) if isinstance(value, dict) else value


class Scope(TypedDict, total=False):
    """The person, agent and run that something belongs to; a name that is left out or empty is nobody in particular."""

    user_id: str
    """The person."""
    agent_id: str
    """The agent, where several share a workspace and yet have memories of their own."""
    run_id: str
    """The run, or task."""


SCOPES: Final = ("user_id", "agent_id", "run_id")

# Looked up, since this is asked of every message and memory.
_SPELLINGS: Final = [(scope, [scope[:-3], scope[:-3].title(), scope[:-3].upper()]) for scope in SCOPES]
_IDS: Final = ["id", "Id", "ID", "-id", "-Id", "-ID", "_Id", "_ID"]
_MISTYPED: Final = {who + what: scope for scope, names in _SPELLINGS for who in names for what in _IDS}


def refuse_mistyped_scope(value: Any) -> Any:
    """Give it back if it has no `userid` or the like, which would be ignored and let it belong to nobody."""
    if isinstance(value, dict) and (mistyped := value.keys() & _MISTYPED.keys()):
        name = min(mistyped)
        raise ValueError(f"there is no field '{name}'; did you mean '{_MISTYPED[name]}'?")
    return value


class Scoped(Given):
    """What may belong to a person, an agent or a run; a name is empty if it belongs to none in particular."""

    user_id: str = ""
    agent_id: str = ""
    run_id: str = ""

    _refuse_mistyped = model_validator(mode="before")(refuse_mistyped_scope)

    @property
    def scope(self) -> Scope:
        """The names of all three, empty ones included."""
        return {"user_id": self.user_id, "agent_id": self.agent_id, "run_id": self.run_id}


def scope_of(evidence: Collection[Scoped]) -> Scope:
    """The scope of what is made from this evidence; evidence of several people, say, is of nobody in particular.

    >>> scope_of([Message(user_id="ann", agent_id="cook"), Message(user_id="ann", agent_id="nurse"), Message()])
    {'user_id': 'ann', 'agent_id': '', 'run_id': ''}
    """
    found = {name: {getattr(one, name) for one in evidence} - {""} for name in SCOPES}
    return cast(Scope, {name: ids.pop() if len(ids) == 1 else "" for name, ids in found.items()})


def names_in(scope: Scope) -> Scope:
    """The scope without its empty names."""
    return cast(Scope, {name: value for name, value in scope.items() if value})


def scope_of_given(names: Mapping[str, str | None]) -> Scope:
    """The scope of the names that are given, which are those that are not None."""
    return cast(Scope, {name: value for name, value in names.items() if value is not None})


_ROLES: Final = {"developer": "system", "function": "tool"}  # as OpenAI calls the one now, and called the other once
_RENAME: Final = BeforeValidator(lambda one: _ROLES.get(one, one) if isinstance(one, str) else one)
Role = Annotated[Literal["user", "assistant", "system", "tool"], _RENAME]
"""Who speaks in a message."""


class Message(Scoped, _FromClient):
    """One message of a conversation.

    A message is stored once in a workspace, however often it is recorded: `message_id` identifies it. `sent_at` (or
    `time_created`, `created_at`, `timestamp`) is when it was said, in UTC unless it has a zone. It gives
    "yesterday" a meaning. If `content` comes in parts, their text is kept.
    """

    model_config = ConfigDict(populate_by_name=True)

    role: Role = "user"
    content: str = ""
    author: str = Field(default="", validation_alias=AliasChoices("author", "name"))
    """Who speaks, if the role does not say it."""
    message_id: str = Field(default_factory=new_id, min_length=1, validation_alias=AliasChoices("message_id", "id"))
    session_id: str = ""
    """The conversation that it belongs to. Recall also finds a message by the words of its neighbours in it."""
    sent_at: Moment = Field(default_factory=now, validation_alias=WHEN_SAID)
    reasoning_content: str = ""
    tool_calls: list[ToolCall] = Field(default_factory=list)
    tool_call_id: str = ""
    metadata: JsonObject = Field(default_factory=dict)

    @field_validator("content", mode="before")
    @classmethod
    def _join_parts(cls, value: Any) -> Any:
        if not isinstance(value, list):
            return value
        # Parts with an image or a sound have no text.
        texts = [part if isinstance(part, str) else part.get("text") for part in value if isinstance(part, str | dict)]
        return "\n".join(text for text in texts if isinstance(text, str))


class Trajectory(_FromClient, Observed, StrictlyNamed):
    """One attempt at a task: its messages, and how well it went (`score`, 0 to 1)."""

    task_id: str = ""
    messages: list[Message] = Field(default_factory=list)
    score: Measure = 0.0
    metadata: JsonObject = Field(default_factory=dict)


class Source(Given):
    """One piece of evidence for a memory."""

    model_config = ConfigDict(frozen=True)

    kind: Literal["message", "episode", "memory"]
    id: str
    quote: str = ""
    """The words that the memory rests on, if they are one passage."""


class Evidence(BaseModel):
    """The text of a source of a memory: of the message, the episode or the other memory that it names."""

    kind: Literal["message", "episode", "memory"]
    id: str
    text: str
    """The quoted words, or all of them if none are quoted; empty if the source is gone."""
    at: Moment | None
    """When it was said or done."""
    by: str
    """Who said it."""


class Memory(Scoped):
    """One remembered statement.

    It has two time axes: `recorded_at` to `expired_at` is when we knew it, `valid_from` to `valid_until` when it is
    true in the world; it never was if these two are equal. `observed_at` is when it was said or seen.
    """

    workspace_id: str = ""
    memory_id: str = Field(default_factory=new_id, min_length=1)
    kind: Kind = Kind.OBSERVATION
    subject: str = ""
    """Whom or what it is about: a person's name, a task id, a tool's name."""
    when_to_use: str = ""
    """The situation in which it helps (task and tool memories); recall compares queries with it."""
    content: str = ""
    keywords: list[str] = Field(default_factory=list)
    importance: float = Field(default=0.5, ge=0, le=1)
    score: float = 0.0
    """How good it is, in the judgement of who made it; recall does not change it."""
    status: Status = Status.ACTIVE
    superseded_by: str | None = None
    observed_at: Moment | None = None
    valid_from: Moment | None = None
    valid_until: Moment | None = None
    recorded_at: Moment | None = None
    """When the database came to know it; set by the database."""
    expired_at: Moment | None = None
    created_at: Moment = Field(default_factory=now)
    """When it was made; the same after it was dumped to a library and loaded."""
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
    metadata: JsonObject = Field(default_factory=dict)


class Parts(BaseModel):
    """The parts of the score of a hit, before their weights; `final` is what hits are ordered by."""

    vector: float = 0.0
    """How near the meaning is, 0…1: scaled over the candidates of the query."""
    lexical: float = 0.0
    """How well the words fit (BM25), scaled likewise."""
    covered: float = 0.0
    """The share of the query's words that it has, 0…1; rare words count more, and neighbours lend a message theirs."""
    telling: float = 1.0
    """Of a message: a factor of `lexical` and `covered`. The less the query's words tell, the lower it is."""
    session: float = 0.0
    """Of a message: the best score in its session, divided by the best of all."""
    speaker: float = 0.0
    """1 where the query names who said it."""
    role: float = 0.0
    """1 for the user's own words; or for the assistant's, where the query asks what it said."""
    time: float = 0.0
    """Of a message: 0…2, higher near the time that the query names; of a memory: 2 if it meets that time, else 1."""
    type: float = 1.0
    """The factor of its kind, where the caller gives one."""
    final: float = 0.0
    similarity: float | None = None
    """The cosine similarity, -1…1, if the vector leg looked at it."""


class Hit(BaseModel):
    """A recalled memory or message, with its rank (from 1) and the parts of its score."""

    rank: int
    memory: Memory
    parts: Parts
    relevance: float = 0.0
    """The chance that it answers the query, 0 to 1; low also where the answer may stand in any of many hits."""
    alike: int = 1
    """How many results say the same, this one included. It is the newest of them, in the place of the best.

    Two memories say the same if their words are equal, whatever case and punctuation, and also their kind, scope,
    subject, author and time of validity; messages of one author may be in different conversations. If the query asks
    about a time, results that were said or observed at different times do not say the same.
    """

    @property
    def content(self) -> str:
        """The remembered text."""
        return self.memory.content


class Recollection(BaseModel):
    """What a recall found, best first; `retrieval_id` is its id in the log."""

    retrieval_id: str = Field(default_factory=new_id)
    workspace_id: str
    query: str
    hits: list[Hit] = Field(default_factory=list)
    relevance: float = 0.0
    """The chance that any result is about the query, 0 to 1, counting results left out for `min_relevance`."""
    degraded: str = ""
    """Why the embedding model failed, so that words alone answered; empty if it did not fail."""

    @property
    def memories(self) -> list[Memory]:
        """The recalled memories, best first."""
        return [hit.memory for hit in self.hits]

    def __len__(self) -> int:
        return len(self.hits)

    def __bool__(self) -> bool:
        return bool(self.hits)


class HistoryEntry(BaseModel):
    """One change of one memory, as a trigger of the database recorded it."""

    number: int = 0
    """Its number among all changes of memories in the workspace; `memories.restore` takes it."""
    operation: Literal["insert", "update", "delete"]
    changed_at: Moment
    changed_by: str
    reason: str
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None


def kinds_of(kind: str | Sequence[str] | None) -> list[str]:
    """The kinds meant by a kind, a family (`personal`, `task` with rules and mistakes, `tool`), or several; each once.

    Raises:
        InputError: There is no such kind.
    """
    names = [kind] if isinstance(kind, str) else kind or ()
    if unknown := [name for name in names if name not in (*_FAMILIES, *Kind)]:
        raise InputError(f"there is no kind {unknown[0]!r}; known are {', '.join(['personal', *Kind])}")
    return list(dict.fromkeys(str(member) for name in names for member in _FAMILIES.get(str(name)) or [name]))
