"""Calendar arithmetic on local time: the day, week, season … of a moment, and those before and after it.

Days and longer units are counted on the clocks of the moment's time zone; hours and minutes as they pass, since on some
days the clocks are changed. What is made out of numbers ("month 5 of 2024") has no time zone yet.

Weeks begin on Monday. Seasons are the meteorological ones of the northern hemisphere (spring from 1 March), and a
winter belongs to the year in which it begins. Functions raise ValueError or OverflowError where the calendar has no
such day or year.
"""

from __future__ import annotations

import calendar
from collections.abc import Callable
from contextlib import suppress
from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta
from typing import Final, Literal

from reme_core.text.timex.mention import Precision, Span
from reme_core.types import TimeRange

Unit = Literal["minute", "hour", "day", "week", "weekend", "month", "quarter", "year", "decade"]
Side = Literal["past", "last", "this", "next"]

# Mean lengths in days.
_DAYS: Final = {
    "day": 1.0, "week": 7.0, "weekend": 7.0, "month": 30.4, "quarter": 91.3, "year": 365.25, "decade": 3652.5,
}  # fmt: skip
# The next smaller unit, in which a part of a unit is counted.
_SMALLER: Final[dict[Unit, tuple[Unit, int]]] = {
    "decade": ("year", 10), "year": ("month", 12), "month": ("week", 4), "week": ("day", 7), "day": ("hour", 24),
}  # fmt: skip
_PRECISION: Final[dict[str, Precision]] = {
    "minute": "hour", "hour": "hour", "day": "day", "week": "week", "weekend": "day", "month": "month",
    "quarter": "season", "year": "year", "decade": "year",
}  # fmt: skip


def later(moment: datetime, passed: timedelta) -> datetime:
    """What the clocks of a moment's time zone show when so much time has passed (before it, if negative)."""
    return (moment.astimezone(UTC) + passed).astimezone(moment.tzinfo)


def time_between(start: datetime, end: datetime) -> timedelta:
    """How much time passes between two moments of one time zone."""
    # The difference that Python takes is that of what the clocks show.
    return end - start - ((end.utcoffset() or timedelta()) - (start.utcoffset() or timedelta()))


def range_of(span: Span) -> TimeRange:
    """The range of moments that a span is; ValueError if its time zone skips it, as some have skipped a day.

    An hour that the clocks skip is taken as the one after it.
    """
    start, end = span.start, span.end
    if start and end and time_between(start, end) <= timedelta():
        if span.precision != "hour" or start >= end:
            raise ValueError("the clocks never show that time")
        start, end = later(start, timedelta()), later(start, end - start)
    return TimeRange(start=start, end=end)


def midnight(moment: datetime) -> datetime:
    """The beginning of a moment's day."""
    return moment.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)


def day(moment: datetime, count: int = 1) -> Span:
    """The day of a moment, or `count` days from it on."""
    start = midnight(moment)
    return Span(start, start + timedelta(days=count), "day")


def date(year: int, month_number: int, day_number: int) -> Span:
    """A calendar day; ValueError if there is no such day."""
    return day(datetime(year, month_number, day_number))


def hour(moment: datetime) -> Span:
    """The hour of a moment, from :00 on."""
    # Where the clocks change by half an hour, :00 is by those of the moment, even if they showed :30 then.
    start = later(moment, -timedelta(minutes=moment.minute, seconds=moment.second, microseconds=moment.microsecond))
    return Span(start, later(start, timedelta(hours=1)), "hour")


def week(moment: datetime) -> Span:
    """The week of a moment, Monday to Monday."""
    start = midnight(moment) - timedelta(days=moment.weekday())
    return Span(start, start + timedelta(days=7), "week")


def weekend(moment: datetime) -> Span:
    """Saturday and Sunday of a moment's week."""
    start = midnight(moment) + timedelta(days=5 - moment.weekday())
    return day(start, 2)


