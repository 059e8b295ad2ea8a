"""The profile: standing wishes and stable facts, which every retrieval includes, since no search would find them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Unpack

from reme_core.store.filters import Filters
from reme_core.store.memories import Memories
from reme_core.types import Kind, Memory, Scope, Status
from reme_core.types import now as present

STANDING_KINDS: Final = (str(Kind.INSTRUCTION), str(Kind.PROFILE))
MOST: Final = 100


@dataclass(frozen=True, slots=True)
class Profile:
    """What always holds in a workspace, the most important and newest first."""

    instructions: tuple[Memory, ...] = ()
    facts: tuple[Memory, ...] = ()

    @property
    def memories(self) -> list[Memory]:
        """Wishes first, then facts."""
        return [*self.instructions, *self.facts]

    def __bool__(self) -> bool:
        return bool(self.instructions or self.facts)


async def standing_memories(
    memories: Memories,
    workspace: str,
    filters: Filters,
    *,
    now: datetime | None = None,
    facts_since: datetime | None = None,
    limit: int,
) -> list[Memory]:
    """The wishes and facts that pass the filters and stand at `now`, or at the moment that the filters name.

    What is over stands no more, but facts that were true at some time from `facts_since` on are given, too. A wish for
    later does not stand yet; a fact ahead does, since a note tells its date.
    """
    moment = filters.held_at or now or filters.as_of or present()
    not_over = moment if facts_since is None else min(moment, facts_since)
    found = await memories.list(workspace, replace(filters, kinds=STANDING_KINDS, not_over_at=not_over), limit=limit)
    return [m for m in found if m.kind != Kind.INSTRUCTION or _holds(m, moment)]


def _holds(memory: Memory, moment: datetime) -> bool:
    begins, ends = memory.valid_from, memory.valid_until
    return (begins is None or begins <= moment) and (ends is None or ends > moment)


async def get_profile(
    memories: Memories,
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
    filters = Filters(subject=subject, status=status, as_of=as_of, held_at=held_at, **scope)
    found = await standing_memories(memories, workspace, filters, now=now, limit=MOST)
    if held_at is not None:
        found = [m for m in found if m.status != Status.DELETED and "forgotten" not in m.metadata]
    ordered = sorted(found, key=lambda m: (-m.importance, -(m.observed_at or m.created_at).timestamp()))
    return Profile(
        tuple(m for m in ordered if m.kind == Kind.INSTRUCTION), tuple(m for m in ordered if m.kind == Kind.PROFILE)
    )
