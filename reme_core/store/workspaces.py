"""Whole workspaces: listing, loading, dumping, copying, clearing, and moving to another embedding model."""

from __future__ import annotations

import builtins
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any, Final, Unpack

import anyio.to_thread
from psycopg import AsyncConnection, sql
from psycopg.types.json import Jsonb

from reme_core.errors import ConflictError, InputError, NotFoundError
from reme_core.models import Embedder
from reme_core.postgres.database import Database, check_workspace
from reme_core.postgres.session import WRITE_LOCK
from reme_core.settings.sections import MAX_HOURS
from reme_core.store import rows
from reme_core.store.erasure import erase_scope
from reme_core.store.index.embedders import WorkspaceModels
from reme_core.store.index.reembed import reembed
from reme_core.store.index.upkeep import update_index
from reme_core.store.libraries.calls import CALLS, call_to_wire
from reme_core.store.libraries.format import library_path, to_wire
from reme_core.store.libraries.load import load_library
from reme_core.store.sql import LOCK_LOG, WITHOUT_HISTORY, load
from reme_core.store.tool_calls import ToolCallResult, memory_without_guidance
from reme_core.text.whole_files import flush_to_disk, replacement_of
from reme_core.types import Memory, Message, Scope, Source

Progress = Callable[[int, int], None]
"""Called with progress: how much is done, and how much there is in all."""

_SQL = load("workspace.sql", columns=rows.SELECTED, call=load("workspace.sql")["call"])
_DUMP_ROWS = 1_000  # fetched, and written to the file, at once

_NOT_COPIED: Final = {
    "workspace",  # the copy gets its own row by `copy_workspace`
    "retrieval", "retrieval_hit", "model_call", "job_error",  # logs of what was done with the original
}  # fmt: skip
_COUNTED: Final = {"corpus_statistic", "episode_progress"}
"""Tables whose rows count what others hold, and stay when that has gone."""
# Items are put without the write lock: one that came after the items were copied is left out with its vectors.
_WITH_ITEM: Final = (
    "and exists (select from reme.item i where i.workspace_id = w.workspace_id and i.place = original.place)"
)
_WITHOUT_WORKSPACE_KEY: Final = ("embedding", "posting", "corpus_statistic", "model_call", "job_error")
"""Tables without a foreign key to the workspace: deleting the workspace leaves their rows."""


@dataclass(frozen=True, slots=True)
class WorkspaceInfo:
    """What a workspace holds, and by which model and index it is searched."""

    workspace_id: str
    embedding_model: str | None
    dimensions: int | None
    hnsw: bool
    created_at: datetime
    memories: int
    """Active memories."""
    closed_memories: int
    messages: int
    """Those that were erased are not counted."""
    episodes: int


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """The calls of one model for one purpose."""

    model: str
    purpose: str
    """The op that called it, such as `embed_passage` or `get_observation`."""
    calls: int
    failed: int
    prompt_tokens: int
    completion_tokens: int
    seconds: float


OnClear = Callable[[str, Scope], Awaitable[Sequence[Message]]]
"""Erases the messages that wait to be recorded in a workspace or in a scope of it, and returns them."""

OnCopy = Callable[[AsyncConnection[Any], str], Awaitable[None]]
"""Queues the work that waits in a workspace that was just copied, inside the same transaction."""


