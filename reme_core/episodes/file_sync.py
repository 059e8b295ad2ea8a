"""`agent_memory.json` in a workspace, and back: what has no column of its own is kept beside it, so nothing is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from psycopg.types.json import Jsonb

from reme_core.errors import ConflictError, InputError
from reme_core.experience import MAX_CARDS, MAX_GLOBAL_RULES, MAX_LOG, MAX_TASK_RULES, Card, card_key, outcome_of
from reme_core.store import episodes as store
from reme_core.store import rows
from reme_core.store.agent_memory import AgentMemory, check_memory, empty_memory
from reme_core.store.database import Database
from reme_core.store.sql import load

_SQL = load("episode.sql")

_PLACE: Final = "agent_memory"  # where an episode's metadata keep an entry that its columns cannot give back
_ALL: Final = 2**31 - 1


async def as_memory(database: Database, workspace: str, *, bounded: bool = False) -> AgentMemory:
    """What a workspace's episodes left behind, as the helper's file holds it.

    Args:
        database: Where.
        workspace: Whose.
        bounded: Only as much as the helper would have kept: 100 episodes, 10 rules a task, 20 for all, 30 cards.
    """
    values = {"workspace": workspace, "limit": MAX_LOG if bounded else _ALL}
    progress = await database.fetch(workspace, _SQL["progress"], values)
    memory = empty_memory()
    if not progress:
        return memory
    count, consolidated_after, kept = progress[0]
    memory["total_episodes"], memory["last_consolidated_at"] = count, consolidated_after
    for task, score in await database.fetch(workspace, _SQL["all_scores"], values):
        memory["score_history"].setdefault(task, []).append(score)
        memory["task_rules"].setdefault(task, [])
    for task, rule in await database.fetch(workspace, _SQL["all_rules"], values):
        (memory["task_rules"].setdefault(task, []) if task else memory["global_rules"]).append(rule)
    for kind, finding in await database.fetch(workspace, _SQL["all_findings"], values):
        memory["mistakes" if kind == "mistake" else "successes"].append(finding)
    cards = await database.fetch(workspace, _SQL["all_cards"], values)
    memory["mistake_cards"] = [{**store.to_card(row), **row[-1].get("rest", {})} for row in cards]
    memory["episode_log"] = [_entry(row) for row in await database.fetch(workspace, _SQL["log"], values)]
    if bounded:
        memory["global_rules"] = memory["global_rules"][-MAX_GLOBAL_RULES:]
        memory["task_rules"] = {task: rules[-MAX_TASK_RULES:] for task, rules in memory["task_rules"].items()}
        memory["mistake_cards"] = memory["mistake_cards"][:MAX_CARDS]
    return {**memory, **kept}


async def continue_with(database: Database, workspace: str, memory: AgentMemory) -> int:
    """Bring a workspace to where a memory is.

    The memory has to continue what the workspace holds: anything continues an empty one, and what was loaded from a
    workspace continues it until somebody else records there.

    Returns:
        How many episodes came in.

    Raises:
        InputError: The memory has not the helper's form, or holds what Postgres cannot.
        ConflictError: The workspace holds scores that the memory does not know; nothing was changed.
    """
    check_memory(memory, "the memory")
    for text in store.strings(memory):
        rows.check_text("the memory", text)
    if "" in memory.get("task_rules", {}) or "" in memory.get("score_history", {}):
        raise InputError("the memory has a task without a name; give it one")
    full = {**empty_memory(), **memory}
    async with database.transaction(workspace) as conn:
        before, *_ = await store.begin(conn, workspace)
        known: dict[str, list[float]] = {}
        values = {"workspace": workspace, "limit": _ALL}
        for task, score in await (await conn.execute(_SQL["all_scores"], values)).fetchall():
            known.setdefault(task, []).append(score)
        _require_continuation(workspace, known, full["score_history"])
        stored = Counter(_identity(_entry(row)) for row in await (await conn.execute(_SQL["log"], values)).fetchall())
        told = _counted(full["episode_log"])
        fresh = [(entry, again) for entry, again in told if again > stored[_identity(entry)]]
        total = max(_number(full["total_episodes"]), before + len(fresh))
        first = total - len(fresh) + 1
        numbered = [_episode(entry, again, first + place) for place, (entry, again) in enumerate(fresh)]
        await conn.execute(_SQL["unlist_cards"], values)
        statements = {
            "insert_episodes": numbered,
            "insert_scores": _scores(known, full["score_history"], numbered),
            "upsert_rules": await _rules(conn, workspace, full),
            "upsert_findings": await _findings(conn, workspace, full),
            "upsert_cards": [_card(card, place) for place, card in enumerate(_distinct(full["mistake_cards"]), 1)],
        }
        for name, written in statements.items():
            if written:
                await conn.execute(_SQL[name], {"workspace": workspace, "rows": Jsonb(written)})
        last = full["last_consolidated_at"]
        rest = _rest(memory)
        values = {"workspace": workspace, "episodes": total, "file": Jsonb(rest)}
        await conn.execute(_SQL["keep_file"], values | {"consolidated_after": last if type(last) is int else None})
    return len(fresh)


def _require_continuation(workspace: str, known: Mapping[str, Sequence[float]], told: Mapping[str, Any]) -> None:
    for task, scores in known.items():
        if list(told.get(task, []))[: len(scores)] != list(scores):
            raise ConflictError(
                f"workspace '{workspace}' holds {len(scores)} scores of task '{task}' that the memory does not"
                " continue: somebody else has recorded there. Nothing was changed; load it again, or use an empty one"
            )


def _entry(row: Sequence[Any]) -> dict[str, Any]:
    """An episode as the helper's log has it."""
    _, task, score, steps, summary, finished_at, metadata = row
    entry = {
        "timestamp": finished_at.isoformat(),
        "task_id": task,
        "score": score,
        "steps": steps,
        "summary": summary,
    }
    kept = metadata.get(_PLACE)
    return kept if kept is not None else entry


