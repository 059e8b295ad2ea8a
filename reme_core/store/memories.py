"""Memories in Postgres: adding, reading, changing, closing and erasing them."""

from __future__ import annotations

import builtins  # in the class, `list` is its method
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal, Unpack

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from reme_core.errors import EmbeddingModelError, InputError, NotFoundError
from reme_core.marks import with_values
from reme_core.models.base import Embedder, Vectors
from reme_core.postgres.database import Database
from reme_core.store import change as changes
from reme_core.store import rows
from reme_core.store.change import Change, Close, Version
from reme_core.store.erasure import EraseWaiting, erase_as_told, erase_memories
from reme_core.store.filters import FilterOptions, Filters
from reme_core.store.index import hnsw, postings
from reme_core.store.index.embedders import WorkspaceModels, unit_vectors
from reme_core.store.index.writer import IndexWriter, begin
from reme_core.store.seen_again import addition, read_back
from reme_core.store.sql import load
from reme_core.store.undo import Undone, earlier_state, restore_states, undo_last
from reme_core.text.redact import redact
from reme_core.types import SCOPES, Evidence, HistoryEntry, Kind, Memory, Scope, Status
from reme_core.types import now as present

_SQL = load("memory.sql")

CHANGEABLE = frozenset(
    {"kind", "subject", "when_to_use", "content", "keywords", "importance", "score", "observed_at", "valid_from",
     "valid_until", "author", "metadata", *SCOPES}
)  # fmt: skip
# If one of these was changed meanwhile, an update is decided again.
_DECIDED_BY = CHANGEABLE | {"status"}


def _ids(given: str | Sequence[str]) -> Sequence[str]:
    """One id or several, as several."""
    ids = [given] if isinstance(given, str) else given
    if not isinstance(ids, Sequence) or not all(isinstance(one, str) for one in ids):
        raise InputError(f"a memory is named by its memory_id, a text, not by {given!r:.60}")
    return ids


