r"""The seven functions of an RL training helper's memory across episodes.

```python
from reme_core.compat.agent_memory import build_memory_context, load_agent_memory, record_episode, save_agent_memory

memory = load_agent_memory("outputs/agent_memory.json")
system_prompt = build_memory_context(memory, "restart_service") + "\n\n" + system_prompt
memory = record_episode(memory, {"task_id": "restart_service", "score": 0.9, "steps": 4, "successes": ["Read logs"]})
save_agent_memory(memory, "outputs/agent_memory.json")
```

The dict belongs to the caller. These functions change nothing else, and cut the lists of the dict to the helper's
lengths. Between two runs the dict is stored at `path`, which is either

- a file in the helper's format, validated when it is read and written atomically; or
- `reme://workspace`, a workspace of the configured Postgres (`Settings.load()`). The workspace keeps what is cut from
  the dict, every episode can be queried with SQL, and many processes may share one memory. Saving brings it what was
  added, changed and taken out since the dict was loaded or saved; a copy should be made by `copy.deepcopy`, since
  `dict(memory)` forgets this, and then only adds and changes. If another process has changed the same things in
  between, for example recorded the same task, saving raises `ConflictError` and changes nothing.

Processes that write at the same time should use `reme.episodes.record`, which counts in the database.
"""

from __future__ import annotations

import logging
import math
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from reme_core.connection import callers_portal
from reme_core.episodes.consolidate import Attempt, Consolidation, consolidation_by_rules, distil
from reme_core.episodes.file import AgentMemory, read_memory, write_memory
from reme_core.episodes.file import empty_memory as new_agent_memory
from reme_core.episodes.note import SHOWN_CARDS, SHOWN_MISTAKES, PastEpisodes, episode_note
from reme_core.episodes.rules import (
    MAX_CARD_TEXT,
    MAX_GLOBAL_RULES,
    MAX_LOG,
    MAX_TASK_RULES,
    THRESHOLDS,
    UNKNOWN_TASK,
    count_card,
    new_card,
    outcome_rules,
    rank_cards,
)
from reme_core.errors import InputError
from reme_core.models.registry import chat_model
from reme_core.settings import ChatSettings, Settings
from reme_core.sync import ReMe
from reme_core.types import now

__all__ = [
    "build_memory_context",
    "load_agent_memory",
    "maybe_consolidate_memory",
    "memory_summary",
    "new_agent_memory",
    "record_episode",
    "save_agent_memory",
]

log = logging.getLogger(__name__)

DEFAULT_PATH = str(Path("outputs") / "agent_memory.json")
_WORKSPACE = "reme://"


def load_agent_memory(path: str = DEFAULT_PATH) -> AgentMemory:
    """Load a memory from a file or a workspace; if there is none yet, an empty one.

    Raises:
        InputError: The file exists but cannot be read; if it is broken, the message names the byte.
    """
    if path.startswith(_WORKSPACE):
        with ReMe() as reme:
            return reme.episodes.as_memory(_workspace_of(path), bounded=True)
    with suppress(OSError):  # where nobody may look, `read_memory` says so
        if not Path(path).exists():
            log.info("there is no memory at %s yet", path)
            return new_agent_memory()
    # A broken file is an error: the helper took it for an empty memory, and overwrote it at the next save.
    return read_memory(path)


def save_agent_memory(memory: AgentMemory, path: str = DEFAULT_PATH) -> None:
    """Save a memory to a file or a workspace, and cut its log to the last 100 episodes.

    Raises:
        InputError: The memory contains values that cannot be stored.
        ConflictError: Another process has changed the same things in the workspace.
    """
    if path.startswith(_WORKSPACE):
        # The workspace gets the whole log before it is cut: it keeps all episodes.
        with ReMe() as reme:
            reme.episodes.continue_with(_workspace_of(path), memory)
        memory["episode_log"] = memory["episode_log"][-MAX_LOG:]
    else:
        memory["episode_log"] = memory["episode_log"][-MAX_LOG:]
        write_memory(memory, path)


