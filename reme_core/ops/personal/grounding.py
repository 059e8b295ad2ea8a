"""Whether a statement is supported by its evidence: a cheap check that needs no model and no knowledge of the language.

A model that sums up a conversation now and then adds a number, a name or a whole fact. So every number and every name
of a statement has to stand in the messages it rests on (dates may also follow from when those were sent), and a good
part of its terms has to be theirs. A statement in another language than its evidence shares no terms and is refused,
too: memories keep the language of the input.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Final

from reme_core.ops.personal import reality
from reme_core.ops.personal.statements import said_when
from reme_core.schema import Message
from reme_core.text.terms import terms

SHARED: Final = 0.4
"""The least share of a statement's terms that its evidence must have: half of a paraphrase may be its writer's own."""

_NUMBER: Final = re.compile(r"\d+(?:[.,:/-]\d+)*")
_NAME: Final = re.compile(r"(?<=[\w,;:] )[A-ZÀ-ÖØ-ÞА-Я][\w'-]+")
_FIRST_WORD: Final = re.compile(r"^\W*\w+(?:'s)?")
_WORDS_OF_STATEMENTS: Final = frozenset(terms("user they person speaker said mentioned 用户 表示 提到"))


def unsupported(content: str, evidence: Sequence[Message], *, person: str = "", timezone: str = "UTC") -> str:
    """Why a statement is not supported by its evidence; empty where it is.

    Args:
        content: The statement.
        evidence: The messages it rests on.
        person: What the statement calls its subject, which needn't stand in the evidence.
        timezone: In which relative dates are reckoned.
    """
    if not evidence:
        return "it names no evidence"
    said = " ".join(reality.plain(m.content) for m in evidence)
    text = reality.plain(content).replace(person, "") if person else reality.plain(content)
    dates = set(_dates(evidence, timezone))
    numbers = {part for number in _NUMBER.findall(text) for part in _parts(number)}
    known = {part for number in _NUMBER.findall(said) for part in _parts(number)}
    if invented := numbers - known - dates:
        return f"its evidence does not hold {', '.join(sorted(invented))}"
    folded = said.casefold()
    names = [name for name in _NAME.findall(_FIRST_WORD.sub("", text)) if name.casefold() not in _CALENDAR]
    if foreign := [name for name in names if name.casefold().removesuffix("'s") not in folded]:
        return f"its evidence does not name {', '.join(foreign)}"
    own = [term for term in set(terms(text)) - _WORDS_OF_STATEMENTS if not term.isdigit()]
    if own:
        share = len(set(own) & set(terms(said))) / len(own)
        if share < SHARED:
            return f"its evidence shares only {share:.0%} of its words"
    return ""


_CALENDAR: Final = frozenset(name.casefold() for name in [*calendar.month_name, *calendar.day_name, "I"])


def _dates(evidence: Iterable[Message], timezone: str) -> Iterable[str]:
    """The numbers of dates that may be inferred: when something was sent, and the times that it names."""
    for message in evidence:
        moments = [message.sent_at]
        for mention in said_when(message.content, message.sent_at, timezone):
            # A range ends before its end: 2018 does not hold a day of 2019.
            last = mention.range.end - timedelta(seconds=1) if mention.range.end else None
            moments += [moment for moment in (mention.range.start, last) if moment]
        for moment in moments:
            yield from _parts(f"{moment:%Y-%m-%d}")
            yield from (str(moment.day - 1), str(moment.hour))


def _parts(number: str) -> Iterable[str]:
    return [part.lstrip("0") or "0" for part in re.split(r"\D+", number) if part]
