"""Relevance: the chances, 0 to 1, that anything stored is about a query, and that a hit answers it.

Recall ranks what is stored, also for a query about nothing stored ("thanks!", "is 7919 prime?"). So a logistic
regression judges the query: how far its nearest candidate stands out, how many of its words are known, and, among
what people said, the query itself (`query_traits`, and its vector). Where it is but a few words, another one judges
its vector and the result of the first: keywords are told from "go on". Each hit is judged by a last one, in which the
result counts. The coefficients (relevance.json) are fitted and measured by `python -m benchmarks.fit_relevance`.

They are fitted for each embedding model, since cosines of two models cannot be compared. For a model without
coefficients of its own, similarities count in deviations from the candidates' mean, and the query's vector does not
count.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter

from reme_core.store.filters import Filters
from reme_core.store.query import NAME
from reme_core.text.terms import language_of
from reme_core.text.timex import AskedTime
from reme_core.types import TASK_KINDS, TOOL_KINDS, Hit

# Among few candidates the nearest one stands out by chance. So 30 typical candidates are counted in, among which the
# nearest stands out by 2.4 deviations. Both are rounded from what the sets of benchmarks/fit_relevance.py show.
_PRIOR_CANDIDATES, _PRIOR_DEVIATIONS = 30, 2.4
_LEAST_DEVIATION = 1e-3  # keeps the quotient finite where all candidates are as near
# A query that asks what was said at a time is answered by anything said then (TMD: NDCG@10 .96).
_SAID_THEN = 0.95
_MEETS = 1.0  # half of the `time_weight` of what was said then: less has what was said before or after that time
_SHORT = 3  # words
_MOST_IMPACT = 2.2  # K1 + 1: the BM25 weight of a term stays below it, without its idf

# What a turn shows from: with it few queries about nothing bring something. With a model that relevance was not fitted
# for, .4 would cost .068 of the people's recall@10 (docs/retrieval.md), and .2 costs .029.
_FITTED_THRESHOLD, _OTHER_THRESHOLD = 0.4, 0.2

_PATTERNS: Final = {
    "first": re.compile(r"\b(?:i|i'?m|i'?ve|i'?d|i'?ll|me|my|mine|myself|we|we'?re|us|our|ours)\b|[我咱俺]", re.I),
    "second": re.compile(r"\b(?:you|your|yours|u|ur)\b|[你您]", re.I),
    "third": re.compile(r"\b(?:he|she|they|him|her|his|hers|their|theirs|them)\b|[他她]", re.I),
    "asks": re.compile(
        r"[?？]\s*$|\b(?:what(?:'?s)?|when|where|who(?:'?s)?|whom|whose|which|why|how|did|does|do|is|are|was|were)\b"
        r"|什么|哪|谁|怎|多少|几|吗|呢|啥|何",
        re.I,
    ),
    "name": re.compile(NAME),
}
# A question mark, or "I", "my", "we" in other languages.
_OTHERS: Final = re.compile(
    r"[?？؟]\s*$|\b(?:ich|mich|mir|mein\w*|wir|uns\w*|je|j'|moi|mon|ma|mes|nous|yo|me|mi|mis|nosotros|io|mio|mia|noi|eu"
    r"|meu|minha|nós|ik|mij|mijn|wij|jag|mig|min|mitt|я|меня|мне|мой|моя|моё|мои|мы|нас|私|僕|俺|わたし|ぼく|나|내|저|제)\b",
    re.I,
)


_WORDS: Final = re.compile(r"[一-鿿]|[^\W_一-鿿]+(?:'[a-z]+)?")


@dataclass(frozen=True, slots=True)
class Question:
    """A query to a workspace, with its vector and the model that made the vector."""

    workspace: str
    text: str
    vector: npt.NDArray[np.float32] | None
    """None if the model failed: then words alone find memories."""
    model: str
    limit: int
    filters: Filters = field(default_factory=Filters)
    """What may answer it: memories or messages."""
    degraded: str = ""
    """Why there is no vector."""
    time: AskedTime | None = None
    """The time that the query asks about."""
    ef_search: int = 0
    """How many candidates a search of the HNSW index keeps; 0 if the workspace's vectors are not in it."""


