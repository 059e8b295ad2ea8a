"""Recording episodes: what they leave behind is counted under one short lock, so that rollouts side by side add up.

All that was recorded is kept. The lists that are shown (the newest rules of a task, the cards seen most) have the
lengths and the order that the training helper gives them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from reme_core.experience import (
    MAX_GLOBAL_RULES,
    MAX_TASK_RULES,
    Card,
    Episode,
    card_key,
    new_card,
    outcome_of,
    outcome_rules,
    see_card,
)
from reme_core.settings import EpisodeSettings
from reme_core.store import rows
from reme_core.store.database import Database
from reme_core.store.sql import load

_SQL = load("episode.sql")
_ENSURE_WORKSPACE = load("memory.sql")["ensure_workspace"]

CARD_COLUMNS = (
    "mistake_type", "task_id", "worker_id", "bad_decision", "correct_decision", "evidence", "lesson", "seen_count",
    "first_seen_episode", "last_seen_episode",
)  # fmt: skip
_DECISIONS = ("worker_id", "bad_decision", "correct_decision")

Connection = AsyncConnection[Any]


@dataclass(slots=True)
class RuleList:
    """The rules of one task (or for all) that are shown, and what a batch of episodes adds to them."""

    shown: list[str]
    last_place: int
    most: int
    changes: dict[str, dict[str, Any]] = field(default_factory=dict)

    def teach(self, rules: Iterable[str], episode: int, *, author: str = "rules") -> None:
        """Add rules at the end; one that is shown already stays where it is. Then the oldest drop out of sight."""
        for rule in rules:
            change = self.changes.setdefault(
                rule, {"place": 0, "seen_count": 0, "first_episode": episode, "author": author}
            )
            change["seen_count"] += 1
            change["last_episode"] = episode
            if rule not in self.shown:
                self.shown.append(rule)
                self.last_place += 1
                change["place"] = self.last_place
        self.shown = self.shown[-self.most :]

    def rows(self, task_id: str) -> list[dict[str, Any]]:
        """What is to be written."""
        return [
            {"task_id": task_id, "rule": rule, "rule_hash": digest(rule), "outcome": outcome_of(rule), **change}
            for rule, change in self.changes.items()
        ]


def digest(*parts: Any) -> str:
    """A digest by which equal texts are found without an index over the texts themselves."""
    text = json.dumps(parts, ensure_ascii=False, sort_keys=True, default=str)
    return hashlib.md5(text.encode("utf-8"), usedforsecurity=False).hexdigest()


def check(episodes: Sequence[Episode]) -> None:
    """Refuse episodes that cannot be stored, before anything is written.

    Raises:
        InputError: One holds a text that Postgres cannot.
    """
    for episode in episodes:
        for text in strings(episode.model_dump(exclude={"messages"})):
            rows.check_text(f"episode {episode.episode_id!r}", text)


async def begin(conn: Connection, workspace: str) -> tuple[int, int | None, dict[str, Any]]:
    """Take the workspace's turn to write episodes: how many there are, when they were consolidated, a file's rest."""
    values = {"workspace": workspace}
    async with conn.pipeline():
        await conn.execute(_ENSURE_WORKSPACE, values)
        await conn.execute(_SQL["ensure_progress"], values)
        cursor = await conn.execute(_SQL["lock_progress"], values)
    row = await cursor.fetchone()
    assert row is not None
    return row[0], row[1], row[2]


async def record(
    database: Database, workspace: str, episodes: Sequence[Episode], settings: EpisodeSettings
) -> list[Episode]:
    """Take episodes in, in the order given, in one transaction; those whose id is known are passed over.

    Returns:
        The episodes that were new, with their numbers.

    Raises:
        InputError: One holds what Postgres cannot store; none was taken.
    """
    check(episodes)
    unique: dict[str, Episode] = {}
    for episode in episodes:
        unique.setdefault(episode.episode_id, episode)
    async with database.transaction(workspace) as conn:
        count, *_ = await begin(conn, workspace)
        stored = await _look(conn, workspace, unique.values())
        known = {row[0] for row in stored["known_ids"]}
        fresh = [
            episode.model_copy(update={"number": count + place})
            for place, episode in enumerate((e for e in unique.values() if e.episode_id not in known), 1)
        ]
        if fresh:
            written = _counted(fresh, stored, settings)
            async with conn.pipeline():
                for statement, added in written.items():
                    if added:
                        await conn.execute(_SQL[statement], {"workspace": workspace, "rows": Jsonb(added)})
                await conn.execute(_SQL["advance"], {"workspace": workspace, "episodes": count + len(fresh)})
    return fresh


async def teach_globally(conn: Connection, workspace: str, rules: Sequence[str], episode: int, *, author: str) -> None:
    """Add rules for all tasks, inside the caller's turn."""
    lists = await rule_lists(conn, workspace, [""])
    lists[""].teach(rules, episode, author=author)
    await conn.execute(_SQL["upsert_rules"], {"workspace": workspace, "rows": Jsonb(lists[""].rows(""))})


