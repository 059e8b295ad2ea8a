"""What says the same comes once in a recall: the best hit stands for the others, and counts them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from reme_core.store.relevance import Match
from reme_core.types import SCOPES, Kind

_NO_WORD = re.compile(r"[\W_]+")
# What has other words in one of these says something else; of a message the subject is its session.
_ABOUT = ("kind", "subject", "author", "valid_from", "valid_until", *SCOPES)


def once(matches: Iterable[Match], *, at_its_time: bool) -> list[Match]:
    """The matches, best first, without those that a better one says already; each counts those that it stands for.

    With `at_its_time`, what was said or observed at another time is something else.
    """
    best: dict[Hashable, Match] = {}
    for match in matches:
        said = _statement(match.memory), at_its_time and match.memory["observed_at"]
        first = best.get(said)
        best[said] = match if first is None else first._replace(alike=first.alike + 1)
    return list(best.values())


def _statement(memory: Mapping[str, Any]) -> Hashable:
    """What a memory says, and of what; case, width, punctuation and spaces make no difference.

    One differing word does, however alike the vectors are: it may be a "not", or another day.
    """
    about = tuple(memory.get(name) for name in _ABOUT if name != "subject" or memory["kind"] != Kind.CONVERSATION)
    return *about, *(_words(memory.get(name, "")) for name in ("when_to_use", "content"))


def _words(text: str) -> str:
    """The words of a text; a text of signs alone stays as it is.

    >>> _words("Yes — at Ｒex’s, 5.30!")
    'yes at rex s 5 30'
    """
    return _NO_WORD.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip() or text