def month(year: int, number: int) -> Span:
    """Month 1 to 12 of a year."""
    return months(year, number, 1, "month")


def months(year: int, number: int, count: int, precision: Precision) -> Span:
    """`count` months from month `number` on; numbers beyond 12 run into the next years."""
    first = datetime(year, 1, 1)
    return Span(add_months(first, number - 1), add_months(first, number - 1 + count), precision)


def year(number: int, count: int = 1) -> Span:
    """A calendar year, or `count` years from it on."""
    return months(number, 1, 12 * count, "year")


def season(of_year: int, which: int) -> Span:
    """The spring (0), summer (1), autumn (2) or winter (3) that begins in a year."""
    return months(of_year, 3 + 3 * which, 3, "season")


def quarter(of_year: int, which: int) -> Span:
    """Quarter 1 to 4 of a year."""
    return months(of_year, 3 * which - 2, 3, "season")


def add_months(moment: datetime, count: int) -> datetime:
    """The same day `count` months later; the last day of that month if it is shorter."""
    total = moment.year * 12 + moment.month - 1 + count
    new_year, index = divmod(total, 12)
    if not MINYEAR <= new_year < MAXYEAR:
        raise ValueError(f"year {new_year} is out of range")
    last = calendar.monthrange(new_year, index + 1)[1]
    return moment.replace(year=new_year, month=index + 1, day=min(moment.day, last), fold=0)


def next_one(span: Span, *, weekly: bool) -> Span:
    """What comes every week, or else every year, the next time."""
    week = timedelta(days=7)
    start, end = (at and (at + week if weekly else add_months(at, 12)) for at in (span.start, span.end))
    return Span(start, end, span.precision)


def add(moment: datetime, count: float, unit: Unit) -> datetime:
    """A moment `count` units later (earlier, if negative).

    Whole months and years follow the calendar; parts of them are added as days, by mean length.
    """
    if count == int(count) and unit in ("month", "quarter", "year", "decade"):
        return add_months(moment, int(count) * {"month": 1, "quarter": 3, "year": 12, "decade": 120}[unit])
    if unit in ("minute", "hour"):
        return later(moment, length(count, unit))
    return moment + length(count, unit)


def length(count: float, unit: Unit) -> timedelta:
    """How long `count` units are; from days on rounded to whole days, months and years by their mean length."""
    if unit in ("minute", "hour"):
        return timedelta(**{f"{unit}s": count})
    return timedelta(days=round(count * _DAYS[unit]))


