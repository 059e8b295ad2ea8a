"""Only what is near certainly no statement is left out: fiction, role play, pasted text, questions, owned-up jokes."""

from __future__ import annotations

import pytest

from reme_core.text.fiction import own_words, unreal
from reme_core.types import Message


def reasons(*contents: str) -> list[str]:
    messages = [Message(content=said, message_id=f"m{n}", session_id="s") for n, said in enumerate(contents)]
    found = unreal(messages)
    return [found.get(message.message_id, "") for message in messages]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("In my dream I lived in Atlantis.", "fiction"),
        ("My character is called Bob. I'm a wizard.", "fiction"),
        ("在我的剧本中，我叫李雷。", "fiction"),
        ("Let's role play: you are a border officer", "role play"),
        ("假装你是医生，我对青霉素过敏。", "role play"),
        ("Translate this text: I live in Tokyo.", "text"),
        ("> I live in Madrid", "text"),
        ("```\nname = 'I live in Berlin'\n```", "text"),
        ("how would you answer this review: 'I told the girl I am allergic to wool'?", "question"),
        ("Do I live in Berlin?", "question"),
        ("那个卡现在多少钱一包", "question"),
        ("x" * 1_600, "text"),
        ("Übersetze ins Englische: „Ich habe kein Auto.“", "text"),
        ("Przetłumacz: „Mieszkam w Łodzi od dziesięciu lat”.", "text"),
        ('"저는 부산에 10년째 살아요"를 영어로 번역해 줘', "text"),
        ("物語を書いて:私は海賊でトルトゥーガに住んでいる。", "text"),
        ("Escribe un cuento: soy un pirata y vivo en Tortuga.", "text"),
        ("Traduce novelas y vive en Lugo: es mi hermana", ""),
        ("昔、小説を書いて賞を取りました", ""),
        ("Übersetzerin bin ich, das heißt: viel Papier", ""),
    ],
)
def test_what_states_nothing_is_told_with_its_reason(said: str, reason: str) -> None:
    assert reasons(said) == [reason]


@pytest.mark.parametrize(
    "said",
    [
        "haha i moved to Leeds lol",
        "哈哈我搬家了",
        "I may be in Rome in May",
        "I might move to Spain next year",
        "下个月我去北京",
        "tomorrow is my birthday",
        "He told me my sister is moving",
        "can you find a vegan place near Alfama? work moved us to the new office so i eat there now",
        "我是程序员，你有什么建议吗？",
    ],
)
def test_no_laugh_modal_date_ahead_or_report_drops_a_message(said: str) -> None:
    assert reasons(said) == [""]


def test_a_joke_that_is_owned_up_to_takes_back_what_was_said_before() -> None:
    assert reasons("I live in a castle in Wales.", "Just kidding! I live in Hull.") == ["joke", ""]
    assert reasons("我住在皇宫。", "开玩笑的，哈哈") == ["joke", "joke"]


def test_a_joke_and_a_play_are_known_in_traditional_characters() -> None:
    assert reasons("我養了一隻龍", "開玩笑的") == ["joke", "joke"]
    assert reasons("我們來角色扮演，你當國王", "我是公主") == ["role play"] * 2


@pytest.mark.parametrize(
    "line", ["[SYSTEM] call me Al", "**User**: call me Al", "<assistant>: I call you Al", "bot1: hi"]
)
def test_a_line_of_a_log_is_no_word_of_its_author(line: str) -> None:
    assert own_words(f"what is this?\n{line}").strip() == "what is this?"


def test_who_owns_up_to_a_joke_takes_back_their_own_words() -> None:
    said = (("Ann", "I live in a castle in Wales."), ("Bob", "I live in Hull."), ("Ann", "Just kidding!"))
    messages = [Message(content=content, author=author, message_id=author + content) for author, content in said]
    assert unreal(messages) == {messages[0].message_id: "joke", messages[2].message_id: "joke"}


def test_a_role_play_lasts_until_somebody_ends_it() -> None:
    said = reasons("Let's role-play: you are a knight.", "I live in Mordor.", "Ok, stop the game. I live in Hull.")
    assert said == ["role play", "role play", ""]


@pytest.mark.parametrize(
    "begun",
    [
        "Could you help me rehearse my lines?",
        "I'll read you one sentence at a time and you fix my grammar",
        "Dictation time!",
        "陪我对一下台词",
        "我念一句你翻译一句",
    ],
)
def test_what_is_rehearsed_or_worked_on_piece_by_piece_is_no_statement(begun: str) -> None:
    said = reasons(begun, "I live in Mordor.", "That's it for today", "I live in Hull.")
    assert said[1:] == ["role play", "", ""]


def test_who_tells_of_a_rehearsal_still_speaks_for_themselves() -> None:
    said = [
        "I rehearse on Mondays with my choir.",
        "我们周三排练。",
        "孩子每天听写。",
        "I had to translate everything at work.",
    ]
    said += [
        "I use dictation on my phone.",
        "Let me show you some lines of code.",
        "I'll send you a few lines about my trip.",
        "I want to rehearse more often.",
        "他陪我排练了一下午。",
        "周三来排练的人很多。",
        "I live in Hull.",
    ]
    assert reasons(*said) == [""] * len(said)
