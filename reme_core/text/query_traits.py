"""What the words of a query tell, whatever is stored: whether it is a question, and whom it is about."""

from __future__ import annotations

import re
from typing import Final

from reme_core.text.terms import language_of

_PATTERNS: Final = {
    "first": re.compile(r"\b(?:i|i'?m|i'?ve|i'?d|i'?ll|me|my|mine|myself|we|we'?re|us|our|ours)\b|[我咱俺]", re.I),
    "second": re.compile(r"\b(?:you|your|yours|u|ur)\b|[你您]", re.I),
    "third": re.compile(r"\b(?:he|she|they|him|her|his|hers|their|theirs|them)\b|[他她]", re.I),
    "asks": re.compile(
        r"[?？]\s*$|\b(?:what(?:'?s)?|when|where|who(?:'?s)?|whom|whose|which|why|how|did|does|do|is|are|was|were)\b"
        r"|什么|哪|谁|怎|多少|几|吗|呢|啥|何",
        re.I,
    ),
    # A word with a capital that does not begin a sentence; in Chinese nothing tells a name.
    "name": re.compile(r"(?<=[^\W.!?:\"'] )[A-Z][a-z]+"),
}
# A question mark, or "I", "my", "we" in other languages.
_OTHERS: Final = re.compile(
    r"[?？؟]\s*$|\b(?:ich|mich|mir|mein\w*|wir|uns\w*|je|j'|moi|mon|ma|mes|nous|yo|me|mi|mis|nosotros|io|mio|mia|noi|eu"
    r"|meu|minha|nós|ik|mij|mijn|wij|jag|mig|min|mitt|я|меня|мне|мой|моя|моё|мои|мы|нас|私|僕|俺|わたし|ぼく|나|내|저|제)\b",
    re.I,
)
# "did you recommend", "you said", "your advice"
_SPOKEN: Final = re.compile(
    r"\bdid you (?:\w+ )?(?:recommend|suggest|say|tell|advise|mention|explain|propose|give|list|write|answer)\b"
    r"|\byou (?:\w+ )?(?:recommended|suggested|said|told|advised|mentioned|explained|gave|listed|wrote|answered)\b"
    r"|\byour (?:advice|suggestions?|recommendations?|answers?|explanation)\b"
    r"|[你您].{0,6}?(?:推荐|建议|说|告诉|提到|解释|回答|给)(?:过|了|的)",
    re.I,
)


def asks_what_assistant_said(query: str) -> bool:
    """Whether a query asks for the words of the assistant that it is put to.

    >>> asks_what_assistant_said("Which film did you recommend?"), asks_what_assistant_said("Can you recommend a film?")
    (True, False)
    """
    return bool(_SPOKEN.search(query))


def query_traits(query: str) -> dict[str, float]:
    """Whether a query names the first, second or third person, asks, and has a name in it: each 1 or 0.

    Only English and Chinese are told apart so finely.

    >>> query_traits("What does my sister Ann eat?")
    {'first': 1.0, 'second': 0.0, 'third': 0.0, 'asks': 1.0, 'name': 1.0}
    """
    plain = query.replace("’", "'")
    if language_of(plain) not in ("en", "zh"):
        # Taken for a question in the first person, which recall is least ready to leave unanswered.
        own = float(bool(_OTHERS.search(plain)))
        return dict.fromkeys(_PATTERNS, 0.0) | {"first": own, "asks": own}
    return {name: float(bool(pattern.search(plain))) for name, pattern in _PATTERNS.items()}
