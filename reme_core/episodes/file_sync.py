"""Convert `agent_memory.json` to a workspace and back; values that fit in no column are kept in the metadata."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from psycopg.types.json import Jsonb

from reme_core.episodes import store
from reme_core.episodes.file import AgentMemory, check_memory, empty_memory
from reme_core.episodes.rules import MAX_CARDS, MAX_GLOBAL_RULES, MAX_LOG, MAX_TASK_RULES, Card, card_key
from reme_core.errors import ConflictError, InputError
from reme_core.postgres.database import Database
from reme_core.store import rows
from reme_core.store.sql import load

_SQL = load("episode.sql")

_ENTRY_KEY: Final = "agent_memory"  # in an episode's metadata: its log entry, if the columns cannot give it back
_ALL: Final = 2**31 - 1  # as a limit: no limit
Entry = Mapping[str, Any]  # of the log


async def as_memory(database: Database, workspace: str, *, bounded: bool = False) -> AgentMemory:
    """The memory of a workspace in the format of the helper's file; see `Episodes.as_memory`."""
    values = {"workspace": workspace, "limit": MAX_LOG if bounded else _ALL}
    progress = await database.fetch(workspace, _SQL["progress"], values)
    memory = empty_memory()
    if not progress:
        return memory
    count, consolidated_after, kept = progress[0]
    memory["total_episodes"], memory["last_consolidated_at"] = count, consolidated_after
    for task, score in await database.fetch(workspace, _SQL["all_scores"], values):
        memory["score_history"].setdefault(task, []).append(score)
        memory["task_rules"].setdefault(task, [])  # the helper has a list for every task, even an empty one
    for task, rule in await database.fetch(workspace, _SQL["all_rules"], values):
        (memory["task_rules"].setdefault(task, []) if task else memory["global_rules"]).append(rule)
    for kind, finding in await database.fetch(workspace, _SQL["all_findings"], values):
        memory["mistakes" if kind == "mistake" else "successes"].append(finding)
    cards = await database.fetch(workspace, _SQL["all_cards"], values)
    memory["mistake_cards"] = [{**store.card_from_row(row), **row[-1].get("rest", {})} for row in cards]
    memory["episode_log"] = [_log_entry(row) for row in await database.fetch(workspace, _SQL["log"], values)]
    if bounded:
        memory["global_rules"] = memory["global_rules"][-MAX_GLOBAL_RULES:]
        memory["task_rules"] = {task: rules[-MAX_TASK_RULES:] for task, rules in memory["task_rules"].items()}
        memory["mistake_cards"] = memory["mistake_cards"][:MAX_CARDS]
    return {**memory, **kept}


async def continue_with(database: Database, workspace: str, memory: AgentMemory) -> int:
    """Update a workspace to the state of a memory; see `Episodes.continue_with`."""
    check_memory(memory, "the memory")
    rows.check_json("the memory", memory)
    if "" in memory.get("task_rules", {}) or "" in memory.get("score_history", {}):
        raise InputError("the memory has a task without a name; give it one")
    full = {**empty_memory(), **memory}
    async with database.transaction(workspace) as conn:
        before, *_ = await store.lock_progress(conn, workspace)
        known: dict[str, list[float]] = {}
        values = {"workspace": workspace, "limit": _ALL}
        for task, score in await (await conn.execute(_SQL["all_scores"], values)).fetchall():
            known.setdefault(task, []).append(score)
        _require_continuation(workspace, known, full["score_history"])
        stored = [_log_entry(row) for row in await (await conn.execute(_SQL["log"], values)).fetchall()]
        fresh = _fresh_entries(full["episode_log"], stored)
        # The log only has the last episodes; the total also counts those before them.
        counted = full["total_episodes"]
        total = max(counted if type(counted) is int else 0, before + len(fresh))
        first = total - len(fresh) + 1
        numbered = [_episode_row(entry, again, first + place) for place, (entry, again) in enumerate(fresh)]
        cards = rows.first_by(full["mistake_cards"], lambda card: store.digest(card_key(card)))
        await conn.execute(_SQL["unlist_cards"], values)  # the cards of the memory get their places again below
        statements = {
            "insert_episodes": numbered,
            "insert_scores": _score_rows(known, full["score_history"], numbered),
            "upsert_rules": await _rule_rows(conn, workspace, full),
            "upsert_findings": await _finding_rows(conn, workspace, full),
            "upsert_cards": [_card_row(card, place) for place, card in enumerate(cards.values(), 1)],
        }
        for name, written in statements.items():
            if written:
                await conn.execute(_SQL[name], {"workspace": workspace, "rows": Jsonb(written)})
        last = full["last_consolidated_at"]
        rest = _unmapped_values(memory)
        values = {"workspace": workspace, "episodes": total, "file": Jsonb(rest)}
        await conn.execute(_SQL["keep_file"], values | {"consolidated_after": last if type(last) is int else None})
    return len(fresh)


def _require_continuation(workspace: str, known: Mapping[str, Sequence[float]], history: Mapping[str, Any]) -> None:
    for task, scores in known.items():
        if list(history.get(task, []))[: len(scores)] != list(scores):
            raise ConflictError(
                f"workspace '{workspace}' holds {len(scores)} scores of task '{task}' that the memory does not"
                " continue: somebody else has recorded there. Nothing was changed; load it again, or use an empty one"
            )


def _log_entry(row: Sequence[Any]) -> dict[str, Any]:
    _, task, score, steps, summary, finished_at, metadata = row
    entry = {"timestamp": finished_at.isoformat(), "task_id": task, "score": score, "steps": steps, "summary": summary}
    kept = metadata.get(_ENTRY_KEY)
    return kept if kept is not None else entry


