"""Memories in Postgres: adding, reading, changing, closing and erasing them."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from reme_core.errors import InputError, NotFoundError
from reme_core.schema import Evidence, HistoryEntry, Kind, Memory, Source
from reme_core.schema import now as present
from reme_core.store import change as changes
from reme_core.store import index, rows
from reme_core.store.change import Change, Close
from reme_core.store.database import Database
from reme_core.store.filters import Filters
from reme_core.store.serving import Serving
from reme_core.store.sql import load

Vectors = npt.NDArray[np.float32]

_SQL = load("memory.sql")

CHANGEABLE = frozenset(
    {"kind", "subject", "when_to_use", "content", "keywords", "importance", "score", "observed_at", "valid_from",
     "valid_until", "author", "metadata"}
)  # fmt: skip
_INDEXED = frozenset({"kind", "subject", "when_to_use", "content", "keywords"})


class Memories:
    """The memories of all workspaces; every method names the one it works in."""

    def __init__(self, database: Database, serving: Serving) -> None:
        self._database = database
        self._serving = serving

    async def add(
        self,
        workspace: str,
        memories: str | Memory | Sequence[str | Memory],
        *,
        kind: str = Kind.CUSTOM,
        embeddings: Sequence[Sequence[float]] | Vectors | None = None,
        actor: str = "",
        reason: str = "",
    ) -> list[Memory]:
        """Store memories, all or none.

        Args:
            workspace: Where; it is made on first use.
            memories: Texts, or `Memory` objects with all they carry.
            kind: What sort the plain texts are.
            embeddings: Their vectors, shape (number of memories, width of the workspace's model), if they are at hand.
            actor: Who adds them, for the history.
            reason: Why, for the history.

        Returns:
            The memories as they were stored.

        Raises:
            InputError: One has no text, or holds what Postgres cannot store.
            ConflictError: A `memory_id` exists already in the workspace.
        """
        given = [memories] if isinstance(memories, str | Memory) else memories
        full = [Memory(kind=Kind(kind), content=m) if isinstance(m, str) else m for m in given]
        await self.apply(workspace, Change(add=full), embeddings=embeddings, actor=actor, reason=reason)
        return [m.model_copy(update={"workspace_id": workspace}) for m in full]

    async def apply(
        self,
        workspace: str,
        change: Change,
        *,
        embeddings: Sequence[Sequence[float]] | Vectors | None = None,
        actor: str = "",
        reason: str = "",
    ) -> None:
        """Carry out a change in one transaction. New memories are embedded before it starts, unless vectors are given.

        Raises:
            InputError: A memory cannot be stored as it is.
            ConflictError: The store is not as the change expects it; nothing was done.
        """
        changes.check(change.add)
        embedder = await self._serving.embedder(workspace)
        if embeddings is None:
            texts = [changes.searched_text(m) for m in change.add]
            vectors = await embedder.embed(texts, "passage") if texts else np.empty((0, 1), np.float32)
        else:
            vectors = self._serving.given(embeddings, len(change.add), embedder)
        async with self._database.transaction(workspace, actor=actor, reason=reason) as conn:
            await changes.apply(conn, workspace, change, vectors, model=embedder.name)

    async def get(self, workspace: str, memory_id: str) -> Memory:
        """One memory with its sources.

        Raises:
            NotFoundError: There is none of that id in the workspace.
        """
        found = await self.list(workspace, Filters(ids=[memory_id], status=None), limit=1)
        if not found:
            raise NotFoundError(f"workspace '{workspace}' has no memory '{memory_id}'")
        return found[0]

    async def list(
        self, workspace: str, filters: Filters | None = None, *, limit: int = 100, offset: int = 0
    ) -> builtins.list[Memory]:
        """Memories that pass the filters, newest first, with their sources."""
        filters = filters or Filters()
        statement = (
            f"select {rows.select(rows.COLUMNS, 'm')} from reme.memory m where "
            + " and ".join(["m.workspace_id = %(workspace)s", *filters.on_memory()])
            + " order by m.recorded_at desc, m.document_id desc limit %(limit)s offset %(offset)s"
        )
        values = {"workspace": workspace, "limit": limit, "offset": offset, **filters.parameters()}
        found = await self._database.fetch(workspace, statement, values)
        sources = await self._sources(workspace, [row[0] for row in found])
        return [rows.to_memory(workspace, row, sources.get(row[0], ())) for row in found]

    async def _sources(self, workspace: str, ids: Sequence[str]) -> dict[str, Sequence[Source]]:
        found = await self._database.fetch(workspace, _SQL["sources"], {"workspace": workspace, "ids": list(ids)})
        sources: dict[str, builtins.list[Source]] = {}
        for memory_id, kind, source_id, quote in found:
            sources.setdefault(memory_id, []).append(Source(kind=kind, id=source_id, quote=quote))
        return dict(sources)

    async def version(self, workspace: str) -> int:
        """A number that grows with every change of memories; see `Change.decided_after`."""
        found = await self._database.fetch(workspace, _SQL["version"], {"workspace": workspace})
        return int(found[0][0])

    async def resting_on(
        self, workspace: str, kind: Literal["message", "episode", "memory"], ids: Sequence[str]
    ) -> builtins.list[Memory]:
        """The active memories that have one of these as evidence."""
        values = {"workspace": workspace, "kind": kind, "ids": list(ids)}
        found = await self._database.fetch(workspace, _SQL["from_sources"], values)
        return await self.list(workspace, Filters(ids=[row[0] for row in found]), limit=max(1, len(found)))

    async def same_text(self, workspace: str, contents: Sequence[str], kinds: Sequence[str]) -> dict[str, str]:
        """Active memories that say exactly one of `contents`: `{content: memory_id}`."""
        found = await self._database.fetch(
            workspace, _SQL["same_text"], {"workspace": workspace, "contents": list(contents), "kinds": list(kinds)}
        )
        return dict(found)

    async def update(
        self, /, workspace: str, memory_id: str, *, actor: str = "", reason: str = "", **values: Any
    ) -> Memory:
        """Change fields of one memory; its earlier wording stays in the history.

        Raises:
            InputError: A field is unknown or may not be changed, or a value does not fit.
            NotFoundError: There is no such memory.
        """
        unknown = sorted(set(values) - CHANGEABLE)
        if unknown:
            raise InputError(
                f"cannot change {', '.join(unknown)}; what can be changed: {', '.join(sorted(CHANGEABLE))}"
            )
        before = await self.get(workspace, memory_id)
        after = Memory.model_validate(before.model_dump() | values | {"updated_at": present()})
        changes.check([after])
        embedder = await self._serving.embedder(workspace)
        reindex = any(getattr(before, name) != getattr(after, name) for name in _INDEXED)
        vectors = await embedder.embed([changes.searched_text(after)], "passage") if reindex else None
        async with self._database.transaction(workspace, actor=actor, reason=reason) as conn:
            values = {"workspace": workspace, "row": Jsonb(rows.from_memory(workspace, after, 0))}
            updated = await (await conn.execute(_SQL["update_memory"], values)).fetchone()
            if updated is None:
                raise NotFoundError(f"memory '{memory_id}' of workspace '{workspace}' was erased meanwhile")
            if vectors is not None:
                await self._reindex(conn, workspace, updated[0], before, after, vectors, embedder.name)
        return after

    async def _reindex(
        self,
        conn: AsyncConnection[Any],
        workspace: str,
        document_id: int,
        before: Memory,
        after: Memory,
        vectors: Vectors,
        model: str,
    ) -> None:
        state = await index.begin(conn, workspace, "memory", count=0)
        await index.remove(conn, workspace, [document_id])
        await index.count(conn, workspace, "memory", removed=[index.weigh(changes.lexical_fields(before))])
        await changes.write_index(conn, workspace, [(after, document_id)], vectors, state, model)

    async def delete(
        self, workspace: str, memory_ids: Sequence[str], *, erase: bool = False, actor: str = "", reason: str = ""
    ) -> int:
        """Take memories out of use, or with `erase` out of the database. Returns how many there were."""
        if erase:
            return await erase_memories(self._database, workspace, memory_ids)
        found = await self.list(workspace, Filters(ids=list(memory_ids)), limit=len(memory_ids))
        close = [Close(m.memory_id, "deleted") for m in found]
        if close:
            await self.apply(workspace, Change(close=close), actor=actor, reason=reason)
        return len(close)

    async def history(self, workspace: str, memory_id: str) -> builtins.list[HistoryEntry]:
        """Every change of one memory, oldest first.

        Raises:
            NotFoundError: Nothing is known of that id.
        """
        found = await self._database.fetch(workspace, _SQL["history"], {"workspace": workspace, "id": memory_id})
        if not found:
            raise NotFoundError(
                f"workspace '{workspace}' has no memory '{memory_id}', and never had (or it was erased)"
            )
        names = ("operation", "changed_at", "changed_by", "reason", "before", "after")
        return [HistoryEntry.model_validate(dict(zip(names, row, strict=True))) for row in found]

    async def evidence(self, workspace: str, memory_id: str) -> builtins.list[Evidence]:
        """What a memory rests on, in words, oldest first; empty for one that was told outright."""
        found = await self._database.fetch(workspace, _SQL["evidence"], {"workspace": workspace, "id": memory_id})
        names = ("kind", "id", "text", "at", "by")
        return [Evidence.model_validate(dict(zip(names, row, strict=True))) for row in found]

    async def as_of(self, workspace: str, moment: datetime, *, held_at: datetime | None = None) -> builtins.list[Memory]:
        """The memories as they were known at `moment`, word for word; with `held_at`, those that hold at that time."""
        columns = rows.select(rows.COLUMNS, "m")
        statement = (
            f"select {columns} from reme.memory_as_of(%(workspace)s, %(moment)s, %(held_at)s) m order by recorded_at"
        )
        values = {"workspace": workspace, "moment": moment, "held_at": held_at}
        return [rows.to_memory(workspace, row) for row in await self._database.fetch(workspace, statement, values)]
