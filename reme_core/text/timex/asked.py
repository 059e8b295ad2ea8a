"""The time that a query asks about: "What did we discuss last Tuesday?", 三次聊天前说了什么."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

from reme_core.errors import InputError
from reme_core.text.timex.find import find_times
from reme_core.text.timex.sessions import Sessions, find_sessions
from reme_core.types import TimeRange

# Nobody says how long ago "recently" is.
_VAGUE: Final = re.compile(
    r"\b(?:recent\w*|lately|latest|these days|nowadays|currently|now)\b|近期|最近|近来|目前|现在", re.IGNORECASE
)
_OF_TALK: Final = re.compile(
    r"\b(?:discuss\w*|talk\w*|chat\w*|conversations?|spoke|say|said|mention\w*|tell|told|br(?:ing|ought) up)\b"
    r"|聊|说过|说了|讨论|谈|提到|提过|告诉",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class AskedTime:
    """The time that a query asks about.

    Attributes:
        ranges: Stretches of time that the query names.
        sessions: Conversations that the query names by their order.
        of_talk: Whether the query asks what was said then ("What did we discuss in May?"), not what happened then.
        current_session: The conversation of the query, which "three chats ago" does not count.
    """

    ranges: Sequence[TimeRange]
    sessions: Sequence[Sessions] = ()
    of_talk: bool = False
    current_session: str = ""

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
            InputError: `time` is of another type, or the time zone is unknown.
        """
        if time is None or isinstance(time, TimeRange):
            return None if time is None else cls([time])
        if time != "query":
            raise InputError(f"time is 'query', a TimeRange or None, not {time!r:.60}")
        if not isinstance(query, str):
            return None  # recall refuses the query with an error of its own
        return asked_time(query, now=now or datetime.now(UTC), timezone=timezone, current_session=current_session)


def asked_time(query: str, *, now: datetime, timezone: str = "UTC", current_session: str = "") -> AskedTime | None:
    """The time that a query asks about; None if it names none.

    Vague times ("recently"), habits ("every Monday") and times that are counted from an event ("the day before my
    birthday") are left out. A time that is not over yet ("this weekend") counts only if the query asks what was said.

    Args:
        query: A question, in any language in which `find_times` finds times.
        now: When it is asked.
        timezone: IANA name of the zone in which the asker's days begin.
        current_session: The conversation in which it is asked.

    Raises:
        InputError: The time zone is unknown.

    >>> from datetime import UTC
    >>> asked = asked_time("What did I paint in May?", now=datetime(2026, 11, 18, tzinfo=UTC))
    >>> str(asked.ranges[0].start), asked.of_talk
    ('2026-05-01 00:00:00+00:00', False)
    >>> asked_time("What shall I paint?", now=datetime(2026, 11, 18, tzinfo=UTC)) is None
    True
    """
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
