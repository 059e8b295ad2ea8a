"""Finding the time expressions of a text: screen it cheaply, let its language's rules look, place them in a zone."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from reme_core.errors import InputError
from reme_core.schema import TimeRange
from reme_core.text.terms import language_of
from reme_core.text.timex import chinese_joins, english_joins, others
from reme_core.text.timex.joins import longest
from reme_core.text.timex.mention import Found, TimeMention


def has_time(text: str) -> bool:
    """Whether a text may hold a time expression: some microseconds, now and then a wrong yes, never a wrong no."""
    return english_joins.screen(text) or chinese_joins.screen(text) or others.screen(text)


def find_times(text: str, *, now: datetime, timezone: str = "UTC", language: str | None = None) -> list[TimeMention]:
    """Find the time expressions of a text and the stretches of time they mean.

    English and Chinese go by rules of our own, since a calendar range and its precision are needed, where libraries
    give a single moment; other languages go through dateparser, for the spans that look like dates. Precision comes
    before recall: "may" the verb, prices and durations ("for two weeks") are no times. A bare month or weekday is the
    latest one that has begun, unless the clause speaks of the future.

    Args:
        text: a query or a statement.
        now: when it was said; naive values are taken as UTC.
        timezone: IANA name of the zone in which the speaker's days begin; the ranges are in it.
        language: ISO 639-1 code of the text; else it is detected.

    Returns:
        The mentions in order, none overlapping another. Habits ("every Monday") are marked `recurring` and have an
        open range; what is reckoned from something that only memory knows has an `anchor` (see `resolve`).

    Raises:
        InputError: the time zone is unknown.

    >>> mention = find_times("What did I do last spring?", now=datetime(2026, 11, 18))[0]
    >>> mention.text, str(mention.range.start), str(mention.range.end), mention.precision
    ('last spring', '2026-03-01 00:00:00+00:00', '2026-06-01 00:00:00+00:00', 'season')
    """
    if not has_time(text):
        return []
    try:
        # UTC needs no time zone database, which small containers lack.
        zone: tzinfo = UTC if timezone == "UTC" else ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InputError(f"unknown time zone {timezone!r}; give an IANA name such as 'Europe/Berlin'") from error
    local = (now if now.tzinfo else now.replace(tzinfo=UTC)).astimezone(zone).replace(tzinfo=None)
    mentions = []
    for found in _found(text, local, language):
        start, end = found.span.start, found.span.end
        spanned = TimeRange(
            start=start.replace(tzinfo=zone) if start else None, end=end.replace(tzinfo=zone) if end else None
        )
        mentions.append(
            TimeMention(
                text=text[found.start : found.end],
                start=found.start,
                end=found.end,
                range=spanned,
                precision=found.span.precision,
                relative=found.relative,
                recurring=found.recurring,
                anchor=found.anchor,
                offset=found.offset,
            )
        )
    return mentions


def _found(text: str, now: datetime, language: str | None) -> list[Found]:
    found = chinese_joins.find(text, now) if chinese_joins.screen(text) else []
    speech = (language or language_of(text)).lower()[:2]
    if speech in others.LANGUAGES:
        found += others.find(text, now, speech)
    elif english_joins.screen(text):
        found += english_joins.find(text, now)
    return longest(found)