class Match(NamedTuple):
    """A memory or message that was found, with the parts of its rank and its BM25 score.

    `covered` is the idf of the query's terms that it has, and `alike` how many matches say the same, itself included.
    """

    parts: dict[str, Any]
    score: float
    covered: float
    memory: dict[str, Any]
    alike: int = 1


class Background(NamedTuple):
    """Figures of all candidates of a query together, and of the query's terms that the workspace knows."""

    candidates: float
    mean: float
    deviation: float
    nearest: float
    widest: float
    """The largest `Match.covered` of all candidates."""
    known_terms: float
    known_idf: float
    documents: float
    most_near: float
    """The largest inner product with the centred query (`store/query.py`), and the mean of all."""
    mean_near: float
    speaker: float
    """1 if the query names the author of a candidate."""


_HITS: Final = TypeAdapter(list[Hit])
NOTHING: Final = Background(*[0.0] * 11)


@dataclass(frozen=True, slots=True)
class Found:
    """The matches of a recall, best first, with their background, and how many terms were looked up."""

    matches: Sequence[Match]
    background: Background
    terms: int

    @property
    def family(self) -> str:
        """`task` for experience, else `talk`: messages, and memories made of them."""
        kind = self.matches[0].memory["kind"]
        return "task" if kind in (*TASK_KINDS, *TOOL_KINDS) else "talk"

    @property
    def whole_idf(self) -> float:
        """The idf of all terms of the query; an unknown term has the highest idf that a term can have."""
        unknown = max(0, self.terms - self.background.known_terms)
        highest = math.log(1 + (self.background.documents + 0.5) / 0.5)
        # Of a query without terms it is 1 and not 0: others divide by it.
        return self.background.known_idf + unknown * highest or 1.0


def judged_hits(question: Question, found: Found) -> tuple[float, list[Hit]]:
    """The chance that anything found is about the question, and what was found as hits, with their chances."""
    relevance, chances = judge(question, found)
    whole = found.whole_idf
    # All hits are validated in one call, which takes two thirds of the time of one call for each.
    return relevance, _HITS.validate_python(
        [
            {
                "rank": rank,
                "memory": match.memory,
                "parts": match.parts | {"covered": match.covered / whole},
                "relevance": chance,
                "alike": match.alike,
            }
            for rank, (match, chance) in enumerate(zip(found.matches, chances, strict=True), 1)
        ]
    )


def judge(question: Question, found: Found) -> tuple[float, list[float]]:
    """The chance that anything found is about the question, and for each match the chance that it answers the question.

    The chance of a match is never above that of the whole.
    """
    if not found.matches:
        return 0.0, []
    weights = _FITTED.get(question.model) or _FITTED["other"]
    of_query = weights["query"][found.family]
    logit = _logit(of_query["signs"], query_signs(question.text, found))
    if question.vector is not None and "vector" in of_query:
        logit += float(question.vector @ of_query["vector"])
        if is_short(question.text):
            of_short = of_query["short"]
            logit = _logit(of_short["signs"], {"query": logit}) + float(question.vector @ of_short["vector"])
    whole = _chance(logit)
    of_hits: list[float] = []
    for match, signs in zip(found.matches, hit_signs(found, logit), strict=True):
        # A message may still wait for its vector. Its chance is then the share of the query's words that it has.
        if match.parts["similarity"] is None:
            # The chance that anything fits is at least that of one match.
            of_hits.append(match.covered / found.whole_idf)
            whole = max(whole, of_hits[-1])
        else:
            of_hits.append(_chance(_logit(weights["hit"], signs)))
    if question.time and question.time.of_talk and any(_was_said_then(match) for match in found.matches):
        whole = max(whole, _SAID_THEN)
    return whole, [min(whole, own) for own in of_hits]


