"""Upkeep in the background of a process: vectors of recorded messages, and the indexes of workspaces that have grown.

Recorded messages get their vectors. A workspace that has become large is put into the HNSW index, and its postings are
merged, once nobody has added to it for a moment. If the process ends before, the next one does what is missing.
"""

from __future__ import annotations

import asyncio
from functools import partial

from reme_core.postgres.database import Database
from reme_core.store.index import hnsw, postings
from reme_core.store.index.embedders import WorkspaceModels
from reme_core.store.index.rounds import Rounds
from reme_core.store.logs import logging_for_workspace
from reme_core.store.messages import embed_waiting
from reme_core.store.sql import load

_SQL = load("message.sql")


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
        self._embedding = Rounds("embedding the messages", self._embed, again=True)
        # An insert into the index takes many times as long, so a bulk load should end first.
        self._growing = Rounds(
            "updating the index",
            partial(update_index, database, workspace_models),
            meanwhile=partial(refresh_statistics, database),
        )

    def embed_soon(self, workspace: str) -> asyncio.Event:
        """Begin to embed the messages that wait; the event is set when they are embedded, or could not be."""
        return self._embedding.ask(workspace)

    async def _embed(self, workspace: str) -> None:
        with logging_for_workspace(workspace):
            await self._workspace_models.with_embedder(
                workspace, lambda embedder: embed_waiting(self._database, workspace, embedder)
            )
        if await postings.merge(self._database, workspace):
            await refresh_statistics(self._database)

    async def embed_everywhere(self) -> None:
        """Begin to embed the messages that wait in all workspaces, also those that other processes recorded.

        And let the vectors join the index that a process left for later and did not come to.
        """
        for (workspace,) in await self._database.execute_anywhere(_SQL["waiting_workspaces"], {}):
            self.embed_soon(workspace)
        for workspace in await hnsw.left_behind(self._database):
            self.schedule_upkeep(workspace)

    async def wait_for_vectors(self, workspace: str, patience: float) -> None:
        """Wait until the messages recorded here have their vectors, or could not get them, or `patience` seconds."""
        await self._embedding.wait(workspace, patience)

    def schedule_upkeep(self, workspace: str) -> None:
        """Update the index of a workspace that has grown, once nobody has added to it for a moment."""
        self._growing.ask(workspace)

    async def aclose(self, patience: float) -> None:
        """Let running work end for `patience` seconds, then cancel it."""
        await asyncio.gather(self._embedding.aclose(patience), self._growing.aclose(patience))
