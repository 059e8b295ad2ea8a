"""What a sentence asks to forget, and what only looks like such a wish."""

from __future__ import annotations

import pytest

from reme_core.text.forgetting import parts_by_wish, topic_to_forget


@pytest.mark.parametrize(
    ("said", "topic"),
    [
        ("请删掉我的地址", "我的地址"),
        ("麻烦删掉我的地址", "我的地址"),
        ("请不要记住我的身份证号", "我的身份证号"),
        ("请别记我的体重", "我的体重"),
        ("请把小丽的事都忘掉吧", "小丽"),
        ("麻烦你把小丽的事都忘掉吧", "小丽"),
        ("地址删掉吧", "地址"),
        ("把地址删了", "地址"),
        ("Delete what I told you about Jordan from your memory.", "Jordan"),
        ("Forget everything about Anna in your memory", "Anna"),
        ("Forget what I told you about Jordan, I love pizza", "Jordan"),
        ("Forget I have diabetes", "I have diabetes"),
        ("Delete that I have HIV", "I have HIV"),
        ("千万不要记我的身份证号", "我的身份证号"),
        ("能不能删掉我的地址吗", "我的地址"),
        ("可以把关于老张的事删掉吗", "老张"),
    ],
)
def test_the_topic_is_named_without_courtesies_and_what_stands_behind_it(said: str, topic: str) -> None:
    assert topic_to_forget(said) == topic


@pytest.mark.parametrize(
    "said",
    [
        "微信删掉了，太占内存",
        "前男友的照片删掉了",
        "我妈不用记账了，她退休了",
        "我的钱都被他删除了",
        "我把抖音删掉了",
        "我妈让我把游戏删掉",
        "我想忘掉过去",
        "Sometimes I forget I have a dog",
        "Forget I asked",
        "Drop we need to talk",
    ],
)
def test_whoever_tells_of_something_deleted_asks_for_nothing(said: str) -> None:
    assert topic_to_forget(said) == ""


@pytest.mark.parametrize(
    ("said", "parts"),
    [
        ("forget my name, call me Bo from now on", ["forget my name", "call me Bo from now on"]),
        ("把我的工资忘了吧，以后叫我老王", ["把我的工资忘了吧", "以后叫我老王"]),
        ("忘掉我的工资，以后用中文回答", ["忘掉我的工资", "以后用中文回答"]),
        ("forget my salary, address and phone", ["forget my salary, address and phone"]),
        ("I have a dog", ["I have a dog"]),
    ],
)
def test_what_else_a_sentence_says_stands_apart(said: str, parts: list[str]) -> None:
    assert parts_by_wish(said) == parts
