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

# Of these nobody says how long ago they are.
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
        ranges: Stretches of time that it names.
        sessions: Conversations that it names by their order.
        of_talk: Whether it asks what was said then ("What did we discuss in May?"), not what happened then.
        current_session: The conversation in which it is asked, which "three chats ago" does not count.
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
        """The time that somebody who recalls says, or leaves to the query; for the rest see `asked_time`.

        Raises:
            InputError: It is none of these, or the time zone is unknown.
        """
        if time is None or isinstance(time, TimeRange):
            return None if time is None else cls([time])
        if time != "query":
            raise InputError(f"time is 'query', a TimeRange or None, not {time!r:.60}")
        if not isinstance(query, str):
            return None  # recall says that it is none
        return asked_time(query, now=now or datetime.now(UTC), timezone=timezone, current_session=current_session)


def asked_time(query: str, *, now: datetime, timezone: str = "UTC", current_session: str = "") -> AskedTime | None:
    """The time that a query asks about; None where it names none.

    Vague times ("recently"), habits ("every Monday") and what is reckoned from something else ("the day before my
    birthday") are none. What happens in a time that is not over ("this weekend", "on Friday" to come) may have been
    told at any time, so it counts only for what was said.

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
        if of_talk or (mention.range.end and mention.range.end <= now)
    ]
    return AskedTime(ranges, sessions, of_talk, current_session) if ranges or sessions else None
