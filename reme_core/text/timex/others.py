"""Time expressions in other European languages: patterns find them, dateparser reads them.

Four shapes are looked for, since they hardly ever mean something else: a word such as "yesterday", "N units ago", a
month's name with a day or a year, and a date in digits. dateparser gives one moment and its `period` (day, month …);
the range is the calendar unit of that size around the moment.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final, cast

from reme_core.text.regex import regex
from reme_core.text.timex import calendar as cal
from reme_core.text.timex.mention import Expression

if TYPE_CHECKING:
    from dateparser.date import DateDataParser


@dataclass(frozen=True)
class _Words:
    near: str
    """Words such as "yesterday", separated by spaces."""
    # Without "morgen" and "mañana", which also mean "morning".
    months: str
    units: str
    numbers: str
    """Number words with their values, as `word=value`."""
    ago: tuple[str, str]
    """The words before and after "two weeks" that make it "two weeks ago"; one of the two is empty."""
    of: str = ""
    """The word between day, month and year (Spanish "5 de mayo"), as a pattern."""


_WORDS: Final = {
    "de": _Words(
        "vorgestern gestern heute übermorgen",
        "januar februar märz april mai juni juli august september oktober november dezember",
        "tag tagen woche wochen monat monaten jahr jahren stunde stunden",
        "ein=1 einem=1 einer=1 zwei=2 drei=3 vier=4 fünf=5 sechs=6 zehn=10",
        ("vor", ""),
    ),
    "fr": _Words(
        "avant-hier hier aujourd'hui demain",
        "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
        "jour jours semaine semaines mois an ans année années heure heures",
        "un=1 une=1 deux=2 trois=3 quatre=4 cinq=5 six=6 dix=10",
        ("il y a", ""),
    ),
    "es": _Words(
        "anteayer ayer hoy",
        "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
        "día días semana semanas mes meses año años hora horas",
        "un=1 una=1 dos=2 tres=3 cuatro=4 cinco=5 seis=6 diez=10",
        ("hace", ""),
        "del? ",
    ),
    "it": _Words(
        "ieri oggi domani",
        "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
        "giorno giorni settimana settimane mese mesi anno anni ora ore",
        "un=1 una=1 due=2 tre=3 quattro=4 cinque=5 sei=6 dieci=10",
        ("", "fa"),
    ),
    "pt": _Words(
        "anteontem ontem hoje amanhã",
        "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
        "dia dias semana semanas mês meses ano anos hora horas",
        "um=1 uma=1 dois=2 duas=2 três=3 quatro=4 cinco=5 seis=6 dez=10",
        ("há", ""),
        "de ",
    ),
    "nl": _Words(
        "eergisteren gisteren vandaag",
        "januari februari maart april mei juni juli augustus september oktober november december",
        "dag dagen week weken maand maanden jaar uur",
        "een=1 twee=2 drie=3 vier=4 vijf=5 zes=6 tien=10",
        ("", "geleden"),
    ),
    "ru": _Words(
        "позавчера вчера сегодня завтра",
        "января февраля марта апреля мая июня июля августа сентября октября ноября декабря",
        "день дня дней неделю недели недель месяц месяца месяцев год года лет час часа часов",
        "один=1 одну=1 два=2 две=2 три=3 четыре=4 пять=5 шесть=6 десять=10",
        ("", "назад"),
    ),
}

LANGUAGES: Final = frozenset(_WORDS)


def _one_of(listed: str) -> str:
    return f"(?:{'|'.join(listed.split())})"


def _pattern(words: _Words) -> str:
    numbers, months = _one_of(re.sub(r"=\d+", "", words.numbers)), _one_of(words.months)
    before, after = words.ago
    ago = " ".join(part for part in (before, rf"(?:\d{{1,3}}|{numbers}) {_one_of(words.units)}", after) if part)
    year = rf"(?: (?:{words.of})?(?:19|20)\d\d)"
    date = rf"\d{{1,2}}\.? (?:{words.of})?{months}{year}?|{months}{year}"
    return rf"\b(?:(?P<near>{_one_of(words.near)})|(?P<ago>{ago})|(?P<date>{date}))\b"


_DIGITS: Final = r"(?<![\d./-])(?:\d{4}-\d\d?-\d\d?|\d\d?([./])\d\d?\1\d{4})(?![\d/-])"
_PATTERNS: Final = {code: regex(rf"{_pattern(words)}|{_DIGITS}", re.I) for code, words in _WORDS.items()}
# What `find` looks for has one of these words, such digits, or "il y a": the French "an" is a word of English, too.
SCREEN_WORDS: Final = frozenset(
    name
    for words in _WORDS.values()
    for names in (words.near, words.months, words.units)
    for name in re.findall(r"\w+", names)
) - {"an"}
SCREEN: Final = regex(r"\d{4}-\d|\d[./]\d\d?[./]\d|\bil y a\b", re.IGNORECASE)
DIRECTED: Final = "|".join(one for words in _WORDS.values() for one in (*words.near.split(), *words.ago) if one)
"""What says by itself whether a time lies behind or ahead, as the alternatives of a pattern."""


def find(text: str, now: datetime, language: str) -> list[Expression]:
    """Find the time expressions of a text in one of `LANGUAGES`."""
    found = []
    for match in _PATTERNS[language].finditer(text):
        # dateparser knows number words in some of the languages only, so digits take their place.
        values = dict(pair.split("=") for pair in _WORDS[language].numbers.split())
        plain = " ".join(values.get(word.lower(), word) for word in match[0].split()) if match["ago"] else match[0]
        # Without seconds, so that queries of one minute share a parser.
        base = now.replace(second=0, microsecond=0, tzinfo=None)
        read = _parser(language, base).get_date_data(plain)
        if read is None or read.date_obj is None:
            continue
        unit: cal.Unit = "day" if match["near"] else "hour" if read.period == "time" else cast(cal.Unit, read.period)
        relative = bool(match["near"] or match["ago"]) or not re.search(r"\d{4}", match[0])
        moment = read.date_obj.replace(tzinfo=now.tzinfo)
        try:
            # dateparser counts on the clocks; hours are counted as they pass.
            if unit == "hour":
                moment = cal.later(now, read.date_obj.replace(tzinfo=None) - base)
            span = cal.unit_at(moment, unit)
        except (ValueError, OverflowError):
            continue  # the calendar has no such time
        found.append(Expression(match.start(), match.end(), span, relative=relative))
    return found


@lru_cache(maxsize=16)
def _parser(language: str, now: datetime) -> DateDataParser:
    # Imported here: that takes 0.3 s, and most texts never need it.
    from dateparser.date import DateDataParser  # noqa: PLC0415

    return DateDataParser(
        languages=[language],
        settings={"RELATIVE_BASE": now, "PREFER_DATES_FROM": "past", "RETURN_TIME_AS_PERIOD": True},
    )
