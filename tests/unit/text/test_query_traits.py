"""What a query is by its own words, in English and Chinese."""

import pytest

from reme_core.store.relevance import query_traits


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("What does my sister Ann eat?", {"first", "asks", "name"}),
        ("im dead, what’s on", {"first", "asks"}),
        ("he said you would", {"second", "third"}),
        ("Thanks. Bye", set()),
        ("is 7919 prime", {"asks"}),
        ("我儿子对什么过敏", {"first", "asks"}),
        ("她住哪", {"third", "asks"}),
        ("谢谢", set()),
        ("Wo wohnt denn die Tante, und wie kommt man dahin?", {"first", "asks"}),
        ("Erzähl mir was von der Tante und vom Onkel", {"first", "asks"}),
        ("Где мой паспорт", {"first", "asks"}),
        ("Lorem ipsum dolor sit amet, consectetur adipiscing elit", set()),
        ("", set()),
    ],
)
def test_persons_questions_and_names_are_seen(query: str, told: set[str]) -> None:
    assert {name for name, value in query_traits(query).items() if value} == told
    assert tuple(query_traits(query)) == ("first", "second", "third", "asks", "name")
