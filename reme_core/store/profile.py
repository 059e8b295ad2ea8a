"""The profile: standing wishes and stable facts, which every retrieval includes, since no search would find them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from string import Template
from typing import Final, Unpack

from reme_core.postgres.database import Database
from reme_core.store import rows
from reme_core.store.filters import Filters
from reme_core.store.memories import fetch_memories
from reme_core.store.sql import load
from reme_core.types import Kind, Memory, Scope, Status
from reme_core.types import now as present

STANDING_KINDS: Final = (str(Kind.INSTRUCTION), str(Kind.PROFILE))
MOST: Final = 50  # wishes, and as many facts: a note seldom has room for more

_SQL = load("profile.sql", columns=rows.SELECTED)


@dataclass(frozen=True, slots=True)
class Profile:
    """What always holds in a workspace, the most important and newest first; see `standing_memories`."""

    instructions: tuple[Memory, ...] = ()
    facts: tuple[Memory, ...] = ()

    @property
    def memories(self) -> list[Memory]:
        """Wishes first, then facts."""
        return [*self.instructions, *self.facts]

    def __bool__(self) -> bool:
        return bool(self.instructions or self.facts)


async def standing_memories(
    database: Database,
    workspace: str,
    filters: Filters,
    *,
    now: datetime | None = None,
    facts_since: datetime | None = None,
) -> list[Memory]:
    """The wishes, then the facts that pass the filters and stand at `now`, or at the moment that the filters name.

    Of each the most important and newest first, at most `MOST`. What is over stands no more, but facts that were true
    at some time from `facts_since` on are given, too. A wish for later does not stand yet; a fact ahead does, since a
    note tells its date.
    """
    moment = filters.held_at or now or filters.as_of or present()
    not_over = moment if facts_since is None else min(moment, facts_since)
    conditions = replace(filters, kinds=(), not_over_at=not_over)
    statement = Template(_SQL["standing"]).substitute(
        memories=conditions.memories, conditions=" and ".join(conditions.on_memory())
    )
    values = {"workspace": workspace, "moment": moment, "most": MOST}
    return await fetch_memories(
        database, workspace, statement, conditions.parameters() | values | {"kinds": list(STANDING_KINDS)}
    )


async def get_profile(
    database: Database,
    workspace: str,
    *,
    subject: str | None = None,
    as_of: datetime | None = None,
    held_at: datetime | None = None,
    now: datetime | None = None,
    **scope: Unpack[Scope],
) -> Profile:
    """The standing wishes and stable facts of a workspace, as they were known `as_of` or held at a moment.

    `now` is when that is asked; default is `as_of`, else the present.
    """
    # A memory that is closed today may have been true then.
    status = Status.ACTIVE if held_at is None else None
    filters = Filters.of(subject=subject, status=status, as_of=as_of, held_at=held_at, **scope)
    standing = await standing_memories(database, workspace, filters, now=now)
    return Profile(
        tuple(m for m in standing if m.kind == Kind.INSTRUCTION), tuple(m for m in standing if m.kind == Kind.PROFILE)
    )
