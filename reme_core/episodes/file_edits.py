"""The statements that bring a workspace to the state of a memory, and keep what others have stored meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from psycopg.types.json import Jsonb

from reme_core.episodes import store
from reme_core.episodes.file import AgentMemory, Origin
from reme_core.episodes.file_rows import (
    StoredMemory,
    card_hash,
    card_to_row,
    episode_row,
    identity,
    recognise,
    unmapped_values,
)
from reme_core.episodes.merge import merge_mapping, merge_order, merge_value, removals
from reme_core.episodes.rules import MAX_CARDS, MAX_GLOBAL_RULES, MAX_LOG, MAX_TASK_RULES
from reme_core.errors import InputError
from reme_core.store import rows

_UNBOUNDED: Final = 2**31
Statement = tuple[str, dict[str, Any]]
"""A statement's name, and its values."""


@dataclass(frozen=True)
class Edits:
    """How a workspace changes."""

    statements: list[Statement]
    episode_ids: tuple[str, ...]
    """Ids of the entries in the memory's log."""
    added: int
    """New episodes."""


def edits_of(origin: Origin, mine: AgentMemory, stored: StoredMemory) -> Edits:
    """The edits that follow from the changes of a memory since its origin.

    Raises:
        ConflictError: Something was changed in the memory and, since then, differently in the workspace.
        InputError: The memory cannot have become what it is by removing, changing and appending.
    """
    known = recognise(
        mine["episode_log"],
        zip(origin.episode_ids, origin.state["episode_log"], strict=True),
        identity,
        lambda entry: str(entry.get("timestamp")),
    )
    fresh = _fresh_rows([e for e, one in zip(mine["episode_log"], known, strict=True) if one is None], stored)
    new_ids = iter(row["episode_id"] for row in fresh)
    ids = tuple(one if one is not None else next(new_ids) for one in known)
    removed = removals(origin.episode_ids, ids, MAX_LOG)
    total = _total(origin, mine, stored, len(fresh), set(removed))
    for number, row in enumerate(fresh, total - len(fresh) + 1):
        row["number"] = number
    statements = [
        *_log_edits(origin, mine, stored, ids, removed),
        *_write("insert_episodes", fresh),
        *_score_edits(origin.state, mine, stored, fresh),
        ("unlink_scores", {"ids": removed}),
        *_rule_edits(origin.state, mine, stored),
        *_finding_edits(origin.state, mine, stored),
        *_card_edits(origin.state, mine, stored),
        _progress_edit(origin.state, mine, stored, total),
    ]
    return Edits(statements, ids, len(fresh))


def _write(statement: str, written: Sequence[Mapping[str, Any]]) -> list[Statement]:
    return [(statement, {"rows": Jsonb(written)})] if written else []


def _fresh_rows(entries: Sequence[Mapping[str, Any]], stored: StoredMemory) -> list[dict[str, Any]]:
    """The rows of new entries, without their numbers."""
    seen, taken = Counter(map(identity, stored.memory["episode_log"])), set(stored.episode_ids)
    added = []
    for entry in entries:
        seen[identity(entry)] += 1
        # An episode keeps its id when its entry is edited, so an entry like the old one needs another.
        while (row := episode_row(entry, seen[identity(entry)]))["episode_id"] in taken:
            seen[identity(entry)] += 1
        taken.add(row["episode_id"])
        added.append(row)
    return added


def _total(origin: Origin, mine: AgentMemory, stored: StoredMemory, fresh: int, removed: set[str]) -> int:
    was, counted, there = (side["total_episodes"] for side in (origin.state, mine, stored.memory))
    total = there + counted - was
    if counted >= was:
        total = max(total, there + fresh)
    # Numbers are given once. The log only has the last episodes; the total also counts those before them.
    numbered = zip(stored.episode_ids, stored.numbers, strict=True)
    highest = max((number for one, number in numbered if one not in removed), default=0)
    if total - fresh < highest:
        raise InputError(
            f"total_episodes cannot be lowered to {counted}: workspace '{origin.workspace}' keeps episode {highest}."
            " Nothing was changed; take the episodes out of episode_log first, or clear the workspace to begin anew"
        )
    return int(total)


