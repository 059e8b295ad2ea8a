"""The times that a statement names. Queries ask about the past, but "a marathon on October 5" may lie ahead."""

# ruff: noqa: E501 -- a pattern reads better whole

from __future__ import annotations

import calendar
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final

from reme_core.given import zone_of
from reme_core.text.named import MONTHS
from reme_core.text.regex import regex
from reme_core.text.signs import simplify
from reme_core.text.timex import others
from reme_core.text.timex.calendar import add_months, day, midnight, next_one, range_of
from reme_core.text.timex.english_joins import shift_and_open
from reme_core.text.timex.english_words import DAY_NAME, HOLIDAY, THROUGH, TOMORROW
from reme_core.text.timex.find import find_times, language_to_read_in
from reme_core.text.timex.mention import Expression, Precision, Span, TimeMention, search_before
from reme_core.types import TimeRange


@dataclass(frozen=True, slots=True)
class When:
    """A time that a statement names: its words, and the stretch of time that they mean."""

    text: str
    range: TimeRange


def times_of(text: str, sent_at: datetime, timezone: str, *, of_wish: bool = False) -> list[When]:
    """The times that a statement names; vague ones ("the other day"), habits and durations are left out.

    A day or month without a year lies ahead, unless the statement tells of the past: "a marathon on October 5" is the
    next one, "ran a marathon on October 5" the last one.

    >>> said = datetime(2024, 3, 6, 19, tzinfo=zone_of("UTC"))
    >>> [str(when.range.start) for when in times_of("I'm training for a marathon on October 5", said, "UTC")]
    ['2024-10-05 00:00:00+00:00']
    """
    plain = in_known_words(text)
    found, days = [], _days_of_month(plain, sent_at, timezone)
    for mention in find_times(plain, now=sent_at, timezone=timezone):
        if mention.recurring or mention.anchor or _VAGUE.search(mention.text):
            continue
        if any(mention.text in one.text for one in days):
            continue  # "next month" of "the 13th of next month"
        if mention.range.start or mention.range.end:
            named = _in_direction(_open_if_told(mention, plain), plain, sent_at, timezone, of_wish=of_wish)
            # 到五月 alone is "until May"; 从三月到五月 is a range.
            until = plain.endswith(("到", "至"), 0, mention.start) and "从" not in plain[: mention.start]
            is_clock = Span(named.start, named.end, mention.precision).is_clock
            found.append(When(mention.text, TimeRange(end=named.start if is_clock else named.end) if until else named))
    # "The 3rd" is no day of its own in "the 3rd to the 10th of May".
    return [*(one for one in days if not any(one.text in when.text for when in found)), *found]


def validity(text: str, sent_at: datetime, timezone: str, *, of_wish: bool = False) -> TimeRange:
    """The time for which a statement says that it holds; open if the statement names no such time, or several.

    A single day ("moved on Sunday") bounds nothing. A wish is not over when it is made: "no films from before 1990".

    >>> validity("takes Jardiance since Friday", datetime(2024, 3, 6), "UTC").start.date().isoformat()
    '2024-03-01'
    """
    times = times_of(text, sent_at, timezone, of_wish=of_wish)
    bounds = [when.range for when in times if _bounds_what_holds(when)]
    found = bounds[0] if len(bounds) == 1 else TimeRange()
    return TimeRange() if of_wish and found.end and found.end <= sent_at else found


def _bounds_what_holds(when: When) -> bool:
    """Whether a time is open to one side, or a span of days: "from 3 to 10 May", 5月3号到10号."""
    start, end = when.range.start, when.range.end
    return start is None or end is None or (end - start > timedelta(days=1) and _SPAN.search(when.text) is not None)


def with_dates(statement: str, sent_at: datetime, timezone: str) -> str:
    """The statement with the date behind each relative time, so that it stays true: "yesterday (2024-05-05)"."""
    plain, dated = simplify(statement), statement
    for mention in find_times(plain, now=sent_at, timezone=timezone):
        if not mention.relative or mention.recurring or mention.anchor or _VAGUE.search(mention.text):
            continue
        named = _in_direction(mention, plain, sent_at, timezone)
        written = _absolute_date(named, mention.precision)
        if written and written not in dated:
            place = mention.end + len(dated) - len(statement)
            dated = f"{dated[:place]} ({written}){dated[place:]}"
    return dated


