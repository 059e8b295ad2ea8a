"""What a time expression is: its place in a text, and the span of time that it means."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo
from typing import Final, Literal

from reme_core.text.regex import regex
from reme_core.types import TimeRange

Precision = Literal["year", "season", "month", "week", "day", "hour"]


@dataclass(frozen=True, slots=True)
class Span:
    """A span of local time, from `start` until just before `end`; a side that is None is open."""

    start: datetime | None
    end: datetime | None
    precision: Precision

    @property
    def is_clock(self) -> bool:
        """Whether it is one hour, which a clock time has: "5 pm" lasts until six, but "until 5 pm" ends at five."""
        return self.start is not None and self.end is not None and self.end - self.start == timedelta(hours=1)

    def in_zone(self, zone: tzinfo | None) -> Span:
        """The same for sides that have no time zone yet: what its clocks show then."""
        return Span(self.start and self.start.replace(tzinfo=zone), self.end and self.end.replace(tzinfo=zone),
                    self.precision)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Expression:
    """A time expression as the rules of a language find it, in local time.

    A *weak* one ("may", "2019", "spring") may be an ordinary word; it is dropped unless the words around it show that a
    time is meant. The other fields are those of `TimeMention`.
    """

    start: int
    end: int
    span: Span
    relative: bool = False
    recurring: bool = False
    weak: bool = False
    anchor: str = ""
    offset: timedelta | None = None


def expression(match: re.Match[str], span: Span, *, relative: bool = True, weak: bool = False) -> Expression:
    """The whole match as a time expression that means `span`."""
    return Expression(match.start(), match.end(), span, relative=relative, weak=weak)


Rule = Callable[[re.Match[str], datetime], Expression | None]


class Rules:
    """The rules of a language, each of which makes an expression of what its pattern matches.

    A rule returns None if the words mean something else. The time when the text was said, which it is given, has the
    time zone of the speaker; a date that it makes out of numbers needs none.
    """

    def __init__(self, before: str = "", behind: str = "", flags: re.RegexFlag = re.NOFLAG) -> None:
        """Match the pattern of each rule between two others, with these flags."""
        self._before, self._behind, self._flags = before, behind, flags
        self._rules: list[tuple[re.Pattern[str], Rule]] = []

    def __call__(self, pattern: str) -> Callable[[Rule], Rule]:
        """Register the decorated function as the rule for a pattern."""

        def register(rule: Rule) -> Rule:
            self._rules.append((regex(f"{self._before}{pattern}{self._behind}", self._flags), rule))
            return rule

        return register

    def find(self, text: str, now: datetime) -> Iterator[Expression]:
        """Every expression that a rule finds in a text, in the time zone of `now`; they may overlap."""
        for pattern, rule in self._rules:
            for match in pattern.finditer(text):
                with suppress(ValueError, OverflowError):  # no such day: 31 April
                    if (found := rule(match, now)) is not None:
                        yield replace(found, span=found.span.in_zone(now.tzinfo))


@dataclass(frozen=True, slots=True)
class TimeMention:
    """A time expression in a text."""

    text: str
    start: int
    end: int
    range: TimeRange
    """The time it means, in the time zone asked for. Open on both sides if `recurring` or if there is an `anchor`."""
    precision: Precision
    """The size of the unit that the words name; quarters and half-years count as seasons, decades as years."""
    relative: bool = False
    """Whether the meaning depends on when it was said ("yesterday", but also "in May", without a year)."""
    recurring: bool = False
    """Whether it is a habit ("every Monday"), which is no single span of time."""
    anchor: str = ""
    """The event that it is counted from, if the text does not give its date ("my birthday"); see `resolve`."""
    offset: timedelta | None = None
    """The distance from the anchor, negative for before."""


_FEW_WORDS: Final = 60  # characters
CLAUSE: Final = 200  # characters, more than a clause has


def search_before(pattern: re.Pattern[str], text: str, place: int, within: int = _FEW_WORDS) -> re.Match[str] | None:
    """What a pattern that ends in `$` finds right before a place; it may match `within` so many characters."""
    # A search from the beginning would cost each time of a long text the whole text before it. A search tries each
    # place that it passes, so it begins no further back than the pattern can match.
    return pattern.search(text, max(0, place - within), place)
