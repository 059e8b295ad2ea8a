"""Time expressions in other European languages: patterns find them, dateparser reads them.

Five shapes are looked for, since they hardly ever mean something else: a word such as "yesterday", words such as "last
week", "N units ago", a month's name with a day or a year, and a date in digits. dateparser gives one moment and its
`period` (day, month …); the range is the calendar unit of that size around the moment.
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
    spans: str
    """Words such as "last week", separated by bars; behind `=` those that dateparser knows in their place."""
    past: str
    """What tells of the past, as the alternatives of a pattern: verbs that are nothing else."""
    of: str = ""
    """The word between day, month and year (Spanish "5 de mayo"), as a pattern."""


_WORDS: Final = {
    "de": _Words(
        "vorgestern gestern heute übermorgen",
        "januar februar märz april mai juni juli august september oktober november dezember",
        "tag tagen woche wochen monat monaten jahr jahren stunde stunden",
        "ein=1 einem=1 einer=1 zwei=2 drei=3 vier=4 fünf=5 sechs=6 zehn=10",
        ("vor", ""),
        "letzte woche|letzten monat|letztes jahr|nächste woche|nächsten monat|nächstes jahr|"
        "letzter woche=letzte woche|nächster woche=nächste woche|letztem monat=letzten monat|"
        "nächstem monat=nächsten monat|letztem jahr=letztes jahr|nächstem jahr=nächstes jahr",
        r"war|waren|warst|hatten?|hattest|wurden?|ging|kam|fuhr|flog|geboren|gewesen|"
        r"(?:habe?|hast|haben|hat)\b.*\b(?:(?:ab|an|auf|aus|ein|hin|mit|um|vor|weg|zu)?ge\w{2,}(?:t|en)|\w+iert|"
        r"bekommen|besucht|verkauft|verloren)(?=\s*(?:[.,;!?]|$|und\b))",
    ),
    "fr": _Words(
        "avant-hier hier aujourd'hui demain",
        "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
        "jour jours semaine semaines mois an ans année années heure heures",
        "un=1 une=1 deux=2 trois=3 quatre=4 cinq=5 six=6 dix=10",
        ("il y a", ""),
        "la semaine dernière|le mois dernier|l'année dernière|l'an dernier=l'année dernière|"
        "la semaine prochaine|le mois prochain|l'année prochaine|l'an prochain=l'année prochaine|"
        "après-demain",
        r"étais|était|étions|étiez|étaient|avais|avait|avions|avaient|j'ai (?:été|eu|fait|vu|pris|mis)|"
        r"(?:ai|as|avons|avez|ont|a) été|suis née?|"
        r"(?:suis|est|sommes|sont) (?:all|arriv|tomb|rentr|rest)ée?s?|"
        r"(?:suis|est|sommes|sont) (?:part|ven|reven)[iu]e?s?|(?:j'ai|avons|ont) (?!congé)\w+é",
    ),
    "es": _Words(
        "anteayer ayer hoy",
        "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
        "día días semana semanas mes meses año años hora horas",
        "un=1 una=1 dos=2 tres=3 cuatro=4 cinco=5 seis=6 diez=10",
        ("hace", ""),
        "la semana pasada|el mes pasado|el año pasado|la próxima semana|el próximo mes|el próximo año|"
        "la semana que viene=la próxima semana|el mes que viene=el próximo mes|"
        "el año que viene=el próximo año|pasado mañana=en 2 días",
        r"estuv[eio]\w*|fui|fue|fuimos|fueron|era|éramos|tuv[eio]\w*|hice|hizo|hicimos|había|nac[ií]|"
        r"(?!bebé|café|josé)\w{2,}(?<![aei]r)é|\w{2,}[iao]ó|\w{2,}[^aeiou\W]ó|\w{2,}(?:aron|ieron)",
        "del? ",
    ),
    "it": _Words(
        "ieri oggi domani",
        "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
        "giorno giorni settimana settimane mese mesi anno anni ora ore",
        "un=1 una=1 due=2 tre=3 quattro=4 cinque=5 sei=6 dieci=10",
        ("", "fa"),
        "settimana scorsa|mese scorso|anno scorso|scorsa settimana=settimana scorsa|"
        "scorso mese=mese scorso|scorso anno=anno scorso|settimana prossima|mese prossimo|anno prossimo|"
        "prossima settimana=settimana prossima|prossimo mese=mese prossimo|prossimo anno=anno prossimo|"
        "dopodomani=tra 2 giorni",
        r"er[oa]|eravamo|avev[oa]|stat[oaie]|nat[oaie]|(?:ho|hai|abbiamo|hanno) \w+[aui]to|"
        r"(?:ho|abbiamo|hanno) (?:fatto|preso|visto|perso|rotto)|"
        r"(?:sono|è|siamo) (?:andat|partit|arrivat|tornat|venut|cadut)[oaie]",
    ),
    "pt": _Words(
        "anteontem ontem hoje amanhã",
        "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
        "dia dias semana semanas mês meses ano anos hora horas",
        "um=1 uma=1 dois=2 duas=2 três=3 quatro=4 cinco=5 seis=6 dez=10",
        ("há", ""),
        "semana passada|mês passado|ano passado|próxima semana|próximo mês|próximo ano|"
        "semana que vem=próxima semana|mês que vem=próximo mês|ano que vem=próximo ano|"
        "depois de amanhã=em 2 dias",
        r"estiv[eé]\w*|estava|fui|foi|fomos|foram|tinha|tive|teve|tivemos|fiz|fez|fizemos|nasc[ie]u?|caí|"
        r"(?!vou|sou|dou|estou)\w{3,}ou|\w{3,}(?:aram|iram)|\w{2,}(?<![aei]r)ei",
        "de ",
    ),
    "nl": _Words(
        "eergisteren gisteren vandaag",
        "januari februari maart april mei juni juli augustus september oktober november december",
        "dag dagen week weken maand maanden jaar uur",
        "een=1 twee=2 drie=3 vier=4 vijf=5 zes=6 tien=10",
        ("", "geleden"),
        "vorige week|vorige maand|vorig jaar|volgende week|volgende maand|volgend jaar|overmorgen",
        r"was|waren|had|hadden|werd|werden|ging|kwam|geweest|geboren",
    ),
    "ru": _Words(
        "позавчера вчера сегодня завтра",
        "января февраля марта апреля мая июня июля августа сентября октября ноября декабря",
        "день дня дней неделю недели недель месяц месяца месяцев год года лет час часа часов",
        "один=1 одну=1 два=2 две=2 три=3 четыре=4 пять=5 шесть=6 десять=10",
        ("", "назад"),
        "на прошлой неделе|в прошлом месяце|в прошлом году|на следующей неделе|в следующем месяце|"
        "в следующем году|послезавтра",
        r"был[аои]?|родил\w*|"
        r"(?:я|мы|он|она|они|мне|меня|нас)\b.*\b(?!если|или|фина)\w{2,}[аеиоуыя](?:л|ла|ли|лось|лся|лась|лись)",
    ),
    "pl": _Words(
        "przedwczoraj wczoraj dzisiaj dziś jutro pojutrze",
        "stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada grudnia",
        "dzień dni tydzień tygodnie tygodni miesiąc miesiące miesięcy rok lata lat godzinę godziny godzin",
        "jeden=1 dwa=2 dwie=2 trzy=3 cztery=4 pięć=5 sześć=6 dziesięć=10",
        ("", "temu"),
        "w zeszłym tygodniu|w zeszłym miesiącu|w zeszłym roku|"
        "w przyszłym tygodniu|w przyszłym miesiącu|w przyszłym roku",
        r"był[aoy]?|byli|był[ae]m|byliśmy|\w{2,}[ai]ł[ae]m|\w{2,}(?:liśmy|łyśmy)|miał[ae]?m?",
    ),
}

# What of such a text lies ahead all the same, nearer or farther: who has bought tickets tells when the concert is.
_PLANS: Final = (
    r"gebucht|vereinbart|ausgemacht|reserviert|eingeladen|angemeldet|(?:eintritts)?karten|termin\w*|tickets?|"
    r"réserv\w+|billets?|inscri\w+|rendez-vous|"
    r"invit\w+|entradas?|reserv\w+|boletos?|cita|billetes?|ingressos?|passage[mn]s?|bigliett[oi]|prenot\w+|"
    r"iscritt[oa]|appuntamento|afspraak|"
    r"kaartjes|gereserveerd|билет\w*|заброниро\w+|записал\w*|bilet\w*|zarezerwowa\w+|umówi\w+|"
    r"werden?|wird|will|wollen|voy|vamos|vais|iremos|vou|vai|vão|буд\w+|собира\w+|będ\w+|zamierza\w*"
)
LANGUAGES: Final = frozenset(_WORDS)


def _one_of(listed: str) -> str:
    return f"(?:{'|'.join(listed.split())})"


def _meanings(words: _Words) -> dict[str, str]:
    """Words such as "last week", with those that dateparser knows for them."""
    pairs = (one.partition("=") for one in words.spans.split("|"))
    return {said: known or said for said, _, known in pairs}


_MEANINGS: Final = {code: _meanings(words) for code, words in _WORDS.items()}


def _pattern(words: _Words) -> str:
    numbers, months = _one_of(re.sub(r"=\d+", "", words.numbers)), _one_of(words.months)
    before, after = words.ago
    ago = " ".join(part for part in (before, rf"(?:\d{{1,3}}|{numbers}) {_one_of(words.units)}", after) if part)
    year = rf"(?: (?:{words.of})?(?:19|20)\d\d)"
    date = rf"\d{{1,2}}\.? (?:{words.of})?{months}{year}?|{months}{year}"
    spans = "|".join(_meanings(words))
    return rf"\b(?:(?P<near>{_one_of(words.near)})|(?P<spans>{spans})|(?P<ago>{ago})|(?P<date>{date}))\b"


_DIGITS: Final = r"(?<![\d./-])(?:\d{4}-\d\d?-\d\d?|\d\d?(?P<sign>[./])\d\d?(?P=sign)\d{4})(?![\d/-])"
_PATTERNS: Final = {code: regex(rf"{_pattern(words)}|{_DIGITS}", re.I) for code, words in _WORDS.items()}
_PAST: Final = {code: regex(rf"\b(?:{words.past})\b", re.I) for code, words in _WORDS.items()}
_PLANNED: Final = regex(rf"\b(?:{_PLANS})\b", re.I)
# What `find` looks for has one of these words, such digits, or "il y a": the French "an" is a word of English, too.
SCREEN_WORDS: Final = frozenset(
    name
    for words in _WORDS.values()
    for names in (words.near, words.months, words.units, *re.findall(r"\w{5,}", words.spans))
    for name in re.findall(r"\w+", names)
) - {"an"}
SCREEN: Final = regex(r"\d{4}-\d|\d[./]\d\d?[./]\d|\bil y a\b", re.IGNORECASE)
DIRECTED: Final = "|".join(
    one for code, words in _WORDS.items() for one in (*words.near.split(), *words.ago, *_MEANINGS[code]) if one
)
"""What says by itself whether a time lies behind or ahead, as the alternatives of a pattern."""


def tells_of_past(text: str, language: str) -> bool:
    """Whether a text in one of `LANGUAGES` tells of the past, and of nothing that was planned."""
    return bool(_PAST[language].search(text)) and not _PLANNED.search(text)


def languages_of_times(text: str) -> list[str]:
    """The languages in which a text has times by their names."""
    return [
        code
        for code, pattern in _PATTERNS.items()
        if any(match.lastgroup != "sign" for match in pattern.finditer(text))
    ]


def find(text: str, now: datetime, language: str) -> list[Expression]:
    """Find the time expressions of a text in one of `LANGUAGES`."""
    found = []
    for match in _PATTERNS[language].finditer(text):
        # dateparser knows number words in some of the languages only, so digits take their place.
        values = dict(pair.split("=") for pair in _WORDS[language].numbers.split())
        plain = " ".join(values.get(word.lower(), word) for word in match[0].split()) if match["ago"] else match[0]
        plain = _MEANINGS[language].get(plain.lower(), plain)
        # Without seconds, so that queries of one minute share a parser.
        base = now.replace(second=0, microsecond=0, tzinfo=None)
        read = _parser(language, base).get_date_data(plain)
        if read is None or read.date_obj is None:
            continue
        unit: cal.Unit = "day" if match["near"] else "hour" if read.period == "time" else cast(cal.Unit, read.period)
        relative = bool(match["near"] or match["ago"] or match["spans"]) or not re.search(r"\d{4}", match[0])
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
