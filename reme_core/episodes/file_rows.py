"""Entries of `agent_memory.json` as rows of the tables and back; what fits in no other column is kept as it is."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from reme_core.episodes import store
from reme_core.episodes.file import AgentMemory, empty_memory
from reme_core.episodes.rules import Card, card_key


@dataclass(frozen=True)
class StoredMemory:
    """All that a workspace has of a memory, with what the memory does not show."""

    memory: AgentMemory
    episode_ids: tuple[str, ...] = ()
    """Ids of the entries in the log."""
    numbers: tuple[int, ...] = ()
    """Their numbers."""
    score_ids: Mapping[str, Sequence[str | None]] = field(default_factory=dict)
    """For each task, the ids of the episodes of its scores."""
    places: Mapping[tuple[str, str], Sequence[int]] = field(default_factory=dict)
    """The places of the rules of each task ("rule", task), the mistakes ("mistake", "") and successes."""
    listed_cards: int = 0
    """So many of the cards are in the list of those seen most; they come first."""


Entry = Mapping[str, Any]  # of the log


def log_entry(row: Sequence[Any]) -> dict[str, Any]:
    """The entry of a row of `log`, without its id and number."""
    task, score, steps, summary, finished_at, kept = row
    entry = {"timestamp": finished_at.isoformat(), "task_id": task, "score": score, "steps": steps, "summary": summary}
    return kept if kept is not None else entry


def identity(entry: Entry) -> tuple[Any, ...]:
    """The values by which a log entry is known again: it has no id."""
    # A score of 1 in the file comes back from Postgres as 1.0.
    return (str(entry.get("timestamp")), str(entry["task_id"]), str(entry["score"]).removesuffix(".0"))


def recognise(
    entries: Sequence[Entry], known: Iterable[tuple[str, Entry]], *keys: Callable[[Entry], Any]
) -> list[str | None]:
    """The ids of log entries among known ones, by the first key that fits; None for the others.

    Of several equal ones, each is used once, in order.
    """
    found: list[str | None] = [None] * len(entries)
    rest = dict(known)
    for key in keys:
        waiting: dict[Any, deque[str]] = defaultdict(deque)
        for episode_id, entry in rest.items():
            waiting[key(entry)].append(episode_id)
        for place, entry in enumerate(entries):
            if found[place] is None and waiting[key(entry)]:
                found[place] = episode_id = waiting[key(entry)].popleft()
                del rest[episode_id]
    return found


def episode_row(entry: Entry, again: int) -> dict[str, Any]:
    """A log entry as a row of `reme.episode`, without its number there; `again` is its number among equal ones."""
    task, score = entry["task_id"], entry["score"]
    steps, summary = entry.get("steps", 0), entry.get("summary", "")
    row: dict[str, Any] = {
        "episode_id": store.digest(identity(entry), again),
        "task_id": str(task),
        "worker_id": "",
        "score": float(score) if isinstance(score, int | float) else 0.0,
        "steps": steps if type(steps) is int and abs(steps) < 2**31 else 0,
        "summary": str(summary or ""),
        "mistakes": [],
        "successes": [],
        "finished_at": _parse_timestamp(entry.get("timestamp")),
        "message_ids": [],
        "metadata": {},
        "mistake_cards": [],
    }
    columns = (row["task_id"], row["score"], row["steps"], row["summary"])
    is_given_back = log_entry((*columns, datetime.fromisoformat(row["finished_at"]), None)) == entry
    return row | {"file_entry": None if is_given_back else dict(entry)}


def _parse_timestamp(value: Any) -> str:
    try:
        moment = datetime.fromisoformat(value)
        # In the zone in which Postgres gives it back.
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
    except (TypeError, ValueError, OverflowError):
        return "1970-01-01T00:00:00+00:00"  # the column needs a time; `file_entry` keeps it as it is


def card_hash(card: Card) -> str:
    """The digest by which a card of the file is found among the stored ones."""
    return store.digest(card_key(_fill(card)))


def card_to_row(card: Card, place: int) -> dict[str, Any]:
    """A card of the file as a row of `reme.mistake_card`."""
    row = store.card_row(_fill(card), place, {})
    # Values that the columns cannot give back are kept in the metadata, where `card_of_row` reads them.
    restored = card_of_row([row["card_hash"], place, *(row[name] for name in store.CARD_COLUMNS), row["metadata"]])
    if restored != card:
        row["metadata"]["rest"] = {name: value for name, value in card.items() if restored.get(name) != value}
    return row


def card_of_row(row: Sequence[Any]) -> Card:
    """The card of the file from a row of `all_cards`."""
    return {**store.card_from_row(row), **row[-1].get("rest", {})}


def _fill(card: Card) -> Card:
    """The card with a value of its column's type for each column that needs one."""
    texts = {name: card.get(name) for name in ("mistake_type", "task_id", "evidence", "lesson")}
    counts = {"seen_count": 1, "first_seen_episode": 0, "last_seen_episode": 0}
    return {
        **card,
        **{name: "" if text is None else str(text) for name, text in texts.items()},
        **{name: least if card.get(name) is None else int(card[name]) for name, least in counts.items()},
    }


def unmapped_values(memory: AgentMemory) -> dict[str, Any]:
    """The values of keys that the tables do not have."""
    columns = empty_memory().keys() - {"version"}
    return {name: value for name, value in memory.items() if name not in columns}
