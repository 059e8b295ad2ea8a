"""Merge what the owner of a memory changed since it was loaded with what others stored meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from reme_core.errors import ConflictError

_ABSENT: Final = object()


def merge_value(what: str, before: Any, mine: Any, stored: Any) -> Any:
    """The value that follows from `before` by the owner's change, or by that of others.

    Raises:
        ConflictError: Both changed it, and not to the same value; the message names `what`.
    """
    if mine in (before, stored):
        return stored
    if stored == before:
        return mine
    raise ConflictError(
        f"{what} was changed in the memory and also in the workspace since the memory was loaded: somebody else has"
        " recorded there, or edited it. Nothing was changed; load the memory again"
    )


def merge_mapping(
    what: str, before: Mapping[str, Any], mine: Mapping[str, Any], stored: Mapping[str, Any]
) -> dict[str, Any]:
    """`merge_value` for each key; a key may be added, and removed."""
    merged = {
        name: merge_value(f"{name} of {what}", *(side.get(name, _ABSENT) for side in (before, mine, stored)))
        for name in {**stored, **mine, **before}
    }
    return {name: value for name, value in merged.items() if value is not _ABSENT}


def removals(before: Sequence[str], mine: Sequence[str], most: int) -> list[str]:
    """What its owner took out of a list since `before`, without what fell out at the front of a full list.

    The helper cuts its lists to the newest `most`, which takes nothing out of the workspace.
    """
    there, had = set(mine), list(dict.fromkeys(before))
    missing = [one for one in had if one not in there]
    if len(mine) >= most >= len(had) - len(missing):
        front = next((place for place, one in enumerate(had) if one in there), len(had))
        return missing[front:]
    return missing


def merge_order(before: Iterable[str], mine: Iterable[str], stored: Sequence[str], removed: Iterable[str]) -> list[str]:
    """The stored list after the owner's changes: older ones that the owner did not see, the owner's, and new ones."""
    had, there = set(before), set(stored)
    # What the owner left as it was and others removed stays removed.
    own = [one for one in dict.fromkeys(mine) if one in there or one not in had]
    others = set(stored).difference(own, removed)
    seen = max((place for place, one in enumerate(stored, 1) if one in had), default=len(stored))
    older, newer = ([one for one in part if one in others] for part in (stored[:seen], stored[seen:]))
    return [*older, *own, *newer]
