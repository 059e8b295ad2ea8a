"""Guards: what of a model's operation the messages that it names do not bear out.

They only guard. A value has to stand in the evidence, or in the question that this answers, as far as names and numbers
go: by their characters, in any inflection. Words are the model's own; nothing is refused for how it is put.
"""

from __future__ import annotations

import calendar
import re
import unicodedata
from collections.abc import Sequence
from typing import Final

from reme_core.personal.times import dates_near
from reme_core.text.terms import language_of, terms
from reme_core.types import Message

NO_EVIDENCE: Final = "it names no message of a person as evidence"
ALL_MESSAGES: Final = "it names every message as evidence"
ASSISTANTS: Final = "it rests on the assistant's words alone"
VALUE: Final = "its value is not in the messages it names"
STATEMENT: Final = "its statement says more than anybody told; the words that were said took its place"
BORROWED: Final = "its words are another's: cited, pasted, invented, or said by the assistant"
NO_MEMORY: Final = "it names no remembered statement"
NO_STATEMENT: Final = "it states nothing"


def inventions(text: str, evidence: Sequence[Message], known: Sequence[str], timezone: str) -> list[str]:
    """The names and numbers of a text that its grounds do not hold.

    Args:
        text: A value, or a statement.
        evidence: The messages it rests on; dates may also be reckoned from when these were sent.
        known: What else may lend it names and numbers: the question that is answered, whom it is about.
        timezone: In which the speakers' days begin.
    """
    said = "\n".join(m.content for m in evidence)
    grounds = "\n".join([said, *known])
    folded = _letters(grounds)
    # What was said in Chinese may be named in Latin letters, which share none with it.
    missing = [] if language_of(said) == "zh" else [name for name in _names(text) if not _occurs(name, folded)]
    numbers = _numbers(grounds) | {"0"}  # of "20:00", or of "none"
    for message in evidence:
        numbers |= dates_near(message, timezone)
    numbers |= {str(int(n) + 12) for n in numbers if len(n) < 3 and int(n) < 12}  # four in the afternoon is 16:00
    return missing + sorted(_numbers(text, in_words=False) - numbers)


def invented_value(
    value: str, statement: str, evidence: Sequence[Message], known: Sequence[str], timezone: str
) -> list[str]:
    """The same of a value; its first word is a name where the statement has it as one."""
    named = [name for name in _names(statement) if name in value]
    return inventions(f": {', '.join(named)}, {value}" if named else value, evidence, known, timezone)


def is_borrowed(text: str, own: str, heard: str, most: float) -> bool:
    """Whether a text repeats what was heard, and what people said in words of their own hardly has a part in that.

    Words of the model's own are no sign of it: they were not heard either.

    Args:
        text: A statement.
        own: What people said for themselves, and the questions that they answered.
        heard: All that was said, theirs included.
        most: The share of the words heard that may be their own.
    """
    words, heard, own = set(terms(text)) - _PERSON, _letters(heard), _letters(own)
    repeated = {word for word in words if _occurs(word, heard)}
    said = {word for word in repeated if _occurs(word, own)}
    return len(repeated) >= max(1, _REPEATED * len(words)) and len(said) <= most * len(repeated)


def share(text: str, own: str, heard: str) -> float:
    """How many of the words of a text that were heard at all stand in `own`, 0 to 1; 1 where none was heard."""
    words, heard, own = set(terms(text)) - _PERSON, _letters(heard), _letters(own)
    repeated = {word for word in words if _occurs(word, heard)}
    return sum(_occurs(word, own) for word in repeated) / len(repeated) if repeated else 1.0


def _names(text: str) -> list[str]:
    """The proper names of a text: capitalised words that do not begin a sentence."""
    found = [match[0].removesuffix("'s") for match in _NAME.finditer(text.replace("’", "'"))]
    return [name for name in found if name.casefold() not in _CALENDAR and len(name) > 1]


def _occurs(name: str, letters: str) -> bool:
    """Whether a name occurs, in whatever inflection: by its stem, without its last letters where it is long."""
    bare = _letters(name)
    return bare in letters or (len(bare) >= _INFLECTED and bare[: -(len(bare) // 4)] in letters)


def _letters(text: str) -> str:
    """The letters and digits of a text, without accents, as terms are."""
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFKD", text.casefold()))


def _numbers(text: str, *, in_words: bool = True) -> set[str]:
    found = {part.lstrip("0") or "0" for part in re.findall(r"\d+", text)}
    if in_words:
        spelt = {value for value, words in _WORDS.items() if words.search(text)}
        # "Twenty-five" and "three hundred": what their parts can make is as good as said.
        tens, powers = {n for n in spelt if 20 <= n < 100}, {n for n in spelt if n >= 100}
        spelt |= {ten + one for ten in tens for one in spelt if one < 10}
        found |= {str(n) for n in spelt | {one * power for one in spelt if one < 100 for power in powers}}
        found |= {str(_chinese_number(match)) for match in _CHINESE.findall(text)}
    return found


def _chinese_number(digits: str) -> int:
    """The value of a number written in Chinese, up to 9,999."""
    value, figure = 0, 0
    for digit in digits:
        if digit in _POWERS:
            value, figure = value + (figure or 1) * _POWERS[digit], 0
        else:
            figure = _FIGURES.index(digit) if digit != "两" else 2
    return value + figure


_PERSON: Final = frozenset((*terms("the user"), *terms("用户")))  # whom statements are about
_REPEATED: Final = 2 / 3  # the share of words heard from which on a statement may be another's
_INFLECTED: Final = 5  # letters of a name from which on its end may change
_NAME: Final = re.compile(r"(?<=[\w,;:'\"(（“] )[A-ZÀ-ÖØ-Þ][\w'&-]+|(?<=[(\"“'一-鿿])[A-ZÀ-ÖØ-Þ][\w'&-]+")
_CALENDAR: Final = frozenset(
    name.casefold() for name in [*calendar.month_name, *calendar.month_abbr, *calendar.day_name, *calendar.day_abbr]
)
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
_CHINESE: Final = re.compile(rf"[{_FIGURES}两十百千]+")
