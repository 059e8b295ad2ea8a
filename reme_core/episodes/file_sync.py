"""Convert `agent_memory.json` to a workspace and back, so that what its owner changes is changed in the workspace."""

from __future__ import annotations

import copy
from typing import Any, Final

from psycopg import AsyncConnection

from reme_core.episodes import store
from reme_core.episodes.file import AgentMemory, Origin, TracedMemory, check_memory, check_storable, empty_memory
from reme_core.episodes.file_edits import edits_of
from reme_core.episodes.file_rows import StoredMemory, card_hash, card_of_row, identity, log_entry, recognise
from reme_core.episodes.rules import MAX_CARDS, MAX_GLOBAL_RULES, MAX_LOG, MAX_TASK_RULES
from reme_core.errors import ConflictError, InputError
from reme_core.postgres.database import Database
from reme_core.store import rows
from reme_core.store.sql import load

_SQL = load("episode.sql")
_ALL: Final = 2**31 - 1  # as a limit: no limit


async def as_memory(database: Database, workspace: str, *, bounded: bool = False) -> TracedMemory:
    """The memory of a workspace in the format of the helper's file; see `Episodes.as_memory`."""
    values = {"workspace": workspace, "limit": MAX_LOG if bounded else _ALL}
    async with database.snapshot(workspace) as conn:  # no episode that is recorded meanwhile is read in part
        stored = await _read(conn, values)
    memory = TracedMemory(stored.memory)
    if bounded:
        memory["global_rules"] = memory["global_rules"][-MAX_GLOBAL_RULES:]
        memory["task_rules"] = {task: rules[-MAX_TASK_RULES:] for task, rules in memory["task_rules"].items()}
        memory["mistake_cards"] = memory["mistake_cards"][:MAX_CARDS]
    memory.origin = Origin(workspace, copy.deepcopy(dict(memory)), stored.episode_ids)
    return memory


async def continue_with(database: Database, workspace: str, memory: AgentMemory) -> int:
    """Update a workspace to the state of a memory; see `Episodes.continue_with`."""
    check_memory(memory, "the memory")
    check_storable(memory, "the memory")
    rows.check_json("the memory", memory)
    if "" in memory.get("task_rules", {}) or "" in memory.get("score_history", {}):
        raise InputError("the memory has a task without a name; give it one")
    mine = {**empty_memory(), **memory}
    for name in ("total_episodes", "last_consolidated_at"):
        if isinstance(mine[name], float) and mine[name].is_integer():
            mine[name] = int(mine[name])  # 20.0 is a count as well
    origin = memory.origin if isinstance(memory, TracedMemory) else None
    values = {"workspace": workspace, "limit": _ALL}
    async with database.write_transaction(workspace) as conn:
        await store.lock_progress(conn, workspace)
        stored = await _read(conn, values)
        # An empty workspace takes any memory, also one that came from another database.
        if origin is None or origin.workspace != workspace or stored.memory == empty_memory():
            origin = _as_if_loaded(workspace, mine, stored)
        edits = edits_of(origin, mine, stored)
        for statement, given in edits.statements:
            await conn.execute(_SQL[statement], {"workspace": workspace, **given})
    if isinstance(memory, TracedMemory):
        memory.origin = Origin(workspace, copy.deepcopy(dict(mine)), edits.episode_ids)
    return edits.added


async def _read(conn: AsyncConnection[Any], values: dict[str, Any]) -> StoredMemory:
    """Read a workspace in a `snapshot`, or while nobody else records episodes."""

    async def fetch(name: str) -> list[Any]:
        return await (await conn.execute(_SQL[name], values)).fetchall()

    memory = empty_memory()
    progress = await fetch("progress")
    if not progress:
        return StoredMemory(memory)
    memory["total_episodes"], memory["last_consolidated_at"], kept = progress[0]
    score_ids: dict[str, list[str | None]] = {}
    for task, score, episode_id in await fetch("all_scores"):
        memory["score_history"].setdefault(task, []).append(score)
        score_ids.setdefault(task, []).append(episode_id)
        memory["task_rules"].setdefault(task, [])  # the helper has a list for every task, even an empty one
    places: dict[tuple[str, str], list[int]] = {}
    for task, rule, place in await fetch("all_rules"):
        (memory["task_rules"].setdefault(task, []) if task else memory["global_rules"]).append(rule)
        places.setdefault(("rule", task), []).append(place)
    for kind, finding, place in await fetch("all_findings"):
        memory["mistakes" if kind == "mistake" else "successes"].append(finding)
        places.setdefault((kind, ""), []).append(place)
    cards = await fetch("all_cards")
    memory["mistake_cards"] = [card_of_row(row) for row in cards]
    listed = sum(1 for _, place, *_ in cards if place is not None)
    log = await fetch("log")
    memory["episode_log"] = [log_entry(row[2:]) for row in log]
    ids, numbers = (tuple(row[column] for row in log) for column in (0, 1))
    return StoredMemory({**memory, **kept}, ids, numbers, score_ids, places, listed)


def _as_if_loaded(workspace: str, mine: AgentMemory, stored: StoredMemory) -> Origin:
    """The origin of a memory that has none: what the workspace has of it. So it changes and adds, and removes nothing.

    Raises:
        ConflictError: The workspace has scores that the memory does not begin with.
    """
    there = stored.memory
    for task, scores in there["score_history"].items():
        if mine["score_history"].get(task, [])[: len(scores)] != scores:
            raise ConflictError(
                f"workspace '{workspace}' holds {len(scores)} scores of task '{task}' that the memory does not"
                " continue: they were edited, or somebody else has recorded there. Nothing was changed; load it again,"
                " or use an empty workspace"
            )
    known = dict(zip(stored.episode_ids, there["episode_log"], strict=True))
    ids = [one for one in recognise(mine["episode_log"], known.items(), identity) if one is not None]
    hashes = {card_hash(card) for card in mine["mistake_cards"]}
    state = {name: value for name, value in there.items() if name in mine} | {
        "total_episodes": min(there["total_episodes"], mine["total_episodes"]),
        "task_rules": {
            task: _part_of(rules, mine["task_rules"].get(task, [])) for task, rules in there["task_rules"].items()
        },
        "mistake_cards": [card for card in there["mistake_cards"] if card_hash(card) in hashes],
        "episode_log": [known[one] for one in ids],
    }
    for name in ("global_rules", "mistakes", "successes"):
        state[name] = _part_of(there[name], mine[name])
    return Origin(workspace, state, tuple(ids))


def _part_of(stored: list[str], mine: list[str]) -> list[str]:
    known = set(mine)
    return [one for one in stored if one in known]
