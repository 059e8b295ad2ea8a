"""Messages and trajectories are read in the forms in which clients send them."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from datetime import UTC, datetime
from enum import Enum
from types import ModuleType

import pytest

from reme_core import Episode, Memory, ReMeError, TimeRange, ToolCallResult, settings, types
from reme_core.episodes import rules
from reme_core.errors import InputError
from reme_core.settings import sections
from reme_core.store.filters import Filters
from reme_core.types import Kind, Message, ToolCall, Trajectory, kinds_of


def test_null_is_the_same_as_nothing() -> None:
    nulls = dict.fromkeys(("role", "content", "author", "session_id", "sent_at", "tool_calls", "metadata"))
    message = Message.model_validate({**nulls, "name": "Ann", "message_id": None})
    assert (message.role, message.content, message.author, message.tool_calls) == ("user", "", "Ann", [])
    assert message.message_id and "message_id" not in message.model_fields_set
    assert Trajectory.model_validate({"task_id": None, "messages": None, "score": None}) == Trajectory()


@pytest.mark.parametrize("name", ["sent_at", "time_created", "created_at", "timestamp"])
def test_a_message_was_said_when_its_sender_says(name: str) -> None:
    said = datetime(2025, 1, 5, 10, tzinfo=UTC)
    assert [Message.model_validate({name: when}).sent_at for when in (said.timestamp(), f"{said}")] == [said, said]


def test_an_empty_time_of_a_message_is_none_and_the_first_name_counts() -> None:
    assert "sent_at" not in Message.model_validate({"timestamp": ""}).model_fields_set
    times = {"timestamp": "2023-01-01", "created_at": "2024-01-01", "time_created": "2025-01-01", "sent_at": ""}
    assert Message.model_validate(times).sent_at.year == 2025


def test_a_role_may_be_a_member_of_an_enum() -> None:
    role = Enum("Role", {"DEVELOPER": "developer"}, type=str)
    assert Message.model_validate({"role": role.DEVELOPER}).role == "system"


def test_the_text_is_taken_out_of_content_parts() -> None:
    parts = [{"type": "text", "text": "One."}, {"type": "image_url", "image_url": {}}, {"type": "text", "text": "Two."}]
    assert Message.model_validate({"content": parts}).content == "One.\nTwo."


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Memory(kind="x"), "kind: Input should be 'observation'"),
        (lambda: Memory(content="x", importance=2), "importance: Input should be less than or equal to 1, not 2"),
        (lambda: Message(role="cook"), "not 'cook'"),
        (lambda: TimeRange(start="2025"), "start: a point in time is written as 2025-01-31"),
        (lambda: TimeRange(start="2026-01-02", end="2026-01-01"), "a time range cannot end (2026-01-01 "),
        (lambda: Episode(mistake_cards=[3]), "mistake_cards.0: Input should be a valid dictionary"),
        (ToolCallResult, "tool_name: Field required"),
    ],
)
def test_values_that_do_not_fit_are_an_error_of_ours_that_names_them(make: Callable[[], object], told: str) -> None:
    with pytest.raises(ReMeError, match=f"^[^{{}}]*{re.escape(told)}"):
        make()


@pytest.mark.parametrize("unknown", ["fruit", ["personal", "fruit"]])
def test_a_kind_that_does_not_exist_is_named_with_each_of_those_that_do(unknown: str | list[str]) -> None:
    with pytest.raises(InputError, match=r"^there is no kind 'fruit'; known are personal, ") as refused:
        kinds_of(unknown)
    known = str(refused.value).split("known are ")[1].split(", ")
    assert known == ["personal", *Kind]


@pytest.mark.parametrize("name", ["userid", "userId", "agent-id"])
@pytest.mark.parametrize("kind", [Message, Memory])
def test_whose_it_is_cannot_be_mistyped(kind: Callable[..., object], name: str) -> None:
    with pytest.raises(InputError, match=f"there is no field '{name}'; did you mean '(user|agent)_id'"):
        kind(content="x", **{name: "ann"})


def test_a_memory_has_no_other_fields_and_a_message_may_have_what_a_chat_api_adds() -> None:
    with pytest.raises(InputError, match="there is no field 'importanc'; did you mean 'importance'"):
        Memory(content="x", importanc=1)
    with pytest.raises(InputError, match="there is no field 'zone'; known are start, end"):
        TimeRange(zone="UTC")
    assert Message(content="x", refusal=None, annotations=[]).content == "x"
    assert Trajectory(reward=1).score == 0


@pytest.mark.parametrize(
    ("kind", "name"), [(Message, "session"), (Message, "user"), (Episode, "task"), (Memory, "run")]
)
def test_a_name_of_ours_without_its_id_is_refused(kind: Callable[..., object], name: str) -> None:
    with pytest.raises(InputError, match=f"there is no field '{name}'; did you mean '{name}_id'"):
        kind(**{name: "x"})


def test_a_kind_that_is_named_twice_is_one() -> None:
    # Messages named twice were read as messages and something else, which was all memories.
    [messages] = Filters.of(kind=["conversation", "conversation"]).apart
    assert list(messages.kinds) == ["conversation"]
    assert kinds_of(["rule", "task"]) == ["rule", "task", "mistake"]


@pytest.mark.parametrize(
    "form",
    [
        {"id": "c", "name": "weather", "arguments": '{"city": "Århus"}'},
        {"id": "c", "name": "weather", "arguments": {"city": "Århus"}},
        {"id": "c", "index": None, "function": {"name": "weather", "arguments": '{"city": "Århus"}'}},
        {"id": "c", "name": "x", "function": {"name": "weather", "arguments": {"city": "Århus"}}},
    ],
)
def test_tool_calls_are_read_flat_and_nested_with_text_and_with_objects(form: dict[str, object]) -> None:
    assert ToolCall.model_validate(form) == ToolCall(id="c", name="weather", arguments='{"city": "Århus"}')


def test_arguments_that_json_has_no_form_for_are_told_as_texts() -> None:
    at = datetime(2024, 5, 6, tzinfo=UTC)
    assert ToolCall(arguments={"at": at}).arguments == '{"at": "2024-05-06T00:00:00Z"}'
    with pytest.raises(InputError, match="arguments: it cannot be written as JSON: keys must be str"):
        ToolCall(arguments={(1, 2): 3})


def test_half_a_surrogate_pair_in_a_name_is_no_json() -> None:
    with pytest.raises(InputError, match="a value that JSON cannot have"):
        Memory(content="a", metadata={"told": {"\ud800": 1}}).model_dump(mode="json")


@pytest.mark.parametrize("module", [types, rules, settings, sections])
def test_type_checkers_see_which_fields_may_be_left_out(module: ModuleType) -> None:
    # Pyright takes a default that is given by its place for none, and wants an argument for the field.
    calls = [node for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.Call)]
    fields = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "Field"]
    assert fields and not [ast.unparse(field) for field in fields if field.args]


@pytest.mark.parametrize(
    ("made", "names", "meant"),
    [
        (Message, {"contentt": "Hi"}, "content"),
        (Message, {"text": "Hi"}, "content"),
        (Message, {"content": "Hi", "timestmp": "2025-01-01"}, "timestamp"),
        (Message, {"content": "Hi", "sesion_id": "monday"}, "session_id"),
        (ToolCall, {"name": "clock", "argument": "{}"}, "arguments"),
        (ToolCallResult, {"tool_name": "clock", "succes": False}, "success"),
    ],
)
def test_a_name_that_is_nearly_that_of_a_field_is_refused_where_it_would_be_passed_over(
    made: Callable[..., object], names: dict[str, object], meant: str
) -> None:
    with pytest.raises(InputError, match=f"did you mean '{meant}'"):
        made(**names)


def test_what_else_a_chat_api_gives_is_passed_over() -> None:
    more = dict.fromkeys(("refusal", "annotations", "audio", "function_call"))
    assert Message(**{"role": "assistant", "content": "Hi", **more}).content == "Hi"
    # The field is there, and so nothing is lost.
    assert Message(**{"content": "Hi", "contents": ["Hi"]}).content == "Hi"


@pytest.mark.parametrize(
    ("made", "name", "value"),
    [
        (Memory(content="x"), "importance", 7),
        (Memory(content="x"), "kind", "fact"),
        (Memory(content="x"), "contentt", "y"),
        (Message(content="x"), "metadata", "y"),
        (Message(content="x"), "tool_calls", "y"),
        (Episode(), "score", "good"),
        (ToolCallResult(tool_name="x"), "time_cost", -1),
    ],
)
def test_a_field_is_checked_when_it_is_set_as_when_the_object_is_made(made: object, name: str, value: object) -> None:
    with pytest.raises(InputError, match=name):
        setattr(made, name, value)
    made_of_them = Message(content="x")
    made_of_them.tool_calls = [{"id": "1", "name": "clock"}]  # type: ignore[list-item]
    assert made_of_them.tool_calls[0].name == "clock"


@pytest.mark.parametrize(
    ("made", "name"),
    [(Memory, "seen_count"), (Episode, "steps"), (ToolCallResult, "token_cost")],
)
def test_true_is_no_number_of_anything(made: Callable[..., object], name: str) -> None:
    more = {"tool_name": "clock"} if made is ToolCallResult else {}
    with pytest.raises(InputError, match=f"{name}: give a number, not True"):
        made(**{name: True, **more})


def test_an_attempt_has_no_fewer_than_no_steps_and_may_have_a_reward_below_0() -> None:
    with pytest.raises(InputError, match="steps: Input should be greater than or equal to 0, not -5"):
        Episode(task_id="t", steps=-5)
    assert Episode(task_id="t", score=-1.0).score == -1.0
