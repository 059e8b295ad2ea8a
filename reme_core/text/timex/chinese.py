"""Chinese time expressions, first pass: single expressions, each found by one rule.

A rule is a pattern and a function that turns a match into an expression, or into None if the words mean something else.
A weekday, month or holiday without further words is the latest one that has begun, or the next one where the clause
speaks of the future (将, 打算, 计划, 未来 …).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from reme_core.text.named import chinese_number
from reme_core.text.regex import regex
from reme_core.text.timex import calendar as cal
from reme_core.text.timex.calendar import Side, Unit
from reme_core.text.timex.holidays import CHINESE as HOLIDAYS
from reme_core.text.timex.mention import CLAUSE, Expression, Rules, Span, expression, search_before

# With the days of the week, of which Monday is 一, and 末, the weekend.
_DIGITS: Final = {digit: value for value, digit in enumerate("零一二三四五六七八九")} | {
    "〇": 0, "两": 2, "日": 7, "天": 7, "末": 6,
}  # fmt: skip
_UNITS: Final[dict[str, Unit]] = {
    "分钟": "minute", "小时": "hour", "钟头": "hour", "天": "day", "日": "day", "周": "week", "星期": "week",
    "礼拜": "week", "周末": "weekend", "月": "month", "季度": "quarter", "年": "year",
}  # fmt: skip
_SEASONS: Final = {"春": 0, "夏": 1, "秋": 2, "冬": 3}
_YEARS: Final = {"大前": -3, "前": -2, "去": -1, "今": 0, "本": 0, "明": 1, "来": 1, "后": 2}
# With the Cantonese 尋日, 琴日 and 聽日.
_DAYS: Final = {"大前": -3, "前": -2, "昨": -1, "今": 0, "明": 1, "后": 2, "大后": 3} | {
    "尋": -1, "寻": -1, "琴": -1, "聽": 1, "听": 1,
}  # fmt: skip
# From and until which hour; above 24 is the next day.
_DAY_PARTS: Final = {
    "凌晨": (0, 6), "清晨": (5, 8), "早上": (5, 10), "早晨": (5, 10), "早": (5, 10), "晨": (5, 10), "上午": (8, 12),
    "中午": (11, 14), "下午": (12, 18), "傍晚": (17, 20), "晚上": (18, 24), "晚": (18, 24), "夜里": (18, 30),
    "夜": (18, 30), "半夜": (22, 28), "深夜": (22, 28),
}  # fmt: skip

NUMBER: Final = (
    r"(?<![\d一二三四五六七八九十第])"
    r"(?P<n>(?:\d{1,3}|[一二三四五六七八九]?十[一二三四五六七八九]?|[一两二三四五六七八九])(?:个半)?|几|数|半)"
)
# Not a bare 月: 三月前 is before March, 三个月前 three months ago.
UNIT: Final = r"(?P<unit>个?(?:周末|星期|礼拜|小时|钟头|季度)|个月|(?<=半)月|天|周|年|分钟)"
_Y4: Final = r"(?P<y4>(?:19|20)\d\d|[一二][零〇九][零〇一二三四五六七八九]{2})\s?年"
# Chinese writes no spaces between words, so a pattern names the neighbours that make a character part of another word:
# 目前 is "now", not "before"; 说明 is "explain", not "tomorrow".
_YREL: Final = r"(?P<yrel>大前|(?<![目以之])前|(?<!过)去|今|本|(?<![说证文])明|来|(?<![以之今])后)年"
_YEAR: Final = rf"(?:{_Y4}|{_YREL})(?:的)?"
_MONTH: Final = r"(?P<month>1[0-2]|0?[1-9]|十[一二]?|[一二三四五六七八九])\s?月(?:份)?"
_DAY: Final = r"(?P<day>3[01]|[12]\d|0?[1-9]|三十一?|二?十[一二三四五六七八九]?|[一二三四五六七八九])\s?(?:日|号)"
_UNTIL: Final = _DAY.replace("<day>", "<until>")
# 周一起 is "from Monday on" behind 从 or 自; else it may be 周, 一起.
_WEEKDAY: Final = (
    r"(?P<weekday>[一二三四五六日天末])(?![个次片直些共样般定边])"
    r"(?:(?!起)|(?<=[从自]周.)|(?<=[从自]下周.)|(?<=[从自](?:星期|礼拜).)|(?<=[从自]下(?:星期|礼拜).))"
)
_WEEK: Final = r"(?:周|星期|礼拜)"
_PART: Final = rf"(?P<part>{'|'.join(sorted(_DAY_PARTS, key=len, reverse=True))})"
_CLOCK: Final = (
    r"(?P<hour>\d{1,2}|十[一二]?|[一二两三四五六七八九])(?:点|时)(?!间)(?:钟|整|(?P<minute>半|[一三]刻|[0-5]?\d|[二三四五]?十[一二三四五六七八九]?)分?)?"
    r"|(?P<hour24>[01]?\d|2[0-3])[:：](?P<minute24>[0-5]\d)"
)
_TO_CLOCK: Final = re.sub(r"<(?=part|hour|minute)", "<to_", rf"(?:{_PART})?(?:{_CLOCK})")
_TIME: Final = rf"(?:的?\s?{_PART})?(?:\s?(?:{_CLOCK})(?:\s?[至到~～—-]\s?{_TO_CLOCK})?)?"
# 昨儿 is yesterday, but in 以前儿子 and 婚后儿女 begins another word.
_ER: Final = r"儿(?!子|女(?![朋友孩生儿士人])|童|媳|科(?![学技目]))"
_HOLIDAY: Final = rf"(?P<holiday>{'|'.join(sorted(HOLIDAYS, key=len, reverse=True))})"
_SEASON: Final = r"(?P<season>[春夏秋冬])(?:天|季|日里?)"

# What makes a bare 周一 or 五月 the next one: such a word in the clause before it.
_FUTURE: Final = regex(
    r"(?:将|打算|计划|准备|未来|即将|预计|下次|明天|下个?(?:周|星期|礼拜|月)|明年)[^。！？；\n.!?;]*$"
)
# Since when something has been so is past, whatever the clause says of the future.
_SINCE: Final = regex(r"自从?$")
_UNTIL_NOW: Final = regex(r"以来|至今|到现在")
rules: Final = Rules()


def number(words: str) -> float:
    """The value of a number from 一 to 九十九 or of digits; 半 is 0.5, and 个半 at the end adds 0.5."""
    if words.endswith("个半"):
        return number(words[:-2]) + 0.5
    if words.isdigit():
        return int(words)
    return 0.5 if words == "半" else chinese_number(words)


def unit_of(match: re.Match[str]) -> Unit:
    """The unit of a match, without its measure word."""
    return _UNITS[match["unit"].removeprefix("个")]


def _side_of(match: re.Match[str]) -> Side:
    text, start = match.string, match.start()
    if match[0].startswith("自") or search_before(_SINCE, text, start) or _UNTIL_NOW.match(text, match.end()):
        return "past"
    return "next" if search_before(_FUTURE, text, start, CLAUSE) else "past"


def _year_of(match: re.Match[str], now: datetime) -> int | None:
    year = match["y4"]
    if year:
        return int("".join(str(int(digit) if digit.isdecimal() else _DIGITS[digit]) for digit in year))
    return now.year + _YEARS[match["yrel"]] if match["yrel"] else None


def _yearly(match: re.Match[str], now: datetime, of_year: Callable[[int], Span]) -> Span:
    """What comes once a year: that of the year which the words name, or else the one that is meant."""
    year = _year_of(match, now)
    return cal.occurrence(now, of_year, _side_of(match)) if year is None else of_year(year)


def _narrow_to_hours(match: re.Match[str], span: Span) -> Span:
    """Narrow a day to the part of the day, the hour or the hours that follow it in the text."""
    part, hour = match["part"], match["hour"] or match["hour24"]
    if not hour:
        return cal.hours(span, *_DAY_PARTS[part]) if part else span
    first = _o_clock(part, hour) + _part_of_hour(match["minute"] or match["minute24"])
    last = match["to_hour"] or match["to_hour24"]
    if not last:
        return cal.hours(span, first, first + 1)
    end = _o_clock(match["to_part"] or part, last) + _part_of_hour(match["to_minute"] or match["to_minute24"])
    while end <= first:  # 早上九点到五点 ends in the afternoon, 晚上十点到两点 in the night
        end += 12
    return cal.hours(span, first, end)


def _part_of_hour(minutes: str | None) -> float:
    minutes = minutes or "0"
    return ({"半": 30, "一刻": 15, "三刻": 45}.get(minutes) or number(minutes)) / 60


def _o_clock(part: str | None, hour: str) -> int:
    """下午三点 is 15 o'clock; but 中午十一点 is 11 in the morning."""
    at = int(number(hour))
    later = part and at < 12 and _DAY_PARTS[part][0] >= 11 and not (part == "中午" and at >= 11)
    return at + (12 if later else 0)


