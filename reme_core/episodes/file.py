"""`agent_memory.json`, the training helper's memory file: it is checked when it is read, and written atomically."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from reme_core.errors import InputError
from reme_core.given import LARGEST_MEASURE, path_of
from reme_core.text.whole_files import replacement_of

AgentMemory = dict[str, Any]
"""The file's content, and the dict that the helper's functions work on."""


@dataclass(frozen=True)
class Origin:
    """The state in which a workspace last gave or took a memory."""

    workspace: str
    state: AgentMemory
    episode_ids: tuple[str, ...]
    """Ids of the episodes in the log of the state."""


class TracedMemory(AgentMemory):
    """A memory that knows its origin, so that saving it tells what was taken out from what others have added."""

    origin: Origin | None = None


_LISTS: Final = ("global_rules", "episode_log", "mistakes", "mistake_cards", "successes")
_MAPPINGS: Final = ("task_rules", "score_history")


def empty_memory() -> TracedMemory:
    """A memory without episodes."""
    return TracedMemory(
        version=1,
        total_episodes=0,
        last_consolidated_at=None,
        global_rules=[],
        task_rules={},
        episode_log=[],
        score_history={},
        mistakes=[],
        mistake_cards=[],
        successes=[],
    )


def read_memory(path: str | Path) -> TracedMemory:
    """Read the file.

    Raises:
        InputError: The file cannot be read, or does not have the helper's format. If it is no valid JSON, for example
            because it was cut off, the message names the byte with the error.
    """
    try:
        raw = path_of(path).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    try:
        text = raw.decode("utf-8")
        memory: AgentMemory = json.loads(text)
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is no UTF-8 text: byte {error.start} ({raw[error.start]:#04x}) cannot be read; restore the file"
            " from a copy, or convert it"
        ) from None
    except json.JSONDecodeError as error:
        # The decoder counts characters, but editors and tools that repair a file count bytes.
        at = len(text[: error.pos].encode("utf-8"))
        cut = at >= len(raw.rstrip()) or error.msg.startswith("Unterminated")
        what = f"{error.msg}; the file ends after byte {len(raw)}, so it was cut off" if cut else error.msg
        raise InputError(
            f"{path} is broken at byte {at} (line {error.lineno}, column {error.colno}): {what}. Nothing was loaded and"
            f" the file is as it was; restore it from a copy, or move it away to begin anew"
        ) from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits; lists in lists in lists
        raise InputError(f"{path} cannot be read: {error}; restore it from a copy, or move it away") from None
    check_memory(memory, str(path))
    return TracedMemory(memory)


def check_memory(memory: Any, where: str) -> None:
    """Check that a value has the format that the helper's functions work with; keys may be missing.

    Raises:
        InputError: It has another format; the message begins with `where` and names the part.
    """
    if not isinstance(memory, dict):
        raise InputError(f"{where} holds a {type(memory).__name__}, not the object of an agent memory")
    for name in _LISTS:
        if not isinstance(memory.get(name, []), list):
            raise InputError(f"{where}: {name} must be a list")
    for name in _MAPPINGS:
        value = memory.get(name, {})
        if not isinstance(value, dict) or not all(isinstance(member, list) for member in value.values()):
            raise InputError(f"{where}: {name} must map each task to a list")
    _check_entries(memory, where)
    total = memory.get("total_episodes", 0)
    if type(total) not in (int, float) or total != total // 1:
        raise InputError(f"{where}: total_episodes must be a whole number, not {total!r:.60}")
    for task_id, scores in memory.get("score_history", {}).items():
        # By its type: for `isinstance`, True is a number as well.
        if not all(type(score) in (int, float) for score in scores):
            raise InputError(f"{where}: score_history of '{task_id}' must hold numbers")


def _check_entries(memory: AgentMemory, where: str) -> None:
    for number, entry in enumerate(memory.get("episode_log", [])):
        if not isinstance(entry, dict) or not {"task_id", "score"} <= entry.keys():
            raise InputError(f"{where}: episode_log[{number}] must be an object with task_id and score")
        if type(entry["score"]) not in (int, float):
            raise InputError(
                f"{where}: the score of episode_log[{number}] must be a number, not {entry['score']!r:.60}"
            )
    for number, card in enumerate(memory.get("mistake_cards", [])):
        if not isinstance(card, dict):
            raise InputError(f"{where}: mistake_cards must hold objects")
        for name in ("seen_count", "last_seen_episode"):
            _check_count(card.get(name, 0), f"{where}: {name} of mistake_cards[{number}]")


def check_storable(memory: AgentMemory, where: str) -> None:
    """Check that Postgres can store a memory that passes `check_memory`, which allows all that the helper works with.

    Raises:
        InputError: It cannot; the message begins with `where` and names the part.
    """
    texts = {name: memory.get(name, []) for name in ("global_rules", "mistakes", "successes")}
    texts |= {f"task_rules of '{task_id}'": rules for task_id, rules in memory.get("task_rules", {}).items()}
    for name, members in texts.items():
        if not all(isinstance(member, str) for member in members):
            raise InputError(f"{where}: {name} must hold texts")
    scores = {f"score_history of '{task_id}'": found for task_id, found in memory.get("score_history", {}).items()}
    scores["episode_log"] = [entry["score"] for entry in memory.get("episode_log", [])]
    for name, numbers in scores.items():
        if not all(abs(number) <= LARGEST_MEASURE for number in numbers):
            raise InputError(f"{where}: the scores of {name} must be finite numbers, at most {LARGEST_MEASURE:g}")
    for number, card in enumerate(memory.get("mistake_cards", [])):
        for name, most in (("seen_count", 2**31), ("first_seen_episode", 2**63), ("last_seen_episode", 2**63)):
            what = f"{where}: {name} of mistake_cards[{number}]"
            if abs(_check_count(card.get(name) or 0, what)) >= most:
                raise InputError(f"{what} is too large")
    if abs(memory.get("total_episodes", 0)) >= 2**63:
        raise InputError(f"{where}: total_episodes is too large")


def _check_count(value: Any, what: str) -> int:
    # The helper reads counts by `int`, also from texts.
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{what} must be a whole number, not {value!r:.60}") from None


def write_memory(memory: AgentMemory, path: str | Path) -> None:
    """Write the file atomically: readers see the old file or the new one, even after a crash.

    Raises:
        InputError: The memory does not have the helper's format, contains values that JSON cannot express, or the file
            cannot be written; the old file is unchanged.
    """
    check_memory(memory, f"the memory cannot be saved, and {path} is as it was")
    target = path_of(path).resolve()  # the file behind a symbolic link is replaced, and the link stays
    try:
        text = json.dumps(memory, indent=2)
    except (TypeError, ValueError) as error:
        raise InputError(f"the memory cannot be written as JSON, and {path} is as it was: {error}") from None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = target.stat().st_mode & 0o777 if target.exists() else None
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None
    with replacement_of(target, mode=mode) as file:
        file.write(text.encode())
