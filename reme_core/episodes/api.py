"""Memory across episodes: record scored attempts, and get a note for the next attempt, rules and learning curves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from reme_core.episodes import file_sync, store
from reme_core.episodes.consolidate import Attempt, Consolidation, distil
from reme_core.episodes.file import AgentMemory, empty_memory, read_memory, write_memory
from reme_core.episodes.lessons import Lessons
from reme_core.episodes.note import MAX_SUMMARY, SHOWN_CARDS, SHOWN_MISTAKES, PastEpisodes, episode_note
from reme_core.episodes.rules import MAX_CARD_TEXT, MAX_LOG, Episode
from reme_core.errors import InputError, NotFoundError
from reme_core.given import first_problem
from reme_core.models import ChatModel
from reme_core.postgres.database import Database
from reme_core.settings import Settings
from reme_core.store.logs import logging_for_workspace
from reme_core.store.sql import load
from reme_core.text.ids import id_within, stable_id, with_ids
from reme_core.text.redact import redact
from reme_core.types import Message

_SQL = load("episode.sql")


@dataclass(frozen=True)
class RecordedEpisodes:
    """The result of recording a batch of episodes."""

    episodes: list[Episode]
    """The new episodes, with their numbers."""
    known: list[str]
    """Ids of episodes that had been recorded before, and were skipped."""
    lessons: list[dict[str, Any]] = field(default_factory=list)
    """With `learn`, the task memories that were made from the new episodes. If a model failed, there are none yet."""


@dataclass(frozen=True)
class CurvePoint:
    """One attempt on the learning curve of a task."""

    task_id: str
    attempt: int
    score: float
    mean_score: float
    """The mean of all attempts so far."""
    mean_of_last_10: float
    best_score: float


@dataclass(frozen=True)
class PassRate:
    """How many of a task's groups of k attempts have a solved attempt; `rate` is None if no group is full."""

    task_id: str
    attempts: int
    groups: int
    passed: int
    rate: float | None


