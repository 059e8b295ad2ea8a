"""The token estimate, and what a budget lets through."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reme_core.prompts.budget import count_tokens, fit


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("a", 1), ("word", 1), ("fives", 2), ("我喜欢爬山", 5), ("привет", 3), ("我 like", 3)]
)
def test_a_script_costs_what_its_characters_cost(text: str, tokens: int) -> None:
    assert count_tokens(text) == tokens


@given(st.text(), st.text())
def test_more_text_never_costs_less(one: str, two: str) -> None:
    assert max(count_tokens(one), count_tokens(two)) <= count_tokens(one + two) <= count_tokens(one) + count_tokens(two)


def test_the_best_whole_items_are_kept() -> None:
    items = ["aaaa" * 3, "bbbb" * 3, "c"]
    assert fit(items, 7) == items[:2]
    assert fit(items, 6) == items[:1], "a later, smaller item must not overtake a better one"
    assert fit(items, 0) == []
    assert fit([{"text": "four"}], 1, text_of=lambda item: item["text"]) == [{"text": "four"}]


@given(st.lists(st.text(max_size=30)), st.integers(0, 60))
def test_what_is_kept_is_a_prefix_within_the_budget(items: list[str], budget: int) -> None:
    kept = fit(items, budget)
    assert kept == items[: len(kept)]
    assert count_tokens("\n".join(kept)) <= budget
