"""What makes memory quick and complete to search, done in the background of a process while it goes on.

Messages that were recorded get their vectors, in rounds: whoever comes while one runs waits for one more. A workspace
that has become large is brought into the HNSW index, and postings that were written bit by bit are merged, once nobody
adds to it for a moment. Nothing is lost with the process: what is missing is made at the next opportunity.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from typing import Any

from reme_core.postgres.database import Database
from reme_core.settings import RecallSettings
from reme_core.store.index import hnsw, postings
from reme_core.store.index.embedders import WorkspaceModels
from reme_core.store.logs import logging_for_workspace
from reme_core.store.messages import embed_waiting
from reme_core.store.sql import load

_SQL = load("message.sql")

log = logging.getLogger(__name__)

_AGAIN_SECONDS = 10.0  # until messages are embedded again whose model failed
_QUIET_SECONDS = 2.0  # without an addition, until a workspace's index is seen to
_MOST_SECONDS = 300.0  # until it is, where additions never stop: longer than most bulk loads take


class Indexing:
    """Brings what was stored into the vectors and indexes of one database.

    Args:
        database: Where it is stored.
        workspace_models: Which model makes the vectors of a workspace.
        settings: How large a workspace is searched without an index.
    """

    def __init__(self, database: Database, workspace_models: WorkspaceModels, settings: RecallSettings) -> None:
        self._database = database
        self._workspace_models = workspace_models
        self._settings = settings
        self._tasks: set[asyncio.Task[Any]] = set()
        self._embedding: dict[str, asyncio.Task[Any]] = {}
        self._again: dict[str, asyncio.TimerHandle] = {}
        self._grown_at: dict[str, float] = {}

    def embed_soon(self, workspace: str) -> asyncio.Task[Any]:
        """Have the messages that wait embedded; the task is done when they are, or could not be."""
        before, database = self._embedding.get(workspace), self._database

        async def embed() -> None:
            if before is not None and not before.done():
                await asyncio.wait([before])
            with logging_for_workspace(workspace):
                await self._workspace_models.with_embedder(
                    workspace, lambda embedder: embed_waiting(database, workspace, embedder)
                )
            await postings.merge(database, workspace)

        def forget(finished: asyncio.Task[Any]) -> None:
            if self._embedding.get(workspace) is finished:  # else there is a later one, or all were cancelled
                del self._embedding[workspace]
                if not (finished.cancelled() or finished.exception() is None or workspace in self._again):
                    loop = asyncio.get_running_loop()
                    self._again[workspace] = loop.call_later(_AGAIN_SECONDS, self._embed_again, workspace)

        task = self._embedding[workspace] = self._spawn(embed(), f"embedding messages of workspace '{workspace}'")
        task.add_done_callback(forget)
        return task

    async def embed_everywhere(self) -> None:
        """Have the messages of all workspaces embedded that wait, whoever recorded them."""
        for (workspace,) in await self._database.execute_anywhere(_SQL["waiting_workspaces"], {}):
            if workspace not in self._embedding:
                self.embed_soon(workspace)

    def _embed_again(self, workspace: str) -> None:
        del self._again[workspace]
        self.embed_soon(workspace)

    async def wait_for_vectors(self, workspace: str, patience: float | None = None) -> None:
        """Wait until the messages that were recorded here have their vectors, or could not get them.

        With `patience`, no longer than so many seconds.
        """
        if (task := self._embedding.get(workspace)) is not None:
            await asyncio.wait([task], timeout=patience)

    def schedule_upkeep(self, workspace: str) -> None:
        """Bring a workspace that has grown into its index, once nobody has added to it for a moment."""
        is_scheduled = workspace in self._grown_at
        self._grown_at[workspace] = time.monotonic()
        if not is_scheduled:
            self._spawn(self._update_index(workspace), f"indexing workspace '{workspace}'")

    async def _update_index(self, workspace: str) -> None:
        try:
            # In the index an insert takes many times as long, so that a bulk of them is let through first.
            last = time.monotonic() + _MOST_SECONDS
            while (until := min(self._grown_at[workspace] + _QUIET_SECONDS, last)) > time.monotonic():  # noqa: ASYNC110
                await asyncio.sleep(until - time.monotonic())
            await hnsw.ensure(self._database, workspace, exact_below=self._settings.exact_below)
            await postings.merge(self._database, workspace)
            self._workspace_models.forget(workspace)
        finally:
            del self._grown_at[workspace]

    async def aclose(self, patience: float) -> None:
        """Finish what runs, if it takes no longer than `patience` seconds."""
        tasks = set(self._tasks)
        for timer in self._again.values():
            timer.cancel()
        if tasks and patience:
            await asyncio.wait(tasks, timeout=patience)
        for task in tasks:
            task.cancel()

    def _spawn(self, work: Coroutine[Any, Any, Any], what: str) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)

        def log_failure(finished: asyncio.Task[Any]) -> None:
            self._tasks.discard(finished)
            if not finished.cancelled() and (error := finished.exception()) is not None:
                log.warning("%s did not work and waits for the next opportunity: %s", what, error)

        task.add_done_callback(log_failure)
        return task
