"""The index of the lexical leg: which documents hold a term, and with which BM25 weight.

The *impact* of a posting is the BM25 weight of its term in its document, without the inverse document frequency (idf).
Impacts are computed when a document is written; recall multiplies them by the idf and adds them up. The formula, and
adding up weighted fields before it saturates (BM25F), are from Robertson & Zaragoza, "The Probabilistic Relevance
Framework: BM25 and Beyond" (2009).

Postings are stored in *segments*. A segment is a row that lists documents with a term, in order, so that a document can
be looked up in it. It also has the best of their impacts, so that recall can read the best segments first. A write only
adds segments. `merge` joins segments of similar size, as a log-structured merge tree does (O'Neil et al., 1996).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from string import Template
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from psycopg import AsyncConnection

from reme_core.postgres.arrays import Booleans, Integers, Reals
from reme_core.postgres.database import Database
from reme_core.store.sql import load
from reme_core.text.terms import terms

Corpus = Literal["memory", "message"]
Terms = Sequence[Counter[str]]
"""The terms of several documents, with their counts."""

K1, B = 1.2, 0.5  # in the range of Robertson & Zaragoza; on LoCoMo, values around these find as much

SEGMENT = 512
"""Postings of a full segment: at twelve bytes each, its row still fits on a page."""
MERGE_AFTER = 512
"""Segments that are written before the next merge of a small corpus; 25 memories that are added singly write as many.

