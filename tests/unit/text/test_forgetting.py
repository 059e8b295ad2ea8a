"""What a sentence asks to forget, and what only looks like such a wish."""

from __future__ import annotations

import pytest

from reme_core.text.forgetting import topic_to_forget


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
    ],
)
def test_whoever_tells_of_something_deleted_asks_for_nothing(said: str) -> None:
    assert topic_to_forget(said) == ""
