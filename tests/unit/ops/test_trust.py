"""What of a model's observations is believed: a wrong slot would close what is true."""

from __future__ import annotations

import pytest

from reme_core.ops.personal.statements import by_rules
from reme_core.ops.personal.trust import has_ended, in_slot, slot_for
from reme_core.schema import Memory, Message, Source


@pytest.mark.parametrize(
    ("attribute", "value", "content", "spoken", "slot"),
    [
        ("home", "Oslo", "The user lives in Oslo", "I live in Oslo", "home"),
        ("home", "Rome", "The user lives in Oslo", "I live in Oslo", ""),
        ("home", "Oslo", "The user went to Oslo", "I went to Oslo in June", ""),
        ("home", "青岛", "用户在六月去了青岛", "我在六月去了青岛", ""),
        ("home", "上海", "用户搬到上海了", "我搬到上海了", "home"),
        ("home", "成都", "用户妹妹住在成都", "我妹妹住在成都", ""),
        ("job", "nurse", "The user's older sister is a nurse", "She is a nurse", ""),
        ("name", "Rex", "The user's dog is called Rex", "My dog is called Rex", ""),
        ("name", "Bella", "The user's yacht is called Bella", "My yacht is called Bella", ""),
        ("name", "Ada", "The user's full name is Ada Byron", "My full name is Ada Byron", "name"),
        ("name", "小艾", "用户的名字是小艾", "我的名字是小艾", "name"),
        ("favourite thing", "tea", "The user likes tea", "I like tea", ""),
        ("taste", "tea", "The user likes tea", "I like tea", "taste"),
        ("taste", "", "The user likes tea", "I like tea", ""),
        ("allergy", "nuts", "The user is allergic to nuts", "I'm allergic to nuts", "allergy:nuts"),
        ("instruction", "short", "Keep answers short", "Please keep answers short", "instruction"),
    ],
)
def test_a_slot_needs_a_value_that_was_said_of_the_person(
    attribute: str, value: str, content: str, spoken: str, slot: str
) -> None:
    person = "用户" if content.startswith("用户") else "The user"
    assert slot_for(attribute, value, content, spoken, person=person) == slot


@pytest.mark.parametrize(
    ("spoken", "ended"),
    [
        ("I drink coffee.", False),
        ("I don't drink coffee.", True),
        ("I quit my job.", True),
        ("我每周二晚上游泳。", False),
        ("我从新东方辞职了。", True),
        ("Ich trinke keinen Kaffee.", True),
    ],
)
def test_an_end_needs_words_that_speak_of_one(spoken: str, ended: bool) -> None:
    assert has_ended(True, spoken) is ended
    assert has_ended(False, spoken) is False


@pytest.mark.parametrize(
    ("spoken", "content", "slot"),
    [
        ("我吃素。", "用户吃素", "diet"),
        ("I moved to Rome.", "The user moved to Rome", "home"),
        ("I live in Bern.", "The user lives in Bern with friends", "home"),
        ("我的猫走丢了。", "用户走丢了", None),
        ("My name is Ada and I live in Bern.", "The user is Ada and lives in Bern", None),
        ("My sister is tall.", "The user's sister is tall", ""),
    ],
)
def test_what_rules_read_in_the_same_words_says_which_slot_it_is(spoken: str, content: str, slot: str | None) -> None:
    message = Message(content=spoken)
    person = "用户" if content.startswith("用户") else "The user"
    read = by_rules(message, subject="", person=person, timezone="UTC")
    seen = Memory(content=content, sources=[Source(kind="message", id=message.message_id)])
    kept = in_slot(seen, read)
    assert (None if kept is None else kept.metadata.get("slot", "")) == slot