def record_episode(memory: AgentMemory, episode_data: dict[str, Any]) -> AgentMemory:
    """Add a finished episode to a memory.

    Args:
        memory: The memory so far; it is changed.
        episode_data: `task_id`, `score` (0 to 1), `steps`, `trajectory_summary`, `mistakes`, `successes` and
            `mistake_cards`, all of them optional; but for the score, None counts as not given.

    Returns:
        The same dict.

    Raises:
        InputError: The score is no finite number, a mistake or success is no text, or one of the lists is no list; the
            memory is as it was.
    """
    task_id, score = _task(episode_data.get("task_id")), _finite(episode_data.get("score", 0.0))
    mistakes, successes, seen = (_list_of(episode_data, name) for name in ("mistakes", "successes", "mistake_cards"))
    for name, texts in (("mistakes", mistakes), ("successes", successes)):
        if not all(isinstance(text, str | None) for text in texts):
            raise InputError(f"{name} of an episode must be texts, not {texts!r:.100}")
    memory["score_history"].setdefault(task_id, []).append(score)
    memory["episode_log"].append(
        {
            "timestamp": now().isoformat(),
            "task_id": task_id,
            "score": score,
            "steps": episode_data.get("steps") or 0,
            "summary": str(episode_data.get("trajectory_summary") or ""),
        }
    )
    memory["total_episodes"] = memory.get("total_episodes", 0) + 1
    for name, found in (("mistakes", mistakes), ("successes", successes)):
        _append_new(memory[name], [text for text in found if text])
    cards = memory.setdefault("mistake_cards", [])
    for card in seen:
        if isinstance(card, dict):
            count_card(cards, new_card(card, task_id, longest=MAX_CARD_TEXT), int(memory["total_episodes"]))
    rules = memory["task_rules"].setdefault(task_id, [])
    _append_new(rules, outcome_rules(score, mistakes, successes))
    memory["task_rules"][task_id] = rules[-MAX_TASK_RULES:]
    return memory


def build_memory_context(
    memory: AgentMemory, task_id: str | None = None, max_rules: int = 5, max_recent: int = 3
) -> str:
    """Write the note for the top of a system prompt; empty if nothing is known.

    Args:
        memory: The memory.
        task_id: The task at hand; without one the note has only what holds for all tasks.
        max_rules: Maximum number of rules of the task, and of rules for all tasks; 0 gives all.
        max_recent: Maximum number of earlier episodes of the task; 0 gives all.
    """
    # The helper takes `[-max_rules:]`, which is the whole list for 0, and its programs get the same notes here. In
    # `reme.episodes.context`, 0 leaves the part out.
    task_id = None if task_id in (None, "") else _task(task_id)
    scores = memory.get("score_history", {}).get(task_id, [])
    log_of_task = [entry for entry in memory.get("episode_log", []) if _task(entry.get("task_id")) == task_id]
    return episode_note(
        PastEpisodes(
            task_id=task_id or "",
            task_rules=memory.get("task_rules", {}).get(task_id, [])[-max_rules:],
            global_rules=memory.get("global_rules", [])[-max_rules:],
            mistakes=memory.get("mistakes", [])[-SHOWN_MISTAKES:],
            cards=rank_cards(memory.get("mistake_cards", []))[:SHOWN_CARDS],
            recent=[(e["score"], e.get("steps", 0), str(e.get("summary") or "")) for e in log_of_task[-max_recent:]],
            mean=(sum(scores) / len(scores), len(scores)) if scores else None,
        )
    )


