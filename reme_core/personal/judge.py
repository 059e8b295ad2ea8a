"""How messages are judged without a chat model: by how they are put.

That shows in the middle layers of the offline model (`manners`), whatever a message is about, and in any of its
languages. For each question a network of one hidden layer tells from these numbers how likely it is so: what is worth
keeping (worth.json, fitted by `python -m benchmarks.fit_worth`), and in whose voice it speaks (voice.json, by
`benchmarks.fit_voice`).
"""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from itertools import chain
from typing import Final

import numpy as np
import numpy.typing as npt

from reme_core.models.local import manners
from reme_core.text.fiction import own_words, sentences
from reme_core.text.forgetting import parts_by_wish, topic_to_forget
from reme_core.text.regex import regex
from reme_core.types import Message

Array = npt.NDArray[np.float64]

READ: Final = 2_000
"""Characters that are read of a message; longer ones are pasted."""


async def chances(texts: Sequence[str], network: str) -> Array | None:
    """The answers of a network to its questions about each text, as probabilities.

    Args:
        texts: What `text_to_judge` gives.
        network: `worth` or `voice`.

    Returns:
        Shape (number of texts, number of questions), 0 to 1; or None where the offline model is not installed.
    """
    vectors = await manners(texts)
    # In a thread, since the first time it reads a file.
    return None if vectors is None else await asyncio.to_thread(chances_of, vectors, network)


def chances_of(vectors: npt.NDArray[np.float32], network: str) -> Array:
    """The same of texts whose `manners` are at hand: shape (number of texts, 384), unit length."""
    weights = _weights(network)
    units = np.maximum(vectors @ weights["hidden"] + weights["bias"], 0)
    return np.asarray(1 / (1 + np.exp(-(units @ weights["answer"] + weights["constant"]))), dtype=np.float64)


def text_to_judge(message: Message, before: Message | None) -> str:
    """What is judged of a message: its words, ahead of them the question that it answers if it is short.

    Of what it cites counts only that it cites something. What it asks to forget is carried out by itself, and the rest
    judged without that. A full stop at the end says nothing, but moves the vector of a short text.

    >>> text_to_judge(Message(content="wednesdays at 7."), Message(role="assistant", content="Fine. When is choir?"))
    'When is choir? wednesdays at 7'
    >>> text_to_judge(Message(content="A sign read 'always knock'. Call me Sam"), None)
    'A sign read […]. Call me Sam'
    >>> text_to_judge(Message(content="Forget my salary. Call me Sam"), None)
    'Call me Sam'
    """
    said = own_words(message.content[: READ + 1], QUOTATION)
    if any(map(topic_to_forget, sentences(said))):
        said = " ".join(part for part in parts_of(said) if not topic_to_forget(part))
    said = _FULL_STOP.sub("", said)
    asked = _question_in(before)
    return f"{asked} {said}" if asked and is_short(said) else said


def parts_of(text: str) -> list[str]:
    """The sentences of a text, in each of which there is no more than one wish."""
    return list(chain.from_iterable(parts_by_wish(sentence) for sentence in sentences(text)))


def is_short(text: str) -> bool:
    """Whether a message has so few words that it needs the question that it answers."""
    return len(_UNITS.findall(text)) <= _SHORT


def _question_in(message: Message | None) -> str:
    """The question with which a message ends, or nothing."""
    text = message.content.rstrip()[-_QUESTION:] if message else ""
    return _QUESTION_STARTS.split(text)[-1].strip() if text.rstrip(_CLOSING).endswith(("?", "？")) else ""


QUOTATION: Final = "[…]"
"""Stands for what is cited. It is no sign of quotation, which would begin one that never ends."""
_QUESTION: Final = 300
"""Characters of the message before in which its last question is looked for."""
_SHORT: Final = 12
"""Words (or Chinese characters) up to which a message needs the question that it answers."""
_UNITS: Final = regex(r"[一-鿿]|[^\W_一-鿿]+(?:'[a-z]+)?")
_FULL_STOP: Final = regex(r"(?<![.。])[.。]\s*\Z")
_CLOSING: Final = '"”』」)'
_QUESTION_STARTS: Final = regex(r"[.!?。！？\n]+(?=\s*[^\s.!?。！？\"”』」)])")


@cache
def _weights(network: str) -> dict[str, Array]:
    fitted = json.loads((files(__package__) / f"{network}.json").read_text(encoding="utf-8"))
    weights = {name: np.array(fitted[name]) for name in ("bias", "answer", "constant")}
    whole = np.frombuffer(b64decode(fitted["hidden"]), dtype=np.int8)  # whole numbers, as signed bytes
    return weights | {"hidden": whole.astype(np.float64).reshape(-1, len(weights["bias"])) * fitted["step"]}
