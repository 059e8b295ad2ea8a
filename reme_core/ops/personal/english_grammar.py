"""From "I" to "the user": English clauses in the third person."""

# ruff: noqa: E501 -- a pattern reads better whole

from __future__ import annotations

import re
from typing import Final


def third_person(clause: str, who: str) -> str:
    """A first-person clause as a statement about `who`.

    >>> third_person("I'm proud of myself and I have my own car", "The user")
    'The user is proud of themselves and they have their own car'
    """
    text = clause.strip().rstrip(".!;,")
    if match := _SUBJECT.match(text):
        adverbs, rest = match["adverbs"], text[match.end() :]
        if match["auxiliary"]:
            head = f"{_AUXILIARIES[match['auxiliary'].strip()]} {adverbs}"
        else:
            verb, space, rest = rest.partition(" ")
            head = f"{adverbs}{_conjugated(verb)}{space}"
        return f"{who} {head}{_of_others(rest)}".strip()
    if match := re.match(r"[Mm]y\b", text):
        return f"{who}'s{_of_others(text[match.end() :])}"
    return _of_others(text)


_ADVERB: Final = (
    r"(?:really|usually|always|often|normally|regularly|typically|generally|rarely|never|sometimes|mostly|also|still|just"
    r"|recently|finally|already|now|currently|absolutely|truly|actually|do|quite|particularly|especially|only|no longer"
    r"|originally|once|officially|even|simply|hardly ever|hardly|both|sadly|happily|secretly|definitely)"
)
ADVERBS: Final = rf"(?:{_ADVERB}\s+)*"
_SUBJECT: Final = re.compile(
    rf"I(?P<auxiliary>'m not|'m|'ve|'ll| am not| am| have not| haven't| have(?= (?:\w+ed|been|just|never|gone|got|had|given)\b)"
    rf"| do not| don't| was| can't| cannot|)\s+(?P<adverbs>{ADVERBS})"
)
_AUXILIARIES: Final = {
    "'m": "is", "am": "is", "'m not": "is not", "am not": "is not", "'ve": "has", "have": "has", "'ll": "will",
    "have not": "has not", "haven't": "hasn't", "do not": "does not", "don't": "doesn't", "was": "was",
    "can't": "can't", "cannot": "cannot",
}  # fmt: skip
HABITS: Final = [
    "live",
    "work",
    "play",
    "speak",
    "drive",
    "own",
    "study",
    "teach",
    "run",
    "learn",
    "collect",
    "practise",
    "practice",
    "ride",
    "grow",
    "drink",
    "eat",
    "cook",
    "bake",
    "swim",
    "write",
    "watch",
    "listen",
    "walk",
    "bike",
    "cycle",
    "commute",
    "wake",
    "get",
    "sleep",
    "take",
    "make",
    "go",
    "do",
    "meet",
    "visit",
    "call",
    "wear",
    "smoke",
    "train",
    "exercise",
    "meditate",
    "jog",
    "hike",
    "climb",
    "paint",
    "draw",
    "sing",
    "dance",
    "garden",
    "volunteer",
    "travel",
    "fly",
    "knit",
    "avoid",
    "start",
    "finish",
    "spend",
    "stay",
    "come",
    "code",
    "program",
    "manage",
    "lead",
    "wash",
    "buy",
    "order",
    "brew",
    "keep",
    "use",
]
_PRESENT: Final = frozenset(
    ["like", "love", "enjoy", "adore", "prefer", "hate", "dislike", "detest", "have", "need", "suffer", *HABITS]
)
_UNLIKE_S: Final = {"have": "has", "do": "does", "go": "goes"}


def _conjugated(verb: str) -> str:
    if verb not in _PRESENT:
        return verb  # a past form stays as it is
    if verb in _UNLIKE_S:
        return _UNLIKE_S[verb]
    if re.search(r"(?:s|x|z|ch|sh)$", verb):
        return f"{verb}es"
    return f"{verb[:-1]}ies" if re.search(r"[^aeiou]y$", verb) else f"{verb}s"


_SWAPS: Final = tuple(
    (re.compile(pattern), word)
    for pattern, word in (
        (r"\bI'm\b|\bI am\b", "they are"), (r"\bI've\b", "they have"), (r"\bI was\b", "they were"),
        (r"\bI'll\b", "they will"), (r"\bI\b", "they"), (r"\bmyself\b", "themselves"), (r"\bmine\b", "theirs"),
        (r"\b[Mm]y\b", "their"), (r"\bme\b", "them"), (r"\bam\b(?! \d|,)", "are"), (r"\bour\b", "their"),
        (r"\bwe\b", "they"), (r"\bus\b", "them"),
    )
)  # fmt: skip


def _of_others(text: str) -> str:
    for pattern, word in _SWAPS:
        text = pattern.sub(word, text)
    return text
