"""Memory across episodes: scored attempts go in; a note for the next attempt, rules and learning curves come out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from psycopg import AsyncConnection

from reme_core.errors import InputError
from reme_core.experience import MAX_CARD_TEXT, MAX_LOG, Episode
from reme_core.models import ChatModel
from reme_core.ops.episode.consolidate import Attempt, distil
from reme_core.ops.episode.note import MAX_SUMMARY, SHOWN_CARDS, SHOWN_MISTAKES, PastEpisodes, episode_note
from reme_core.ops.identity import identified, stable_id
from reme_core.schema import Message
from reme_core.settings import Settings
from reme_core.store import episode_file
from reme_core.store import episodes as store
from reme_core.store.agent_memory import AgentMemory, read_memory, write_memory
from reme_core.store.database import Database
from reme_core.store.journal import working_for
from reme_core.store.messages import record as record_messages
from reme_core.store.sql import load

_SQL = load("episode.sql")
_MARK_SUMMARISED = load("memory.sql")["mark_summarised"]


@dataclass(frozen=True)
class Recorded:
    """What became of a batch of episodes."""

    episodes: list[Episode]
    """Those that were new, with their numbers."""
    known: list[str]
    """Ids of those that were recorded before, and were passed over."""
    lessons: list[dict[str, Any]] = field(default_factory=list)
    """Task memories that were made of the new ones, with `learn`."""


@dataclass(frozen=True)
class Consolidation:
    """What a consolidation did."""

    due: bool
    """Whether enough episodes had come since the last one; if not, nothing was done."""
    rules: list[str] = field(default_factory=list)
    """The rules for all tasks that it gave."""
    author: str = ""
    """The model, or `rules`."""
    error: str = ""
    """Why the model did not serve, where one is set and failed; the rules are then made of the best summaries."""


@dataclass(frozen=True)
class CurvePoint:
    """One attempt on the learning curve of a task."""

    task_id: str
    attempt: int
    score: float
    mean_score: float
    """Over all attempts so far."""
    mean_of_last_10: float
    best_score: float


@dataclass(frozen=True)
class PassRate:
    """How a task fares in groups of k attempts; `rate` is None where there is no full group."""

    task_id: str
    attempts: int
    groups: int
    passed: int
    rate: float | None


class Episodes:
    """The episodes of all workspaces; every method names the one it works in.

    Args:
        database: Where they are kept.
        settings: Thresholds, language.
        chat: The chat model that consolidates, if one is set.
        embed: Has messages of a workspace embedded in the background.
        execute: Runs a flow, as `AsyncReMe.execute` does.
    """

    def __init__(
        self,
        database: Database,
        settings: Settings,
        chat: ChatModel | None,
        embed: Callable[[str], object],
        execute: Callable[..., Awaitable[Any]],
    ) -> None:
        self._database = database
        self._settings = settings
        self._chat = chat
        self._embed = embed
        self._execute = execute

    async def record(self, workspace: str, episode: Episode | Mapping[str, Any], *, learn: bool = False) -> Recorded:
        """Take in one finished attempt; see `record_many`."""
        return await self.record_many(workspace, [episode], learn=learn)

    async def record_many(
        self,
        workspace: str,
        episodes: Sequence[Episode | Mapping[str, Any]],
        *,
        learn: bool = False,
        seed: int | str | None = None,
    ) -> Recorded:
        """Take in finished attempts, in the order given: all of them, or none.

        Scores, rules, mistakes and cards are counted in the transaction that stores the episodes, under a lock that
        is held for a few milliseconds, so that any number of writers lose and double nothing. An episode whose id is
        known is passed over.

        Args:
            workspace: Where; it is made on first use.
            episodes: What happened, as `Episode` or as a dict of its fields (the helper's names are read too).
            learn: Make task memories of the new ones that carry messages, too (flow `summary_task_memory`), so that
                one call feeds both memories.
            seed: Names the batch: episodes without an id get one made of the seed and their place, so that the same
                batch recorded twice counts once, and two runs leave equal rows.

        Raises:
            InputError: One is malformed or holds what Postgres cannot store; none was taken.

        Example:
            ```python
            await reme.episodes.record(
                "trainer",
                Episode(task_id="restart", score=0.9, steps=4, summary="Read the logs first.", successes=["Read logs"]),
            )
            print(await reme.episodes.context("trainer", "restart"))
            ```
        """
        given = [self._taken(episode, seed, place) for place, episode in enumerate(episodes)]
        store.check(given)
        await self._keep(workspace, [message for episode in given for message in episode.messages])
        fresh = await store.record(self._database, workspace, given, self._settings.episodes)
        new = {episode.episode_id for episode in fresh}
        known = list(dict.fromkeys(e.episode_id for e in given if e.episode_id not in new))
        return Recorded(fresh, known, await self._learned(workspace, fresh) if learn else [])

    async def context(
        self,
        workspace: str,
        task_id: str | None = None,
        *,
        max_rules: int = 5,
        max_recent: int = 3,
        token_budget: int | None = None,
    ) -> str:
        """Write the note for the top of a system prompt; empty where nothing is known. One statement, no model.

        Args:
            workspace: Whose episodes.
            task_id: The task at hand; without one only what holds for all tasks is told.
            max_rules: Rules of the task, and rules for all tasks, that are shown at most; the newest.
            max_recent: Earlier episodes of the task that are shown at most.
            token_budget: How many tokens it may take (estimated by `reme_core.text.budget.count_tokens`); what says
                the least for its length is left out first.

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
        """What the episodes left behind, in numbers: those of the helper's `memory_summary`, over all that is kept."""
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
        """Distil rules for all tasks when enough episodes have come since that was last done.

        The chat model makes at most five of the last 30 episodes; without one, or where it fails (which is logged
        and told in the result), the summaries of good episodes among the last 100 serve. When several callers find
        it due at once, one result counts.

        Args:
            workspace: Whose episodes.
            every: After how many episodes; default is `episodes.consolidate_every` of the settings.
        """
        pause = every if every is not None else self._settings.episodes.consolidate_every
        if pause < 1:
            raise InputError(f"every must be at least 1, not {pause}")
        values = {"workspace": workspace, "limit": MAX_LOG}
        count, last, latest = (await self._database.fetch(workspace, _SQL["latest"], values))[0]
        if count - (last or 0) < pause:
            return Consolidation(due=False)
        attempts = [Attempt(*row) for row in latest]
        with working_for(workspace):
            made = await distil(
                attempts,
                self._chat,
                works_from=self._settings.episodes.works_from,
                setting=self._settings.language or "auto",
            )
        async with self._database.transaction(workspace) as conn:
            _, since, _ = await store.begin(conn, workspace)
            if since != last:
                return Consolidation(due=False)  # somebody else was faster
            await store.teach_globally(conn, workspace, made.rules, count, author=made.author)
            await conn.execute(_SQL["consolidated"], {"workspace": workspace, "episodes": count})
        return Consolidation(True, made.rules, made.author, made.error)

    async def curve(self, workspace: str, task_id: str | None = None) -> list[CurvePoint]:
        """The learning curve of one task, or of all, by task and attempt (view `learning_curve`)."""
        values = {"workspace": workspace, "task": task_id}
        return [CurvePoint(*row) for row in await self._database.fetch(workspace, _SQL["curve"], values)]

    async def pass_at_k(self, workspace: str, k: int, *, solved_from: float = 1.0) -> list[PassRate]:
        """By task, the share of its groups of `k` attempts whose best is solved (SQL function `pass_at_k`).

        Args:
            workspace: Whose episodes.
            k: Attempts in a group; a last group that is not full is left out.
            solved_from: Score from which an attempt counts as solved.
        """
        if k < 1:
            raise InputError(f"k must be at least 1, not {k}")
        values = {"workspace": workspace, "k": k, "solved_from": solved_from}
        return [PassRate(*row) for row in await self._database.fetch(workspace, _SQL["pass_at_k"], values)]

    async def as_memory(self, workspace: str, *, bounded: bool = False) -> AgentMemory:
        """What the episodes left behind, as the training helper's dict; see `reme_core.compat.agent_memory`.

        Args:
            workspace: Whose episodes.
            bounded: Only as much as the helper would have kept: 100 episodes, 10 rules a task, 20 for all, 30 cards.
        """
        return await episode_file.as_memory(self._database, workspace, bounded=bounded)

    async def continue_with(self, workspace: str, memory: AgentMemory) -> int:
        """Bring a workspace to where the helper's dict is; returns how many episodes came in.

        Raises:
            InputError: The dict has not the helper's form.
            ConflictError: The workspace holds scores that the dict does not know; nothing was changed.
        """
        return await episode_file.continue_with(self._database, workspace, memory)

    async def load(self, workspace: str, path: str | Path) -> int:
        """Import the helper's `agent_memory.json`; returns how many episodes came in.

        Raises:
            InputError: The file is broken (the message names the byte) or malformed; nothing was imported.
            ConflictError: The workspace holds scores that the file does not know; nothing was imported.
        """
        return await self.continue_with(workspace, read_memory(path))

    async def dump(self, workspace: str, path: str | Path, *, bounded: bool = False) -> int:
        """Export to the helper's `agent_memory.json`; returns how many episodes its log holds. See `as_memory`."""
        memory = await self.as_memory(workspace, bounded=bounded)
        write_memory(memory, path)
        return len(memory["episode_log"])

    def _taken(self, given: Episode | Mapping[str, Any], seed: int | str | None, place: int) -> Episode:
        if isinstance(given, Episode):
            episode = given
        else:
            try:
                episode = Episode.model_validate(given)
            except ValueError as error:
                raise InputError(f"episode {place} of the batch does not fit: {error}") from None
        update: dict[str, Any] = {}
        if seed is not None and "episode_id" not in episode.model_fields_set:
            update["episode_id"] = stable_id("rollout", seed, place, episode.task_id)
        name = update.get("episode_id", episode.episode_id)
        if episode.messages:
            update["messages"] = [
                message if message.session_id else message.model_copy(update={"session_id": name})
                for message in identified(episode.messages, name)
            ]
        return episode.model_copy(update=update) if update else episode

    async def _keep(self, workspace: str, messages: Sequence[Message]) -> None:
        """Keep trajectories as evidence. They are no conversation with a person, so none waits to be summarised."""

        async def settle(conn: AsyncConnection[Any], new: list[Message]) -> None:
            await conn.execute(_MARK_SUMMARISED, {"workspace": workspace, "ids": [m.message_id for m in new]})

        if messages:
            await record_messages(self._database, workspace, messages, within=settle)
            self._embed(workspace)

    async def _learned(self, workspace: str, fresh: Sequence[Episode]) -> list[dict[str, Any]]:
        trajectories = [
            {
                "task_id": episode.task_id,
                "score": episode.score,
                "messages": [message.model_dump(mode="json") for message in episode.messages],
                "metadata": {**episode.metadata, "episode_id": episode.episode_id},
            }
            for episode in fresh
            if episode.messages
        ]
        if not trajectories:
            return []
        done = await self._execute("summary_task_memory", workspace_id=workspace, trajectories=trajectories)
        return list(done.metadata.get("memory_list", []))
