"""Recall: find memories or messages by meaning and by words, in one statement, and say why each was found.

Two legs look for candidates: the nearest vectors, and BM25 over the postings. Each candidate gets both scores; they are
scaled to 0…1 leg by leg and mixed, `alpha * vector + (1 - alpha) * lexical` (Bruch, Gai & Ingber, "An Analysis of
Fusion Functions for Hybrid Retrieval", 2023, who find convex mixing ahead of reciprocal ranks).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from string import Template
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pgvector import HalfVector
from pydantic import TypeAdapter

from reme_core.schema import Hit, Kind, TimeRange
from reme_core.store import rows
from reme_core.store.database import Database
from reme_core.store.filters import Filters
from reme_core.store.postings import Corpus
from reme_core.store.sql import load
from reme_core.text.terms import terms

ALPHA = 0.5
"""Share of the vector leg; benchmarks/locomo.py is flat from 0.4 to 0.7."""
TIME_BOOST = 2.0
"""Factor for a memory whose time meets the time asked about (MemoryScope's)."""
SESSION_WEIGHT, SPEAKER_WEIGHT, QUESTION_MALUS, LENGTH_BONUS = 0.2, 0.3, 0.1, 0.4
"""How much its session, its speaker being asked about, being a question, and having much to say count for a message."""

# Candidates a leg. Each lexical one costs a look at its vector; benchmarks/locomo.py loses .002 with 50 instead of 100,
# and gains nothing from more.
_DEPTHS = {"memory": 50, "message": 100}
_QUERY_TERMS = 64  # a pasted page is not a query

# Planning the statement takes as long as running it, and its text says all that the planner needs.
_SETTINGS = {"plan_cache_mode": "force_generic_plan"}
# Without sorting, the nearest vectors can only come from the index: a plan for any workspace is made with the average
# one in mind, which may be so small that scanning and sorting it would be the cheaper way.
_INDEX_SETTINGS = _SETTINGS | {"hnsw.ef_search": "100", "hnsw.iterative_scan": "relaxed_order", "enable_sort": "off"}

_SQL = load("recall.sql")


@dataclass(frozen=True, slots=True)
class Plan:
    """How to search, apart from what for: chosen by settings, by the flow, and by the size of the workspace."""

    fusion: Literal["convex", "rrf"] = "convex"
    hnsw_dimensions: int | None = None
    """Width of the vectors where the workspace is in its model's HNSW index; None scans exactly."""
    type_weights: Mapping[str, float] = field(default_factory=dict)
    boost: TimeRange | None = None
    """A time that the query speaks of; memories that meet it count `TIME_BOOST` times."""
    postings_per_term: int = 5_000
    """Postings of one term after which no further segment is read: agrees with full BM25 on .99 of the top ten at
    10,000 documents."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of which workspace, with the vector of the question and the model that made it."""

    workspace: str
    text: str
    vector: npt.NDArray[np.float32]
    model: str
    limit: int


async def recall_memories(database: Database, question: Question, filters: Filters, plan: Plan) -> list[Hit]:
    """The best memories, fewer than the limit only where fewer pass the filters."""
    return await _run(database, question, filters, plan, "memory")


async def recall_messages(database: Database, question: Question, filters: Filters, plan: Plan) -> list[Hit]:
    """The best raw messages, as memories of kind `conversation`."""
    return await _run(database, question, filters, plan, "message")


async def _run(database: Database, question: Question, filters: Filters, plan: Plan, corpus: Corpus) -> list[Hit]:
    statement, values = prepare(question, filters, plan, corpus)
    search = _INDEX_SETTINGS if plan.hnsw_dimensions else _SETTINGS
    found = await database.fetch(question.workspace, statement, values, settings=search)
    values_of = rows.memory_values if corpus == "memory" else _as_memory
    # Validated all at once: each by itself would take half as long again.
    return _HITS.validate_python(
        [
            {
                "rank": rank,
                "memory": values_of(question.workspace, row[len(_PARTS) :]),
                "parts": dict(zip(_PARTS, row, strict=False)),
            }
            for rank, row in enumerate(found, 1)
        ]
    )


def prepare(question: Question, filters: Filters, plan: Plan, corpus: Corpus = "memory") -> tuple[str, dict[str, Any]]:
    """The statement that answers a question, and its values."""
    values = filters.parameters() | {
        "workspace": question.workspace,
        "corpus": corpus,
        "model": question.model,
        "vector": HalfVector(question.vector),
        "terms": query_terms(question.text),
        "alpha": ALPHA,
        "limit": question.limit,
        "weighted_kinds": list(plan.type_weights),
        "type_weights": list(plan.type_weights.values()),
        "boost": rows.range_of(plan.boost.start, plan.boost.end) if plan.boost else None,
        "time_boost": TIME_BOOST,
        "padded_query": " " + re.sub(r"\W+", " ", question.text.lower()) + " ",
        "session_weight": SESSION_WEIGHT,
        "speaker_weight": SPEAKER_WEIGHT,
        "question_malus": QUESTION_MALUS,
        "length_bonus": LENGTH_BONUS,
    }
    return _statement(_Shape.of(corpus, question, filters, plan)), values


def unnamed(query: str, authors: Sequence[str]) -> str:
    """The query with the names of known speakers replaced by a pronoun, for embedding.

    A name pulls the vector towards everything its bearer ever said; who is asked about is scored by `SPEAKER_WEIGHT`
    instead. benchmarks/locomo.py gains .01.

    >>> unnamed("What does Caroline like?", ["Caroline"])
    'What does they like?'
    """
    for author in authors:
        first = author.split()[0] if author.split() else author
        query = re.sub(rf"\b{re.escape(first)}\b", "they", query) if first.isascii() else query.replace(author, "他")
    return query


def query_terms(query: str) -> list[str]:
    """The distinct terms of a query, in order."""
    return list(dict.fromkeys(terms(query)))[:_QUERY_TERMS]


_PARTS = ("similarity", "vector", "lexical", "session", "speaker", "time", "type", "final")
_HITS = TypeAdapter(list[Hit])


def _as_memory(workspace: str, row: Sequence[Any]) -> dict[str, Any]:
    message = rows.to_message(row)
    return {
        "workspace_id": workspace,
        "memory_id": message.message_id,
        "kind": Kind.CONVERSATION,
        "subject": message.session_id,
        "content": message.content,
        "author": message.author or message.role,
        "observed_at": message.sent_at,
        "created_at": message.sent_at,
        "updated_at": message.sent_at,
        "metadata": message.metadata,
    }


@dataclass(frozen=True, slots=True)
class _Shape:
    """What the text of a statement depends on; the same shape gives the same text, which is prepared once."""

    corpus: Corpus
    depth: int
    postings_per_term: int
    conditions: tuple[str, ...]
    """Conditions on the memory's or message's own row."""
    index_conditions: tuple[str, ...]
    """Conditions on the row of its vector, where those are enough."""
    fusion: str
    model: str | None
    hnsw_dimensions: int | None
    weighted: bool
    boosted: bool
    as_of: bool

    @classmethod
    def of(cls, corpus: Corpus, question: Question, filters: Filters, plan: Plan) -> _Shape:
        if corpus == "message":
            on_row: tuple[str, ...] = tuple(filters.on_message())
            on_index: tuple[str, ...] = ("e.kind = 'conversation'",)
        elif filters.beyond_kind:
            on_row, on_index = tuple(filters.on_memory()), ("e.kind <> 'conversation'",)
        else:
            by_kind = "e.kind = any(%(kinds)s)" if filters.kinds else "e.kind <> 'conversation'"
            on_row, on_index = (), ("e.live", by_kind)
        return cls(
            corpus=corpus,
            # Numbers that the planner should know stand in the text; few different ones, so that few texts are made.
            depth=max(_DEPTHS[corpus], 1 << (question.limit - 1).bit_length()),
            postings_per_term=plan.postings_per_term,
            conditions=on_row,
            index_conditions=(*on_index, "e.hnsw") if plan.hnsw_dimensions else on_index,
            fusion=plan.fusion,
            model=question.model if plan.hnsw_dimensions else None,
            hnsw_dimensions=plan.hnsw_dimensions,
            weighted=bool(plan.type_weights),
            boosted=plan.boost is not None,
            as_of=filters.as_of is not None,
        )


@lru_cache(maxsize=256)
def _statement(shape: _Shape) -> str:
    own_row = f"join reme.{shape.corpus} m on m.workspace_id = %(workspace)s and m.document_id = e.document_id"
    # A limit makes the planner look each row up by its key, also where it takes the table for empty: before the first
    # ANALYZE it would rather read the whole workspace, and keep to that plan.
    looked_up = (
        f"cross join lateral (select m.* from reme.{shape.corpus} m"
        " where m.workspace_id = %(workspace)s and m.document_id = {}.document_id limit 1) m"
    )
    on_index = [f" and {condition}" for condition in shape.index_conditions]
    on_row = [f" and {condition}" for condition in shape.conditions]
    # A message that still waits for its vector is found by its words alone.
    outer = shape.corpus == "message"
    cast = f"::halfvec({shape.hnsw_dimensions})" if shape.hnsw_dimensions else ""
    time_meets = (
        "case when m.valid_during = '(,)' then coalesce(m.observed_at, m.created_at) <@ %(boost)s::tstzrange"
        " else m.valid_during && %(boost)s::tstzrange end"
    )
    type_weight = "coalesce((%(type_weights)s::real[])[array_position(%(weighted_kinds)s::text[], m.kind)], 1)"
    marks = {
        "depth": shape.depth,
        "per_term": shape.postings_per_term,
        "embedding": f"(e.embedding{cast})" if cast else "e.embedding",
        "query": f"%(vector)b::halfvec{cast.removeprefix('::halfvec')}",
        "model": quoted(shape.model) if shape.model else "%(model)s",
        "join": own_row if on_row else "",
        "conditions": "".join(on_index + on_row),
        "outer": "left" if outer else "",
        "join_matched": looked_up.format("matched") if on_row else "",
        "matched_conditions": "".join(on_row if outer else on_index + on_row),
        "scales": _SQL[shape.fusion],
        "time": f"case when {time_meets} then %(time_boost)s else 1 end" if shape.boosted else "1",
        "type": type_weight if shape.weighted else "1",
        "join_scaled": looked_up.format("s") if shape.weighted or shape.boosted else "",
        "join_judged": looked_up.format("s"),
        "join_best": looked_up.format("best"),
        "columns": (
            rows.select(rows.MESSAGE_COLUMNS, "m")
            if shape.corpus == "message"
            else rows.select(rows.COLUMNS, "then_known" if shape.as_of else "m")
        ),
        "join_history": _SQL["history"] if shape.as_of else "",
    }
    ranking = _SQL["messages" if shape.corpus == "message" else "memories"]
    return Template(f"{_SQL['legs']}\n{ranking}").substitute(marks)


def quoted(name: str) -> str:
    """A name as an SQL literal, for the predicate of a partial index, which a parameter cannot match."""
    return "'" + name.replace("'", "''").replace("%", "%%") + "'"