def maybe_consolidate_memory(memory: AgentMemory, api_key: str | None = None, path: str = DEFAULT_PATH) -> AgentMemory:
    """Every 20 episodes distil rules for all tasks, and save the memory.

    With `api_key` (or `GROQ_API_KEY` in the environment) the model at `API_BASE_URL` makes the rules. Without a key, or
    if the model fails (which is logged as a warning), the rules are the summaries of the episodes with high scores.
    """
    # `last_consolidated_at` counts episodes; a text there (a date, say) counts as 0.
    total, last = memory.get("total_episodes", 0), memory.get("last_consolidated_at") or 0
    if total - (0 if isinstance(last, str) else last) < THRESHOLDS.consolidate_every:
        return memory
    attempts = [
        Attempt(entry.get("task_id"), entry.get("score", 0.0), str(entry.get("summary") or ""))
        for entry in memory.get("episode_log", [])
    ]
    made = _distil(attempts, api_key or os.getenv("GROQ_API_KEY"))
    combined = [*memory.get("global_rules", []), *made.rules]
    memory["global_rules"] = list(dict.fromkeys(combined))[-MAX_GLOBAL_RULES:]
    log.info("%d rules for all tasks, by %s", len(memory["global_rules"]), made.author)
    memory["last_consolidated_at"] = total
    save_agent_memory(memory, path)
    return memory


def memory_summary(memory: AgentMemory) -> dict[str, Any]:
    """Numbers of episodes, rules, mistakes and cards, and mean scores by task, for a training log."""
    return {
        "total_episodes": memory.get("total_episodes", 0),
        "global_rules": len(memory.get("global_rules", [])),
        "task_rules": {task: len(rules) for task, rules in memory.get("task_rules", {}).items()},
        "mistakes_stored": len(memory.get("mistakes", [])),
        "mistake_cards_stored": len(memory.get("mistake_cards", [])),
        "top_mistake_cards": [
            {
                "mistake_type": card.get("mistake_type"),
                "task_id": card.get("task_id"),
                "seen_count": card.get("seen_count", 0),
            }
            for card in rank_cards(memory.get("mistake_cards", []))[:5]
        ],
        "scores_by_task": {
            task: round(sum(scores) / len(scores), 3)
            for task, scores in memory.get("score_history", {}).items()
            if scores
        },
    }


def _task(task_id: Any) -> str:
    # A text, since the names in JSON are texts: after a load, the history of task 7 is that of "7", and of a dict with
    # both, the file would keep one.
    return UNKNOWN_TASK if task_id is None else str(task_id)


def _list_of(episode_data: dict[str, Any], name: str) -> list[Any]:
    found = episode_data.get(name)
    if not isinstance(found, list | tuple | None):  # the letters of a text would become rules
        raise InputError(f"{name} of an episode must be a list, not {found!r:.100}")
    return list(found or ())


def _finite(score: Any) -> float:
    try:
        number = float(score)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"the score of an episode must be a finite number, not {score!r:.60}; give a failed attempt 0")
    return number


def _append_new(known: list[str], found: list[str]) -> None:
    for text in found:
        if text not in known:
            known.append(text)


def _distil(attempts: list[Attempt], api_key: str | None) -> Consolidation:
    if not api_key:
        return consolidation_by_rules(attempts)

    async def ask() -> Consolidation:
        # The helper's endpoint, model and limits.
        url = os.getenv("API_BASE_URL", "https://api.groq.com/openai/v1")
        model = ChatSettings(
            backend="openai",
            model_name="llama-3.3-70b-versatile",
            base_url=url,
            api_key=SecretStr(api_key),
            params={"max_tokens": 300},
            timeout_seconds=30.0,
        )
        chat = chat_model(Settings(llm={"default": model}))
        assert chat is not None
        # Closed in the loop that opened its connections.
        try:
            return await distil(attempts, chat)
        finally:
            await chat.aclose()

    return callers_portal().wait(ask())  # not in the caller's own loop, in which this call may have been made


def _workspace_of(path: str) -> str:
    name = path.removeprefix(_WORKSPACE)
    if not name:
        raise InputError(f"'{path}' names no workspace; write reme://my-workspace")
    return name
