"""Filters of listing and recall, as SQL conditions with named parameters.

Every condition is a constant text from sql/filter.sql and the two files beside it, and values are sent as parameters.
So the text of a statement depends only on *which* filters are set, and Postgres prepares it once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Unpack

from psycopg.types.json import Jsonb
from psycopg.types.range import TimestamptzRange
from typing_extensions import TypedDict  # Pydantic wants this one before Python 3.12

from reme_core.errors import InputError, did_you_mean
from reme_core.given import moment_of
from reme_core.store.sql import load
from reme_core.types import SCOPES, Kind, Status, TimeRange, kinds_of

_ON_MEMORY = load("filter.sql") | load("memory_filter.sql")
_ON_MESSAGE = load("filter.sql") | load("message_filter.sql")
_MOMENTS = ("as_of", "held_at", "not_over_at")
_OBJECTS = {"known": TimeRange, "happened": TimeRange, "metadata": Mapping} | dict.fromkeys(_MOMENTS, datetime)


class FilterOptions(TypedDict, total=False):
    """The filters as callers of recall give them; a filter that is left out lets everything through."""

    subject: str | None
    """Only memories about this."""
    status: str | None
    """Only memories of this status, `active` by default; None: closed memories too."""
    known: TimeRange | None
    """Only what we came to know in this range of time."""
    happened: TimeRange | None
    """Only what holds, or was said, in this range of time."""
    as_of: datetime | None
    """Look at what was known at this moment, in the words of that time.

    What a load has removed or replaced since is found by `memories.list`, and by no recall.
    """
    held_at: datetime | None
    """Only what holds in the world at this moment, in UTC unless it has a zone; likewise `as_of`."""
    metadata: Mapping[str, Any] | None
    """Only memories whose metadata contain all of this."""
    min_stored_score: float | None
    """Only memories whose stored score is at least this."""
    author: str | None
    """Only memories (messages) made (said) by this author."""
    session_id: str | None
    """Only messages of this session."""
    user_id: str | None
    """Only what is of this person; an empty text: only what is of no person."""
    agent_id: str | None
    """The same for an agent."""
    run_id: str | None
    """The same for a run."""
    without: Sequence[str]
    """Memories (messages) to leave out: their ids, or their whole texts, word for word."""


@dataclass(frozen=True)
class Filters:
    """Which memories or messages to look at: only those of `kinds` and `ids`; for the rest see `FilterOptions`.

    `content` is the whole text of a memory, word for word; messages are not looked up by it. What has ended by
    `not_over_at` is left out. Of messages, `of_person` lets through what this person said, and what agents said in
    conversations of theirs; of memories, those about this person or about nobody in particular.
    """

    kinds: Sequence[str] = ()
    subject: str | None = None
    content: str | None = None
    status: Status | None = Status.ACTIVE
    known: TimeRange | None = None
    happened: TimeRange | None = None
    as_of: datetime | None = None
    held_at: datetime | None = None
    not_over_at: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    min_stored_score: float | None = None
    author: str | None = None
    of_person: str | None = None
    session_id: str | None = None
    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    ids: Sequence[str] | None = None
    without: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name in ("kinds", "ids", "without"):
            if isinstance(getattr(self, name), str):  # read letter by letter, it would let nothing through, or all
                raise InputError(f"{name} is a list of texts, not {getattr(self, name)!r:.60}")
        for name, kind in _OBJECTS.items():
            if not isinstance(getattr(self, name), kind | None):
                raise InputError(f"{name} is a {kind.__name__}, not {getattr(self, name)!r:.60}")
        for name in _MOMENTS:
            if (moment := getattr(self, name)) is not None:  # without a zone it fits no range of Postgres
                object.__setattr__(self, name, moment_of(moment))
        try:
            json.dumps(self.metadata)
        except TypeError as error:
            raise InputError(f"metadata are compared as JSON: {error}") from None
        # No kinds are the same filter as a list and as a tuple: whoever lists all memories is to get them by an index.
        object.__setattr__(self, "kinds", tuple(self.kinds))

    @classmethod
    def of(
        cls,
        *,
        kind: str | Sequence[str] | None = None,
        ids: Sequence[str] | None = None,
        **options: Unpack[FilterOptions],
    ) -> Filters:
        """Filters as a caller gives them; `kind` is a kind, a family of kinds, or several kinds.

        Raises:
            InputError: There is no such kind, status or filter.
        """
        known = FilterOptions.__annotations__
        if unknown := min(options.keys() - known, default=""):
            meant = "limit" if unknown in ("top_k", "k") else unknown  # as notes and other libraries call it
            hint = did_you_mean(meant, (*known, "limit"), f"there are {', '.join(known)}")
            raise InputError(f"there is no filter {unknown!r}; {hint}")
        kinds = kinds_of(kind)
        status = options.get("status", Status.ACTIVE)
        try:
            held_status = Status(status) if status else None
        except ValueError:
            raise InputError(f"there is no status {status!r}; known are {', '.join(Status)}") from None
        options["metadata"] = options.get("metadata") or {}
        return cls(kinds=kinds, ids=ids, **{**options, "status": held_status})  # type: ignore[arg-type]  # no None

    @classmethod
    def of_given(cls, filters: Filters | None, kind: str | Sequence[str] | None, options: FilterOptions) -> Filters:
        """The filters of a caller that gives them by name, or as one object.

        Raises:
            InputError: It does both, gives another object, or `of` refuses them.
        """
        if filters is None:
            return cls.of(kind=kind, **options)
        if not isinstance(filters, Filters) or kind or options:
            raise InputError("give filters by name, as in list('shop', kind='task', user_id='ann'), or one Filters")
        return filters

    @cached_property
    def of_messages(self) -> bool:
        """Whether these filters look at raw messages."""
        return Kind.CONVERSATION in self.kinds

    @cached_property
    def apart(self) -> Sequence[Filters]:
        """These filters, or two in their place where they look at both memories and messages: one for each table."""
        if not self.of_messages or len(self.kinds) == 1:
            return [self]
        of_memories = [kind for kind in self.kinds if kind != Kind.CONVERSATION]
        return [replace(self, kinds=of_memories), replace(self, kinds=[Kind.CONVERSATION])]

    @cached_property
    def beyond_kind(self) -> bool:
        """Whether the row of the memory is needed, besides the row of its vector."""
        # The row of a vector has the kind of its memory, and whether the memory is active.
        return self != Filters(kinds=self.kinds)

    @property
    def memories(self) -> str:
        """The table of memories to list from: as they are, or as they were known at `as_of`."""
        return "reme.memory" if self.as_of is None else "reme.memory_as_of(%(workspace)s, %(as_of)s)"

    def on_memory(self) -> list[str]:
        """Conditions on a row `m` of `memories`."""
        return [condition for name, condition in _ON_MEMORY.items() if self._asks_for(name)]

    def on_message(self) -> list[str]:
        """Conditions on a row `m` of `reme.message`; a filter by something that messages do not have does nothing."""
        return [condition for name, condition in _ON_MESSAGE.items() if self._asks_for(name)]

    def on_conversation(self) -> list[str]:
        """Those conditions on a row `m` of `reme.message` that say whose conversations are looked at."""
        names = ("author", "of_person", *SCOPES) if self.of_messages else SCOPES
        return [_ON_MESSAGE[name] for name in names if self._asks_for(name)]

    def _asks_for(self, name: str) -> bool:
        value = getattr(self, name)
        if name in ("kinds", "metadata", "without"):
            return bool(value)
        # A memory that was active at `as_of` may be closed by now.
        if name == "status" and self.as_of is not None:
            return False
        return value is not None

    def parameters(self) -> dict[str, Any]:
        """The values of the placeholders in all conditions, also of those that a statement does not use."""
        return vars(self) | {
            "kinds": list(self.kinds),
            "status": self.status and str(self.status),
            "known_start": self.known and self.known.start,
            "known_end": self.known and self.known.end,
            "happened": TimestamptzRange(self.happened.start, self.happened.end) if self.happened else None,
            "metadata": Jsonb(dict(self.metadata)),
            "ids": list(self.ids) if self.ids is not None else None,
            "without": list(self.without),
        }
