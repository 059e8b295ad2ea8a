"""English time expressions, second pass: what the words around single expressions make of them.

"early" and "the end of" narrow a unit, an hour narrows a day, "from … to" and "since" make ranges, "two days before …"
moves a day; a weak expression without such words is dropped.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from typing import Final

from reme_core.text.named import MONTHS, WEEKDAYS
from reme_core.text.regex import regex
from reme_core.text.timex import calendar as cal
from reme_core.text.timex.english import rules
from reme_core.text.timex.english_words import (
    DAY_PARTS,
    DECADES,
    MONTH,
    NUMBER,
    SEASONS,
    THIRDS,
    THROUGH,
    TOMORROW,
    UNIT,
    WEEKDAY,
    amount_of,
    unit_of,
)
from reme_core.text.timex.joins import distance_from_event, drop_overlaps, join_ranges, move
from reme_core.text.timex.mention import Expression, Span, search_before

_UNITS: Final = (
    "minute", "hour", "day", "week", "weekend", "weekday", "month", "quarter", "year", "decade", "fortnight", "morning",
    "afternoon", "evening", "night",
)  # fmt: skip
# Every expression that a rule finds has one of these words, or such digits; most texts have none.
SCREEN_WORDS: Final = frozenset(
    [form.lower() for name in MONTHS for form in (name, name[:3])]
    + [form for name in WEEKDAYS for form in (name.lower(), f"{name.lower()}s")]
    + [form for unit in _UNITS for form in (unit, f"{unit}s")]
    + [*SEASONS, *DECADES, *TOMORROW]
    + """sept christmas xmas easter thanksgiving halloween valentine independence labor festival yesterday today tonight
    ago recently lately annually weekly monthly""".split()  # noqa: SIM905 - a list of words reads better as text
)
SCREEN_DIGITS: Final = regex(r"(?:19|20)\d\d|\d0'?s|\d[./]\d")

# The words before a weak expression that show that it is a time, by what the expression is.
_MONTH_CUE: Final = regex(
    r"\b(?:in|since|during|until|till|before|after|as of|starting|through|throughout|between|early|mid|late"
    r"|(?:beginning|start|middle|end|month|half) of)[\s-]+$", re.I)  # fmt: skip
_YEAR_CUE: Final = regex(
    r"\b(?:in|since|during|until|till|before|after|between|circa|early|mid|late|(?:beginning|start|middle|end|year) of"
    r"|back in|year)[\s-]+$", re.I)  # fmt: skip
_SEASON_CUE: Final = regex(r"\b(?:in|during|over|since|until|(?:beginning|start|middle|end) of)\s+(?:the\s+)?$", re.I)
# "In the fall" only: behind other words it may be a fall ("during the fall of the wall").
_FALL_CUE: Final = regex(r"\bin\s+(?:the\s+)?$", re.I)
_HOLIDAY_CUE: Final = regex(r"\b(?:on|at|over|during|since|before|after|until|around|by|for)\s+(?:the\s+)?$", re.I)
# "in 2000 steps", "in 2019 euros": what counts something is no year.
_COUNTED: Final = regex(
    r"\s+(?:people|percent|(?!(?:was|is|his|has|as|this|its|us|yes|always|does|perhaps|sometimes)\b)[a-z]+s)\b"
)
_OPENED: Final = regex(r"\s*(?:on|onwards?|and (?:on|later))\b", re.I)

_NARROW: Final = regex(
    r"\b(?:the\s+)?(?P<part>early|mid|late|beginning|start|middle|end)"
    r"(?:\s+(?:in|of)(?:\s+the)?\s+|\s+|-)$", re.I)  # fmt: skip
_CLOCK: Final = (
    r"(?:(?P<hour>1[0-2]|0?[1-9])(?::(?P<minute>[0-5]\d))?\s?(?P<half>[ap])\.?m\b\.?"
    r"|(?P<hour24>[01]?\d|2[0-3]):(?P<minute24>[0-5]\d)|(?P<name>noon|midnight)\b)"
)
# "between 2 and 4 pm", "from 14:00 to 16:30"
_CLOCKS: Final = (
    r"(?:(?P<between>\bbetween\s+)|\bfrom\s+)?(?<![\w:$€£#-])(?:(?P<first>[01]?\d|2[0-3])(?::(?P<first_minute>[0-5]\d))?"
    rf"(?:\s?(?P<first_half>[ap])\.?m\b\.?)?|(?P<first_name>noon|midnight))(?:{THROUGH}|(?(between)\s+and\s+|(?!))){_CLOCK}"
)
# In "Monday 2 pm to 4 pm Tuesday" each hour belongs to a day of its own.
_CLOCKS_AFTER: Final = regex(
    rf",?\s+{_CLOCKS}(?!\s+(?:on\s+)?(?:today|yesterday|{'|'.join(TOMORROW)}|{WEEKDAY}|{MONTH})\b)", re.I
)
_CLOCKS_BEFORE: Final = regex(
    rf"(?<!day )(?<!day, )(?<!\d )(?<!\bat )(?<!\bfrom )(?<!\bbetween ){_CLOCKS}\s+(?:on\s+)?$", re.I
)
_CLOCK_AFTER: Final = regex(rf",?\s+(?:at\s+|around\s+|about\s+|by\s+)*{_CLOCK}", re.I)
_CLOCK_BEFORE: Final = regex(rf"(?:\bat\s+)?(?<![\d:]){_CLOCK}\s+(?:on\s+)?$", re.I)
_PART_AFTER: Final = regex(r",?\s+(?:in the\s+|at\s+)(?P<part>morning|afternoon|evening|night)\b", re.I)
_PART_BEFORE: Final = regex(r"\b(?:the|on the|in the)\s+(?P<part>morning|afternoon|evening|night)\s+of\s+$", re.I)

_WEEKDAY_GAP: Final = regex(r",?\s+(?:the\s+|(?P<way>before|after)\s+(?:the\s+)?)?", re.I)
_TO: Final = regex(
    r"\s*(?:on(?:wards)?,?\s+)?(?:-|–|—|\bto\b|\bthrough\b|\bthru\b|\buntil\b|\btill\b|\band\b)\s*(?:the\s+)?", re.I
)
_FROM: Final = regex(r"\b(?P<from>from|between)\s+(?:the\s+)?$", re.I)
# "Until my exam on Friday" ends on that day, too.
_BOUND: Final = regex(
    r"\b(?:ever\s+)?(?P<bound>since|until|till|before|after|by|from)\s+"
    r"(?:(?:the\s+)?|(?<=until )(?:my|our|his|her|their|the)\s+(?:\w+\s+){1,2}(?:(?:on|in|at)\s+)?)$",
    re.I,
)
_DISTANCE: Final = rf"(?:{NUMBER}\s+{UNIT}|the\s+(?P<the>day|week|weekend|month|year|night|morning))"
_SHIFT: Final = regex(rf"\b{_DISTANCE}\s+(?P<way>before|after|prior to)\s+(?:the\s+)?$", re.I)
# "two days before my birthday": up to three words name the event, then the clause ends or a word begins another one.
_ANCHORED: Final = regex(
    rf"\b{_DISTANCE}\s+(?P<way>before|after|prior to|following)\s+"
    r"(?P<anchor>(?:(?:my|his|her|their|our|your|its|the)|[A-Z][\w-]+(?:'s|s'))\s+[^\W\d_][\w'-]*"
    r"(?:\s+[^\W\d_][\w'-]*){0,2}?)"
    r"(?=\s*(?:[.,!?;:)\"”]|$|\n)|\s+(?:and|but|or|when|where|who|that|which|because|so|while|if|I|we|you|he|she|they|it"
    r"|is|was|were|did|do|does|had|has|have|in|on|at|with|to|for|from|last|this|next|by|as)\b)"
)


def find(text: str, now: datetime) -> list[Expression]:
    """Find the English time expressions of a text, in order; they do not overlap."""
    atoms = drop_overlaps(list(rules.find(text, now)))
    atoms = [_narrow_to_clock(text, _narrow_to_third(text, _confirm_weak(text, atom))) for atom in atoms]
    atoms = join_ranges(text, _merge_weekdays(text, atoms), _TO, _extent)
    atoms = [shift_and_open(text, atom) for atom in atoms if not atom.weak]
    return drop_overlaps(atoms + _find_anchored(text, atoms))


def _confirm_weak(text: str, atom: Expression) -> Expression:
    """Make a weak expression a full one if a time must follow the words before it ("in May")."""
    if not atom.weak:
        return atom
    word = text[atom.start : atom.end].lower()
    if word[:1].isdigit():
        cue = None if _COUNTED.match(text, atom.end) else _FROM if _OPENED.match(text, atom.end) else _YEAR_CUE
    elif atom.span.precision == "month":
        cue = _FROM if _OPENED.match(text, atom.end) else _MONTH_CUE
    elif atom.span.precision == "season":
        cue = _FALL_CUE if word == "fall" else _SEASON_CUE
    else:
        cue = _HOLIDAY_CUE
    return replace(atom, weak=not (cue and search_before(cue, text, atom.start)))


def _narrow_to_third(text: str, atom: Expression) -> Expression:
    part = search_before(_NARROW, text, atom.start)
    if not part or atom.recurring or atom.span.precision in ("day", "hour"):
        return atom
    return replace(atom, start=part.start(), span=cal.third(atom.span, THIRDS[part["part"].lower()]), weak=False)


# Where an hour may stand, and whether that is behind the day.
_CLOCK_PLACES: Final = (
    (_CLOCKS_AFTER, True), (_CLOCKS_BEFORE, False), (_CLOCK_AFTER, True), (_CLOCK_BEFORE, False), (_PART_AFTER, True),
    (_PART_BEFORE, False),
)  # fmt: skip


def _narrow_to_clock(text: str, atom: Expression) -> Expression:
    span = atom.span
    if atom.recurring or span.precision not in ("day", "hour") or span.start is None:
        return atom
    for pattern, ahead in _CLOCK_PLACES:
        match = pattern.match(text, atom.end) if ahead else search_before(pattern, text, atom.start)
        if not match:
            continue
        if "part" in match.groupdict():
            narrowed = cal.hours(span, *DAY_PARTS[match["part"].lower()])
        elif "first" in match.groupdict():
            hours = _first_and_last(match)
            if hours is None:
                continue
            narrowed = cal.hours(span, *hours)
        else:
            hour = _hour(match)
            narrowed = cal.hours(span, hour, hour + 1)
        return replace(
            atom, start=min(atom.start, match.start()), end=max(atom.end, match.end()), span=narrowed, weak=False
        )
    return atom


def _hour(match: re.Match[str]) -> float:
    """The hour of a clock time, with its minutes: 17.5 for "5:30 pm"."""
    minutes = int(match["minute"] or match["minute24"] or 0) / 60
    if match["name"]:
        return 12 if match["name"].lower() == "noon" else 24
    if match["hour24"]:
        return int(match["hour24"]) + minutes
    return int(match["hour"]) % 12 + (12 if match["half"].lower() == "p" else 0) + minutes


def _first_and_last(match: re.Match[str]) -> tuple[float, float] | None:
    """The hours of "from 2 to 4:30 pm": 14 and 16.5; None for "20 to 5 pm", which is one time."""
    last = _hour(match)
    if match["first_name"]:
        first = 12.0 if match["first_name"].lower() == "noon" else 0.0
    else:
        first = int(match["first"]) + int(match["first_minute"] or 0) / 60
    if match["first_half"]:
        first = first % 12 + (12 if match["first_half"].lower() == "p" else 0)
    elif match["first"] and not match["hour24"] and first < 13:
        # Of "11 to 2 pm" and "2 to 4 pm" the first hour is the one that is nearer to the last.
        first = min(first % 12, first % 12 + 12, key=lambda hour: (last - hour) % 24 or 24)
    elif match["first"] and not match["first_minute"] and last <= first:
        return None
    return first, last if last > first else last + 24


def _merge_weekdays(text: str, atoms: list[Expression]) -> list[Expression]:
    """Merge a weekday with the date behind it: "Sunday, May 7" is that date, "the Sunday before May 7" is near it."""
    merged: list[Expression] = []
    for atom in atoms:
        weekday = merged[-1] if merged else None
        name = text[weekday.start : weekday.end].capitalize() if weekday else ""
        gap = _WEEKDAY_GAP.fullmatch(text, weekday.end, atom.start) if weekday else None
        if weekday is None or gap is None or name not in WEEKDAYS or atom.span.precision not in ("day", "hour"):
            merged.append(atom)
        elif gap["way"] is None:
            merged[-1] = replace(atom, start=weekday.start)
        elif atom.span.start is not None:
            side: cal.Side = "past" if gap["way"].lower() == "before" else "next"
            span = cal.weekday(atom.span.start, WEEKDAYS.index(name), side)
            merged[-1] = replace(atom, start=weekday.start, span=span)
    return merged


def _extent(text: str, first: Expression, last: Expression, between: str) -> tuple[int, int] | None:
    opening = search_before(_FROM, text, first.start)
    # A weak first end ("May to July") needs no further sign: the second one makes it a time, and gives its year.
    if last.weak and not opening:
        return None
    # "March and May" are two months, "between March and May" is a range.
    is_between = opening is not None and opening["from"].lower() == "between"
    if between.strip().lower().startswith("and") and not is_between:
        return None
    return opening.start() if opening else first.start, last.end


def _shift(text: str, atom: Expression) -> Expression:
    """The day (week …) at a distance from an expression, if one stands before it: "two days after Christmas"."""
    shift = search_before(_SHIFT, text, atom.start)
    moved = move(atom, *_distance(shift), before=shift["way"].lower() != "after") if shift else None
    return replace(moved, start=shift.start()) if shift and moved else atom


def _distance(match: re.Match[str]) -> tuple[float, cal.Unit]:
    if match["the"]:
        unit, times = unit_of({"night": "day", "morning": "day"}.get(match["the"].lower(), match["the"]))
        return times, unit
    return amount_of(match)


def shift_and_open(text: str, atom: Expression) -> Expression:
    """An expression as the words around it mean it: "the day after Monday", "since Monday", which has no end."""
    atom = _shift(text, atom)
    bound = search_before(_BOUND, text, atom.start)
    if not bound or atom.recurring:
        return atom
    span, word = atom.span, bound["bound"].lower()
    if word == "from":
        # "From Monday on" has no end; "from Monday" alone says where something comes from.
        opened = _OPENED.match(text, atom.end)
        if not opened:
            return atom
        return replace(atom, start=bound.start(), end=opened.end(), span=Span(span.start, None, span.precision))
    edge = span.start if span.is_clock else span.end  # "until Friday" has its Friday
    start, end = {
        "since": (span.start, None),
        "after": (edge, None),
        "before": (None, span.start),
    }.get(word, (None, edge))
    return replace(atom, start=bound.start(), span=Span(start, end, span.precision))


def _find_anchored(text: str, atoms: list[Expression]) -> list[Expression]:
    """Find distances from an event whose date the text does not give: "two days before my birthday"."""
    found = []
    for match in _ANCHORED.finditer(text):
        at = match.start("anchor")
        # "Two days before the May festival" is counted from a time that was found already.
        if any(atom.start < match.end() and atom.end > at for atom in atoms):
            continue
        found.append(
            distance_from_event(match, *_distance(match), before=match["way"].lower() in ("before", "prior to"))
        )
    return found
