"""Loads a library in three steps: read and check all of it, embed all of it, then store it in one transaction.

The file is read once for each step and the vectors wait in a temporary file, so that a file of millions of rows is
never in memory as a whole.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any, BinaryIO

import anyio.to_thread
import numpy as np
from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from reme_core.errors import InputError, LibraryError
from reme_core.models.base import Embedder, Vectors
from reme_core.postgres.database import Database
from reme_core.store import change, rows, tool_calls
from reme_core.store.index.writer import begin
from reme_core.store.libraries.calls import take_calls
from reme_core.store.libraries.format import bad_line, read_lines
from reme_core.store.sql import load
from reme_core.text.redact import redact
from reme_core.types import Memory

_SQL = load("workspace.sql")
_VERSION = load("memory.sql")["version"]
_BATCH = 1_000  # memories in memory at a time

Numbered = list[tuple[int, Memory]]


async def load_library(
    database: Database,
    workspace: str,
    path: Path,
    embedder: Embedder,
    *,
    replace: bool,
    on_progress: Callable[[int, int], None] | None,
) -> int:
    """Load a library; see `Workspaces.load`."""
    with _open(path) as file, tempfile.TemporaryFile(prefix="reme-vectors-") as spool:
        before = _file_stamp(file)
        batches = partial(_batches, file, path, database.settings.redact)
        total = await _count(batches(), path)
        width = await _embed(batches(), embedder, spool, total, on_progress)
        spool.seek(0)
        async with database.write_transaction(workspace, actor="load", reason=f"loaded from {path.name}") as conn:
            if replace:
                await _drop_memories(conn, workspace)
            async for batch in batches():
                if _file_stamp(file) != before:
                    break  # there may be more memories than vectors
                vectors = await anyio.to_thread.run_sync(_read_vectors, spool, len(batch), width)
                index = await begin(conn, workspace, "memory", count=len(batch), model=embedder.name)
                memories = [memory for _, memory in batch]
                if not replace:
                    await _drop_same(conn, workspace, [memory.memory_id for memory in memories])
                await tool_calls.insert(conn, workspace, _calls_in(path, batch))
                await change.insert(index, memories, vectors)  # new ids only, unless the file was changed; see below
            # Each step reads the file anew: after a change, vectors would stand with other memories.
            if _file_stamp(file) != before:
                raise LibraryError(f"{path} was changed while it was read; nothing was loaded", path=str(path))
    return total


async def _count(batches: AsyncIterator[Numbered], path: Path) -> int:
    """How many memories there are, after a check that no two have one id."""
    known = set[str]()
    async for batch in batches:
        for number, memory in batch:
            if memory.memory_id in known:
                raise bad_line(
                    path, number, f"memory_id '{memory.memory_id}' stands on an earlier line too; change one"
                )
            known.add(memory.memory_id)
    return len(known)


async def _embed(
    batches: AsyncIterator[Numbered],
    embedder: Embedder,
    spool: IO[bytes],
    total: int,
    on_progress: Callable[[int, int], None] | None,
) -> int:
    """Embed all memories, and write their vectors to the spool in this order; returns the width of the vectors."""
    done = width = 0
    async for batch in batches:
        for start in range(0, len(batch), 100):  # in parts, so that progress can be shown
            part = batch[start : start + 100]
            vectors = await embedder.embed([change.searched_text(memory) for _, memory in part], "passage")
            width = vectors.shape[1]
            spool.write(np.ascontiguousarray(vectors, dtype=np.float32).tobytes())
            done += len(part)
            if on_progress is not None:
                on_progress(done, total)
    return width


def _calls_in(path: Path, batch: Numbered) -> list[tool_calls.Call]:
    """The calls of tools that memories have; they are removed from the memories."""
    calls = []
    for number, memory in batch:
        try:
            calls += take_calls(memory)
        except InputError as error:
            raise bad_line(path, number, str(error)) from None
    return calls


async def _drop_memories(conn: AsyncConnection[Any], workspace: str) -> None:
    values: dict[str, Any] = {"workspace": workspace}
    # Inserts outside of the HNSW index are many times faster. `Workspaces.load` puts the workspace into it again.
    await conn.execute(_SQL["scan_exactly"], values)
    after = 0
    # The history gets what a statement removes as one array, and Postgres has none beyond 1 GB.
    while found := await (await conn.execute(_SQL["next_ids"], values | {"after": after, "count": _BATCH})).fetchall():
        await _drop(conn, workspace, [memory_id for memory_id, _ in found])
        after = found[-1][1]
    for statement in ("drop_memory_vectors", "drop_memory_postings", "drop_memory_statistic"):
        await conn.execute(_SQL[statement], values)


async def _drop(conn: AsyncConnection[Any], workspace: str, ids: Sequence[str]) -> None:
    """Remove these memories; the history keeps them with their evidence, so a load can be undone."""
    values: dict[str, Any] = {"workspace": workspace, "ids": list(ids)}
    evidence = await (await conn.execute(_SQL["evidence"], values)).fetchall()
    values["version"], _ = await (await conn.execute(_VERSION, values)).fetchone() or (0, None)
    await conn.execute(_SQL["drop_memories"], values)
    if evidence:
        await conn.execute(_SQL["keep_evidence"], values | {"evidence": Jsonb(dict(evidence))})


async def _drop_same(conn: AsyncConnection[Any], workspace: str, ids: Sequence[str]) -> None:
    values = {"workspace": workspace, "ids": list(ids)}
    found = await (await conn.execute(rows.BY_IDS, values)).fetchall()
    if found:
        same = {number: rows.to_memory(workspace, row) for number, *row in found}
        await change.unindex(conn, workspace, same, without_trace=False)
        await _drop(conn, workspace, ids)


def _open(path: Path) -> BinaryIO:
    try:
        file = path.open("rb")
    except OSError as error:
        raise LibraryError(f"cannot read {path}: {error.strerror}", path=str(path)) from None
    if not file.seekable():
        file.close()
        raise LibraryError(
            f"cannot read {path}: it is no file, which can be read again; make one of it", path=str(path)
        )
    return file


async def _batches(file: BinaryIO, path: Path, redacted: Sequence[str]) -> AsyncIterator[Numbered]:
    """The memories of the file from its beginning, with their line numbers; a thread parses them."""
    file.seek(0)
    lines: Iterator[tuple[int, Memory]] = read_lines(file, path)
    while batch := await anyio.to_thread.run_sync(_next_batch, lines, path, redacted):
        yield batch


def _next_batch(lines: Iterator[tuple[int, Memory]], path: Path, redacted: Sequence[str]) -> Numbered:
    try:
        return [(n, redact(memory, redacted)) for n, memory in islice(lines, _BATCH)]
    except OSError as error:  # a disk or a share that fails while it is read
        raise LibraryError(f"cannot read {path}: {error.strerror}", path=str(path)) from None


def _read_vectors(spool: IO[bytes], count: int, width: int) -> Vectors:
    return np.frombuffer(spool.read(count * width * 4), dtype=np.float32).reshape(count, width)


def _file_stamp(file: BinaryIO) -> tuple[int, int]:
    """Size and time of change of a file, which differ once another process has written to it."""
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns
