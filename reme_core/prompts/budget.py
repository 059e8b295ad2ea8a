"""Cheap estimates of the tokens of a text."""

from __future__ import annotations

import re
from typing import Final

# Thai, Lao, Burmese, CJK, Hangul and emoji: a token a character.
_WIDE: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u2e80-\ua4cf\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef\U0001f000-\U0003ffff]"
)
# Greek, Cyrillic, Arabic and the like: a token for two characters.
_OTHER: Final = re.compile("[\u0370-\u0dff\u1200-\u1dff]")


def count_tokens(text: str) -> int:
    """Estimate the tokens of a text, without any model's vocabulary.

    >>> count_tokens("four letters a token"), count_tokens("每字一个")
    (5, 4)
    """
    wide = len(_WIDE.findall(text))
    other = len(_OTHER.findall(text))
    # The rule of thumb of the large byte-pair vocabularies: of Latin script four characters are a token. Rounded up, so
    # that a budget errs on the safe side.
    return wide + -(-other // 2) + -(-(len(text) - wide - other) // 4)


# What the large byte-pair vocabularies divide a text into: short words, up to three digits, signs.
_PIECES: Final = re.compile(
    r"[A-Z]?[a-z]{1,7}|[A-Z]{1,2}|[0-9]{1,3}"
    rf"|{_WIDE.pattern}|[^\W\d_A-Za-z]{{1,2}}|[^\w\s]{{1,2}}|_|\n+|[^\S\n]{{2,16}}"
)
_ASTRAL: Final = re.compile("[\U00010000-\U0010ffff]")


def most_tokens(text: str) -> int:
    """About the most tokens that a text costs a model; for logs and code, which `count_tokens` underrates, too.

    >>> most_tokens("2026-11-23T10:15:00Z ERROR took 512ms"), count_tokens("2026-11-23T10:15:00Z ERROR took 512ms")
    (22, 10)
    """
    # A character beyond the basic plane (an emoji, a rare Han character) counts as three.
    pieces = sum(1 for _ in _PIECES.finditer(text)) + 2 * len(_ASTRAL.findall(text))
    # Against cl100k and o200k this comes out between .9 (base64, Arabic) and 2.2 (capitals) times the larger count, and
    # 1.0 to 1.4 times for prose, code, JSON and logs.
    return -(-pieces * 9 // 8)
