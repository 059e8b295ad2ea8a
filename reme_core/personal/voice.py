"""In whose voice a message speaks, judged without a chat model: is it a lasting wish of its author, or tells of them?

A wish and who one is are shown in every conversation, so they have to be said by the person themselves, in their own
name. Others' words come into a message without any mark: pasted, cited, made up, passed on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import chain
from typing import Final, NamedTuple

from reme_core.personal.judge import QUOTATION, READ, chances, parts_of, text_to_judge
from reme_core.text.fiction import own_words
from reme_core.text.forgetting import topic_to_forget
from reme_core.text.wish_times import only_bounds
from reme_core.types import Message

QUESTIONS: Final = ("wish", "fact")
"""What is asked of a message: does its author wish for something lasting, do they tell something of themselves?"""
HEED_FROM: Final = 0.75
"""The probability from which on a message is heeded though no chat model has read it."""
PART_FROM: Final = 0.6
"""The probability by itself from which on a sentence of a message that is heeded is a part of the wish."""
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

    Whether a chat model is believed of a short answer is judged by the answer with its question. Whether an answer is
    heeded without a chat model is judged by its own words alone: who answers "maybe later" or "no" does not wish what
    was proposed to them. Without the offline model nothing is heeded by itself, and a chat model is believed of
    messages that cite nothing.

    Args:
        messages: What people said.
        before: For each, the message that it may answer, or None; see `message_before`.
    """
    # Texts are read in a thread: the event loop has to serve others.
    texts = await asyncio.to_thread(
        lambda: [(text_to_judge(m, b), text_to_judge(m, None)) for m, b in zip(messages, before, strict=True)]
    )
    different = list(dict.fromkeys(chain.from_iterable(texts)))
    found = await chances(different, "voice")
    if found is None:
        bare = [float(own_words(message.content) == message.content) for message in messages]
        return [Voice(own * BELIEVE_FROM, own * BELIEVE_FROM) for own in bare]
    judged = dict(zip(different, found.tolist(), strict=True))
    heard: list[Voice] = []
    wishing: list[str] = []
    for message, (text, alone) in zip(messages, texts, strict=True):
        is_read = len(message.content) <= READ
        heard.append(Voice(*judged[text]) if is_read else Voice(0, 0))
        wishing.append(message.content if is_read and judged[alone][0] >= HEED_FROM else "")
    parts = await asyncio.to_thread(lambda: list(map(_parts, wishing)))
    found = await chances([own_words(part, QUOTATION) for part in chain.from_iterable(parts)], "voice")
    wishes = iter(found[:, 0] if found is not None else ())
    return [
        voice._replace(wishes=_choose_parts(own, [next(wishes) for _ in own]))
        for voice, own in zip(heard, parts, strict=True)
    ]


def _parts(text: str) -> list[str]:
    """The sentences of a text of which some words are its author's own, and that do not ask to forget something."""
    own = own_words(text)
    parts = [part for part in parts_of(text) if not topic_to_forget(part)]
    return [part for part in parts if (said := own_words(part).strip()) and said in own]


def _choose_parts(parts: Sequence[str], chances: Sequence[float]) -> tuple[str, ...]:
    """The parts that are wishes by themselves, else the likeliest; each with the time after it ("Until May.")."""
    if not parts:
        return ()
    least = min(PART_FROM, max(chances))
    found: list[str] = []
    for part, chance in zip(parts, chances, strict=True):
        if chance >= least or (found and only_bounds(part)):
            found.append(part)
    return tuple(found)