class Workspaces:
    """The workspaces of one database."""

    def __init__(
        self, database: Database, workspace_models: WorkspaceModels, *, on_clear: OnClear, on_copy: OnCopy
    ) -> None:
        self._database = database
        self._workspace_models = workspace_models
        self._on_clear, self._on_copy = on_clear, on_copy

    async def list(self) -> builtins.list[str]:
        """The names of all workspaces, in order."""
        return [row[0] for row in await self._database.execute_anywhere(_SQL["names"])]

    async def describe(self) -> builtins.list[WorkspaceInfo]:
        """What each workspace holds, in the order of their names."""
        return [WorkspaceInfo(*row) for row in await self._database.execute_anywhere(_SQL["describe"])]

    async def count_messages(self, workspace: str) -> int:
        """How many messages are recorded in a workspace, without those that were erased; 0 where there is none."""
        ((count,),) = await self._database.fetch(workspace, _SQL["count_messages"], {"workspace": workspace})
        return int(count)

    async def model_usage(self, workspace: str, *, since: datetime | None = None) -> builtins.list[ModelUsage]:
        """The models that any process called for a workspace, from the log (`since` a moment); most tokens first."""
        values = {"workspace": workspace, "since": since}
        return [ModelUsage(*row) for row in await self._database.fetch(workspace, _SQL["model_usage"], values)]

    async def load(
        self, workspace: str, path: Path | str, *, replace: bool = False, on_progress: Progress | None = None
    ) -> int:
        """Load memories from a JSONL library, all of them or none; loading the same file again changes nothing.

        First the whole file is read and checked, and its memories are embedded. Then one transaction stores them. So
        neither a bad line nor a killed process leaves a part of them.

        Args:
            workspace: The workspace to load into; the `workspace_id` in the file is not used.
            path: The file, or a folder that holds `<workspace>.jsonl`.
            replace: Remove all memories that the workspace has. By default, only those with a `memory_id` from the file
                are replaced. Messages and episodes always stay.
            on_progress: Called with the number of memories that are embedded, and the number of all.

        Returns:
            How many memories were loaded.

        Raises:
            LibraryError: The file cannot be opened, or a line cannot be read; the error says which one, and why.
        """
        check_workspace(workspace)
        path = library_path(path, workspace)
        loaded = await self._workspace_models.with_embedder(
            workspace,
            lambda embedder: load_library(
                self._database, workspace, path, embedder, replace=replace, on_progress=on_progress
            ),
        )
        await update_index(self._database, self._workspace_models, workspace)
        return loaded

    async def dump(self, workspace: str, path: Path | str) -> int:
        """Write the memories of a workspace to a JSONL library, in the order in which they were stored.

        Closed memories are written too, with what closed them; deleted ones are not. Calls of a tool go with its
        guidance; where there is none yet, with an empty memory. The file is complete when it appears; if something
        fails, there is none. If `path` is a folder, it is `<workspace>.jsonl` in it.

        Returns how many memories were written.

        Raises:
            NotFoundError: There is no such workspace.
            InputError: The file cannot be written.
        """
        path = library_path(path, workspace)
        with replacement_of(path) as file:
            # At one moment: else the calls of a tool that gets its first guidance meanwhile would be with neither.
            async with self._database.snapshot(workspace) as conn:
                await _require_workspace(conn, workspace)
                written = await _dump(conn, workspace, file)
            # A slow disk takes longer than a transaction may idle, and than the event loop may stand still. After this,
            # the end of the block has nothing left to wait for.
            await anyio.to_thread.run_sync(flush_to_disk, file)
            return written

    async def copy(self, source: str, target: str, *, replace: bool = False) -> int:
        """Make `target` a copy of `source`, inside the database and without embedding anything.

        All that belongs to the workspace is copied: memories with their sources, history and vectors, messages,
        episodes and so on. Only the logs of recalls, model calls and failed jobs are not. Conversations that wait for
        their memories are queued anew for `target`. With `replace`, what `target` holds is cleared first.

        Returns how many memories were copied.

        Raises:
            NotFoundError: There is no workspace `source`.
            ConflictError: `target` holds something already.
        """
        if check_workspace(source) == check_workspace(target):
            raise InputError(f"workspace '{source}' cannot be copied onto itself")
        async with self._database.maintenance() as conn:
            # In order: two copies between the same workspaces would else wait for each other.
            for name in sorted((source, target)):
                await conn.execute(WRITE_LOCK, [name])
            await _require_workspace(conn, source)
            if not replace and await _has_content(conn, target):
                raise ConflictError(f"workspace '{target}' is not empty; clear it first, or replace it")
            await _clear(conn, target)  # also of a workspace without content, such as its statistics and its log
            copied = await _copy(conn, source, target)
            await self._on_copy(conn, target)
        self._workspace_models.forget(target)
        await update_index(self._database, self._workspace_models, target)
        return copied

    async def clear(self, workspace: str, **scope: Unpack[Scope]) -> int:
        """Remove a workspace with all that belongs to it, including logs, history, and turns that wait to be recorded.

        What is said after the call is recorded as ever, and so may be a turn that another process is recording when the
        call is made.

        With a `user_id`, `agent_id` or `run_id`, only the memories and messages of this scope are erased, and what was
        concluded from them. What others said stays, even in the same words. Of the conversations in which this scope
        spoke, artifacts lose its words, and the log its recalls.

        Returns how many memories were removed, closed ones included.

        Raises:
            InputError: One of these names is empty.
            NotFoundError: There is no such workspace, and no turn waits to be recorded in it.
        """
        check_workspace(workspace)
        for name, value in rows.check_scope(scope).items():
            if not value:  # to leave it out would erase more than was meant
                raise InputError(f"nothing was erased: {name} is empty; name whose memory is to be erased")
        # First, so that nothing that waits is recorded again after its workspace or scope was erased.
        waiting = await self._on_clear(workspace, scope)
        if not waiting:
            async with self._database.transaction(workspace) as conn:
                await _require_workspace(conn, workspace)
        if scope:
            return await erase_scope(self._database, workspace, scope, waiting)
        async with self._database.write_transaction(workspace) as conn:
            removed = await _clear(conn, workspace)
        self._workspace_models.forget(workspace)
        return removed

    async def schedule(self, workspace: str, *, reflect_every_hours: float | None) -> None:
        """Set how often this workspace is reflected on: the hours between two reflections.

        0 means never, None what the settings say (`worker.reflect_every_hours`). It may be set before anything is
        recorded there.

        Raises:
            InputError: The hours are negative, no number, or more than a million.
        """
        if reflect_every_hours is not None and not 0 <= reflect_every_hours <= MAX_HOURS:
            raise InputError(f"reflect_every_hours is from 0 (never) to {MAX_HOURS:,}, not {reflect_every_hours}")
        values = {"workspace": workspace, "hours": reflect_every_hours}
        await self._database.execute(workspace, _SQL["schedule"], values)

    async def reembed(
        self, workspace: str, embedder: Embedder | None = None, *, on_progress: Progress | None = None
    ) -> int:
        """Move a workspace to another embedding model, by default the configured one.

        Recall uses the old model until all vectors of the new one are made. After an interruption, the next call goes
        on where the last one stopped. The old vectors stay for processes that still search by them; `drop_old_vectors`
        removes them. Returns how many vectors were made.

        Raises:
            NotFoundError: There is no such workspace.
            InputError: That is no embedding model.
        """
        check_workspace(workspace)
        if embedder is not None and not hasattr(embedder, "embed"):
            raise InputError(
                f"embedder is an object that embeds, or None for the model of the settings; not {embedder!r:.60}"
            )
        async with self._database.transaction(workspace) as conn:
            await _require_workspace(conn, workspace)
        embedder = embedder or self._workspace_models.default
        self._workspace_models.know(embedder)
        made = await reembed(self._database, workspace, embedder, on_progress=on_progress)
        self._workspace_models.forget(workspace)
        return made

    async def drop_old_vectors(self, workspace: str) -> int:
        """Remove the vectors of all models except the workspace's own; returns how many there were.

        Wait half a minute after a move: until then, other processes may search by the old model.
        """
        async with self._database.write_transaction(workspace) as conn:
            return (await conn.execute(_SQL["drop_old_vectors"], {"workspace": workspace})).rowcount


