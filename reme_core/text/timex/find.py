"""Find the time expressions of a text: a cheap check first, then the rules of its language, then the time zone."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime
from typing import Final

from reme_core.given import moment_of, zone_of
from reme_core.text.signs import simplify
from reme_core.text.stopwords import STOP_WORDS
from reme_core.text.terms import language_of, weights_of_languages
from reme_core.text.timex import chinese_joins, english_joins, others
from reme_core.text.timex.calendar import range_of
from reme_core.text.timex.joins import drop_overlaps
from reme_core.text.timex.mention import Expression, TimeMention

_ENGLISH: Final = re.compile("[a-z]+")
_ANY_WORD: Final = re.compile(r"\w+")


def has_time(text: str) -> bool:
    """Whether a text may contain a time expression. Fast; a wrong answer is always true, never false."""
    return _may_be_english(text) or bool(chinese_joins.SCREEN.search(text)) or _may_be_other(text)


def _may_be_other(text: str) -> bool:
    return not others.SCREEN_WORDS.isdisjoint(_ANY_WORD.findall(text.lower())) or bool(others.SCREEN.search(text))


def _may_be_english(text: str) -> bool:
    words, digits = english_joins.SCREEN_WORDS, english_joins.SCREEN_DIGITS
    return not words.isdisjoint(_ENGLISH.findall(text.lower())) or bool(digits.search(text))


def find_times(text: str, *, now: datetime, timezone: str = "UTC") -> list[TimeMention]:
    """Find the time expressions of a text and the spans of time that they mean.

    English and Chinese are read by rules; thirteen other languages by dateparser, in a few common shapes only.
    Words that are seldom times are left out: "may" as a verb, prices, durations ("for two weeks"). A month or weekday
    without a year or week is the latest one that has begun, or the next one where the clause speaks of the future.

    Days begin as in `timezone`, and the ranges are in it; a naive `now`, when the text was said, is taken as UTC.

    Returns:
        The mentions in the order of the text; they do not overlap. Habits ("every Monday") are marked `recurring` and
        have an open range; what is counted from an event of unknown date has an `anchor` (see `resolve`).

    Raises:
        InputError: the time zone is unknown.

    >>> mention = find_times("What did I do last spring?", now=datetime(2026, 11, 18))[0]
    >>> mention.text, str(mention.range.start), str(mention.range.end), mention.precision
    ('last spring', '2026-03-01 00:00:00+00:00', '2026-06-01 00:00:00+00:00', 'season')
    """
    zone, plain = zone_of(timezone), simplify(text)
    if not has_time(plain):
        return []
    mentions = []
    for found in _find_expressions(plain, moment_of(now).astimezone(zone)):
        with suppress(ValueError):  # the clocks never show it
            words, meant = text[found.start : found.end], range_of(found.span)
            also = found.relative, found.recurring, found.anchor, found.offset
            mentions.append(TimeMention(words, found.start, found.end, meant, found.span.precision, *also))
    return mentions


def language_to_read_in(text: str) -> str:
    """The language in which the times of a text are read.

    "Ayer cené con Marta" has too few function words to show its language by them alone; a time in one shows it, too, if
    no other language has more.
    """
    code = language_of(text)
    if code in others.LANGUAGES or not _may_be_other(text):
        return code
    timed = others.languages_of_times(text)
    # Polish has no list of function words to vote for it: "jutro" does.
    votes = {one: 1.0 for one in timed if one not in STOP_WORDS} | weights_of_languages(text)
    most = max(votes.values(), default=0)
    possible = [one for one in timed if votes.get(one, 0) >= most]
    english = votes.get("en", 0)
    is_english = english >= max(most, 0.01) and (english > most or _may_be_english(text))
    return possible[0] if len(possible) == 1 and not is_english else code


def _find_expressions(text: str, now: datetime) -> list[Expression]:
    # Libraries for English and Chinese give a single moment; recall needs a calendar range and its precision. So these
    # two have rules of their own, and Chinese ones are tried in every text, since people mix it with other languages.
    found = chinese_joins.find(text, now) if chinese_joins.SCREEN.search(text) else []
    code = language_to_read_in(text)
    if code in others.LANGUAGES:
        found += others.find(text, now, code)
    elif _may_be_english(text):
        found += english_joins.find(text, now)
    return drop_overlaps(found)
