"""What makes a document findable: its vector, and its BM25 postings with the statistics behind them.

A posting's *impact* is the BM25 weight of a term in a document, without the inverse document frequency, which recall
multiplies in at query time. Impacts are computed here, at write time, so that recall only adds them up.
Robertson & Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), for the formula and for adding
up weighted fields before it saturates (BM25F).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pgvector import HalfVector
from psycopg import AsyncConnection

from reme_core.errors import EmbeddingModelError, InputError
from reme_core.store.numbers import Numbers
from reme_core.store.sql import load
from reme_core.text.terms import terms

Corpus = Literal["memory", "message"]

K1, B = 1.2, 0.5  # within the range that Robertson & Zaragoza recommend; flat around it in benchmarks/locomo.py
# A young collection's mean length jumps about; it starts as if it held this many documents of this many terms.
_PRIOR_DOCUMENTS, _PRIOR_LENGTH = 50, 20

_SQL = load("memory.sql")

POST = _SQL["post"]
"""The parts of a statement that write postings and statistics, with `posting_values`."""
_WRITE_POSTINGS = f"with {POST} select"


def weigh(fields: Iterable[tuple[str, float]]) -> Counter[str]:
    """Count the terms of several fields, each by its weight: `[(text, weight), …]`."""
    counts: Counter[str] = Counter()
    for text, weight in fields:
        for term, count in Counter(terms(text)).items() if text else ():
            counts[term] += weight * count  # type: ignore[assignment]  # a Counter of weights: floats count as well
    return counts


def impacts(
    counts: npt.NDArray[np.float64], lengths: npt.NDArray[np.float64], mean_length: float
) -> npt.NDArray[np.float32]:
    """BM25 weights of terms, without their inverse document frequency, by their counts in documents of these lengths.

    >>> impacts(np.array([1.0, 3.0]), np.array([1.0, 5.0]), mean_length=1.0).round(2).tolist()
    [1.0, 1.0]
    """
    return (counts * (K1 + 1) / (counts + K1 * (1 - B + B * lengths / mean_length))).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Document:
    """A memory or a message, as the index sees it: its number, and the terms by which it is found."""

    document_id: int
    counts: Counter[str]


@dataclass(frozen=True, slots=True)
class IndexState:
    """A workspace's index at the moment of writing, and fresh numbers for the documents to come."""

    model: str | None
    dimensions: int | None
    hnsw: bool
    documents: int
    """How many documents the corpus holds."""
    mean_length: float
    document_ids: list[int]


async def begin(conn: AsyncConnection[Any], workspace: str, corpus: Corpus, *, count: int) -> IndexState:
    """Read the state of the index, and number `count` new documents. The workspace is made on first use.

    Within `Database.writing`, so that it is still the state when the documents are written.
    """
    values = {"workspace": workspace, "corpus": corpus, "count": count}
    found = await (await conn.execute(_SQL["begin_indexing"], values)).fetchone()
    if found is None:
        await conn.execute(_SQL["ensure_workspace"], values)
        found = await (await conn.execute(_SQL["begin_indexing"], values)).fetchone()
    assert found is not None
    model, dimensions, hnsw, documents, length, ids = found
    mean = (length + _PRIOR_DOCUMENTS * _PRIOR_LENGTH) / (documents + _PRIOR_DOCUMENTS)
    return IndexState(model, dimensions, hnsw, documents, mean, ids)


def postings(workspace: str, corpus: Corpus, documents: Iterable[Document], mean_length: float) -> dict[str, Any]:
    """What documents are found by, as the values of `write_postings`; long lists are prepared in a thread."""
    words: list[str] = []
    counts: list[float] = []
    sizes, lengths, numbers = [], [], []
    for document in documents:
        words.extend(document.counts)
        counts.extend(document.counts.values())
        sizes.append(len(document.counts))
        lengths.append(sum(document.counts.values()))
        numbers.append(document.document_id)
    order = sorted(range(len(words)), key=words.__getitem__)  # neighbours in the index are written together
    weights = impacts(np.array(counts), np.repeat(np.array(lengths, np.float64), sizes), mean_length)
    return {
        "workspace": workspace,
        "corpus": corpus,
        # Arrays of a hundred thousand elements take psycopg longer to write, one by one, than Postgres to read.
        "terms": " ".join([words[place] for place in order]),
        "impacts": Numbers(weights[order]),
        "documents": Numbers(np.repeat(np.array(numbers, np.int64), sizes)[order]),
    }


