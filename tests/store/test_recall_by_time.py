"""A query that speaks of a time gets what was said then, or what happened then."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest

from reme_core import Memory, Message, TimeRange
from reme_core.engine import Engine
from reme_core.errors import InputError

NOW = datetime(2024, 9, 15, 12, tzinfo=UTC)
TALKS = {
    "zoo": (datetime(2024, 3, 4, 9, tzinfo=UTC), ["The zoo was full of children.", "The lions slept all day."]),
    "boat": (datetime(2024, 5, 6, 9, tzinfo=UTC), ["I rented a boat on the lake.", "The engine broke at once."]),
    "bread": (datetime(2024, 8, 9, 9, tzinfo=UTC), ["My bread does not rise.", "It was the old yeast."]),
}


@pytest.fixture
async def reme(reme: Engine) -> Engine:
    for session, (begun, lines) in TALKS.items():
        messages = [
            Message(content=line, author="Ann", sent_at=begun + timedelta(minutes=place))
            for place, line in enumerate(lines)
        ]
        await reme.record("w", messages, session_id=session, wait=True)
    return reme


async def sessions_of(reme: Engine, query: str, **options: object) -> list[str]:
    """The sessions of the best two messages."""
    found = await reme.recall("w", query, kind="conversation", limit=2, now=NOW, **options)  # type: ignore[arg-type]
    return [hit.memory.subject for hit in found.hits]


@pytest.mark.parametrize(
    ("query", "session"),
    [
        ("What did we discuss in March?", "zoo"),
        ("What did we talk about on May 6th?", "boat"),
        ("What did we discuss in our second session?", "boat"),
        ("What did we discuss two sessions ago?", "boat"),
        ("What did we talk about last time we spoke?", "bread"),
        ("三月我们聊了什么？", "zoo"),
        ("第一次聊天说了什么？", "zoo"),
    ],
)
async def test_what_was_said_at_a_time_comes_first(reme: Engine, query: str, session: str) -> None:
    assert await sessions_of(reme, query) == [session, session]


async def test_times_can_be_passed_over(reme: Engine) -> None:
    hits = (await reme.recall("w", "What did we discuss in March?", kind="conversation", time=None, now=NOW)).hits
    assert {hit.parts.time for hit in hits} == {0}


async def test_what_was_said_then_is_relevant_whatever_it_is_about(reme: Engine) -> None:
    asked = {"kind": "conversation", "limit": 2, "now": NOW, "min_relevance": 0.5}
    assert (await reme.recall("w", "What did we discuss in March?", **asked)).hits  # type: ignore[arg-type]
    assert not (await reme.recall("w", "What did we discuss in July?", **asked)).hits  # type: ignore[arg-type]


async def test_what_happened_then_may_have_been_told_some_days_later(reme: Engine) -> None:
    hits = (await reme.recall("w", "What broke on May 3rd?", kind="conversation", now=NOW)).hits
    bonus = {hit.memory.subject: hit.parts.time for hit in hits}
    assert 0.2 < bonus["boat"] < 0.4
    assert bonus["zoo"] == pytest.approx(0, abs=0.01)


async def test_the_conversation_in_which_it_is_asked_is_not_counted(reme: Engine) -> None:
    await reme.record("w", Message(content="Good morning!", sent_at=NOW), session_id="today", wait=True)
    query = "What did we talk about last time we spoke?"
    assert (await sessions_of(reme, query))[0] == "today"
    assert await sessions_of(reme, query, current_session="today") == ["bread", "bread"]


async def test_the_conversations_of_others_are_not_counted(reme: Engine) -> None:
    said = [Message(content=line, author="Bob", sent_at=NOW) for line in ("I read a novel.", "It is about pirates.")]
    await reme.record("w", said, session_id="novel", user_id="bob", wait=True)
    query = "What did we talk about last time we spoke?"
    assert await sessions_of(reme, query) == ["novel", "novel"]
    assert await sessions_of(reme, query, author="Ann") == ["bread", "bread"]
    assert await sessions_of(reme, query, user_id="") == ["bread", "bread"]
    assert await sessions_of(reme, query, user_id="bob") == ["novel", "novel"]


async def test_two_conversations_of_one_day_are_two(reme: Engine) -> None:
    for minutes, line in ((3, "Let us talk about what we spoke of last time."), (2, "The lighthouse wants painting.")):
        said = Message(content=line, sent_at=NOW - timedelta(minutes=minutes))
        await reme.record("w", said, session_id=line[:3], wait=True)
    assert (await sessions_of(reme, "What did we talk about last time we spoke?"))[0] == "The"


async def test_filters_hold_for_what_was_said_then(reme: Engine) -> None:
    assert await sessions_of(reme, "What did we discuss in March?", author="Bob") == []
    assert set(await sessions_of(reme, "What did we discuss in March?", session_id="boat")) == {"boat"}


async def test_days_are_those_of_the_asker(reme: Engine) -> None:
    await reme.record("w", Message(content="It hails.", sent_at=datetime(2024, 9, 14, 17, tzinfo=UTC)), wait=True)
    query = "What did we discuss today?"
    (best, *_) = (await reme.recall("w", query, kind="conversation", now=NOW, timezone="Asia/Shanghai")).hits
    assert (best.content, best.parts.time) == ("It hails.", 2.0)
    (*_, last) = (await reme.recall("w", query, kind="conversation", now=NOW)).hits
    assert last.parts.time < 2


@pytest.mark.parametrize(("query", "first"), [("What did I say yesterday?", "lamp"), ("我今天说了什么？", "say")])
async def test_what_was_said_in_another_day_is_not_said_in_it_though_minutes_lie_between(
    reme: Engine, query: str, first: str
) -> None:
    midnight = datetime(2024, 9, 14, 16, tzinfo=UTC)  # in Shanghai
    for minutes, line in ((-2, "我今天说的是 the lamp."), (2, "I can't say what I did yesterday.")):
        await reme.record("night", Message(content=line, sent_at=midnight + timedelta(minutes=minutes)), wait=True)
    now = midnight + timedelta(minutes=9)
    hits = (await reme.recall("night", query, kind="conversation", now=now, timezone="Asia/Shanghai")).hits
    assert first in hits[0].content
    assert [hit.parts.time for hit in hits] == [2.0, pytest.approx(2 / math.e, abs=0.01)]


async def test_an_hour_that_the_clocks_show_twice_is_two(reme: Engine) -> None:
    # In Berlin the clocks show 2:45 for the first time, and then 2:15 for the second time.
    begun, now = datetime(2024, 10, 27, 0, 40, tzinfo=UTC), datetime(2024, 10, 27, 1, 15, tzinfo=UTC)
    lines = [Message(content=line, sent_at=begun + timedelta(minutes=10 * place)) for place, line in enumerate("ab")]
    await reme.record("night", lines, wait=True)
    query = "What did I say in the last 30 minutes?"
    hits = (await reme.recall("night", query, kind="conversation", now=now, timezone="Europe/Berlin")).hits
    assert {hit.content: hit.parts.time == 2 for hit in hits} == {"a": False, "b": True}


async def test_a_time_can_be_given_and_anything_else_is_refused(reme: Engine) -> None:
    march = TimeRange(start=datetime(2024, 3, 1, tzinfo=UTC), end=datetime(2024, 4, 1, tzinfo=UTC))
    hits = (await reme.recall("w", "children", kind="conversation", time=march)).hits
    assert [hit.parts.time > 0.3 for hit in hits if hit.memory.subject == "zoo"] == [True, True]
    with pytest.raises(InputError, match="time is 'query', a TimeRange or None, not 'May'"):
        await reme.recall("w", "children", time="May")  # type: ignore[arg-type]


async def test_memories_of_a_time_count_twice(reme: Engine) -> None:
    memories = [
        Memory(content="She swam in the sea.", observed_at=datetime(2024, month, 3, tzinfo=UTC)) for month in (4, 6)
    ]
    await reme.memories.add("m", memories)
    hits = (await reme.recall("m", "Where did she swim in June?", now=NOW)).hits
    assert [hit.parts.time for hit in hits] == [2, 1]
