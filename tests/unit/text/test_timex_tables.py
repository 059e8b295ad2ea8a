"""Every shape of time expression, with the range it means on a Wednesday afternoon; and what only looks like one."""

from datetime import datetime

import pytest

from reme_core.text.timex import TimeMention, find_times, has_time

NOW = datetime(2026, 11, 18, 15, 30)

ENGLISH = [
    ("What did I do last spring?", "last spring", "2026-03-01..2026-06-01", "season"),
    ("the weekend before last", "the weekend before last", "2026-11-07..2026-11-09", "day"),
    ("see you a week from Friday", "a week from Friday", "2026-11-27..2026-11-28", "day"),
    ("two weeks from tomorrow", "two weeks from tomorrow", "2026-12-03..2026-12-04", "day"),
    ("off for two weeks from Monday", "Monday", "2026-11-16..2026-11-17", "day"),
    ("in early May 2023", "early May 2023", "2023-05-01..2023-05-11", "week"),
    ("two weeks ago", "two weeks ago", "2026-11-02..2026-11-09", "week"),
    ("between March and May", "between March and May", "2026-03-01..2026-06-01", "month"),
    ("between March 3 and 5", "March 3 and 5", "2026-03-03..2026-03-06", "day"),
    ("between March 3rd and 5th, 2023, in Rome", "March 3rd and 5th, 2023", "2023-03-03..2023-03-06", "day"),
    ("between March 3 and 5 of last year", "March 3 and 5 of last year", "2025-03-03..2025-03-06", "day"),
    ("between March 3 and 5 we were in Rome", "March 3 and 5", "2026-03-03..2026-03-06", "day"),
    ("between March 3 and 5 people came", "March 3", "2026-03-03..2026-03-04", "day"),
    ("between March 3 and 5 of my friends came", "March 3", "2026-03-03..2026-03-04", "day"),
    ("between March 3 and 5 or 6 people came", "March 3", "2026-03-03..2026-03-04", "day"),
    ("How did March 3 to 5 go?", "March 3 to 5", "2026-03-03..2026-03-06", "day"),
    ("the May 3 to 5 trip", "May 3 to 5", "2026-05-03..2026-05-06", "day"),
    ("from March 3rd to the 5th of April", "from March 3rd to the 5th of April", "2026-03-03..2026-04-06", "day"),
    ("from March 3 to 5 April", "from March 3 to 5 April", "2026-03-03..2026-04-06", "day"),
    ("Psalm 3-5 March 2", "March 2", "2026-03-02..2026-03-03", "day"),
    ("20 to 5 pm yesterday", "5 pm yesterday", "2026-11-17T17:00..2026-11-17T18:00", "hour"),
    ("12 to 11:30 yesterday", "11:30 yesterday", "2026-11-17T11:30..2026-11-17T12:30", "hour"),
    ("on March 3 and 5 I swam", "March 3", "2026-03-03..2026-03-04", "day"),
    ("between March 28 and 3", "March 28", "2026-03-28..2026-03-29", "day"),
    ("from March 3 to 5 visiting Ann", "March 3 to 5", "2026-03-03..2026-03-06", "day"),
    ("our March 3–5 trip", "March 3–5", "2026-03-03..2026-03-06", "day"),
    ("March 3 — 5", "March 3 — 5", "2026-03-03..2026-03-06", "day"),
    ("March 3 through 5", "March 3 through 5", "2026-03-03..2026-03-06", "day"),
    ("between the 3rd and the 5th of March", "the 3rd and the 5th of March", "2026-03-03..2026-03-06", "day"),
    ("from 3 to 5 March", "3 to 5 March", "2026-03-03..2026-03-06", "day"),
    ("between 3 and 5 March 2024", "3 and 5 March 2024", "2024-03-03..2024-03-06", "day"),
    ("3-5 March 2023", "3-5 March 2023", "2023-03-03..2023-03-06", "day"),
    ("the 3rd and 5th of March", "5th of March", "2026-03-05..2026-03-06", "day"),
    ("from May 3 to June 2", "from May 3 to June 2", "2026-05-03..2026-06-03", "day"),
    ("from Monday to Wednesday", "from Monday to Wednesday", "2026-11-09..2026-11-12", "day"),
    ("between 2 and 4 pm yesterday", "between 2 and 4 pm yesterday", "2026-11-17T14:00..2026-11-17T16:00", "hour"),
    ("from 2 pm to 4 pm yesterday", "from 2 pm to 4 pm yesterday", "2026-11-17T14:00..2026-11-17T16:00", "hour"),
    ("2-4pm yesterday", "2-4pm yesterday", "2026-11-17T14:00..2026-11-17T16:00", "hour"),
    ("yesterday between 2 and 4 pm", "yesterday between 2 and 4 pm", "2026-11-17T14:00..2026-11-17T16:00", "hour"),
    ("yesterday from 14:00 to 16:00", "yesterday from 14:00 to 16:00", "2026-11-17T14:00..2026-11-17T16:00", "hour"),
    ("from 11 to 2:30 pm yesterday", "from 11 to 2:30 pm yesterday", "2026-11-17T11:00..2026-11-17T14:30", "hour"),
    (
        "yesterday from noon until midnight",
        "yesterday from noon until midnight",
        "2026-11-17T12:00..2026-11-18",
        "hour",
    ),
    ("yesterday from midnight to 4 am", "yesterday from midnight to 4 am", "2026-11-17..2026-11-17T04:00", "hour"),
    ("from 10 pm to 2 am yesterday", "from 10 pm to 2 am yesterday", "2026-11-17T22:00..2026-11-18T02:00", "hour"),
    (
        "from Monday 2 pm to 4 pm Tuesday",
        "from Monday 2 pm to 4 pm Tuesday",
        "2026-11-16T14:00..2026-11-17T17:00",
        "hour",
    ),
    ("from today to Sunday", "from today to Sunday", "2026-11-18..2026-11-23", "day"),
    ("since Monday", "since Monday", "2026-11-16..", "day"),
    ("Q3 2024", "Q3 2024", "2024-07-01..2024-10-01", "season"),
    ("the 90s", "the 90s", "1990-01-01..2000-01-01", "year"),
    ("yesterday", "yesterday", "2026-11-17..2026-11-18", "day"),
    ("today", "today", "2026-11-18..2026-11-19", "day"),
    ("tomorrow morning", "tomorrow morning", "2026-11-19T05:00..2026-11-19T12:00", "hour"),
    ("the day before yesterday", "the day before yesterday", "2026-11-16..2026-11-17", "day"),
    ("the day after tomorrow", "the day after tomorrow", "2026-11-20..2026-11-21", "day"),
    ("last night", "last night", "2026-11-17T18:00..2026-11-18T06:00", "hour"),
    ("tonight", "tonight", "2026-11-18T18:00..2026-11-19T06:00", "hour"),
    ("this morning", "this morning", "2026-11-18T05:00..2026-11-18T12:00", "hour"),
    ("yesterday at 5pm", "yesterday at 5pm", "2026-11-17T17:00..2026-11-17T18:00", "hour"),
    ("on Monday", "Monday", "2026-11-16..2026-11-17", "day"),
    ("next Friday", "next Friday", "2026-11-20..2026-11-21", "day"),
    ("on Friday I will fly", "Friday", "2026-11-20..2026-11-21", "day"),
    ("last Tuesday evening", "last Tuesday evening", "2026-11-17T18:00..2026-11-17T23:00", "hour"),
    ("Tuesday last week", "Tuesday last week", "2026-11-10..2026-11-11", "day"),
    ("last week", "last week", "2026-11-09..2026-11-16", "week"),
    ("next week", "next week", "2026-11-23..2026-11-30", "week"),
    ("this weekend", "this weekend", "2026-11-21..2026-11-23", "day"),
    ("last weekend", "last weekend", "2026-11-14..2026-11-16", "day"),
    ("What did I say at the weekend?", "at the weekend", "2026-11-14..2026-11-16", "day"),
    ("I will fly over the weekend", "over the weekend", "2026-11-21..2026-11-23", "day"),
    ("last month", "last month", "2026-10-01..2026-11-01", "month"),
    ("what we said in the last month", "the last month", "2026-10-18..2026-11-18T15:30", "month"),
    ("what we said in the last hour", "the last hour", "2026-11-18T14:30..2026-11-18T15:30", "hour"),
    ("over this last week", "last week", "2026-11-11..2026-11-18T15:30", "week"),
    ("this year", "this year", "2026-01-01..2027-01-01", "year"),
    ("the past year", "the past year", "2025-11-18..2026-11-18T15:30", "year"),
    ("last year", "last year", "2025-01-01..2026-01-01", "year"),
    ("the year before last", "the year before last", "2024-01-01..2025-01-01", "year"),
    ("the summer before last", "the summer before last", "2025-06-01..2025-09-01", "season"),
    ("May 7", "May 7", "2026-05-07..2026-05-08", "day"),
    ("May 7, 2023", "May 7, 2023", "2023-05-07..2023-05-08", "day"),
    ("7 May 2023", "7 May 2023", "2023-05-07..2023-05-08", "day"),
    ("the 7th of May", "the 7th of May", "2026-05-07..2026-05-08", "day"),
    ("May 5-9, 2023", "May 5-9, 2023", "2023-05-05..2023-05-10", "day"),
    ("Sunday, May 7, 2023 at 3 pm", "Sunday, May 7, 2023 at 3 pm", "2023-05-07T15:00..2023-05-07T16:00", "hour"),
    ("2023-05-07", "2023-05-07", "2023-05-07..2023-05-08", "day"),
    ("2023-05-07T14:30", "2023-05-07T14:30", "2023-05-07T14:00..2023-05-07T15:00", "hour"),
    ("5/7/2023", "5/7/2023", "2023-05-07..2023-05-08", "day"),
    ("25/12/2022", "25/12/2022", "2022-12-25..2022-12-26", "day"),
    ("07.05.2023", "07.05.2023", "2023-05-07..2023-05-08", "day"),
    ("in May", "May", "2026-05-01..2026-06-01", "month"),
    ("May 2023", "May 2023", "2023-05-01..2023-06-01", "month"),
    ("last May", "last May", "2026-05-01..2026-06-01", "month"),
    ("next May", "next May", "2027-05-01..2027-06-01", "month"),
    ("in December", "December", "2025-12-01..2026-01-01", "month"),
    ("late 2019", "late 2019", "2019-09-01..2020-01-01", "season"),
    ("mid-May", "mid-May", "2026-05-11..2026-05-21", "week"),
    ("the end of last month", "the end of last month", "2026-10-21..2026-11-01", "week"),
    ("beginning of this year", "beginning of this year", "2026-01-01..2026-05-01", "season"),
    ("spring of 2022", "spring of 2022", "2022-03-01..2022-06-01", "season"),
    ("in the fall", "fall", "2026-09-01..2026-12-01", "season"),
    ("last winter", "last winter", "2025-12-01..2026-03-01", "season"),
    ("last autumn", "last autumn", "2025-09-01..2025-12-01", "season"),
    ("over the summer", "summer", "2026-06-01..2026-09-01", "season"),
    ("in 2019", "2019", "2019-01-01..2020-01-01", "year"),
    ("since 2019", "since 2019", "2019-01-01..", "year"),
    ("before 2020", "before 2020", "..2020-01-01", "year"),
    ("after March 2021", "after March 2021", "2021-04-01..", "month"),
    ("until 5 pm on Friday", "until 5 pm on Friday", "..2026-11-13T17:00", "hour"),
    ("till 17:30 tomorrow", "till 17:30 tomorrow", "..2026-11-19T17:30", "hour"),
    ("after 5 pm on Friday", "after 5 pm on Friday", "2026-11-13T17:00..", "hour"),
    ("by noon tomorrow", "by noon tomorrow", "..2026-11-19T12:00", "hour"),
    ("until midnight on Friday", "until midnight on Friday", "..2026-11-14", "hour"),
    ("until the evening of May 7", "until the evening of May 7", "..2026-05-07T23:00", "hour"),
    ("until Friday", "until Friday", "..2026-11-14", "day"),
    ("from 2019 to 2021", "from 2019 to 2021", "2019-01-01..2022-01-01", "year"),
    ("March to May 2023", "March to May 2023", "2023-03-01..2023-06-01", "month"),
    ("three days ago", "three days ago", "2026-11-15..2026-11-16", "day"),
    ("a couple of months ago", "a couple of months ago", "2026-09-01..2026-10-01", "month"),
    ("half a year ago", "half a year ago", "2026-05-01..2026-06-01", "month"),
    ("an hour ago", "an hour ago", "2026-11-18T14:00..2026-11-18T15:00", "hour"),
    ("a few days ago", "a few days ago", "2026-11-11..2026-11-17", "day"),
    ("two and a half years ago", "two and a half years ago", "2024-05-01..2024-06-01", "month"),
    ("the last two weeks", "the last two weeks", "2026-11-04..2026-11-18T15:30", "week"),
    ("over the past 3 months", "the past 3 months", "2026-08-18..2026-11-18T15:30", "month"),
    ("the next ten days", "the next ten days", "2026-11-18T15:30..2026-11-29", "day"),
    ("I will be back in two weeks", "in two weeks", "2026-11-30..2026-12-07", "week"),
    ("a week from now", "a week from now", "2026-11-23..2026-11-30", "week"),
    ("last Christmas", "last Christmas", "2025-12-24..2025-12-27", "day"),
    ("on Christmas 2022", "Christmas 2022", "2022-12-24..2022-12-27", "day"),
    ("over Thanksgiving", "Thanksgiving", "2025-11-27..2025-11-28", "day"),
    ("two days after Christmas", "two days after Christmas", "2025-12-28..2025-12-29", "day"),
    ("the first quarter of 2024", "the first quarter of 2024", "2024-01-01..2024-04-01", "season"),
    ("second half of last year", "second half of last year", "2025-07-01..2026-01-01", "season"),
    ("in the 1990s", "the 1990s", "1990-01-01..2000-01-01", "year"),
    ("the early 2000s", "the early 2000s", "2000-01-01..2003-05-01", "year"),
    ("recently", "recently", "2026-10-18..2026-11-18T15:30", "month"),
    ("the other day", "the other day", "2026-11-08..2026-11-18T15:30", "day"),
    ("earlier this week", "earlier this week", "2026-11-16..2026-11-18T15:30", "week"),
    ("from 2019 on", "from 2019 on", "2019-01-01..", "year"),
    ("January was cold", "January", "2026-01-01..2026-02-01", "month"),
    ("the morning of May 7", "the morning of May 7", "2026-05-07T05:00..2026-05-07T12:00", "hour"),
    ("noon yesterday", "noon yesterday", "2026-11-17T12:00..2026-11-17T13:00", "hour"),
    ("a year ago today", "a year ago today", "2025-11-18..2025-11-19", "day"),
    ("the Sunday before 25 May 2023", "Sunday before 25 May 2023", "2023-05-21..2023-05-22", "day"),
    ("the week before 6 July 2023", "the week before 6 July 2023", "2023-06-26..2023-07-03", "week"),
    ("What did Caroline do on the 7th of May 2023?", "the 7th of May 2023", "2023-05-07..2023-05-08", "day"),
    ("I'll see her on Friday", "Friday", "2026-11-20..2026-11-21", "day"),
    ("my plan for the coming weekend", "the coming weekend", "2026-11-21..2026-11-23", "day"),
    ("three weeks from today", "three weeks from today", "2026-12-07..2026-12-14", "week"),
    ("in ten days' time", "in ten days' time", "2026-11-28..2026-11-29", "day"),
    ("since the beginning of 2023", "since the beginning of 2023", "2023-01-01..", "season"),
    ("Halloween of 2021", "Halloween of 2021", "2021-10-31..2021-11-01", "day"),
    ("spring last year", "spring last year", "2025-03-01..2025-06-01", "season"),
    ("May of last year", "May of last year", "2025-05-01..2025-06-01", "month"),
    ("the winter before last", "the winter before last", "2024-12-01..2025-03-01", "season"),
    ("Thursday afternoon", "Thursday afternoon", "2026-11-12T12:00..2026-11-12T18:00", "hour"),
    ("'May 2019' was great", "May 2019", "2019-05-01..2019-06-01", "month"),
]