def posting_values(
    found: Mapping[str, Any], *, added: Sequence[Counter[str]] = (), removed: Sequence[Counter[str]] = ()
) -> dict[str, Any]:
    """The values of `POST`: what `postings` gave, and how the statistics change; see `write_postings`."""
    frequencies: Counter[str] = Counter()
    for counts in added:
        frequencies.update(counts.keys())
    for counts in removed:
        frequencies.subtract(counts.keys())
    changed = sorted(item for item in frequencies.items() if item[1])
    return {
        **found,
        "changed_terms": " ".join(term for term, _ in changed),
        "changes": Numbers(np.array([documents for _, documents in changed], np.int64)),
        "more": len(added) - len(removed),
        "length": sum(round(sum(c.values())) for c in added) - sum(round(sum(c.values())) for c in removed),
    }


async def write_postings(
    conn: AsyncConnection[Any],
    found: Mapping[str, Any],
    *,
    stale: Collection[int] = (),
    added: Sequence[Counter[str]] = (),
    removed: Sequence[Counter[str]] = (),
) -> None:
    """Write `postings` and keep the statistics.

    This and what follows read nothing back, so that a caller may send them in one pipeline.

    Args:
        conn: A connection in whose transaction the workspace's turn is held.
        found: What `postings` gave.
        stale: Documents that have postings already, which go.
        added: The own terms of documents that came, those of their neighbours not among them.
        removed: The own terms of documents that went.
    """
    if stale:
        await conn.execute(_SQL["delete_postings"], {**found, "documents": list(stale)})
    values = posting_values(found, added=added, removed=removed)
    await conn.execute(_WRITE_POSTINGS, values)
    if removed:
        # A term that no document holds any more would be a trace of erased text.
        await conn.execute(_SQL["forget_uncounted_terms"], values)


async def bind(
    conn: AsyncConnection[Any], workspace: str, vectors: npt.NDArray[np.float32], state: IndexState, *, model: str
) -> None:
    """Make sure that vectors of `model` may be written: the first of a workspace bind it to their model.

    Raises:
        EmbeddingModelError: It is bound to another one.
        InputError: The vectors are not as wide as others of the model.
    """
    if state.model not in (None, model):
        raise EmbeddingModelError(
            f"workspace '{workspace}' holds vectors of '{state.model}', not of '{model}', and the two cannot be "
            f"compared. Run `reme reembed --workspace {workspace}` to move it, or configure '{state.model}' again"
        )
    width = vectors.shape[1]
    known = state.dimensions or await register(conn, workspace, model, width)
    if len(vectors) and width != known:
        raise InputError(f"'{model}' has {known} dimensions; the embeddings given have {width}")


async def register(conn: AsyncConnection[Any], workspace: str, model: str, width: int) -> int:
    """Bind a workspace that has no vectors to a model; returns the width of the model's vectors."""
    values = {"workspace": workspace, "model": model, "dimensions": width}
    row = await (await conn.execute(_SQL["use_model"], values)).fetchone()
    return int(row[0]) if row else width


def vector_values(
    workspace: str,
    documents: Sequence[tuple[int, str, bool]],
    vectors: npt.NDArray[np.float32],
    *,
    model: str,
    hnsw: bool,
) -> dict[str, Any]:
    """Vectors of documents, given as `(document_id, kind, live)`, row by row, as the values of a statement."""
    ids, kinds, live = zip(*documents, strict=True) if documents else ((), (), ())
    return {
        "workspace": workspace,
        "model": model,
        "hnsw": hnsw,
        "kinds": list(kinds),
        "numbers": Numbers(np.array(ids, np.int64)),
        "live": list(live),
        "vectors": [HalfVector(vector) for vector in vectors],
    }


async def write_vectors(
    conn: AsyncConnection[Any],
    workspace: str,
    documents: Sequence[tuple[int, str, bool]],
    vectors: npt.NDArray[np.float32],
    *,
    model: str,
    hnsw: bool,
) -> None:
    """Write `vector_values`; see `bind`."""
    values = vector_values(workspace, documents, vectors, model=model, hnsw=hnsw)
    await conn.execute(_SQL["insert_embeddings"], values)


async def remove(conn: AsyncConnection[Any], workspace: str, document_ids: Collection[int]) -> None:
    """Take documents out of both legs; `write_postings` keeps the statistics."""
    values = {"workspace": workspace, "documents": list(document_ids)}
    await conn.execute(_SQL["delete_postings"], values)
    await conn.execute(_SQL["delete_embeddings"], values)


async def held_terms(
    conn: AsyncConnection[Any], workspace: str, document_ids: Collection[int]
) -> list[tuple[str, str]]:
    """The terms by which documents are found, as `(corpus, term)`."""
    values = {"workspace": workspace, "documents": list(document_ids)}
    return [(corpus, term) for corpus, term in await (await conn.execute(_SQL["held_terms"], values)).fetchall()]
