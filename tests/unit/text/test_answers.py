"""Thinking goes, JSON comes out, and an answer without JSON is an error."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reme_core.errors import ModelAnswerError
from reme_core.text.answers import parse_json, strip_thinking
from reme_core.text.plain import plain_json


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Hello", "Hello"),
        ("<think>They greet.</think>\n\nHello", "Hello"),
        ("<THINK>a <think>b</think> c</think>d", "d"),
        ("<thinking type='deep'>a</thinking>b", "b"),
        ("[THINK]a[/THINK]b", "b"),
        ("◁think▷a◁/think▷b", "b"),
        ("<think/>a", "a"),
        ("<think>never closed, cut by max_tokens", ""),
        ("Answer first\n<think>then thoughts", "Answer first"),
        ("opened in the prompt\n</think>\n\nHello", "Hello"),
        ("opened in the prompt.</think>Hello", "Hello"),
        ("<think>with ```py\nan open fence</think>Hello", "Hello"),
        ("a<think>b</think>c<think>d</think>e", "ace"),
        ("```\n<think>kept</think>\n```\n<think>gone</think>ok", "```\n<think>kept</think>\n```\nok"),
        ("Write `<think>` first", "Write `<think>` first"),
        ("Close with </think> at the end", "Close with </think> at the end"),
        ("The <think> tag opens it", "The <think> tag opens it"),
        ("<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b<|return|>", "b"),
        ("<|channel|>analysis<|message|>cut", ""),
    ],
)
def test_thinking_is_taken_out_and_nothing_else(text: str, answer: str) -> None:
    assert strip_thinking(text) == answer


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ("[]", []),
        ("{}", {}),
        ('<think>[{"x": 1}]</think>[]', []),
        ('{"say": "<think>no</think>"}', {"say": "<think>no</think>"}),
        ('Here:\n```json\n{"a": [1, 2,],}\n```\nDone.', {"a": [1, 2]}),
        ('```\n[{"a": "x```y"}]\n```', [{"a": "x```y"}]),
        ('```json\n{"a": 1', {"a": 1}),
        ("Sure! {'a': None, b: True} Hope it helps", {"a": None, "b": True}),
        ('As [1] says: {"a": 2}', {"a": 2}),
        ('{"a": 1}\n{"a": 2}\n', [{"a": 1}, {"a": 2}]),
        ('{"m": [{"a": 1}, {"a": 2', {"m": [{"a": 1}, {"a": 2}]}),
        ('{"a": "two\nlines"}', {"a": "two\nlines"}),
        ('{"a": NaN, "b": [Infinity]}', {"a": None, "b": [None]}),
        (r'{"what Postgres cannot store": "a\u0000b \ud83d"}', {"what Postgres cannot store": "a\ufffdb \ufffd"}),
        ("记忆如下：{“内容”: “喜欢爬山”}", {"内容": "喜欢爬山"}),
        ('{"```json\n{"a": 1}\n```', {"a": 1}),
    ],
)
def test_json_is_found_in_what_surrounds_it(text: str, value: Any) -> None:
    assert parse_json(text) == value


@pytest.mark.parametrize(
    "text",
    ["", "  ", "I have no memories.", "42", "true", '"text"', "see [above]", "{x | x > 0}", "```\ncode\n```",
     "<think>[1, 2]", "[" * 100_000, '{"a":' * 20_000],
)  # fmt: skip
def test_an_answer_without_structure_is_an_error_that_keeps_the_text(text: str) -> None:
    with pytest.raises(ModelAnswerError) as caught:
        parse_json(text)
    assert caught.value.raw == text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
).filter(lambda value: isinstance(value, dict | list))


@settings(max_examples=150, deadline=None)
@given(JSON, st.sampled_from(["{}", "```json\n{}\n```", "Sure:\n{}\nDone", "<think>hm</think>{}"]))
def test_what_a_model_wraps_comes_back_as_it_was(value: Any, frame: str) -> None:
    assert parse_json(frame.replace("{}", json.dumps(value))) == plain_json(value)


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from('{}[]",:a1 \n`<>/think'), max_size=60))
def test_any_text_gives_a_structure_or_the_one_error(text: str) -> None:
    try:
        assert isinstance(parse_json(text), dict | list)
    except ModelAnswerError as error:
        assert error.raw == text


@pytest.mark.parametrize("brackets", ["[", '{"a":'])
@pytest.mark.parametrize("depth", [1_000, 3_000, 10_000, 50_000])
def test_brackets_without_end_are_no_answer(brackets: str, depth: int) -> None:
    with pytest.raises(ModelAnswerError):
        parse_json(brackets * depth)
