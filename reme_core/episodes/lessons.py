"""Lessons of recorded episodes: task memories, made at once, or by a job if that did not work."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from reme_core.episodes.rules import Episode
from reme_core.errors import ReMeError
from reme_core.jobs.queue import LEARN_SECONDS
from reme_core.postgres.database import Database
from reme_core.store import rows
from reme_core.store.sql import load
from reme_core.types import Message

log = logging.getLogger(__name__)

_SQL = load("episode.sql", columns=rows.select(rows.MESSAGE_COLUMNS))
_AT_ONCE: Final = 20  # episodes that one run of the flow reads in a job


class Lessons:
    """Makes task memories of episodes that were recorded with `learn`; these wait until it is done.

    Args:
        database: The database with the episodes.
        execute: Runs a flow, as `Flows.execute` does.
        queue: Queues the job that calls `make_waiting` for a workspace.
    """

    def __init__(
        self, database: Database, execute: Callable[..., Awaitable[Any]], queue: Callable[[str], Awaitable[None]]
    ) -> None:
        self._database = database
        self._execute = execute
        self._queue = queue

    async def make(self, workspace: str, episodes: Sequence[Episode]) -> list[dict[str, Any]]:
        """Make the lessons of episodes now, or queue them if a model fails; returns the lessons that were made."""
        told = [_trajectory(e.episode_id, e.task_id, e.score, e.metadata, e.messages) for e in episodes]
        try:
            return await self._make(workspace, told)
        except ReMeError as error:
            values = {"workspace": workspace, "ids": [episode.episode_id for episode in episodes]}
            if waiting := await self._database.execute(workspace, _SQL["lessons_failed"], values):
                log.warning(
                    "episodes of workspace '%s' that wait for their lessons, which a job makes later: %d; %s",
                    workspace, len(waiting), error,
                )  # fmt: skip
                await self._queue(workspace)
            return []

    async def make_waiting(self, workspace: str) -> None:
        """Make the lessons of all episodes of a workspace that wait for them, and of which nobody else makes them.

        Raises:
            ReMeError: A model failed, or the flow cannot be run; the episodes go on waiting.
        """
        values = {"workspace": workspace, "limit": _AT_ONCE, "seconds": LEARN_SECONDS}
        while waiting := await self._database.fetch(workspace, _SQL["awaiting_lessons"], values):
            said: dict[str, list[Message]] = defaultdict(list)
            ids = {"workspace": workspace, "ids": [row[0] for row in waiting]}
            for episode_id, *message in await self._database.fetch(workspace, _SQL["messages_of"], ids):
                said[episode_id].append(rows.to_message(message))
            told = [_trajectory(name, task, score, more, said[name]) for name, task, score, more in waiting]
            await self._make(workspace, told)

    async def _make(self, workspace: str, trajectories: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        if not trajectories:
            return []
        made: list[dict[str, Any]] = []
        ids = [trajectory["metadata"]["episode_id"] for trajectory in trajectories]
        # What was said in an attempt that waited may have been erased.
        if with_messages := [trajectory for trajectory in trajectories if trajectory["messages"]]:
            request = {"workspace_id": workspace, "trajectories": with_messages}
            response = await self._execute("summary_task_memory", request, episode_ids=ids)
            made = list(response.metadata.get("memory_list", []))
        # A flow of one's own may store nothing, or in another way.
        await self._database.execute(workspace, _SQL["lessons_made"], {"workspace": workspace, "ids": ids})
        return made


def _trajectory(
    episode_id: str, task_id: str, score: float, metadata: Mapping[str, Any], messages: Sequence[Message]
) -> dict[str, Any]:
    return {
        "task_id": task_id,
        "score": score,
        "messages": [message.model_dump(mode="json") for message in messages],
        "metadata": {**metadata, "episode_id": episode_id},
    }
