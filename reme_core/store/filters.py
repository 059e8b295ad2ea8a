"""Filters of listing and recall, as SQL conditions with named parameters.

Every condition is a constant text, of sql/memory_filter.sql or sql/message_filter.sql; values travel as parameters. So
the text of a statement depends only on *which* filters are set, and is prepared once for those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypedDict, Unpack

from psycopg.types.json import Jsonb

from reme_core.errors import InputError
from reme_core.store.rows import range_of
from reme_core.store.sql import load
from reme_core.types import Kind, Status, TimeRange, kinds_of

_ON_MEMORY = load("memory_filter.sql")
_ON_MESSAGE = load("message_filter.sql")


class FilterOptions(TypedDict, total=False):
    """What alone is looked at, as callers of recall say it; what is left out lets everything through."""

    subject: str | None
    """Only memories about this."""
    status: str | None
    """Only memories of this status, `active` by default; None looks at closed ones too."""
    known: TimeRange | None
    """Only what we came to know in this range of time."""
    happened: TimeRange | None
    """Only what holds, or was said, in this range of time."""
    as_of: datetime | None
    """Look at what was known at this moment, in the words of that time."""
    held_at: datetime | None
    """Only what holds in the world at this moment."""
    metadata: Mapping[str, Any] | None
    """Only memories whose metadata contain all of this."""
    min_stored_score: float | None
    """Only memories whose stored score is at least this."""
    author: str | None
    """Only memories (messages) made (said) by this author."""
    session_id: str | None
    """Only messages of this session."""
    user_id: str | None
    """Only what is of this person; empty: only what is of nobody in particular."""
    agent_id: str | None
    """The same of an agent."""
    run_id: str | None
    """The same of a run."""
    without: Sequence[str]
    """Memories (messages) to pass over: their ids, or all that they say, word for word."""


@dataclass(frozen=True, slots=True)
class Filters:
    """Which memories to look at; everything unset lets all through.

    `known` is a range of the time when we came to know it, `happened` of the time when it holds or was said. `as_of`
    looks at what was known at a moment, `held_at` at what holds at one. `metadata` must be contained in the memory's.
    `ids` are the only ones to look at, `without` the ids, or the whole texts, of those to pass over.
    """

    kinds: Sequence[str] = ()
    subject: str | None = None
    status: Status | None = Status.ACTIVE
    known: TimeRange | None = None
    happened: TimeRange | None = None
    as_of: datetime | None = None
    held_at: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    min_stored_score: float | None = None
    author: str | None = None
    session_id: str | None = None
    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    ids: Sequence[str] | None = None
    without: Sequence[str] = ()

    @classmethod
    def of(
        cls,
        *,
        kind: str | Sequence[str] | None = None,
        ids: Sequence[str] | None = None,
        **options: Unpack[FilterOptions],
    ) -> Filters:
        """Filters from what a caller says; `kind` is a kind, a family of kinds, or several.

        Raises:
            InputError: There is no such kind, status or filter.
        """
        unknown = options.keys() - FilterOptions.__annotations__
        if unknown:
            raise InputError(
                f"there is no filter {min(unknown)!r}; there are {', '.join(FilterOptions.__annotations__)}"
            )
        try:
            kinds = kinds_of(kind)
        except ValueError:
            known_kinds = ", ".join(["personal", *Kind])
            raise InputError(f"there is no kind {kind!r}; known are {known_kinds}") from None
        status = options.get("status", Status.ACTIVE)
        try:
            held_status = Status(status) if status else None
        except ValueError:
            raise InputError(f"there is no status {status!r}; known are {', '.join(Status)}") from None
        options["metadata"] = options.get("metadata") or {}
        return cls(kinds=kinds, ids=ids, **{**options, "status": held_status})  # type: ignore[arg-type]  # no None

    @property
    def of_messages(self) -> bool:
        """Whether raw messages are looked at instead of memories."""
        return Kind.CONVERSATION in self.kinds

    @property
    def apart(self) -> Sequence[Filters]:
        """These filters; where they look at memories and at messages, one for either, as each has its own table."""
        if not self.of_messages or len(self.kinds) == 1:
            return [self]
        of_memories = [kind for kind in self.kinds if kind != Kind.CONVERSATION]
        return [replace(self, kinds=of_memories), replace(self, kinds=[Kind.CONVERSATION])]

    @property
    def beyond_kind(self) -> bool:
        """Whether the memory's own row is needed: its vector's row knows only its kind, and whether it is active."""
        return self != Filters(kinds=self.kinds)

    def on_memory(self) -> list[str]:
        """Conditions on a row `m` of `reme.memory`."""
        return [condition for name, condition in _ON_MEMORY.items() if self._asks_for(name)]

    def on_message(self) -> list[str]:
        """Conditions on a row `m` of `reme.message`; those on what a message has not got let it through."""
        return [condition for name, condition in _ON_MESSAGE.items() if self._asks_for(name)]

    def _asks_for(self, name: str) -> bool:
        value = getattr(self, name)
        if name in ("kinds", "metadata", "without"):
            return bool(value)
        if name == "status" and self.as_of is not None:  # what was active then may be closed by now
            return False
        return value is not None

    def parameters(self) -> dict[str, Any]:
        """The values of the conditions' placeholders; it may have more than a statement names."""
        return {
            "kinds": list(self.kinds),
            "subject": self.subject,
            "status": self.status and str(self.status),
            "as_of": self.as_of,
            "held_at": self.held_at,
            "known_start": self.known and self.known.start,
            "known_end": self.known and self.known.end,
            "happened": range_of(self.happened.start, self.happened.end) if self.happened else None,
            "metadata": Jsonb(dict(self.metadata)),
            "min_stored_score": self.min_stored_score,
            "author": self.author,
            "session_id": self.session_id,
            "user_id": self.user_id,
            "agent_id": self.agent_id,
            "run_id": self.run_id,
            "ids": list(self.ids) if self.ids is not None else None,
            "without": list(self.without),
        }