@rules(
    rf"(?P<days>大前|(?<!目)前|昨|今|(?<![说聪发文透证])明|(?<![以今然最之先])后|大后|[尋寻琴聽听](?=日(?![本语文剧常用记语系式元韩])))(?:[天日](?!气|才|真|线)|{_ER}个?|(?=[晚夜早晨凌])){_TIME}"
)
def _near_day(match: re.Match[str], now: datetime) -> Expression | None:
    # The character alone is part of another word; a day needs 天, 日 or a part of the day behind it.
    if match[0][-1] in "前昨今明后":
        return None
    return expression(match, _narrow_to_hours(match, cal.day(now + timedelta(days=_DAYS[match["days"]]))))


@rules(rf"(?P<way>上上|下下|(?<![马晚早])上|(?<!天)下|这一?|(?<!日)本)个?{_WEEK}{_WEEKDAY}{_TIME}")
def _week_day(match: re.Match[str], now: datetime) -> Expression:
    moment = now + timedelta(days=7 * _steps(match["way"]))
    if match["weekday"] == "末":
        return expression(match, _narrow_to_hours(match, cal.weekend(moment)) if match["part"] else cal.weekend(moment))
    return expression(match, _narrow_to_hours(match, cal.weekday(moment, _DIGITS[match["weekday"]] - 1, "this")))


