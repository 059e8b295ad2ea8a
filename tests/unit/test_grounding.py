"""Which names and numbers of a statement the messages that it rests on bear out."""

from __future__ import annotations

import pytest

from reme_core.personal.grounding import inventions
from reme_core.types import Message


@pytest.mark.parametrize(
    ("said", "statement"),
    [
        ("we have eight cats now", "The user has 8 cats"),
        ("nan is eighty!", "The user's grandmother is 80"),
        ("both my brothers", "The user has 2 brothers"),
        ("half past six", "The user gets up at 6:30"),
        ("im twenty-five lol", "The user is 25"),
        ("it was three hundred quid", "It cost 300 pounds"),
        ("我二十五岁", "The user is 25"),
        ("房贷一个月三千二", "The mortgage is 3200 a month"),
        ("一千零二个人", "1002 people came"),
        ("我住三零五房间", "The user lives in room 305"),
        ("我住五〇二", "The user lives in room 502"),
        ("来了两三个朋友", "2 or 3 friends came"),
        ("十一點半睡", "The user goes to bed at 11:30"),
        ("dinner at 8 in the evening", "Dinner is at 20:00"),
        ("my key is " + "7" * 5_000, "The user has a key"),
        ("i met anna in Łódź", "The user met Anna in Łódź"),
    ],
)
def test_what_was_said_is_not_invented_however_it_is_written(said: str, statement: str) -> None:
    assert inventions(statement, [Message(content=said)], [], "UTC") == []


@pytest.mark.parametrize(
    ("said", "statement", "invented"),
    [
        ("we have eight cats now", "The user has 9 cats", ["9"]),
        ("im twenty-five lol", "The user is 35", ["35"]),
        ("I work at the bank", "The user works at Barclays", ["Barclays"]),
    ],
)
def test_what_nobody_said_is_invented(said: str, statement: str, invented: list[str]) -> None:
    assert inventions(statement, [Message(content=said)], [], "UTC") == invented
