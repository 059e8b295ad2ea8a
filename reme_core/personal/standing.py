"""Whose word makes something standing: a wish or a profile, which every conversation is shown, is the person's own.

A model can be fooled, so that it calls something one is not enough. One sentence of a person, in their own name, has to
say it: for a wish, one that tells the assistant something in so many words; for a profile, one about themselves.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from typing import Final

from reme_core.personal import grounding
from reme_core.text.commands import command_of
from reme_core.text.forgetting import parts_by_wish
from reme_core.text.voice import ONESELF, brings_in_others, own_sentences


def wishes_in(text: str) -> list[str]:
    """The sentences with which the author of a message tells the assistant what to remember or to do from now on.

    >>> wishes_in("My boss says: always use PDF. Nice day! From now on, answer in French.")
    ['From now on, answer in French.']
    """
    parts = chain.from_iterable(parts_by_wish(sentence) for sentence in own_sentences(text))
    found = [(part, command_of(part)) for part in parts]
    return [part for part, command in found if command and command.action in ("instruct", "remember")]


def told_of_oneself(text: str, asked: str) -> list[str]:
    """The sentences in which the author of a message tells of themselves, or answers a question about them.

    There are none in a message that brings in what others say or write: the "I" in it may be theirs.

    >>> told_of_oneself("I'm Ann. Bo came by.", ""), told_of_oneself("Leeds.", "Where do you live?")
    (["I'm Ann."], ['Leeds.'])
    """
    if brings_in_others(text):
        return []
    is_asked = bool(_YOU.search(asked))
    return [sentence for sentence in own_sentences(text) if is_asked or ONESELF.search(sentence)]


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
_YOU: Final = re.compile(r"\b(?:you|your|yours|u|ur)\b|[你您]", re.IGNORECASE)