def in_known_words(text: str) -> str:
    """A text with the words for bounds that `find_times` knows: "until Friday" for "till Friday" and "through Friday"."""
    plain = _UNTIL.sub("until ", simplify(text))
    if not tells_of_past(plain):
        plain = _END_OF.sub(r"\1 the end of this ", plain)
    plain = _MONTH_OF_SPAN.sub(lambda match: match[1] + match[2].title(), plain)  # "may" the verb is no time
    return _END_ZH.sub(lambda match: _ENDS_ZH[match[0][0]], plain)


def _absolute_date(named: TimeRange, precision: Precision) -> str:
    if named.start is None or named.end is None:
        return ""
    if precision in ("year", "month"):
        return f"{named.start:%Y}" if precision == "year" else f"{named.start:%Y-%m}"
    if precision in ("week", "season"):
        return f"{named.start:%Y-%m-%d}–{named.end - timedelta(days=1):%Y-%m-%d}"
    return f"{named.start:%Y-%m-%d}"


def calendar_range(written: str, timezone: str) -> TimeRange | None:
    """The year, month or day that `YYYY`, `YYYY-MM` or `YYYY-MM-DD` names; None where the calendar has none."""
    # A part that is not written is a 0.
    year, month, day_number = [*map(int, written.strip().split("-")), 0, 0][:3]
    try:
        start = datetime(year, month or 1, day_number or 1, tzinfo=zone_of(timezone))
        if not month:
            return TimeRange(start=start, end=start.replace(year=year + 1))
        return range_of(day(start, 1 if day_number else calendar.monthrange(year, month)[1]))
    except (ValueError, OverflowError):
        return None  # no day of the calendar


def _open_if_told(mention: TimeMention, text: str) -> TimeMention:
    """The mention without an end, if the words before it say so: "starting Friday" of "Friday"."""
    begins = search_before(_BEGINS, text, mention.start)
    if begins is None or RANGE.search(mention.text):
        return mention
    start, opened = begins.start(), TimeRange(start=mention.range.start)
    return replace(mention, text=text[start : mention.end], start=start, range=opened)


def _in_direction(
    mention: TimeMention, text: str, sent_at: datetime, timezone: str, *, of_wish: bool = False
) -> TimeRange:
    """The range of a mention; a week or a year later if neither the mention nor the text says that it is past.

    What is wished from a time on begins at the next such time, whatever the text tells of the past.
    """
    start, end = mention.range.start, mention.range.end
    begins = end is None and _OPENS.search(mention.text) is not None
    # "From Monday on I'm in Rome" lies ahead; 从周一起我在上海 may tell what has begun.
    weekday = begins and _WEEKDAY_NAME.search(mention.text) is not None
    # Without an end, "since May" has begun; but "after May 3" and 从5月3日开始 may lie ahead, if that is nearer.
    dated = begins and (weekday or _DATE.search(mention.text) is not None)
    opens = begins and (of_wish or (dated and not _SO_FAR.search(text)))
    lately = opens and start and sent_at - start < _LATELY and not weekday and not of_wish
    if lately and not _AHEAD.search(text.replace(mention.text, "")):
        return mention.range  # in June, 从三月开始在学法语 tells of the March before
    last = start if opens else end
    plain = _OPENS.sub("", mention.text) if opens else mention.text
    # Kept as it is: what ends, or opens, after `sent_at` lies ahead already; what opens on that day is there.
    if last is None or last > sent_at - timedelta(days=opens) or not mention.relative or _DIRECTED.search(plain):
        return mention.range
    # Who "bought tickets for May 5" tells when the concert is: the nearer such day, the last one or the next.
    is_plan = not opens and start is not None and sent_at - start >= _LATELY and _tells_of_plan(text)
    if tells_of_past(text) and not is_plan and not (opens and of_wish):
        return mention.range
    weekly = bool(_WEEKLY.search(mention.text)) and not _DATE.search(mention.text)  # "Saturday, June 8": once a year
    with suppress(ValueError):  # the calendar has no such time, or the clocks never show it
        if not weekly:
            known = _times_a_year_later(text, sent_at, timezone)
            later = known.get(mention.text) or known.get(plain.strip())
            ahead = later and (later.start if opens else later.end)
            if later and ahead and ahead > sent_at:
                return TimeRange(start=later.start) if opens else later
        return range_of(next_one(Span(start, end, mention.precision), weekly=weekly))
    return mention.range


@lru_cache(maxsize=1)  # a text is asked about once for each time in it
def _times_a_year_later(text: str, sent_at: datetime, timezone: str) -> dict[str, TimeRange]:
    """What the times of a text would mean a year later, by their words: Easter is on another day then."""
    return {m.text: m.range for m in find_times(text, now=add_months(sent_at, 12), timezone=timezone)}


