"""What time a query asks about, and which conversations it counts."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from reme_core.errors import InputError
from reme_core.text.timex import asked_time
from reme_core.text.timex.asked import find_sessions

NOW = datetime(2024, 9, 15, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("What did we discuss in our thirty-first session?", [(31, 31)]),
        ("What was decided in session #4?", [(4, 4)]),
        ("the 3rd time we talked", [(3, 3)]),
        ("Sum up sessions 9 to 7.", [(7, 9)]),
        ("three chats ago", [(-3, -3)]),
        ("What came up in the last two conversations?", [(-2, -1)]),
        ("our first 3 chats", [(1, 3)]),
        ("What did we talk about last time we spoke?", [(-1, -1)]),
        ("第十二次对话", [(12, 12)]),
        ("第2到第4次聊天说了什么", [(2, 4)]),
        ("两次对话前", [(-2, -2)]),
        ("最近三次聊天", [(-3, -1)]),
        ("首次交流", [(1, 1)]),
        ("How was my last session?", []),
        ("When was the last time you talked to Jimmy?", []),
        ("the second session of parliament", []),
        ("My first conversation with Ann", []),
        ("三次", []),
    ],
)
def test_conversations_that_are_counted(query: str, expected: list[tuple[int, int]]) -> None:
    assert list(find_sessions(query)) == expected


@pytest.mark.parametrize(
    ("query", "start", "end", "of_talk"),
    [
        ("What did she paint in May?", "2024-05-01", "2024-06-01", False),
        ("What did she paint between March 3 and 5?", "2024-03-03", "2024-03-06", False),
        ("What did we talk about this month?", "2024-09-01", "2024-10-01", True),
        ("五月去了哪里？", "2024-05-01", "2024-06-01", False),
        ("上周我们聊了什么？", "2024-09-02", "2024-09-09", True),
    ],
)
def test_a_time_that_is_asked_about(query: str, start: str, end: str, of_talk: bool) -> None:
    asked = asked_time(query, now=NOW)
    assert asked is not None
    (span,) = asked.ranges
    assert (str(span.start)[:10], str(span.end)[:10], asked.of_talk) == (start, end, of_talk)


@pytest.mark.parametrize(
    "query",
    [
        "What did she paint recently?",
        "What do I do every Monday?",
        "Am I away this weekend?",
        "What happened the day before my birthday?",
        "最近在忙什么？",
        "Where does she live?",
    ],
)
def test_what_names_no_time_that_was(query: str) -> None:
    assert asked_time(query, now=NOW) is None


def test_days_begin_where_the_asker_is() -> None:
    asked = asked_time("What did we discuss yesterday?", now=NOW, timezone="Asia/Shanghai")
    assert asked is not None and str(asked.ranges[0].start) == "2024-09-14 00:00:00+08:00"
    with pytest.raises(InputError, match="unknown time zone"):
        asked_time("What did we discuss yesterday?", now=NOW, timezone="Mars/Crater")
