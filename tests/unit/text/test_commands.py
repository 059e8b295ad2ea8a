"""Commands to the memory, in wordings that hardly ever mean anything else; what only looks like one is none."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from reme_core.text.commands import command_of, validity_of_wishes
from reme_core.text.wish_times import validity_of_wish


@pytest.mark.parametrize(
    ("said", "action", "topic"),
    [
        ("also forget everything ive told you about jordan will you", "forget", "jordan will you"),
        ("記住我對花生過敏", "remember", ""),
        ("Recuerda que mi número de calzado es el 38.", "remember", ""),
        ("Merk dir, dass ich mittwochs nie Zeit habe.", "remember", ""),
        ("Souviens-toi que je suis végétarienne.", "remember", ""),
        ("Lembre-se de que eu não como glúten.", "remember", ""),
        ("Ricordati che il giovedì non ci sono mai.", "remember", ""),
        ("Запомни, что я не ем свинину.", "remember", ""),
        ("Zapamiętaj, że w środy nie pracuję.", "remember", ""),
        ("Unutma, çarşambaları çalışmıyorum.", "remember", ""),
        ("تذكر أنني لا أعمل يوم الأربعاء.", "remember", ""),
        ("याद रखना कि मैं बुधवार को काम नहीं करता।", "remember", ""),
        ("覚えておいて、私は水曜日は休みです。", "remember", ""),
        ("내가 채식주의자라는 걸 기억해 줘.", "remember", ""),
        ("麻煩記一下，我媽生日三月三", "remember", ""),
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
        ("Remember this: the code of the shed is 4411", "remember", ""),
        ("Add to your memory: I hate olives", "remember", ""),
        ("no cream, I'm lactose intolerant, keep that in mind pls", "remember", ""),
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
        "¿Recuerdas que fuimos a Roma?", "Ich merke, dass es kalt ist", "Je me souviens que tu aimais ça",
        "単語を覚えておいて", "Я не помню, что ел",
        "remember when we went to Rome?", "she always laughs when I ask about it",
        "I never know if I ask too much", "do you remember my name?", "i'll always remember that day",
        "When I ask my boss for a raise, he gives me excuses", "I use metric units from now on",
        "I have no memory for names", "don't worry about it in the future",
        "your name is on the list from now on", "以后你的名字叫什么",
        "call me back later", "call me maybe", "in future I want to live in Rome", "stop keeleying us",
        "delete milk from the list", "remove the duplicates from your database", "get eggs off your list",
        "delete the second paragraph", "第二句删掉，其他别动", "for循环里删除元素为什么出错", "忘了跟你讲，我到家了",
        "take the keys out of your bag", "I deleted everything about the trip",
        "我记住了", "我忘了带钥匙", "忘了带伞", "叫我起床", "以后我想去北京",
    ],
)  # fmt: skip
def test_what_only_looks_like_a_command_is_none(said: str) -> None:
    assert command_of(said) is None


@pytest.mark.parametrize(
    ("said", "start", "end"),
    [  # said on a Wednesday
        ("answer in french today pls, i need the practice", None, "2024-03-07"),
        ("can u keep it short tonight? im wiped", "2024-03-06", "2024-03-07"),
        ("This week answer me in bullet points only", None, "2024-03-11"),
        ("for the next two weeks reply in Dutch", None, "2024-03-21"),
        ("Tomorrow, answer in French.", "2024-03-07", "2024-03-08"),
        ("until the end of august dont use emojis", None, "2024-09-01"),
        ("no emojis until midnight", None, "2024-03-07"),
        ("answer in French until midnight on Friday", None, "2024-03-09"),
        ("answer in French until midnight tomorrow", None, "2024-03-08"),
        ("From Monday answer in French", "2024-03-11", None),
        ("answer in French from Monday on", "2024-03-11", None),
        ("starting friday call me Doc", "2024-03-08", None),
        ("After Christmas please use metric units.", "2024-12-27", None),
        ("今天用英文回答我", None, "2024-03-07"),
        ("这周都用法语回复我，我在练习", None, "2024-03-11"),
        ("這週請用英文回答", None, "2024-03-11"),
        ("接下来两周用荷兰语回复我", None, "2024-03-21"),
        ("周五之前别用表情", None, "2024-03-08"),
        ("从下个月开始，价格都用欧元", "2024-04-01", None),
        ("this week 都用 English 回我吧", None, "2024-03-11"),
        ("Please always reply in French until my exam on Friday", None, "2024-03-09"),
        ("answer in German through Friday", None, "2024-03-09"),
        ("answer in German up to Friday", None, "2024-03-09"),
        ("answer in German from today to Friday", None, "2024-03-09"),
        ("starting tomorrow until Friday, answer in French", "2024-03-07", "2024-03-09"),
        ("From April on always answer in French", "2024-04-01", None),
        ("As of April, always answer in French", "2024-04-01", None),
        ("answer in German until the end of the month", None, "2024-04-01"),
        ("answer in German for the rest of the week", None, "2024-03-11"),
        ("please answer in Spanish for three days", None, "2024-03-10"),
        ("从今天起到周五用粤语回答我", None, "2024-03-09"),
        ("到月底都用日语回答我", None, "2024-04-01"),
        ("接下来两周别跟我提吃的", None, "2024-03-21"),
        # What only names a time beside the wish bounds nothing.
        ("from now on no emojis, I'm at work until Friday", None, None),
        ("from now on answer in German, not just today", None, None),
        ("Always answer in English, I had a long day today", None, None),
        ("From now on don't tell me about the news of this week", None, None),
        ("Always remind me what day it is today", None, None),
        ("never mention the party tonight", None, None),
        ("on weekends keep your answers short", None, None),
        ("以后回答简短一点，今天太累了", None, None),
        ("以后不用给我讲今天的新闻", None, None),
        ("pls 以后 reply in English, 谢谢", None, None),
        ("以后别用markdown ok？", None, None),
        ("from now on 用中文回答我", None, None),
        ("记得以后回答都用繁体", None, None),
        # From today on, in other languages.
        ("Antworte auf Deutsch ab heute", None, None),
        ("Responde en español a partir de hoy", None, None),
        ("Réponds en français à partir d'aujourd'hui", None, None),
        ("Rispondimi in italiano da oggi in poi", None, None),
        ("Responde em português a partir de hoje", None, None),
        ("Odpowiadaj po polsku od dzisiaj", None, None),
        ("Antwoord in het Nederlands vanaf vandaag", None, None),
        ("今日から日本語で答えてください", None, None),
        ("明日から日本語で答えてください", "2024-03-07", None),
        ("Antworte auf Deutsch, nur heute", None, "2024-03-07"),
    ],
)
def test_a_wish_holds_for_the_time_that_it_names(said: str, start: str | None, end: str | None) -> None:
    held = validity_of_wish(said, datetime(2024, 3, 6, 10, tzinfo=UTC), "UTC")
    assert [moment and f"{moment:%Y-%m-%d}" for moment in (held.start, held.end)] == [start, end]


@pytest.mark.parametrize(
    ("said", "end"),
    [
        ("answer in French until 5 pm", "2024-03-06 17:00"),
        ("Please answer in French until 17:30", "2024-03-06 17:30"),
        ("answer in French until 9 am", "2024-03-07 09:00"),
        ("直到明天下午五点半都用日语回答我", "2024-03-07 17:30"),
        ("到下午五点都用日语回答我", "2024-03-06 17:00"),
        ("到今晚十点都别用表情", "2024-03-06 22:00"),
    ],
)
def test_a_wish_ends_at_the_hour_that_it_names(said: str, end: str) -> None:
    held = validity_of_wish(said, datetime(2024, 3, 6, 10, tzinfo=UTC), "UTC")
    assert f"{held.end:%Y-%m-%d %H:%M}" == end


@pytest.mark.parametrize(
    "said",
    [
        "From now on answer in French. Just until Friday.",
        "From now on answer in French. But only until Friday, then English again!",
        "以后用法语回答我。到周五就行。",
        "Never use emojis. That's until Friday.",
    ],
)
def test_a_wish_ends_when_the_next_sentence_says(said: str) -> None:
    assert validity_of_wishes(said, datetime(2024, 3, 6, 10, tzinfo=UTC), "UTC").end == datetime(2024, 3, 9, tzinfo=UTC)


def test_another_time_in_the_next_sentence_ends_no_wish() -> None:
    said = "From now on answer in French. I'm here until Friday."
    assert validity_of_wishes(said, datetime(2024, 3, 6, 10, tzinfo=UTC), "UTC").end is None


@pytest.mark.parametrize("said", ["Answer in French this evening please.", "今天下午请用法语回答我"])
def test_a_wish_for_a_part_of_today_that_is_over_ends_with_the_day(said: str) -> None:
    held = validity_of_wish(said, datetime(2024, 3, 6, 15, 30, tzinfo=UTC), "Asia/Shanghai")  # half past eleven there
    assert (held.start, held.end) == (None, datetime(2024, 3, 6, 16, tzinfo=UTC))
