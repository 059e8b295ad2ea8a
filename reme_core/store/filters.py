"""Filters of listing and recall, as SQL conditions with named parameters.

Every condition is a constant text; values travel as parameters. The texts depend only on *which* filters are set, so a
statement with the same filters is prepared once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from reme_core.schema import Status, TimeRange
from reme_core.store.rows import range_of


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
    min_score: float | None = None
    author: str | None = None
    session_id: str | None = None
    ids: Sequence[str] | None = None
    without: Sequence[str] = ()

    @property
    def beyond_kind(self) -> bool:
        """Whether a memory's own row has to be looked at to decide, rather than only its kind and liveness."""
        return self != Filters(kinds=self.kinds)

    def on_memory(self, m: str = "m") -> list[str]:
        """Conditions on a row of `reme.memory` under the alias `m`."""
        chosen = {
            f"{m}.kind = any(%(kinds)s)": bool(self.kinds),
            f"{m}.subject = %(subject)s": self.subject is not None,
            f"{m}.status = %(status)s": self.status is not None and self.as_of is None,
            f"{m}.recorded_at <= %(as_of)s and ({m}.expired_at is null or {m}.expired_at > %(as_of)s)": self.as_of
            is not None,
            f"{m}.valid_during @> %(held_at)s": self.held_at is not None,
            f"{m}.recorded_at >= coalesce(%(known_start)s::timestamptz, '-infinity')"
            f" and {m}.recorded_at < coalesce(%(known_end)s::timestamptz, 'infinity')": self.known is not None,
            # What is dated must overlap the range; what holds since ever counts by when it was said.
            f"case when {m}.valid_during = '(,)'"
            f" then coalesce({m}.observed_at, {m}.created_at) <@ %(happened)s::tstzrange"
            f" else {m}.valid_during && %(happened)s::tstzrange end": self.happened is not None,
            f"{m}.metadata @> %(metadata)s": bool(self.metadata),
            f"{m}.score >= %(min_score)s": self.min_score is not None,
            f"{m}.author = %(author)s": self.author is not None,
            f"{m}.memory_id = any(%(ids)s)": self.ids is not None,
            _passed_over(m, "memory_id"): bool(self.without),
        }
        return [condition for condition, wanted in chosen.items() if wanted]

    def on_message(self, m: str = "m") -> list[str]:
        """Conditions on a row of `reme.message`; a message has no kind, status or score, so those let it through."""
        chosen = {
            f"{m}.recorded_at <= %(as_of)s": self.as_of is not None,
            f"{m}.sent_at <= %(held_at)s": self.held_at is not None,
            f"{m}.recorded_at >= coalesce(%(known_start)s::timestamptz, '-infinity')"
            f" and {m}.recorded_at < coalesce(%(known_end)s::timestamptz, 'infinity')": self.known is not None,
            f"{m}.sent_at <@ %(happened)s::tstzrange": self.happened is not None,
            f"{m}.metadata @> %(metadata)s": bool(self.metadata),
            f"{m}.author = %(author)s": self.author is not None,
            f"{m}.session_id = %(session_id)s": self.session_id is not None,
            f"{m}.message_id = any(%(ids)s)": self.ids is not None,
            _passed_over(m, "message_id"): bool(self.without),
        }
        return [condition for condition, wanted in chosen.items() if wanted]

    def parameters(self) -> dict[str, Any]:
        """Values for the conditions; those that no condition names do no harm."""
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
            "min_score": self.min_score,
            "author": self.author,
            "session_id": self.session_id,
            "ids": list(self.ids) if self.ids is not None else None,
            "without": list(self.without),
        }


def _passed_over(m: str, identity: str) -> str:
    """A condition whose lists are hashed once: they may be long, and a workspace larger."""
    return " and ".join(f"{m}.{column} not in (select unnest(%(without)s::text[]))" for column in (identity, "content"))