CHINESE = [
    ("周五下午五点之后", "周五下午五点之后", "2026-11-13T17:00..", "hour"),
    ("直到周五下午五点", "直到周五下午五点", "..2026-11-13T17:00", "hour"),
    ("上周三我做了什么？", "上周三", "2026-11-11..2026-11-12", "day"),
    ("前年夏天", "前年夏天", "2024-06-01..2024-09-01", "season"),
    ("去年国庆", "去年国庆", "2025-10-01..2025-10-08", "day"),
    ("大前天", "大前天", "2026-11-15..2026-11-16", "day"),
    ("今天", "今天", "2026-11-18..2026-11-19", "day"),
    ("昨儿下午", "昨儿下午", "2026-11-17T12:00..2026-11-17T18:00", "hour"),
    ("昨儿女朋友来了", "昨儿", "2026-11-17..2026-11-18", "day"),
    ("昨凌晨", "昨凌晨", "2026-11-17..2026-11-17T06:00", "hour"),
    ("昨天晚上", "昨天晚上", "2026-11-17T18:00..2026-11-18", "hour"),
    ("昨晚八点", "昨晚八点", "2026-11-17T20:00..2026-11-17T21:00", "hour"),
    ("明天下午三点", "明天下午三点", "2026-11-19T15:00..2026-11-19T16:00", "hour"),
    ("昨天下午2点到4点开会", "昨天下午2点到4点", "2026-11-17T14:00..2026-11-17T16:00", "hour"),
    ("昨天早上九点到五点半", "昨天早上九点到五点半", "2026-11-17T09:00..2026-11-17T17:30", "hour"),
    ("昨天晚上10点到2点", "昨天晚上10点到2点", "2026-11-17T22:00..2026-11-18T02:00", "hour"),
    ("明天上午十点到下午两点", "明天上午十点到下午两点", "2026-11-19T10:00..2026-11-19T14:00", "hour"),
    ("11月3日14:00-16:15", "11月3日14:00-16:15", "2026-11-03T14:00..2026-11-03T16:15", "hour"),
    ("昨天3点到家", "昨天3点", "2026-11-17T03:00..2026-11-17T04:00", "hour"),
    ("后天", "后天", "2026-11-20..2026-11-21", "day"),
    ("这周五", "这周五", "2026-11-20..2026-11-21", "day"),
    ("下周一", "下周一", "2026-11-23..2026-11-24", "day"),
    ("上上周六", "上上周六", "2026-11-07..2026-11-08", "day"),
    ("上周", "上周", "2026-11-09..2026-11-16", "week"),
    ("本周", "本周", "2026-11-16..2026-11-23", "week"),
    ("这个周末", "这个周末", "2026-11-21..2026-11-23", "day"),
    ("上个周末", "上个周末", "2026-11-14..2026-11-16", "day"),
    ("上个月", "上个月", "2026-10-01..2026-11-01", "month"),
    ("上个月底", "上个月底", "2026-10-21..2026-11-01", "week"),
    ("这个月初", "这个月初", "2026-11-01..2026-11-11", "week"),
    ("下个月", "下个月", "2026-12-01..2027-01-01", "month"),
    ("上月15号", "上月15号", "2026-10-15..2026-10-16", "day"),
    ("今年", "今年", "2026-01-01..2027-01-01", "year"),
    ("去年", "去年", "2025-01-01..2026-01-01", "year"),
    ("前年", "前年", "2024-01-01..2025-01-01", "year"),
    ("去年五月", "去年五月", "2025-05-01..2025-06-01", "month"),
    ("今年3月8日", "今年3月8日", "2026-03-08..2026-03-09", "day"),
    ("2023年5月7日", "2023年5月7日", "2023-05-07..2023-05-08", "day"),
    ("2023年5月", "2023年5月", "2023-05-01..2023-06-01", "month"),
    ("2023年", "2023年", "2023-01-01..2024-01-01", "year"),
    ("二〇二三年五月七日", "二〇二三年五月七日", "2023-05-07..2023-05-08", "day"),
    ("5月7日", "5月7日", "2026-05-07..2026-05-08", "day"),
    ("五月七号下午", "五月七号下午", "2026-05-07T12:00..2026-05-07T18:00", "hour"),
    ("2023-05-07", "2023-05-07", "2023-05-07..2023-05-08", "day"),
    ("2023年春天", "2023年春天", "2023-03-01..2023-06-01", "season"),
    ("去年冬天", "去年冬天", "2025-12-01..2026-03-01", "season"),
    ("去年夏天", "去年夏天", "2025-06-01..2025-09-01", "season"),
    ("今年上半年", "今年上半年", "2026-01-01..2026-07-01", "season"),
    ("2024年第三季度", "2024年第三季度", "2024-07-01..2024-10-01", "season"),
    ("去年年底", "去年年底", "2025-09-01..2026-01-01", "season"),
    ("今年初", "今年初", "2026-01-01..2026-05-01", "season"),
    ("去年春节", "去年春节", "2025-01-29..2025-02-05", "day"),
    ("2023年中秋节", "2023年中秋节", "2023-09-29..2023-09-30", "day"),
    ("国庆节我去了哪里？", "国庆节", "2026-10-01..2026-10-08", "day"),
    ("中秋节跟谁一起过的", "中秋节", "2026-09-25..2026-09-26", "day"),
    ("春节吃了什么", "春节", "2026-02-17..2026-02-24", "day"),
    ("国庆期间去了哪里", "国庆期间", "2026-10-01..2026-10-08", "day"),
    ("在圣诞节", "圣诞节", "2025-12-25..2025-12-26", "day"),
    ("上个国庆", "上个国庆", "2026-10-01..2026-10-08", "day"),
    ("三天前", "三天前", "2026-11-15..2026-11-16", "day"),
    ("两周前", "两周前", "2026-11-02..2026-11-09", "week"),
    ("两个月前", "两个月前", "2026-09-01..2026-10-01", "month"),
    ("半年前", "半年前", "2026-05-01..2026-06-01", "month"),
    ("十年前", "十年前", "2016-01-01..2017-01-01", "year"),
    ("几天前", "几天前", "2026-11-11..2026-11-17", "day"),
    ("三小时前", "三小时前", "2026-11-18T12:00..2026-11-18T13:00", "hour"),
    ("最近两周", "最近两周", "2026-11-04..2026-11-18T15:30", "week"),
    ("过去三天", "过去三天", "2026-11-15..2026-11-18T15:30", "day"),
    ("近一个月", "近一个月", "2026-10-18..2026-11-18T15:30", "month"),
    ("未来一周", "未来一周", "2026-11-18T15:30..2026-11-26", "week"),
    ("最近", "最近", "2026-10-18..2026-11-18T15:30", "month"),
    ("90年代", "90年代", "1990-01-01..2000-01-01", "year"),
    ("上世纪八十年代", "上世纪八十年代", "1980-01-01..1990-01-01", "year"),
    ("80年代初", "80年代初", "1980-01-01..1983-05-01", "year"),
    ("从三月到五月", "从三月到五月", "2026-03-01..2026-06-01", "month"),
    ("2019年到2021年", "2019年到2021年", "2019-01-01..2022-01-01", "year"),
    ("3月5日至8日", "3月5日至8日", "2026-03-05..2026-03-09", "day"),
    ("去年以来", "去年以来", "2025-01-01..", "year"),
    ("自从2020年以后", "自从2020年以后", "2020-01-01..", "year"),
    ("2020年以前", "2020年以前", "..2020-01-01", "year"),
    ("三月之后", "三月之后", "2026-04-01..", "month"),
    ("周三见了他", "周三", "2026-11-11..2026-11-12", "day"),
    ("星期天我去爬山", "星期天", "2026-11-15..2026-11-16", "day"),
    ("我打算周五去", "周五", "2026-11-20..2026-11-21", "day"),
    ("春节前三天", "春节前三天", "2026-02-14..2026-02-15", "day"),
    ("去夏", "去夏", "2025-06-01..2025-09-01", "season"),
    ("2023年五一", "2023年五一", "2023-05-01..2023-05-06", "day"),
    ("上个夏天", "上个夏天", "2026-06-01..2026-09-01", "season"),
    ("三年后我要买房", "三年后", "2029-01-01..2030-01-01", "year"),
    ("一个半月前", "一个半月前", "2026-10-05..2026-10-12", "week"),
    ("直到去年", "直到去年", "..2026-01-01", "year"),
    ("前几天", "前几天", "2026-11-11..2026-11-18T15:30", "day"),
    ("这两天", "这两天", "2026-11-16..2026-11-18T15:30", "day"),
    ("3月底", "3月底", "2026-03-21..2026-04-01", "week"),
    ("五月中旬", "五月中旬", "2026-05-11..2026-05-21", "week"),
    ("今晚", "今晚", "2026-11-18T18:00..2026-11-19", "hour"),
    ("今早", "今早", "2026-11-18T05:00..2026-11-18T10:00", "hour"),
    ("下周末", "下周末", "2026-11-28..2026-11-30", "day"),
    ("大后天", "大后天", "2026-11-21..2026-11-22", "day"),
    ("国庆后一周", "国庆后一周", "2026-10-12..2026-10-19", "week"),
    ("两年半前", "两年半前", "2024-05-01..2024-06-01", "month"),
    ("三个月以前", "三个月以前", "2026-08-01..2026-09-01", "month"),
    ("李雷去年十月份在北京工作", "去年十月份", "2025-10-01..2025-11-01", "month"),
    ("我们下下周出发", "下下周", "2026-11-30..2026-12-07", "week"),
    ("2022年12月底", "2022年12月底", "2022-12-21..2023-01-01", "week"),
    ("今年除夕", "今年除夕", "2026-02-16..2026-02-17", "day"),
    ("今天早上7点半", "今天早上7点半", "2026-11-18T07:30..2026-11-18T08:30", "hour"),
    ("周六晚上", "周六晚上", "2026-11-14T18:00..2026-11-15", "hour"),
]

