"""Upkeep in the background of a process: vectors of recorded messages, and the indexes of workspaces that have grown.

Recorded messages get their vectors. A workspace that has become large is put into the HNSW index, and its postings are
merged, once nobody has added to it for a moment. If the process ends before, the next one does what is missing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from typing import Any

from reme_core.postgres.database import Database
from reme_core.store.index import hnsw, postings
from reme_core.store.index.embedders import WorkspaceModels
from reme_core.store.logs import logging_for_workspace
from reme_core.store.messages import embed_waiting
from reme_core.store.sql import load

_SQL = load("message.sql")

log = logging.getLogger(__name__)

_AGAIN_SECONDS = 10.0  # after which messages are embedded again if the model failed
_QUIET_SECONDS = 2.0  # without an addition, after which a workspace's index is updated
_MOST_SECONDS = 300.0  # after which it is updated if additions never stop: most bulk loads take less


async def update_index(database: Database, workspace_models: WorkspaceModels, workspace: str) -> None:
    """Put the vectors of a workspace that has become large into the HNSW index, and merge its postings."""
    await hnsw.ensure(database, workspace, exact_below=database.settings.recall.exact_below)
    await postings.merge(database, workspace)
    workspace_models.forget(workspace)


async def refresh_statistics(database: Database) -> None:
    """Let the planner look at tables that have grown much, as autovacuum does later."""
    await database.execute_anywhere("select reme.refresh_statistics()")


class Indexing:
    """Makes the vectors of messages and updates the indexes, for all workspaces of one database."""

    def __init__(self, database: Database, workspace_models: WorkspaceModels) -> None:
        self._database = database
        self._workspace_models = workspace_models
        self._tasks: set[asyncio.Task[Any]] = set()
        self._embedding: dict[str, asyncio.Task[Any]] = {}
        self._again: dict[str, asyncio.TimerHandle] = {}
        self._grown_at: dict[str, float] = {}
        self._is_closing = False

    def embed_soon(self, workspace: str) -> asyncio.Task[Any]:
        """Begin to embed the messages that wait; the task is done when they are embedded, or could not be."""
        before, database = self._embedding.get(workspace), self._database

        async def embed() -> None:
            # One round at a time. One that runs may have read what waits too early for the caller's messages.
            if before is not None and not before.done():
                await asyncio.wait([before])
            with logging_for_workspace(workspace):
                await self._workspace_models.with_embedder(
                    workspace, lambda embedder: embed_waiting(database, workspace, embedder)
                )
            if await postings.merge(database, workspace):
                await refresh_statistics(database)

        def forget(finished: asyncio.Task[Any]) -> None:
            if self._embedding.get(workspace) is finished:  # else a later round has begun, which does the same
                del self._embedding[workspace]
                failed = not finished.cancelled() and finished.exception() is not None
                if failed and workspace not in self._again and not self._is_closing:
                    loop = asyncio.get_running_loop()
                    self._again[workspace] = loop.call_later(_AGAIN_SECONDS, self._embed_again, workspace)

        task = self._embedding[workspace] = self._spawn(embed(), f"embedding messages of workspace '{workspace}'")
        task.add_done_callback(forget)
        return task

    async def embed_everywhere(self) -> None:
        """Begin to embed the messages that wait in all workspaces, also those that other processes recorded.

        And let the vectors join the index that a process left for later and did not come to.
        """
        for (workspace,) in await self._database.execute_anywhere(_SQL["waiting_workspaces"], {}):
            if workspace not in self._embedding:
                self.embed_soon(workspace)
        for workspace in await hnsw.left_behind(self._database):
            self.schedule_upkeep(workspace)

    def _embed_again(self, workspace: str) -> None:
        del self._again[workspace]
        self.embed_soon(workspace)

    async def wait_for_vectors(self, workspace: str, patience: float) -> None:
        """Wait until the messages recorded here have their vectors, or could not get them, or `patience` seconds."""
        if (task := self._embedding.get(workspace)) is not None:
            await asyncio.wait([task], timeout=patience)

    def schedule_upkeep(self, workspace: str) -> None:
        """Update the index of a workspace that has grown, once nobody has added to it for a moment."""
        is_scheduled = workspace in self._grown_at
        self._grown_at[workspace] = time.monotonic()
        if not is_scheduled:
            self._spawn(self._update_index(workspace), f"indexing workspace '{workspace}'")

    async def _update_index(self, workspace: str) -> None:
        try:
            # An insert into the index takes many times as long, so a bulk load should end first.
            last = time.monotonic() + _MOST_SECONDS
            while (until := min(self._grown_at[workspace] + _QUIET_SECONDS, last)) > time.monotonic():
                await refresh_statistics(self._database)
                await asyncio.sleep(until - time.monotonic())
            await update_index(self._database, self._workspace_models, workspace)
        finally:
            del self._grown_at[workspace]

    async def aclose(self, patience: float) -> None:
        """Let running tasks end for `patience` seconds, then cancel them."""
        self._is_closing = True  # what fails from now on is tried again by the next process
        tasks = set(self._tasks)
        for timer in self._again.values():
            timer.cancel()
        if tasks and patience:
            await asyncio.wait(tasks, timeout=patience)
        for task in tasks:
            task.cancel()

    def _spawn(self, work: Coroutine[Any, Any, Any], what: str) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._tasks.add(task)

        def log_failure(finished: asyncio.Task[Any]) -> None:
            self._tasks.discard(finished)
            if not finished.cancelled() and (error := finished.exception()) is not None:
                log.warning("%s did not work and waits for the next opportunity: %s", what, error)

        task.add_done_callback(log_failure)
        return task
