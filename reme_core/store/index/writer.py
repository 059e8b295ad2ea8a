"""The index of a workspace: its state, which writers read first, and its vectors; for its terms see `postings`."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from pgvector import HalfVector
from psycopg import AsyncConnection

from reme_core.errors import EmbeddingModelError, InputError
from reme_core.models.base import Vectors
from reme_core.postgres.arrays import Integers
from reme_core.store.index import postings
from reme_core.store.index.postings import Corpus, Document, Terms
from reme_core.store.sql import ENSURE_WORKSPACE, NUMBERS, load

# The mean length of few documents varies much, so 50 documents of 20 terms are counted in.
_PRIOR_DOCUMENTS, _PRIOR_LENGTH = 50, 20
# Preparing a thousand documents takes some seconds on a busy machine.
_MANY, _IDLE_SECONDS_PER_THOUSAND = 1_000, 10

VectorKey = tuple[int, str, bool]
"""What the row of a vector has besides: the number and the kind of its document, and whether that is active."""

_SQL = load("memory.sql")
WRITE_VECTORS = f"{_SQL['insert_embeddings']} {_SQL['or_replace_embeddings']}"
"""A statement that writes vectors; `vector_values` gives its values."""


@dataclass(frozen=True, slots=True)
class IndexWriter:
    """Writes to the index of a workspace in one transaction; `begin` gives one.

    It also tells how the index was before, and has the numbers for new documents.
    """

    conn: AsyncConnection[Any]
    workspace: str
    corpus: Corpus
    model: str
    """The model of the vectors that are written."""
    bound_to: str | None
    """The model of the workspace's vectors; None if it has none yet."""
    dimensions: int | None
    hnsw: bool
    is_behind: bool
    """Whether vectors of the workspace still have to join the index."""
    documents: int
    """How many documents the corpus has."""
    mean_length: float
    unmerged_segments: int
    """How many segments of postings were written since the last merge."""
    document_ids: list[int]

    async def bind(self, vectors: Vectors) -> None:
        """Check that these vectors may be written; the first ones of a workspace bind it to their model.

        Raises:
            EmbeddingModelError: The workspace is bound to another model.
            InputError: Other vectors of the model have another width.
        """
        if self.bound_to not in (None, self.model):
            raise EmbeddingModelError(
                f"workspace '{self.workspace}' holds vectors of '{self.bound_to}', not of '{self.model}', and the two "
                f"cannot be compared. Run `reme reembed --workspace {self.workspace}` to move it, or configure "
                f"'{self.bound_to}' again"
            )
        width = vectors.shape[1]
        # Another workspace may have vectors of the same model already; `register` returns their width then.
        known = self.dimensions or await register(self.conn, self.workspace, self.model, width)
        if len(vectors):
            check_width(self.model, width, known)

    def vector_values(self, documents: Sequence[VectorKey], vectors: Vectors) -> dict[str, Any]:
        """The values of a statement that writes the vectors of documents, row n that of document n."""
        return vector_values(self.workspace, documents, vectors, model=self.model, hnsw=self.hnsw)

    async def write_vectors(self, documents: Sequence[VectorKey], vectors: Vectors) -> None:
        """Write the vectors of documents; call `bind` before."""
        await self.conn.execute(WRITE_VECTORS, self.vector_values(documents, vectors))

    async def write_postings(self, documents: Iterable[Document], *, added: Terms, removed: Terms = ()) -> None:
        """Write the postings of documents that are not in the index, and update the statistics of their corpus.

        `added` has the own terms, without those of neighbours, of documents that are new in the corpus, and `removed`
        those of documents that are no longer in it. If many are new, a thread iterates over the documents.
        """
        made = partial(postings.postings, self.workspace, self.corpus, documents, self.mean_length)
        segments = made() if len(added) <= postings.WITHOUT_THREAD else await asyncio.to_thread(made)
        await self.conn.execute(postings.WRITE, segments | postings.count(added=added, removed=removed))


async def begin(
    conn: AsyncConnection[Any], workspace: str, corpus: Corpus, *, count: int = 0, model: str = ""
) -> IndexWriter:
    """A writer of the index, with numbers for `count` new documents; the first call creates the workspace.

    Call it in a `Database.write_transaction`: then nobody else changes the index until the documents are written.
    Without a `model` it writes no vectors.
    """
    values = {"workspace": workspace, "corpus": corpus}
    if count > _MANY:
        # The connection idles while the documents are prepared. For many, that is longer than a transaction may idle.
        patience = f"{_IDLE_SECONDS_PER_THOUSAND * count // 1000}s"
        await conn.execute("select set_config('idle_in_transaction_session_timeout', %s, true)", (patience,))
    async with conn.pipeline():
        read = await conn.execute(_SQL["begin_indexing"], values)
        numbered = await conn.execute(NUMBERS, {"sequence": "reme.document_id", "count": count})
    found, numbers = await read.fetchone(), await numbered.fetchone()
    if found is None:  # asked first, since nearly every workspace exists
        await conn.execute(ENSURE_WORKSPACE, values)
        found = await (await conn.execute(_SQL["begin_indexing"], values)).fetchone()
    assert found is not None and numbers is not None
    bound_to, dimensions, hnsw, is_behind, documents, length, unmerged = found
    mean = (length + _PRIOR_DOCUMENTS * _PRIOR_LENGTH) / (documents + _PRIOR_DOCUMENTS)
    return IndexWriter(
        conn, workspace, corpus, model, bound_to, dimensions, hnsw, is_behind, documents, mean, unmerged, numbers[0]
    )


def check_width(model: str, width: int, known: int) -> None:
    """Raise an `InputError` if vectors of a model have another width than those that are `known` of it."""
    if width != known:
        raise InputError(f"'{model}' has {known} dimensions; the embeddings given have {width}")


async def register(conn: AsyncConnection[Any], workspace: str, model: str, width: int) -> int:
    """Bind a workspace that is bound to no model yet; returns the width of the model's vectors."""
    values = {"workspace": workspace, "model": model, "dimensions": width}
    row = await (await conn.execute(_SQL["width_of_model"], values)).fetchone()
    if row is None:
        await conn.execute(_SQL["register_model"], values)
        row = await (await conn.execute(_SQL["width_of_model"], values)).fetchone()
    await conn.execute(_SQL["bind_workspace"], values)
    assert row is not None
    return int(row[0])


def vector_values(
    workspace: str, documents: Sequence[VectorKey], vectors: Vectors, *, model: str, hnsw: bool
) -> dict[str, Any]:
    """The values of a statement that writes vectors, row n that of document n."""
    ids, kinds, active = zip(*documents, strict=True) if documents else ((), (), ())
    return {
        "workspace": workspace,
        "model": model,
        "hnsw": hnsw,
        "kinds": list(kinds),
        "numbers": Integers(np.array(ids, np.int64)),
        "active": list(active),
        "vectors": [HalfVector(vector) for vector in vectors],
    }


async def remove_vectors(conn: AsyncConnection[Any], workspace: str, document_ids: Collection[int]) -> None:
    """Remove all vectors of documents, of every model."""
    await conn.execute(_SQL["delete_embeddings"], {"workspace": workspace, "documents": list(document_ids)})