A recall reads those of its words one by one. After 4,096, which it was, they took a fifth of a recall of messages."""
WITHOUT_THREAD = 20
"""So many documents are prepared faster than a thread starts."""
_DOCUMENTS_PER_MERGE, _SELDOM = 1_000, 8  # a merge looks at all segments, so a large corpus is merged more seldom
_MERGED_TOGETHER = 4  # fewer segments of similar size are not joined
_TERMS_PER_MERGE = 100  # terms that one transaction merges: writers wait for it, some hundredths of a second

_SQL = load("postings.sql")

POST = _SQL["post"]
"""Parts of a statement that write postings and statistics; `postings` and `count` give their values."""
WRITE = f"with {POST} select"
_REMOVE = Template(_SQL["remove"])
_REMOVE_ANYWHERE = _REMOVE.substitute(among="")
_REMOVE_FROM_TERMS = _REMOVE.substitute(among="and p.corpus = %(corpus)s and p.term = any(%(terms)s)")


def weigh(fields: Iterable[tuple[str, float]]) -> Counter[str]:
    """The terms of several fields with their counts, each multiplied by the weight of its field."""
    counts: Counter[str] = Counter()
    for text, weight in fields:
        for term, count in Counter(terms(text)).items() if text else ():
            counts[term] += weight * count  # type: ignore[assignment]  # a Counter of weights: floats count as well
    return counts


def impacts(
    counts: npt.NDArray[np.float64], lengths: npt.NDArray[np.float64], mean_length: float
) -> npt.NDArray[np.float32]:
    """The BM25 weights without idf of terms that occur so often in documents of these lengths.

    >>> impacts(np.array([1.0, 3.0]), np.array([1.0, 5.0]), mean_length=1.0).round(2).tolist()
    [1.0, 1.0]
    """
    return (counts * (K1 + 1) / (counts + K1 * (1 - B + B * lengths / mean_length))).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Document:
    """A memory or a message as the index needs it: its number, and the terms by which it is found."""

    document_id: int
    counts: Counter[str]
    from_neighbours: Collection[str] = field(default=())
    """The terms that only the messages before and after it have."""


def postings(workspace: str, corpus: Corpus, documents: Iterable[Document], mean_length: float) -> dict[str, Any]:
    """The postings of documents as segments, for the parts `POST`. For many documents, call it in a thread."""
    words: list[str] = []
    counts: list[float] = []
    from_neighbour: list[bool] = []
    sizes, lengths, numbers = [], [], []
    for document in documents:
        words.extend(document.counts)
        counts.extend(document.counts.values())
        from_neighbour.extend([term in document.from_neighbours for term in document.counts])
        sizes.append(len(document.counts))
        lengths.append(sum(document.counts.values()))
        numbers.append(document.document_id)
    ranks = {word: rank for rank, word in enumerate(sorted(set(words)))}
    # One sortable number for each pair of a term and `from_neighbour`. Segments are written in the order of their
    # terms: so rows that are neighbours in the index on terms are written together.
    keys = 2 * np.fromiter(map(ranks.__getitem__, words), np.int64, len(words)) + np.array(from_neighbour, np.int64)
    weights = impacts(np.array(counts), np.repeat(np.array(lengths, np.float64), sizes), mean_length)
    held = np.repeat(np.array(numbers, np.int64), sizes)
    order = np.lexsort((held, keys))
    keys, weights, held = keys[order], weights[order], held[order]
    starts = np.array(_starts(keys), np.int64)
    return {
        "workspace": workspace,
        "corpus": corpus,
        # One text, which Postgres splits: psycopg would write an array of a hundred thousand texts slowly, one by one.
        "terms": " ".join([words[place] for place in order[starts]]),
        "from_neighbour": Booleans(keys[starts] % 2 == 1),
        "starts": Integers(starts + 1),
        "ends": Integers(np.append(starts, len(keys))[1:]),
        "best": Reals(np.maximum.reduceat(weights, starts) if len(starts) else weights),
        "impacts": Reals(weights),
        "documents": Integers(held),
    }


def _starts(keys: npt.NDArray[np.int64]) -> list[int]:
    """Where in sorted keys a segment begins: at each new key, and again after each `SEGMENT` postings of one."""
    if not len(keys):
        return []
    bounds = [0, *(np.flatnonzero(keys[1:] != keys[:-1]) + 1).tolist(), len(keys)]
    return list(chain.from_iterable(range(start, end, SEGMENT) for start, end in pairwise(bounds)))


def count(*, added: Terms = (), removed: Terms = ()) -> dict[str, int]:
    """What documents with these own terms add to the statistics of their corpus, for the parts `POST`."""
    return {
        "more": len(added) - len(removed),
        "length": sum(round(sum(c.values())) for c in added) - sum(round(sum(c.values())) for c in removed),
    }


async def remove(
    conn: AsyncConnection[Any],
    workspace: str,
    document_ids: Collection[int],
    *,
    among: tuple[Corpus, Collection[str]] | None = None,
) -> None:
    """Remove the postings of documents; `WRITE` updates the statistics.

    `among` is their corpus, and a collection with all their terms. Without it, all segments of the workspace are looked
    at: this also finds postings of other terms that an earlier release made.
    """
    if not document_ids:
        return
    values = {
        "workspace": workspace,
        "documents": Integers(np.array(sorted(document_ids), np.int64)),
        # Segments with older documents alone, or with newer ones, are not opened.
        "oldest": min(document_ids),
        "newest": max(document_ids),
    }
    if among is None:
        await conn.execute(_REMOVE_ANYWHERE, values)
    else:
        await conn.execute(_REMOVE_FROM_TERMS, values | {"corpus": among[0], "terms": list(among[1])})


def is_due(documents: int, unmerged_segments: int) -> bool:
    """Whether a corpus of so many documents has enough segments to merge.

    >>> is_due(200, 512), is_due(2_500, 3 * 512 - 1), is_due(1_000_000, 8 * 512)
    (True, False, True)
    """
    return unmerged_segments >= MERGE_AFTER * min(_SELDOM, 1 + documents // _DOCUMENTS_PER_MERGE)


async def merge(database: Database, workspace: str) -> bool:
    """Join segments of similar size if enough were written since the last merge, and say whether they were.

    Reading and writing go on.
    """
    corpora = await database.fetch(workspace, _SQL["unmerged"], {"workspace": workspace})
    due = [corpus for corpus, documents, unmerged in corpora if is_due(documents, unmerged)]
    for corpus in due:
        values = {"workspace": workspace, "corpus": corpus, "enough_to_join": _MERGED_TOGETHER, "full": SEGMENT}
        # Counting begins anew before the merge, so that segments that are written during it count for the next one.
        await database.execute(workspace, _SQL["begin_merge"], values)
        crowded = [term for (term,) in await database.fetch(workspace, _SQL["crowded"], values)]
        for start in range(0, len(crowded), _TERMS_PER_MERGE):
            async with database.write_transaction(workspace) as conn:
                await conn.execute(_SQL["merge"], values | {"terms": crowded[start : start + _TERMS_PER_MERGE]})
    return bool(due)
