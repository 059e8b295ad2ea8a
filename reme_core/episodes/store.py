"""Store episodes in Postgres, with the scores, rules, findings and cards that follow from them.

All rules, findings and cards are kept. The lists that are shown (the newest rules of a task, the cards seen most) have
the lengths and the order of the training helper.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from reme_core.episodes.rules import (
    MAX_GLOBAL_RULES,
    MAX_TASK_RULES,
    Card,
    Episode,
    card_key,
    count_card,
    new_card,
    outcome_of,
    outcome_rules,
)
from reme_core.postgres.database import Database
from reme_core.settings import EpisodeSettings
from reme_core.store import messages, rows
from reme_core.store.sql import ENSURE_WORKSPACE, load
from reme_core.types import Message

log = logging.getLogger(__name__)

_SQL = load("episode.sql")
_MARK_SUMMARISED = load("memory.sql")["mark_summarised"]

CARD_COLUMNS = (
    "mistake_type", "task_id", "worker_id", "bad_decision", "correct_decision", "evidence", "lesson", "seen_count",
    "first_seen_episode", "last_seen_episode",
)  # fmt: skip
_DECISIONS = ("worker_id", "bad_decision", "correct_decision")  # any JSON values

Connection = AsyncConnection[Any]


@dataclass(slots=True)
class RuleList:
    """The shown rules of one task (or for all tasks), and how a batch of episodes changes them."""

    most: int
    shown: list[str] = field(default_factory=list)
    last_place: int = 0
    changes: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, rules: Iterable[str], episode: int, *, author: str = "rules") -> None:
        """Add rules at the end; a rule that is shown already keeps its place. The oldest beyond `most` are dropped."""
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
        """The changed rules as rows of `reme.episode_rule`."""
        return [rule_row(task_id, rule, change) for rule, change in self.changes.items()]


def rule_row(task_id: str, rule: str, counts: Mapping[str, Any]) -> dict[str, Any]:
    """A rule as a row of `reme.episode_rule`; `counts` has its place, counts, episodes and author."""
    return {"task_id": task_id, "rule": rule, "rule_hash": digest(rule), "outcome": outcome_of(rule), **counts}


def digest(*parts: Any) -> str:
    """The MD5 digest of values, by which equal texts are found."""
    # An index over digests is small, and the texts may have any length.
    text = json.dumps(parts, ensure_ascii=False, sort_keys=True, default=str)
    return hashlib.md5(text.encode("utf-8"), usedforsecurity=False).hexdigest()


def check_storable(episodes: Sequence[Episode]) -> None:
    """Raise an `InputError`, before anything is written, if an episode holds something that Postgres cannot store."""
    messages.check([message for episode in episodes for message in episode.messages])
    for episode in episodes:
        rows.check_json(f"episode {episode.episode_id!r}", episode.model_dump(exclude={"messages"}))


async def lock_progress(conn: Connection, workspace: str) -> tuple[int, int | None, dict[str, Any]]:
    """Lock a workspace for writing episodes, until the end of the transaction.

    Returns:
        The number of episodes; their number at the last consolidation, or None; and the values of an imported file that
        fit in no table (see `file_sync`).
    """
    # Numbers, places and counts follow from what is stored, so two writers must not read it at the same time.
    values = {"workspace": workspace}
    async with conn.pipeline():
        await conn.execute(ENSURE_WORKSPACE, values)
        await conn.execute(_SQL["ensure_progress"], values)
        cursor = await conn.execute(_SQL["lock_progress"], values)
    row = await cursor.fetchone()
    assert row is not None
    return row[0], row[1], row[2]


async def record(
    database: Database, workspace: str, episodes: Sequence[Episode], settings: EpisodeSettings, *, learn: bool
) -> list[Episode]:
    """Store episodes that passed `check_storable`, in order and in one transaction, and return the new ones, numbered.

    Those with a known id are skipped, with their messages. With `learn`, new ones that have messages wait for their
    lessons from now on.
    """
    unique = rows.first_by(episodes, lambda episode: episode.episode_id)
    # Whoever needs both takes the write lock first, and the lock of the progress after it.
    async with database.write_transaction(workspace, **messages.WRITES) as conn:
        count, *_ = await lock_progress(conn, workspace)
        stored = await _fetch_related(conn, workspace, unique.values())
        known = {episode_id: (task, score) for episode_id, task, score in stored["known_ids"]}
        fresh = [
            episode.model_copy(update={"number": count + place})
            for place, episode in enumerate((e for e in unique.values() if e.episode_id not in known), 1)
        ]
        if fresh:
            await _add_messages(conn, workspace, [message for episode in fresh for message in episode.messages])
            written = _rows_to_write(fresh, stored, settings)
            if learn:
                for row in written["insert_episodes"]:
                    row["lessons_asked_at"] = "now" if row["message_ids"] else None  # Postgres reads it as a time
            async with conn.pipeline():
                for statement, added in written.items():
                    if added:
                        await conn.execute(_SQL[statement], {"workspace": workspace, "rows": Jsonb(added)})
                await conn.execute(_SQL["advance"], {"workspace": workspace, "episodes": count + len(fresh)})
    _warn_of_taken_ids(workspace, episodes, known | {e.episode_id: (e.task_id, e.score) for e in fresh})
    return fresh


def _warn_of_taken_ids(workspace: str, given: Sequence[Episode], stored: Mapping[str, tuple[str, float]]) -> None:
    """Log that attempts were skipped whose ids are taken by others: a trainer may run again with the same seed."""
    taken = [e for e in given if (e.task_id, e.score) != stored[e.episode_id]]
    for e in taken[:1]:
        log.warning(
            "%d attempt(s) not recorded in workspace '%s', since others have their ids: %r is an attempt at '%s' with"
            " the score %g; give attempts ids of their own, or none, and each run a seed of its own",
            len(taken), workspace, e.episode_id, *stored[e.episode_id],
        )  # fmt: skip


async def _add_messages(conn: Connection, workspace: str, said: Sequence[Message]) -> None:
    if said:
        changed = await messages.add(conn, workspace, said)
        # A trajectory is no conversation with a person, so no personal memories are made from it.
        await conn.execute(_MARK_SUMMARISED, {"workspace": workspace, "ids": [m.message_id for m in changed]})


async def add_global_rules(
    conn: Connection, workspace: str, rules: Sequence[str], episode: int, *, author: str
) -> None:
    """Add rules for all tasks, in a transaction that has called `lock_progress`."""
    values = {"workspace": workspace, "tasks": [""], "limit": MAX_GLOBAL_RULES}
    shown = _group_rules([""], await (await conn.execute(_SQL["rules_shown"], values)).fetchall())[""]
    shown.add(rules, episode, author=author)
    await conn.execute(_SQL["upsert_rules"], {"workspace": workspace, "rows": Jsonb(shown.rows(""))})


def _group_rules(tasks: Iterable[str], stored: Iterable[Sequence[Any]]) -> dict[str, RuleList]:
    """The shown rules of these tasks; an empty name has the rules for all tasks."""
    lists = {task: RuleList(MAX_TASK_RULES if task else MAX_GLOBAL_RULES) for task in tasks}
    for task, rule, place in stored:  # the newest last
        lists[task].shown.append(rule)
        lists[task].last_place = place
    return lists


async def _fetch_related(conn: Connection, workspace: str, episodes: Iterable[Episode]) -> dict[str, list[Any]]:
    """The stored rows that these episodes may change, by the statement that reads them."""
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
    async with conn.pipeline():  # one round trip: the lock is held meanwhile
        cursors = {name: await conn.execute(_SQL[name], values) for name in names}
    return {name: await cursor.fetchall() for name, cursor in cursors.items()}


def _rows_to_write(
    fresh: Sequence[Episode], stored: Mapping[str, list[Any]], settings: EpisodeSettings
) -> dict[str, list[dict[str, Any]]]:
    """The rows to write for new episodes, by the statement that writes them."""
    attempts: dict[str, int] = dict(stored["attempts_of"])
    # Rules were read for the tasks of all given episodes, also of those that turned out to be known.
    lists = _group_rules({e.task_id for e in fresh} | {row[0] for row in stored["rules_shown"]}, stored["rules_shown"])
    scores = []
    for episode in fresh:
        task = episode.task_id
        attempts[task] = attempts.get(task, 0) + 1
        row = {"task_id": task, "attempt": attempts[task], "score": episode.score, "episode_id": episode.episode_id}
        scores.append(row)
        rules = outcome_rules(episode.score, episode.mistakes, episode.successes, settings)
        lists[task].add(rules, episode.number or 0)
    return {
        "insert_episodes": [_episode_row(episode) for episode in fresh],
        "insert_scores": scores,
        "upsert_rules": [row for task, rules in lists.items() for row in rules.rows(task)],
        "upsert_findings": _finding_rows(fresh, dict(stored["findings_end"])),
        "upsert_cards": _card_rows(fresh, stored.get("cards_listed", [])),
    }


def _finding_rows(fresh: Sequence[Episode], ends: dict[str, int]) -> list[dict[str, Any]]:
    """A row for each different mistake and success; `ends` has the last place of each kind, and is changed."""
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
    """A mistake or success as a row of `reme.episode_finding`, seen once."""
    return {
        "kind": kind,
        "finding": text,
        "finding_hash": digest(text),
        "place": place,
        "seen_count": 1,
        "last_episode": 0,
    }


def _card_rows(fresh: Sequence[Episode], stored: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    """Rows of the cards that change: cards of the new episodes, and cards that these move to another place."""
    seen = [(e.number or 0, new_card(card.model_dump(), e.task_id)) for e in fresh for card in e.mistake_cards]
    # A card without a place has dropped off the list. If it is seen again, its counts go on.
    before = {row[0]: card_row(card_from_row(row), row[1], row[-1]) for row in stored}
    listed = [card_from_row(row) for row in stored if row[1] is not None]
    elsewhere = {row[0]: card_from_row(row) for row in stored if row[1] is None}
    for number, card in seen:
        known = digest(card_key(card))
        for dropped in count_card(listed, card, number, earlier=elsewhere.pop(known, None)):
            elsewhere[digest(card_key(dropped))] = dropped
    after = [(card, place) for place, card in enumerate(listed, 1)] + [(card, None) for card in elsewhere.values()]
    written = [
        card_row(card, place, before.get(digest(card_key(card)), {}).get("metadata", {})) for card, place in after
    ]
    return [row for row in written if before.get(row["card_hash"]) != row]


def card_row(card: Card, place: int | None, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """A card as a row of `reme.mistake_card`."""
    # The columns of decisions are texts. A number or an object is also kept in the metadata, and read from there.
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


def card_from_row(row: Sequence[Any]) -> Card:
    """A card from a row of `cards_listed`."""
    return {**dict(zip(CARD_COLUMNS, row[2:-1], strict=True)), **row[-1].get("typed", {})}


def _episode_row(episode: Episode) -> dict[str, Any]:
    columns = {
        "episode_id", "number", "task_id", "worker_id", "score", "steps", "summary", "mistakes", "successes",
        "mistake_cards", "finished_at", "metadata",
    }  # fmt: skip
    row = episode.model_dump(mode="json", include=columns)
    row["message_ids"] = [message.message_id for message in episode.messages]
    return row
