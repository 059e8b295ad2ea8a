"""The time for which somebody wishes something: "answer in French today", 从周一起叫我老王, "until May no emojis".

A time bounds a wish only where it begins or ends the clause of the wish. In "don't tell me the news of today" it belongs
to a thing, and in "always be brief, I'm tired today" to something else that is said.
"""

# ruff: noqa: E501 -- a pattern reads better whole

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from reme_core.given import zone_of
from reme_core.text.regex import any_of, regex
from reme_core.text.signs import simplify
from reme_core.text.timex import find_times, times_of, validity
from reme_core.text.timex.calendar import day, range_of
from reme_core.text.timex.english_words import TOMORROW, WEEKDAY
from reme_core.text.timex.mention import search_before
from reme_core.text.timex.statements import RANGE, in_known_words
from reme_core.types import TimeRange


def validity_of_wish(text: str, sent_at: datetime, timezone: str) -> TimeRange:
    """The time for which what a text wishes holds; open where it names none, or several.

    >>> said = datetime(2024, 3, 6, 19, tzinfo=UTC)
    >>> str(validity_of_wish("answer in French today", said, "UTC").end)
    '2024-03-07 00:00:00+00:00'
    """
    if _FOR_GOOD.search(text):  # "from now on no emojis, I'm at work until five"
        text = ", ".join(clause for clause in _COMMAS.split(simplify(text)) if not _TELLS.match(clause))
    text, tomorrow = _with_days(text, "today"), _with_days(text, "tomorrow")
    for dated in dict.fromkeys((text, tomorrow)):  # "until 9 am", said at ten
        held = validity(dated, sent_at, timezone, of_wish=True)
        if held.start or held.end:
            return held
    bounds = dict(_bounds(text))
    if len(bounds) != 1 or _FOR_GOOD.search(text):
        return held
    [(time, opens)] = bounds.items()
    named = [when.range for when in times_of(text, sent_at, timezone) if when.text == time]
    start, end = (named[0].start, named[0].end) if len(named) == 1 else (None, None)
    if end is None:
        return held
    if end <= sent_at:
        today = range_of(day(sent_at.astimezone(zone_of(timezone))))
        if not (start and today.start and start >= today.start):
            return held
        end = today.end  # "this evening", said at 23:30
    if opens:
        end = None
    return TimeRange(start=start if start and start > sent_at else None, end=end)


def _bounds(text: str) -> Iterator[tuple[str, bool]]:
    """The times of what a text wishes, in its words, each with whether it has no end."""
    for mention in find_times(text, now=_ANY_MOMENT):
        preposition = search_before(_PREPOSITION, text, mention.start)
        words = preposition[0] if preposition else ""
        place = mention.start - len(words)
        behind = _FROM_BEHIND.match(text, mention.end)
        before = _CLAUSE_ENDS.split(text[max(0, place - _LONGEST) : place])[-1]
        ahead = text[behind.end() if behind else mention.end :][:_LONGEST]
        opens = bool(behind or _BEGINS.search(words + mention.text)) and not RANGE.search(mention.text)
        is_by = words != "到" and bool(_BY.match(mention.text))
        if _COURTESY.fullmatch(before):
            wish = (_DIRECTED if opens else _ANY).match(_GAP.sub("", ahead, count=1))
            # "Answer in French, but only this week"
            alone = wish is None and _ONLY.search(before + words) and _COURTESY_BEHIND.fullmatch(_clause(ahead))
            if alone or (wish and (not is_by or _NOT.match(wish["wish"]))):
                yield mention.text, opens
        elif not is_by and _COURTESY_BEHIND.fullmatch(_clause(ahead)):
            wish = _ANY.match(before)
            if wish and not _ELSE.search(before, wish.end("wish")):
                yield mention.text, opens


def _clause(text: str) -> str:
    return _CLAUSE_ENDS.split(text, maxsplit=1)[0]


def only_bounds(sentence: str) -> bool:
    """Whether a sentence only says until when, or when, the wish before it holds.

    >>> only_bounds("But only until Friday, then English again."), only_bounds("I'm here until Friday")
    (True, False)
    """
    text = in_known_words(sentence)
    for mention in find_times(text, now=_ANY_MOMENT):
        behind = text[mention.end :]
        return bool(_ONLY_WORDS.fullmatch(text[: mention.start]) and _ONLY_BEHIND.fullmatch(behind))
    return False


def _with_days(text: str, day_name: str) -> str:
    """A wish with what its times leave out: "until 5 pm today", "for the next two weeks", "this week"."""
    text = _OF_CLOCK.sub(rf"\g<0> {day_name}", in_known_words(text))
    text = _OF_CLOCK_ZH.sub("今天" if day_name == "today" else "明天", text)
    text = _REST_OF.sub(lambda match: "today" if match[1].lower() == "day" else f"this {match[1]}", text)
    return _FOR_SO_LONG.sub("for the next ", text)


