"""Whole workspaces: listing, loading, dumping, copying, clearing, and moving to another embedding model."""

from __future__ import annotations

import builtins
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from string import Template
from typing import IO, Any, Final

import anyio.to_thread
from psycopg import AsyncConnection, sql

from reme_core.errors import ConflictError, InputError, NotFoundError
from reme_core.models import Embedder
from reme_core.schema import Source, new_id
from reme_core.store import hnsw, postings, rows
from reme_core.store.database import Database, check_workspace
from reme_core.store.libraries import library_path, to_line
from reme_core.store.loading import load_library
from reme_core.store.reembed import drop_old_vectors, reembed
from reme_core.store.serving import Serving
from reme_core.store.session import TAKE_TURN
from reme_core.store.sql import load

Progress = Callable[[int, int], None]
"""Told of progress: how much is done, and how much there is."""

_SQL = load("workspace.sql")
_DUMP_ROWS = 1_000  # fetched, and written to the file, at once

_NOT_COPIED: Final = {
    "workspace",  # has a row of its own
    "retrieval", "retrieval_hit", "model_call", "job_error",  # tell what was done with the original
}  # fmt: skip
_WITHOUT_WORKSPACE_KEY: Final = ("embedding", "posting", "corpus_statistic", "model_call")
"""Tables whose rows do not go with their workspace by themselves."""


@dataclass(frozen=True, slots=True)
class WorkspaceInfo:
    """What a workspace holds, and what finds it."""

    workspace_id: str
    embedding_model: str | None
    dimensions: int | None
    hnsw: bool
    created_at: datetime
    memories: int
    """Active memories."""
    closed_memories: int
    messages: int
    episodes: int


@dataclass(frozen=True, slots=True)
class ModelUse:
    """What one model did for one purpose."""

    model: str
    purpose: str
    """The op that asked, such as `embed_passage` or `get_observation`."""
    calls: int
    failed: int
    prompt_tokens: int
    completion_tokens: int
    seconds: float


