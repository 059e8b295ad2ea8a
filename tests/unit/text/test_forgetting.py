"""What a sentence asks to forget, and what only looks like such a wish."""

from __future__ import annotations

import pytest

from reme_core.text.forgetting import names_topic, parts_by_wish, topic_to_forget


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
        ("我希望你忘记我的工资", "我的工资"),
        ("你可以忘掉我的生日了", "我的生日"),
        ("你能忘记我的生日吗？", "我的生日"),
        ("别再记得我的地址", "我的地址"),
        ("小李的事，忘掉吧", "小李"),
        ("I moved, so please forget my old address.", "my old address"),
        ("As I said, please forget my salary.", "my salary"),
        ("我跟你说，把我的地址删掉", "我的地址"),
        ("Hey assistant: forget my old address", "my old address"),
        ("Hi Bo, forget my old address", "my old address"),
        ("嘿，助手：忘掉我的地址", "我的地址"),
        ("Forget my salary, address and phone.", "my salary, address and phone"),
        (
            "forget my salary, my address, and my phone number, but not my name",
            "my salary, my address, and my phone number",
        ),
        ("forget my coat, come over here and eat", "my coat"),
        ("forget our trip to Rome, Paris and Oslo", "our trip to Rome"),
        ("take my salary out of your mind", "my salary"),
        ("don't keep anything about my weight, and from now on answer in French", "my weight"),
        ("以后叫我老王，别记我的体重", "我的体重"),
    ],
)
def test_the_topic_is_named_without_courtesies_and_what_stands_behind_it(said: str, topic: str) -> None:
    assert topic_to_forget(said) == topic


@pytest.mark.parametrize(
    "said",
    [
        "微信删掉了，太占内存",
        "前男友的照片删掉了",
        "把微信删掉了",
        "把他的照片都删掉了",
        "删掉微信了，清净",
        "忘记密码了怎么办",
        "忘记关火了",
        "删掉朋友圈以后清净多了",
        "我妈不用记账了，她退休了",
        "我的钱都被他删除了",
        "我把抖音删掉了",
        "我妈让我把游戏删掉",
        "我想忘掉过去",
        "Sometimes I forget I have a dog",
        "Forget I asked",
        "Drop we need to talk",
        "Erase I and put you",
        "Forget I exist",
        "Honestly, don't remember what we ate.",
    ],
)
def test_whoever_tells_of_something_deleted_asks_for_nothing(said: str) -> None:
    assert topic_to_forget(said) == ""


@pytest.mark.parametrize(
    "said",
    [
        "请不要删除我的笔记。",
        "提醒我明天删除我的旧账号。",
        "我们公司要求删除所有客户数据。",
        "我舍不得删掉爸爸的短信。",
        "考试不用记公式。",
        "我的手机不要再存照片了，内存满了。",
        "算了，忘了吧，我们去散步。",
        "算了，不说了，忘了吧。",
        "过去的事就忘了吧，人要往前看。",
        "不用记得太清楚，差不多就行。",
        "别记恨我妈妈。",
        "你忘了我的生日！",
    ],
)
def test_a_chinese_verb_has_its_object_behind_it_rather_than_who_or_when_before_it(said: str) -> None:
    assert topic_to_forget(said) == ""


@pytest.mark.parametrize(
    "said",
    [
        "My son asked, please forget my bad grade.",
        "He wrote to me, please forget my letter.",
        "She said, and please forget my face, then she left.",
        "妈妈说：忘掉他吧。",
        "妈妈总说，小李的事忘掉吧。",
        "朋友劝我：旧爱忘掉吧。",
    ],
)
def test_what_others_ask_is_no_wish_of_the_author(said: str) -> None:
    assert topic_to_forget(said) == ""


@pytest.mark.parametrize(
    "said",
    [
        "Remove the details about my salary from the letter.",
        "Delete everything about pricing in the document.",
        "Remove all comments about testing from the code.",
        "Drop the part about my aunt, the speech is too long.",
        "Sorry, forget my typo.",
        "把购物车里的牛奶删掉。",
        "帮我把日历里的会议删掉。",
        "帮我把这篇作文的结尾删掉。",
    ],
)
def test_what_is_deleted_from_a_text_is_not_deleted_from_memory(said: str) -> None:
    assert topic_to_forget(said) == ""


@pytest.mark.parametrize(
    "said",
    [
        "Forget my coat, it's at the office.",
        "Forget my keys, I left them in the car.",
        "Take a load off your mind.",
        "Get that song out of your head.",
        "Therapist: forget my ex",
        "Note to self: forget my ex",
        "以后不要再记录了",
        "以后，别记我的体重",
        "From now on, don't keep anything about my weight.",
    ],
)
def test_a_thing_left_behind_an_idiom_and_a_wish_for_later_ask_for_nothing(said: str) -> None:
    assert topic_to_forget(said) == ""


