"""Values between the types: numbers of any size, and ranges with one open end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import hypothesis
import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st

from reme_core.engine import Engine
from reme_core.episodes.rules import Episode
from reme_core.errors import InputError
from reme_core.prompts.note import render
from reme_core.settings import Settings
from reme_core.store.tool_calls import ToolCallResult
from reme_core.sync import ReMe
from reme_core.types import Memory, Message, TimeRange, Trajectory, new_id

FINITE = st.floats(allow_nan=False, allow_infinity=False)
COUNT = st.integers(-(2**31), 2**31 - 1)


@pytest.fixture
def reme(settings: Settings) -> Iterator[ReMe]:
    """A ReMe that all examples of a property share."""
    with ReMe(settings) as reme:
        yield reme


@given(
    numbers=st.lists(st.tuples(st.floats(0, 1), FINITE, COUNT, COUNT, COUNT), min_size=1, max_size=20),
    changed=st.tuples(st.floats(0, 1), FINITE),
)
@example(numbers=[(1e-39, 5e-324, 0, 0, 1)], changed=(5e-324, -1.7976931348623157e308))
@example(numbers=[(0.3, 0.1, 1, 1, 2)], changed=(0.1 + 0.2, 1 / 3))
@hypothesis.settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_numbers_of_a_memory_come_back_as_they_went_in(
    reme: ReMe, numbers: list[tuple[float, float, int, int, int]], changed: tuple[float, float]
) -> None:
    workspace = new_id()
    names = ("importance", "score", "freq", "utility", "seen_count")
    added = [Memory(content=f"number {n}", **dict(zip(names, row, strict=True))) for n, row in enumerate(numbers)]
    ids = [memory.memory_id for memory in reme.memories.add(workspace, added)]
    stored = {memory.memory_id: memory for memory in reme.memories.list(workspace)}
    assert [tuple(getattr(stored[i], name) for name in names) for i in ids] == numbers

    importance, score = changed
    after = reme.memories.update(workspace, ids[0], importance=importance, score=score)
    assert (after.importance, after.score) == changed
    assert reme.memories.get(workspace, ids[0]) == after
    then = {memory.memory_id: memory for memory in reme.memories.as_of(workspace, datetime.now(UTC))}
    assert (then[ids[0]].importance, then[ids[0]].score) == changed


async def test_a_range_of_time_may_be_open_on_either_side(settings: Settings) -> None:
    past, future = datetime(2000, 1, 1, tzinfo=UTC), datetime(3000, 1, 1, tzinfo=UTC)
    async with Engine(settings) as reme:
        await reme.memories.add("w", "Rex is a dog.")
        for known, count in ((TimeRange(start=past), 1), (TimeRange(end=future), 1), (TimeRange(end=past), 0)):
            assert len(await reme.recall("w", "Rex", known=known)) == count


EAST, WEST = timezone(timedelta(hours=14)), timezone(-timedelta(hours=12))
EDGES = [datetime.min, datetime.min.replace(tzinfo=EAST), datetime.max, datetime.max.replace(tzinfo=WEST)]
"""Sentinels for "unknown" and "for ever"; some of them lie outside the calendar in UTC."""


@pytest.mark.parametrize("moment", EDGES)
async def test_what_was_said_at_the_edge_of_the_calendar_is_stored_and_shown_everywhere(
    settings: Settings, moment: datetime
) -> None:
    settings.timezone = "Pacific/Kiritimati"
    said = Message(role="user", content="I moved to Oslo last week with my dog Rex.", sent_at=moment, session_id="s")
    async with Engine(settings) as reme:
        await reme.record("w", [said])
        await reme.memories.add("w", Memory(content="Rex is a dog.", valid_until=moment))
        await reme.summarise("w")
        assert [message.content for message in await reme.messages("w", "s")] == [said.content]
        assert await reme.memories.list("w")
        hits = (await reme.recall("w", "Rex", kind=["personal", "conversation"])).hits
        for zone in ("Pacific/Kiritimati", "Pacific/Honolulu"):
            assert "Rex" in render(hits, 500, timezone=zone).text


@pytest.mark.parametrize("now", [datetime.min, datetime.max])
async def test_a_question_may_be_asked_at_the_edge_of_the_calendar(settings: Settings, now: datetime) -> None:
    async with Engine(settings) as reme:
        await reme.record("w", [Message(content="I live in Lisbon.")])
        for query in ("Where did I live ten years ago?", "What did I say tomorrow?", "三年前我住哪"):
            for kind in ("conversation", "personal"):
                await reme.recall("w", query, kind=kind, now=now, timezone="Asia/Tokyo")


@pytest.mark.parametrize("name", ["freq", "utility", "seen_count"])
def test_a_count_beyond_what_is_kept_is_refused_before_it_gets_there(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        Memory(content="Rex is a dog.", **{name: 2**31})


def _nest(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"inner": value}
    return value


@pytest.mark.parametrize(
    "make",
    [
        lambda value: ToolCallResult(tool_name="t", input=value),
        lambda value: ToolCallResult(tool_name="t", metadata=value),
        lambda value: Episode(metadata=value),
        lambda value: Memory(content="x", metadata=value),
    ],
)
def test_what_is_nested_too_deeply_is_refused_in_words(make: Callable[[dict[str, Any]], object]) -> None:
    make(_nest(99))
    with pytest.raises(InputError, match="nested deeper than 100 levels; flatten it"):
        make(_nest(400))


@pytest.mark.parametrize("score", [float("nan"), float("inf"), -1e308])
@pytest.mark.parametrize("make", [Trajectory, Episode, lambda score: ToolCallResult(tool_name="t", score=score)])
def test_a_score_of_which_no_mean_can_be_calculated_is_refused(make: Callable[..., object], score: float) -> None:
    with pytest.raises(InputError, match="score: give a finite number, at most 1e\\+100"):
        make(score=score)


async def test_an_attempt_is_learnt_from_whatever_characters_it_has(settings: Settings) -> None:
    said = [Message(content="Read the file a.bin \0"), Message(role="assistant", content="It holds \ud800.")]
    attempt = Trajectory(task_id="t\0", score=1.0, messages=said)
    assert [m.content for m in said] == ["Read the file a.bin \0", "It holds \ud800."]  # the caller's own stay
    async with Engine(settings) as reme:
        for trajectory in (attempt, {"task_id": "t\0", "score": 1.0, "messages": said}):
            await reme.execute("summary_task_memory", workspace_id="w", trajectories=[trajectory])
        [lesson] = await reme.memories.list("w")
    assert (lesson.subject, "a.bin \ufffd" in lesson.when_to_use) == ("t\ufffd", True)


@pytest.mark.parametrize("value", [object(), b"\xff"])
def test_metadata_that_json_cannot_have_is_refused_in_words_and_nothing_is_stored(reme: ReMe, value: object) -> None:
    own, fine = {"own": value}, Message(content="fine")
    doors: list[Callable[[], object]] = [
        lambda: reme.record("odd", [fine, Message(content="a", metadata=own)]),
        lambda: reme.memories.add("odd", [Memory(content="fine"), Memory(content="a", metadata=own)]),
        lambda: reme.episodes.record_many("odd", [{"messages": [fine]}, {"metadata": own}]),
        lambda: reme.tools.record("odd", [{"tool_name": "t"}, {"tool_name": "u", "metadata": own}]),
    ]
    for door in doors:
        with pytest.raises(InputError, match="holds a value that JSON cannot have"):
            door()
    assert "odd" not in reme.workspaces.list()
