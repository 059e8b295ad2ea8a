"""What a query is searched by: a centred vector, the person's words, the names in it, and whose words it asks for."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from functools import lru_cache
from importlib.resources import files
from typing import Final

import numpy as np
import numpy.typing as npt

from reme_core.text.terms import language_of, terms

_ASSISTANTS: Final = frozenset({"assistant", "ai", "bot", "助手", "助理"})
# `<Ann>: "…"` or `Ann: …`, a line each; a word before `<Ann>` is an instruction (`recall <Ann>: …`).
_SPOKEN_LINE: Final = re.compile(
    r"^[^\w<\n]*(?:\w+[ \t]+)?<(?P<marked>[^<>\n]{1,40})>[ \t]*[:：]?(?P<said>.*)$"
    r"|^[ \t]*(?P<plain>[^\W\d][^\s:：]{0,30})[ \t]*[:：](?P<told>.*)$",
    re.MULTILINE,
)
# "did you recommend", "you said", "your advice"
_SPOKEN: Final = re.compile(
    r"\bdid you (?:\w+ )?(?:recommend|suggest|say|tell|advise|mention|explain|propose|give|list|write|answer)\b"
    r"|\byou (?:\w+ )?(?:recommended|suggested|said|told|advised|mentioned|explained|gave|listed|wrote|answered)\b"
    r"|\byour (?:advice|suggestions?|recommendations?|answers?|explanation)\b"
    r"|[你您].{0,6}?(?:推荐|建议|说|告诉|提到|解释|回答|给)(?:过|了|的)",
    re.I,
)
NAME: Final = r"(?<=[^\W.!?:\"'] )[A-Z][a-z]+"
"""A word with a capital that does not begin a sentence; in Chinese nothing tells a name."""
_NAME: Final = re.compile(NAME + r"|(?<=<)[A-Z][a-z]+(?=>)")  # and who speaks in a dialogue

# Read here and not at the first recall, since a loop that reads a file stands still.
AXES: Final[dict[str, npt.NDArray[np.float32]]] = {
    model: np.array(axis, np.float32)
    for model, axis in json.loads(files("reme_core.store").joinpath("centre.json").read_text(encoding="utf-8"))[
        "models"
    ].items()
}
"""By model, half of what its passages have in common; see `centre`."""


def centre(vector: npt.NDArray[np.float32], model: str) -> npt.NDArray[np.float32]:
    """The vector without a part of what all passages of its model have in common; of unit length.

    A small model puts all texts into a narrow cone, and passages near its axis are near to every query. Stored vectors
    stay as they are: with the axis taken from the query, they are ordered as if it were taken from them, too.
    `python -m benchmarks.fit_centre` makes the axis, and has figures. A model without one has its vectors as they are.
    """
    axis = AXES.get(model)
    if axis is None or len(axis) != len(vector):
        return vector
    moved = vector - axis
    return np.asarray(moved / max(float(np.linalg.norm(moved)), 1e-6), np.float32)


def persons_words(query: str) -> str:
    r"""Of a dialogue with an assistant what the people say, else the query as it is: it is they who are remembered.

    >>> persons_words('<Ann>: "My cat is ill."\n<Assistant>: "Oh no!"\n<Ann>: "She will not eat."')
    'Ann: My cat is ill. She will not eat.'
    >>> persons_words("Remember: buy milk")
    'Remember: buy milk'
    """
    said: dict[str, list[str]] = defaultdict(list)
    for line in _SPOKEN_LINE.finditer(query):
        words = line["said"] if line["marked"] else line["told"]
        said[(line["marked"] or line["plain"]).strip()].append(words.strip().strip('"“”').strip())
    people = {name: words for name, words in said.items() if name.casefold() not in _ASSISTANTS and any(words)}
    if not people or len(people) == len(said):
        return query
    return "\n".join(f"{name}: {' '.join(words)}" for name, words in people.items())


@lru_cache(maxsize=64)
def name_terms(query: str) -> list[str]:
    """The terms of the names in an English query; in other languages nothing, or too much, has a capital.

    >>> name_terms("What does Caroline paint?")
    ['carolin']
    """
    if language_of(query) != "en":
        return []
    return list(dict.fromkeys(term for name in _NAME.findall(query) for term in terms(name, "en")))


def asks_what_assistant_said(query: str) -> bool:
    """Whether a query asks for the words of the assistant that it is put to.

    >>> asks_what_assistant_said("Which film did you recommend?"), asks_what_assistant_said("Can you recommend a film?")
    (True, False)
    """
    return bool(_SPOKEN.search(query))
