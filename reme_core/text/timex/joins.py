"""What the second passes of English and Chinese share: the longest of several expressions, ranges, and distances."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Final

from reme_core.errors import InputError
from reme_core.text.regex import regex
from reme_core.text.timex.calendar import Unit, add_months, day, hour, later, length, next_one, range_of, unit_from
from reme_core.text.timex.english_words import DAY_NAME, TOMORROW
from reme_core.text.timex.mention import Expression, Span, TimeMention
from reme_core.types import TimeRange

Extent = Callable[[str, Expression, Expression, str], tuple[int, int] | None]


def drop_overlaps(found: list[Expression]) -> list[Expression]:
    """Keep the longest of expressions that overlap; returns them in the order of the text."""
    kept: list[Expression] = []  # in the order of the text, so that only neighbours can overlap
    for one in sorted(found, key=lambda one: (one.start - one.end, one.start)):
        place = bisect(kept, one.start, key=lambda other: other.start)
        if (place == 0 or kept[place - 1].end <= one.start) and (place == len(kept) or one.end <= kept[place].start):
            kept.insert(place, one)
    return kept


def join_ranges(text: str, atoms: list[Expression], to: re.Pattern[str], extent: Extent) -> list[Expression]:
    """Join each two expressions that `to` stands between into one range.

    `extent` says where the words of a range begin and end, or None of two times ("March and May"). It is given the
    text, both expressions, and the words between these.
    """
    joined: list[Expression] = []
    for found in atoms:
        first = joined[-1] if joined else None
        gap = to.fullmatch(text, first.end, found.start) if first else None
        if first is None or gap is None:
            joined.append(found)
            continue
        last = _next_after(first, found, text)
        places = None if first.recurring or last.recurring else extent(text, first, last, gap[0])
        begins = _range_start(first, last) if places else None
        if places is None or begins is None:
            joined.append(last)
            continue
        span = Span(begins, last.span.end, last.span.precision)
        relative = first.relative and last.relative
        joined[-1] = replace(last, start=places[0], end=places[1], span=span, relative=relative, weak=False)
    return joined


def _next_after(first: Expression, last: Expression, text: str) -> Expression:
    """`last`, or the next such time behind a `first` whose words fix its day: Sunday in "from today to Sunday"."""
    begins, start = first.span.start, last.span.start
    if begins is None or start is None or last.span.end is None or start >= begins or not last.relative:
        return last
    if not _FIXED.search(text, first.start, first.end) or _FIXED.search(text, last.start, last.end):
        return last
    weekly = _WEEKLY.search(text, last.start, last.end) is not None
    return replace(last, span=next_one(last.span, weekly=weekly))


_FIXED: Final = regex(
    rf"\b(?:this|next|now|today|tonight|yesterday|{'|'.join(TOMORROW)})\b|[昨今明前后下本这]", re.IGNORECASE
)
_WEEKLY: Final = regex(rf"\b{DAY_NAME}|[周期拜][一二三四五六日天末]", re.IGNORECASE)


def _range_start(first: Expression, last: Expression) -> datetime | None:
    """When the range from `first` to `last` begins, or None if it would run backwards.

    If `first` has no year (or week) of its own, it takes the latest one before `last`: in "from March to May 2023",
    March is that of 2023.
    """
    begins, ends = first.span.start, last.span.start
    if begins is None or ends is None or (begins > ends and not first.relative):
        return None
    # "From Friday to Sunday" may go back by weeks, "from March to May" by years.
    weekly = first.span.precision in ("day", "hour") and last.relative
    while begins > ends:
        begins = begins - timedelta(days=7) if weekly else add_months(begins, -12)
    while first.relative and not last.relative and add_months(begins, 12) <= ends:
        begins = add_months(begins, 12)
    return begins


def move(atom: Expression, amount: float, unit: Unit, *, before: bool) -> Expression | None:
    """The day (week …) at a distance before or after an expression, or None if it has no date to count from.

    Days are counted from its first or its last day, and hours from its beginning: two hours after 3 pm it is 5 pm.
    """
    start, end = atom.span.start, atom.span.end
    if atom.recurring or start is None or end is None:
        return None
    with suppress(ValueError, OverflowError):  # beyond the calendar
        origin = start if before or unit in ("hour", "minute") else end - timedelta(days=1)
        return replace(atom, span=unit_from(origin, -amount if before else amount, unit))
    return None


def distance_from_event(match: re.Match[str], amount: float, unit: Unit, *, before: bool) -> Expression:
    """A match as the distance from the event in its group `anchor`, whose date the text does not give."""
    span = Span(None, None, "hour" if unit in ("hour", "minute") else "day")
    offset = length(-amount if before else amount, unit)
    return Expression(match.start(), match.end(), span, True, anchor=match["anchor"], offset=offset)


def resolve(mention: TimeMention, anchor_date: date | datetime) -> TimeRange:
    """Give the day (or hour) that a mention with an anchor means, once the anchor's date is known.

    The range is in the time zone of `anchor_date`; a plain date or naive datetime is taken as UTC.

    Raises:
        InputError: the mention has no anchor, or the calendar has no such day.

    >>> from reme_core.text.timex import find_times
    >>> mention = find_times("two days before my birthday", now=datetime(2026, 11, 18))[0]
    >>> mention.anchor, str(resolve(mention, date(2026, 5, 7)).start)
    ('my birthday', '2026-05-05 00:00:00+00:00')
    """
    if mention.offset is None:
        raise InputError(f"{mention.text!r} has no anchor to resolve; its range stands by itself")
    if not isinstance(anchor_date, datetime):
        anchor_date = datetime(anchor_date.year, anchor_date.month, anchor_date.day)
    if anchor_date.tzinfo is None:
        anchor_date = anchor_date.replace(tzinfo=UTC)
    try:
        if mention.precision == "hour":
            return range_of(hour(later(anchor_date, mention.offset)))
        return range_of(day(anchor_date + mention.offset))
    except (ValueError, OverflowError) as error:
        raise InputError(f"{mention.text!r} lies beyond the calendar, counted from {anchor_date:%Y-%m-%d}") from error
