"""A workspace's index as its writers find it, and the vectors in it; the words are in `postings`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from pgvector import HalfVector
from psycopg import AsyncConnection

from reme_core.errors import EmbeddingModelError, InputError
from reme_core.store.numbers import Numbers
from reme_core.store.postings import Corpus
from reme_core.store.sql import load

# A young collection's mean length jumps about; it starts as if it held this many documents of this many terms.
_PRIOR_DOCUMENTS, _PRIOR_LENGTH = 50, 20

_SQL = load("memory.sql")


@dataclass(frozen=True, slots=True)
class IndexState:
    """A workspace's index at the moment of writing, and fresh numbers for the documents to come."""

    model: str | None
    dimensions: int | None
    hnsw: bool
    documents: int
    """How many documents the corpus holds."""
    mean_length: float
    loose: int
    """Segments of postings that wait to be merged."""
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
    model, dimensions, hnsw, documents, length, loose, ids = found
    mean = (length + _PRIOR_DOCUMENTS * _PRIOR_LENGTH) / (documents + _PRIOR_DOCUMENTS)
    return IndexState(model, dimensions, hnsw, documents, mean, loose, ids)


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


async def remove_vectors(conn: AsyncConnection[Any], workspace: str, document_ids: Collection[int]) -> None:
    """Take documents out of the vector leg, whichever models' vectors they have."""
    await conn.execute(_SQL["delete_embeddings"], {"workspace": workspace, "documents": list(document_ids)})
