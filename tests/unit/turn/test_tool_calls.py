"""How frameworks' calls of tools become entries of tool memory."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

import pytest

from reme_core.store.tool_calls import ToolCallResult
from reme_core.turn import OWN_TOOLS, calls_in, observe_call
from reme_core.turn.outbox import Deduplicator
from reme_core.types import Message, ToolCall


class Kept:
    def __init__(self) -> None:
        self.calls: list[ToolCallResult] = []

    def record_calls(self, calls: Sequence[ToolCallResult]) -> int:
        self.calls += calls
        return len(calls)


def asked(*calls: tuple[str, str], **options: Any) -> Message:
    return Message(
        role="assistant", tool_calls=[ToolCall(id=i, name=n, arguments='{"n": 1}') for i, n in calls], **options
    )


def answered(call_id: str, text: str, **options: Any) -> Message:
    return Message(role="tool", tool_call_id=call_id, content=text, **options)


def test_calls_are_paired_with_their_answers_whatever_stands_between() -> None:
    messages = [
        asked(("a", "search"), ("b", "book")),
        answered("b", "booked", metadata={"is_error": False, "seconds": 0.5}),
        Message(content="Hurry up!"),
        answered("a", "no such flight", metadata={"is_error": True}),
        asked(("c", "wait")),  # has not ended
    ]
    book, search = calls_in(messages)
    assert (book.tool_name, book.input, book.output, book.success, book.time_cost) == (
        "book", {"n": 1}, "booked", True, 0.5,
    )  # fmt: skip
    assert (search.tool_name, search.output, search.success, search.time_cost) == (
        "search",
        "no such flight",
        False,
        None,
    )


def test_where_the_model_names_no_ids_the_names_of_tools_tell_calls_apart() -> None:
    messages = [
        asked(("", "search"), ("", "book")),
        answered("", "booked", author="book"),
        answered("", "found", author="search"),
    ]
    assert [(call.tool_name, call.output) for call in calls_in(messages)] == [("book", "booked"), ("search", "found")]


def test_an_id_that_is_used_again_belongs_to_the_newest_call() -> None:
    messages = [asked(("1", "first")), asked(("1", "second")), answered("1", "done")]
    assert [call.tool_name for call in calls_in(messages)] == ["second"]


def test_the_same_messages_make_the_same_calls_and_other_messages_others() -> None:
    messages = [asked(("1", "clock")), answered("1", "noon", message_id="m")]
    later = [asked(("1", "clock")), answered("1", "noon", message_id="n")]
    first, again, other = (calls_in(given)[0].call_hash for given in (messages, list(messages), later))
    assert first == again != other
    assert calls_in(messages, "s", "t")[0].call_hash == calls_in(later, "s", "t")[0].call_hash


def test_a_call_that_is_watched_is_timed_and_told() -> None:
    kept = Kept()
    with observe_call(kept, "clock", {"city": "Lisbon"}, "s", "1") as running:
        running.finish("noon", success=True)
    [call] = kept.calls
    assert (call.tool_name, call.input, call.output, call.success) == ("clock", {"city": "Lisbon"}, "noon", True)
    assert call.time_cost is not None
    assert 0 <= call.time_cost < 5


def test_an_error_is_a_failure_and_is_not_swallowed() -> None:
    kept = Kept()
    with pytest.raises(ValueError, match="broken"), observe_call(kept, "clock", "{}"):
        raise ValueError("broken")
    assert [(call.success, call.output) for call in kept.calls] == [(False, "ValueError: broken")]


@pytest.mark.parametrize("error", [asyncio.CancelledError(), GeneratorExit(), KeyError("the framework interrupts")])
def test_a_call_that_is_broken_off_is_neither_success_nor_failure(error: BaseException) -> None:
    kept = Kept()
    with contextlib.suppress(type(error)), observe_call(kept, "clock", {}, interrupts=(KeyError,)):
        raise error
    assert kept.calls == []


def test_each_attempt_counts_and_a_replay_does_not() -> None:
    delta, kept = Deduplicator(), Kept()
    for output, success in (("no network", False), ("noon", True), ("noon", True)):
        with observe_call(kept, "clock", {}, "session", "message", "call-1") as running:
            running.finish(output, success=success)
    assert [call.output for call in delta.new_calls(kept.calls[:2])] == ["no network", "noon"]
    assert delta.new_calls(kept.calls[2:]) == []


def test_what_no_database_can_hold_is_cleaned() -> None:
    kept = Kept()
    with observe_call(kept, "clock", {"when": object, "x": float("nan")}) as running:
        running.finish("a\x00b\ud800")
    [call] = kept.calls
    assert call.output == "a\ufffdb\ufffd"
    assert call.input["x"] is None


def test_the_memory_tools_are_no_experience() -> None:
    calls = [ToolCallResult(tool_name=name, output="ok") for name in (*sorted(OWN_TOOLS), "clock")]
    assert [call.tool_name for call in Deduplicator().new_calls(calls)] == ["clock"]


def test_an_answer_is_recorded_though_a_memory_tool_is_called_by_the_same_id_elsewhere() -> None:
    said = [
        asked(("1", "search")), answered("1", "found"), asked(("1", "read_working_memory")), answered("1", "read"),
        asked(("1", "book")), answered("1", "booked"),
    ]  # fmt: skip
    new = Deduplicator().new_messages(said, "s/t")
    assert [message.content for message in new if message.role == "tool"] == ["found", "booked"]


@pytest.mark.parametrize(
    ("seconds", "kept"), [(1.5, 1.5), ("fast", None), (-1, None), (float("nan"), None), (None, None)]
)
def test_what_a_call_took_is_a_number_of_seconds_or_unknown(seconds: object, kept: float | None) -> None:
    messages = [asked(("1", "search")), answered("1", "found", metadata={"seconds": seconds})]
    assert [call.time_cost for call in calls_in(messages)] == [kept]