def _identity(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    """By what an entry of the log is recognised."""
    return (str(entry.get("timestamp")), str(entry["task_id"]), str(entry["score"]).removesuffix(".0"))


def _counted(entries: Sequence[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], int]]:
    """Entries, each with how often its like came up so far, itself included."""
    seen: Counter[tuple[Any, ...]] = Counter()
    counted = []
    for entry in entries:
        seen[_identity(entry)] += 1
        counted.append((entry, seen[_identity(entry)]))
    return counted


def _episode(entry: Mapping[str, Any], again: int, number: int) -> dict[str, Any]:
    """A row of `reme.episode` from an entry of the log; what its columns cannot give back goes to the metadata."""
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
        "finished_at": _moment(entry.get("timestamp")),
        "message_ids": [],
        "metadata": {},
    }
    columns = (None, row["task_id"], row["score"], row["steps"], row["summary"])
    if _entry((*columns, datetime.fromisoformat(row["finished_at"]), {})) != entry:
        row["metadata"] = {_PLACE: dict(entry)}
    return row


def _moment(told: Any) -> str:
    try:
        moment = datetime.fromisoformat(told)
    except (TypeError, ValueError):
        return "1970-01-01T00:00:00+00:00"  # the file does not say; the entry itself is kept in the metadata
    return moment.isoformat() if moment.tzinfo else f"{moment.isoformat()}+00:00"


def _scores(
    known: Mapping[str, Sequence[float]], told: Mapping[str, Sequence[float]], episodes: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """New scores; the last ones of a task are those of its episodes in the log."""
    added = []
    for task, scores in told.items():
        ids = [episode["episode_id"] for episode in episodes if episode["task_id"] == task]
        for attempt in range(len(known.get(task, [])) + 1, len(scores) + 1):
            from_end = len(scores) - attempt
            episode_id = ids[-1 - from_end] if from_end < len(ids) else None
            added.append({"task_id": task, "attempt": attempt, "score": scores[attempt - 1], "episode_id": episode_id})
    return added


async def _rules(conn: store.Connection, workspace: str, memory: AgentMemory) -> list[dict[str, Any]]:
    """Rules take their places from the memory: behind all that were stored, in its order."""
    told = {**memory["task_rules"], "": memory["global_rules"]}
    lists = await store.rule_lists(conn, workspace, list(told))
    found = []
    for task, rules in told.items():
        if lists[task].shown[-len(rules) :] == rules:
            continue  # as it was
        for place, rule in enumerate(dict.fromkeys(rules), lists[task].last_place + 1):
            known = rule in lists[task].shown
            found.append(
                {
                    "task_id": task,
                    "rule": rule,
                    "rule_hash": store.digest(rule),
                    "outcome": outcome_of(rule),
                    "place": place,
                    "seen_count": 0 if known else 1,
                    "first_episode": 0,
                    "last_episode": 0,
                    "author": "file",
                }
            )
    return found


async def _findings(conn: store.Connection, workspace: str, memory: AgentMemory) -> list[dict[str, Any]]:
    cursor = await conn.execute(_SQL["all_findings"], {"workspace": workspace})
    stored = set(await cursor.fetchall())
    ends = {kind: sum(1 for of_kind, _ in stored if of_kind == kind) for kind in ("mistake", "success")}
    told = [("mistake", text) for text in memory["mistakes"]] + [("success", text) for text in memory["successes"]]
    added = []
    for kind, text in dict.fromkeys(told):
        if (kind, text) not in stored:
            ends[kind] += 1
            added.append(store.finding_row(kind, text, ends[kind]))
    return added


def _distinct(cards: Sequence[Card]) -> list[Card]:
    distinct: dict[str, Card] = {}
    for card in cards:
        distinct.setdefault(store.digest(card_key(card)), card)
    return list(distinct.values())


def _card(card: Card, place: int) -> dict[str, Any]:
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
    given = store.to_card([row["card_hash"], place, *(row[name] for name in store.CARD_COLUMNS), row["metadata"]])
    if given != card:
        row["metadata"]["rest"] = {name: value for name, value in card.items() if given.get(name) != value}
    return row


def _number(value: Any) -> int:
    return value if type(value) is int and value >= 0 else 0


def _rest(memory: AgentMemory) -> dict[str, Any]:
    """What the tables do not give back: unknown keys, and values of another sort than the helper writes."""
    columns = empty_memory().keys() - {"version"}
    rest = {name: value for name, value in memory.items() if name not in columns}
    if type(memory.get("last_consolidated_at")) not in (int, type(None)):
        rest["last_consolidated_at"] = memory["last_consolidated_at"]
    return rest