async def _dump(conn: AsyncConnection[Any], workspace: str, file: IO[bytes]) -> int:
    written = 0

    def of_memory(row: Sequence[Any]) -> Memory:
        *columns, sources = row
        evidence = [Source(kind=kind, id=source_id, quote=quote) for kind, source_id, quote in sources]
        return rows.to_memory(workspace, columns, evidence)

    def of_tool(row: Sequence[Any]) -> Memory:
        return memory_without_guidance(row[0], workspace)

    def write(found: list[tuple[Any, ...]], memory_of: Callable[[Sequence[Any]], Memory]) -> None:
        for *row, calls in found:
            wire = to_wire(memory_of(row))
            if calls:
                wire[CALLS] = [call_to_wire(ToolCallResult.model_validate(call)) for call in calls]
            file.write(json.dumps(wire, ensure_ascii=False).encode() + b"\n")

    # A cursor on the server: rows come in parts, and a large workspace is never in memory as a whole.
    for statement, memory_of in (("dump", of_memory), ("dump_calls", of_tool)):
        async with conn.cursor(name=statement, binary=True) as cursor:
            await cursor.execute(_SQL[statement], {"workspace": workspace})
            while found := await cursor.fetchmany(_DUMP_ROWS):
                await anyio.to_thread.run_sync(write, found, memory_of)
                written += len(found)
    return written


