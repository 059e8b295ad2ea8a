"""Moving a workspace to another embedding model while recall goes on with the old one.

Vectors of the new model are written beside the old ones, also for documents that are added meanwhile. When none is
missing, one transaction under the write lock switches the workspace to the new model. So a search always compares
vectors of one model. An interrupted move loses nothing: the next one skips documents that have a new vector.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection

from reme_core.models.base import Embedder, Vectors
from reme_core.postgres.database import Database
from reme_core.store import change
from reme_core.store.index import hnsw, writer
from reme_core.store.messages import passage
from reme_core.store.sql import load
from reme_core.types import Kind, Memory

_SQL = load("reembed.sql")
_BATCH = 64  # texts embedded and written at a time
# Texts at the most that the last transaction embeds, and how long at the most: writers wait for it.
_LAST, _LAST_SECONDS = 64, 5.0


@dataclass(frozen=True, slots=True)
class _Document:
    """A memory or message that lacks a vector of the new model."""

    document_id: int
    kind: str
    active: bool
    when_to_use: str
    content: str
    author: str

    @property
    def text(self) -> str:
        """The text that is embedded for it."""
        if self.kind == Kind.CONVERSATION:
            return passage(self.content, self.author)
        return change.searched_text(
            Memory.model_construct(kind=Kind(self.kind), when_to_use=self.when_to_use, content=self.content)
        )


async def reembed(
    database: Database, workspace: str, embedder: Embedder, *, on_progress: Callable[[int, int], None] | None = None
) -> int:
    """Move a workspace to another model; see `Workspaces.reembed`. Returns how many vectors were made."""
    values = {"workspace": workspace, "model": embedder.name}
    found = await database.fetch(workspace, _SQL["progress"], values)
    # An endpoint tells the width of its vectors with the first ones, and all of them may be there already.
    model, indexed, total, done, width = found[0] if found else (None, False, 0, 0, 0)
    if model is None or model == embedder.name:
        return 0
    move = _Move(database, workspace, embedder, total, done, on_progress, width=width)
    prepared = False
    # Others may add documents all the while. If these are too many for `switch`, or take too long, it catches up again.
    while True:
        await move.catch_up()
        if indexed and not prepared and 0 < move.width <= hnsw.WIDEST:  # 0: there is no vector
            await hnsw.prepare(database, workspace, embedder.name, move.width)
            prepared = True
        if await move.switch(indexed=prepared):
            if prepared:  # what others added meanwhile
                await hnsw.ensure(database, workspace, exact_below=0)
            return move.made


@dataclass(slots=True)
class _Move:
    """The move of one workspace to one model."""

    database: Database
    workspace: str
    embedder: Embedder
    total: int
    done: int
    on_progress: Callable[[int, int], None] | None
    made: int = 0
    width: int = 0

    async def catch_up(self) -> None:
        """Make the missing vectors, in the order of the documents, until few are left."""
        after = -1
        while True:
            found = await self.database.fetch(self.workspace, _SQL["missing"], self._values(after=after))
            documents = [_Document(*row) for row in found]
            if not documents:
                return
            vectors = await self._embed(documents)
            async with self.database.write_transaction(self.workspace) as conn:
                written = await self._write(conn, documents, vectors)
            self._report(written)
            if len(documents) < _BATCH:
                return  # `switch` makes the few that others added meanwhile; here this might never end
            after = documents[-1].document_id

    async def switch(self, *, indexed: bool) -> bool:
        """Switch to the new model. If what was added meanwhile cannot be embedded here soon, return False.

        `indexed` says whether the new vectors are in an HNSW index.
        """
        async with self.database.write_transaction(self.workspace) as conn:
            found = await (await conn.execute(_SQL["missing"], self._values(limit=_LAST + 1))).fetchall()
            if len(found) > _LAST:
                return False
            written = 0
            if documents := [_Document(*row) for row in found]:
                try:
                    async with asyncio.timeout(_LAST_SECONDS):
                        vectors = await self._embed(documents)
                except TimeoutError:
                    return False
                written = await self._write(conn, documents, vectors)
            await conn.execute(_SQL["switch"], self._values())
            if indexed:
                await hnsw.switch_to_index(conn, self.workspace, self.embedder.name)
        self._report(written)
        return True

    async def _embed(self, documents: Sequence[_Document]) -> Vectors:
        vectors = await self.embedder.embed([document.text for document in documents], "passage")
        self.width = vectors.shape[1]
        return vectors

    async def _write(self, conn: AsyncConnection[Any], documents: Sequence[_Document], vectors: Vectors) -> int:
        """Write the vectors of those documents whose texts are still the same; returns how many these are."""
        # Texts may have been changed, or erased, while the model embedded them.
        numbers = [document.document_id for document in documents]
        found = await (await conn.execute(_SQL["missing"], self._values(only=numbers))).fetchall()
        still = {row[0]: _Document(*row) for row in found}
        kept = [
            place
            for place, document in enumerate(documents)
            if (current := still.get(document.document_id)) and current.text == document.text
        ]
        described = [(numbers[place], still[numbers[place]].kind, still[numbers[place]].active) for place in kept]
        known = await writer.register(conn, self.workspace, self.embedder.name, self.width)
        writer.check_width(self.embedder.name, self.width, known)
        values = writer.vector_values(self.workspace, described, vectors[kept], model=self.embedder.name, hnsw=False)
        await conn.execute(writer.WRITE_VECTORS, values)
        return len(kept)

    def _report(self, written: int) -> None:
        """Count and report vectors that a committed transaction has written."""
        self.made += written
        self.done += written
        if written and self.on_progress is not None:
            self.on_progress(self.done, max(self.total, self.done))  # more may have been added meanwhile

    def _values(self, *, after: int = -1, limit: int = _BATCH, only: Sequence[int] | None = None) -> dict[str, Any]:
        return {
            "workspace": self.workspace,
            "model": self.embedder.name,
            "after": after,
            "limit": limit,
            "only": None if only is None else list(only),
        }