def _steps(way: str) -> int:
    return {"上上": -2, "上": -1, "下": 1, "下下": 2}.get(way, 0)


@rules(
    r"(?P<way>上上|下下|(?<![马晚早])上|(?<!天)下|这一?|(?<!日)本)(?P<unit>个?(?:周末|星期|礼拜|月|季度)|周|年(?!轻|纪|龄|代|级))(?![一二三四五六日天末亮球光])(?P<tail>初|中旬|底|末|上旬|下旬)?"
)
def _near_unit(match: re.Match[str], now: datetime) -> Expression | None:
    # 今年, 明年 … are years by another rule; 下年 and 这年 are seldom counted from now.
    if match["unit"] == "年" and match["way"] not in ("上", "本"):
        return None
    return expression(match, _narrow_to_tail(match, cal.unit_from(now, _steps(match["way"]), unit_of(match))))


def _narrow_to_tail(match: re.Match[str], span: Span) -> Span:
    tail = match["tail"]
    return cal.third(span, {"初": 0, "上旬": 0, "中": 1, "中旬": 1, "中期": 1}.get(tail, 2)) if tail else span


@rules(rf"(?<![一两二三四五六七八九十几每四\d]){_WEEK}(?!末){_WEEKDAY}{_TIME}")
def _bare_weekday(match: re.Match[str], now: datetime) -> Expression:
    return expression(match, _narrow_to_hours(match, cal.weekday(now, _DIGITS[match["weekday"]] - 1, _side_of(match))))


@rules(rf"(?:{_YEAR})?{_MONTH}{_DAY}(?:[至到~-]{_UNTIL})?(?:\s?[（(]?(?:周|星期)[一二三四五六日天][）)]?)?{_TIME}")
def _date(match: re.Match[str], now: datetime) -> Expression:
    month, first = int(number(match["month"])), int(number(match["day"]))
    last = int(number(match["until"])) if match["until"] else first

    def of_year(year: int) -> Span:
        return cal.join(cal.date(year, month, first), cal.date(year, month, last))

    return expression(match, _narrow_to_hours(match, _yearly(match, now, of_year)), relative=not match["y4"])