@lru_cache(maxsize=1)  # a text is asked about once for each time in it
def tells_of_past(text: str) -> bool:
    """Whether a text speaks of the past, and not of the future."""
    language = language_to_read_in(text)
    if language in others.LANGUAGES:
        return others.tells_of_past(text, language)
    return bool(_PAST.search(_PRESENT.sub("", text))) and not _AHEAD.search(text)


@lru_cache(maxsize=1)  # a text is asked about once for each time in it
def _tells_of_plan(text: str) -> bool:
    return _PLANS.search(text) is not None


def tells_year(words: str) -> bool:
    """Whether the words for a time tell its year, by a number or as "this summer" does."""
    # "Early March" comes every year.
    signs = (sign[0].lower() for sign in _DIRECTED.finditer(words))
    return bool(_OF_ONE_YEAR.search(words)) or any(sign not in ("early", "late") for sign in signs)


def _days_of_month(text: str, sent_at: datetime, timezone: str) -> list[When]:
    """Days without a month: "the 13th" is the next one, or the last one if the text speaks of the past."""
    found = []
    local = midnight(sent_at.astimezone(zone_of(timezone)))
    for match in _DAY_OF_MONTH.finditer(text):
        number, past = int(match[1]), tells_of_past(text) or text.lower().endswith("since ", 0, match.start())
        step = -1 if past and number > local.day else 1 if not past and number < local.day else 0
        if match["which"]:
            step = ("last", "this", "next").index(match["which"].lower()) - 1
        year, month = divmod(local.year * 12 + local.month - 1 + step, 12)
        with suppress(ValueError):  # the month has no such day
            date = day(local.replace(year=year, month=month + 1, day=number))
            one = shift_and_open(text, Expression(match.start(), match.end(), date))  # "until the 13th"
            found.append(When(text[one.start : one.end], range_of(one.span)))
    return found


