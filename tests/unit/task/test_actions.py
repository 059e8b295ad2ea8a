"""What an agent did is read from its messages: calls, errors, fixes and loops."""

from __future__ import annotations

import json
from typing import Any

from reme_core.task.actions import actions_of, fixes_of, format_arguments, path_of, repeated_calls, unresolved_errors
from reme_core.types import Message


def call(tool: str, call_id: str = "", **arguments: Any) -> Message:
    function = {"name": tool, "arguments": json.dumps(arguments)}
    return Message.model_validate({"role": "assistant", "tool_calls": [{"id": call_id, "function": function}]})


def result(content: str, call_id: str = "") -> Message:
    return Message(role="tool", content=content, tool_call_id=call_id)


def test_results_are_matched_by_id_even_out_of_order() -> None:
    both = Message.model_validate(
        {"role": "assistant", "tool_calls": [{"id": "1", "name": "a"}, {"id": "2", "name": "b"}]}
    )
    found = actions_of([both, result("of b", "2"), result("Error: of a", "1")])
    assert [(f.tool, f.result, f.error) for f in found] == [("a", "Error: of a", "Error: of a"), ("b", "of b", "")]
    assert len(found[0].message_ids) == 2


def test_results_without_ids_are_matched_in_order() -> None:
    found = actions_of([call("a"), call("b"), result("first"), result("second")])
    assert [(f.tool, f.result) for f in found] == [("a", "first"), ("b", "second")]


def test_a_result_is_of_the_call_before_it_also_where_ids_are_used_again() -> None:
    messages = [call("search", "call_0"), call("book", "call_0"), result("Error: no room", "call_0")]
    messages += [call("pay", "call_0"), result("paid:", "call_0"), result("12 euros", "call_0")]
    found = actions_of(messages)
    assert [(f.tool, f.result) for f in found] == [
        ("search", ""),
        ("book", "Error: no room"),
        ("pay", "paid:\n12 euros"),
    ]


def test_nothing_was_done_where_nothing_was_said() -> None:
    assert actions_of([]) == []


def test_a_result_without_a_call_still_counts() -> None:
    lone = Message.model_validate({"role": "tool", "name": "clock", "content": "12:00"})
    assert [(f.tool, f.result) for f in actions_of([lone])] == [("clock", "12:00")]


def test_calls_written_in_python_are_read_with_the_output_that_follows() -> None:
    messages = [
        Message(
            role="assistant", content="```python\ntoken = apis.mail.login(user='a')\nprint(apis.mail.inbox(token))\n```"
        ),
        Message(role="user", content="Output:\nTraceback (most recent call last):\n  x\nKeyError: 'inbox'"),
    ]
    found = actions_of(messages)
    assert [(f.tool, f.error) for f in found] == [("apis.mail.login", ""), ("apis.mail.inbox", "KeyError: 'inbox'")]


def test_sample_code_in_an_answer_is_no_action() -> None:
    messages = [
        Message(role="assistant", content="Use this:\n```python\nnp.linalg.norm(x)\n```"),
        Message(role="user", content="Thanks, that works!"),
    ]
    assert actions_of(messages) == []


def test_an_error_that_a_later_call_got_past_is_a_fix() -> None:
    messages = [
        call("find", q="x"), result("Error: log in first"),
        call("find", q="y"), result("Error: log in first"),
        call("login", user="a"), result("ok"),
        call("find", q="y"), result("found"),
    ]  # fmt: skip
    found = actions_of(messages)
    (fix,) = fixes_of(found)
    assert fix.failed.arguments == {"q": "y"}, "the last failing call tells best what changed"
    assert [action.tool for action in fix.between] == ["login"]
    assert unresolved_errors(found) == []


def test_a_call_made_in_parallel_overcomes_no_error() -> None:
    both = call("weather", "1", city="Rome")
    both.tool_calls += [*call("weather", "2", city="Oslo").tool_calls, *call("login", "3").tool_calls]
    messages = [both, result("Error: no such city", "1"), result("cold", "2"), result("ok", "3")]
    found = actions_of(messages)
    assert fixes_of(found) == []
    assert [action.arguments for action in unresolved_errors(found)] == [{"city": "Rome"}]
    (fix,) = fixes_of(actions_of([*messages, call("weather", city="Roma"), result("warm")]))
    assert (fix.worked.arguments, fix.between) == ({"city": "Roma"}, ())


def test_an_error_at_the_end_is_unresolved_even_if_the_tool_worked_before() -> None:
    messages = [call("find", q="x"), result("found"), call("find", q="z"), result("Error: gone")]
    found = actions_of(messages)
    assert [action.error for action in unresolved_errors(found)] == ["Error: gone"]
    assert fixes_of(found) == []


def test_a_call_that_is_repeated_without_effect_is_a_loop() -> None:
    messages = [m for _ in range(4) for m in (call("step", d="left"), result("wall"))]
    ((action, count),) = repeated_calls(actions_of(messages))
    assert (action.tool, count) == ("step", 4)
    assert repeated_calls(actions_of(messages[:4])) == []


def test_calls_with_changing_results_are_no_loop() -> None:
    messages = [m for n in range(4) for m in (call("step", d="left"), result(f"at {n}"))]
    assert repeated_calls(actions_of(messages)) == []


def test_calls_in_code_are_a_loop_where_the_code_is_the_same() -> None:
    def ran(code: str) -> list[Message]:
        return [
            Message(role="assistant", content=f"```python\n{code}\n```"),
            Message(role="user", content="Output:\nNone"),
        ]

    different = ran("\n".join(f"apis.songs.show(song_id={n})" for n in range(5)))
    different += [m for n in range(5) for m in ran(f"apis.songs.show(song_id={n})")]
    assert repeated_calls(actions_of(different)) == []
    ((action, count),) = repeated_calls(actions_of([m for _ in range(3) for m in ran("apis.songs.next()")]))
    assert (action.tool, count) == ("apis.songs.next", 3)


def test_a_path_leaves_out_what_failed() -> None:
    messages = [call("a", x=1), result("Error: no"), call("a", x=2), result("ok"), call("b"), result("ok")]
    assert path_of(actions_of(messages)) == ["a(x)", "b()"]


def test_secrets_are_not_shown() -> None:
    secrets = {"user": "ann", "password": "hunter2", "access_token": "t0k", "api_key": "k", "密码": "1234"}
    text = format_arguments(secrets)
    assert text == 'user="ann", password=…, access_token=…, api_key=…, 密码=…'


def test_arguments_that_are_no_json_are_kept_as_text() -> None:
    broken = Message.model_validate({"role": "assistant", "tool_calls": [{"name": "a", "arguments": "{oops"}]})
    assert actions_of([broken])[0].arguments == {"arguments": "{oops"}
