"""The dates that words about messages mean, reckoned from when these were sent, never from today."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from reme_core.given import zone_of
from reme_core.text.timex.find import find_times, has_time
from reme_core.text.timex.statements import calendar_range, tells_of_past, times_of
from reme_core.types import Message, TimeRange


def resolve_bound(words: str, evidence: Sequence[Message], timezone: str) -> TimeRange | None:
    """The time at which words say that something begins or ends, or None where the evidence does not bear it out.

    The words are as they were said ("last week"), or a date (`YYYY`, `YYYY-MM`, `YYYY-MM-DD`). Relative ones are
    reckoned from the dates of the messages that say it.
    """
    if _ISO.fullmatch(words.strip()):
        named = calendar_range(words, timezone)
        return named if named and any(_bears_out(m, named, timezone) for m in evidence) else None
    for message in evidence:
        # The tense is that of the message; the model's words seldom have one.
        tense = " was " if tells_of_past(message.content) else " "
        found = times_of(f"{words}{tense}".strip(), message.sent_at, timezone)
        if found:
            return found[0].range
    return None


def dates_near(message: Message, timezone: str) -> set[str]:
    """The numbers that dates reckoned from a message may have: of when it was sent, and of the times that it names."""
    numbers: set[str] = set()
    ranges = [when.range for when in times_of(message.content, message.sent_at, timezone)]
    ranges += [m.range for m in find_times(message.content, now=message.sent_at, timezone=timezone)]
    moments = [message.sent_at.astimezone(zone_of(timezone))]
    for range_ in ranges:
        start, end = range_.start or range_.end, range_.end or range_.start
        if start and end:
            days = min((end - start).days, _LONGEST_NAMED_DAYS)
            moments += [start + timedelta(days=day) for day in range(days + 1)]
    for moment in moments:
        numbers |= {str(moment.year), str(moment.month), str(moment.day)}
    # "Next Easter" names a year, and "the year before" one.
    return numbers | {str(message.sent_at.year + step) for step in (-1, 1)}


_LONGEST_NAMED_DAYS: Final = 31  # a date within a longer stretch is not named by it


def _bears_out(message: Message, named: TimeRange, timezone: str) -> bool:
    """Whether a date can be reckoned from a message: it lies in a time that this names, or near when it was sent."""
    assert named.start is not None and named.end is not None
    times = times_of(message.content, message.sent_at, timezone)
    for when in times:
        start, end = when.range.start or when.range.end, when.range.end or when.range.start
        if start and end and start - _SLACK < named.end and named.start < end + _SLACK:
            return True
    if not times:
        # Words that the rules cannot place ("the sixth day of the first month") the model may have understood.
        return has_time(message.content) and abs(named.start - message.sent_at) < _NEAR
    known = dates_near(message, timezone) | set(re.findall(r"\d+", message.content))
    return named.end - named.start <= timedelta(days=1) and str(named.start.day) in known


_SLACK: Final = timedelta(days=1)
_NEAR: Final = timedelta(days=400)
_ISO: Final = re.compile(r"\d{4}(?:-\d{1,2}){0,2}")
