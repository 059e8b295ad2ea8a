"""The time that a query asks about: "What did we discuss last Tuesday?", 三次聊天前说了什么.

It may also name conversations by their order: "our eighth session", "three chats ago", 上次聊天.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from reme_core.errors import InputError
from reme_core.given import moment_of, part_to_read
from reme_core.text.regex import regex
from reme_core.text.signs import simplify
from reme_core.text.timex import chinese
from reme_core.text.timex.find import find_times
from reme_core.types import TimeRange

# Nobody says how long ago "recently" is.
_VAGUE: Final = regex(
    r"\b(?:recent\w*|lately|latest|these days|nowadays|currently|now)\b|近期|最近|近来|目前|现在", re.IGNORECASE
)
_OF_TALK: Final = regex(
    r"\b(?:discuss\w*|talk\w*|chat\w*|conversations?|spoke|say|said|mention\w*|tell|told|br(?:ing|ought) up)\b"
    r"|聊|说过|说了|讨论|谈|提到|提过|告诉",
    re.IGNORECASE,
)


class Sessions(NamedTuple):
    """A run of conversations, by their order in time: from 1 for the first, from -1 back for the latest."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class AskedTime:
    """The time that a query asks about: the stretches of time, and the conversations by their order, that it names."""

    ranges: Sequence[TimeRange]
    sessions: Sequence[Sessions] = ()
    of_talk: bool = False
    """Whether the query asks what was said then ("What did we discuss in May?"), not what happened then."""
    current_session: str = ""
    """The conversation of the query, which "three chats ago" does not count."""

    @classmethod
    def of(
        cls,
        time: TimeRange | Literal["query"] | None,
        query: str,
        *,
        now: datetime | None,
        timezone: str,
        current_session: str = "",
    ) -> AskedTime | None:
        """The time that a caller of recall gives (`time`), or that the query names; for the rest see `asked_time`.

        Raises:
            InputError: `time` or `now` is of another type, or the time zone is unknown.
        """
        if time is None or isinstance(time, TimeRange):
            return None if time is None else cls([time])
        if time != "query":
            raise InputError(f"time is 'query', a TimeRange or None, not {time!r:.60}")
        if not isinstance(query, str):
            return None  # recall refuses the query with an error of its own
        if now is not None and not isinstance(now, datetime):
            raise InputError(f"now is a datetime, or None for the present, not {now!r:.60}")
        return asked_time(query, now=now or datetime.now(UTC), timezone=timezone, current_session=current_session)


def asked_time(query: str, *, now: datetime, timezone: str = "UTC", current_session: str = "") -> AskedTime | None:
    """The time that a query asks about; None if it names none.

    Vague times ("recently"), habits ("every Monday") and times that are counted from an event ("the day before my
    birthday") are left out. A time that is not over yet ("this weekend") counts only if the query asks what was said.

    Raises:
        InputError: The time zone is unknown.

    >>> from datetime import UTC
    >>> asked = asked_time("What did I paint in May?", now=datetime(2026, 11, 18, tzinfo=UTC))
    >>> str(asked.ranges[0].start), asked.of_talk
    ('2026-05-01 00:00:00+00:00', False)
    >>> asked_time("What shall I paint?", now=datetime(2026, 11, 18, tzinfo=UTC)) is None
    True
    """
    # In UTC: times of one zone are compared by what the clocks show, which on some days they show twice.
    now, query = moment_of(now).astimezone(UTC), simplify(part_to_read(query))
    sessions = find_sessions(query)
    of_talk = bool(sessions or _OF_TALK.search(query))
    ranges = [
        mention.range
        for mention in find_times(query, now=now, timezone=timezone)
        if (mention.range.start or mention.range.end) and not _VAGUE.search(mention.text)
        # What happens in a time that is not over may have been told at any time.
        if of_talk or (mention.range.end and mention.range.end <= now)
    ]
    return AskedTime(ranges, sessions, of_talk, current_session) if ranges or sessions else None


@lru_cache(maxsize=64)  # a turn asks for memories and for messages with the same words
def find_sessions(text: str) -> tuple[Sessions, ...]:
    """The conversations that a query names by their order, in English or Chinese, in the order of the text.

    >>> find_sessions("What did we discuss over sessions 18 through 20, and what three sessions ago?")
    (Sessions(first=18, last=20), Sessions(first=-3, last=-3))
    >>> find_sessions("上次聊天我们说了什么？")
    (Sessions(first=-1, last=-1),)
    >>> find_sessions("My last session at the gym")
    ()
    """
    found: list[tuple[int, int, Sessions]] = []
    for pattern in _RULES:
        for match in pattern.finditer(text):
            # Words that an earlier rule took are read once.
            if all(match.end() <= start or match.start() >= end for start, end, _ in found):
                found.append((match.start(), match.end(), _sessions_in(match)))
    return tuple(sessions for *_, sessions in sorted(found))