OTHERS = [
    ("Was habe ich gestern gemacht und wo war ich?", "gestern", "2026-11-17..2026-11-18", "day"),
    ("Wir haben vor zwei Wochen das Haus gekauft", "vor zwei Wochen", "2026-11-02..2026-11-09", "week"),
    ("Am 7. Mai 2023 sind wir mit der Bahn gefahren", "7. Mai 2023", "2023-05-07..2023-05-08", "day"),
    ("Il y a trois jours je suis allé à la plage avec lui", "Il y a trois jours", "2026-11-15..2026-11-16", "day"),
    ("Hace dos semanas que no nos vemos en la casa", "Hace dos semanas", "2026-11-02..2026-11-09", "week"),
    ("El 5 de mayo de 2023 fuimos con los niños", "5 de mayo de 2023", "2023-05-05..2023-05-06", "day"),
    ("Ieri sono andato al mare con gli amici della scuola", "Ieri", "2026-11-17..2026-11-18", "day"),
    ("Ontem eu não fui à escola com os meus amigos", "Ontem", "2026-11-17..2026-11-18", "day"),
    ("Twee weken geleden was ik bij de bakker", "Twee weken geleden", "2026-11-02..2026-11-09", "week"),
    ("Два дня назад я купил книгу", "Два дня назад", "2026-11-16..2026-11-17", "day"),
    ("Ich bin am 12.11.2026 operiert worden", "12.11.2026", "2026-11-12..2026-11-13", "day"),
    ("Letzte Woche war ich krank", "Letzte Woche", "2026-11-09..2026-11-16", "week"),
    ("La semana pasada estuve enferma", "La semana pasada", "2026-11-09..2026-11-16", "week"),
    ("La semana que viene me mudo", "La semana que viene", "2026-11-23..2026-11-30", "week"),
    ("Pasado mañana tengo examen", "Pasado mañana", "2026-11-20..2026-11-21", "day"),
    ("Le mois prochain je déménage", "Le mois prochain", "2026-12-01..2027-01-01", "month"),
    ("La settimana scorsa ero malata", "settimana scorsa", "2026-11-09..2026-11-16", "week"),
    ("Mês que vem eu me mudo", "Mês que vem", "2026-12-01..2027-01-01", "month"),
    ("На прошлой неделе я болела", "На прошлой неделе", "2026-11-09..2026-11-16", "week"),
    ("W zeszłym tygodniu chorowałam", "W zeszłym tygodniu", "2026-11-09..2026-11-16", "week"),
    ("Wczoraj jadłam kolację z Anią", "Wczoraj", "2026-11-17..2026-11-18", "day"),
    # Too few function words to tell the language by these alone.
    ("Ayer cené con Marta", "Ayer", "2026-11-17..2026-11-18", "day"),
    ("Hier j'ai dîné avec Paul", "Hier", "2026-11-17..2026-11-18", "day"),
    ("Nos casamos en mayo de 2021", "mayo de 2021", "2021-05-01..2021-06-01", "month"),
]

