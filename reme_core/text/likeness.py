"""How a text compares with a statement: whether both say the same, and what of the text tells what is stated."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, Final

from reme_core.text.fiction import sentences
from reme_core.text.forgetting import CLAUSE_ENDS
from reme_core.text.terms import terms
from reme_core.text.timex.statements import tells_year


def says_the_same(one: str, other: str) -> bool:
    """Whether two statements have the same words, besides greetings and fillers.

    >>> says_the_same("Hi again, I eat fish.", "I eat fish"), says_the_same("我吃素啊", "我吃鱼")
    (True, False)
    """
    first, second = (words_of(_FILLERS.sub(" ", text.casefold())) for text in (one, other))
    return first == second


def words_of(text: str) -> str:
    """The words of a text without case, width, punctuation, smileys and further spaces.

    Symbols are kept, and so are the marks of letters: C is not C++, nor A- (a grade) A, nor หมู (pork) หมี่ (noodles).

    >>> words_of("Yes — at Ｒex’s, 5.30!"), words_of("I write C++ 😊"), words_of("my e-mail; blood: A-.")
    ('yes at rex s 5 30', 'i write c++', 'my e mail blood a-')
    """
    return _BETWEEN_WORDS.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()


def same_days(times: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the times that the same words name, said twice, are the same.

    "I ran ten miles yesterday" tells of two days; "my birthday is on 3 March" of one, whatever the year; "this summer"
    of one of its year. A time has its words (`text`) and its `start` in ISO 8601, or None.

    >>> same_days([{"text": "3 March", "start": "2024-03-03"}], [{"text": "3 March", "start": "2025-03-03"}])
    True
    >>> same_days([{"text": "early May", "start": "2024-05-01"}], [{"text": "early May", "start": "2025-05-01"}])
    True
    >>> same_days([{"text": "this May", "start": "2024-05-01"}], [{"text": "this May", "start": "2025-05-01"}])
    False
    """

    def day(time: Mapping[str, Any]) -> str | None:
        start: str | None = time["start"]
        return start[5:] if start and not tells_year(time["text"]) else start

    return list(map(day, times)) == list(map(day, others))


def is_told(text: str, statement: str) -> bool:
    """Whether a statement has a good part of a text's words.

    >>> is_told("Ada lives in Porto", "His sister lives in Porto"), is_told("Ada has a dog and a brown cat", "Ada is 8")
    (True, False)
    """
    said = set(terms(text))
    return len(said.intersection(terms(statement))) >= _TOLD * len(said)


def part_told(text: str, statement: str) -> str:
    """The sentences of a text that share words with a statement; all of the text where none does.

    So a joke beside a fact is not taken for one.

    >>> part_told("I got the flat in Leith! I could marry the door.", "The user has a flat in Leith, Edinburgh")
    'I got the flat in Leith!'
    """
    words = set(terms(statement))
    parts = [part for sentence in sentences(text) for part in CLAUSE_ENDS.split(sentence)]
    return " ".join(part for part in parts if not words.isdisjoint(terms(part))) or text


_TOLD: Final = 1 / 3
"""The share of a text's words from which on a statement tells what the text does."""
# Spaces, and the punctuation of ASCII, Latin, Arabic, Hindi, of all (General Punctuation) and of Chinese; then smileys.
_SEPARATOR: Final = (
    r"[\s!\"&'()*,./:;?@\[\\\]^_`{|}~\x00-\x1f¡§«\xad¶·»¿،؛؟۔।॥\u2000-\u206f\u2e00-\u2e7f\u3000-\u303f\ufe00-\ufe0f"
    "\U0001f600-\U0001f64f\U0001f910-\U0001f92f\U0001f970-\U0001f97a\U0001f3fb-\U0001f3ff]"
)
# The minus behind a single letter, or behind AB, belongs to it.
_BETWEEN_WORDS: Final = re.compile(rf"(?:{_SEPARATOR}|-(?=\w)|(?<!\b\w)(?<!\bab)-)+")
_FILLERS: Final = re.compile(
    r"\b(?:hi|hello|hey|again|and|also|oh|ok|okay|so|just|really|well|btw|by the way|lol|haha+|yeah|yes|yep)\b"
    r"|[哈啊呀啦嗯哦吧嘛]"
)