class Episodes:
    """The episodes of all workspaces; every method names the one it works in."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        chat: ChatModel | None,
        embed: Callable[[str], object],
        execute: Callable[..., Awaitable[Any]],
        queue_lessons: Callable[[str], Awaitable[None]],
    ) -> None:
        """`embed` begins to embed the messages of a workspace; for the last two see `Lessons`."""
        self._database = database
        self._settings = settings
        self._chat = chat
        self._embed = embed
        self.lessons = Lessons(database, execute, queue_lessons)

    async def record(
        self, workspace: str, episode: Episode | Mapping[str, Any], *, learn: bool = False
    ) -> RecordedEpisodes:
        """Record one finished attempt; see `record_many`."""
        return await self.record_many(workspace, [episode], learn=learn)

    async def record_many(
        self,
        workspace: str,
        episodes: Sequence[Episode | Mapping[str, Any]],
        *,
        learn: bool = False,
        seed: int | str | None = None,
    ) -> RecordedEpisodes:
        """Record finished attempts with their messages, in the given order: all of them, or none.

        An attempt with a known id is skipped; if its task or score is another one, the log warns of it.

        Args:
            workspace: The workspace; it is created by its first use.
            episodes: As `Episode`, or as a dict of its fields, also by the helper's names.
            learn: Also make task memories from new episodes that have messages (flow `summary_task_memory`). If a model
                fails, the episodes wait, and a job makes the memories later (`reme jobs list`).
            seed: Identifies the batch. An episode without an id gets one made from the seed and its place in the batch:
                so a batch that is recorded twice is counted once, and two runs give equal rows.

        Raises:
            InputError: An episode is malformed or contains text that Postgres cannot store; none was stored.

        Example:
            ```python
            await reme.episodes.record(
                "trainer",
                Episode(task_id="restart", score=0.9, steps=4, summary="Read the logs first.", successes=["Read logs"]),
            )
            print(await reme.episodes.context("trainer", "restart"))
            ```
        """
        if isinstance(episodes, Episode | Mapping | str) or not isinstance(episodes, Iterable):
            raise InputError(f"episodes is a list; for a single one there is episodes.record; not {episodes!r:.60}")
        batch = [self._prepare(episode, seed, place) for place, episode in enumerate(episodes)]
        batch = redact(batch, self._settings.redact)
        store.check_storable(batch)
        fresh = await store.record(self._database, workspace, batch, self._settings.episodes, learn=learn)
        if any(episode.messages for episode in fresh):
            self._embed(workspace)
        new = {episode.episode_id for episode in fresh}
        known = list(dict.fromkeys(e.episode_id for e in batch if e.episode_id not in new))
        to_learn = [episode for episode in fresh if episode.messages] if learn else []
        return RecordedEpisodes(fresh, known, await self.lessons.make(workspace, to_learn))

    async def context(
        self,
        workspace: str,
        task_id: str | None = None,
        *,
        max_rules: int = 5,
        max_recent: int = 3,
        token_budget: int | None = None,
    ) -> str:
        """Write the note for the top of a system prompt; empty if nothing is known. One SQL statement, no model.

        Args:
            workspace: The workspace.
            task_id: The task at hand; without one, the note only has what is for all tasks.
            max_rules: Maximum number of rules of the task, and of rules for all tasks; the newest are taken.
            max_recent: Maximum number of earlier episodes of the task.
            token_budget: Maximum number of tokens (estimated by `reme_core.prompts.budget.count_tokens`). Parts that
                are least useful for their length are left out first.

        Raises:
            InputError: A limit is negative.
        """
        if max_rules < 0 or max_recent < 0 or (token_budget is not None and token_budget < 0):
            raise InputError("max_rules, max_recent and token_budget cannot be negative; 0 leaves the part out")
        values = {
            "workspace": workspace,
            "task": task_id or "",
            "rules": max_rules,
            "recent": max_recent,
            "mistakes": SHOWN_MISTAKES,
            "cards": SHOWN_CARDS,
            "card_text": MAX_CARD_TEXT,
            "summary": MAX_SUMMARY,
        }
        found = await self._database.fetch(workspace, _SQL["context"], values)
        rules, global_rules, mistakes, cards, recent, mean, attempts = found[0]
        past = PastEpisodes(
            task_id or "", rules, global_rules, mistakes, cards, recent, (mean, attempts) if attempts else None
        )
        return episode_note(past, "zh" if self._settings.language == "zh" else "en", token_budget=token_budget)

    async def summary(self, workspace: str) -> dict[str, Any]:
        """Numbers of episodes, rules, mistakes and cards, and mean scores by task, as the helper's `memory_summary`."""
        found = await self._database.fetch(workspace, _SQL["summary"], {"workspace": workspace})
        episodes, global_rules, task_rules, mistakes, cards, top_cards, means = found[0]
        return {
            "total_episodes": episodes,
            "global_rules": global_rules,
            "task_rules": task_rules,
            "mistakes_stored": mistakes,
            "mistake_cards_stored": cards,
            "top_mistake_cards": top_cards,
            "scores_by_task": {task: round(mean, 3) for task, mean in means.items()},
        }

    async def consolidate_if_due(self, workspace: str, every: int | None = None) -> Consolidation:
        """Distil rules for all tasks, if enough episodes have been recorded since the last time.

        The chat model makes at most five rules from the last 30 episodes. Without a chat model, or if it fails (its
        error is logged and returned), the rules are the summaries of good episodes among the last 100. If several
        callers do this at the same time, the result of one is stored.

        Args:
            workspace: The workspace.
            every: After how many episodes; by default `episodes.consolidate_every` of the settings.

        Raises:
            InputError: `every` is below 1.
        """
        pause = every if every is not None else self._settings.episodes.consolidate_every
        if pause < 1:
            raise InputError(f"every must be at least 1, not {pause}")
        values = {"workspace": workspace, "limit": MAX_LOG}
        count, last, latest = (await self._database.fetch(workspace, _SQL["latest"], values))[0]
        if count - (last or 0) < pause:
            return Consolidation(due=False)
        attempts = [Attempt(*row) for row in latest]
        # Outside of the transaction: the model may take a minute, and the lock stops all writers.
        with logging_for_workspace(workspace):
            works_from = self._settings.episodes.works_from
            made = await distil(attempts, self._chat, works_from=works_from, setting=self._settings.language)
        async with self._database.write_transaction(workspace) as conn:
            _, since, _ = await store.lock_progress(conn, workspace)
            if since != last:
                return Consolidation(due=False)  # another caller was faster
            await store.add_global_rules(conn, workspace, made.rules, count, author=made.author)
            await conn.execute(_SQL["consolidated"], {"workspace": workspace, "episodes": count})
        return made

    async def curve(self, workspace: str, task_id: str | None = None) -> list[CurvePoint]:
        """The learning curve of one task or of all, in the order of tasks and attempts (view `learning_curve`)."""
        values = {"workspace": workspace, "task": task_id}
        return [CurvePoint(*row) for row in await self._database.fetch(workspace, _SQL["curve"], values)]

    async def pass_at_k(self, workspace: str, k: int, *, solved_from: float = 1.0) -> list[PassRate]:
        """For each task, the share of its groups of `k` attempts with a solved one (SQL function `pass_at_k`).

        Args:
            workspace: The workspace.
            k: Attempts in a group; if the last group is not full, it is left out.
            solved_from: An attempt with this score or more is solved.

        Raises:
            InputError: `k` is below 1.
        """
        if k < 1:
            raise InputError(f"k must be at least 1, not {k}")
        k = min(k, 2**31 - 1)  # the largest integer of Postgres; no task has so many attempts
        values = {"workspace": workspace, "k": k, "solved_from": solved_from}
        return [PassRate(*row) for row in await self._database.fetch(workspace, _SQL["pass_at_k"], values)]

    async def as_memory(self, workspace: str, *, bounded: bool = False) -> AgentMemory:
        """The memory of a workspace as the training helper's dict; see `reme_core.compat.agent_memory`.

        Args:
            workspace: The workspace.
            bounded: Only as much as the helper keeps: 100 episodes, 10 rules of a task, 20 for all tasks, 30 cards.
        """
        return await file_sync.as_memory(self._database, workspace, bounded=bounded)

    async def continue_with(self, workspace: str, memory: AgentMemory) -> int:
        """Update a workspace to the state of the helper's dict; returns the number of episodes that were added.

        A dict from `as_memory`, or one that was saved before, brings the workspace what was added, changed and taken
        out since. What others stored meanwhile is kept. What the helper cuts off its lists is not taken out; where
        something is, the next older one may move up in a bounded list.

        Any other dict (from a file, or made by `dict(memory)`) only adds and changes. Its scores have to begin with
        those of the workspace, so any dict fits an empty one.

        Raises:
            InputError: The dict does not have the helper's format, contains text that Postgres cannot store, has its
                log in another order, or counts fewer episodes than the workspace keeps; nothing was changed.
            ConflictError: Others have changed the same things, or the workspace has scores that the dict does not begin
                with; nothing was changed.
        """
        return await file_sync.continue_with(self._database, workspace, memory)

    async def load(self, workspace: str, path: str | Path) -> int:
        """Import the helper's `agent_memory.json`; returns the number of episodes that were added.

        Raises:
            InputError: The file is broken (the message names the byte) or malformed; nothing was imported.
            ConflictError: The workspace has scores that the file does not begin with; nothing was imported.
        """
        return await self.continue_with(workspace, read_memory(path))

    async def dump(self, workspace: str, path: str | Path, *, bounded: bool = False) -> int:
        """Export to the helper's `agent_memory.json`; returns the number of episodes in its log. See `as_memory`.

        Raises:
            NotFoundError: The workspace has no episodes; a file that exists is as it was.
        """
        memory = await self.as_memory(workspace, bounded=bounded)
        if memory == empty_memory():
            raise NotFoundError(
                f"workspace '{workspace}' has no episodes, and {path} was not written; `reme workspaces` shows where"
                " some are"
            )
        write_memory(memory, path)
        return len(memory["episode_log"])

    def _prepare(self, given: Episode | Mapping[str, Any], seed: int | str | None, place: int) -> Episode:
        if isinstance(given, Episode):
            episode = given
        else:
            try:
                episode = Episode.model_validate(given)
            except ValidationError as error:
                raise InputError(f"episode {place} of the batch: {first_problem(error)}") from None
        update: dict[str, Any] = {}
        if seed is not None and "episode_id" not in episode.model_fields_set:
            update["episode_id"] = stable_id("rollout", seed, place, episode.task_id)
        name = update.get("episode_id", episode.episode_id)
        if episode.messages:
            update["messages"] = [_message_of(name, message) for message in with_ids(episode.messages, name)]
        return episode.model_copy(update=update) if update else episode


def _message_of(episode_id: str, message: Message) -> Message:
    """A message of an episode; if it names no conversation, the episode is its conversation, in which its id counts."""
    if message.session_id:
        return message
    own = id_within(message.message_id, episode_id)
    return message.model_copy(update={"session_id": episode_id, "message_id": own})