NO_TIMES = """
Hier 14 Uhr Zahnarzt
Hotel Mai 2021
以前儿子喜欢恐龙
如今儿女都大了
产后儿科检查
    the last week of May
    in the last hour of the exam
    I may march on second street
    You may go now
    the march of progress
    She sat down in the sun
    It costs $2019
    2019 people came
    I need 2000 steps
    in 2000 steps
    a total of 2000 items
    room 2024
    for two weeks
    it took three days
    I read it in two weeks
    10 years old
    She is in her 90s
    the second option
    Just a second
    spring onions
    fall asleep
    after the fall
    water spring
    April said hello
    June and August are my friends
    Jan called me
    call 555-2023
    at 50% of May
    next to me
    last but not least
    a day without sun
    long time no see
    the first quarter was close
    Q3: what is it
    one month old baby
    24/7 support
    1/2 cup
    week after week
    day by day
    the following week
    two days later
    all day long
    may 7 people join
    on 31 April or April 31st
    他一天到晚玩游戏
    三天两头生病
    一年四季都很暖和
    目前天气很好
    说明天气会变
    聪明天真的孩子
    发明天才
    过去年代的歌
    目前年轻人压力大
    四周一片寂静
    一周一次
    马上周末了
    三个月的婴儿
    我今后天天锻炼
    第二天他走了
    有一天我遇见他
    半天没说话
    他三十岁了
    价格是2023元
    三天后他走了
    等了两个小时
    住了五年
    以前的事
    日本周边游
    天上月亮很圆
    明年轻了许多
    从前有座山
    最近的超市在哪里
    那天晚上
    周一个人
"""


