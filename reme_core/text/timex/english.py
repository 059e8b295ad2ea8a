"""English time expressions, first pass: single expressions, each found by one rule.

A rule is a pattern and a function that turns a match into an expression, or into None if the words mean something else.
A word that is just as often no time ("may", "2019", "fall") is marked as weak; the second pass, `english_joins`, keeps
it only if the words around it show that a time is meant.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from reme_core.text.named import MONTHS, WEEKDAYS
from reme_core.text.regex import regex
from reme_core.text.timex import calendar as cal
from reme_core.text.timex.calendar import Side
from reme_core.text.timex.english_words import (
    DAY,
    DAY_NAME,
    DAY_PARTS,
    DECADES,
    FUTURE,
    HOLIDAY,
    MONTH,
    NUMBER,
    PART,
    SEASON,
    SEASONS,
    SIDE,
    THIRDS,
    THROUGH,
    TOMORROW,
    UNIT,
    WEEKDAY,
    YEAR,
    amount_of,
    side_of,
    unit_of,
)
from reme_core.text.timex.holidays import ENGLISH as HOLIDAYS
from reme_core.text.timex.mention import CLAUSE, Expression, Rules, Span, expression, search_before

# Not inside a word, an amount of money ("$2019") or a compound; "mid-May" is the exception.
rules: Final = Rules(r"(?:(?<=\bmid-)|(?<![\w$€£#-]))", r"(?!\w)", re.IGNORECASE)


def _month_number(match: re.Match[str]) -> int:
    return next(i for i, name in enumerate(MONTHS, 1) if name.startswith(match["month"][:3].capitalize()))


_OF_YEAR: Final = rf"(?:,?\s+(?:of\s+|in\s+)?(?:{YEAR}|(?P<of>last|this|next)\s+year))?"
_YEAR_OF_DAY: Final = rf"(?:,?\s+(?:of\s+)?{YEAR}|\s+(?:of\s+)?(?P<of>last|this|next)\s+year)?"


def _yearly(match: re.Match[str], now: datetime, of_year: Callable[[int], Span], *, weak: bool = False) -> Expression:
    """What comes once a year: that of the year which the words name, or else the one that is meant."""
    if match["year"]:
        return expression(match, of_year(int(match["year"])), relative=False)
    if match["of"]:
        return expression(match, of_year(now.year + _steps(match["of"])))
    return expression(match, cal.occurrence(now, of_year, side_of(match)), weak=weak)


def _steps(side: str) -> int:
    return {"last": -1, "this": 0, "next": 1}[side.lower()]


def _narrow_to_part(span: Span, part: str | None) -> Span:
    return cal.hours(span, *DAY_PARTS[part.lower()]) if part else span


@rules(r"(?P<year>(?:19|20)\d\d)(?P<sep>[-/.])(?P<month>0?[1-9]|1[0-2])(?P=sep)(?P<day>3[01]|[12]\d|0?[1-9])"
       r"(?:[T ](?P<hour>[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d+)?)?Z?)?")  # fmt: skip
def _iso(match: re.Match[str], now: datetime) -> Expression:
    span = cal.date(int(match["year"]), int(match["month"]), int(match["day"]))
    if match["hour"]:
        span = cal.hours(span, int(match["hour"]), int(match["hour"]) + 1)
    return expression(match, span, relative=False)


@rules(r"(?P<one>\d{1,2})(?P<sep>[/.])(?P<two>\d{1,2})(?P=sep)(?P<year>(?:19|20)\d\d)")
def _numeric_date(match: re.Match[str], now: datetime) -> Expression:
    one, two = int(match["one"]), int(match["two"])
    # With slashes the American order, unless it cannot be; with dots the European one.
    day_first = match["sep"] == "." or one > 12
    return expression(match, cal.date(int(match["year"]), *((two, one) if day_first else (one, two))), relative=False)


@rules(r"(?P<year>(?:19|20)\d\d)-(?P<month>0[1-9]|1[0-2])(?![-\d])")
def _iso_month(match: re.Match[str], now: datetime) -> Expression:
    # Weak: "2019-07" may as well be a range of pages or an order number.
    return expression(match, cal.month(int(match["year"]), int(match["month"])), relative=False, weak=True)


@rules(rf"(?:the\s+)?{DAY}\s+(?:of\s+)?{MONTH}{_YEAR_OF_DAY}")
@rules(rf"{MONTH}\s+(?:the\s+)?{DAY}{_YEAR_OF_DAY}")
def _day_of_month(match: re.Match[str], now: datetime) -> Expression | None:
    return _days_of_month(match, now, match["day"])


_FIRST_DAY: Final = DAY.replace("<day>", "<first>").replace("<ordinal>", "<first_ordinal>")
# "Between March 3 and 5" is a range, but "March 3 and 5" are two days.
_BETWEEN: Final = r"(?P<between>(?<=\bbetween )|(?<=\bbetween the ))?"
_TO_DAY: Final = rf"(?:{THROUGH}|(?(between)\s+and\s+|(?!)))(?:the\s+)?"
# "Between March 3 and 5 people came": a number may count what follows it, unless that is one of these.
_COUNTS_NOTHING: Final = (
    r"(?=\s*(?:$|\n|[.,;:!?)\]\"'”](?!\d)|\s[-–—]\s(?!\d))|,?\s+(?:of\s+)?(?:(?:19|20)\d\d\b|(?:last|this|next)\b)"
    r"|\s+(?:in|on|at|with|for|from|to|by|as|and|or|but|so|because|since|while|when|where|who|what|which|that|if|then|there"
    r"|I|we|you|he|she|they|it|my|our|your|his|her|their|the|is|are|was|were|do|does|did|has|have|had|will|would|can|could)"
    r"\b(?!\s+\d))"
)


# "From March 3 to 5 April" and "10.3-5 May" are no days of one month.
_NOT_FIRST: Final = regex(rf"(?:\b{MONTH}\s+(?:the\s+)?|\d|\.)$", re.I)
_OF_MONTH: Final = rf"\s+(?:of\s+)?{MONTH.replace('?P<month>', '?:')}\b"


@rules(rf"{_BETWEEN}(?:the\s+)?{_FIRST_DAY}{_TO_DAY}{DAY}\s+(?:of\s+)?{MONTH}(?!\s+\d\d?\b(?!:)){_YEAR_OF_DAY}")
@rules(rf"{_BETWEEN}{MONTH}\s+(?:the\s+)?{_FIRST_DAY}{_TO_DAY}{DAY}(?!{_OF_MONTH})(?(between){_COUNTS_NOTHING})"
       rf"{_YEAR_OF_DAY}")  # fmt: skip
def _range_in_month(match: re.Match[str], now: datetime) -> Expression | None:
    if match.start("first") < match.start("month") and search_before(_NOT_FIRST, match.string, match.start()):
        return None
    return _days_of_month(match, now, match["first"])


def _days_of_month(match: re.Match[str], now: datetime, begins: str) -> Expression | None:
    """From the day `begins` to the one in the group `day`."""
    word = match["month"]
    if word.islower() and word in ("may", "march", "mar", "dec") and not (match["ordinal"] or match["year"]):
        return None  # "you may 7 times", "march 3 miles"
    month, first, last = _month_number(match), int(begins), int(match["day"])

    def of_year(year: int) -> Span:
        return cal.join(cal.date(year, month, first), cal.date(year, month, last))

    return _yearly(match, now, of_year)


@rules(rf"{MONTH},?\s+(?:of\s+|in\s+)?(?:{YEAR}|'(?P<short>\d\d)\b|(?P<side>last|this|next)\s+year)")
def _month_year(match: re.Match[str], now: datetime) -> Expression:
    if match["side"]:
        return expression(match, cal.month(now.year + _steps(match["side"]), _month_number(match)))
    # "'98" is the latest year with these digits that is not far ahead: ten years are about as far as people plan.
    year = int(match["year"]) if match["year"] else now.year + 10 - (now.year + 10 - int(match["short"])) % 100
    return expression(match, cal.month(year, _month_number(match)), relative=False)


@rules(rf"(?:{SIDE}\s+)?{MONTH}")
def _month(match: re.Match[str], now: datetime) -> Expression | None:
    word, side = match["month"], match["side"]
    if side and word.islower() and word in ("may", "march", "mar", "dec", "sep") and side.lower() != "last":
        return None  # "this may help", "the next march"
    number = _month_number(match)
    # April, May, June and August are people too, and March, May and the short forms are words.
    # The other months stand for themselves if they have a capital.
    alone = word[0].isupper() and word.lower() in (
        "january", "february", "july", "september", "october", "november", "december")  # fmt: skip
    span = cal.occurrence(now, lambda year: cal.month(year, number), side_of(match))
    return expression(match, span, weak=not (side or alone))


@rules(rf"(?:(?:on\s+)?{SIDE}\s+(?:week(?:'s)?\s+(?:on\s+)?(?P<week>))?)?{WEEKDAY}(?:\s+{PART})?")
def _weekday(match: re.Match[str], now: datetime) -> Expression:
    number = WEEKDAYS.index(match["weekday"].capitalize())
    side = side_of(match)
    moment = now
    # "Last week's Monday" and "last week on Monday" name the week; "last Monday" may be of this one.
    if match["week"] is not None:
        moment, side = now + timedelta(days=7 * _steps(side)), "this"
    return expression(match, _narrow_to_part(cal.weekday(moment, number, side), match["part"]))


@rules(rf"{WEEKDAY}\s+(?:of\s+)?(?P<side>last|this|next)\s+week")
@rules(rf"(?<!black ){WEEKDAY}\s+(?P<side>)week{_COUNTS_NOTHING}")
def _weekday_of_week(match: re.Match[str], now: datetime) -> Expression:
    number, side = WEEKDAYS.index(match["weekday"].capitalize()), match["side"]
    moment = now + timedelta(days=7 * (_steps(side) if side else 1))
    # "Friday week" is a week after the next Friday.
    return expression(match, cal.weekday(moment, number, "this" if side else "next"))


_WHICH: Final = {"first": 0, "1st": 0, "second": 1, "2nd": 1, "third": 2, "3rd": 2, "fourth": 3, "4th": 3, "last": -1}


@rules(rf"(?:the\s+)?(?P<which>{'|'.join(_WHICH)})\s+{WEEKDAY}\s+(?:of|in)\s+{MONTH}{_YEAR_OF_DAY}")
def _weekday_of_month(match: re.Match[str], now: datetime) -> Expression:
    month, number = _month_number(match), WEEKDAYS.index(match["weekday"].capitalize())
    which = _WHICH[match["which"].lower()]
    return _yearly(match, now, lambda year: cal.weekday_of_month(year, month, number, which))


@rules(
    r"(?:(?:early|late|later|earlier)\s+)?"
    rf"(?P<day>yesterday|today|{'|'.join(TOMORROW)}|the day before yesterday|the day after tomorrow)"
    rf"(?:\s+{PART})?"
)
def _near_day(match: re.Match[str], now: datetime) -> Expression:
    days = {"yesterday": -1, "today": 0, "the day before yesterday": -2, "the day after tomorrow": 2}
    days |= dict.fromkeys(TOMORROW, 1)
    return expression(match, _narrow_to_part(cal.day(now + timedelta(days=days[match["day"].lower()])), match["part"]))


@rules(r"(?:tonight|last night|(?:earlier )?this (?P<part>morning|afternoon|evening)|the night before last)")
def _part_of_today(match: re.Match[str], now: datetime) -> Expression:
    words = match[0].lower()
    # A night belongs to the day on which it begins.
    days = -1 if words == "last night" else -2 if words.startswith("the night") else 0
    return expression(match, _narrow_to_part(cal.day(now + timedelta(days=days)), match["part"] or "night"))


_LATELY: Final = regex(r"\b(?:this|(?:over|in|during|within|for|throughout)\s+the)\s+$", re.IGNORECASE)
_OF_THEM: Final = regex(r"\s+(?:of|in)\b", re.IGNORECASE)


@rules(
    rf"(?:(?P<early>earlier|later)\s+|the\s+)?{SIDE}\s+(?P<unit>week|weekend|month|quarter|year|decade)"
    r"(?!'s\s+(?:resolution|eve|day)|-|\s+old)"
)
def _near_unit(match: re.Match[str], now: datetime) -> Expression | None:
    side, unit = match["side"].lower(), unit_of(match["unit"])[0]
    # "The following week" is counted from what was told before, not from now.
    if side == "following" or (side == "this" and match[0].lower().startswith("the ")):
        return None
    if side == "last" and match[0].lower().startswith("the ") and _OF_THEM.match(match.string, match.end()):
        return None  # "the last week of May"
    # "The past month" and "in the last month" run until now, "last month" is the one before this one.
    lately = side == "last" and search_before(_LATELY, match.string, match.start("side"))
    if (lately or side in ("past", "this past")) and unit != "weekend":
        return expression(match, cal.period(now, -1, unit))
    steps = _steps(side_of(match))
    # Before Saturday "the coming weekend" is this week's.
    if "coming" in side and unit == "weekend" and now.weekday() < 5:
        steps = 0
    span = cal.unit_from(now, steps, unit)
    if match["early"] and steps == 0:
        start, end = (span.start, now) if match["early"].lower() == "earlier" else (now, span.end)
        span = Span(start, end, span.precision)
    return expression(match, span)


@rules(r"the\s+(?P<side>last|past|next|coming)\s+hour")
def _hour_from_now(match: re.Match[str], now: datetime) -> Expression | None:
    # Told of another day, "the next hour" and "the last hour of the exam" are counted from what was told before.
    if not search_before(_LATELY, match.string, match.start("side")) or _OF_THEM.match(match.string, match.end()):
        return None
    return expression(match, cal.period(now, 1 if side_of(match) == "next" else -1, "hour"))


@rules(
    r"(?:(?:at|on|over|during)\s+|(?<=\buntil )|(?<=\bbefore )|(?<=\bafter )|(?<=\bsince ))"
    r"the\s+weekend(?!\s+(?:of|in|before|after|that|when)\b|-)"
)
def _weekend(match: re.Match[str], now: datetime) -> Expression:
    # On a Saturday or Sunday it is the one going on.
    over = side_of(match) == "past" and now.weekday() < 5
    return expression(match, cal.unit_from(now, -1 if over else 0, "weekend"))


@rules(rf"the\s+(?:(?P<unit>week|weekend|month|quarter|year|decade)|{SEASON})\s+(?P<which>before last|after next)")
def _unit_before_last(match: re.Match[str], now: datetime) -> Expression:
    steps = -2 if match["which"].lower() == "before last" else 2
    if match["unit"]:
        return expression(match, cal.unit_from(now, steps, unit_of(match["unit"])[0]))
    side: Side = "last" if steps < 0 else "next"
    which = SEASONS[match["season"].lower()]
    # One year beyond the last one that is over, or the next one that comes.
    near = cal.occurrence(now, lambda year: cal.season(year, which), side)
    assert near.start is not None
    return expression(match, cal.season(near.start.year + (-1 if steps < 0 else 1), which))


@rules(rf"{NUMBER}\s+{UNIT}(?:\s+and\s+(?:\d+|an?|\w+)\s+\w+)?\s+(?:ago(?P<today>\s+today)?|back(?!\s+(?:and|then)\b))")
def _units_ago(match: re.Match[str], now: datetime) -> Expression:
    amount, unit = amount_of(match)
    # "Two weeks ago today" is a day, "two weeks ago" a week.
    span = cal.day(cal.add(now, -amount, unit)) if match["today"] else cal.unit_from(now, -amount, unit)
    return expression(match, span)


@rules(rf"(?:a few|several|some)\s+{UNIT}\s+(?:ago|back)")
def _few_units_ago(match: re.Match[str], now: datetime) -> Expression:
    unit, _ = unit_of(match["unit"])
    # "A few" is taken as two to seven.
    return expression(match, cal.join(cal.unit_from(now, -7, unit), cal.unit_from(now, -2, unit)))


@rules(rf"(?:the\s+)?(?P<side>last|past|previous|next|coming)\s+(?:{NUMBER}|(?P<few>few|several))\s+{UNIT}")
def _period(match: re.Match[str], now: datetime) -> Expression:
    amount, unit = (7.0, unit_of(match["unit"])[0]) if match["few"] else amount_of(match)
    return expression(match, cal.period(now, amount if side_of(match) == "next" else -amount, unit))


_FIRST_TIME: Final = regex(r"\b(?:first|only) time\s+$", re.IGNORECASE)


@rules(rf"(?P<in>in\s+)?{NUMBER}\s+{UNIT}(?P<tail>\s+from\s+(?:now|today)|(?:')?\s+time)?")
def _units_ahead(match: re.Match[str], now: datetime) -> Expression | None:
    tail = (match["tail"] or "").strip("' ").lower()
    if not (tail.startswith("from") or (match["in"] and tail == "time")):
        # "I'll be back in two weeks", but "I read it in two weeks".
        if not match["in"] or not search_before(FUTURE, match.string, match.start(), CLAUSE):
            return None
        # "It is going to be the coldest winter in a decade" and "he is coming, the first time in six years" look back.
        if match["unit"].lower() == "decade" or search_before(_FIRST_TIME, match.string, match.start()):
            return None
    amount, unit = amount_of(match)
    return expression(match, cal.unit_from(now, amount, unit))


# "I'm off for two weeks from Monday" tells how long something lasts.
@rules(rf"(?<!\bfor ){NUMBER}\s+(?P<unit>day|week|fortnight|month)s?\s+from\s+(?:{WEEKDAY}|{'|'.join(TOMORROW)})")
def _units_from_day(match: re.Match[str], now: datetime) -> Expression:
    amount, unit = amount_of(match)
    name = match["weekday"]
    begins = cal.weekday(now, WEEKDAYS.index(name.capitalize()), "next").start if name else now + timedelta(days=1)
    assert begins is not None
    return expression(match, cal.day(cal.add(begins, amount, unit)))


@rules(
    rf"(?:{SIDE}\s+)?{SEASON}{_OF_YEAR}"
    r"(?!\s+(?:break|onions?|rolls?|water|back|asleep|apart|behind|for|off|down|in love|into)\b)"
)
def _season(match: re.Match[str], now: datetime) -> Expression:
    which = SEASONS[match["season"].lower()]
    return _yearly(match, now, lambda year: cal.season(year, which), weak=not match["side"])


_ORDER: Final = {"first": 1, "second": 2, "third": 3, "fourth": 4, "last": 4, "1st": 1, "2nd": 2, "3rd": 3, "4th": 4}


@rules(rf"(?:Q(?P<q>[1-4])|(?:the\s+)?(?P<order>first|second|third|fourth|last|[1-4](?:st|nd|rd|th))\s+(?P<what>quarter|half))"
       rf"(?:,?\s+(?:of\s+)?(?:{YEAR}|(?P<side>last|this|next)\s+year))")  # fmt: skip
def _quarter(match: re.Match[str], now: datetime) -> Expression | None:
    year = int(match["year"]) if match["year"] else now.year + _steps(match["side"])
    which = int(match["q"]) if match["q"] else _ORDER[match["order"].lower()]
    if (match["what"] or "").lower() == "half":
        if which not in (1, 2):
            return None
        return expression(match, cal.months(year, 6 * which - 5, 6, "season"), relative=bool(match["side"]))
    return expression(match, cal.quarter(year, which), relative=bool(match["side"]))


@rules(YEAR)
def _year(match: re.Match[str], now: datetime) -> Expression:
    return expression(match, cal.year(int(match["year"])), relative=False, weak=True)


@rules(
    r"(?:(?P<the>the\s+)?(?:(?P<early>early|mid|late)[\s-]+)?"
    rf"(?:'?(?P<short>[2-9]0)'?s|(?P<full>(?:19|20)\d0)'?s|(?P<word>{'|'.join(DECADES)})))"
)
def _decade(match: re.Match[str], now: datetime) -> Expression | None:
    if match["full"]:
        span = cal.year(int(match["full"]), 10)
    elif not match["the"]:
        return None  # an age: "in his 90s", "in her late twenties"
    else:
        tens = int(match["short"]) if match["short"] else DECADES[match["word"].lower()]
        # The latest such decade that has begun: in 2026 the twenties are the 2020s, the thirties the 1930s.
        century = now.year // 100 * 100
        span = cal.year(century + tens - (100 if century + tens > now.year else 0), 10)
    if match["early"]:
        span = cal.third(span, THIRDS[match["early"].lower()])
    return expression(match, span, relative=False)


@rules(rf"(?:{SIDE}\s+)?{HOLIDAY}{_OF_YEAR}")
def _holiday(match: re.Match[str], now: datetime) -> Expression:
    return _yearly(match, now, HOLIDAYS[match["holiday"].lower()], weak=not match["side"])


@rules(r"(?:recently|lately|the other day|in recent (?P<unit>day|week|month|year)s)")
def _recent_past(match: re.Match[str], now: datetime) -> Expression:
    words = match[0].lower()
    # Nobody says how long ago these are; the numbers are guesses.
    if words == "the other day":
        return expression(match, cal.period(now, -10, "day"))
    if match["unit"]:
        return expression(match, cal.period(now, -7, unit_of(match["unit"])[0]))
    return expression(match, cal.period(now, -1, "month"))


# A habit is no single span of time.
_OPEN: Final = Span(None, None, "day")


@rules(rf"(?:(?:every|each)\s+(?:(?:other|single|few|{'|'.join(_WHICH)}|\w+teen|\d+|two|three|four|five|six)\s+)?(?:{WEEKDAY}|{MONTH}|{SEASON}|{HOLIDAY}"
       r"|minutes?|hours?|days?|weeks?|weekends?|weekdays?|months?|quarters?|years?|mornings?|afternoons?|evenings?|nights?)"
       r"(?:\s+(?:morning|afternoon|evening|night))?"
       rf"|(?:the\s+)?(?:{'|'.join(_WHICH)})\s+\w+day\s+(?:of|in)\s+(?:every|each|a)\s+month"
       rf"|(?:on\s+)?{DAY_NAME}s(?!')|(?:on|at)\s+week(?:end|day)s"
       r"|from monday (?:to|through) (?:friday|sunday)|monday (?:to|through) (?:friday|sunday)"
       r"|(?:once|twice|\w+ times)\s+(?:an?|per)\s+(?:hour|day|week|month|year)|annually|weekly|monthly)")  # fmt: skip
def _habit(match: re.Match[str], now: datetime) -> Expression:
    return Expression(match.start(), match.end(), _OPEN, recurring=True)
