"""The logs that recall and model calls leave: kept in memory for a moment, written in batches, off everybody's path.

A recall that waited for its own log entry would take twice as long. What is lost when a process is killed is at most
the last second of the *log*; memories and messages never pass through here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import asdict
from typing import Any

from psycopg.types.json import Jsonb

from reme_core.errors import ConflictError, DatabaseError
from reme_core.models import ModelCall
from reme_core.postgres.database import Database
from reme_core.store.sql import load
from reme_core.text.redact import redact
from reme_core.types import Hit, Memory, Parts, Recollection, new_id
from reme_core.types import now as present

log = logging.getLogger(__name__)

Row = dict[str, Any]

_SQL = load("log.sql")
_PAUSE_SECONDS = 0.5  # how long entries gather before they are written
_BATCH = 500  # entries a transaction
_MOST_WAITING = 10_000  # entries kept while the database is away; then the oldest go

_workspace: ContextVar[str] = ContextVar("reme_workspace", default="")


@contextlib.contextmanager
def logging_for_workspace(workspace: str) -> Iterator[None]:
    """Within this block, model calls are logged for `workspace`."""
    token = _workspace.set(workspace)
    try:
        yield
    finally:
        _workspace.reset(token)


class LogWriter:
    """Writes `retrieval`, `retrieval_hit` and `model_call` in the background."""

    def __init__(self, database: Database, *, log_retrievals: bool) -> None:
        self._database = database
        self._log_retrievals = log_retrievals
        self._waiting: list[tuple[str, str, Callable[[], Row]]] = []  # (workspace, statement, row)
        self._writer: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()
        self.listeners: list[Callable[[str, ModelCall], None]] = []
        """Told of every model call with the workspace it was made for, as it is noted."""

    def log_recall(
        self,
        recollection: Recollection,
        found: Sequence[Hit],
        *,
        min_relevance: float,
        kinds: list[str],
        flow: str,
        session_id: str,
        milliseconds: float,
    ) -> None:
        """Note what a recall found, also where it gave nothing since nothing was likely enough to fit."""
        if not self._log_retrievals:
            return
        asked = {
            "asked_at": present().isoformat(),
            "min_relevance": min_relevance,
            "kinds": kinds,
            "flow": flow,
            "session_id": session_id,
            "milliseconds": milliseconds,
        }
        # The row is made when it is written: here somebody is waiting for the answer.
        self._put(recollection.workspace_id, "insert_retrievals", lambda: _entry(recollection, found) | asked)

    def log_standing(self, workspace: str, query: str, memories: Sequence[Memory], *, session_id: str) -> Recollection:
        """Note what a note gives whatever is asked, as a recall of its own, and return that."""
        hits = [Hit(rank=rank, memory=memory, parts=Parts()) for rank, memory in enumerate(memories, 1)]
        query = redact(query, self._database.settings.redact)
        standing = Recollection(workspace_id=workspace, query=query, hits=hits)
        kinds = sorted({str(memory.kind) for memory in memories})
        self.log_recall(
            standing, hits, min_relevance=0, kinds=kinds, flow="standing", session_id=session_id, milliseconds=0
        )
        return standing

    def log_note(self, workspace: str, recalls: Sequence[Recollection], left_out: Callable[[Hit], str]) -> None:
        """Note which hits of some recalls stand in the note that was made of them, and why the others do not.

        Args:
            workspace: Whose note it is.
            recalls: What was recalled for it.
            left_out: Why a hit does not stand in it, as the column `retrieval_hit.left_out` has it; empty: it does.
        """
        if not self._log_retrievals or not recalls:
            return

        def row() -> Row:
            reasons = {r.retrieval_id: {hit.memory.memory_id: left_out(hit) for hit in r.hits} for r in recalls}
            return {"workspace_id": workspace, "note_id": new_id(), "left_out": reasons}

        self._put(workspace, "mark_notes", row)

    def log_call(self, call: ModelCall) -> None:
        """Note a model call, for the workspace that is being worked for."""
        workspace = _workspace.get()
        for listener in self.listeners:
            listener(workspace, call)
        told = redact({"raw": call.raw, "error": call.error}, self._database.settings.redact)
        entry = asdict(call) | told | {"workspace_id": workspace, "called_at": present().isoformat()}
        self._put(workspace, "insert_model_calls", lambda: {k: _clean(v) for k, v in entry.items()})

    def _put(self, workspace: str, statement: str, row: Callable[[], Row]) -> None:
        self._waiting.append((workspace, statement, row))
        if len(self._waiting) > _MOST_WAITING:
            dropped = self._waiting[: _MOST_WAITING // 10]
            del self._waiting[: len(dropped)]
            log.warning("the database takes no log entries; dropped the %d oldest", len(dropped))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.get_running_loop().create_task(self._write_soon())

    async def _write_soon(self) -> None:
        while self._waiting:
            await asyncio.sleep(_PAUSE_SECONDS)
            try:
                await self.flush()
            except (DatabaseError, ConflictError) as error:
                log.warning("log entries wait for the database: %s", error)
                return

    async def flush(self) -> None:
        """Write what waits, but for workspaces that somebody has locked. When the database is away it goes on waiting.

        Raises:
            DatabaseError: The database did not take it.
        """
        async with self._lock:
            locked: set[str] = set()
            while free := [entry for entry in self._waiting if entry[0] not in locked]:
                # A statement takes a batch of all workspaces together: one transaction each would be the whole cost.
                # By the alphabet, recalls are inserted before notes are marked on them.
                statement = min(entry[1] for entry in free)
                batch = [entry for entry in free if entry[1] == statement][:_BATCH]
                workspaces = sorted({workspace for workspace, _, _ in batch})
                async with self._database.maintenance() as conn:
                    cursor = await conn.execute(_SQL["lock_log"], {"workspaces": workspaces})
                    locked.update(workspace for (workspace,) in await cursor.fetchall())
                    batch = [entry for entry in batch if entry[0] not in locked]
                    await conn.execute(_SQL[statement], {"rows": Jsonb([row() for _, _, row in batch])})
                written = set(map(id, batch))
                self._waiting = [entry for entry in self._waiting if id(entry) not in written]

    async def aclose(self, patience: float) -> None:
        """Write what waits, if the database takes it within `patience` seconds, and stop."""
        if self._writer is not None:
            self._writer.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._writer
        if self._waiting:
            try:
                async with asyncio.timeout(patience):
                    await self.flush()
            except (DatabaseError, TimeoutError) as error:
                why = error if isinstance(error, DatabaseError) else "the database did not answer"
                log.warning("%d log entries were lost at the end: %s", len(self._waiting), why)


def _entry(recollection: Recollection, found: Sequence[Hit]) -> Row:
    return {
        "workspace_id": recollection.workspace_id,
        "retrieval_id": recollection.retrieval_id,
        "query": _clean(recollection.query),
        "relevance": recollection.relevance,
        "degraded": _clean(recollection.degraded),
        "hits": [
            {
                "rank": hit.rank,
                "memory_id": hit.memory.memory_id,
                "kind": str(hit.memory.kind),
                "vector": hit.parts.vector,
                "lexical": hit.parts.lexical,
                "time": hit.parts.time,
                "type": hit.parts.type,
                "final": hit.parts.final,
                "relevance": hit.relevance,
            }
            for hit in found
        ],
    }


def _clean(value: Any) -> Any:
    return value.replace("\0", "") if isinstance(value, str) else value