def _identity(entry: Entry) -> tuple[Any, ...]:
    """The values by which a log entry is known again: it has no id."""
    # A score of 1 in the file comes back from Postgres as 1.0.
    return (str(entry.get("timestamp")), str(entry["task_id"]), str(entry["score"]).removesuffix(".0"))


def _fresh_entries(entries: Iterable[Entry], stored: Iterable[Entry]) -> list[tuple[Entry, int]]:
    """The entries that are not stored, each with its number among equal ones, of which a log may have several."""
    known, seen = Counter(map(_identity, stored)), Counter[tuple[Any, ...]]()
    fresh = []
    for entry in entries:
        seen[_identity(entry)] += 1
        if seen[_identity(entry)] > known[_identity(entry)]:
            fresh.append((entry, seen[_identity(entry)]))
    return fresh


def _episode_row(entry: Entry, again: int, number: int) -> dict[str, Any]:
    """A log entry as a row of `reme.episode`; `again` is its number among equal ones."""
    task, score = entry["task_id"], entry["score"]
    steps, summary = entry.get("steps", 0), entry.get("summary", "")
    row: dict[str, Any] = {
        "episode_id": store.digest(_identity(entry), again),
        "number": number,
        "task_id": task if isinstance(task, str) else str(task),
        "worker_id": "",
        "score": float(score) if isinstance(score, int | float) else 0.0,
        "steps": steps if type(steps) is int and abs(steps) < 2**31 else 0,
        "summary": summary if isinstance(summary, str) else str(summary or ""),
        "mistakes": [],
        "successes": [],
        "finished_at": _parse_timestamp(entry.get("timestamp")),
        "message_ids": [],
        "metadata": {},
    }
    columns = (None, row["task_id"], row["score"], row["steps"], row["summary"])
    # If the columns cannot give the entry back as it is, the metadata keep it.
    if _log_entry((*columns, datetime.fromisoformat(row["finished_at"]), {})) != entry:
        row["metadata"] = {_ENTRY_KEY: dict(entry)}
    return row


def _parse_timestamp(value: Any) -> str:
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return "1970-01-01T00:00:00+00:00"  # the column needs a time; the metadata keep the entry as it is
    return moment.isoformat() if moment.tzinfo else f"{moment.isoformat()}+00:00"


def _score_rows(
    known: Mapping[str, Sequence[float]], history: Mapping[str, Sequence[float]], episodes: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    # The history is longer than the log. So the last scores of a task belong to its episodes in the log.
    added = []
    for task, scores in history.items():
        ids = [episode["episode_id"] for episode in episodes if episode["task_id"] == task]
        for attempt in range(len(known.get(task, [])) + 1, len(scores) + 1):
            from_end = len(scores) - attempt
            episode_id = ids[-1 - from_end] if from_end < len(ids) else None
            added.append({"task_id": task, "attempt": attempt, "score": scores[attempt - 1], "episode_id": episode_id})
    return added


async def _rule_rows(conn: store.Connection, workspace: str, memory: AgentMemory) -> list[dict[str, Any]]:
    """Rows of the rules of lists that changed: they come behind all stored rules, in the order of the memory."""
    by_task = {**memory["task_rules"], "": memory["global_rules"]}
    lists = await store.rule_lists(conn, workspace, list(by_task))
    for task, rules in by_task.items():
        stored = lists[task]
        if stored.shown[-len(rules) :] == rules:
            continue  # the same rules in the same order
        for place, rule in enumerate(dict.fromkeys(rules), stored.last_place + 1):
            seen = 0 if rule in stored.shown else 1
            numbers = {"place": place, "seen_count": seen, "first_episode": 0, "last_episode": 0}
            stored.changes[rule] = {**numbers, "author": "file"}
    return [row for task, changed in lists.items() for row in changed.rows(task)]


async def _finding_rows(conn: store.Connection, workspace: str, memory: AgentMemory) -> list[dict[str, Any]]:
    cursor = await conn.execute(_SQL["all_findings"], {"workspace": workspace})
    stored = set(await cursor.fetchall())
    ends = {kind: sum(1 for of_kind, _ in stored if of_kind == kind) for kind in ("mistake", "success")}
    texts = [("mistake", text) for text in memory["mistakes"]] + [("success", text) for text in memory["successes"]]
    added = []
    for kind, text in dict.fromkeys(texts):
        if (kind, text) not in stored:
            ends[kind] += 1
            added.append(store.finding_row(kind, text, ends[kind]))
    return added


def _card_row(card: Card, place: int) -> dict[str, Any]:
    filled = {
        "mistake_type": "",
        "task_id": "",
        "evidence": "",
        "lesson": "",
        "seen_count": 1,
        "first_seen_episode": 0,
        "last_seen_episode": 0,
        **card,
    }
    row = store.card_row(filled, place, {})
    # Values that the columns cannot give back are kept in the metadata, where `as_memory` reads them.
    columns = [row["card_hash"], place, *(row[name] for name in store.CARD_COLUMNS), row["metadata"]]
    restored = store.card_from_row(columns)
    if restored != card:
        row["metadata"]["rest"] = {name: value for name, value in card.items() if restored.get(name) != value}
    return row


def _unmapped_values(memory: AgentMemory) -> dict[str, Any]:
    """The values that the tables cannot give back: unknown keys, and values of types that the helper does not write."""
    columns = empty_memory().keys() - {"version"}
    rest = {name: value for name, value in memory.items() if name not in columns}
    if type(memory.get("last_consolidated_at")) not in (int, type(None)):
        rest["last_consolidated_at"] = memory["last_consolidated_at"]
    return rest
