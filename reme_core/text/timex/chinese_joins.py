"""Chinese time expressions, second pass: ranges (从三月到五月), open sides (以来, 之前) and distances (春节前三天)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Final

from reme_core.text.regex import regex
from reme_core.text.timex.chinese import NUMBER, UNIT, number, rules, unit_of
from reme_core.text.timex.joins import distance_from_event, drop_overlaps, join_ranges, move
from reme_core.text.timex.mention import Expression, Span, search_before

# Every expression that a rule finds has one of these; most texts have none, and are done with one search.
SCREEN: Final = regex(
    r"[年月周]|[一二三四五六七八九十两几半\d]\s?(?:天|日|号|季|点)|[今昨前明后][天日儿晚夜早凌]|[尋寻琴聽听]日|星期|礼拜|小时|分钟"
    r"|季度|最近|近来|近期|这阵子|这段时间|[春夏秋冬][天季日]|[今去][春夏秋冬]|[^\W\d_]节|元旦|元宵|除夕|大年|国庆|中秋|端午|清明"
    r"|圣诞|平安夜|六一|五一|十一|[暑寒]假|\d{4}|年代|每"
)
_TO: Final = regex(r"\s*(?:起|开始)?[，,]?\s*(?:一直)?(?:到|至|和|-|—|–|~|～)\s*")
_FROM: Final = regex(r"(?:从|自)$")
_BETWEEN: Final = regex(r"之间|期间")
_SINCE: Final = regex(r"以来|开始|起(?!来|床|身|飞)|至今|到现在")
_SINCE_BEFORE: Final = regex(r"(?:自从|自|从)$")
_AFTER: Final = regex(r"(?:之后|以后)|(?:后)(?![天来悔面])")
_BEFORE: Final = regex(r"(?:之前|以前)|(?:前)(?![天面边后])")
_UNTIL_BEFORE: Final = regex(r"(?:直到|截止到?|截至)$")
_DISTANCE: Final = regex(rf"(?:的)?(?P<way>之前|之后|前|后)(?:的)?{NUMBER}{UNIT}")
# Without spaces nothing tells where a noun begins, so an anchor must be one of the events that people date things by.
_EVENT: Final = (
    r"(?P<anchor>(?:(?:[我你您他她]们?|咱们)的?|[\u4e00-\u9fffA-Za-z]{1,4}的)?"
    r"(?:生日|婚礼|结婚(?:纪念日)?|订婚|离婚|毕业(?:典礼)?|开学|高考|考试|面试|手术|出差|旅行|旅游|搬家|入职|辞职|退休|会议|比赛"
    r"|演出|聚会|派对|葬礼|满月|纪念日|出院|住院|发布会))"
)
_ANCHORED: Final = (
    regex(rf"{_EVENT}{_DISTANCE.pattern}"),
    regex(rf"{_EVENT}(?:的)?{NUMBER}{UNIT}(?P<way>之前|之后|前|后)"),
)


def find(text: str, now: datetime) -> list[Expression]:
    """Find the Chinese time expressions of a text, in order; they do not overlap."""
    anchored = list(_find_anchored(text))
    atoms = drop_overlaps([_shift(text, atom) for atom in rules.find(text, now)])
    atoms = [atom for atom in atoms if all(atom.end <= other.start or atom.start >= other.end for other in anchored)]
    atoms = [_open_side(text, atom) for atom in join_ranges(text, atoms, _TO, _extent) if not atom.weak]
    return drop_overlaps(atoms + anchored)


def _extent(text: str, first: Expression, last: Expression, between: str) -> tuple[int, int] | None:
    closing = _BETWEEN.match(text, last.end)
    # 和 is also "and": 三月和五月 are two months, 三月和五月之间 is a range.
    if "和" in between and not closing:
        return None
    opening = search_before(_FROM, text, first.start)
    return opening.start() if opening else first.start, closing.end() if closing else last.end


def _shift(text: str, atom: Expression) -> Expression:
    """The day (week …) at a distance from an expression, if one follows it: 春节前三天."""
    shift = _DISTANCE.match(text, atom.end)
    if not shift or shift["n"] in "几数":
        return atom
    moved = move(atom, number(shift["n"]), unit_of(shift), before=shift["way"].endswith("前"))
    return replace(moved, end=shift.end(), weak=False) if moved else atom


def _open_side(text: str, atom: Expression) -> Expression:
    """Open one side of the span, if the words say so: 去年以来 has no end, 2020年以前 no beginning."""
    span = atom.span
    if atom.recurring or span.start is None or span.end is None:
        return atom
    edge = span.start if span.is_clock else span.end
    since = search_before(_SINCE_BEFORE, text, atom.start)
    start = since.start() if since else atom.start
    for pattern, opened in (
        (_SINCE, Span(span.start, None, span.precision)),
        (_AFTER, Span(span.start if since else edge, None, span.precision)),
        # 八月底之前 reaches to the end that it names.
        (_BEFORE, Span(None, span.end if text[atom.end - 1] in "底末" else span.start, span.precision)),
    ):
        if tail := pattern.match(text, atom.end):
            return replace(atom, start=start, end=tail.end(), span=opened)
    # 自从 alone is enough; 从 alone is "from", of places as well.
    if since and since[0] != "从":
        return replace(atom, start=start, span=Span(span.start, None, span.precision))
    until = search_before(_UNTIL_BEFORE, text, atom.start)
    return replace(atom, start=until.start(), span=Span(None, edge, span.precision)) if until else atom


def _find_anchored(text: str) -> list[Expression]:
    """Find distances from an event whose date the text does not give: 我生日前两天."""
    found = []
    for pattern in _ANCHORED:
        for match in pattern.finditer(text):
            if match["n"] not in "几数":
                before = match["way"].endswith("前")
                found.append(distance_from_event(match, number(match["n"]), unit_of(match), before=before))
    return drop_overlaps(found)
