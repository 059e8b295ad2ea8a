"""The times of statements: what has no year lies ahead, unless the past is told of; vague times stay as said."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime

import pytest

from reme_core.text.timex import times_of, validity, with_dates

SAID = datetime(2024, 3, 6, 19, tzinfo=UTC)


@pytest.mark.parametrize(
    ("said", "start", "end"),
    [
        ("I'm training for a marathon on October 5", "2024-10-05", "2024-10-06"),
        ("I ran a marathon on October 5", "2023-10-05", "2023-10-06"),
        ("我10月5号跑马拉松", "2024-10-05", "2024-10-06"),
        ("我10月5号跑了马拉松", "2023-10-05", "2023-10-06"),
        ("I've got an exam on May 5", "2024-05-05", "2024-05-06"),
        ("I got a flat on May 5", "2023-05-05", "2023-05-06"),
        ("we're both invited to a wedding on May 5", "2024-05-05", "2024-05-06"),
        ("we were both invited to a wedding on May 5", "2023-05-05", "2023-05-06"),
        ("my sister is getting married on May 5", "2024-05-05", "2024-05-06"),
        ("I spoke to the doctor on Monday", "2024-03-04", "2024-03-05"),
        ("a hundred guests are coming on May 5", "2024-05-05", "2024-05-06"),
        ("Ahmed is at ours on Saturday", "2024-03-09", "2024-03-10"),
        ("picking it up saturday", "2024-03-09", "2024-03-10"),
        ("picking it up at the weekend", "2024-03-09", "2024-03-11"),
        ("picked it up over the weekend", "2024-03-02", "2024-03-04"),
        ("The wedding is on Saturday, June 8 in Leeds", "2024-06-08", "2024-06-09"),
        ("婚礼在6月8日星期六", "2024-06-08", "2024-06-09"),
        ("不过我5月5号有考试", "2024-05-05", "2024-05-06"),
        ("我5月5号过生日", "2024-05-05", "2024-05-06"),
        ("为了5月5号的考试我每天学习", "2024-05-05", "2024-05-06"),
        ("我5月5号去过上海", "2023-05-05", "2023-05-06"),
        ("我5月5号要去上海，票买了", "2024-05-05", "2024-05-06"),
        ("不过我5月5号吃了火锅", "2023-05-05", "2023-05-06"),
        ("the first Monday of February is a holiday", "2025-02-03", "2025-02-04"),
        ("we met on the first Monday of February", "2024-02-05", "2024-02-06"),
        ("we meet on the last Friday of March", "2024-03-29", "2024-03-30"),
        ("we married on the 2nd Saturday in June 2019", "2019-06-08", "2019-06-09"),
        ("聚会在三月最后一个周五", "2024-03-29", "2024-03-30"),
        ("4月第二个星期六搬家", "2024-04-13", "2024-04-14"),
        ("从4月3号到4月10号去日本", "2024-04-03", "2024-04-11"),
        ("yeah the 13th, its nana's 80th", "2024-03-13", "2024-03-14"),
        ("got a flat in heaton on the 1st", "2024-03-01", "2024-03-02"),
        ("surgery is on the 13th of next month", "2024-04-13", "2024-04-14"),
        ("I am away until the 3rd of this month", None, "2024-03-04"),
        ("I'm away until the 5th", None, "2024-04-06"),
        ("I have the van from the 13th on", "2024-03-13", None),
        ("I am ill since the 3rd", "2024-03-03", None),
        ("we fly the day after the 13th", "2024-03-14", "2024-03-15"),
        ("we fly to Rome on Friday week", "2024-03-15", "2024-03-16"),
        ("we are in Rome from 3 to 10 may", "2024-05-03", "2024-05-11"),
        ("from the 3rd to the 10th of May we are in Rome", "2024-05-03", "2024-05-11"),
        ("takes Jardiance since Friday", "2024-03-01", None),
        ("parking permit until the end of August", None, "2024-09-01"),
        ("we have the van till the end of august", None, "2024-09-01"),
        ("签证到8月底", None, "2024-09-01"),
        ("moved last week", "2024-02-26", "2024-03-04"),
        ("my mum visits over easter", "2024-03-31", "2024-04-01"),
        ("my mum came over easter", "2023-04-09", "2023-04-10"),
        ("dentist tmrw at 9", "2024-03-07", "2024-03-08"),
        ("搬家推迟了，要到七月才去杭州", None, "2024-08-01"),
        ("the wedding got pushed back, it's in july", "2024-07-01", "2024-08-01"),
        ("our wedding was in May 2019", "2019-05-01", "2019-06-01"),
        ("I'll rest, I have been ill since Friday", "2024-03-01", None),
        ("Aoife'll drive me, she has her licence since Christmas", "2023-12-24", None),
        ("I'll visit her, she lives in Rome since early May", "2023-05-01", None),
        ("我打算请假，周五以来一直发烧", "2024-03-01", None),
        ("我准备戒烟，自从春节一直咳嗽", "2024-02-10", None),
        ("她打算搬家，自五月以来住在我家", "2023-05-01", None),
        ("Gestern bin ich mit der Bahn nach Graz gefahren", "2024-03-05", "2024-03-06"),
        ("Il y a trois jours je suis allé à Lyon", "2024-03-03", "2024-03-04"),
        ("Ayer fui a la playa con mi hermana", "2024-03-05", "2024-03-06"),
        ("Ieri sono andato al mare con mia sorella", "2024-03-05", "2024-03-06"),
        ("Ontem eu fui à praia com a minha irmã", "2024-03-05", "2024-03-06"),
        ("Gisteren ben ik naar het strand geweest", "2024-03-05", "2024-03-06"),
        ("Вчера я был на море и в городе", "2024-03-05", "2024-03-06"),
        ("three days back I am still ill", "2024-03-03", "2024-03-04"),
        ("In recent weeks I do no sports", "2024-01-17", "2024-03-06"),
        ("我近三个月在学法语", "2023-12-06", "2024-03-06"),
        ("去年 我去了上海", "2023-01-01", "2024-01-01"),
        ("这周 很忙", "2024-03-04", "2024-03-11"),
        ("I bought tickets for the concert on May 5", "2024-05-05", "2024-05-06"),
        ("I bought tickets for the concert on December 20", "2023-12-20", "2023-12-21"),
        ("I signed up for the race on May 2", "2024-05-02", "2024-05-03"),
        ("I bought a bike on May 5", "2023-05-05", "2023-05-06"),
        ("我买了五月五号演唱会的票", "2024-05-05", "2024-05-06"),
        ("下周三到周五我在出差", "2024-03-13", "2024-03-16"),
        ("下星期一到星期三放假", "2024-03-11", "2024-03-14"),
        ("尋日我去咗睇牙", "2024-03-05", "2024-03-06"),
        ("琴日落雨", "2024-03-05", "2024-03-06"),
        ("聽日要考試", "2024-03-07", "2024-03-08"),
        ("我5月5號去咗上海", "2023-05-05", "2023-05-06"),
        ("Ich war am 5. Mai in Graz.", "2023-05-05", "2023-05-06"),
        ("Wir haben am 5. Mai geheiratet.", "2023-05-05", "2023-05-06"),
        ("Ich habe am 5. Mai Geburtstag.", "2024-05-05", "2024-05-06"),
        ("Ich habe am 5. Mai meinen ersten Schultag.", "2024-05-05", "2024-05-06"),
        ("Ich habe Karten für das Konzert am 5. Mai gekauft.", "2024-05-05", "2024-05-06"),
        ("Me operaron el 20 de diciembre.", "2023-12-20", "2023-12-21"),
        ("El 5 de mayo viajaré a Roma con José.", "2024-05-05", "2024-05-06"),
        ("Compré entradas para el concierto del 5 de mayo.", "2024-05-05", "2024-05-06"),
        ("J'étais à Lille le 5 mai.", "2023-05-05", "2023-05-06"),
        ("Je suis invitée à un mariage le 5 mai.", "2024-05-05", "2024-05-06"),
        ("Sono stata a Bari il 5 maggio.", "2023-05-05", "2023-05-06"),
        ("Ho comprato i biglietti per il concerto del 5 maggio.", "2024-05-05", "2024-05-06"),
        ("Estive em Recife no dia 5 de maio.", "2023-05-05", "2023-05-06"),
        ("No dia 5 de maio sou madrinha da minha prima.", "2024-05-05", "2024-05-06"),
        ("Я был в Сочи 5 мая.", "2023-05-05", "2023-05-06"),
        ("Михаил приедет к нам 5 мая.", "2024-05-05", "2024-05-06"),
        ("Byłem w Sopocie 5 maja.", "2023-05-05", "2023-05-06"),
        ("5月5日に金沢に行きました。", "2023-05-05", "2023-05-06"),
        ("5月5日のコンサートのチケットを買いました。", "2024-05-05", "2024-05-06"),
        ("先週から韓国語を勉強し始めました。", "2024-02-26", "2024-03-04"),
        ("再来月、出産予定です", "2024-05-01", "2024-06-01"),
        ("3ヶ月前に離婚しました", "2023-12-01", "2024-01-01"),
        ("어제 처음으로 마라톤을 뛰었어요.", "2024-03-05", "2024-03-06"),
        ("7월에 부산으로 이사 가요.", "2024-07-01", "2024-08-01"),
        ("12월 24일에 태어났어요", "2023-12-24", "2023-12-25"),
        ("5월 5일 콘서트 표를 예매했어요", "2024-05-05", "2024-05-06"),
        ("두 달 전에 이직했어요", "2024-01-01", "2024-02-01"),
        ("Dün ilk maratonumu koştum.", "2024-03-05", "2024-03-06"),
        ("Temmuzda Ankara'ya taşınıyorum.", "2024-07-01", "2024-08-01"),
        ("Geçen yıl evlendik", "2023-01-01", "2024-01-01"),
        ("أمس ركضت أول ماراثون لي.", "2024-03-05", "2024-03-06"),
        ("في ٥ حزيران سأسافر إلى لشبونة.", "2024-06-05", "2024-06-06"),
        ("تزوجت قبل سنتين", "2022-01-01", "2023-01-01"),
        ("कल मैंने अपनी पहली मैराथन दौड़ी।", "2024-03-05", "2024-03-06"),
        ("कल मेरी परीक्षा है", "2024-03-07", "2024-03-08"),
        ("जुलाई में मैं मुंबई जा रहा हूँ।", "2024-07-01", "2024-08-01"),
        ("Ich bin morgen beim Arzt", "2024-03-07", "2024-03-08"),
        ("Mañana por la mañana vuelo a Roma", "2024-03-07", "2024-03-08"),
        ("Im Juli ziehe ich nach Hamburg.", "2024-07-01", "2024-08-01"),
        ("En julio nació mi hija", "2023-07-01", "2023-08-01"),
        ("В июле я переезжаю в Сочи.", "2024-07-01", "2024-08-01"),
        ("W lipcu przeprowadzam się do Gdańska.", "2024-07-01", "2024-08-01"),
        ("5 maja jadę do Sopotu", "2024-05-05", "2024-05-06"),
    ],
)
def test_a_time_is_placed_as_the_statement_means_it(said: str, start: str | None, end: str | None) -> None:
    [when] = times_of(said, SAID, "UTC")
    days = [moment and f"{moment:%Y-%m-%d}" for moment in (when.range.start, when.range.end)]
    assert days == [start, end]


@pytest.mark.parametrize(
    "said",
    [
        "the other day I was ill",
        "最近在学",
        "周三到周五我游泳",
        "我在听日语课",
        "听日本歌",
        "近期在学",
        "every Monday at 7",
        "every third Friday at 7",
        "we meet the 3rd Friday of every month",
        "rent is due the 13th of each month",
        "每个月第三个星期五我们下棋",
        "2 days before my birthday",
        "I like tea",
        "Stephen is coming over, the first time in six years",
        "Guten Morgen, ich arbeite jeden Morgen hier",
        "Por la mañana bebo té y no café",
        "매년 7월마다 부산에 가요",
        "Yemek ocakta pişiyor",
    ],
)
def test_vague_times_habits_and_anchors_are_not_placed(said: str) -> None:
    assert times_of(said, SAID, "UTC") == []


@pytest.mark.parametrize(
    ("said", "start", "end"),
    [
        ("takes Jardiance since Friday", "2024-03-01", None),
        ("parking permit until the end of August", None, "2024-09-01"),
        ("we are in Rome from 3 to 10 May", "2024-05-03", "2024-05-11"),
        ("we are in Rome from 3 to 10 March", "2024-03-03", "2024-03-11"),
        ("we are in Rome from 3 to 10 May 2026", "2026-05-03", "2026-05-11"),
        ("we are in Rome from May 3 to 10", "2024-05-03", "2024-05-11"),
        ("5月3号到10号我在罗马", "2024-05-03", "2024-05-11"),
        ("we are in Rome from 3 May to 10 June", "2024-05-03", "2024-06-11"),
        ("we are in Rome from May 3rd to June 10th", "2024-05-03", "2024-06-11"),
        ("we were in Rome from 3 May to 10 June", "2023-05-03", "2023-06-11"),
        ("we are in Rome from 28 to 3 May", None, None),
        ("we meet on May 3 from 2 to 4 pm", None, None),
        ("moved to Rome on Sunday", None, None),
        ("从5月1日开始我在上海上班", "2024-05-01", None),
        ("5月1日起我在上海上班", "2024-05-01", None),
        ("从5月1日起我就一直在上海", "2023-05-01", None),
        ("我从5月1日开始上班了", "2023-05-01", None),
        ("从上个月1号开始我在上海", "2024-02-01", None),
        ("After May 3 I'm free", "2024-05-04", None),
        ("After Easter I work from home", "2024-04-01", None),
        ("After the weekend I work from home", "2024-03-11", None),
        ("I'm in Rome until the weekend", None, "2024-03-11"),
        ("starting June I work from home", "2024-06-01", None),
        ("from April 2 on I'm in Rome", "2024-04-02", None),
        ("from April 2 on I've been in Rome", "2023-04-02", None),
        ("I work there since May 3", "2023-05-03", None),
        ("I'm on leave till Friday 5 April", None, "2024-04-06"),
        ("5月3号之前我都在休假", None, "2024-05-03"),
        ("5月3号前我都在休假", None, "2024-05-03"),
        ("周五之前我都在休假", None, "2024-03-08"),
        ("周五前我都在休假", None, "2024-03-08"),
        ("parking permit till the 13th", None, "2024-03-14"),
        ("here since 2019, and there since 2020", None, None),
    ],
)
def test_only_bounds_and_spans_say_when_something_holds(said: str, start: str | None, end: str | None) -> None:
    found = validity(said, SAID, "UTC")
    assert [moment and f"{moment:%Y-%m-%d}" for moment in (found.start, found.end)] == [start, end]


@pytest.mark.parametrize(
    ("said", "start"),
    [
        ("从三月开始我在学法语", "2024-03-01"),
        ("5月1日之后我在家办公", "2024-05-02"),
        ("I feel better after May 3", "2024-05-04"),
        ("从8月1日起我在家办公", "2024-08-01"),
        ("After May 3 I will work from home", "2025-05-04"),
    ],
)
def test_what_opened_lately_has_begun(said: str, start: str) -> None:
    found = validity(said, datetime(2024, 6, 10, tzinfo=UTC), "UTC").start
    assert f"{found:%Y-%m-%d}" == start


def test_a_relative_time_gets_its_date_and_a_vague_one_does_not() -> None:
    assert with_dates("Ada moved yesterday", SAID, "UTC") == "Ada moved yesterday (2024-03-05)"
    assert with_dates("Ada was ill the other day", SAID, "UTC") == "Ada was ill the other day"
    assert with_dates("Maybe Ada moves in May", SAID, "UTC") == "Maybe Ada moves in May (2024-05)"


@pytest.mark.parametrize(
    ("traditional", "simplified"), [("兩天前", "两天前"), ("上個星期五", "上个星期五"), ("這週", "这周")]
)
def test_traditional_characters_are_read_as_the_simplified_ones(traditional: str, simplified: str) -> None:
    [found], [known] = (times_of(text, SAID, "UTC") for text in (traditional, simplified))
    assert found.range == known.range
    day = with_dates(simplified, SAID, "UTC").removeprefix(simplified)
    assert day and with_dates(traditional, SAID, "UTC") == traditional + day


@pytest.mark.parametrize(
    ("said", "of_wish", "start"),
    [  # said on a Wednesday
        ("From Monday on, answer in French, as I told you", True, "2024-03-11"),
        ("starting friday call me Doc", True, "2024-03-08"),
        ("as of next month, give prices in euros", True, "2024-04-01"),
        ("from Wednesday on, answer in French", True, "2024-03-06"),
        ("from the 5th on answer in French", True, "2024-04-05"),
        ("After Christmas please use metric units", True, "2024-12-27"),
        ("从周一起用英语回答我", True, "2024-03-11"),
        ("周五开始叫我老王", True, "2024-03-08"),
        ("从周三起用英语回答我", True, "2024-03-06"),
        ("from Monday on I work in Leeds", False, "2024-03-11"),
        ("from Monday on I was ill", False, "2024-03-04"),
        ("从周一起我在上海出差", False, "2024-03-04"),
    ],
)
def test_what_is_wished_from_a_day_on_begins_at_the_next_such_day(said: str, of_wish: bool, start: str) -> None:
    held = validity(said, SAID, "UTC", of_wish=of_wish)
    assert (f"{held.start:%Y-%m-%d}", held.end) == (start, None)


def test_before_the_end_of_a_month_is_until_its_end() -> None:
    assert str(validity("到八月底之前我都在罗马", SAID, "UTC").end) == "2024-09-01 00:00:00+00:00"


def test_months_are_english_whatever_language_the_process_is_set_to() -> None:
    # As after `locale.setlocale(locale.LC_ALL, "")` on a German machine, whose locale may not be installed here.
    code = """
import calendar
calendar.month_name = "- Januar Februar März April Mai Juni Juli August September Oktober November Dezember".split()
calendar.month_abbr = [name[:3] for name in calendar.month_name]
calendar.day_name = "Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag".split()
calendar.day_abbr = [name[:2] for name in calendar.day_name]
from datetime import UTC, datetime
from reme_core.prompts.note import render
from reme_core.store.messages import _day
from reme_core.text.named import proper_names
from reme_core.text.timex import times_of
from reme_core.types import Hit, Memory, Parts
said = datetime(2024, 5, 7, tzinfo=UTC)
memory = Memory(content="I live in Rome.", observed_at=said, metadata={"mode": "quoted"})
print("7 May 2024" in render([Hit(rank=1, memory=memory, parts=Parts())], 500).text, _day(said, memory.content))
print(proper_names("I met Ann on a Tuesday in May"), times_of("from 3 to 10 June", said, "UTC")[0].text)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True 7 May 2024\n['Ann'] 3 to 10 June\n"