class Memories:
    """The memories of all workspaces; every method names the one it works in."""

    def __init__(
        self,
        database: Database,
        workspace_models: WorkspaceModels,
        *,
        on_growth: Callable[[str], None],
        on_erase: EraseWaiting,
    ) -> None:
        """`on_growth` is called with a workspace whose index should be updated; for `on_erase` see `erase_memories`."""
        self._database = database
        self._workspace_models = workspace_models
        self._on_growth = on_growth
        self._on_erase = on_erase

    async def add(
        self,
        workspace: str,
        memories: str | Memory | Sequence[str | Memory],
        *,
        kind: str = Kind.CUSTOM,
        embeddings: Sequence[Sequence[float]] | Vectors | None = None,
        actor: str = "",
        reason: str = "",
        **scope: Unpack[Scope],
    ) -> list[Memory]:
        """Store memories, all or none. A memory that the workspace has already is counted as seen again (`seen_count`).

        Args:
            workspace: The workspace; it is created by its first use.
            memories: Texts, or complete `Memory` objects. One with a `memory_id` of its own is always new.
            kind: The kind of plain texts.
            embeddings: Their vectors, shape (number of memories, width of the workspace's model); without them, the
                memories are embedded.
            actor: Who adds them, for the history.
            reason: Why, for the history.
            scope: The `user_id`, `agent_id` and `run_id` of memories that do not name their own.

        Returns:
            The memories as they are stored; `seen_count` is above 1 for one that the workspace had already.

        Raises:
            InputError: A memory has no text, or holds something that Postgres cannot store.
            ConflictError: A `memory_id` exists already in the workspace.
        """
        given = [memories] if isinstance(memories, str | Memory) else memories
        if isinstance(given, Mapping) or not isinstance(given, Iterable):
            raise InputError(f"memories are texts or Memory objects, one or a list of them, not {given!r:.80}")
        full = [Memory(kind=kind, content=m) if isinstance(m, str) else m for m in given]
        if wrong := [m for m in full if not isinstance(m, Memory)]:
            raise InputError(f"a memory is a text or a Memory, not {wrong[0]!r:.80}")
        full = redact(rows.within_scope(full, scope), self._database.settings.redact)
        stored: builtins.list[Memory] = []
        # A caller's vectors fit the model that the workspace has now, and no model that it is moved to meanwhile.
        expected = (await self._workspace_models.embedder(workspace)).name if embeddings is not None else ""

        async def embed(embedder: Embedder) -> Vectors:
            if embeddings is None:
                return await changes.vectors_of(full, embedder, {})
            if embedder.name != expected:
                raise EmbeddingModelError(
                    f"workspace '{workspace}' was moved from '{expected}' to '{embedder.name}' meanwhile; make the "
                    "embeddings anew"
                )
            return unit_vectors(embeddings, len(full), embedder)

        async def add_new(conn: AsyncConnection[Any], vectors: Vectors, model: str) -> IndexWriter:
            adding = await addition(conn, workspace, full)
            index = await changes.apply(conn, workspace, adding.change, vectors[adding.new], model=model)
            stored[:] = await read_back(conn, workspace, adding.ids)  # all, since `_write` may try again
            return index

        await self._write(workspace, full, embed, add_new, actor=actor, reason=reason)
        return stored

    async def apply(self, workspace: str, change: Change, *, actor: str = "", reason: str = "") -> None:
        """Apply a change in one transaction, with what it erases. New memories are embedded before it.

        Raises:
            InputError: A memory cannot be stored as it is.
            ConflictError: The stored memories or messages are not as the change expects; nothing was changed.
        """
        change = replace(change, add=redact(change.add, self._database.settings.redact))

        async def work(conn: AsyncConnection[Any], vectors: Vectors, model: str) -> IndexWriter:
            index = await changes.apply(conn, workspace, change, vectors, model=model)
            await erase_as_told(conn, workspace, change.erase, self._on_erase)
            return index

        await self._write(
            workspace,
            change.add,
            lambda embedder: changes.vectors_of(change.add, embedder, change.embedded),
            work,
            actor=actor,
            reason=reason,
        )

    async def _write(
        self,
        workspace: str,
        added: Sequence[Memory],
        embed: Callable[[Embedder], Awaitable[Vectors]],
        work: Callable[[AsyncConnection[Any], Vectors, str], Awaitable[IndexWriter]],
        *,
        actor: str,
        reason: str,
    ) -> None:
        """Do `work` in one transaction, with the vectors of the memories that it may add, and their model's name."""
        changes.check(added)

        async def carry_out(embedder: Embedder) -> IndexWriter:
            vectors = await embed(embedder)
            async with self._database.write_transaction(workspace, actor=actor, reason=reason) as conn:
                return await work(conn, vectors, embedder.name)

        found = await self._workspace_models.with_embedder(workspace, carry_out)
        if added and self._wants_upkeep(found, len(added)):
            self._on_growth(workspace)

    def _wants_upkeep(self, found: IndexWriter, added: int) -> bool:
        scanned = 0 if found.hnsw else found.documents + added  # documents that a recall scans without an index
        is_large = scanned >= self._database.settings.recall.exact_below
        is_behind = found.is_behind or (found.hnsw and added > hnsw.INSERTED)
        # Each memory that was added wrote a segment at least.
        return is_large or is_behind or postings.is_due(found.documents, found.unmerged_segments + added)

    async def get(self, workspace: str, memory_id: str) -> Memory:
        """One memory with its sources.

        Raises:
            NotFoundError: The workspace has no memory of this id.
        """
        found = await self.list(workspace, Filters(ids=_ids(memory_id), status=None), limit=1)
        if not found:
            raise NotFoundError(f"workspace '{workspace}' has no memory '{memory_id}'")
        return found[0]

    async def list(
        self,
        workspace: str,
        filters: Filters | None = None,
        *,
        kind: str | Sequence[str] | None = None,
        limit: int = 100,
        offset: int = 0,
        **options: Unpack[FilterOptions],
    ) -> builtins.list[Memory]:
        """Memories that pass the filters (those of `recall`, or one `Filters`), last stored first, with their sources.

        Raises:
            InputError: A filter does not fit, or is one of messages alone, or `limit` or `offset` is negative.
        """
        if limit < 0 or offset < 0:
            raise InputError(f"limit and offset are 0 or more, not {limit} and {offset}")
        filters = Filters.of_given(filters, kind, options)
        if filters.session_id is not None:
            raise InputError("messages have a session, memories have none; leave out session_id, or use messages.list")
        # In the order in which they were stored, which an index has. That index knows nothing of filters, and would be
        # read to its end where few pass; so what passes them is found by other indexes, and sorted.
        place = "m.document_id" if filters == Filters() else "m.document_id + 0"
        conditions = " and ".join(["m.workspace_id = %(workspace)s", *filters.on_memory()])
        statement = f"select {rows.SELECTED} from {filters.memories} m where {conditions}"
        page = f"order by {place} desc limit %(limit)s offset %(offset)s"
        values = {"workspace": workspace, "limit": limit, "offset": offset, **filters.parameters()}
        return await fetch_memories(self._database, workspace, f"{statement} {page}", values)

    async def version(self, workspace: str) -> Version:
        """The state of the memories, which each change and each erasure changes; for `Change.expected_version`."""
        (found,) = await self._database.fetch(workspace, _SQL["version"], {"workspace": workspace})
        return Version(*found)

    async def from_source(
        self, workspace: str, kind: Literal["message", "episode", "memory"], ids: str | Sequence[str]
    ) -> builtins.list[Memory]:
        """The active memories that have this message, episode or memory, or one of several, as evidence."""
        values = {"workspace": workspace, "kind": kind, "ids": [ids] if isinstance(ids, str) else list(ids)}
        found = await self._database.fetch(workspace, _SQL["from_sources"], values)
        return await self.list(workspace, Filters(ids=[row[0] for row in found]), limit=len(found)) if found else []

    async def scopes(self, workspace: str) -> builtins.list[Scope]:
        """The scopes that have active memories: each person, agent and run that occur together."""
        found = await self._database.fetch(workspace, _SQL["scopes"], {"workspace": workspace})
        return [{"user_id": user, "agent_id": agent, "run_id": run} for user, agent, run in found]

    async def update(
        self, /, workspace: str, memory_id: str, *, actor: str = "", reason: str = "", **values: Any
    ) -> Memory:
        """Change fields of one memory; its earlier wording stays in the history.

        Raises:
            InputError: A field is unknown or may not be changed, or a value does not fit.
            NotFoundError: There is no such memory, or it was deleted.
        """
        if unknown := ", ".join(sorted(set(values) - CHANGEABLE)):
            raise InputError(f"cannot change {unknown}; what can be changed: {', '.join(sorted(CHANGEABLE))}")

        async def change(embedder: Embedder) -> Memory:
            # The memory is embedded outside of the transaction, which would hold the write lock for all that time. If
            # another process changes the memory meanwhile, all is done again.
            while True:
                before = await self.get(workspace, memory_id)
                if before.status == Status.DELETED:
                    # It would stay deleted, and `restore` would then take back this change in place of the deletion.
                    raise NotFoundError(f"memory '{memory_id}' was deleted; restore it before you change it")
                after = redact(with_values(before, values), self._database.settings.redact)
                if after == before:
                    return before
                after.updated_at = present()
                changes.check([after])
                reindex = changes.is_found_otherwise(before, after)
                vector = await embedder.embed([changes.searched_text(after)], "passage") if reindex else None
                async with self._database.write_transaction(workspace, actor=actor, reason=reason) as conn:
                    index = await begin(conn, workspace, "memory", model=embedder.name)
                    if await _replace(index, before, after, vector):
                        return after

        return await self._workspace_models.with_embedder(workspace, change)

    async def delete(
        self, workspace: str, memory_ids: str | Sequence[str], *, erase: bool = False, actor: str = "", reason: str = ""
    ) -> int:
        """Close one memory or several as deleted, or with `erase` remove them from the database.

        Recall finds them no more. If a memory is a message word for word, or a correction of one, recall does not find
        that message either, until the memory is restored.

        Erasing leaves no trace of their texts, whoever said them. It also erases the memories that were concluded from
        them, and the words of the messages that are their evidence; see `reme_core.store.erasure`. Only what names
        something stays as it is: ids, and the keys and namespaces of items. A memory that a load removed is erased
        from the history.

        Returns:
            How many were deleted or erased. Ids of no memory (without `erase`), or of one that is deleted already, are
            ignored.

        Raises:
            NotFoundError: `erase` is set and a memory does not exist; nothing was erased.
        """
        ids = _ids(memory_ids)
        if erase:
            return await erase_memories(self._database, workspace, ids, self._on_erase)
        async with self._database.write_transaction(workspace, actor=actor, reason=reason) as conn:
            closing = [Close(memory_id, "deleted") for memory_id in dict.fromkeys(ids)]
            closed = await changes.close(conn, workspace, closing)
            await conn.execute(_SQL["forget_quoted"], {"workspace": workspace, "ids": list(closed)})
            return len(closed)

    async def history(self, workspace: str, memory_id: str) -> builtins.list[HistoryEntry]:
        """Every change of one memory, oldest first.

        Raises:
            NotFoundError: No memory of this id has a history.
        """
        found = await self._database.fetch(workspace, _SQL["history"], {"workspace": workspace, "id": memory_id})
        if not found:
            raise NotFoundError(
                f"workspace '{workspace}' has no memory '{memory_id}', and never had (or it was erased)"
            )
        # The statements here and below have their columns in the order of the fields.
        return [HistoryEntry(**dict(zip(HistoryEntry.model_fields, row, strict=True))) for row in found]

    async def restore(
        self, workspace: str, memory_id: str, *, number: int | None = None, actor: str = "", reason: str = ""
    ) -> Memory:
        """Bring a memory back to a state in its history, even if it is closed or a load removed it.

        It is the state after the change of this `number` in its `history`; by default the one before its last change.

        Raises:
            NotFoundError: There is no such memory, or no such change of it.
            InputError: There is no earlier state.
            ConflictError: The memory was changed meanwhile, or something was erased.
        """
        version = await self.version(workspace)
        states = {memory_id: earlier_state(await self.history(workspace, memory_id), number)}
        told = {"actor": actor, "reason": reason or "restored"}
        await self._workspace_models.with_embedder(
            workspace, lambda embedder: restore_states(self._database, workspace, states, version, embedder, **told)
        )
        return await self.get(workspace, memory_id)

    async def undo(self, workspace: str, *, actor: str = "", reason: str = "") -> Undone:
        """Undo the last change of several memories: a load, a deletion, a summary. A second undo redoes it.

        Memories that it added are closed as deleted; those that it changed, closed or removed become what they were
        before. Messages stay as they are.

        Raises:
            NotFoundError: There is no such change.
            ConflictError: One of these memories was changed after it.
        """
        return await self._workspace_models.with_embedder(
            workspace, lambda embedder: undo_last(self._database, workspace, embedder, actor=actor, reason=reason)
        )

    async def evidence(self, workspace: str, memory_id: str) -> builtins.list[Evidence]:
        """The evidence of a memory with its words, oldest first; empty for a memory that was added without sources."""
        found = await self._database.fetch(workspace, _SQL["evidence"], {"workspace": workspace, "id": memory_id})
        return [Evidence(**dict(zip(Evidence.model_fields, row, strict=True))) for row in found]

    async def as_of(
        self, workspace: str, moment: datetime, *, held_at: datetime | None = None
    ) -> builtins.list[Memory]:
        """The memories that were active at `moment`, in the words of that time.

        With `held_at`, the memories that held then, by what was known at `moment`, even if superseded by then.
        """
        known = f"select {rows.SELECTED} from reme.memory_as_of(%(workspace)s, %(moment)s, %(held_at)s) m"
        values = {"workspace": workspace, "moment": moment, "held_at": held_at}
        found = await self._database.fetch(workspace, f"{known} order by recorded_at", values)
        return [rows.to_memory(workspace, row) for row in found]


