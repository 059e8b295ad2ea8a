"""The index of a workspace: its state, which writers read first, and its vectors; for its terms see `postings`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from pgvector import HalfVector
from psycopg import AsyncConnection

from reme_core.errors import EmbeddingModelError, InputError
from reme_core.postgres.arrays import Integers
from reme_core.store.index.postings import Corpus
from reme_core.store.sql import ENSURE_WORKSPACE, NUMBERS, load

# The mean length of few documents varies much, so 50 documents of 20 terms are counted in.
_PRIOR_DOCUMENTS, _PRIOR_LENGTH = 50, 20
# Preparing a thousand documents takes some seconds on a busy machine.
_MANY, _IDLE_SECONDS_PER_THOUSAND = 1_000, 10

_SQL = load("memory.sql")
_WRITE_VECTORS = f"{_SQL['insert_embeddings']} {_SQL['or_replace_embeddings']}"


@dataclass(frozen=True, slots=True)
class IndexState:
    """The index of a workspace before something is written to it, and the numbers for new documents."""

    model: str | None
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


async def begin(conn: AsyncConnection[Any], workspace: str, corpus: Corpus, *, count: int) -> IndexState:
    """Read the state of the index, with numbers for `count` new documents; the first call creates the workspace.

    Call it in a `Database.write_transaction`: then nobody else changes the state until the documents are written.
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
    model, dimensions, hnsw, is_behind, documents, length, unmerged_segments = found
    ids = numbers[0]
    mean = (length + _PRIOR_DOCUMENTS * _PRIOR_LENGTH) / (documents + _PRIOR_DOCUMENTS)
    return IndexState(model, dimensions, hnsw, is_behind, documents, mean, unmerged_segments, ids)


async def bind(
    conn: AsyncConnection[Any], workspace: str, vectors: npt.NDArray[np.float32], state: IndexState, *, model: str
) -> None:
    """Check that vectors of `model` may be written; the first vectors of a workspace bind it to their model.

    Raises:
        EmbeddingModelError: The workspace is bound to another model.
        InputError: Other vectors of the model have another width.
    """
    if state.model not in (None, model):
        raise EmbeddingModelError(
            f"workspace '{workspace}' holds vectors of '{state.model}', not of '{model}', and the two cannot be "
            f"compared. Run `reme reembed --workspace {workspace}` to move it, or configure '{state.model}' again"
        )
    width = vectors.shape[1]
    # Another workspace may have vectors of the same model already; `register` returns their width then.
    known = state.dimensions or await register(conn, workspace, model, width)
    if len(vectors):
        check_width(model, width, known)


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
    workspace: str,
    documents: Sequence[tuple[int, str, bool]],
    vectors: npt.NDArray[np.float32],
    *,
    model: str,
    hnsw: bool,
) -> dict[str, Any]:
    """The values of a statement that writes vectors; row n is of document n, `(document_id, kind, active)`."""
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


async def write_vectors(
    conn: AsyncConnection[Any],
    workspace: str,
    documents: Sequence[tuple[int, str, bool]],
    vectors: npt.NDArray[np.float32],
    *,
    model: str,
    hnsw: bool,
) -> None:
    """Write the vectors of documents, as `vector_values` takes them; call `bind` before."""
    values = vector_values(workspace, documents, vectors, model=model, hnsw=hnsw)
    await conn.execute(_WRITE_VECTORS, values)


async def remove_vectors(conn: AsyncConnection[Any], workspace: str, document_ids: Collection[int]) -> None:
    """Remove all vectors of documents, of every model."""
    await conn.execute(_SQL["delete_embeddings"], {"workspace": workspace, "documents": list(document_ids)})