def described(mention: TimeMention) -> tuple[str, str, str]:
    def short(moment: datetime | None) -> str:
        if moment is None:
            return ""
        return f"{moment:%Y-%m-%d}" if (moment.hour, moment.minute) == (0, 0) else f"{moment:%Y-%m-%dT%H:%M}"

    return mention.text, f"{short(mention.range.start)}..{short(mention.range.end)}", mention.precision


@pytest.mark.parametrize(("text", "words", "range_", "precision"), ENGLISH + CHINESE + OTHERS)
def test_an_expression_means_its_range(text: str, words: str, range_: str, precision: str) -> None:
    assert [described(mention) for mention in find_times(text, now=NOW)] == [(words, range_, precision)]


@pytest.mark.parametrize("text", [line.strip() for line in NO_TIMES.strip().splitlines()])
def test_what_only_looks_like_a_time_is_none(text: str) -> None:
    assert [mention.text for mention in find_times(text, now=NOW) if not mention.recurring] == []


@pytest.mark.parametrize(
    "text",
    ["every Monday", "I swim on Mondays", "each year", "twice a week", "Monday to Friday", "every other day",
     "every weekday", "every other evenings", "每天", "每周三", "每年春天", "每个月", "周一到周五"],
)  # fmt: skip
def test_a_habit_is_no_stretch_of_time(text: str) -> None:
    (mention,) = find_times(text, now=NOW)
    assert mention.recurring
    assert (mention.range.start, mention.range.end) == (None, None)


@pytest.mark.parametrize(
    "text", ["I really like the support group, it was so powerful!", "我喜欢在山里散步，也喜欢做饭。"]
)
def test_a_text_without_a_time_word_is_screened_out(text: str) -> None:
    assert not has_time(text)