async def _require_workspace(conn: AsyncConnection[Any], workspace: str) -> None:
    if await (await conn.execute(_SQL["exists"], {"workspace": workspace})).fetchone() is None:
        raise NotFoundError(f"there is no workspace '{workspace}'; `reme workspaces` lists those there are")


async def _has_content(conn: AsyncConnection[Any], workspace: str) -> bool:
    for table, _ in await (await conn.execute(_SQL["tables"])).fetchall():
        if table in _NOT_COPIED or table in _COUNTED:
            continue
        held = sql.SQL("select from reme.{} where workspace_id = %(workspace)s limit 1").format(sql.Identifier(table))
        if await (await conn.execute(held, {"workspace": workspace})).fetchone() is not None:
            return True
    return False


async def _clear(conn: AsyncConnection[Any], workspace: str) -> int:
    """Remove everything of a workspace, whose write lock is held."""
    values = {"workspace": workspace}
    await conn.execute(LOCK_LOG, values)
    row = await (await conn.execute(_SQL["drop_workspace"], values)).fetchone()
    for table in _WITHOUT_WORKSPACE_KEY:
        statement = sql.SQL("delete from reme.{} where workspace_id = %(workspace)s").format(sql.Identifier(table))
        await conn.execute(statement, values)
    await conn.execute(_SQL["drop_jobs"], values)
    return int(row[0]) if row else 0


def _value_in_copy(table: str, column: str) -> sql.Composable:
    value = sql.Identifier("original", column)
    match table, column:
        case "embedding", "hnsw":
            return sql.SQL("false")  # the copy joins an HNSW index later
        case "memory_history", "before" | "after":  # whole rows, which name their workspace
            return sql.SQL("{} || %(named)s").format(value)
    return value


async def _copy(conn: AsyncConnection[Any], source: str, target: str) -> int:
    values: dict[str, Any] = {"workspace": source, "target": target}
    await conn.execute(WITHOUT_HISTORY)  # it is copied as it was
    found = await (await conn.execute(_SQL["original"], values)).fetchone()
    assert found is not None  # its write lock is held, and it was there
    model, settings, erased_at = found
    values |= {"model": model, "settings": Jsonb(settings), "erased_at": erased_at}
    values["named"] = Jsonb({"workspace_id": target})
    await conn.execute(_SQL["copy_workspace"], values)
    copied = 0
    for table, names in await (await conn.execute(_SQL["tables"])).fetchall():
        if table in _NOT_COPIED:
            continue
        # The copy does not get old vectors of an earlier model.
        values_of_columns = sql.SQL(", ").join(_value_in_copy(table, name) for name in names)
        # The original is read whole, then the copy is written beside the row of its workspace: the two may be on
        # different servers.
        statement = sql.SQL(
            "with original as materialized (select * from reme.{table} where workspace_id = %(workspace)s {of_model}),"
            " copied as (insert into reme.{table} (workspace_id, {columns}) overriding system value"
            " select w.workspace_id, {values} from reme.workspace w cross join original"
            " where w.workspace_id = %(target)s {with_item} returning 1) select count(*) from copied"
        ).format(
            table=sql.Identifier(table),
            columns=sql.SQL(", ").join(map(sql.Identifier, names)),
            values=values_of_columns,
            of_model=sql.SQL("and model = %(model)s" if table == "embedding" else ""),
            with_item=sql.SQL(_WITH_ITEM if table == "item_embedding" else ""),
        )
        row = await (await conn.execute(statement, values)).fetchone()
        copied += row[0] if row and table == "memory" else 0
    return copied
