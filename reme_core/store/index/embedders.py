"""The embedding model of each workspace, whether its vectors are in the HNSW index, and who speaks in it.

A workspace is bound to the model of its first vectors, until `reembed` has moved all its vectors to another model. A
process that is configured with another model still searches and writes with the workspace's model.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TypeVar

import numpy as np

from reme_core.errors import ConfigurationError, EmbeddingModelError, InputError
from reme_core.models.base import Embedder, OnCall, Vectors
from reme_core.models.registry import embedder_by_name
from reme_core.postgres.database import Database
from reme_core.store.index import hnsw
from reme_core.store.index.writer import check_width
from reme_core.store.sql import load

Result = TypeVar("Result")

log = logging.getLogger(__name__)

_SQL = load("recall.sql")
# A process may search by the old model for so long after another process moved the workspace. The old vectors are
# kept for longer (`Workspaces.drop_old_vectors`).
_REMEMBERED_SECONDS = 30.0


@dataclass(slots=True)
class WorkspaceModel:
    """The embedding model of one workspace, and how its vectors are searched."""

    embedder: Embedder
    ef_search: int
    """How many candidates a search of the model's HNSW index keeps; 0 if the vectors are not in it."""
    dimensions: int | None
    """The width of the stored vectors; None if there are none yet."""
    until: float
    """When it is to be looked up again, on the monotonic clock."""
    authors: Sequence[str] | None = None
    """See `WorkspaceModels.authors`; None until somebody asks."""


class WorkspaceModels:
    """Looks up the model of each workspace, and remembers it for half a minute."""

    def __init__(self, database: Database, default: Embedder, *, on_call: OnCall | None = None) -> None:
        self._database = database
        self._on_call = on_call
        self._embedders: dict[str, Embedder] = {}
        self._known: dict[str, WorkspaceModel] = {}  # what is to be looked up again first stands first
        self.default = default

    async def of(self, workspace: str) -> WorkspaceModel:
        """The model of the workspace; for a new workspace, the configured embedder.

        Raises:
            EmbeddingModelError: The workspace's model is not the configured one and cannot be reached from here.
        """
        now = time.monotonic()
        if (known := self._known.get(workspace)) is not None and now < known.until:
            return known
        rows = await self._database.fetch(workspace, _SQL["workspace_model"], {"workspace": workspace})
        name, is_indexed, dimensions, documents = rows[0] if rows else (None, False, None, 0)
        ef_search = hnsw.ef_search(documents) if is_indexed else 0
        embedder = self._embedder_named(workspace, name)
        for old in [workspace, *takewhile(lambda other: self._known[other].until <= now, self._known)]:
            self.forget(old)
        model = self._known[workspace] = WorkspaceModel(embedder, ef_search, dimensions, now + _REMEMBERED_SECONDS)
        return model

    async def authors(self, workspace: str) -> Sequence[str]:
        """The authors of the workspace's messages: the first twenty names in alphabetical order."""
        model = await self.of(workspace)
        if model.authors is None:
            rows = await self._database.fetch(workspace, _SQL["authors"], {"workspace": workspace})
            model.authors = [row[0] for row in rows]
        return model.authors

    async def embedder(self, workspace: str) -> Embedder:
        """The embedder whose vectors the workspace holds; for its error see `of`."""
        return (await self.of(workspace)).embedder

    async def with_embedder(self, workspace: str, work: Callable[[Embedder], Awaitable[Result]]) -> Result:
        """Do work that needs the embedder, and again if the workspace was moved to another model meanwhile."""
        try:
            return await work(await self.embedder(workspace))
        except EmbeddingModelError:  # `writer.bind` raises it for vectors of a model that the workspace has no more
            self.forget(workspace)
            return await work(await self.embedder(workspace))

    def know(self, embedder: Embedder) -> None:
        """Use this embedder for the workspaces that hold vectors of it."""
        if embedder.name != self.default.name:
            self._embedders[embedder.name] = embedder

    def forget(self, workspace: str) -> None:
        """Look the workspace up again at its next use, since it was cleared, moved or indexed."""
        self._known.pop(workspace, None)

    def _embedder_named(self, workspace: str, name: str | None) -> Embedder:
        if name is None or name == self.default.name:
            return self.default
        if name not in self._embedders:
            try:
                self._embedders[name] = embedder_by_name(self._database.settings, name, on_call=self._on_call)
            except ConfigurationError as error:
                raise EmbeddingModelError(f"workspace '{workspace}' cannot be searched from here: {error}") from error
            log.warning("workspace '%s' is still bound to '%s'; `reme reembed` moves it", workspace, name)
        return self._embedders[name]

    async def aclose(self) -> None:
        """Close every embedder."""
        for embedder in (self.default, *self._embedders.values()):
            await embedder.aclose()


def unit_vectors(vectors: Sequence[Sequence[float]] | Vectors, count: int, embedder: Embedder) -> Vectors:
    """The vectors that a caller gave for `count` texts, each scaled to length 1.

    Raises:
        InputError: They are no numbers, their number is not `count`, their width is not that of the embedder, or one of
            them is all zeros or not finite.
    """
    try:
        array = np.asarray(vectors, dtype=np.float32)
    except (ValueError, TypeError) as error:
        raise InputError(f"an embedding is a row of numbers, all of one length: {error}") from None
    if array.ndim != 2 or len(array) != count:
        raise InputError(f"{count} embeddings are needed, one row each; got an array of shape {array.shape}")
    if embedder.dimensions:
        check_width(embedder.name, array.shape[1], embedder.dimensions)
    squares = np.einsum("ij,ij->i", array, array)
    if not (np.isfinite(squares).all() and squares.all()):
        raise InputError("an embedding is all zeros or not finite; embed the text again")
    return np.asarray(array / np.sqrt(squares)[:, None], dtype=np.float32)