def _log_edits(
    origin: Origin, mine: AgentMemory, stored: StoredMemory, ids: Sequence[str], removed: list[str]
) -> list[Statement]:
    there = dict(zip(stored.episode_ids, stored.memory["episode_log"], strict=True))
    before = dict(zip(origin.episode_ids, origin.state["episode_log"], strict=True))
    number_of = dict(zip(stored.episode_ids, stored.numbers, strict=True))
    numbers = [number_of[one] for one in ids if one in number_of]
    if numbers != sorted(numbers):
        raise InputError(
            "episode_log is in another order than the workspace's: entries can be removed, changed and appended, but"
            " not moved. Nothing was changed"
        )
    changed = []
    for episode_id, entry in {**dict.fromkeys(removed), **dict(zip(ids, mine["episode_log"], strict=True))}.items():
        if episode_id not in before:
            continue
        now = there.get(episode_id)
        merged = merge_value(f"an entry of the log, {before[episode_id]}", before[episode_id], entry, now)
        if merged is not None and merged != now:
            changed.append(episode_row(merged, 1) | {"episode_id": episode_id})
    return [("delete_episodes", {"ids": removed}), *_write("edit_episodes", changed)]


def _score_edits(
    before: AgentMemory, mine: AgentMemory, stored: StoredMemory, fresh: Sequence[Mapping[str, Any]]
) -> list[Statement]:
    statements: list[Statement] = []
    added = []
    sides = [side["score_history"] for side in (before, mine, stored.memory)]
    for task in {task: None for side in sides for task in side}:
        was, own, there = (list(side.get(task, [])) for side in sides)
        scores = merge_value(f"score_history of task '{task}'", was, own, there)
        same = _common_start(scores, there)
        ids = _score_ids(scores, there, stored.score_ids.get(task, []))
        # The history is longer than the log. So the last scores of a task belong to its new episodes.
        of_task = [row["episode_id"] for row in fresh if row["task_id"] == task]
        for from_end in range(1, 1 + min(len(of_task), len(ids))):
            ids[-from_end] = ids[-from_end] or of_task[-from_end]
        if same < len(there):
            statements.append(("delete_scores", {"task": task, "kept": same}))
        added += [
            {"task_id": task, "attempt": attempt, "score": scores[attempt - 1], "episode_id": ids[attempt - 1]}
            for attempt in range(same + 1, len(scores) + 1)
        ]
    return statements + _write("insert_scores", added)


def _score_ids(scores: Sequence[float], there: Sequence[float], ids: Sequence[str | None]) -> list[str | None]:
    """The episodes of edited scores: scores that stayed at the start or the end keep theirs, and so do changed ones."""
    start = _common_start(scores, there)
    end = _common_start(scores[start:][::-1], there[start:][::-1])
    old, length = ids[start : len(there) - end], len(scores) - start - end
    middle = [*old, *[None] * (length - len(old))] if length >= len(old) else [None] * length
    return [*ids[:start], *middle, *ids[len(there) - end :]]