class Workspaces:
    """The workspaces of one database."""

    def __init__(self, database: Database, serving: Serving) -> None:
        self._database = database
        self._serving = serving

    async def list(self) -> builtins.list[str]:
        """The names of all workspaces, in order."""
        async with self._database.maintenance() as conn:
            return [row[0] for row in await (await conn.execute(_SQL["names"])).fetchall()]

    async def describe(self) -> builtins.list[WorkspaceInfo]:
        """What each workspace holds, in the order of their names."""
        async with self._database.maintenance() as conn:
            return [WorkspaceInfo(*row) for row in await (await conn.execute(_SQL["described"])).fetchall()]

    async def spent(self, workspace: str, *, since: datetime | None = None) -> builtins.list[ModelUse]:
        """What models did for a workspace, in whatever process: from the log of model calls, the dearest first.

        Args:
            workspace: For which.
            since: Only from then on; default everything that is logged.
        """
        values = {"workspace": workspace, "since": since}
        return [ModelUse(*row) for row in await self._database.fetch(workspace, _SQL["spent"], values)]

    async def load(
        self, workspace: str, path: Path | str, *, replace: bool = True, on_progress: Progress | None = None
    ) -> int:
        """Load memories from a JSONL library, all of them or none.

        The whole file is read and checked, and its memories are embedded, before the workspace is touched; they then
        go in by one transaction, so that neither a broken line nor a killed process leaves half of them. Loading the
        same file again changes nothing.

        Args:
            workspace: Where to; the `workspace_id` in the file doesn't count.
            path: The file, or a folder that holds `<workspace>.jsonl`.
            replace: Put them in the place of the memories that the workspace has. Without it those stay, apart from
                ones of the same `memory_id`. Messages and episodes always stay.
            on_progress: Told of the memories embedded, and how many there are.

        Returns:
            How many memories were loaded.

        Raises:
            LibraryError: The file is not there, or a line cannot be read; it says which, and why.
        """
        check_workspace(workspace)
        path = library_path(path, workspace)
        loaded = await self._serving.with_embedder(
            workspace,
            lambda embedder: load_library(
                self._database, workspace, path, embedder, replace=replace, on_progress=on_progress
            ),
        )
        await self._see_to_index(workspace)
        return loaded

    async def dump(self, workspace: str, path: Path | str) -> int:
        """Write a workspace's memories to a JSONL library, in the order in which they came; see `libraries`.

        Closed memories go along, with what closed them; those that a user deleted do not. The file appears whole, or
        not at all.

        Args:
            workspace: Where from.
            path: The file, or a folder that gets `<workspace>.jsonl`.

        Returns:
            How many memories were written.

        Raises:
            NotFoundError: There is no such workspace.
            InputError: The file cannot be written.
        """
        path = library_path(path, workspace)
        async with self._database.transaction(workspace) as conn:
            await _require(conn, workspace)
            async with _replaced(path) as file:
                return await _dump(conn, workspace, file)

    async def copy(self, source: str, target: str, *, replace: bool = False) -> int:
        """Make `target` a twin of `source`, inside the database and without embedding anything.

        Memories come with sources, history and vectors; messages, episodes and what else belongs to the workspace come
        as well. The logs of recalls, model calls and failed jobs tell of the original and stay with it.

        Args:
            source: The workspace to copy.
            target: The new one.
            replace: Clear `target` first, if it holds anything.

        Returns:
            How many memories were copied.

        Raises:
            NotFoundError: There is no workspace `source`.
            ConflictError: `target` holds something already.
        """
        if check_workspace(source) == check_workspace(target):
            raise InputError(f"workspace '{source}' cannot be copied onto itself")
        async with self._database.maintenance() as conn:
            for name in sorted((source, target)):
                await conn.execute(TAKE_TURN, [name])
            await _require(conn, source)
            if await _holds(conn, "has_content", target):
                if not replace:
                    raise ConflictError(f"workspace '{target}' is not empty; clear it first, or replace it")
                await _clear(conn, target)
            copied = await _copy(conn, source, target)
        self._serving.forget(target)
        await self._see_to_index(target)
        return copied

    async def clear(self, workspace: str) -> int:
        """Remove a workspace with all that belongs to it, logs and history too; returns how many memories it had."""
        async with self._database.writing(workspace) as conn:
            removed = await _clear(conn, workspace)
        self._serving.forget(workspace)
        return removed

    async def schedule(self, workspace: str, *, reflect_every_hours: float | None) -> None:
        """Say how often this workspace is reflected upon, whatever the others do.

        Args:
            workspace: Which.
            reflect_every_hours: Hours between two reflections; 0 is never, None as often as the settings say
                (`worker.reflect_every_hours`).

        Raises:
            InputError: The hours are negative, or no number.
        """
        if reflect_every_hours is not None and not 0 <= reflect_every_hours < float("inf"):
            raise InputError(f"reflect_every_hours has to be 0 (never) or more, not {reflect_every_hours}")
        values = {"workspace": workspace, "hours": reflect_every_hours}
        await self._database.execute(workspace, _SQL["schedule"], values)

    async def reembed(
        self, workspace: str, embedder: Embedder | None = None, *, on_progress: Progress | None = None
    ) -> int:
        """Move a workspace to another embedding model, by default the configured one; the old one serves meanwhile.

        When it was interrupted, it goes on where it stopped. The old vectors stay for those who still search by them;
        `drop_old_vectors` removes them.

        Returns:
            How many vectors were made.
        """
        embedder = embedder or self._serving.default
        self._serving.know(embedder)
        made = await reembed(self._database, workspace, embedder, on_progress=on_progress)
        self._serving.forget(workspace)
        return made

    async def drop_old_vectors(self, workspace: str) -> int:
        """Remove the vectors of models that do not serve the workspace (any more); returns how many there were.

        Other processes may search by the old ones for a few seconds after a move.
        """
        return await drop_old_vectors(self._database, workspace)

    async def _see_to_index(self, workspace: str) -> None:
        await hnsw.ensure(self._database, workspace, exact_below=self._database.settings.recall.exact_below)
        await postings.merge(self._database, workspace)
        self._serving.forget(workspace)


