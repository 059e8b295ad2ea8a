"""Moving a workspace to another embedding model while the old one goes on serving.

Vectors of the new model are written beside the old ones, also for what is written meanwhile, and only when none is
missing does the workspace change over, in one transaction under the lock that all its writers take. A search is
always among vectors of one model. Work that was interrupted is not lost: what has its new vector is passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection

from reme_core.models import Embedder
from reme_core.schema import Kind, Memory
from reme_core.store import change, hnsw, index
from reme_core.store.database import Database
from reme_core.store.messages import passage
from reme_core.store.sql import load

_SQL = load("reembed.sql")
_BATCH = 64  # texts embedded and written at a time
_LAST = 64  # texts that may be embedded while the workspace's writers wait for the change-over


@dataclass(frozen=True, slots=True)
class _Document:
    """A memory or message that lacks a vector of the new model."""

    document_id: int
    kind: str
    live: bool
    when_to_use: str
    content: str
    author: str

    @property
    def text(self) -> str:
        """What its vector stands for."""
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
    found = await database.fetch(workspace, _SQL["serving"], values)
    model, indexed, total, done = found[0] if found else (None, False, 0, 0)
    if model is None or model == embedder.name:
        return 0
    move = _Move(database, workspace, embedder, total, done, on_progress)
    prepared = False
    while True:
        await move.catch_up()
        if indexed and not prepared and move.width <= hnsw.WIDEST:
            await hnsw.prepare(database, workspace, embedder.name, move.width)
            prepared = True
        if await move.change_over(indexed=prepared):
            return move.made


async def drop_old_vectors(database: Database, workspace: str) -> int:
    """Remove the vectors of models that do not serve the workspace; returns how many there were."""
    async with database.writing(workspace) as conn:
        return (await conn.execute(_SQL["drop_old"], {"workspace": workspace})).rowcount


class _Move:
    """The move of one workspace to one model."""

    def __init__(
        self,
        database: Database,
        workspace: str,
        embedder: Embedder,
        total: int,
        done: int,
        on_progress: Callable[[int, int], None] | None,
    ) -> None:
        self._database = database
        self._workspace = workspace
        self._embedder = embedder
        self._total = total
        self._done = done
        self._on_progress = on_progress
        self.made = 0
        self.width = embedder.dimensions or 0

    async def catch_up(self) -> None:
        """Make the vectors that are missing, in the order of the documents."""
        after = -1
        while True:
            found = await self._database.fetch(self._workspace, _SQL["missing"], self._values(after=after))
            documents = [_Document(*row) for row in found]
            if not documents:
                return
            vectors = await self._embed(documents)
            async with self._database.writing(self._workspace) as conn:
                written = await self._write(conn, documents, vectors)
            self._committed(written)
            after = documents[-1].document_id

    async def change_over(self, *, indexed: bool) -> bool:
        """Let the new model serve, unless much was written meanwhile; `indexed` where it has an index to serve by."""
        async with self._database.writing(self._workspace) as conn:
            found = await (await conn.execute(_SQL["missing"], self._values(limit=_LAST + 1))).fetchall()
            if len(found) > _LAST:
                return False
            documents = [_Document(*row) for row in found]
            written = await self._write(conn, documents, await self._embed(documents)) if documents else 0
            await conn.execute(_SQL["switch"], self._values())
            if indexed:
                await hnsw.serve(conn, self._workspace, self._embedder.name)
        self._committed(written)
        return True

    async def _embed(self, documents: Sequence[_Document]) -> change.Vectors:
        vectors = await self._embedder.embed([document.text for document in documents], "passage")
        self.width = vectors.shape[1]
        return vectors

    async def _write(self, conn: AsyncConnection[Any], documents: Sequence[_Document], vectors: change.Vectors) -> int:
        """Write the vectors of those documents that still say what was embedded; returns how many those are."""
        numbers = [document.document_id for document in documents]
        found = await (await conn.execute(_SQL["missing"], self._values(only=numbers))).fetchall()
        still = {row[0]: _Document(*row) for row in found}
        kept = [
            place
            for place, document in enumerate(documents)
            if (current := still.get(document.document_id)) and current.text == document.text
        ]
        described = [(numbers[place], still[numbers[place]].kind, still[numbers[place]].live) for place in kept]
        await conn.execute(_SQL["register"], self._values() | {"dimensions": self.width})
        await index.write_vectors(
            conn, self._workspace, described, vectors[kept], model=self._embedder.name, hnsw=False
        )
        return len(kept)

    def _committed(self, written: int) -> None:
        """Count the vectors of a transaction that has ended: what is told as done outlives this process."""
        self.made += written
        self._done += written
        if written and self._on_progress is not None:
            self._on_progress(self._done, max(self._total, self._done))

    def _values(self, *, after: int = -1, limit: int = _BATCH, only: Sequence[int] | None = None) -> dict[str, Any]:
        return {
            "workspace": self._workspace,
            "model": self._embedder.name,
            "after": after,
            "limit": limit,
            "only": None if only is None else list(only),
        }
