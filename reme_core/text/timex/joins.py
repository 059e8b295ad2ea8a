"""What the second passes of all languages share: which of overlapping finds stays, and where a range begins."""

from __future__ import annotations

from datetime import datetime, timedelta

from reme_core.text.timex.calendar import add_months
from reme_core.text.timex.mention import Found


def longest(found: list[Found]) -> list[Found]:
    """The longest finds that don't overlap, in the order of the text."""
    kept: list[Found] = []
    for one in sorted(found, key=lambda one: (one.start - one.end, one.start)):
        if all(one.end <= other.start or one.start >= other.end for other in kept):
            kept.append(one)
    return sorted(kept, key=lambda one: one.start)


def earlier(first: Found, last: Found) -> datetime | None:
    """When a range from `first` to `last` begins, or None if it would run backwards.

    A first end that leaves the year (or week) open takes the latest one that fits: "from March to May 2023".
    """
    begins, ends = first.span.start, last.span.start
    if begins is None or ends is None or (begins > ends and not first.relative):
        return None
    weekly = first.span.precision in ("day", "hour") and last.relative
    while begins > ends:
        begins = begins - timedelta(days=7) if weekly else add_months(begins, -12)
    while first.relative and not last.relative and add_months(begins, 12) <= ends:
        begins = add_months(begins, 12)
    return begins
