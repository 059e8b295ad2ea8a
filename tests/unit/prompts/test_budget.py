"""The token estimate."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reme_core.prompts.budget import count_tokens


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("a", 1), ("word", 1), ("fives", 2), ("我喜欢爬山", 5), ("привет", 3), ("我 like", 3)]
)
def test_a_script_costs_what_its_characters_cost(text: str, tokens: int) -> None:
    assert count_tokens(text) == tokens


@given(st.text(), st.text())
def test_more_text_never_costs_less(one: str, two: str) -> None:
    assert max(count_tokens(one), count_tokens(two)) <= count_tokens(one + two) <= count_tokens(one) + count_tokens(two)
