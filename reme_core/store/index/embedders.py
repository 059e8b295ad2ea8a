"""What serves which workspace: its embedding model, whether it is in the HNSW index, and who speaks in it.

A workspace is bound to the model of its first vectors, and stays with it until `reembed` has moved all of it. A
process that is configured with another model meanwhile goes on asking and writing with the workspace's own.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from reme_core.errors import ConfigurationError, EmbeddingModelError, InputError
from reme_core.models import Embedder, OnCall
from reme_core.models.registry import embedder_named
from reme_core.settings import Settings
from reme_core.store.database import Database
from reme_core.store.sql import load

Result = TypeVar("Result")

log = logging.getLogger(__name__)

_SQL = load("recall.sql")
_REMEMBERED_SECONDS = 30.0  # another process that moves a workspace keeps the old vectors for longer than this


@dataclass(frozen=True, slots=True)
class Served:
    """What a recall has to know of a workspace beforehand."""

    embedder: Embedder
    hnsw: bool = False


class Serving:
    """Finds out what serves a workspace, and remembers it for half a minute."""

    def __init__(
        self, database: Database, settings: Settings, default: Embedder, *, on_call: OnCall | None = None
    ) -> None:
        self._database = database
        self._settings = settings
        self._on_call = on_call
        self._embedders: dict[str, Embedder] = {}
        self._known: dict[str, tuple[float, Served]] = {}
        self._authors: dict[str, tuple[float, tuple[str, ...]]] = {}
        self.default = default

    async def of(self, workspace: str) -> Served:
        """What serves the workspace; for a new one, the configured embedder.

        Raises:
            EmbeddingModelError: The workspace's model is not the configured one and cannot be reached from here.
        """
        until, served = self._known.get(workspace, (0.0, None))
        if served is not None and time.monotonic() < until:
            return served
        rows = await self._database.fetch(workspace, _SQL["served"], {"workspace": workspace})
        model, hnsw = rows[0] if rows else (None, False)
        served = Served(self._named(workspace, model), hnsw)
        self._known[workspace] = (time.monotonic() + _REMEMBERED_SECONDS, served)
        return served

    async def authors(self, workspace: str) -> Sequence[str]:
        """Names under which the workspace's messages were said, the first twenty."""
        until, authors = self._authors.get(workspace, (0.0, ()))
        if time.monotonic() < until:
            return authors
        rows = await self._database.fetch(workspace, _SQL["authors"], {"workspace": workspace})
        names = tuple(row[0] for row in rows)
        self._authors[workspace] = (time.monotonic() + _REMEMBERED_SECONDS, names)
        return names

    async def embedder(self, workspace: str) -> Embedder:
        """The embedder whose vectors the workspace holds; see `of`."""
        return (await self.of(workspace)).embedder

    async def with_embedder(self, workspace: str, work: Callable[[Embedder], Awaitable[Result]]) -> Result:
        """Do work that needs the workspace's embedder; once more, if the workspace was moved to another meanwhile.

        Raises:
            EmbeddingModelError: The workspace's model is not the configured one and cannot be reached from here.
        """
        try:
            return await work(await self.embedder(workspace))
        except EmbeddingModelError:
            self.forget(workspace)
            return await work(await self.embedder(workspace))

    def know(self, embedder: Embedder) -> None:
        """Serve workspaces that hold vectors of this embedder with it."""
        if embedder.name != self.default.name:
            self._embedders[embedder.name] = embedder

    def forget(self, workspace: str) -> None:
        """Look again at the next use: the workspace was cleared, moved or indexed."""
        self._known.pop(workspace, None)
        self._authors.pop(workspace, None)

    def given(
        self, vectors: Sequence[Sequence[float]] | npt.NDArray[np.float32], count: int, embedder: Embedder
    ) -> npt.NDArray[np.float32]:
        """Vectors that the caller brought, checked and brought to unit length.

        Raises:
            InputError: Their number, width or values don't fit.
        """
        array = np.asarray(vectors, dtype=np.float32)
        if array.ndim != 2 or len(array) != count:
            raise InputError(f"{count} embeddings are needed, one row each; got an array of shape {array.shape}")
        width = embedder.dimensions
        if width and array.shape[1] != width:
            raise InputError(f"'{embedder.name}' has {width} dimensions; the embeddings given have {array.shape[1]}")
        squares = np.einsum("ij,ij->i", array, array)
        if not (np.isfinite(squares).all() and squares.all()):
            raise InputError("an embedding is all zeros or not finite; embed the text again")
        return np.asarray(array / np.sqrt(squares)[:, None], dtype=np.float32)

    def _named(self, workspace: str, name: str | None) -> Embedder:
        if name is None or name == self.default.name:
            return self.default
        if name not in self._embedders:
            try:
                self._embedders[name] = embedder_named(self._settings, name, on_call=self._on_call)
            except ConfigurationError as error:
                raise EmbeddingModelError(f"workspace '{workspace}' cannot be searched from here: {error}") from error
            log.warning("workspace '%s' is still served by '%s'; `reme reembed` moves it", workspace, name)
        return self._embedders[name]

    async def aclose(self) -> None:
        """Close every embedder."""
        for embedder in (self.default, *self._embedders.values()):
            await embedder.aclose()