def _was_said_then(match: Match) -> bool:
    return bool(match.memory["kind"] == "conversation" and match.parts["time"] >= _MEETS)


def query_signs(query: str, found: Found) -> dict[str, float]:
    """The signs by which a query is judged, by name."""
    b, whole = found.background, found.whole_idf
    deviations = (b.nearest - b.mean) / max(b.deviation, _LEAST_DEVIATION)
    counted = b.candidates + _PRIOR_CANDIDATES
    signs = {
        "nearest": b.nearest,
        "margin": b.nearest - b.mean,
        "most near": b.most_near,
        "nearer": b.most_near - b.mean_near,
        "deviations": (b.candidates * deviations + _PRIOR_CANDIDATES * _PRIOR_DEVIATIONS) / counted,
        "covered": b.widest / whole,
        "known": b.known_terms / max(found.terms, 1),
        "terms": math.log1p(found.terms),
        "documents": math.log1p(b.documents),
    }
    if found.family == "task":
        return signs
    said = found.matches[0].memory["kind"] == "conversation"
    # Keywords ("dentist", "dog name") ask as little as small talk does, but their words are there.
    short = float(found.terms <= 2)
    of_keywords = {"short": short, "short covered": short * signs["covered"]}
    return signs | query_traits(query) | {"memory": float(not said), "speaker": b.speaker} | of_keywords


def hit_signs(found: Found, logit: float) -> list[dict[str, float]]:
    """The signs by which each match is judged, by name; `logit` is that of the query."""
    b, whole = found.background, found.whole_idf
    deviation = max(b.deviation, _LEAST_DEVIATION)
    top = found.matches[0].parts["final"]
    task = float(found.family == "task")
    signs = []
    for rank, match in enumerate(found.matches, 1):
        similarity = match.parts["similarity"]
        near = b.mean if similarity is None else similarity  # without a vector, a match counts as a typical candidate
        signs.append(
            {
                "query": logit,
                "deviations": (near - b.mean) / deviation,
                "gap": (near - b.nearest) / deviation,
                "words": match.score / (_MOST_IMPACT * whole),
                "covered": match.covered / whole,
                "rank": math.log(rank),
                "behind": top - match.parts["final"],
                "documents": math.log1p(b.documents),
                "memory": float(match.memory["kind"] != "conversation"),
                "task": task,
            }
        )
    return signs


def _logit(weights: Mapping[str, float], signs: Mapping[str, float]) -> float:
    return weights["constant"] + sum(weights.get(name, 0.0) * value for name, value in signs.items())


def _chance(logit: float) -> float:
    # Beyond 30 the chance is 0 or 1 anyway, and `exp` of a very large number is an error.
    return 1 / (1 + math.exp(-max(-30.0, min(logit, 30.0))))


def is_short(query: str) -> bool:
    """Whether a query has three words at most, as keywords and "go on" have; two Chinese characters count as a word.

    >>> is_short("go on"), is_short("driving test date"), is_short("再来一个"), is_short("Where do I live?")
    (True, True, True, False)
    """
    words: list[str] = _WORDS.findall(query)
    return len(words) - sum("一" <= word <= "鿿" for word in words) / 2 <= _SHORT


def turn_threshold(model: str) -> float:
    """The chance below which a turn shows nothing, where its vectors are this model's and nothing else was chosen."""
    return _FITTED_THRESHOLD if model in _FITTED else _OTHER_THRESHOLD


def _read_coefficients() -> Any:
    known = json.loads(files("reme_core.store").joinpath("relevance.json").read_text(encoding="utf-8"))["models"]
    for of_query in [of_query for weights in known.values() for of_query in weights["query"].values()]:
        for weights in (of_query, of_query.get("short", {})):
            if "vector" in weights:
                weights["vector"] = np.array(weights["vector"], np.float32)
    return known


_FITTED: Final = _read_coefficients()  # here and not at the first recall, since a loop that reads a file stands still


@lru_cache(maxsize=64)  # a turn asks for memories and for messages with the same words
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
