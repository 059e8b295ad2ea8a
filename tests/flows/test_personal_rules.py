"""Offline, what a person says about themselves is remembered, and nothing else counts as a fact about them."""

# ruff: noqa: E501 -- examples read better whole

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from reme_core.ops.personal.grounding import unsupported
from reme_core.ops.personal.reality import unreal
from reme_core.ops.personal.statements import by_rules
from reme_core.schema import Kind, Memory, Message

WEDNESDAY = datetime(2024, 6, 12, 9, tzinfo=UTC)


def said(*contents: str) -> list[Message]:
    return [
        Message(content=content, message_id=f"m{number}", session_id="s", sent_at=WEDNESDAY)
        for number, content in enumerate(contents)
    ]


def made_of(*contents: str) -> list[Memory]:
    messages = said(*contents)
    skipped = unreal(messages)
    kept = [m for m in messages if m.message_id not in skipped]
    return [memory for m in kept for memory in by_rules(m, subject="user", person="", timezone="UTC")]


NO_FACTS = [
    "Hi there, good morning!", "My friend lives in Rome and works at Google.", "He said I live in Berlin.",
    '"I live in Berlin," he told me.', "Do I live in Berlin?", "I might live in Berlin next year.",
    "I'd love to live in Berlin.", "If I lived in Berlin, I would swim.", "In my dream I lived in Atlantis.",
    "My character is called Bob. I'm a wizard.", "For my screenplay: my name is Rick and I live in Casablanca.",
    "Pretend you are my doctor. I'm allergic to nuts.", "I wish I worked at NASA.", "I'm going to move to Berlin.",
    "I read that I'm supposed to like Mondays.", "I'm thinking of moving to Spain.", "I almost moved to Paris.",
    "I am Batman lol", "Translate: I live in Tokyo.", 'Can you proofread this text? "I work at Siemens as an engineer."',
    "> I live in Madrid", "```\nname = 'I live in Berlin'\n```", "My manager thinks I hate meetings.",
    "Someone told me my name is Jack.", "Suppose I am vegan.", "I like that.", "I like your style.",
    "I'm not sure I like coffee.", "I started Monday.", "I moved to Python 3.12.", "I joined Anna for it.",
    "Write a poem about me: I live in a shoe.", "I'm 5 minutes away.", "Answer in French.", "Call me maybe.",
    "My sister is a nurse, she lives in Vienna.", "I was told I work too much.", "I have a question about coffee",
    "我朋友住在罗马。", "他说我住在柏林。", "我住在柏林吗？", "我可能会搬到柏林。", "如果我住在柏林就好了。", "我想去柏林。",
    "我打算明年搬到深圳。", "在我的剧本中，我叫李雷。", "我梦见我住在月亮上。", "请翻译：我住在东京。", "帮我写一首诗，我是一片云。",
    "我喜欢你的回答。", "我妈妈说我不喜欢运动。", "据说我对花生过敏。", "假装你是医生，我对青霉素过敏。", "我是不是住在北京？",
    "我差点搬到广州。", "我好像对牛奶过敏。", "我的朋友叫小明，他住在广州。", "哈哈我是超人。", "比如说，我住在巴黎。",
    "书上写着：“我爱北京天安门”。", "我叫了一份外卖。", "我住在酒店三天了。", "我爱你。", "我妹妹上大学了，住在北京。", "用法语回答。",
]  # fmt: skip


@pytest.mark.parametrize("content", NO_FACTS)
def test_what_is_no_statement_about_the_speaker_becomes_no_fact(content: str) -> None:
    assert [memory.content for memory in made_of(content)] == []


