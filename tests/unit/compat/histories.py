"""Scripted training histories: the same every time, with repeated mistakes, cards seen again, and gaps in the data."""

from __future__ import annotations

import random
from typing import Any

LENGTHS = (10, 20, 35, 50, 80, 100, 120, 160, 220, 300)


def history(length: int) -> list[dict[str, Any]]:
    """What a helper's `record_episode` is given, episode by episode."""
    chance = random.Random(length)
    tasks = [f"task_{letter}" for letter in "abcdefg"[: 2 + length // 50]]
    return [_episode(chance, chance.choice(tasks), number) for number in range(length)]


def _episode(chance: random.Random, task: str, number: int) -> dict[str, Any]:
    told: dict[str, Any] = {
        "task_id": task,
        "score": chance.choice([0, 0.1, 0.3, 0.49, 0.5, 0.7, 0.849, 0.85, 0.9, 1, 0.915, 0.125]),
        "steps": chance.randint(1, 40),
        "trajectory_summary": chance.choice(
            [
                "",
                f"Went through the steps of {task} in order " * chance.randint(1, 6),
                f"第 {number} 次：先看日志再重启",
            ]
        ),
        "mistakes": chance.sample(
            ["guessed", "", "没有检查日志", *(f"mistake {n}" for n in range(12))], chance.randint(0, 3)
        ),
        "successes": chance.sample(["read the logs", "", *(f"success {n}" for n in range(14))], chance.randint(0, 3)),
        "mistake_cards": [_card(chance) for _ in range(chance.choice([0, 0, 1, 1, 2]))],
    }
    for name in ("steps", "trajectory_summary", "mistakes", "successes", "mistake_cards", "score"):
        if chance.random() < 0.05:
            del told[name]
    return told


def _card(chance: random.Random) -> Any:
    card = {
        "mistake_type": chance.choice([None, "early", "late", *(f"type {n}" for n in range(20))]),
        "task_id": chance.choice([None, "", "task_a", "other"]),
        "worker_id": chance.choice([None, "", "w1", 2]),
        "bad_decision": chance.choice([None, "escalate", {"action": "wait"}]),
        "correct_decision": chance.choice([None, "restart", {"action": "restart"}, ["a", "b"]]),
        "evidence": chance.choice([None, "", "log line " * 50, "seen in the trace"]),
        "lesson": chance.choice([None, "Look before you leap. " * 20, "Check first."]),
    }
    return chance.choice([card, card, card, {"mistake_type": "bare"}, "no card at all"])
