"""The words of English time expressions: names, numbers, parts of patterns, and whether they mean past or future."""

from __future__ import annotations

import re
from typing import Final, cast

from reme_core.text.named import MONTHS, WEEKDAYS
from reme_core.text.regex import regex
from reme_core.text.timex.calendar import Side, Unit
from reme_core.text.timex.holidays import ENGLISH as HOLIDAYS
from reme_core.text.timex.mention import CLAUSE, search_before

SEASONS: Final = {"spring": 0, "summer": 1, "autumn": 2, "fall": 2, "winter": 3}
NUMBERS: Final[dict[str, float]] = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "eleven": 11, "twelve": 12, "fifteen": 15, "twenty": 20, "thirty": 30, "couple": 2, "half": 0.5,
}  # fmt: skip
# From and until which hour; above 24 is the next day.
DAY_PARTS: Final = {"morning": (5, 12), "afternoon": (12, 18), "evening": (18, 23), "night": (18, 30)}
THIRDS: Final = {"early": 0, "beginning": 0, "start": 0, "mid": 1, "middle": 1, "late": 2, "end": 2}
DECADES: Final = {"twenties": 20, "thirties": 30, "forties": 40, "fifties": 50, "sixties": 60, "seventies": 70,
                   "eighties": 80, "nineties": 90}  # fmt: skip

NUMBER: Final = (
    r"(?P<n>\d{1,3}|half an?|(?:an? )?couple(?: of)?|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
    r"|fifteen|twenty|thirty)(?P<half> and a half)?"
)
UNIT: Final = r"(?P<unit>minute|hour|day|week|weekend|month|quarter|year|decade|fortnight)s?"
MONTH: Final = rf"(?P<month>{'|'.join(MONTHS)}|(?:jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\b\.?)"
WEEKDAY: Final = rf"(?P<weekday>{'|'.join(WEEKDAYS)})"
DAY_NAME: Final = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
SEASON: Final = rf"(?P<season>{'|'.join(SEASONS)})"
# A number that goes on ("2019-05", "2019.5", "2,019") or is a share ("2019 %") is no year.
YEAR: Final = r"(?P<year>(?:19|20)\d\d)\b(?![-/:]\d|[.,]\d|\s?%)"
# "7:30", "7.5" and "7 pm" are no days.
DAY: Final = r"(?P<day>3[01]|[12]\d|0?[1-9])(?P<ordinal>st|nd|rd|th)?\b(?![:%]|[.,/]\d|\s?[ap]\.?m\b)"
# Between the first and the last of a range.
THROUGH: Final = r"(?:\s?[-–—]\s?|\s+(?:to|through|thru|until|till)\s+)"
PART: Final = r"(?P<part>morning|afternoon|evening|night)"
SIDE: Final = r"(?P<side>last|this past|this coming|this|next|past|previous|coming|upcoming|following)"
HOLIDAY: Final = rf"(?P<holiday>{'|'.join(re.escape(name) for name in HOLIDAYS)})"

TOMORROW: Final = ("tomorrow", "tmrw", "tmr", "tmw", "tomoz")
# What turns a bare "Monday" or "May" into the next one. "Will" with a capital is a person.
FUTURE: Final = regex(
    r"\b(?:(?-i:will)|'ll|won't|going to|gonna|plan(?:s|ned|ning)? (?:to|for|on)|upcoming|coming|about to|next"
    rf"|{'|'.join(TOMORROW)}|schedul\w+|looking forward)\b[^.!?;\n]*$",
    re.IGNORECASE,
)
# Since when something has been so is past, whatever the clause says of the future.
_SINCE: Final = regex(
    r"\bsince\s+(?:(?:the|early|mid|late|start|beginning|middle|end|of|about|around)[\s-]+)*$", re.IGNORECASE
)
# "On Monday I'll …": at most two words stand between the time and the verb.
_FUTURE_AFTER: Final = regex(r",?\s+(?:\w+\s+){0,2}(?:\w+'ll|(?-i:will)|won't|(?:am|is|are) going to)\b", re.IGNORECASE)


def number(words: str, half: str | None = None) -> float:
    """The value of digits or number words, plus a half if `half` is given ("two and a half")."""
    words = words.lower()
    # "half a" and "a couple of" have the value of their main word.
    main = next((word for word in ("half", "couple") if word in words), words)
    return (float(words) if words.isdigit() else NUMBERS[main]) + (0.5 if half else 0)


def unit_of(word: str) -> tuple[Unit, int]:
    """The unit that a word means, and how many of it: a fortnight is two weeks."""
    return ("week", 2) if word.lower() == "fortnight" else (cast(Unit, word.lower()), 1)


def amount_of(match: re.Match[str]) -> tuple[float, Unit]:
    """The number and the unit of "two weeks"."""
    unit, times = unit_of(match["unit"])
    return number(match["n"], match["half"]) * times, unit


def side_of(match: re.Match[str]) -> Side:
    """Whether a match means the past or the future: by its own words, or else by the clause around it."""
    side = (match.groupdict().get("side") or "").lower()
    if side:
        if side in ("last", "past", "previous", "this past"):
            return "last"
        return "this" if side == "this" else "next"
    if search_before(_SINCE, match.string, match.start()):
        return "past"
    ahead = search_before(FUTURE, match.string, match.start(), CLAUSE) or _FUTURE_AFTER.match(match.string, match.end())
    return "next" if ahead else "past"