@rules(rf"(?:{_YEAR})?(?<![十\d]){_MONTH}的?(?:第(?P<which>[一二三四])|最后一)个?{_WEEK}(?!末){_WEEKDAY}{_TIME}")
def _weekday_of_month(match: re.Match[str], now: datetime) -> Expression:
    month, day = int(number(match["month"])), _DIGITS[match["weekday"]] - 1
    which = "一二三四".index(match["which"]) if match["which"] else -1
    span = _yearly(match, now, lambda year: cal.weekday_of_month(year, month, day, which))
    return expression(match, _narrow_to_hours(match, span), relative=not match["y4"])


@rules(rf"(?:(?P<way>上上|上|下|这|本)个?月){_DAY}{_TIME}")
def _day_of_near_month(match: re.Match[str], now: datetime) -> Expression:
    month = cal.unit_from(now, _steps(match["way"]), "month").start
    assert month is not None
    return expression(match, _narrow_to_hours(match, cal.date(month.year, month.month, int(number(match["day"])))))


@rules(rf"(?:{_YEAR})?(?<![十\d]){_MONTH}(?P<tail>初|中旬|底|末|上旬|下旬)?(?![亮球光])")
def _month(match: re.Match[str], now: datetime) -> Expression:
    which = int(number(match["month"]))
    span = _yearly(match, now, lambda year: cal.month(year, which))
    return expression(match, _narrow_to_tail(match, span), relative=not match["y4"])


@rules(rf"{_YEAR}(?:年?(?P<tail>初|中|底|末))?(?![轻纪龄级月代])")
def _year(match: re.Match[str], now: datetime) -> Expression:
    return expression(match, _narrow_to_tail(match, _yearly(match, now, cal.year)), relative=not match["y4"])


@rules(
    rf"{_YEAR}(?:(?P<half>[上下])半年|第?(?P<q>[一二三四1-4])季度|(?P<season>[春夏秋冬])(?:[天季]|(?!节))"
    rf"|{_HOLIDAY}(?:期间|假期|长假|当天|那天)?)"
)
def _part_of_year(match: re.Match[str], now: datetime) -> Expression:
    year = _year_of(match, now)
    assert year is not None
    if match["half"]:
        span = cal.months(year, 1 if match["half"] == "上" else 7, 6, "season")
    elif match["q"]:
        span = cal.quarter(year, int(number(match["q"])))
    else:
        span = cal.season(year, _SEASONS[match["season"]]) if match["season"] else HOLIDAYS[match["holiday"]](year)
    return expression(match, span, relative=not match["y4"])


@rules(rf"(?:上个?{_SEASON}|(?P<near>[今去])(?P<short>[春夏秋冬])(?![天季]))")
def _season(match: re.Match[str], now: datetime) -> Expression:
    if match["near"]:
        return expression(match, cal.season(now.year - (match["near"] == "去"), _SEASONS[match["short"]]))
    which = _SEASONS[match["season"]]
    return expression(match, cal.occurrence(now, lambda year: cal.season(year, which), "last"))


# 春节吃了什么: whoever does something at a holiday names it as a time.
_WHAT_WAS_DONE: Final = regex(r"[我你他她咱去在吃做干玩回跟]|和谁|怎么过|过得")
_COUNTS: Final = regex(r"[零一二三四五六七八九十百第\d]$")


@rules(
    rf"(?:(?P<last>上个|上次)|(?P<this>这个|今年)|(?P<next>下个)|(?:在|自从|自|从))?{_HOLIDAY}(?P<sure>的时候|期间|假期|长假|那天|当天|前夕)?"
)
def _holiday(match: re.Match[str], now: datetime) -> Expression:
    side_word = match["last"] or match["this"] or match["next"]
    has_prefix = match.start("holiday") > match.start()
    # A holiday's name alone is often part of a phrase (中秋月饼, moon cakes), so it is weak; 十一 may be a number.
    told = _WHAT_WAS_DONE.match(match.string, match.end()) and not search_before(_COUNTS, match.string, match.start())
    weak = not (side_word or has_prefix or match["sure"] or told)
    side: Side = "last" if match["last"] else "this" if match["this"] else "next" if match["next"] else _side_of(match)
    found = expression(match, cal.occurrence(now, HOLIDAYS[match["holiday"]], side), weak=weak)
    return found if side_word else replace(found, start=match.start("holiday"))


