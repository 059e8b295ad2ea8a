"""A recall gives each statement once: the best hit stands for all that say the same, and counts them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from reme_core.store.relevance import Match
from reme_core.types import SCOPES, Kind

_NO_WORD = re.compile(r"[\W_]+")
# Memories that differ in one of these fields say different things.
_ABOUT = ("kind", "subject", "author", "valid_from", "valid_until", *SCOPES)
# The subject of a message is its session, that of a lesson its task: in two of these the same words say the same.
_SUBJECT_IS_ORIGIN = (Kind.CONVERSATION, Kind.TASK)


def once(matches: Iterable[Match], *, at_its_time: bool) -> list[Match]:
    """The matches, best first, without those that say the same as a better one; each counts those that it stands for.

    With `at_its_time`, the same words said or observed at another time count as another statement.
    """
    best: dict[Hashable, Match] = {}
    for match in matches:
        said = _statement(match.memory), at_its_time and match.memory["observed_at"]
        first = best.get(said)
        best[said] = match if first is None else first._replace(alike=first.alike + 1)
    return list(best.values())


def _statement(memory: Mapping[str, Any]) -> Hashable:
    """What a memory says, and about what: two that say the same have equal values."""
    kind = memory["kind"]
    about = tuple(memory.get(name) for name in _ABOUT if name != "subject" or kind not in _SUBJECT_IS_ORIGIN)
    # A lesson that several tasks taught is one lesson, as in ReMe 0.1.
    situation = "" if kind == Kind.TASK else _words(memory.get("when_to_use", ""))
    # Words are compared, not vectors: a "not" or another day changes the meaning, and hardly the vector.
    return *about, situation, _words(memory.get("content", ""))


def _words(text: str) -> str:
    """The words of a text without case, width, punctuation and spaces; a text without words stays as it is.

    >>> _words("Yes — at Ｒex’s, 5.30!")
    'yes at rex s 5 30'
    """
    return _NO_WORD.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip() or text
