"""Whose word makes something standing: a wish or a profile, which every conversation is shown, is the person's own.

A model can be fooled, so that it calls something one is not enough. One sentence of a person, in their own name, has to
say it: for a wish, one that tells the assistant something in so many words; for a profile, one about themselves. These
sentences are found by `text.commands.wishes_in` and `text.voice.told_of_oneself`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from reme_core.personal import grounding
from reme_core.text.commands import wishes_in


def nearest_to(statement: str, said: Sequence[str]) -> str:
    """Of some sentences the one that has most of a statement's words; empty where none has some.

    What tells the assistant something is near enough anyway: it is a wish, if not the one that the model made of it.
    """
    best = max(said, key=lambda sentence: grounding.share(statement, sentence, statement), default="")
    return best if wishes_in(best) or grounding.share(statement, best, statement) > _SOME else ""


def is_said(statement: str, said: Sequence[str], heard: str) -> bool:
    """Whether one sentence has most of the words of a statement that were heard at all.

    Of the words of several sentences almost anything can be put together. Words of the model's own count neither way.
    """
    return any(grounding.share(statement, sentence, heard) > _MOST for sentence in said)


_MOST: Final = 1 / 2
_SOME: Final = 1 / 4