@pytest.mark.parametrize(
    ("topic", "text", "named"),
    [
        ("my salary, address and phone", "My phone is broken", True),
        ("my salary or phone", "My phone is broken", True),
        ("我的工资、地址和电话", "我的电话坏了", True),
        ("小王和小丽吵架", "小王来过", False),
    ],
)
def test_a_list_names_each_of_its_things(topic: str, text: str, named: bool) -> None:
    assert names_topic(topic, text) is named


@pytest.mark.parametrize(
    ("said", "parts"),
    [
        ("forget my name, call me Bo from now on", ["forget my name", "call me Bo from now on"]),
        ("把我的工资忘了吧，以后叫我老王", ["把我的工资忘了吧", "以后叫我老王"]),
        ("忘掉我的工资，以后用中文回答", ["忘掉我的工资", "以后用中文回答"]),
        ("forget my salary, address and phone", ["forget my salary, address and phone"]),
        ("I have a dog", ["I have a dog"]),
        ("don’t keep my age, but call me Bo", ["don’t keep my age, but call me Bo"]),
        ("I’d like you to forget my age, but call me Bo", ["I’d like you to forget my age", "but call me Bo"]),
    ],
)
def test_what_else_a_sentence_says_stands_apart(said: str, parts: list[str]) -> None:
    assert parts_by_wish(said) == parts


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("Olvida mi sueldo, por favor.", "Mi sueldo es de 2100 euros."),
        ("Olvida todo lo que te dije sobre Andrés.", "Mi exmarido Andrés vive en Burgos."),
        ("Bitte vergiss mein Gehalt.", "Mein Gehalt beträgt 3100 Euro im Monat."),
        ("Vergiss alles, was ich dir über Saskia erzählt habe.", "Meine Exfreundin Saskia wohnt in Fürth."),
        ("Oublie mon salaire, s'il te plaît.", "Mon salaire est de 2400 euros par mois."),
        ("Efface tout ce que je t'ai dit sur mon divorce.", "Le divorce m'a coûté 9000 euros."),
        ("Esquece tudo o que eu te contei sobre o Caio.", "Meu ex Caio mora em Santos."),
        ("Dimentica il mio stipendio, per favore.", "Il mio stipendio è di 1800 euro al mese."),
        ("Забудь мою зарплату, пожалуйста.", "Моя зарплата 90 тысяч рублей в месяц."),
        ("Забудь всё, что я рассказывал про Вику.", "Моя бывшая Вика живёт в Самаре."),
        ("Zapomnij o mojej pensji.", "Nie rozmawiam o mojej pensji z nikim."),
        ("私の給料のことは忘れてください。", "私の給料は月に28万円です。"),
        ("내 월급은 잊어 줘.", "제 월급은 310만 원이에요."),
        ("수아에 대해 말한 건 다 잊어 줘.", "전 여자친구 수아는 대구에 살아요."),
        ("Selin hakkında anlattıklarımı unut.", "Eski sevgilim Selin Bursa'da."),
        ("انسَ راتبي من فضلك.", "راتبي 900 دينار في الشهر."),
        ("मेरी तनख्वाह भूल जाओ।", "मेरी तनख्वाह साठ हज़ार रुपये है।"),
        ("唔好記住我份人工", "我份人工一個月兩萬八"),
        ("佩珊嘅嘢你唔好再記住喇", "我前女友佩珊住喺沙田"),
    ],
)
def test_a_wish_to_forget_is_heard_in_other_languages(said: str, told: str) -> None:
    assert names_topic(topic_to_forget(said), told)


@pytest.mark.parametrize(
    "said",
    [
        "No olvides mi cumpleaños.",
        "Olvídalo, ya lo encontré.",
        "Olvida mi pregunta.",
        "Vergiss mein Gehalt nicht.",
        "Vergiss meine letzte Frage.",
        "Ich vergesse immer meine Schlüssel.",
        "J'ai oublié mes clés.",
        "Dimentica sempre il mio compleanno.",
        "Non dimenticare la mia allergia.",
        "Esquece meu aniversário todo ano.",
        "Забудь, уже разобрался.",
        "Не забудь про мою аллергию.",
        "私のアレルギーを忘れないで。",
        "さっきのことは忘れて。",
        "내 알레르기 잊지 마.",
        "Alerjimi unutma.",
        "मेरी एलर्जी मत भूलना।",
        "算了忘了吧",
    ],
)
def test_what_only_looks_like_such_a_wish_in_another_language_asks_for_nothing(said: str) -> None:
    assert topic_to_forget(said) == ""