def unit_at(moment: datetime, unit: Unit) -> Span:
    """The calendar unit around a moment: its day, its week … (its hour, if the unit is a minute)."""
    match unit:
        case "quarter":
            span = quarter(moment.year, (moment.month + 2) // 3)
        case "decade":
            span = year(moment.year // 10 * 10, 10)
        case "year":
            span = year(moment.year)
        case "month":
            span = month(moment.year, moment.month)
        case _:
            return {"week": week, "weekend": weekend, "day": day}.get(unit, hour)(moment)
    return span.in_zone(moment.tzinfo)


def unit_from(now: datetime, count: float, unit: Unit) -> Span:
    """The calendar unit `count` units from now: "two weeks ago" (-2) is the week of the day 14 days back."""
    # Parts are counted in the next smaller unit: half a year ago is the month six months back, not a year.
    if count != int(count) and unit in _SMALLER:
        smaller, times = _SMALLER[unit]
        unit, count = smaller, round(count * times)
    return unit_at(add(now, count, unit), unit)


def period(now: datetime, count: float, unit: Unit) -> Span:
    """The time from `count` units ago until now ("the past two weeks", -2) or from now on ("the next two weeks", 2)."""
    if unit == "day" and count != int(count):
        unit, count = "hour", count * 24
    then = add(now, count, unit)
    # Whole days, so that what happened on the first of them in the morning belongs to it.
    if unit not in ("minute", "hour"):
        then = midnight(then) if count < 0 else midnight(then) + timedelta(days=1)
    return Span(then, now, _PRECISION[unit]) if count < 0 else Span(now, then, _PRECISION[unit])


def weekday(now: datetime, number: int, side: Side) -> Span:
    """The last Monday (0) … Sunday (6) before today, that of this week (`this`), or the first after today (`next`)."""
    today = midnight(now)
    if side == "this":
        return day(today + timedelta(days=number - now.weekday()))
    if side == "next":
        return day(today + timedelta(days=(number - now.weekday() - 1) % 7 + 1))
    return day(today - timedelta(days=(now.weekday() - number - 1) % 7 + 1))


def weekday_of_month(year: int, month: int, number: int, which: int) -> Span:
    """The weekday `number` (Monday is 0) of a month that is its first (0), second … or last (-1) one.

    Raises:
        ValueError: The month has no fifth one.
    """
    days = [one[number] for one in calendar.monthcalendar(year, month) if one[number]]
    if which >= len(days):
        raise ValueError("the month has fewer of this weekday")
    return date(year, month, days[which])


def occurrence(now: datetime, of_year: Callable[[int], Span], side: Side) -> Span:
    """Find the year that is meant by something that comes once a year: a month, a season, a holiday, a day.

    Of the sides `past` is the latest that has begun, `last` the latest that is over, `this` the one going on now or
    else that of this year, `next` the first that begins after now. `of_year` raises ValueError for a year without one
    (29 February), and so does this function if there is none in the years around now.
    """
    wall = now.replace(tzinfo=None)  # of_year knows no time zone
    # 29 February may be seven years away, around 1900; all else is near.
    for reach in (1, 8):
        years = range(max(now.year - reach, MINYEAR), min(now.year + reach + 1, MAXYEAR))
        # The first one that fits is the one that is meant, and often the second year that is looked at.
        for year_number in years if side in ("this", "next") else reversed(years):
            with suppress(ValueError):
                span = of_year(year_number)
                if _is_meant(span, wall, side):
                    return span.in_zone(now.tzinfo)
        if side == "this":
            return of_year(now.year).in_zone(now.tzinfo)
    raise ValueError("no such day near by")


def _is_meant(span: Span, now: datetime, side: Side) -> bool:
    if span.start is None or span.end is None:
        return False
    if side == "this":
        return span.start <= now < span.end
    if side == "next":
        return span.start > now
    return (span.start if side == "past" else span.end) <= now


def third(span: Span, which: int) -> Span:
    """The early (0), middle (1) or late (2) third: ten days of a month, four months of a year, else whole days."""
    if span.start is None or span.end is None:
        return span
    start, end = span.start, span.end
    length = end - start
    if span.precision == "month" and length.days <= 31:
        cuts = [start, start + timedelta(days=10), start + timedelta(days=20), end]
        return Span(cuts[which], cuts[which + 1], "week")
    if span.precision == "year":
        whole = (end.year - start.year) * 12
        return Span(add_months(start, whole * which // 3), add_months(start, whole * (which + 1) // 3),
                    "season" if whole == 12 else "year")  # fmt: skip
    cuts = [midnight(start + length * part / 3) for part in range(3)] + [end]
    finer: dict[Precision, Precision] = {"season": "month", "week": "day"}
    return Span(cuts[which], cuts[which + 1], finer.get(span.precision, span.precision))


def hours(span: Span, first: float, last: float) -> Span:
    """Hours of a day, from `first` to `last` o'clock; above 24 they belong to the next day."""
    if span.start is None:
        return span
    start = midnight(span.start)
    return Span(start + timedelta(hours=first), start + timedelta(hours=last), "hour")


def join(first: Span, last: Span) -> Span:
    """From the beginning of `first` to the end of `last`; ValueError if that runs backwards."""
    if first.start and last.end and time_between(first.start, last.end) <= timedelta():
        raise ValueError("the range ends before it begins")
    return Span(first.start, last.end, first.precision)
