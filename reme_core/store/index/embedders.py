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
from typing import Generic, TypeVar

import numpy as np

from reme_core.errors import ConfigurationError, EmbeddingModelError, InputError
from reme_core.models.base import Embedder, OnCall, Vectors
from reme_core.models.registry import embedder_by_name
from reme_core.postgres.database import Database
from reme_core.settings import Settings
from reme_core.store.index import hnsw
from reme_core.store.index.writer import check_width
from reme_core.store.sql import load

Result = TypeVar("Result")
Value = TypeVar("Value")

log = logging.getLogger(__name__)

_SQL = load("recall.sql")
# A process may search by the old model for so long after another process moved the workspace. The old vectors are
# kept for longer (`Workspaces.drop_old_vectors`).
_REMEMBERED_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class WorkspaceModel:
    """The embedding model of one workspace, and how its vectors are searched."""

    embedder: Embedder
    ef_search: int = 0
    """How many candidates a search of the model's HNSW index keeps; 0 if the vectors are not in it."""
    dimensions: int | None = None
    """The width of the stored vectors; None if there are none yet."""


class _Remembered(Generic[Value]):
    """What was looked up of workspaces in the last half minute."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[float, Value]] = {}  # with the end of its time, and what ends first stands first

    def get(self, workspace: str) -> Value | None:
        until, value = self._kept.get(workspace, (0.0, None))
        return value if time.monotonic() < until else None

    def put(self, workspace: str, value: Value) -> None:
        now = time.monotonic()
        self.forget(workspace)
        for name in list(takewhile(lambda name: self._kept[name][0] <= now, self._kept)):
            self.forget(name)
        self._kept[workspace] = (now + _REMEMBERED_SECONDS, value)

    def forget(self, workspace: str) -> None:
        self._kept.pop(workspace, None)


class WorkspaceModels:
    """Looks up the model of each workspace, and remembers it for half a minute."""

    def __init__(
        self, database: Database, settings: Settings, default: Embedder, *, on_call: OnCall | None = None
    ) -> None:
        self._database = database
        self._settings = settings
        self._on_call = on_call
        self._embedders: dict[str, Embedder] = {}
        self._known = _Remembered[WorkspaceModel]()
        self._authors = _Remembered[tuple[str, ...]]()
        self.default = default

    async def of(self, workspace: str) -> WorkspaceModel:
        """The model of the workspace; for a new workspace, the configured embedder.

        Raises:
            EmbeddingModelError: The workspace's model is not the configured one and cannot be reached from here.
        """
        if (known := self._known.get(workspace)) is not None:
            return known
        rows = await self._database.fetch(workspace, _SQL["workspace_model"], {"workspace": workspace})
        name, is_indexed, dimensions, documents = rows[0] if rows else (None, False, None, 0)
        ef_search = hnsw.ef_search(documents) if is_indexed else 0
        model = WorkspaceModel(self._embedder_named(workspace, name), ef_search, dimensions)
        self._known.put(workspace, model)
        return model

    async def authors(self, workspace: str) -> Sequence[str]:
        """The authors of the workspace's messages: the first twenty names in alphabetical order."""
        if (authors := self._authors.get(workspace)) is not None:
            return authors
        rows = await self._database.fetch(workspace, _SQL["authors"], {"workspace": workspace})
        names = tuple(row[0] for row in rows)
        self._authors.put(workspace, names)
        return names

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
        self._known.forget(workspace)
        self._authors.forget(workspace)

    def _embedder_named(self, workspace: str, name: str | None) -> Embedder:
        if name is None or name == self.default.name:
            return self.default
        if name not in self._embedders:
            try:
                self._embedders[name] = embedder_by_name(self._settings, name, on_call=self._on_call)
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
        InputError: Their number is not `count`, their width is not that of the embedder, or one of them is all
            zeros or not finite.
    """
    array = np.asarray(vectors, dtype=np.float32)
    if array.ndim != 2 or len(array) != count:
        raise InputError(f"{count} embeddings are needed, one row each; got an array of shape {array.shape}")
    if embedder.dimensions:
        check_width(embedder.name, array.shape[1], embedder.dimensions)
    squares = np.einsum("ij,ij->i", array, array)
    if not (np.isfinite(squares).all() and squares.all()):
        raise InputError("an embedding is all zeros or not finite; embed the text again")
    return np.asarray(array / np.sqrt(squares)[:, None], dtype=np.float32)
