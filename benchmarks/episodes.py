"""How long a note about a task takes with many episodes: `python -m benchmarks.episodes --episodes 10000 --tasks 50`.

The last line is one JSON object; times are milliseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time

from benchmarks.common import fresh_reme, percentiles, report
from reme_core.episodes.rules import Episode, MistakeCard

WORKSPACE = "bench"
ROUNDS = 400


def episode(chance: random.Random, number: int, tasks: int) -> Episode:
    """An attempt with what a training run tells of one."""
    card = MistakeCard(
        mistake_type=f"type {chance.randrange(40)}",
        correct_decision="wait",
        evidence="a line of the log " * 5,
        lesson="Wait.",
    )
    return Episode(
        episode_id=f"e{number}",
        task_id=f"task {number % tasks}",
        score=chance.random(),
        steps=chance.randint(1, 50),
        summary=f"Went about it in way {chance.randrange(100)}, looking at the logs first and acting after that.",
        mistakes=[f"mistake {chance.randrange(2_000)}"],
        successes=[f"success {chance.randrange(2_000)}"],
        mistake_cards=[card],
    )


async def main(episodes: int, tasks: int, seed: int) -> None:
    chance = random.Random(seed)
    async with fresh_reme() as reme:
        begun = time.perf_counter()
        for first in range(0, episodes, 500):
            batch = [episode(chance, n, tasks) for n in range(first, min(first + 500, episodes))]
            await reme.episodes.record_many(WORKSPACE, batch)
        loading = time.perf_counter() - begun
        async with reme.database.owner_connection() as conn:
            await conn.execute("vacuum analyze")
        noted, recorded, raw = [], [], []
        for number in range(ROUNDS):
            begun = time.perf_counter()
            note = await reme.episodes.context(WORKSPACE, f"task {number % tasks}")
            noted.append(time.perf_counter() - begun)
            begun = time.perf_counter()
            await reme.database.fetch(WORKSPACE, "select 1")
            raw.append(time.perf_counter() - begun)
        for number in range(100):
            told = episode(chance, episodes + number, tasks)
            begun = time.perf_counter()
            await reme.episodes.record(WORKSPACE, told)
            recorded.append(time.perf_counter() - begun)
        print(note)
        report(
            benchmark="episodes",
            episodes=episodes,
            tasks=tasks,
            context_ms=percentiles(noted),
            select_1_ms=percentiles(raw),
            record_ms=percentiles(recorded),
            batches_of_500_per_second=round(episodes / loading),
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--tasks", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    asyncio.run(main(given.episodes, given.tasks, given.seed))
