"""The logs of recalls and model calls: entries gather in memory for a moment and are written in batches.

A process that is killed loses at most the last second of the log. Memories and messages are never written this way.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import asdict
from typing import Any, Protocol
from weakref import WeakSet

import psycopg
from psycopg.types.json import Jsonb

from reme_core.errors import ConflictError, DatabaseError
from reme_core.models import ModelCall
from reme_core.postgres.database import Database
from reme_core.store.sql import load
from reme_core.text.plain import plain_json
from reme_core.text.redact import redact
from reme_core.types import Hit, Memory, Parts, Recollection, new_id
from reme_core.types import now as present

log = logging.getLogger(__name__)

Row = dict[str, Any]

_SQL = load("log.sql")
# A recall does not wait for its log entry, which would take as long as the recall.
_PAUSE_SECONDS = 0.5  # for which entries gather before they are written
_BATCH = 100  # entries that one transaction writes: to put together many more would hold up the event loop
_IN_ORDER = ("insert_retrievals", "mark_notes", "insert_model_calls")  # a note is marked at the recalls it was made of
_LOGGED = {"workspace_id", "retrieval_id", "query", "relevance", "degraded"}
_LOGGED_PARTS = ("vector", "lexical", "time", "type", "final")
_MOST_WAITING = 10_000  # entries kept while the database is away; beyond that, the oldest are dropped

_work: ContextVar[tuple[str, str]] = ContextVar("reme_work", default=("", ""))  # workspace, and when it began


@contextlib.contextmanager
def logging_for_workspace(workspace: str) -> Iterator[None]:
    """Within this block, model calls are logged for `workspace`, as ones about what was there when it began."""
    token = _work.set((workspace, present().isoformat()))
    try:
        yield
    finally:
        _work.reset(token)


class CallListener(Protocol):
    """Somebody who wants to know of model calls."""

    def count_call(self, workspace: str, call: ModelCall, /) -> None:
        """Hear of a model call for a workspace."""


class LogWriter:
    """Writes `retrieval`, `retrieval_hit` and `model_call` in the background."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: list[tuple[str, str, Callable[[], Row]]] = []  # (workspace, statement, row)
        self._writer: asyncio.Task[None] | None = None
        self._is_away = False  # whether the last attempt to write has failed
        self._lock = asyncio.Lock()
        self.listeners = WeakSet[CallListener]()
        """Each is told of every model call that is noted. Held weakly: an engine may outlive who listens."""

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
        """Note what a recall found, also if its hits were not given because their relevance was too low."""
        if not self._database.settings.recall.log:
            return
        asked = {
            "asked_at": present().isoformat(),
            "min_relevance": min_relevance,
            "kinds": kinds,
            "flow": flow,
            "session_id": session_id,
            "milliseconds": milliseconds,
        }
        # The row is made later, when it is written: here a caller is waiting for the answer.
        self._put(recollection.workspace_id, "insert_retrievals", lambda: _entry(recollection, found, asked))

    def log_standing(self, workspace: str, query: str, memories: Sequence[Memory], *, session_id: str) -> Recollection:
        """Note the standing memories, which a note gives for any query, as a recall of its own; returns that recall."""
        hits = [Hit(rank=rank, memory=memory, parts=Parts()) for rank, memory in enumerate(memories, 1)]
        query = redact(query, self._database.settings.redact)
        standing = Recollection(workspace_id=workspace, query=query, hits=hits)
        kinds = sorted({str(memory.kind) for memory in memories})
        self.log_recall(
            standing, hits, min_relevance=0, kinds=kinds, flow="standing", session_id=session_id, milliseconds=0
        )
        return standing

    def log_note(self, workspace: str, recalls: Sequence[Recollection], left_out: Callable[[Hit], str]) -> None:
        """Log which hits of some recalls stand in the note that was made of them, and why the others do not.

        `left_out` gives the reason, as the column of that name has it; an empty text if a hit stands in the note.
        """
        if not self._database.settings.recall.log or not recalls:
            return

        def row() -> Row:
            reasons = {r.retrieval_id: {hit.memory.memory_id: left_out(hit) for hit in r.hits} for r in recalls}
            return {"workspace_id": workspace, "note_id": new_id(), "left_out": reasons}

        self._put(workspace, "mark_notes", row)

    def log_call(self, call: ModelCall) -> None:
        """Note a model call for the workspace of the surrounding `logging_for_workspace`."""
        workspace, begun_at = _work.get()
        for listener in self.listeners:
            listener.count_call(workspace, call)
        told = redact({"raw": call.raw, "error": call.error}, self._database.settings.redact)
        times = {"begun_at": begun_at or None, "called_at": present().isoformat()}
        entry = asdict(call) | told | times | {"workspace_id": workspace}
        # One text that Postgres cannot store would keep the whole batch from being written.
        self._put(workspace, "insert_model_calls", lambda: plain_json(entry))

    def _put(self, workspace: str, statement: str, row: Callable[[], Row]) -> None:
        self._waiting.append((workspace, statement, row))
        if len(self._waiting) > _MOST_WAITING:
            dropped = self._waiting[: _MOST_WAITING // 10]  # many at once, so that this warning is not given each time
            del self._waiting[: len(dropped)]
            log.warning("the database takes no log entries; dropped the %d oldest", len(dropped))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write_soon())

    async def _write_soon(self) -> None:
        while self._waiting:
            await asyncio.sleep(_PAUSE_SECONDS)
            try:
                await self.flush()
                self._is_away = False
            except (DatabaseError, ConflictError) as error:
                if not self._is_away:  # a standby takes none for ever, and is asked twice a second
                    log.warning("log entries wait for the database: %s", error)
                self._is_away = True
                return  # the next entry starts another attempt
            except psycopg.Error:  # a statement that this database cannot carry out: nobody else would hear of it
                log.exception("%d log entries cannot be written, and wait", len(self._waiting))
                return

    async def flush(self) -> None:
        """Write the entries that wait now, except for workspaces whose log somebody else has locked.

        Raises:
            DatabaseError: The database did not take them; they go on waiting.
        """
        async with self._lock:
            locked: set[str] = set()
            # Not those that come meanwhile: under load, each transaction would write the one or two that came last.
            waiting = list(self._waiting)
            while free := [entry for entry in waiting if entry[0] not in locked]:
                # One transaction writes entries of all workspaces, since the transaction is most of the cost.
                statement = next(name for name in _IN_ORDER if any(entry[1] == name for entry in free))
                batch = [entry for entry in free if entry[1] == statement][:_BATCH]
                workspaces = sorted({workspace for workspace, _, _ in batch})
                async with self._database.maintenance() as conn:
                    cursor = await conn.execute(_SQL["lock_log"], {"workspaces": workspaces})
                    locked.update(workspace for (workspace,) in await cursor.fetchall())
                    batch = [entry for entry in batch if entry[0] not in locked]
                    values = {"workspaces": workspaces, "rows": Jsonb([row() for _, _, row in batch])}
                    await conn.execute(_SQL[statement], values)
                written = set(map(id, batch))
                waiting = [entry for entry in waiting if id(entry) not in written]
                self._waiting = [entry for entry in self._waiting if id(entry) not in written]

    async def aclose(self, patience: float) -> None:
        """Stop, and write the entries that wait if the database takes them within `patience` seconds."""
        if self._writer is not None:
            self._writer.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._writer
        if self._waiting:
            try:
                async with asyncio.timeout(patience):
                    await self.flush()
            except (DatabaseError, ConflictError, psycopg.Error, TimeoutError) as error:
                why = "the database did not answer" if isinstance(error, TimeoutError) else error
                log.warning("%d log entries were lost at the end: %s", len(self._waiting), why)


def _entry(recollection: Recollection, found: Sequence[Hit], asked: Row) -> Row:
    told = asked | recollection.model_dump(include=_LOGGED)
    return {
        **plain_json(told),
        # These come from the database, and are most of an entry: looking through them would take as long as the rest.
        "hits": [
            {
                "rank": hit.rank,
                "memory_id": hit.memory.memory_id,
                "kind": str(hit.memory.kind),
                "relevance": hit.relevance,
                **{name: getattr(hit.parts, name) for name in _LOGGED_PARTS},
            }
            for hit in found
        ],
    }