def _common_start(one: Sequence[Any], other: Sequence[Any]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def _edit_list(
    before: Sequence[str], mine: Sequence[str], stored: Sequence[str], places: Sequence[int], most: int
) -> tuple[list[str], dict[str, int]]:
    """How a list of texts changes: digests of those that go, and places for new and moved ones."""
    removed = set(removals(before, mine, most)).intersection(stored)
    left = [text for text in stored if text not in removed]
    after = merge_order(before, mine, stored, removed)
    # From the first that stands elsewhere, all get places behind those given so far.
    moved = after[_common_start(after, left) :]
    end = places[-1] if places else 0
    return [store.digest(text) for text in removed], {text: place for place, text in enumerate(moved, end + 1)}


def _rule_edits(before: AgentMemory, mine: AgentMemory, stored: StoredMemory) -> list[Statement]:
    statements: list[Statement] = []
    written = []
    sides = [{**side["task_rules"], "": side["global_rules"]} for side in (before, mine, stored.memory)]
    for task in {task: None for side in sides for task in side}:
        was, own, there = (side.get(task, []) for side in sides)
        most = MAX_TASK_RULES if task else MAX_GLOBAL_RULES
        gone, placed = _edit_list(was, own, there, stored.places.get(("rule", task), []), most)
        if gone:
            statements.append(("delete_rules", {"task": task, "hashes": gone}))
        known = set(there)
        numbers = {"first_episode": 0, "last_episode": 0, "author": "file"}
        written += [
            store.rule_row(task, rule, {**numbers, "place": place, "seen_count": 0 if rule in known else 1})
            for rule, place in placed.items()
        ]
    return statements + _write("upsert_rules", written)


def _finding_edits(before: AgentMemory, mine: AgentMemory, stored: StoredMemory) -> list[Statement]:
    statements: list[Statement] = []
    for name, kind in (("mistakes", "mistake"), ("successes", "success")):
        was, own, there = (side[name] for side in (before, mine, stored.memory))
        gone, placed = _edit_list(was, own, there, stored.places.get((kind, ""), []), _UNBOUNDED)
        statements.append(("delete_findings", {"kind": kind, "hashes": gone}))
        known = set(there)
        found = [store.finding_row(kind, text, place) for text, place in placed.items()]
        statements += _write("place_findings", [row for row in found if row["finding"] in known])
        statements += _write("upsert_findings", [row for row in found if row["finding"] not in known])
    return statements


def _card_edits(before: AgentMemory, mine: AgentMemory, stored: StoredMemory) -> list[Statement]:
    sides = [side["mistake_cards"] for side in (before, mine, stored.memory)]
    was, own, there = (rows.first_by(cards, card_hash) for cards in sides)
    listed = [card_hash(card) for card in sides[2][: stored.listed_cards]]
    missing = [one for one in was if one not in own]
    # A full list drops the cards seen least, which takes nothing out of the workspace.
    full = len(own) >= MAX_CARDS >= len(was) - len(missing)
    removed = [] if full else [one for one in missing if one in there]
    for one in removed:
        merge_value(f"mistake card {was[one].get('mistake_type')!r}", was[one], None, there[one])
    merged = {one: _merge_card(card, was.get(one), there.get(one)) for one, card in own.items()}
    kept = {one: card for one, card in merged.items() if card is not None}
    order = [one for one in merge_order(was, kept, list(there), removed) if one in kept or one in listed]
    order = [one for one in order if one not in missing]
    cards = {one: kept.get(one) or there[one] for one in order}
    if order == listed and all(there[one] == card for one, card in cards.items()):
        return []
    written = [card_to_row(card, place) for place, card in enumerate(cards.values(), 1)]
    return [("delete_cards", {"hashes": removed}), ("unlist_cards", {}), *_write("upsert_cards", written)]


def _merge_card(
    mine: dict[str, Any], before: dict[str, Any] | None, there: dict[str, Any] | None
) -> dict[str, Any] | None:
    name = f"mistake card {mine.get('mistake_type')!r}"
    if before is None:
        return mine
    return merge_value(name, before, mine, None) if there is None else merge_mapping(name, before, mine, there)


def _progress_edit(before: AgentMemory, mine: AgentMemory, stored: StoredMemory, total: int) -> Statement:
    sides = (before, mine, stored.memory)
    rest = merge_mapping("the memory", *(unmapped_values(side) for side in sides))
    was, own, there = (side["last_consolidated_at"] for side in sides)
    if was not in (own, there) and isinstance(own, int) and isinstance(there, int):
        last = max(own, there)  # both have consolidated since
    else:
        last = merge_value("last_consolidated_at", was, own, there)
    number = isinstance(last, int | None)
    values = {"episodes": total, "consolidated_after": last if number else None}
    return "keep_file", values | {"file": Jsonb(rest if number else rest | {"last_consolidated_at": last})}
