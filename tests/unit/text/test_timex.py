"""Positions, zones, anchors, the future, and that no text breaks it."""

import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reme_core.errors import InputError
from reme_core.text.timex import chinese_joins, english_joins, find_times, has_time, render_date, resolve

NOW = datetime(2026, 11, 18, 15, 30)


def days(text: str, now: datetime = NOW) -> list[date | None]:
    return [mention.range.start.date() if mention.range.start else None for mention in find_times(text, now=now)]


def test_mentions_stand_where_they_say() -> None:
    text = "Yesterday I met Li Lei, whom I’d last seen in May 2019."
    first, second = find_times(text, now=NOW)
    assert (first.text, second.text) == ("Yesterday", "May 2019")
    assert [text[m.start : m.end] for m in (first, second)] == ["Yesterday", "May 2019"]
    assert (first.relative, second.relative) == (True, False)


def test_a_day_begins_in_the_speakers_zone() -> None:
    late = datetime(2026, 11, 18, 23, 30, tzinfo=UTC)
    (mention,) = find_times("今天", now=late, timezone="Asia/Shanghai")
    assert mention.range.start == datetime(2026, 11, 19, tzinfo=ZoneInfo("Asia/Shanghai"))
    (mention,) = find_times("today", now=late)
    assert mention.range.start == datetime(2026, 11, 18, tzinfo=UTC)


def test_an_unknown_zone_is_named() -> None:
    with pytest.raises(InputError, match="Mars/Olympus"):
        find_times("today", now=NOW, timezone="Mars/Olympus")


@pytest.mark.parametrize(
    ("text", "first_day"),
    [
        ("We met on Thursday", date(2026, 11, 12)),
        ("We met in May '98", date(1998, 5, 1)),
        ("We will meet in May '31", date(2031, 5, 1)),
        ("We will meet on Thursday", date(2026, 11, 19)),
        ("Will met us on Thursday", date(2026, 11, 12)),
        ("The exam was in December", date(2025, 12, 1)),
        ("I'm going to Rome in December, I plan to fly", date(2026, 12, 1)),
        ("I plan to fly in December", date(2026, 12, 1)),
        ("周四见过面", date(2026, 11, 12)),
        ("我计划周四见面", date(2026, 11, 19)),
        ("十二月考试了", date(2025, 12, 1)),
        ("打算十二月去旅行", date(2026, 12, 1)),
    ],
)
def test_bare_names_are_past_unless_the_clause_looks_ahead(text: str, first_day: date) -> None:
    assert days(text) == [first_day]


@pytest.mark.parametrize(
    ("text", "anchor", "offset", "start"),
    [
        ("What happened two days before my birthday?", "my birthday", -2, date(2026, 5, 5)),
        ("a week after Caroline's wedding we moved", "Caroline's wedding", 7, date(2026, 5, 14)),
        ("the day after the concert", "the concert", 1, date(2026, 5, 8)),
        ("我生日前两天做了什么", "我生日", -2, date(2026, 5, 5)),
        ("她的婚礼后一周", "她的婚礼", 7, date(2026, 5, 14)),
        ("毕业三天后", "毕业", 3, date(2026, 5, 10)),
    ],
)
def test_an_anchor_waits_for_memory(text: str, anchor: str, offset: int, start: date) -> None:
    (mention,) = find_times(text, now=NOW)
    assert (mention.anchor, mention.offset) == (anchor, timedelta(days=offset))
    assert (mention.range.start, mention.range.end) == (None, None)
    resolved = resolve(mention, date(2026, 5, 7))
    assert resolved.start == datetime(start.year, start.month, start.day, tzinfo=UTC)
    assert resolved.end == resolved.start + timedelta(days=1)


@pytest.mark.parametrize(
    ("text", "hour"),
    [
        ("two hours after 3 pm tomorrow", 17),
        ("30 minutes after 3 pm tomorrow", 15),
        ("two hours before 3 pm tomorrow", 13),
        ("明天下午三点后两小时", 17),
        ("明天下午三点之后30分钟", 15),
        ("明天下午三点前两小时", 13),
    ],
)
def test_hours_are_counted_from_the_hour_itself(text: str, hour: int) -> None:
    (mention,) = find_times(text, now=NOW)
    assert mention.range.start == datetime(NOW.year, NOW.month, NOW.day + 1, hour, tzinfo=UTC)


