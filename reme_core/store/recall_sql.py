"""The statement of a recall, put together from the fragments of sql/recall.sql, and the matches that it gives.

Two legs look for candidates: the nearest vectors, and BM25 over the postings. Each candidate gets both scores. The
scores of each leg are scaled to 0…1 and mixed: `share * vector + (1 - share) * lexical`. Bruch, Gai & Ingber, "An
Analysis of Fusion Functions for Hybrid Retrieval" (2023), find this convex mix better than reciprocal ranks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from numbers import Real
from string import Template
from typing import Any, Literal

from pgvector import HalfVector
from psycopg.types.range import TimestamptzRange

from reme_core.errors import InputError
from reme_core.postgres.database import Database
from reme_core.settings import VectorShares
from reme_core.store import rows
from reme_core.store.filters import Filters
from reme_core.store.index.hnsw import EF_SEARCH
from reme_core.store.index.postings import Corpus
from reme_core.store.query import asks_what_assistant_said, centre, name_terms
from reme_core.store.relevance import NOTHING, Background, Found, Match, Question
from reme_core.store.sql import load
from reme_core.text.terms import terms
from reme_core.text.timex import AskedTime
from reme_core.types import SCOPES, Kind, kinds_of

WEIGHTS = {
    # Factor for the words of a memory that are names in the query: they say whom it is about.
    "name_weight": 3.0,
    # What counts of a message's words: its BM25 score, and the share of the query's words that it has, by their idf.
    "lexical_weight": 0.5, "covered_weight": 1.2,
    # A query's words count half if they tell as much as so many that nobody said; those of a broad query tell less.
    "telling_words": 2.8,
    # What counts for a message: its session fits, the query names its speaker, the user said it.
    "session_weight": 0.25, "speaker_weight": 0.3, "role_weight": 0.3,
    # What counts against a message that ends with a question or is but a short one, and for one that has a name in it.
    "question_malus": 0.05, "bare_question_malus": 0.3, "naming_bonus": 0.08,
}  # fmt: skip
# By what a query about a time asks: what is added to the score of a message from that time (`time_weight`), the seconds
# before or after it at which 1/e of that is left (`told_within`), and how many of these are added however near it is
# (`beside`): what was said at 00:10 today was not said yesterday.
_TIME_WEIGHTS = {
    "conversation": {"time_weight": 2.0, "told_within": 0.001, "beside": 0.0},
    "said": {"time_weight": 2.0, "told_within": 86_400.0, "beside": 86_400.0},
    "happened": {"time_weight": 0.4, "told_within": 7 * 86_400.0, "beside": 0.0},
}
_TIME_FACTOR = 2.0  # for a memory whose time meets the time asked about, as in MemoryScope

# Candidates of each leg. Each lexical candidate costs a look-up of its vector. On LoCoMo, 50 instead of 100 lose .002,
# and more than 100 gain nothing.
_DEPTHS = {"memory": 50, "message": 100}
# So many terms of a query are looked up, and the rarest of them count. Longer queries are pasted pages, whose common
# words say least.
_READ_TERMS, _COUNTED_TERMS = 512, 128
_MOST_THEN = 5_000  # messages from one range of time that are compared with the query

# If so few documents pass the filters of a recall in a large workspace, their vectors are looked up one by one, in some
# milliseconds. A search of the index would look at up to 20,000 others for them.
_FEW = 1_000

# Of a corpus of n documents, 40 √n postings are read, and the scores of a twentieth as many documents are completed.
# On texts by Zipf's law this gives all of BM25's first ten at 10,000 documents, and .98 of them at 100,000.
_POSTINGS_BY_ROOT, _FEWEST_POSTINGS, _COMPLETED_SHARE = 40, 2_048, 0.05

# Planning takes as long as running the statement. The text has all that the planner needs, so one plan serves for all.
# It is made for the average workspace. If that is large, it would start processes for a recall in a small one too. This
# takes five times as long.
_SETTINGS = {"plan_cache_mode": "force_generic_plan", "max_parallel_workers_per_gather": "0"}
# This one plan is made for the average workspace, which may be so small that scanning and sorting it is cheaper than
# the index. Without sorting, only the index gives the nearest vectors in order.
_INDEX_SETTINGS = _SETTINGS | {"hnsw.iterative_scan": "relaxed_order", "enable_sort": "off"}

Fusion = Literal["convex", "rrf"]

_LARGEST_WEIGHT = 1e6  # puts a kind before all others; Postgres cannot multiply by far larger numbers

_SQL = load("recall.sql")


@dataclass(frozen=True, slots=True)
class Plan:
    """How to find what passes the filters, and how to rank it.

    Raises:
        InputError: There is no kind of which the weight is given, or it is beyond what Postgres can multiply.
    """

    fusion: Fusion | None = None
    """How to mix the two legs; None leaves it to the settings."""
    type_weights: Mapping[str, float] = field(default_factory=dict)
    """Factors for kinds; a kind that is not named has 1."""
    shares: VectorShares = field(default_factory=VectorShares)
    """The share of the vector leg, by family of kinds."""
    hnsw_dimensions: int | None = None
    """Width of the vectors if the HNSW index is used; with None, all vectors are scanned."""
    every_posting: bool = True
    """Read all postings of the query's terms, which is cheapest in a small workspace. Else only the postings that can
    add most to a score are read, and then the scores of the best documents are completed. And where few documents pass
    the filters, these alone are looked at."""

    def __post_init__(self) -> None:
        for kind, weight in self.type_weights.items():
            if kind not in list(Kind):
                raise InputError(f"there is no kind '{kind}' to weigh; known are {', '.join(Kind)}")
            if not isinstance(weight, Real) or weight is True or not 0 <= weight <= _LARGEST_WEIGHT:
                raise InputError(
                    f"the weight of kind '{kind}' is a number between 0 and {_LARGEST_WEIGHT:,.0f}, not {weight!r:.60}"
                )


async def find(database: Database, question: Question, plan: Plan) -> Found:
    """The best memories, or messages if the filters ask for these; from an index there may be too few."""
    statement, values = prepare(question, plan)
    settings = _SETTINGS
    if plan.hnsw_dimensions:
        settings = _INDEX_SETTINGS | {"hnsw.ef_search": str(question.ef_search or EF_SEARCH)}
    answer = await database.fetch(question.workspace, statement, values, settings=settings)
    values_of = _message_values if question.filters.of_messages else rows.memory_values
    # A row has the parts of its rank, two signs of its own, those of the background, the speaker, and the memory.
    own, all_signs = len(_PARTS), len(_PARTS) + len(_SIGNS) + 1
    matches = [
        Match(
            dict(zip(_PARTS, row, strict=False)), row[own], row[own + 1], values_of(question.workspace, row[all_signs:])
        )
        for row in answer
    ]
    background = Background(*(float(number or 0) for number in answer[0][own + 2 : all_signs])) if answer else NOTHING
    return Found(matches, background, min(len(values["terms"]), _COUNTED_TERMS))


def prepare(question: Question, plan: Plan) -> tuple[str, dict[str, Any]]:
    """The statement that answers a question, and its values."""
    filters = question.filters
    corpus: Corpus = "message" if filters.of_messages else "memory"
    # Without other filters than kinds, a look at each memory's own row can be spared.
    on_row = filters.on_message() if corpus == "message" else filters.on_memory() if filters.beyond_kind else []
    on_vector = _vector_conditions(filters, corpus)
    on_match = on_vector if corpus == "memory" else [_NOT_FORGOTTEN.format("matched")]
    values = _values(question, plan, corpus)
    # Rounded up to a power of two: so only few different texts are made and prepared.
    depth = max(_DEPTHS[corpus], 1 << (question.limit - 1).bit_length())
    near = on_vector if plan.every_posting else [*on_vector, "not (select are_few from known_few)"]
    if question.vector is None:
        near = ["false"]  # the vector leg finds nothing
    row_of = {f"row_of_{of}": _compose(("row_by_key",), corpus=corpus, of=of) for of in ("e", "s", "matched", "best")}
    its_row = "its_row_by_key" if plan.hnsw_dimensions else "its_row"
    on_passing: list[str] = []
    if not plan.every_posting:
        of_messages = [*filters.on_message(), _NOT_FORGOTTEN.format("m")]
        on_passing = of_messages if corpus == "message" else filters.on_memory()
        # By these the planner knows that it may use the indexes of those who have a name.
        on_passing += [f"m.{name} <> ''" for name in ("author", *SCOPES) if getattr(filters, name)]
    statement = "with " + _compose(
        _fragments(question, plan, corpus, has_own_row=bool(on_row)),
        corpus=corpus,
        # The index is for one model (it is partial), and the planner uses it only where the model is a literal.
        model=_literal(question.model),
        width=f"({plan.hnsw_dimensions})" if plan.hnsw_dimensions else "",
        # The planner should know these numbers, so they stand in the text.
        depth=depth,
        fewest_postings=_FEWEST_POSTINGS,
        postings_by_root=_POSTINGS_BY_ROOT,
        completed_share=_COMPLETED_SHARE,
        most_terms=_COUNTED_TERMS,
        by_score=_compose(("by_score" if plan.every_posting else "by_completed_score",), first=4 * depth),
        shares=" ".join(
            f"when kind = '{kind}' then {share}::float8" for family, share in plan.shares for kind in _FAMILIES[family]
        ),
        type=_TYPE if plan.type_weights else "1",
        scored="matched" if plan.every_posting else "completed",
        session_times=_session_times(question),
        weight=_NAMED if corpus == "memory" else "1",
        time=_SQL["time_bonus"] if question.time else "0",
        near="near" if question.time and corpus == "message" else "vector_leg",
        segment="p.documents, p.impacts" if plan.every_posting else "p.ctid as segment, p.best_impact",
        few=_FEW,
        on_passing=" and ".join(on_passing) or "true",
        its_row=_compose((its_row,), corpus=corpus, on_row=" and ".join(on_row), **row_of) if on_row else "",
        **row_of,
        on_row=" and ".join(on_row) or "true",
        on_vector=" and ".join([*near, "e.hnsw"] if plan.hnsw_dimensions else near),
        on_unindexed=" and ".join(near),
        on_match=" and ".join(on_match),
        signs=", ".join(_SIGNS),
        columns=_COLUMNS[corpus],
    )
    return statement, values


def _vector_conditions(filters: Filters, corpus: Corpus) -> list[str]:
    """Conditions on the row `e` of a vector."""
    if corpus == "message":
        return ["e.kind = 'conversation'", _NOT_FORGOTTEN.format("e")]
    if filters.beyond_kind:  # then `on_row` has the conditions on kind and status
        return ["e.kind <> 'conversation'"]
    return ["e.active", "e.kind = any(%(kinds)s)" if filters.kinds else "e.kind <> 'conversation'"]


def _session_times(question: Question) -> str:
    if question.time is None or not question.time.sessions:
        return ""
    # "Our last chat" is the last of whoever asks, and not of others in the workspace.
    return _compose(("session_times",), of_whom=" and ".join(question.filters.on_conversation()) or "true")


def _fragments(question: Question, plan: Plan, corpus: Corpus, *, has_own_row: bool) -> tuple[str, ...]:
    legs = ["vector_leg"]
    if not plan.every_posting:
        narrows = has_own_row or (corpus == "memory" and question.filters.kinds)
        legs = ["passing" if narrows else "all_pass", "vector_leg"]
        legs += ["looked_up"] if narrows and question.vector is not None else []
    legs += ["unindexed", "nearest"] if plan.hnsw_dimensions else ["nearest"]
    if question.time:
        legs.append("asked_time")
        if corpus == "message":
            legs.append("time_leg")
    legs += ["held", "asked", "matched_whole" if plan.every_posting else "matched", "lexical_leg"]
    legs += [*(["own_row"] if has_own_row else []), "deepest", "candidate", "background", plan.fusion or "convex"]
    if corpus == "message":
        return ("forgotten", *legs, "said", "judged", "beside_best", "present", "in_order")
    ranked = "ranked_by_time" if question.time else "ranked"
    return (*legs, ranked, "best", "beside_best", "past" if question.filters.as_of else "present", "in_order")


@lru_cache(maxsize=256)
def _compose(fragments: Sequence[str], **marks: str | float) -> str:
    return Template("\n".join(_SQL[name] for name in fragments)).substitute(marks)


def _literal(name: str) -> str:
    # psycopg takes a single % for a placeholder.
    return "'" + name.replace("'", "''").replace("%", "%%") + "'"


def _values(question: Question, plan: Plan, corpus: Corpus) -> dict[str, Any]:
    asked = query_terms(question.text)
    return question.filters.parameters() | {
        "workspace": question.workspace,
        "corpus": corpus,
        "vector": None if question.vector is None else HalfVector(question.vector),
        "centred": None if question.vector is None else HalfVector(centre(question.vector, question.model)),
        "terms": asked,
        "counted_terms": min(len(asked), _COUNTED_TERMS),
        "names": name_terms(question.text),
        "share": plan.shares.conversation,
        "limit": question.limit,
        "weighted_kinds": list(plan.type_weights),
        "type_weights": list(plan.type_weights.values()),
        **_time_values(question.time),
        # With a space around each word, so that the name of a speaker is found as a whole word.
        "padded_query": " " + re.sub(r"\W+", " ", question.text.lower()) + " ",
        "asked_role": "assistant" if asks_what_assistant_said(question.text) else "user",
        **WEIGHTS,
    }


def _time_values(time: AskedTime | None) -> dict[str, Any]:
    if time is None:
        return {}
    asks = "conversation" if time.sessions else "said" if time.of_talk else "happened"
    return {
        "times": [TimestamptzRange(span.start, span.end) for span in time.ranges],
        "first_sessions": [sessions.first for sessions in time.sessions],
        "last_sessions": [sessions.last for sessions in time.sessions],
        "current_session": time.current_session,
        "most_then": _MOST_THEN,
        "time_factor": _TIME_FACTOR,
        **_TIME_WEIGHTS[asks],
    }


@lru_cache(maxsize=64)  # a turn asks for memories and for messages with the same words
def query_terms(query: str) -> list[str]:
    """The distinct terms of a query that are looked up, in the order of the query."""
    return list(dict.fromkeys(terms(query)))[:_READ_TERMS]


# Columns for `Match` and `Background`, by which relevance is judged, in the order of their fields.
_SIGNS = (
    "best.score", "best.covered", "background.candidates", "background.mean", "background.deviation",
    "background.nearest", "background.widest", "known.terms", "known.idf", "c.documents",
    "background.most_near", "background.mean_near",
)  # fmt: skip
_PARTS = ("similarity", "vector", "lexical", "telling", "session", "speaker", "role", "time", "type", "final")
_NAMED = "case when term = any(%(names)s::text[]) then %(name_weight)s::float8 else 1 end"
_TYPE = "coalesce((%(type_weights)s::real[])[array_position(%(weighted_kinds)s::text[], kind)], 1)"
# Of a message, those by which it becomes a hit: its tool calls and reasoning may be many times as long as its words.
_OF_MESSAGE = ("message_id", "role", "author", "content", "session_id", "sent_at", "metadata", *SCOPES)
_COLUMNS = {"message": rows.select(_OF_MESSAGE), "memory": rows.SELECTED}
_NOT_FORGOTTEN = "{}.document_id not in (select document_id from forgotten)"
_FAMILIES = {family: kinds_of(family) for family in VectorShares.model_fields}


def _message_values(workspace: str, row: Sequence[Any]) -> dict[str, Any]:
    said = dict(zip(_OF_MESSAGE, row, strict=True))
    return {
        "workspace_id": workspace,
        "memory_id": said["message_id"],
        "kind": Kind.CONVERSATION,
        "subject": said["session_id"],
        "content": said["content"],
        "author": said["author"] or said["role"],
        "observed_at": said["sent_at"],
        "created_at": said["sent_at"],
        "updated_at": said["sent_at"],
        "metadata": said["metadata"],
        **{scope: said[scope] for scope in SCOPES},
    }
