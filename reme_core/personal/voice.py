"""In whose voice a message speaks, judged without a chat model: is it a lasting wish of its author, or tells of them?

A wish and who one is are shown in every conversation, so they have to be said by the person themselves, in their own
name. Others' words come into a message without any mark: pasted, cited, made up, passed on. How a text is put shows in
the middle layers of the offline model (`manners`), in any of its languages. A network of one hidden layer tells the
ones from the others by these numbers alone; `python -m benchmarks.fit_voice` fits its weights (voice.json) and measures
it.
"""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from reme_core.models.local import manners
from reme_core.personal.worth import text_to_embed
from reme_core.text.fiction import own_words, sentences
from reme_core.text.forgetting import parts_by_wish, topic_to_forget
from reme_core.text.wish_times import only_bounds
from reme_core.types import Message

Array = npt.NDArray[np.float64]

QUESTIONS: Final = ("wish", "fact")
"""What is asked of a message: does its author wish for something lasting, do they tell something of themselves?"""
HEED_FROM: Final = 0.75
"""The probability from which on a message is heeded though no chat model has read it."""
BELIEVE_FROM: Final = 0.2
"""The probability from which on a chat model is believed that takes a message for a wish, or for a profile."""


class Voice(NamedTuple):
    """The probabilities of a message, 0 to 1, that it is in its author's own voice."""

    wish: float
    """That they wish for something lasting."""
    fact: float
    """That they tell something of themselves."""
    wishes: tuple[str, ...] = ()
    """The sentences of a wish that is heeded though no chat model has read it."""

    @property
    def is_own(self) -> bool:
        """Whether somebody may be believed who takes the message for its author's own words."""
        return max(self.wish, self.fact) >= BELIEVE_FROM


async def voices(messages: Sequence[Message], before: Sequence[Message | None]) -> list[Voice]:
    """Judge messages of people.

    Without the offline model nothing is heeded by itself, and a chat model is believed of what cites nothing.

    Args:
        messages: What people said.
        before: For each, the message of the assistant that it may answer, or None.
    """
    # Texts are read in a thread: the event loop has to serve others.
    vectors = await manners(await asyncio.to_thread(lambda: list(map(text_to_judge, messages, before))))
    if vectors is None:
        bare = [float(own_words(message.content) == message.content) for message in messages]
        return [Voice(own * BELIEVE_FROM, own * BELIEVE_FROM) for own in bare]
    chances = chances_of(vectors)
    # Longer ones are pasted.
    chances[[len(message.content) > _READ for message in messages]] = 0
    heard = [Voice(float(wish), float(fact)) for wish, fact in chances]
    wishing = zip(messages, heard, strict=True)
    parts = await asyncio.to_thread(lambda: [_parts(m.content) if v.wish >= HEED_FROM else [] for m, v in wishing])
    vectors = await manners([own_words(part, _QUOTATION) for own in parts if len(own) > 1 for part in own])
    alone = iter(chances_of(vectors)[:, 0] if vectors is not None else ())
    return [
        voice._replace(wishes=_choose_parts(own, [next(alone) for _ in own] if len(own) > 1 else [1.0]))
        for voice, own in zip(heard, parts, strict=True)
    ]


def text_to_judge(message: Message, before: Message | None) -> str:
    """What is judged of a message: as `text_to_embed`, but of what it cites only that it cites something.

    What it asks to forget is carried out by itself, and the rest judged without that.

    >>> text_to_judge(Message(content="A sign read 'always knock'. Call me Sam"), None)
    'A sign read […]. Call me Sam'
    >>> text_to_judge(Message(content="Forget my salary. Call me Sam"), None)
    'Call me Sam'
    """
    said = own_words(message.content[: _READ + 1], _QUOTATION)
    if any(map(topic_to_forget, sentences(said))):
        said = " ".join(part for part in _split(said) if not topic_to_forget(part))
    return text_to_embed(message.model_copy(update={"content": said}), before)


def _parts(text: str) -> list[str]:
    """The sentences of a text of which some words are its author's own, and that do not ask to forget something."""
    own = own_words(text)
    parts = [part for part in _split(text) if not topic_to_forget(part)]
    return [part for part in parts if (said := own_words(part).strip()) and said in own]


def _split(text: str) -> list[str]:
    return list(chain.from_iterable(parts_by_wish(sentence) for sentence in sentences(text)))


def _choose_parts(parts: Sequence[str], chances: Sequence[float]) -> tuple[str, ...]:
    """Those parts of a wish that are wishes by themselves, else the likeliest; with what bounds them ("Till May.")."""
    if not parts:
        return ()
    least = min(HEED_FROM, max(chances))
    found: list[str] = []
    for part, chance in zip(parts, chances, strict=True):
        if chance >= least or (found and only_bounds(part)):
            found.append(part)
    return tuple(found)


def chances_of(vectors: npt.NDArray[np.float32]) -> Array:
    """The probability of each of the `QUESTIONS`, 0 to 1.

    Args:
        vectors: The `manners` of some texts: shape (number of texts, 384), unit length.

    Returns:
        Shape (number of texts, number of questions).
    """
    weights = _weights()
    units = np.maximum(vectors @ weights["hidden"] + weights["bias"], 0)
    return np.asarray(1 / (1 + np.exp(-(units @ weights["answer"] + weights["constant"]))), dtype=np.float64)


_QUOTATION: Final = "[…]"  # no sign of quotation, which would begin one that never ends
_READ: Final = 2_000
"""Characters from which on a message is no wish and no profile."""


@cache
def _weights() -> dict[str, Array]:
    fitted = json.loads((files(__package__) / "voice.json").read_text(encoding="utf-8"))
    weights = {name: np.array(fitted[name]) for name in ("bias", "answer", "constant")}
    whole = np.frombuffer(b64decode(fitted["hidden"]), dtype=np.int8)  # whole numbers, as signed bytes
    return weights | {"hidden": whole.astype(np.float64).reshape(-1, len(weights["bias"])) * fitted["step"]}
