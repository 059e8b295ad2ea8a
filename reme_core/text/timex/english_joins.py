"""English time expressions, second pass: what the words around the single ones make of them.

"early" and "the end of" narrow a unit, an hour narrows a day, "from … to" and "since" make ranges, "two days before …"
shifts, and a weak expression without any such word is dropped.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from reme_core.text.timex import calendar as cal
from reme_core.text.timex.english import singles
from reme_core.text.timex.english_words import DAY_PARTS, NUMBER, UNIT, WEEKDAYS, number, unit_of
from reme_core.text.timex.joins import earlier, longest
from reme_core.text.timex.mention import Found, Span

_WORDS: Final = frozenset(
    """january february march april may june july august september october november december jan feb mar apr jun jul aug
    sep sept oct nov dec monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays
    fridays saturdays sundays spring summer autumn fall winter christmas xmas easter thanksgiving halloween valentine
    independence labor festival yesterday today tomorrow tonight night ago recently lately twenties thirties forties
    fifties sixties seventies eighties nineties minute minutes hour hours day days week weeks weekend weekends weekdays
    month months quarter quarters year years decade decades fortnight fortnights morning mornings afternoon evening
    annually weekly monthly""".split()  # noqa: SIM905 - a list of words reads better as text
)
_LETTERS: Final = re.compile("[a-z]+")
_DIGITS: Final = re.compile(r"(?:19|20)\d\d|\d0'?s|\d[./]\d")

# What may stand before a weak expression and vouch for it, by what it is.
_MONTH_CUE: Final = re.compile(
    r"\b(?:in|since|during|until|till|before|after|through|throughout|between|early|mid|late"
    r"|(?:beginning|start|middle|end|month|half) of)[\s-]+$", re.I)  # fmt: skip
_YEAR_CUE: Final = re.compile(
    r"\b(?:in|since|during|until|till|before|after|between|circa|early|mid|late|(?:beginning|start|middle|end|year) of"
    r"|back in|year)[\s-]+$", re.I)  # fmt: skip
_SEASON_CUE: Final = re.compile(
    r"\b(?:in|during|over|since|until|(?:beginning|start|middle|end) of)\s+(?:the\s+)?$", re.I
)
_FALL_CUE: Final = re.compile(r"\bin\s+(?:the\s+)?$", re.I)
_HOLIDAY_CUE: Final = re.compile(r"\b(?:on|at|over|during|since|before|after|until|around|by|for)\s+(?:the\s+)?$", re.I)
# "in 2000 steps", "in 2019 euros": a year counts nothing.
_COUNTED: Final = re.compile(
    r"\s+(?:people|percent|(?!(?:was|is|his|has|as|this|its|us|yes|always|does|perhaps|sometimes)\b)[a-z]+s)\b"
)
_OPENED: Final = re.compile(r"\s*(?:on|onwards?|and (?:on|later))\b", re.I)

_NARROW: Final = re.compile(
    r"\b(?:the\s+)?(?P<part>early|mid|late|beginning|start|middle|end)"
    r"(?:\s+(?:in|of)(?:\s+the)?\s+|\s+|-)$", re.I)  # fmt: skip
_PARTS: Final = {"early": 0, "beginning": 0, "start": 0, "mid": 1, "middle": 1, "late": 2, "end": 2}
_CLOCK: Final = (
    r"(?:(?P<hour>1[0-2]|0?[1-9])(?::[0-5]\d)?\s?(?P<half>[ap])\.?m\b\.?|(?P<hour24>[01]?\d|2[0-3]):[0-5]\d"
    r"|(?P<name>noon|midnight)\b)"
)
_CLOCK_AFTER: Final = re.compile(rf",?\s+(?:at\s+|around\s+|about\s+|by\s+)*{_CLOCK}", re.I)
_CLOCK_BEFORE: Final = re.compile(rf"(?:\bat\s+)?(?<![\d:]){_CLOCK}\s+(?:on\s+)?$", re.I)
_PART_AFTER: Final = re.compile(r",?\s+(?:in the\s+|at\s+)(?P<part>morning|afternoon|evening|night)\b", re.I)
_PART_BEFORE: Final = re.compile(r"\b(?:the|on the|in the)\s+(?P<part>morning|afternoon|evening|night)\s+of\s+$", re.I)

_WEEKDAY_GAP: Final = re.compile(r",?\s+(?:the\s+|(?P<way>before|after)\s+(?:the\s+)?)?", re.I)
_TO: Final = re.compile(r"\s*(?:-|–|—|\bto\b|\bthrough\b|\bthru\b|\buntil\b|\btill\b|\band\b)\s*(?:the\s+)?", re.I)
_FROM: Final = re.compile(r"\b(?P<from>from|between)\s+(?:the\s+)?$", re.I)
_BOUND: Final = re.compile(r"\b(?:ever\s+)?(?P<bound>since|until|till|before|after|by|from)\s+(?:the\s+)?$", re.I)
_DISTANCE: Final = rf"(?:{NUMBER}\s+{UNIT}|the\s+(?P<the>day|week|weekend|month|year|night|morning))"
_SHIFT: Final = re.compile(
    rf"\b{_DISTANCE}\s+(?P<way>before|after|prior to)\s+(?:the\s+)?$",
    re.I,
)
_ANCHORED: Final = re.compile(
    rf"\b{_DISTANCE}\s+(?P<way>before|after|prior to|following)\s+"
    r"(?P<anchor>(?:(?:my|his|her|their|our|your|its|the)|[A-Z][\w-]+(?:'s|s'))\s+[^\W\d_][\w'-]*"
    r"(?:\s+[^\W\d_][\w'-]*){0,2}?)"
    r"(?=\s*(?:[.,!?;:)\"”]|$|\n)|\s+(?:and|but|or|when|where|who|that|which|because|so|while|if|I|we|you|he|she|they|it"
    r"|is|was|were|did|do|does|had|has|have|in|on|at|with|to|for|from|last|this|next|by|as)\b)"
)


def screen(text: str) -> bool:
    """Whether a text has any word that a time expression could be made of; some microseconds, no false no."""
    return not _WORDS.isdisjoint(_LETTERS.findall(text.lower())) or bool(_DIGITS.search(text))


def find(text: str, now: datetime) -> list[Found]:
    """The English time expressions of a text, in order, none overlapping another."""
    text = text.replace("’", "'")
    atoms = longest(list(singles(text, now)))
    atoms = [_with_clock(text, _narrowed(text, _vouched(text, atom))) for atom in atoms]
    atoms = _ranges(text, _dated_weekdays(text, atoms))
    atoms = [_bounded(text, _shifted(text, atom)) for atom in atoms if not atom.weak]
    return longest(atoms + _anchored(text, atoms))


def _vouched(text: str, atom: Found) -> Found:
    """A weak expression becomes a full one behind a word that only a time can follow."""
    if not atom.weak:
        return atom
    word = text[atom.start : atom.end].lower()
    if word[:1].isdigit():
        cue = None if _COUNTED.match(text, atom.end) else _FROM if _OPENED.match(text, atom.end) else _YEAR_CUE
    elif atom.span.precision == "month":
        cue = _MONTH_CUE
    elif atom.span.precision == "season":
        cue = _FALL_CUE if word == "fall" else _SEASON_CUE
    else:
        cue = _HOLIDAY_CUE
    return replace(atom, weak=not (cue and cue.search(text, 0, atom.start)))


def _narrowed(text: str, atom: Found) -> Found:
    part = _NARROW.search(text, 0, atom.start)
    if not part or atom.recurring or atom.span.precision in ("day", "hour"):
        return atom
    return replace(atom, start=part.start(), span=cal.third(atom.span, _PARTS[part["part"].lower()]), weak=False)


def _with_clock(text: str, atom: Found) -> Found:
    span = atom.span
    if atom.recurring or span.precision not in ("day", "hour") or span.start is None:
        return atom
    for pattern, ahead in ((_CLOCK_AFTER, True), (_CLOCK_BEFORE, False), (_PART_AFTER, True), (_PART_BEFORE, False)):
        match = pattern.match(text, atom.end) if ahead else pattern.search(text, 0, atom.start)
        if not match:
            continue
        if "part" in match.groupdict():
            narrowed = cal.hours(span, *DAY_PARTS[match["part"].lower()])
        else:
            hour = _hour(match)
            narrowed = cal.hours(span, hour, hour + 1)
        return replace(
            atom, start=min(atom.start, match.start()), end=max(atom.end, match.end()), span=narrowed, weak=False
        )
    return atom


def _hour(match: re.Match[str]) -> int:
    if match["name"]:
        return 12 if match["name"].lower() == "noon" else 24
    if match["hour24"]:
        return int(match["hour24"])
    return int(match["hour"]) % 12 + (12 if match["half"].lower() == "p" else 0)


def _dated_weekdays(text: str, atoms: list[Found]) -> list[Found]:
    """Merge "Sunday, May 7" and "the Sunday before May 7" into one day each; the date says which."""
    merged: list[Found] = []
    for atom in atoms:
        named = merged[-1] if merged else None
        gap = _WEEKDAY_GAP.fullmatch(text, named.end, atom.start) if named else None
        number = WEEKDAYS.index(text[named.start : named.end].lower()) if named and gap and _plain(text, named) else -1
        if named is None or gap is None or number < 0 or atom.span.precision not in ("day", "hour"):
            merged.append(atom)
        elif gap["way"] is None:
            merged[-1] = replace(atom, start=named.start)
        elif atom.span.start is not None:
            span = cal.weekday(atom.span.start, number, "past" if gap["way"].lower() == "before" else "next")
            merged[-1] = replace(atom, start=named.start, span=span)
    return merged


def _plain(text: str, atom: Found) -> bool:
    return text[atom.start : atom.end].lower() in WEEKDAYS


def _ranges(text: str, atoms: list[Found]) -> list[Found]:
    """Join "from March to May" and its like; the second end may vouch for a weak first one, and dates it."""
    joined: list[Found] = []
    for atom in atoms:
        first = joined[-1] if joined else None
        gap = _TO.fullmatch(text, first.end, atom.start) if first else None
        if first is None or gap is None or first.recurring or atom.recurring:
            joined.append(atom)
            continue
        opening = _FROM.search(text, 0, first.start)
        is_and = gap[0].strip().lower().startswith("and")
        if (is_and and not (opening and opening["from"].lower() == "between")) or (atom.weak and not opening):
            joined.append(atom)
            continue
        begins = earlier(first, atom)
        if begins is None:
            joined.append(atom)
            continue
        span = Span(begins, atom.span.end, atom.span.precision)
        start = opening.start() if opening else first.start
        joined[-1] = replace(atom, start=start, span=span, relative=first.relative and atom.relative, weak=False)
    return joined


def _shifted(text: str, atom: Found) -> Found:
    """Give the day (week …) that lies so far from a time that is known: "two days after Christmas"."""
    shift = _SHIFT.search(text, 0, atom.start)
    if not shift or atom.recurring or atom.span.start is None or atom.span.end is None:
        return atom
    before = shift["way"].lower() != "after"
    amount, unit = _distance(shift)
    origin = atom.span.start if before else atom.span.end - timedelta(days=1)
    if unit == "hour":
        origin = atom.span.start
    with suppress(ValueError, OverflowError):  # beyond the calendar
        return replace(atom, start=shift.start(), span=cal.away(origin, -amount if before else amount, unit))
    return atom


def _distance(match: re.Match[str]) -> tuple[float, cal.Unit]:
    if match["the"]:
        unit, times = unit_of({"night": "day", "morning": "day"}.get(match["the"].lower(), match["the"]))
        return times, unit
    unit, times = unit_of(match["unit"])
    return number(match["n"], match["half"]) * times, unit


def _bounded(text: str, atom: Found) -> Found:
    """Open one side: "since Monday" has no end, "before 2020" no beginning."""
    bound = _BOUND.search(text, 0, atom.start)
    if not bound or atom.recurring:
        return atom
    span, word = atom.span, bound["bound"].lower()
    if word == "from":
        opened = _OPENED.match(text, atom.end)
        if not opened:
            return atom
        return replace(atom, start=bound.start(), end=opened.end(), span=Span(span.start, None, span.precision))
    start, end = {
        "since": (span.start, None),
        "after": (span.end, None),
        "before": (None, span.start),
    }.get(word, (None, span.end))
    return replace(atom, start=bound.start(), span=Span(start, end, span.precision))


def _anchored(text: str, atoms: list[Found]) -> list[Found]:
    """Find "two days before my birthday": the distance is known, the day is in somebody's memory."""
    found = []
    for match in _ANCHORED.finditer(text):
        at = match.start("anchor")
        if any(atom.start < match.end() and atom.end > at for atom in atoms):
            continue
        amount, unit = _distance(match)
        length = cal.length(amount, unit)
        before = match["way"].lower() in ("before", "prior to")
        found.append(
            Found(
                match.start(),
                match.end(),
                Span(None, None, "hour" if unit in ("hour", "minute") else "day"),
                relative=True,
                anchor=match["anchor"],
                offset=-length if before else length,
            )
        )
    return found
