r"""Wordings: the words that an erasure removes from other texts, in every form in which they may stand there.

The database and the spool look for the same forms. A tool's arguments are JSON text, which may hold JSON text again,
and some writers write each letter beyond ASCII as `\u…`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable
from itertools import chain
from typing import Any
from unicodedata import normalize

from reme_core.text.terms import terms

# A name in Chinese has up to four characters, which are three bigrams: fewer than five terms may be just a name.
_DISTINCTIVE_TERMS, _DISTINCTIVE_CJK_TERMS = 3, 5
_SECRET_LENGTH = 6  # characters of a single word with a digit in it: a number, a password

_READ_FIRST = 10_000  # characters of a wording, which mostly have terms enough
_MOST_COMPILED = 1_000  # characters of a wording: to compile a pasted file of a megabyte takes seconds

Cut = Callable[[str], str]
"""Removes words from a text."""


def remover_of(wordings: Collection[str]) -> Cut:
    """What removes wordings from a text: distinctive ones wherever they stand, others where they are all of it."""
    whole = {form.lower() for form in spellings(wordings)}
    parts = [(form[:_MOST_COMPILED], form[_MOST_COMPILED:]) for form in forms(wordings)]
    patterns = [(re.compile(re.escape(begun), re.IGNORECASE), rest) for begun, rest in parts]

    def remove(text: str) -> str:
        if text.lower() in whole:
            return ""
        for begun, rest in patterns:
            text = _without(text, begun, rest) if rest else begun.sub("", text)
        return text

    return remove


def _without(text: str, begun: re.Pattern[str], rest: str) -> str:
    """A text without the places where `begun` is followed by `rest`, in upper or lower case."""
    kept, start = [], 0
    rest_folded = rest.casefold()
    while found := begun.search(text, start):
        end = found.end() + len(rest)
        is_whole = text[found.end() : end].casefold() == rest_folded
        kept.append(text[start : found.start() + (not is_whole)])
        start = end if is_whole else found.start() + 1
    return "".join([*kept, text[start:]])


def cut_json(value: Any, cut: Cut) -> Any:
    """A JSON value, in whose texts and names `cut` has removed words."""
    if isinstance(value, str):
        return cut(value)
    if isinstance(value, list):
        return [cut_json(item, cut) for item in value]
    if isinstance(value, dict):
        return {cut(name): cut_json(item, cut) for name, item in value.items()}
    return value


def as_values(wordings: Collection[str]) -> dict[str, list[str]]:
    r"""Wordings as values of statements.

    All are compared with whole texts (`whole`), and the `forms` are removed from others. The `marks` are patterns of
    LIKE for texts without their backslashes: so they are the same at any depth of JSON, and for a text that Postgres
    writes as an item of an array.

    >>> as_values(["Rome", "He got 50% off"])
    {'whole': ['Rome', 'He got 50% off'], 'forms': ['He got 50% off'], 'marks': ['%He got 50\\% off%']}
    """
    found = forms(wordings)
    bare = dict.fromkeys(form.replace("\\", "") for form in found)
    marks = [re.sub("([%_])", r"\\\1", mark) for mark in bare]
    return {"whole": spellings(wordings), "forms": found, "marks": [f"%{mark}%" for mark in marks]}


def spellings(wordings: Iterable[str]) -> list[str]:
    """Wordings as they are, and with each letter and its accents as one character (NFC) and as several (NFD).

    >>> [len(text) for text in spellings(["é"])], spellings(["e"])
    ([1, 2], ['e'])
    """
    return list(
        dict.fromkeys(form for text in wordings for form in (text, normalize("NFC", text), normalize("NFD", text)))
    )


def forms(wordings: Collection[str]) -> list[str]:
    r"""All forms of the wordings that are distinctive, the longest first, since one may contain another.

    >>> print(*forms(["Ann's bakery sells Weißbrot"]), sep="; ")
    Ann's bakery sells Wei\\u00dfbrot; Ann's bakery sells Wei\u00dfbrot; Ann's bakery sells Weißbrot
    """
    found = chain.from_iterable(map(_forms, spellings(filter(is_distinctive, wordings))))
    return sorted(dict.fromkeys(found), key=len, reverse=True)


def _forms(wording: str) -> list[str]:
    """A wording as it is, as it reads within JSON, and as it reads within JSON that is a text of other JSON."""
    within = _escape([wording])
    return [wording, *within, *_escape(within)]


def _escape(texts: Collection[str]) -> list[str]:
    return [json.dumps(text, ensure_ascii=ascii_only)[1:-1] for text in texts for ascii_only in (False, True)]


def is_distinctive(wording: str) -> bool:
    """Whether a wording is so specific that other texts have it from here: a statement, a number, a password.

    A memory that reads "Berlin" must not remove that word from everything that was ever said about the city.

    >>> [is_distinctive(text) for text in ("Her dog is called Rex", "San Francisco", "get_account_info", "hunter2")]
    [True, False, False, True]
    >>> [is_distinctive(text) for text in ("Élise owns a château", "São Paulo", "欧阳修文", "他每天早上喝黑咖啡")]
    [True, False, False, True]
    """
    found = set(terms(wording[:_READ_FIRST]))
    if len(found) < max(_DISTINCTIVE_TERMS, _DISTINCTIVE_CJK_TERMS) and len(wording) > _READ_FIRST:
        found = set(terms(wording))
    words = wording.split()
    # Chinese has no spaces between words, which other scripts beyond ASCII have.
    enough = len(words) >= _DISTINCTIVE_TERMS or (not wording.isascii() and len(found) >= _DISTINCTIVE_CJK_TERMS)
    return (enough and len(found) >= _DISTINCTIVE_TERMS) or any(
        len(word) >= _SECRET_LENGTH and any(map(str.isdigit, word)) for word in words
    )
