"""Does recall find the turns that answer a question? LoCoMo (Maharana et al., 2024), categories 1 to 4.

    python -m benchmarks.locomo --data locomo.json

Each conversation becomes a workspace, each of its sessions a session. A question's score is the share of its evidence
turns among the first k hits; questions of category 5 (unanswerable) and those without evidence are left out. The legs
alone are measured through the same statement, with the other leg's share set to nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.common import DATA, fresh_reme, percentiles, report
from reme_core import Message
from reme_core.engine import Engine
from reme_core.store import recall_sql

CATEGORIES = {1: "multi_hop", 2: "temporal", 3: "open_domain", 4: "single_hop"}
DEPTHS = (5, 10, 20)
Scores = dict[str, float]


def messages_of(conversation: dict[str, Any]) -> list[Message]:
    """The turns of all sessions, in order; an image counts by its caption."""
    messages = []
    for number in range(1, 1 + sum(key.startswith("session_") for key in conversation)):
        turns = conversation.get(f"session_{number}") or []
        date = conversation.get(f"session_{number}_date_time", "")
        said = datetime.strptime(date, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC) if date else datetime.now(UTC)
        for turn in turns:
            caption = f" ({turn['blip_caption']})" if turn.get("blip_caption") else ""
            messages.append(
                Message(
                    message_id=turn["dia_id"],
                    author=turn["speaker"],
                    content=turn["text"] + caption,
                    session_id=f"session_{number}",
                    sent_at=said,
                )
            )
    return messages


def questions_of(sample: dict[str, Any]) -> list[tuple[str, str, set[str]]]:
    """`(question, category, ids of the evidence turns)` of everything that has an answer in the conversation."""
    known = {m.message_id for m in messages_of(sample["conversation"])}
    found = []
    for qa in sample["qa"]:
        evidence = {part for item in qa.get("evidence", []) for part in str(item).replace(";", " ").split()} & known
        if qa["category"] in CATEGORIES and evidence:
            found.append((qa["question"], CATEGORIES[qa["category"]], evidence))
    return found


def judge(found: list[str], evidence: set[str]) -> Scores:
    """The measures of one question."""
    ranks = [rank for rank, name in enumerate(found, 1) if name in evidence]
    scores = {f"recall@{k}": sum(r <= k for r in ranks) / len(evidence) for k in DEPTHS}
    return scores | {"hit@10": float(any(r <= 10 for r in ranks)), "mrr": 1 / ranks[0] if ranks else 0.0}


async def ask_all(reme: Engine, asked: dict[str, list[tuple[str, str, set[str]]]]) -> tuple[Any, list[float]]:
    """Scores by category (and `overall`), and the seconds each recall took, embedding included."""
    scores: dict[str, list[Scores]] = defaultdict(list)
    seconds = []
    for workspace, questions in asked.items():
        for question, category, evidence in questions:
            begun = time.perf_counter()
            found = await reme.recall(workspace, question, kind="conversation", limit=max(DEPTHS))
            seconds.append(time.perf_counter() - begun)
            result = judge([hit.memory.memory_id for hit in found.hits], evidence)
            scores[category].append(result)
            scores["overall"].append(result)
    means = {
        name: {key: round(float(np.mean([r[key] for r in results])), 3) for key in results[0]}
        for name, results in scores.items()
    }
    return means, seconds


async def run(path: Path) -> None:
    """Load, ask, print."""
    samples = json.loads(path.read_text(encoding="utf-8"))
    console = Console(stderr=True)
    asked = {}
    async with fresh_reme() as reme:
        turns, embedding = 0, 0.0
        for number, sample in enumerate(track(samples, "Recording", console=console)):
            workspace = str(sample.get("sample_id", number))
            messages = messages_of(sample["conversation"])
            begun = time.perf_counter()
            await reme.record(workspace, messages, wait=True)
            embedding += time.perf_counter() - begun
            turns += len(messages)
            asked[workspace] = questions_of(sample)
        both, seconds = await ask_all(reme, asked)
        alpha = recall_sql.ALPHA
        try:
            recall_sql.ALPHA = 1.0
            vector, _ = await ask_all(reme, asked)
            recall_sql.ALPHA = 0.0
            lexical, _ = await ask_all(reme, asked)
        finally:
            recall_sql.ALPHA = alpha

    table = Table("", *both["overall"], title=f"{len(seconds)} questions, {turns} turns, {len(samples)} conversations")
    rows = {"both legs": both["overall"], "vector only": vector["overall"], "lexical only": lexical["overall"]}
    for name, row in {**rows, **{k: v for k, v in both.items() if k != "overall"}}.items():
        table.add_row(name, *(f"{value:.3f}" for value in row.values()))
    console.print(table)
    report(
        overall=both["overall"],
        by_category={name: both[name] for name in CATEGORIES.values() if name in both},
        vector_only=vector["overall"],
        lexical_only=lexical["overall"],
        query_ms=percentiles(seconds),
        embed_ms_per_turn=round(embedding / turns * 1e3, 2),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA / "locomo_dev.json", help="a file in LoCoMo's own format")
    asyncio.run(run(parser.parse_args().data))
