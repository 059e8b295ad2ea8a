"""Times on the days when the clocks are changed: hours and minutes are counted as they pass, days on the clocks."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reme_core.errors import InputError
from reme_core.text.timex import asked_time, find_times, resolve, times_of
from reme_core.text.timex.statements import calendar_range
from reme_core.types import TimeRange

BERLIN = "Europe/Berlin"
FORWARD, BACK = datetime(2024, 3, 31, 1, 30, tzinfo=UTC), datetime(2024, 10, 27, 2, 30, tzinfo=UTC)


def in_utc(span: TimeRange) -> str:
    assert span.start
    assert span.end
    return "..".join(f"{moment.astimezone(UTC):%m-%dT%H:%M}" for moment in (span.start, span.end))


@pytest.mark.parametrize(
    ("now", "text", "expected"),
    [
        (FORWARD, "What did I say an hour ago?", "03-31T00:00..03-31T01:00"),
        (FORWARD, "我一小时前说了什么？", "03-31T00:00..03-31T01:00"),
        (FORWARD, "in the last two hours", "03-30T23:30..03-31T01:30"),
        (FORWARD, "过去两小时", "03-30T23:30..03-31T01:30"),
        (FORWARD, "Was habe ich vor zwei Stunden gesagt?", "03-30T23:00..03-31T00:00"),
        (FORWARD - timedelta(hours=1), "in two hours' time", "03-31T02:00..03-31T03:00"),
        (FORWARD - timedelta(hours=1), "两小时后", "03-31T02:00..03-31T03:00"),
        (FORWARD - timedelta(hours=1), "in the next two hours", "03-31T00:30..03-31T02:30"),
        (FORWARD, "eight hours after 8 pm yesterday", "03-31T03:00..03-31T04:00"),
        (FORWARD, "昨天晚上八点后八小时", "03-31T03:00..03-31T04:00"),
        (FORWARD, "yesterday", "03-29T23:00..03-30T23:00"),
        (FORWARD, "today", "03-30T23:00..03-31T22:00"),
        (FORWARD, "at 2 am today", "03-31T01:00..03-31T02:00"),
        (FORWARD, "2024-03-31 02:30", "03-31T01:00..03-31T02:00"),
        (FORWARD, "今天凌晨两点", "03-31T01:00..03-31T02:00"),
        (BACK, "two hours ago", "10-27T00:00..10-27T01:00"),
        (BACK, "两小时前", "10-27T00:00..10-27T01:00"),
        (BACK, "in the last two hours", "10-27T00:30..10-27T02:30"),
        (BACK, "Was habe ich vor zwei Stunden gesagt?", "10-27T00:00..10-27T01:00"),
        (BACK - timedelta(minutes=75), "in the last half an hour", "10-27T00:45..10-27T01:15"),
        (BACK - timedelta(minutes=75), "in the next half an hour", "10-27T01:15..10-27T01:45"),
        (BACK - timedelta(minutes=80), "a few minutes ago", "10-27T01:00..10-27T02:00"),
        (BACK - timedelta(hours=2, minutes=25), "几分钟前", "10-26T23:00..10-27T01:00"),
    ],
)  # fmt: skip
def test_hours_are_counted_as_they_pass(now: datetime, text: str, expected: str) -> None:
    (mention,) = find_times(text, now=now, timezone=BERLIN)
    assert in_utc(mention.range) == expected


@pytest.mark.parametrize(("text", "before"), [("eight hours after the party", 20), ("聚会后八小时", 20)])
def test_hours_from_an_anchor_are_counted_as_they_pass(text: str, before: int) -> None:
    (mention,) = find_times(text, now=FORWARD, timezone=BERLIN)
    party = datetime(2024, 3, 30, before, tzinfo=ZoneInfo(BERLIN))
    assert in_utc(resolve(mention, party)) == "03-31T03:00..03-31T04:00"


def test_an_hour_that_the_clocks_show_twice_is_over_after_its_second_half() -> None:
    zone = ZoneInfo(BERLIN)
    first = datetime(2024, 10, 27, 2, 30, tzinfo=zone)
    assert asked_time("What happened 5 minutes ago?", now=first, timezone=BERLIN) is None
    (asked,) = asked_time("What happened 61 minutes ago?", now=first.replace(fold=1), timezone=BERLIN).ranges
    assert in_utc(asked) == "10-27T00:00..10-27T01:00"


def test_a_range_may_end_at_an_earlier_hour_of_the_clock() -> None:
    start = datetime(2024, 10, 27, 2, 45, tzinfo=ZoneInfo(BERLIN))
    end = datetime(2024, 10, 27, 2, 15, fold=1, tzinfo=ZoneInfo(BERLIN))
    assert in_utc(TimeRange(start=start, end=end)) == "10-27T00:45..10-27T01:15"
    with pytest.raises(InputError, match="before it starts"):
        TimeRange(start=end, end=start)


def test_a_day_that_a_zone_skips_is_no_time() -> None:
    samoa, after = "Pacific/Apia", datetime(2011, 12, 31, 12, tzinfo=UTC)
    assert find_times("We met on December 30, 2011", now=after, timezone=samoa) == []
    assert calendar_range("2011-12-30", samoa) is None
    assert times_of("We met on the 30th", after, samoa) == []
    (mention,) = find_times("the day after the wedding", now=after, timezone=samoa)
    with pytest.raises(InputError, match="beyond the calendar"):
        resolve(mention, datetime(2011, 12, 29, tzinfo=ZoneInfo(samoa)))


def test_a_statement_may_place_a_time_in_an_hour_that_the_clocks_skip() -> None:
    (when,) = times_of("The train leaves on Sunday at 2 am", datetime(2024, 3, 27, tzinfo=UTC), BERLIN)
    assert in_utc(when.range) == "03-31T01:00..03-31T02:00"


def test_no_time_is_left_of_a_day_that_just_began() -> None:
    midnight = datetime(2024, 6, 20, tzinfo=UTC)
    (mention,) = find_times("in the past half a day", now=midnight)
    assert in_utc(mention.range) == "06-19T12:00..06-20T00:00"
    assert find_times("in the past 0 hours", now=midnight) == []


# Days on which the clocks of each zone are changed: by an hour, by half of one, around Ramadan, and by a whole day.
CHANGES = [
    (BERLIN, date(2024, 3, 31)), (BERLIN, date(2024, 10, 27)), ("America/New_York", date(2024, 3, 10)),
    ("America/New_York", date(2024, 11, 3)), ("Australia/Lord_Howe", date(2024, 4, 6)),
    ("Australia/Lord_Howe", date(2024, 10, 5)), ("Africa/Casablanca", date(2024, 3, 10)),
    ("Africa/Casablanca", date(2024, 4, 14)), ("Pacific/Apia", date(2011, 12, 30)), ("Pacific/Apia", date(2012, 4, 1)),
    ("America/Havana", date(2024, 11, 3)),
]  # fmt: skip
CHANGED = st.sampled_from(CHANGES)
MINUTES = st.integers(-2 * 24 * 60, 2 * 24 * 60)  # around the noon of the day of change


def moment_near(day: date, minutes: int) -> datetime:
    return datetime(day.year, day.month, day.day, 12, tzinfo=UTC) + timedelta(minutes=minutes)


@settings(max_examples=600, deadline=None)
@given(
    CHANGED,
    MINUTES,
    st.integers(1, 72),
    st.sampled_from([("hours", "小时", 60), ("minutes", "分钟", 1)]),
    st.sampled_from([
        (-1, "{} {} ago", "{}{}前", True), (1, "{} {} from now", "{}{}后", True),
        (-1, "in the last {} {}", "过去{}{}", False), (1, "in the next {} {}", "未来{}{}", False),
    ]),
    st.booleans(),
)  # fmt: skip
def test_as_much_time_passes_as_was_said(
    changed: tuple[str, date],
    minutes: int,
    count: int,
    unit: tuple[str, str, int],
    shape: tuple[int, str, str, bool],
    chinese: bool,
) -> None:
    (timezone, day), (sign, english, in_chinese, is_hour) = changed, shape
    now = moment_near(day, minutes)
    text = (in_chinese if chinese else english).format(count, unit[1] if chinese else unit[0])
    (mention,) = find_times(text, now=now, timezone=timezone)
    assert mention.range.start
    assert mention.range.end
    start, end = mention.range.start.astimezone(UTC), mention.range.end.astimezone(UTC)
    then = now + sign * timedelta(minutes=count * unit[2])
    if is_hour:
        assert start <= then < end
        assert end - start == timedelta(hours=1)
    else:
        assert (start, end) == (min(now, then), max(now, then))


TEXTS = """
    today
    yesterday
    tomorrow
    last night
    at 2 am today
    midnight yesterday
    between 2:15 and 2:45 am today
    on Sunday at 2:30
    last Friday
    three hours after 8 pm yesterday
    20 minutes before 3 am today
    a few minutes ago
    a few hours ago
    half a day ago
    in the past half a day
    the past 1 day
    the next three days
    earlier this week
    two days ago
    from two hours ago to an hour ago
    two months after last Friday
    from a month after last Friday to May
    the summer before last
    last Christmas
    since 5 hours ago
    今天
    昨晚
    今天凌晨两点
    几分钟前
    几小时前
    今天凌晨一点后三小时
    上周五
    从三小时前到一小时前
    春节后两个月到五月
    三天前
    Was habe ich vor drei Stunden gesagt?
    Was habe ich gestern gesagt?
    ¿Qué le dije a mi hermana hace dos horas?
"""


@settings(max_examples=400, deadline=None)
@given(
    CHANGED,
    MINUTES,
    st.sampled_from([line.strip() for line in TEXTS.strip().splitlines()]),
)
def test_no_time_is_empty_when_the_clocks_change(changed: tuple[str, date], minutes: int, text: str) -> None:
    timezone, day = changed
    mentions = find_times(text, now=moment_near(day, minutes), timezone=timezone)
    # The clocks of Samoa never showed 30 December 2011, and a week may have just begun.
    assert mentions or "Apia" in timezone or text == "earlier this week"
    for mention in mentions:
        for side in (mention.range.start, mention.range.end):
            assert side is None or side.tzinfo is ZoneInfo(timezone)
        if mention.range.start and mention.range.end:
            assert mention.range.start.astimezone(UTC) < mention.range.end.astimezone(UTC)