async def rule_lists(conn: Connection, workspace: str, tasks: Sequence[str]) -> dict[str, RuleList]:
    """The rules of these tasks that are shown; the empty name stands for all tasks."""
    values = {"workspace": workspace, "tasks": list(tasks), "limit": MAX_GLOBAL_RULES}
    return _lists(tasks, await (await conn.execute(_SQL["rules_shown"], values)).fetchall())


def _lists(tasks: Iterable[str], stored: Iterable[Sequence[Any]]) -> dict[str, RuleList]:
    found: dict[str, list[tuple[str, int]]] = {task: [] for task in tasks}
    for task, rule, place in stored:
        found[task].append((rule, place))
    lists = {}
    for task, shown in found.items():
        most = MAX_TASK_RULES if task else MAX_GLOBAL_RULES
        lists[task] = RuleList([rule for rule, _ in shown][-most:], shown[-1][1] if shown else 0, most)
    return lists


async def _look(conn: Connection, workspace: str, episodes: Iterable[Episode]) -> dict[str, list[Any]]:
    """What is stored of what these episodes touch, by statement, in one round trip."""
    given = list(episodes)
    cards = [new_card(card.model_dump(), e.task_id) for e in given for card in e.mistake_cards]
    values = {
        "workspace": workspace,
        "ids": [e.episode_id for e in given],
        "tasks": sorted({e.task_id for e in given}),
        "limit": MAX_TASK_RULES,
        "hashes": [digest(card_key(card)) for card in cards],
    }
    names = ["known_ids", "attempts_of", "rules_shown", "findings_end", *(["cards_listed"] if cards else [])]
    async with conn.pipeline():
        cursors = {name: await conn.execute(_SQL[name], values) for name in names}
    return {name: await cursor.fetchall() for name, cursor in cursors.items()}


def _counted(
    fresh: Sequence[Episode], stored: Mapping[str, list[Any]], settings: EpisodeSettings
) -> dict[str, list[dict[str, Any]]]:
    """The rows that new episodes give, by the statement that writes them."""
    attempts: dict[str, int] = dict(stored["attempts_of"])
    lists = _lists({e.task_id for e in fresh} | {row[0] for row in stored["rules_shown"]}, stored["rules_shown"])
    scores = []
    for episode in fresh:
        attempts[episode.task_id] = attempts.get(episode.task_id, 0) + 1
        scores.append(
            {
                "task_id": episode.task_id,
                "attempt": attempts[episode.task_id],
                "score": episode.score,
                "episode_id": episode.episode_id,
            }
        )
        taught = outcome_rules(
            episode.score,
            episode.mistakes,
            episode.successes,
            works_from=settings.works_from,
            avoid_below=settings.avoid_below,
        )
        lists[episode.task_id].teach(taught, episode.number or 0)
    return {
        "insert_episodes": [_row(episode) for episode in fresh],
        "insert_scores": scores,
        "upsert_rules": [row for task, rules in lists.items() for row in rules.rows(task)],
        "upsert_findings": _findings(fresh, dict(stored["findings_end"])),
        "upsert_cards": _cards(fresh, stored.get("cards_listed", [])),
    }


