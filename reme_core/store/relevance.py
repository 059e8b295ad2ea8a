"""How likely it is that anything stored is about a query, and that a hit answers it: chances from 0 to 1.

Recall ranks whatever there is, also for a query about nothing ("thanks!", "is 7919 prime?"). So a logistic regression
judges first the query: how far its nearest candidate stands out, how much of its words is known, and, among what people
said, what it is by itself (`query_traits`, and its vector). A second one judges each hit, in the light of the first.
`python -m benchmarks.fit_relevance` fits the coefficients (relevance.json) and measures them.

They are fitted for each embedding model, since cosines of one mean nothing for another. For a model that they were not
fitted on, similarities count in deviations from the candidates' own mean, and the query's vector does not count.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from reme_core.text.query_traits import query_traits
from reme_core.text.timex import AskedTime
from reme_core.types import TASK_KINDS, TOOL_KINDS

# Of few candidates the nearest stands out by chance; so many typical ones are counted in, from which it stands out by
# as many deviations as among 30 drawn at random (both rounded from what the sets of benchmarks/fit_relevance.py show).
_PRIOR_CANDIDATES, _PRIOR_DEVIATIONS = 30, 2.4
_LEAST_DEVIATION = 1e-3
# Whoever asks what was said at a time is answered by what was said then, whatever it is about (TMD: NDCG@10 .96).
_SAID_THEN = 0.95
_MEETS = 1.0  # half of `TIME_WEIGHTS`: said then, or less than a day away
_MOST_IMPACT = 2.2  # K1 + 1, of which BM25 stays below


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of which workspace, with the vector of the question and the model that made it."""

    workspace: str
    text: str
    vector: npt.NDArray[np.float32] | None
    """None where the model failed: then words alone answer."""
    model: str
    limit: int
    degraded: str = ""
    """Why there is no vector."""
    time: AskedTime | None = None
    """The time that it asks about."""


class Match(NamedTuple):
    """One that was found: the parts of its rank, its BM25 score, the idf of the terms that it has, and the memory.

    `alike` is how many of what was found say the same, itself included.
    """

    parts: dict[str, Any]
    score: float
    covered: float
    memory: dict[str, Any]
    alike: int = 1


class Background(NamedTuple):
    """What the candidates of a query are like together, and what of the query the workspace knows at all."""

    candidates: float
    mean: float
    deviation: float
    nearest: float
    widest: float
    """The most idf of the query's terms that one candidate has."""
    known_terms: float
    known_idf: float
    documents: float
    speaker: float
    """1 if the query names the author of a candidate."""


NOTHING: Final = Background(0, 0, 0, 0, 0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Found:
    """What a recall found, best first, among which candidates, and how many terms it looked up."""

    matches: Sequence[Match]
    background: Background
    terms: int

    @property
    def family(self) -> str:
        """`task` where experience was found, else `talk`: what people said, and memories of it."""
        kind = self.matches[0].memory["kind"]
        return "task" if kind in (*TASK_KINDS, *TOOL_KINDS) else "talk"

    @property
    def whole_idf(self) -> float:
        """The idf of all terms of the query; one that is unknown has as much as a term can have."""
        b = self.background
        return b.known_idf + max(0, self.terms - b.known_terms) * math.log(1 + (b.documents + 0.5) / 0.5) or 1.0


def judge(question: Question, found: Found) -> tuple[float, list[float]]:
    """The chance that anything found is about the question, and for each match the chance that it answers it.

    A match's chance is never above that of the whole. Where the query asks what was said at a time, something said then
    answers it. Where a match has no vector (yet), nothing tells what it means:
    then the share of the query's words that it has, by their idf, stands in for its chance, and bears the whole.
    """
    if not found.matches:
        return 0.0, []
    weights = _weights(question.model)
    of_query = weights["query"][found.family]
    logit = _logit(of_query["signs"], query_signs(question.text, found))
    if of_query["vector"] is not None and question.vector is not None:
        logit += float(question.vector @ of_query["vector"])
    whole = _chance(logit)
    of_hits: list[float] = []
    for match, signs in zip(found.matches, hit_signs(found, logit), strict=True):
        if match.parts["similarity"] is None:
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
    """What tells whether anything found is about a query, by name."""
    b, whole = found.background, found.whole_idf
    deviations = (b.nearest - b.mean) / max(b.deviation, _LEAST_DEVIATION)
    counted = b.candidates + _PRIOR_CANDIDATES
    signs = {
        "nearest": b.nearest,
        "margin": b.nearest - b.mean,
        "deviations": (b.candidates * deviations + _PRIOR_CANDIDATES * _PRIOR_DEVIATIONS) / counted,
        "covered": b.widest / whole,
        "known": b.known_terms / max(found.terms, 1),
        "terms": math.log1p(found.terms),
        "documents": math.log1p(b.documents),
    }
    if found.family == "task":
        return signs
    said = found.matches[0].memory["kind"] == "conversation"
    short = float(found.terms <= 2)
    return signs | query_traits(query) | {"memory": float(not said), "speaker": b.speaker, "short": short}


def hit_signs(found: Found, logit: float) -> list[dict[str, float]]:
    """What tells whether a match answers the query, by name; `logit` is that of the query."""
    b, whole = found.background, found.whole_idf
    deviation = max(b.deviation, _LEAST_DEVIATION)
    top = found.matches[0].parts["final"]
    task = float(found.family == "task")
    signs = []
    for rank, match in enumerate(found.matches, 1):
        similarity = match.parts["similarity"]
        near = b.mean if similarity is None else similarity
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
    return 1 / (1 + math.exp(-max(-30.0, min(logit, 30.0))))


@cache
def _weights(model: str) -> Any:
    known = json.loads(files("reme_core.store").joinpath("relevance.json").read_text(encoding="utf-8"))["models"]
    weights = known.get(model) or known["other"]
    for of_query in weights["query"].values():
        of_query["vector"] = np.array(of_query["vector"], np.float32) if "vector" in of_query else None
    return weights
