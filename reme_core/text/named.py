"""The names and numbers that a text has, in figures and in words, English and Chinese."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

# Not those of `calendar`, which are in the language that the process is set to.
MONTHS: Final = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
                 "November", "December")  # fmt: skip
WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def proper_names(text: str) -> list[str]:
    """The proper names of a text: capitalised words that do not begin a sentence."""
    found = [match[0].removesuffix("'s") for match in _NAME.finditer(text.replace("’", "'"))]
    return [name for name in found if name.casefold().removesuffix("s") not in _CALENDAR and len(name) > 1]


def occurs(name: str, letters: str) -> bool:
    """Whether a name occurs, in whatever inflection: by its stem, without its last letters where it is long."""
    bare = letters_of(name)
    return bare in letters or (len(bare) >= _INFLECTED and bare[: -(len(bare) // 4)] in letters)


def letters_of(text: str) -> str:
    """The letters and digits of a text, without accents, as terms are."""
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFKD", text.casefold()))


def figures_in(text: str) -> set[str]:
    """The whole numbers that a text has in figures."""
    return {part.lstrip("0") or "0" for part in re.findall(r"\d+", text)}


def numbers_in(text: str) -> set[str]:
    """The whole numbers of a text: those of its figures, and what is said with them and in words."""
    spelt = {value for value, words in _WORDS.items() if words.search(text)}
    # "Twenty-five" and "three hundred": what their parts can make is as good as said.
    tens, powers = {n for n in spelt if 20 <= n < 100}, {n for n in spelt if n >= 100}
    spelt |= {ten + one for ten in tens for one in spelt if one < 10}
    found = {str(n) for n in spelt | {one * power for one in spelt if one < 100 for power in powers}}
    for match in _CHINESE.findall(text):
        row = match.translate(_AS_DIGITS)
        found.add(str(chinese_number(match)))
        found |= {*figures_in(row), *row} if row.isdigit() else set()  # 三零五 is 305, and 两三个 are two or three
    # "An 09 plate" names 2009, and "3k" 3,000.
    found |= {century + year for year in _TWO_DIGITS.findall(text) for century in ("19", "20")}
    found |= {f"{int(figure)}000" for figure in _THOUSANDS.findall(text)}
    found |= {"30"} if _HALF_PAST.search(text) else set()
    return found | figures_in(text)


def chinese_number(digits: str) -> int:
    """The value of a number written in Chinese, up to 9,999; 三千二 is 3,200."""
    value, figure, unit = 0, 0, 1
    for digit in digits.replace("两", "二").replace("〇", "零"):
        if digit in _POWERS:
            value, figure, unit = value + (figure or 1) * _POWERS[digit], 0, _POWERS[digit] // 10
        else:
            figure, unit = (_FIGURES.index(digit), unit) if digit != "零" else (0, 1)
    return value + figure * unit


_INFLECTED: Final = 5
"""Letters of a name from which on its end may change."""
_NAME: Final = re.compile(r"(?<=[\w,;:'\"(（“] )[A-ZÀ-ÖØ-Þ][\w'&-]+|(?<=[(\"“'一-鿿])[A-ZÀ-ÖØ-Þ][\w'&-]+")
_CALENDAR: Final = frozenset(form.casefold() for name in (*MONTHS, *WEEKDAYS) for form in (name, name[:3]))
_WORDS: Final = {
    value: re.compile(rf"\b(?:{begins})", re.IGNORECASE)
    for value, begins in {
        1: "one|first|once", 2: "two|twice|second|couple|both|half", 3: "three|third", 4: "four", 5: "five|fifth",
        6: "six", 7: "seven", 8: "eight", 9: "nine", 10: "ten", 11: "eleven", 12: "twelve|dozen", 13: "thirteen",
        14: "fourteen", 15: "fifteen", 16: "sixteen", 17: "seventeen", 18: "eighteen", 19: "nineteen", 20: "twent",
        30: "thirt|half", 40: "fort", 50: "fift", 60: "sixt", 70: "sevent", 80: "eight", 90: "ninet", 100: "hundred",
        1000: "thousand",
    }.items()
}  # fmt: skip
_FIGURES: Final = "零一二三四五六七八九"
_POWERS: Final = {"十": 10, "百": 100, "千": 1_000}
_TWO_DIGITS: Final = re.compile(r"(?<![\d.,:])\d\d(?![\d.,:])")
_THOUSANDS: Final = re.compile(r"(?<![\d.,])(\d{1,4}) ?k\b", re.IGNORECASE)
_HALF_PAST: Final = re.compile("[点點]半")
_CHINESE: Final = re.compile(rf"[{_FIGURES}〇两十百千]+")
_AS_DIGITS: Final = str.maketrans(_FIGURES + "〇两", "012345678902")