def test_hours_from_an_anchor_keep_its_zone() -> None:
    (mention,) = find_times("two hours after the wedding", now=NOW)
    zone = ZoneInfo("Asia/Shanghai")
    assert resolve(mention, datetime(2026, 5, 7, 14, 40, tzinfo=zone)).start == datetime(2026, 5, 7, 16, tzinfo=zone)


def test_only_what_has_an_anchor_is_resolved() -> None:
    (mention,) = find_times("yesterday", now=NOW)
    with pytest.raises(InputError, match="no anchor"):
        resolve(mention, date(2026, 5, 7))
    (mention,) = find_times("two days before my birthday", now=NOW)
    with pytest.raises(InputError, match="beyond the calendar"):
        resolve(mention, date(1, 1, 1))


@pytest.mark.parametrize(
    ("now", "text", "start"),
    [
        (datetime(2026, 1, 10), "last spring", date(2025, 3, 1)),
        (datetime(2026, 1, 10), "this winter", date(2025, 12, 1)),
        (datetime(2026, 7, 1), "last summer", date(2025, 6, 1)),
        (datetime(2026, 4, 2), "between March and May", date(2025, 3, 1)),
        (datetime(2024, 2, 29), "a year ago", date(2023, 1, 1)),
        (datetime(2026, 3, 31), "one month ago", date(2026, 2, 1)),
        (datetime(2026, 11, 22), "上周日", date(2026, 11, 15)),
        (datetime(2026, 11, 23), "上周日", date(2026, 11, 22)),
        (datetime(2026, 5, 20), "May", None),
        (datetime(2026, 5, 20), "in May", date(2026, 5, 1)),
        (datetime(2027, 1, 1), "on February 29", date(2024, 2, 29)),
    ],
)
def test_the_calendars_edges(now: datetime, text: str, start: date | None) -> None:
    assert days(text, now) == ([start] if start else [])


def test_languages_may_be_mixed() -> None:
    assert days("yesterday 昨天", NOW) == [date(2026, 11, 17)] * 2


def test_dates_are_rendered_with_their_weekday() -> None:
    assert render_date(datetime(2023, 5, 7), "en") == "2023-05-07 Sunday"
    assert render_date(datetime(2023, 5, 7), "zh-CN") == "2023-05-07 星期日"


def test_dateparser_is_loaded_only_when_it_is_needed() -> None:
    code = (
        "import sys, datetime; from reme_core.text.timex import find_times; "
        "assert find_times('last spring 上周三', now=datetime.datetime(2026, 1, 1)); "
        "assert 'dateparser' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


PIECES = st.sampled_from(
    """the a in on at since until before after from to between and last next this early mid end of May march Monday
    Sunday, 7 7th 31 99 999 2019 2023-02-30 Q3 quarter spring fall 90s decades years weeks days ago 3pm noon morning
    Christmas my birthday will every half couple hours 30 minutes
    去年 前年 大前天 三月 三十一号 2020年 上周 周末 五 年代 九十 春节 前 后 三天 999年 从 到 以来 之间 每 生日 下午
    十二点 小时""".split()  # noqa: SIM905
)


@settings(max_examples=400, deadline=None)
@given(
    st.lists(PIECES, max_size=12),
    st.sampled_from(["", " "]),
    st.datetimes(datetime(1901, 1, 1), datetime(2199, 1, 1)),
    st.sampled_from(["UTC", "Europe/Berlin"]),
)
def test_any_mixture_gives_ordered_mentions_and_no_error(
    pieces: list[str], gap: str, now: datetime, timezone: str
) -> None:
    text = gap.join(pieces)
    mentions = find_times(text, now=now, timezone=timezone)
    if not has_time(text):
        assert not english_joins.find(text, now) and not chinese_joins.find(text, now)
    for mention in mentions:
        assert text[mention.start : mention.end] == mention.text != ""
        assert mention.recurring or mention.anchor or mention.range.start or mention.range.end
    for before, after in pairwise(mentions):
        assert before.end <= after.start


@settings(max_examples=300, deadline=None)
@given(st.text("一二三十百两半几９20月日号年周天前后个上下点春节生日从到每世纪代", max_size=14))
def test_any_row_of_chinese_time_characters_is_taken(text: str) -> None:
    assert all(mention.text in text for mention in find_times(text, now=NOW))


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=80), st.datetimes(), st.sampled_from(["UTC", "Asia/Shanghai", "America/New_York"]))
def test_any_text_at_any_time_is_taken(text: str, now: datetime, timezone: str) -> None:
    assert all(mention.text in text for mention in find_times(text, now=now, timezone=timezone))
