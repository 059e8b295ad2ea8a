"""Whatever stands beside the words of a framework's message, the words are taken."""

from __future__ import annotations

import math
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from openai.types.chat import ChatCompletionMessageToolCall
from openai.types.chat.chat_completion_message_tool_call import Function
from pydantic import BaseModel

from reme_core.spool.waiting import sanitise
from reme_core.text.plain import plain_json
from reme_core.turn import calls_of_api, heard_call, heard_message, tool_call_result


class Place(BaseModel):
    at: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    near: Any = None


def nested(levels: int) -> dict[str, Any]:
    """A dict in a dict, and so on."""
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"in": value}
    return value


def inside_itself() -> dict[str, Any]:
    """What cannot be written down whole."""
    value: dict[str, Any] = {}
    value["one"] = value["other"] = Place(near=value)
    return value


SDK = ChatCompletionMessageToolCall(id="c1", type="function", function=Function(name="look_up", arguments='{"a": 1}'))
ODD = {
    "a number": 7,
    "no number": math.nan,
    "bytes": b"\xff",
    "a time": datetime(2026, 1, 1, tzinfo=UTC),
    "an id": uuid.UUID(int=1),
    "a set": {1},
    "a list": [None, {}],
    "a model": Place(),
    "an object": object(),
    "of an SDK": SDK,
    "not storable": "\0\ud800",
    "deep": nested(150),
    "deeper than Python": nested(5_000),
    "in itself": inside_itself(),
    "nothing": None,
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_a_message_keeps_its_words_whatever_stands_beside_them(odd: Any) -> None:
    call = heard_call(odd, odd, odd)
    message = heard_message(
        "assistant",
        "It is noon.",
        author=odd,
        tool_call_id=odd,
        own_id=odd,
        session_id="monday",
        sent_at=odd,
        metadata={"odd": odd},
        tool_calls=[call, *calls_of_api(odd), *calls_of_api([odd, {"name": odd, "id": odd, "arguments": odd}])],
    )
    kept = sanitise(message)
    assert kept.content == "It is noon."
    assert kept.message_id
    assert kept.model_validate_json(kept.model_dump_json()) == kept
    assert tool_call_result("clock", {"odd": odd}, odd, True, "here").call_hash


@pytest.mark.parametrize("given", [7, "no dict", ["a"], None])
def test_metadata_is_a_dict_or_none(given: Any) -> None:
    assert heard_message("user", "Hello!", metadata=given).metadata == {}


def test_a_message_without_an_id_is_not_another_one_without_an_id() -> None:
    first, second = (heard_message("user", "Hello!", own_id="", session_id="monday") for _ in range(2))
    assert first.message_id != second.message_id


@pytest.mark.parametrize(
    "given",
    [SDK, [SDK], [SDK.model_dump()], {"name": "look_up", "arguments": {"a": 1}, "id": "c1"}],
    ids=["an object", "objects", "dicts", "a flat dict"],
)
def test_a_call_is_read_from_what_an_sdk_gives(given: Any) -> None:
    assert [(call.id, call.name, call.arguments) for call in calls_of_api(given)] == [("c1", "look_up", '{"a": 1}')]


def test_a_call_of_unknown_form_is_kept_in_the_arguments() -> None:
    assert [call.arguments for call in calls_of_api(["look_up(1)", {"tool": "look_up"}, 7, None])] == [
        "look_up(1)",
        '{"tool": "look_up"}',
    ]


def test_what_is_nested_too_deeply_or_in_itself_is_cut_there() -> None:
    value: dict[str, Any] = {"said": "Hello!"}
    value["again"] = [value]
    assert plain_json(value) == {"said": "Hello!", "again": ["…"]}
    assert sanitise(heard_message("user", "", metadata=nested(98))).metadata == nested(98)
    assert sanitise(heard_message("user", "", metadata=nested(99))).metadata != nested(99)