def _findings(fresh: Sequence[Episode], ends: dict[str, int]) -> list[dict[str, Any]]:
    """What was found, each once; `ends` has the last place of each kind."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for episode in fresh:
        for kind, texts in (("mistake", episode.mistakes), ("success", episode.successes)):
            for text in filter(None, texts):
                row = found.get((kind, text))
                if row is None:
                    ends[kind] = ends.get(kind, 0) + 1
                    row = found[kind, text] = finding_row(kind, text, ends[kind])
                else:
                    row["seen_count"] += 1
                row["last_episode"] = episode.number
    return list(found.values())


def finding_row(kind: str, text: str, place: int) -> dict[str, Any]:
    """A mistake or success as a row, seen once."""
    return {
        "kind": kind,
        "finding": text,
        "finding_hash": digest(text),
        "place": place,
        "seen_count": 1,
        "last_episode": 0,
    }


def _cards(fresh: Sequence[Episode], stored: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    """The cards that change: those that were seen, and those whose place on the list is another one now."""
    seen = [(e.number or 0, new_card(card.model_dump(), e.task_id)) for e in fresh for card in e.mistake_cards]
    before = {row[0]: card_row(to_card(row), row[1], row[-1]) for row in stored}
    listed = [to_card(row) for row in stored if row[1] is not None]
    elsewhere = {row[0]: to_card(row) for row in stored if row[1] is None}
    for number, card in seen:
        known = digest(card_key(card))
        for dropped in see_card(listed, card, number, earlier=elsewhere.pop(known, None)):
            elsewhere[digest(card_key(dropped))] = dropped
    after = [(card, place) for place, card in enumerate(listed, 1)] + [(card, None) for card in elsewhere.values()]
    written = [
        card_row(card, place, before.get(digest(card_key(card)), {}).get("metadata", {})) for card, place in after
    ]
    return [row for row in written if before.get(row["card_hash"]) != row]


def card_row(card: Card, place: int | None, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """A card as a row. What a decision is besides text (a number, an object) is kept beside it, in the metadata."""
    row = {name: card.get(name) for name in CARD_COLUMNS}
    typed = {name: row[name] for name in _DECISIONS if not isinstance(row[name], str | None)}
    row |= {name: json.dumps(value, ensure_ascii=False, sort_keys=True) for name, value in typed.items()}
    kept = {name: value for name, value in metadata.items() if name != "typed"}
    return {
        **row,
        "card_hash": digest(card_key(card)),
        "place": place,
        "metadata": kept | ({"typed": typed} if typed else {}),
    }


def to_card(row: Sequence[Any]) -> Card:
    """A card from a row of `cards_listed`."""
    return {**dict(zip(CARD_COLUMNS, row[2:-1], strict=True)), **row[-1].get("typed", {})}


def _row(episode: Episode) -> dict[str, Any]:
    columns = {
        "episode_id", "number", "task_id", "worker_id", "score", "steps", "summary", "mistakes", "successes",
        "finished_at", "metadata",
    }  # fmt: skip
    told = [card.model_dump(mode="json") for card in episode.mistake_cards]
    row = episode.model_dump(mode="json", include=columns)
    row["message_ids"] = [message.message_id for message in episode.messages]
    if told:
        row["metadata"] = {**row["metadata"], "mistake_cards": told}
    return row


def strings(value: Any) -> Iterable[str]:
    """All texts within a value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, member in value.items():
            yield from (str(key), *strings(member))
    elif isinstance(value, list):
        for member in value:
            yield from strings(member)