FACTS = [
    ("I live in Berlin.", "The user lives in Berlin", "home", "Berlin"),
    ("By the way, I'm a teacher.", "The user is a teacher", "job", "teacher"),
    ("I've recently joined Acme as a designer.", "The user works at Acme", "employer", "Acme"),
    ("I'm vegetarian, so what could I cook?", "The user is vegetarian", "diet", "vegetarian"),
    ("I no longer live in London.", "The user no longer lives in London", "home", "London"),
    ("My wife's name is Anna.", "The user's wife's name is Anna", "relation:wife", "Anna"),
    ("I can't stand loud music.", "The user can't stand loud music", "taste", "loud music"),
    ("I don't smoke anymore.", "The user doesn't smoke anymore", "taste", "smoke"),
    ("I prefer tea to coffee.", "The user prefers tea to coffee", "taste", "tea"),
    ("I'm allergic to nuts, so please be careful.", "The user is allergic to nuts", "allergy:nuts", "nuts"),
    ("My favourite food is ramen.", "The user's favourite food is ramen", "favourite:food", "ramen"),
    ("I usually get up at six.", "The user usually gets up at six", "taste", "get up at six"),
    ("Please always reply in Spanish.", 'The user asks: "Please always reply in Spanish"', "answer_language", "Spanish"),
    ("I've been working at Siemens since 2019.", "The user has been working at Siemens since 2019", "employer", "Siemens"),
    ("I gave up coffee last week.", "The user gave up coffee last week (2024-06-03–2024-06-09)", "taste", "coffee"),
    ("我从2019年起在西门子工作。", "用户在西门子工作", "employer", "西门子"),
    ("我上个月戒烟了。", "用户上个月 (2024-05)戒烟了", "taste", "烟"),
    ("我现在住在深圳。", "用户现在住在深圳", "home", "深圳"),
    ("我换工作了，现在在腾讯上班。", "用户在腾讯工作", "employer", "腾讯"),
    ("我是程序员。", "用户的职业是程序员", "job", "程序员"),
    ("我讨厌香菜。", "用户讨厌香菜", "taste", "香菜"),
    ("我对芒果过敏，请注意。", "用户对芒果过敏", "allergy:芒果", "芒果"),
    ("我女儿叫朵朵。", "用户女儿叫朵朵", "relation:daughter", "朵朵"),
    ("以后请都用中文回答。", "用户要求：“以后请都用中文回答”", "answer_language", "Chinese"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "told", "slot", "value"), FACTS)
def test_a_statement_fills_its_slot_in_the_third_person(content: str, told: str, slot: str, value: str) -> None:
    memory = made_of(content)[0]
    assert (memory.content, memory.metadata["slot"], memory.metadata["value"]) == (told, slot, value)
    assert memory.sources[0].id == "m0"
    assert memory.sources[0].quote in content
    assert memory.observed_at == WEDNESDAY


def test_wishes_and_allergies_are_instructions_and_homes_are_profile() -> None:
    made = made_of("Always answer in French. I'm allergic to peanuts. I live in Bern. I like tea.")
    assert [memory.kind for memory in made] == [Kind.INSTRUCTION, Kind.INSTRUCTION, Kind.PROFILE, Kind.OBSERVATION]


def test_times_are_reckoned_from_when_it_was_said_and_written_out() -> None:
    [zoo] = made_of("I visited the zoo yesterday.")
    assert zoo.content == "The user visited the zoo yesterday (2024-06-11)"
    assert zoo.valid_from == datetime(2024, 6, 11, tzinfo=UTC)
    assert zoo.valid_until == datetime(2024, 6, 12, tzinfo=UTC)
    [moved] = made_of("我上个月搬到上海了。")
    assert (moved.valid_from, moved.valid_until) == (datetime(2024, 5, 1, tzinfo=UTC), None)


def test_a_joke_that_is_owned_up_to_takes_back_what_was_said_before() -> None:
    made = made_of("I live in a castle in Wales.", "Just kidding! I live in Hull.")
    assert [memory.content for memory in made] == ["The user lives in Hull"]
    assert made_of("我住在皇宫。", "开玩笑的，哈哈") == []


def test_a_role_play_lasts_until_somebody_ends_it() -> None:
    made = made_of("Let's role-play: you are a knight.", "I live in Mordor.", "Ok, stop the game. I live in Hull.")
    assert [memory.content for memory in made] == ["The user lives in Hull"]


@pytest.mark.parametrize(
    ("content", "evidence", "problem"),
    [
        ("The user likes tea in the morning", "I like to have tea every morning", ""),
        ("The user has 3 cats", "I have two cats", "does not hold 3"),
        ("The user lives with Anna in Rome", "I live in Rome with my sister", "does not name Anna"),
        ("The user enjoys mountain hiking on weekends", "I like tea", "shares only 0% of its words"),
        ("用户喜欢喝茶", "I like tea", "shares only 0%"),
        ("用户喜欢早上喝咖啡", "我喜欢早上喝咖啡工作", ""),
        ("用户在2019年搬到上海", "我在2018年搬到上海", "does not hold 2019"),
        ("The user went to the zoo on 2024-06-11", "I went to the zoo yesterday", ""),
        ("The user went to the zoo on 2024-06-21", "I went to the zoo yesterday", "does not hold 21"),
    ],
)
def test_a_statement_that_its_evidence_does_not_bear_out_is_refused(content: str, evidence: str, problem: str) -> None:
    found = unsupported(content, said(evidence), person="The user")
    assert problem in found
    assert bool(found) == bool(problem)
    assert unsupported(content, []) == "it names no evidence"