async def _replace(index: IndexWriter, before: Memory, after: Memory, vector: Vectors | None) -> bool:
    """Write a changed memory. If it was changed since `before` was read, write nothing and return False."""
    values = {"workspace": index.workspace, "ids": [before.memory_id]}
    # In binary, as `before` was read: so equal values are loaded as equal ones.
    found = await (await index.conn.execute(f"{rows.BY_IDS} for update", values, binary=True)).fetchone()
    if found is None:
        raise NotFoundError(f"memory '{before.memory_id}' of workspace '{index.workspace}' was erased meanwhile")
    document_id, current = found[0], rows.to_memory(index.workspace, found[1:])
    if any(getattr(current, name) != getattr(before, name) for name in _DECIDED_BY):
        return False
    await index.conn.execute(_SQL["update_memory"], values | {"row": Jsonb(rows.from_memory(after))})
    if vector is not None:
        await changes.reindex(index, before, after, document_id, vector)
    return True


async def fetch_memories(
    database: Database, workspace: str, statement: str, values: Mapping[str, Any]
) -> builtins.list[Memory]:
    """The memories whose rows (of `rows.COLUMNS`) a statement gives, with their sources."""
    found = await database.fetch(workspace, statement, values)
    if not found:
        return []
    ids = {"workspace": workspace, "ids": [row[0] for row in found]}
    return rows.to_memories(workspace, found, await database.fetch(workspace, _SQL["sources"], ids))
