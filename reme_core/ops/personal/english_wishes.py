"""Standing wishes about how to be answered, said in English: what holds from now on, and not for one answer only."""

# ruff: noqa: E501 -- a pattern reads better whole

from __future__ import annotations

import re
from typing import Final

from reme_core.ops.personal.claims import Claim
from reme_core.text.terms import terms


def wishes(sentence: str, person: str = "") -> list[Claim]:
    """Standing wishes about how to be answered; those may come as a question ("Could you always …?")."""
    who = person or "The user"
    text = sentence.strip().strip('"“”')
    if not _STANDING.search(text) or not _WISH.match(text):
        return []
    ended = bool(_WISH_ENDS.search(text))
    if match := _IN_LANGUAGE.search(text):
        slot, value = "answer_language", match[1]
    elif match := _LENGTH.search(text):
        slot, value = "answer_length", "short" if _SHORT.search(match[0]) else "long"
    elif match := re.search(r"\b(metric|imperial|celsius|fahrenheit)\b", text, re.I):
        slot, value = "units", match[1].lower()
    else:
        # "Don't use emojis any more" is a wish, and not the end of one.
        slot, value, ended = "instruction", " ".join(terms(text)), False
    return [Claim(f'{who} asks: "{text.rstrip(".!")}"', text, slot, value, holds=not ended)]


_STANDING: Final = re.compile(
    r"\b(?:stop \w+ing|no need to|always|never|from now on|in (?:the )?future|every time|by default|whenever|any ?more|at all times|each time"
    r"|going forward|again|for all (?:your )?answers|I(?:'d)? (?:prefer|like) (?:short|brief|concise|long|detailed|your answers|you to))",
    re.IGNORECASE,
)
_WISH: Final = re.compile(
    r"(?:(?:hi|hello|hey|ok(?:ay)?|and|also|oh|so|thanks|but|by the way|btw)\W+)*"
    r"(?:(?:please|kindly|could you|can you|would you|will you|from now on|in (?:the )?future|going forward|by default|you can"
    r"|you may|I(?:'d| would) (?:like|prefer) (?:you to|it if you)|I (?:want|need|prefer) you to|for all (?:your )?answers)\b[,:]? *)*"
    r"(?:(?:always|never|only|don't ever|do not ever|don't|do not|stop|whenever [\w ]+,|every time [\w ]+,|please|again)\s+)*"
    r"(?:no need to )?(?:answer|reply|respond|use|write|speak|talk|address|keep|give|include|mention|suggest|recommend|explain|start|end|translate"
    r"|format|remind|show|add|send|be|avoid|go back to|switch|call me|answering|replying|responding|using|writing|speaking"
    r"|I(?:'d)? (?:prefer|like) (?:short|brief|concise|long|detailed|your answers))\b",
    re.IGNORECASE,
)
_WISH_ENDS: Final = re.compile(
    r"\b(?:stop|no need to|don't need to|(?:don't|do not|needn't) .{3,40}any ?more)\b", re.IGNORECASE
)
_IN_LANGUAGE: Final = re.compile(
    r"\b(?:answer|reply|respond|write|speak|talk|answers|replies|answering|replying|responding|writing|speaking|back|switch)\b"
    r"[\w ]{0,20}?\b(?:in|to) ((?!The\b)[A-Z][a-z]+)\b"
)
_SHORT: Final = re.compile(r"\b(?:short|brief|concise|one sentence|bullet)", re.IGNORECASE)
_LENGTH: Final = re.compile(
    r"\b(?:(?:short|brief|concise|long|detailed|thorough)(?:er)? (?:answers?|repl(?:y|ies)|responses?|explanations?)"
    r"|(?:keep|make)\b.{0,30}\b(?:short|brief|concise|long|detailed)|be (?:brief|concise|detailed)|in one sentence)",
    re.IGNORECASE,
)