_ONLY: Final = regex(r"\b(?:only|just|at least)\b|[只就仅]", re.IGNORECASE)
_ONLY_WORDS: Final = regex(
    r"\s*(?:(?:but|and|just|only|ok(?:ay)?|so|well|that's|it's|this is|valid|at least|for|during|please)[,\s]+|[，\s]|但是?|[只就仅]|不过|到)*",
    re.IGNORECASE,
)
_ONLY_BEHIND: Final = regex(
    r"\s*(?:please|pls|thanks|thx|ok|为止|就(?:行|好|可以)|[吧哈了啊])*[\s,，.!。！]*(?:(?:and )?(?:then|after that|afterwards)\b.*|(?:之后|然后|再).*)?",
    re.IGNORECASE,
)
# Where times stand in a text does not depend on when it was said.
_ANY_MOMENT: Final = datetime(2024, 1, 1, tzinfo=UTC)
_LONGEST: Final = 200
_CLAUSE_ENDS: Final = regex(r"[.!?;,:，。！？；：\n]\s*")
# Elsewhere "I work until midnight" tells of a habit. "Until midnight on Friday" names its day.
_OF_CLOCK: Final = regex(
    r"\b(?:until|till) (?:(?:1[0-2]|0?[1-9])(?::[0-5]\d)?\s?[ap]\.?m\b\.?|(?:[01]?\d|2[0-3]):[0-5]\d|noon\b|midnight\b)"
    rf"(?!,? (?:(?:on|of|in|at|this|next|the|today|tonight|{'|'.join(TOMORROW)})\b|\d|{WEEKDAY}))",
    re.IGNORECASE,
)
_OF_CLOCK_ZH: Final = regex(r"(?<=到)(?=(?:凌晨|早上|上午|中午|下午|傍晚|晚上)\s?[\d一二三四五六七八九十]+点)")
_REST_OF: Final = regex(
    r"\b(?:for )?(?:the rest of (?:the|this)|all|the (?:whole|entire)) (day|week|weekend|month)\b", re.IGNORECASE
)
_FOR_SO_LONG: Final = regex(
    r"\bfor (?=(?:an?|one|two|three|four|five|six|seven|ten|\d+) (?:hours?|days?|weeks?|months?)\b)", re.IGNORECASE
)
# "By Friday" and 周五之前 say when something is to be done, but until when something is not to be done.
_BY: Final = regex(r"(?:by|before|since)\b|.*(?:前|以来)$", re.IGNORECASE)
_NOT: Final = regex(r"(?:别|不要|don't|dont|do not|never|no|stop|avoid|skip)", re.IGNORECASE)
# "From" in other languages, before a time or behind it.
_FROM: Final = r"\b(?:(?:ab|desde|a partir del?|à partir d[eu]|dès|dal?|a partire dal?|vanaf|od|со?|من) |à partir d')"
_FROM_BEHIND: Final = regex(r"\s?(?:から|부터|से)(?:は|는)?|(?:'?[dt][ae]n|dan)? itibaren\b| in poi\b", re.IGNORECASE)
_PREPOSITION: Final = regex(
    r"(?:\b(?:(?:just|only) )?(?:(?:starting|as of|as from)(?: (?:on|in|from|with))?|from|for|during) |[从自到在就]"
    rf"|{_FROM})$",
    re.IGNORECASE,
)
_BEGINS: Final = regex(
    rf"^(?:(?:just |only )?(?:starting|as of|as from|from)\b|[从自]|{_FROM})|(?:起|开始)$", re.IGNORECASE
)
# Words that only lead to a wish.
_PLEASE: Final = r"(?:please|pls|plz|ok(?:ay)?|so|and|but|hey|hi|also|then|now|no|yeah|btw|oh|well|just|only|always|let's|(?:can|could|would|will|should) (?:you|u)|(?:you|u) (?:can|should|must|may)|I(?:'d| would)? (?:want|like|need) (?:you|u) to|make sure (?:to|(?:you|u)))"
_PLEASE_ZH: Final = r"(?:请|麻烦|拜托|那|对了|还有|你|您|都|就|只|全|一律|一直|要|得|记得|可以|能不能|可不可以)"
_COMMAS: Final = regex(r"[,;，；]\s*|[.!?。！？]\s+")
_TELLS: Final = regex(
    r"\s*(?:(?:because|cause|since|as|but|and|so) )*(?:I(?:'m| am|'ve| have| work| live| stay)|my|we|our|he|she|they|it)\b|因?为?(?:我[^要想]|[他她])",
    re.IGNORECASE,
)
_COURTESY: Final = regex(rf"(?:{_PLEASE}[\s,]*|{_PLEASE_ZH}[，\s]*)*", re.IGNORECASE)
_GAP: Final = regex(r"^(?: on(?:wards)?\b)?\s*[,，、:：]?\s*", re.IGNORECASE)
_LEAD: Final = rf"(?:{_PLEASE}\b[\s,]*|{_PLEASE_ZH}[，\s]*)*"
# From a time on anything may be wished that is directed at the assistant.
_DIRECTED: Final = regex(rf"{_LEAD}(?P<wish>(?!(?:I|we|my|our|he|she|they|it)\b|[我他她])\w)", re.IGNORECASE)
# Whatever is not told of somebody: "never mention food for the next two weeks".
_ANY: Final = regex(
    rf"{_LEAD}(?P<wish>(?!(?:I|we|my|our|he|she|they|it|is|was|are|were|will|has|had)\b|[我他她是有])\w+)",
    re.IGNORECASE,
)
_ELSE: Final = regex(
    r"\b(?:what|when|how|that|who|which|where|why|if|because|about|of|than|i|i'm|im|we|my|the)\b|[我]", re.IGNORECASE
)
# What may stand behind the time at the end of a clause: a courtesy, or the reason.
_COURTESY_BEHIND: Final = regex(
    r"\s*(?:(?:please|pls|plz|thanks|thx|ty|ok(?:ay)?)\s*)*(?:\b(?:i|i'm|im|because|cause|cuz|since)\b.*)?|(?:吧|啊|哦|呗|谢谢|好吗|可以吗|行吗|好不好)*",
    re.IGNORECASE,
)
_FOR_GOOD: Final = any_of(
    r"\b(?:from (?:now|here|today) on|going forward|henceforth|in (?:the )?future|by default|(?:every|each) ?time|whenever|ever|as a rule|not (?:just|only)|even)\b",
    r"以后|今后|往后|从今(?!天.{0,3}到)|从现在|每[次天周当]|永远|长期|不[只仅光]",
)
