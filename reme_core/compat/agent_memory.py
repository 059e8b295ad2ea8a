r"""The cross-episode memory of an RL training helper, by its own seven functions.

```python
from reme_core.compat.agent_memory import build_memory_context, load_agent_memory, record_episode, save_agent_memory

memory = load_agent_memory("outputs/agent_memory.json")
system_prompt = build_memory_context(memory, "restart_service") + "\n\n" + system_prompt
memory = record_episode(memory, {"task_id": "restart_service", "score": 0.9, "steps": 4, "successes": ["Read logs"]})
save_agent_memory(memory, "outputs/agent_memory.json")
```

The dict is the caller's own: these functions read and change nothing else, and it is trimmed as the helper trims it.
Where it lives between two runs is said by `path`, which is either

- a file, in the helper's format, read strictly and written atomically; or
- `reme://workspace`, a workspace of the configured Postgres (`Settings.load()`), where everything is kept that the dict
  drops, every rollout can be queried by SQL, and many processes may share one memory. What is saved must continue what
  is stored; where another process has recorded meanwhile, saving raises `ConflictError` and changes nothing.

Processes that write at the same time better use `reme.episodes.record`, which counts in the database.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

from anyio.from_thread import start_blocking_portal
from pydantic import SecretStr

from reme_core.errors import InputError
from reme_core.experience import (
    AVOID_BELOW,
    CONSOLIDATE_EVERY,
    MAX_CARD_TEXT,
    MAX_GLOBAL_RULES,
    MAX_LOG,
    MAX_TASK_RULES,
    UNKNOWN_TASK,
    WORKS_FROM,
    high_score_rules,
    new_card,
    outcome_rules,
    ranked_cards,
    see_card,
)
from reme_core.models.registry import chat_model
from reme_core.ops.episode.consolidate import Attempt, Distilled, distil
from reme_core.ops.episode.note import SHOWN_CARDS, SHOWN_MISTAKES, PastEpisodes, episode_note
from reme_core.schema import now
from reme_core.settings import ChatSettings, Settings
from reme_core.store.agent_memory import AgentMemory, empty_memory, read_memory, write_memory
from reme_core.sync import ReMe

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


def new_agent_memory() -> AgentMemory:
    """A memory of no episodes; nothing is read or written."""
    return empty_memory()


def load_agent_memory(path: str = DEFAULT_PATH) -> AgentMemory:
    """Load a memory from a file or a workspace; where there is none yet, an empty one.

    Raises:
        InputError: The file is there but cannot be read; for a broken one the message names the byte. The helper went
            on with an empty memory in that case, and lost the file at the next save.
    """
    if path.startswith(_WORKSPACE):
        with ReMe() as reme:
            return reme.episodes.as_memory(_workspace(path), bounded=True)
    if not Path(path).exists():
        log.info("there is no memory at %s yet", path)
        return empty_memory()
    return read_memory(path)


def save_agent_memory(memory: AgentMemory, path: str = DEFAULT_PATH) -> None:
    """Save a memory to a file or a workspace; its log is cut to the last 100 episodes first, as in the helper.

    Raises:
        InputError: The memory holds what cannot be written.
        ConflictError: The workspace holds episodes that the memory does not know.
    """
    if path.startswith(_WORKSPACE):
        with ReMe() as reme:
            reme.episodes.continue_with(_workspace(path), memory)
        memory["episode_log"] = memory["episode_log"][-MAX_LOG:]
    else:
        memory["episode_log"] = memory["episode_log"][-MAX_LOG:]
        write_memory(memory, path)


def record_episode(memory: AgentMemory, episode_data: dict[str, Any]) -> AgentMemory:
    """Take in a finished episode.

    Args:
        memory: What is known so far; it is changed.
        episode_data: `task_id`, `score` (0 to 1), `steps`, `trajectory_summary`, `mistakes`, `successes` and
            `mistake_cards`, all of them optional.

    Returns:
        The same dict.
    """
    task_id = episode_data.get("task_id", UNKNOWN_TASK)
    score = float(episode_data.get("score", 0.0))
    memory["score_history"].setdefault(task_id, []).append(score)
    memory["episode_log"].append(
        {
            "timestamp": now().isoformat(),
            "task_id": task_id,
            "score": score,
            "steps": episode_data.get("steps", 0),
            "summary": episode_data.get("trajectory_summary", ""),
        }
    )
    memory["total_episodes"] = memory.get("total_episodes", 0) + 1
    mistakes, successes = episode_data.get("mistakes", []), episode_data.get("successes", [])
    for name, found in (("mistakes", mistakes), ("successes", successes)):
        _add_new(memory[name], [text for text in found if text])
    cards = memory.setdefault("mistake_cards", [])
    for card in episode_data.get("mistake_cards", []):
        if isinstance(card, dict):
            see_card(cards, new_card(card, task_id, longest=MAX_CARD_TEXT), int(memory["total_episodes"]))
    rules = memory["task_rules"].setdefault(task_id, [])
    _add_new(rules, outcome_rules(score, mistakes, successes, works_from=WORKS_FROM, avoid_below=AVOID_BELOW))
    memory["task_rules"][task_id] = rules[-MAX_TASK_RULES:]
    return memory


def build_memory_context(
    memory: AgentMemory, task_id: str | None = None, max_rules: int = 5, max_recent: int = 3
) -> str:
    """Write the note for the top of a system prompt; empty where nothing is known.

    Args:
        memory: What is known.
        task_id: The task at hand; without one only what holds for all tasks is told.
        max_rules: Rules of the task, and rules for all tasks, that are shown at most.
        max_recent: Earlier episodes of the task that are shown at most.
    """
    scores = memory.get("score_history", {}).get(task_id, []) if task_id else []
    log_of_task = [entry for entry in memory.get("episode_log", []) if task_id and entry.get("task_id") == task_id]
    return episode_note(
        PastEpisodes(
            task_id=task_id or "",
            task_rules=memory.get("task_rules", {}).get(task_id, [])[-max_rules:] if task_id else (),
            global_rules=memory.get("global_rules", [])[-max_rules:],
            mistakes=memory.get("mistakes", [])[-SHOWN_MISTAKES:],
            cards=ranked_cards(memory.get("mistake_cards", []))[:SHOWN_CARDS],
            recent=[(e["score"], e["steps"], e["summary"]) for e in log_of_task[-max_recent:]],
            mean=(sum(scores) / len(scores), len(scores)) if scores else None,
        )
    )


def maybe_consolidate_memory(memory: AgentMemory, api_key: str | None = None, path: str = DEFAULT_PATH) -> AgentMemory:
    """Every 20 episodes distil rules for all tasks, and save the memory.

    With `api_key` (or `GROQ_API_KEY` in the environment) the model behind `API_BASE_URL` does it; without one, or where
    the model fails (which is logged as a warning), the summaries of the episodes that scored best serve.
    """
    total, last = memory.get("total_episodes", 0), memory.get("last_consolidated_at") or 0
    if total - (0 if isinstance(last, str) else last) < CONSOLIDATE_EVERY:
        return memory
    attempts = [
        Attempt(entry.get("task_id"), entry.get("score", 0.0), entry.get("summary") or "")
        for entry in memory.get("episode_log", [])
    ]
    made = _distilled(attempts, api_key or os.getenv("GROQ_API_KEY"))
    combined = [*memory.get("global_rules", []), *made.rules]
    memory["global_rules"] = list(dict.fromkeys(combined))[-MAX_GLOBAL_RULES:]
    log.info("%d rules for all tasks, by %s", len(memory["global_rules"]), made.author)
    memory["last_consolidated_at"] = total
    save_agent_memory(memory, path)
    return memory


def memory_summary(memory: AgentMemory) -> dict[str, Any]:
    """What the memory holds, in numbers: for a training log."""
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
            for card in ranked_cards(memory.get("mistake_cards", []))[:5]
        ],
        "scores_by_task": {
            task: round(sum(scores) / len(scores), 3)
            for task, scores in memory.get("score_history", {}).items()
            if scores
        },
    }


def _add_new(known: list[str], found: list[str]) -> None:
    for text in found:
        if text not in known:
            known.append(text)


def _distilled(attempts: list[Attempt], api_key: str | None) -> Distilled:
    if not api_key:
        return Distilled(high_score_rules([(a.score, a.summary) for a in attempts]), "rules")

    async def ask() -> Distilled:
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
        try:
            return await distil(attempts, chat)
        finally:
            await chat.aclose()

    with start_blocking_portal() as portal:  # a loop of its own: the caller may be running in one
        return portal.call(ask)


def _workspace(path: str) -> str:
    name = path.removeprefix(_WORKSPACE)
    if not name:
        raise InputError(f"'{path}' names no workspace; write reme://my-workspace")
    return name
