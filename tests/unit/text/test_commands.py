"""Commands to the memory, in wordings that hardly ever mean anything else; what only looks like one is none."""

from __future__ import annotations

import pytest

from reme_core.text.commands import command_of


@pytest.mark.parametrize(
    ("said", "action", "topic"),
    [
        ("also forget everything ive told you about jordan will you", "forget", "jordan will you"),
        ("could you forget what i said about my ex", "forget", "my ex"),
        ("please delete what I said about the move to Berlin", "erase", "the move to Berlin"),
        (
            "I want you to forget that business about my knee, the scan and the pills",
            "forget",
            "my knee, the scan and the pills",
        ),
        ("What I told you about the divorce, don't keep that please", "forget", "the divorce"),
        ("please take my salary out of your notes", "forget", "my salary"),
        ("pretend I never told you about Oslo", "forget", "Oslo"),
        ("Please forget my salary.", "forget", "my salary"),
        ("ok, can you forget my phone number?", "forget", "my phone number"),
        ("I'd like you to forget that I smoke", "forget", "I smoke"),
        ("Forget that I ever told you about my ex, please", "forget", "my ex"),
        ("don't store anything about my daughter's school", "forget", "my daughter's school"),
        ("瘦了两斤 还有我之前说的失眠那个 你忘掉吧", "forget", "还有我之前说的失眠"),
        ("rent 那个 number 你 delete 掉", "erase", "rent 那个 number"),
        ("欠錢的事就當我沒說過", "forget", "欠錢"),
        ("delete what I said about my heart, talk tomorrow", "erase", "my heart"),
        ("把我前女友的事都忘掉吧", "forget", "我前女友"),
        ("别再记我的体重了", "forget", "我的体重"),
        ("删掉关于小李的内容", "erase", "小李"),
        ("I want you to remember that I take insulin", "remember", ""),
        ("dont let us forget im picking it up saturday", "remember", ""),
        ("记住，我对花生过敏", "remember", ""),
        ("别忘了我周三要打球", "remember", ""),
        ("remember that when i ask for ideas dont give us thursdays", "instruct", ""),
        ("from now on answer in short bullets", "instruct", ""),
        ("pls always answer in short bullet points", "instruct", ""),
        ("Thanks! Always confirm salary figures when I ask about pay.", "instruct", ""),
        ("每次我问日程都要写清楚日期", "instruct", ""),
        ("call me Keels", "instruct", ""),
        ("please address me as Dr. Lee", "instruct", ""),
        ("Keep your answers short from now on", "instruct", ""),
        ("please don't use emojis in your answers", "instruct", ""),
        ("When I ask for recipes, always make them vegetarian", "instruct", ""),
        ("Remember this: the code of the shed is 4411", "remember", ""),
        ("Add to your memory: I hate olives", "remember", ""),
        ("别再叫我亲了", "instruct", ""),
        ("以后请都用中文回答。", "instruct", ""),
        ("以后叫我老王", "instruct", ""),
    ],
)
def test_a_command_is_known_in_its_usual_wordings(said: str, action: str, topic: str) -> None:
    command = command_of(said)
    assert command is not None
    assert (command.action, command.topic) == (action, topic)


@pytest.mark.parametrize(
    "said",
    [
        "forget that I said anything", "Forget I asked", "forget my last question", "never forget my name",
        "I rush and forget my keys", "did you forget my name?", "how could you forget that I was ill?",
        "forget it", "forget about it", "never mind, forget that", "don't forget to buy milk", "I forgot my keys",
        "remember when we went to Rome?", "she always laughs when I ask about it",
        "I never know if I ask too much", "do you remember my name?", "i'll always remember that day",
        "When I ask my boss for a raise, he gives me excuses", "I use metric units from now on",
        "I have no memory for names", "don't worry about it in the future",
        "call me back later", "call me maybe", "in future I want to live in Rome", "stop keeleying us",
        "delete milk from the list", "remove the duplicates from your database", "get eggs off your list",
        "delete the second paragraph", "第二句删掉，其他别动", "for循环里删除元素为什么出错", "忘了跟你讲，我到家了",
        "take the keys out of your bag", "I deleted everything about the trip",
        "我记住了", "我忘了带钥匙", "忘了带伞", "叫我起床", "以后我想去北京",
    ],
)  # fmt: skip
def test_what_only_looks_like_a_command_is_none(said: str) -> None:
    assert command_of(said) is None