_ONES: Final = (
    "one two three four five six seven eight nine ten eleven twelve"
    " thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
)
_ORDINAL_ONES: Final = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
    " thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth"
)
_TENS: Final = "twenty thirty forty fifty sixty seventy eighty ninety"


def _names() -> Iterator[tuple[str, int]]:
    ones, ordinals = _ONES.split(), _ORDINAL_ONES.split()
    yield from zip(ones, range(1, 20), strict=True)
    yield from zip(ordinals, range(1, 20), strict=True)
    for ten, value in zip(_TENS.split(), range(20, 100, 10), strict=True):
        yield from ((ten, value), (f"{ten[:-1]}ieth", value))
        for words in (ones, ordinals):
            yield from ((f"{ten}-{one}", value + count) for count, one in enumerate(words[:9], 1))


_NUMBERS: Final = dict(_names())
_N: Final = rf"(?:\d{{1,4}}(?:st|nd|rd|th)?|{'|'.join(sorted(_NUMBERS, key=len, reverse=True))})"
_TALKS: Final = r"(?:sessions?|conversations?|chats?|talks?|discussions?)"
# "My last session at the gym" is none of ours.
_OURS: Final = rf"{_TALKS}\b(?!\s+(?:at|in|on|about|of|for|to|with (?!you\b|me\b|us\b))\b)"
_WE_TALKED: Final = r"\s+(?:that\s+)?we\s+(?:last\s+)?(?:talked|spoke|chatted)"
# Neither is "her last session".
_NOT_THEIRS: Final = r"(?<!\bmy )(?<!\bhis )(?<!\bher )(?<!\btheir )(?<!'s )"
_CN: Final = r"(?:\d{1,4}|[一二三四五六七八九]?十[一二三四五六七八九]?|[一两二三四五六七八九])"
_CTALK: Final = r"(?:聊天|对话|会话|谈话|交谈|交流|聊)"


def _number(words: str) -> int:
    if digits := re.match(r"\d+", words):
        return int(digits[0])
    return 1 if words == "首" else _NUMBERS.get(words.lower()) or int(chinese.number(words))


def _sessions_in(match: re.Match[str]) -> Sessions:
    """The conversations that a match of a rule names, by the groups in which its numbers stand; else the latest one."""
    match {name: _number(words) for name, words in match.groupdict().items()}:
        case {"from": first, "to": last}:
            return Sessions(min(first, last), max(first, last))
        case {"nth": count}:
            return Sessions(count, count)
        case {"ago": count}:
            return Sessions(-count, -count)
        case {"first": count}:
            return Sessions(1, max(count, 1))
        case {"last": count}:
            return Sessions(-max(count, 1), -1)
    return Sessions(-1, -1)


def _english(pattern: str) -> re.Pattern[str]:
    return regex(rf"\b{pattern}", re.IGNORECASE)


# Tried in this order: a later rule finds nothing in words that an earlier one took.
_RULES: Final = (
    _english(rf"{_TALKS}\s+(?P<from>{_N})\s*(?:-|–|to|through|until|and)\s*(?P<to>{_N})\b"),
    _english(rf"(?P<ago>{_N})\s+{_TALKS}\s+(?:ago|back|earlier)\b"),
    _english(rf"(?:last|past|latest|previous)\s+(?P<last>{_N})\s+{_OURS}"),
    _english(rf"first\s+(?P<first>{_N})\s+{_OURS}"),
    _english(rf"session\s+(?:number\s+|#\s*)?(?P<nth>{_N})\b"),
    _english(rf"(?:our|the)\s+(?P<nth>{_N})(?:\s+{_OURS}|\s+time{_WE_TALKED})"),
    _english(rf"{_NOT_THEIRS}(?:(?:last|latest|previous|most recent)\s+{_OURS}|last\s+time{_WE_TALKED})"),
    regex(rf"第(?P<from>{_CN})次?(?:到|至|-|~|—)第?(?P<to>{_CN})次{_CTALK}"),
    regex(rf"第(?P<nth>{_CN})次{_CTALK}"),
    regex(rf"(?P<nth>首)次{_CTALK}"),
    regex(rf"(?P<ago>{_CN})次{_CTALK}(?:之前|以前|前)"),
    regex(rf"(?:最近|过去|前面?|之前)的?(?P<last>{_CN})次{_CTALK}"),
    regex(rf"上一?次(?:的|我们的?|咱们的?)?{_CTALK}"),
)
