"""Time expressions in other languages than English and Chinese: patterns find them, dateparser reads them.

Six shapes are looked for, since they hardly ever mean something else: a word such as "yesterday", words such as "last
week", "N units ago", a month's name with a day or a year or behind "in", and a date in digits. dateparser gives one
moment and its `period` (day, month …); the range is the calendar unit of that size around the moment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final, cast

from reme_core.text.regex import regex
from reme_core.text.timex import calendar as cal
from reme_core.text.timex.mention import Expression
from reme_core.text.timex.other_words import PLANS, WORDS, Words

if TYPE_CHECKING:
    from dateparser.date import DateDataParser


LANGUAGES: Final = frozenset(WORDS)


def _meanings(listed: str, separator: str | None = None) -> dict[str, str]:
    """Words such as "last week", with those that dateparser knows for them."""
    pairs = (one.partition("=") for one in listed.split(separator) if one)
    return {said: known or said for said, _, known in pairs}


_SPANS: Final = {code: _meanings(words.spans, "|") for code, words in WORDS.items()}
_NAMES: Final = {
    code: _meanings(f"{words.months} {words.cases} {words.units} {words.numbers}") for code, words in WORDS.items()
}


def _one_of(listed: str) -> str:
    return f"(?:{'|'.join(sorted(_meanings(listed), key=len, reverse=True))})"


def _pattern(words: Words, spans: Iterable[str]) -> str:
    months, units = _one_of(words.months), _one_of(words.units)
    before, after = words.ago
    several = rf"(?P<count>\d{{1,3}}|{_one_of(words.numbers)}){words.gap}(?P<unit>{units})"
    year = rf"(?: (?:{words.of})?(?:19|20)\d\d)"
    date = words.date or rf"\d{{1,2}}\.? (?:{words.of})?{months}{year}?|{months}{year}"
    alone = words.alone.format(f"(?P<name>{_one_of(words.cases or words.months)})")
    shapes = {
        "near": "|".join(words.near.split()),
        "spans": "|".join(sorted(spans, key=len, reverse=True)),
        "tomorrow": words.tomorrow,
        "ago": words.gap.join(part for part in (before, several, after) if part),
        "date": date if words.date or words.months else "",
        "alone": alone and (rf"{alone}{year}?" if words.cases else rf"{alone}(?!{year})"),
    }
    named = "|".join(rf"(?P<{name}>{shape})" for name, shape in shapes.items() if shape)
    return rf"{words.edges[0]}(?:{named}){words.edges[1]}"


_DIGITS: Final = r"(?<![\d./-])(?:\d{4}-\d\d?-\d\d?|\d\d?(?P<sign>[./])\d\d?(?P=sign)\d{4})(?![\d/-])"
_PATTERNS: Final = {code: regex(rf"{_pattern(words, _SPANS[code])}|{_DIGITS}", re.I) for code, words in WORDS.items()}
_PAST: Final = {
    code: regex(rf"{words.edges[0]}(?:{words.past}){words.edges[1]}", re.I) for code, words in WORDS.items()
}
_PLANNED: Final = regex(rf"\b(?:{PLANS})\b", re.I)
# What `find` looks for has one of these words, such digits, other letters than Latin ones, or "il y a": the French "an"
# is a word of English, too.
SCREEN_WORDS: Final = frozenset(
    name
    for code, words in WORDS.items()
    for names in (words.near, *_meanings(words.months), *_meanings(words.cases), *_meanings(words.units), *_SPANS[code])
    for name in re.findall(r"\w+", names)
    if len(name) >= 5 or names not in _SPANS[code]
) - {"an"} | {"morgen", "mañana"}
SCREEN: Final = regex(
    r"\d{4}-\d|\d[./]\d\d?[./]\d|\bil y a\b|[ء-يऀ-ॣ가-힣ぁ-ヿ]"
    rf"|\b{WORDS['tr'].alone.format(_one_of(WORDS['tr'].cases))}\b",
    re.IGNORECASE,
)
_SAYS_WHEN: Final = {
    code: (*words.near.split(), *_SPANS[code], *(one for one in words.ago if one and words.gap == " "))
    for code, words in WORDS.items()
}
DIRECTED: Final = "|".join(
    f"{words.edges[0]}(?:{'|'.join(_SAYS_WHEN[code])}){words.edges[1]}" for code, words in WORDS.items()
)
"""What says by itself whether a time lies behind or ahead, as the alternatives of a pattern."""


def tells_of_past(text: str, language: str) -> bool:
    """Whether a text in one of `LANGUAGES` tells of the past, and of nothing that was planned."""
    return bool(_PAST[language].search(text)) and not _PLANNED.search(text)


def languages_of_times(text: str) -> list[str]:
    """The languages in which a text has times by their names."""
    return [
        code
        for code, pattern in _PATTERNS.items()
        if any(match.lastgroup != "sign" for match in pattern.finditer(text))
    ]


def find(text: str, now: datetime, language: str) -> list[Expression]:
    """Find the time expressions of a text in one of `LANGUAGES`."""
    found = []
    for match in _PATTERNS[language].finditer(text):
        # Without seconds, so that queries of one minute share a parser.
        base = now.replace(second=0, microsecond=0, tzinfo=None)
        read = _parser(language, base).get_date_data(_in_known_words(match, language))
        if read is None or read.date_obj is None:
            continue
        unit: cal.Unit = (
            "day" if match.lastgroup == "near" else "hour" if read.period == "time" else cast(cal.Unit, read.period)
        )
        relative = match.lastgroup in ("near", "spans", "tomorrow", "ago") or not re.search(r"\d{4}", match[0])
        moment = read.date_obj.replace(tzinfo=now.tzinfo)
        try:
            # dateparser counts on the clocks; hours are counted as they pass.
            if unit == "hour":
                moment = cal.later(now, read.date_obj.replace(tzinfo=None) - base)
            span = cal.unit_at(moment, unit)
        except (ValueError, OverflowError):
            continue  # the calendar has no such time
        found.append(Expression(match.start(), match.end(), span, relative=relative))
    return found


def _in_known_words(match: re.Match[str], language: str) -> str:
    """What was found, in words that dateparser knows: digits for numbers, and English for what it lacks."""
    said, shape, names = match[0], match.lastgroup, _NAMES[language]
    if shape == "tomorrow":
        return shape
    if shape == "alone":
        return " ".join([names[match["name"].lower()], *re.findall(r"\d{4}", said)])
    if shape == "ago":
        count, unit = (names.get(match[part].lower(), match[part]) for part in ("count", "unit"))
        is_known = unit == match["unit"].lower()
        return said.replace(match["count"], count, 1) if is_known else f"{int(count)} {unit} ago"
    if (known := _SPANS[language].get(said.lower())) is None:
        return " ".join(names.get(word.lower(), word) for word in said.split())
    past, _, ahead = known.partition("/")
    return ahead if ahead and not tells_of_past(match.string, language) else past


@lru_cache(maxsize=16)
def _parser(language: str, now: datetime) -> DateDataParser:
    # Imported here: that takes 0.3 s, and most texts never need it.
    from dateparser.date import DateDataParser  # noqa: PLC0415

    return DateDataParser(
        languages=[language, "en"],
        use_given_order=True,
        settings={"RELATIVE_BASE": now, "PREFER_DATES_FROM": "past", "RETURN_TIME_AS_PERIOD": True},
    )