async def _dump(conn: AsyncConnection[Any], workspace: str, file: IO[str]) -> int:
    statement = Template(_SQL["dump"]).substitute(columns=rows.select(rows.COLUMNS, "m"))
    written = 0

    def write(found: list[tuple[Any, ...]]) -> None:
        for *row, sources in found:
            evidence = [Source(kind=kind, id=source_id, quote=quote) for kind, source_id, quote in sources]
            file.write(to_line(rows.to_memory(workspace, row, evidence)) + "\n")

    async with conn.cursor(name="dump", binary=True) as cursor:
        await cursor.execute(statement, {"workspace": workspace})
        while found := await cursor.fetchmany(_DUMP_ROWS):
            await anyio.to_thread.run_sync(write, found)
            written += len(found)
    return written


@asynccontextmanager
async def _replaced(path: Path) -> AsyncIterator[IO[str]]:
    """A file that takes the place of `path` when it is complete, and leaves no trace if it never is."""
    part = path.with_name(f".{path.name}.{new_id()}.part")
    try:
        file = await anyio.to_thread.run_sync(lambda: part.open("w", encoding="utf-8", newline="\n"))
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None
    try:
        with file:
            yield file
            file.flush()
            await anyio.to_thread.run_sync(os.fsync, file.fileno())
        part.replace(path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None
    finally:
        part.unlink(missing_ok=True)


async def _holds(conn: AsyncConnection[Any], statement: str, workspace: str) -> bool:
    row = await (await conn.execute(_SQL[statement], {"workspace": workspace})).fetchone()
    return bool(row and row[0])


async def _require(conn: AsyncConnection[Any], workspace: str) -> None:
    if not await _holds(conn, "exists", workspace):
        raise NotFoundError(f"there is no workspace '{workspace}'; `reme workspaces` lists those there are")


async def _clear(conn: AsyncConnection[Any], workspace: str) -> int:
    """Remove everything of a workspace; its turn must be held."""
    values = {"workspace": workspace}
    await conn.execute(_SQL["lock_journal"], values)
    row = await (await conn.execute(_SQL["drop_workspace"], values)).fetchone()
    for table in _WITHOUT_WORKSPACE_KEY:
        statement = sql.SQL("delete from reme.{} where workspace_id = %(workspace)s").format(sql.Identifier(table))
        await conn.execute(statement, values)
    return int(row[0]) if row else 0


async def _copy(conn: AsyncConnection[Any], source: str, target: str) -> int:
    values = {"workspace": source, "target": target}
    await conn.execute(_SQL["begin_copy"])
    await conn.execute(_SQL["copy_workspace"], values)
    copied = 0
    for table, _, names, numbered_by in await (await conn.execute(_SQL["tables"])).fetchall():
        if table in _NOT_COPIED:
            continue
        columns = sql.SQL(", ").join(map(sql.Identifier, names))
        # Vectors of a model that does not serve are the remains of a move; an index is joined afterwards.
        chosen = sql.SQL(", ").join(
            sql.SQL("false") if (table, name) == ("embedding", "hnsw") else sql.Identifier(name) for name in names
        )
        serving = "and model = (select embedding_model from reme.workspace where workspace_id = %(workspace)s)"
        statement = sql.SQL(
            "insert into reme.{table} (workspace_id, {columns})"
            " select %(target)s, {chosen} from reme.{table} where workspace_id = %(workspace)s {serving} {ordered}"
        ).format(
            table=sql.Identifier(table),
            columns=columns,
            chosen=chosen,
            serving=sql.SQL(serving if table == "embedding" else ""),
            ordered=sql.SQL("order by {}").format(sql.Identifier(numbered_by)) if numbered_by else sql.SQL(""),
        )
        done = await conn.execute(statement, values)
        copied += done.rowcount if table == "memory" else 0
    return copied