# "till Friday", "through Friday" and "up to Friday"; "Monday through Friday" is a range.
_UNTIL: Final = regex(
    rf"(?<!\w)'?till? (?=\w)|\bup (?:to|until) (?=(?:the end|{DAY_NAME})\b)"
    rf"|(?<!day )\b(?:through|thru) (?:to )?(?=(?:the end of|{DAY_NAME})\b)",
    re.IGNORECASE,
)
_END_OF: Final = regex(
    r"\b(until|by|before) (?:the )?end of the (?=(?:week|month|quarter|year)\b(?! (?:of|in|that|when)\b))", re.I
)
# 到月底 is until the end of this month; 三月底, 下月底 and 每月底 name another one.
_END_ZH: Final = regex(
    r"(?:(?<=到)|(?<![\d一二三四五六七八九十个上下本这当每前后明今去两几])(?=[月年周]\w(?:[之以]?前|为止)))[月年周](?:底|末)"
)
_ENDS_ZH: Final = {"月": "本月底", "年": "今年底", "周": "这周末"}
_MONTHS: Final = "|".join(f"{name}|{name[:3]}" for name in MONTHS)
_DAYS_OF_SPAN: Final = rf"(?<![\d/.-])\d{{1,2}}(?:st|nd|rd|th)?{THROUGH}(?:the )?\d{{1,2}}(?!\d)"
# "From 3 May to 10 June"; without an end it is open, and bounds what holds anyway.
_FROM_DATE: Final = (
    rf"^from (?:the )?(?:\d{{1,2}}(?:st|nd|rd|th)? (?:of )?(?:{_MONTHS})|(?:{_MONTHS}) \d{{1,2}}(?:st|nd|rd|th)?)\b"
)
_SPAN: Final = regex(rf"{_DAYS_OF_SPAN}|{_FROM_DATE}|[号日][到至][\d一二三十]", re.IGNORECASE)
_MONTH_OF_SPAN: Final = regex(rf"({_DAYS_OF_SPAN}(?:st|nd|rd|th)? (?:of )?)({_MONTHS})\b(?! (?:be|not|have)\b)", re.I)
_DAY_OF_MONTH: Final = regex(
    rf"\bthe (\d{{1,2}})(?:st|nd|rd|th)\b(?: of (?P<which>last|this|next) month\b)?"
    rf"(?!\s+(?:of\s+)?(?:{_MONTHS}|every|each|\w+(?:day|time)))",
    re.IGNORECASE,
)
_WEEKLY: Final = regex(rf"\b{DAY_NAME}|weekend|[周期拜][一二三四五六日天]", re.IGNORECASE)
_WEEKDAY_NAME: Final = regex(rf"\b(?:{DAY_NAME}|weekend)\b", re.IGNORECASE)
RANGE: Final = regex(r"\w\s*(?:\b(?:to|through|thru|until|till)\b|[–—~～到至])\s*\w", re.IGNORECASE)
"""What has an end: "from Monday to Wednesday" has one, "from Monday on" has none."""
# What opens a time that stands behind it; in a question "as of May" asks about that time.
_BEGINS: Final = regex(r"\b(?:starting|as (?:of|from))(?: (?:on|in|from|with|the))*\s+$", re.IGNORECASE)
_DATE: Final = regex(rf"[月号]|\d[/.-]\d|\b(?:{_MONTHS}|{HOLIDAY})\b", re.IGNORECASE)
_VAGUE: Final = regex(
    r"\b(?:other (?:day|week|night)|recently|lately|these days|nowadays|soon|some day)\b|最近|近[来期]|前阵子|前些|改天|过几天|不久",
    re.IGNORECASE,
)
# Words that say themselves whether a time lies behind or ahead.
_DIRECTED: Final = regex(
    rf"\b(?:last(?! \w+day (?:of|in)\b)|past|recent|previous|ago|back|yesterday|next|coming|{'|'.join(TOMORROW)}|this|today|tonight|now|since|early|late)\b"
    rf"|{others.DIRECTED}|전$|[上下昨明今本这那去近]|[尋寻琴聽听]日|(?<!最)(?<![号日底末一二三四五六][之以])(?<![号底末一二三四五六])(?<!(?<!个)月[之以])(?<!(?<!个)月)[前后]|以来|起|从(?!.*到)",
    re.IGNORECASE,
)
_OF_ONE_YEAR: Final = regex(r"year|年")
_OPENS: Final = regex(r"\b(?:after|from|starting|as of)\b|[之以]?后$|从|起|开始", re.IGNORECASE)
_LATELY: Final = timedelta(days=183)
"""Of a day of the year, the last one is nearer than the next one for so long."""
_PLANS: Final = regex(
    r"\btickets? (?:for|to)\b|\b(?:signed (?:\w+ )?up|registered|enrolled) (?:for|in)\b|[买買抢]\w{0,12}[^邮钞股彩发][门机车船]?票",
    re.IGNORECASE,
)
_SO_FAR: Final = regex(r"\b(?:have|has|had|been|ever)\b|'ve\b|一直|就|已|过|了(?:\W|$)", re.IGNORECASE)
# Verbs in the past tense.
_PAST: Final = regex(
    r"\b(?:was|were|had|did|went|got|came|met|bought|left|made|took|saw|gave|told|said|been|began|started|finished|became|"
    r"lost|won|broke|quit|sold|found|felt|fell|ran|flew|drove|wrote|sent|paid|ate|slept|spent|spoke|drank|swam|sang|woke|"
    r"wore|rode|grew|threw|taught|caught|brought|built|chose|drew|stood|"
    r"(?!(?:need|feed|seed|speed|indeed|hundred|shed|naked|(?:al)?fred|jared|ahmed|m[ou]hamm?ed)\b)[a-z]{2,}ed)\b|n't\b.*\bever"
    r"|[了过咗]|以前|曾|那次|当时",
    re.IGNORECASE,
)
# "I've got an exam", "we're both invited" and "she is getting married" only look like it, and so do 不过, 过生日 and 快到了.
_PRESENT: Final = regex(
    r"(?:\b(?:have|has|i?ve)|['’]s) got\b"
    r"|\b(?:am|i?m|is|are|re|be|gets?|getting) (?:(?:so|very|both|all|now|also|really|\w+ly) )?[a-z]{2,}ed\b"
    r"|不过|[难超]过|过(?:生日|来|年|节|敏|夜|周末|几天)|[为除]了|了解|不得?了|快到了|(?<![重主需只])要[^，。！？、\s]{1,6}了",
    re.IGNORECASE,
)
_AHEAD: Final = regex(
    r"\b(?:will|gonna|going to|'ll|shall|booked|scheduled|planned|planning|supposed to|due|by|until|starts?|upcoming|"
    r"postponed|rescheduled|put off|pushed back)\b"
    r"|将|会在|要在|要[到等去来回]|才[能会]|打算|计划|准备|预约|订了|定在|开始|之前|推迟|延期|延后|改[到期]",
    re.IGNORECASE,
)