@rules(rf"(?:大约|大概)?{NUMBER}多?{UNIT}(?P<half>半)?(?:之前|以前|前)(?![面边后进])")
def _units_ago(match: re.Match[str], now: datetime) -> Expression:
    if match["n"] in "几数":
        # "A few" is taken as two to seven.
        unit = unit_of(match)
        return expression(match, cal.join(cal.unit_from(now, -7, unit), cal.unit_from(now, -2, unit)))
    amount = number(match["n"]) + (0.5 if match["half"] else 0)
    return expression(match, cal.unit_from(now, -amount, unit_of(match)))


# What is over, in the rest of the clause; only its beginning, since a long text may be one clause full of times.
_IS_OVER: Final = regex(r"[^，。！？；,.!?;\n]{0,200}?[了过]")


@rules(rf"(?:再过|过)?{NUMBER}{UNIT}(?:之后|以后|后)(?![来悔面])")
def _units_ahead(match: re.Match[str], now: datetime) -> Expression | None:
    # 三天后他走了 ("three days later he left") tells a story; only what has not happened yet is counted from now.
    if match["n"] in "几数" or _IS_OVER.match(match.string, match.end()):
        return None
    return expression(match, cal.unit_from(now, number(match["n"]), unit_of(match)))


@rules(rf"(?:(?P<past>过去|最近|近|(?<!目)前|这)的?|(?P<future>未来|接下来|今后)的?){NUMBER}{UNIT}(?!前|后|以|之)")
def _period(match: re.Match[str], now: datetime) -> Expression:
    # "A few" is at most seven.
    amount = 7 if match["n"] in "几数" else number(match["n"])
    return expression(match, cal.period(now, amount if match["future"] else -amount, unit_of(match)))


@rules(r"最近(?!的)|近来|近期|这阵子|这段时间")
def _recent_past(match: re.Match[str], now: datetime) -> Expression:
    # Nobody says how long ago that is; a month is a guess.
    return expression(match, cal.period(now, -1, "month"))


@rules(
    r"(?:(?P<century>上个?世纪|(?:20|二十)世纪|(?:21|二十一)世纪))?(?P<full>19|20)?(?P<tens>[1-9]0|[一二三四五六七八九]十)年代(?P<tail>初|中期|末|后期)?"
)
def _decade(match: re.Match[str], now: datetime) -> Expression:
    tens = int(number(match["tens"]))
    if match["full"] or match["century"]:
        century = match["century"] or ""
        hundreds = int(match["full"]) * 100 if match["full"] else 2000 if "21" in century or "十一" in century else 1900
    else:
        # The latest such decade that has begun: in 2026 二十年代 are the 2020s, 三十年代 the 1930s.
        hundreds = now.year // 100 * 100 - (100 if now.year // 100 * 100 + tens > now.year else 0)
    span = cal.year(hundreds + tens, 10)
    return expression(match, _narrow_to_tail(match, span), relative=False)


@rules(r"(?P<year>(?:19|20)\d\d)(?P<sep>[-/.])(?P<month>1[0-2]|0?[1-9])(?P=sep)(?P<day>3[01]|[12]\d|0?[1-9])(?!\d)")
def _iso(match: re.Match[str], now: datetime) -> Expression:
    return expression(match, cal.date(int(match["year"]), int(match["month"]), int(match["day"])), relative=False)


@rules(r"每(?:隔)?(?:一|两|几|半|\d)?个?(?:逢)?(?:天|日|晚|早|年|月(?:的?(?:第[一二三四]|最后一)个?(?:周|星期|礼拜)[一二三四五六日天末])?|小时|分钟|季度"
       r"|(?:周|星期|礼拜)[一二三四五六日天末]?)(?:早上|晚上|下午|上午|中午)?|"
       r"(?<![上下本这个])(?:周|星期)[一二三四五六日天]到(?:周|星期)[一二三四五六日天]")  # fmt: skip
def _habit(match: re.Match[str], now: datetime) -> Expression:
    return Expression(match.start(), match.end(), Span(None, None, "day"), recurring=True)
