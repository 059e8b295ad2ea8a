"""How long does the server take for each page of the inspector?

    python -m benchmarks.inspector --memories 5000

All memories are of one workspace, which is the hardest case, with half as many messages, a tenth as many recalls, calls
of models and tools and attempts at tasks, and a change of every tenth memory. The time is that of the whole request, in
this process: `first` of the first one, `median` and `most` of those after it. The bar is 150 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from benchmarks import synthetic
from benchmarks.common import fresh_reme, report
from reme_core.engine import Engine
from reme_core.server.http import create_app

WORKSPACE = "large"
BAR_MS = 150
DIMENSIONS = 384
PAGES = ("overview", "recalls", "memories", "people", "conversations", "times", "jobs", "tasks",
         "tools", "models")  # fmt: skip

_FILL = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")


async def fill(engine: Engine, count: int) -> None:
    """Make one large workspace, and 200 that are empty."""
    memories, vectors = synthetic.memories(count, dimensions=DIMENSIONS, seed=1)
    for start in range(0, count, 1_000):
        await engine.memories.add(WORKSPACE, memories[start : start + 1_000], embeddings=vectors[start : start + 1_000])
    async with engine.database.owner_connection() as connection:
        await connection.execute("set reme.workspace = '*'")
        for statement in _FILL.format(messages=count // 2, tenth=count // 10).strip().split(";\n"):
            await connection.execute(statement)
        await connection.execute("vacuum analyze")


async def measure(client: httpx.AsyncClient, path: str, rounds: int) -> dict[str, float]:
    """Milliseconds of requests for a page."""
    times = []
    for _ in range(rounds + 1):
        begun = time.perf_counter()
        answer = await client.get(f"/inspector{path}")
        times.append((time.perf_counter() - begun) * 1000)
        if answer.status_code != 200:
            raise RuntimeError(f"{path}: {answer.status_code} {answer.text[:2000]}")
    return {"first": round(times[0]), "median": round(float(np.median(times[1:]))), "most": round(max(times[1:]))}


async def run(count: int, rounds: int) -> None:
    """Fill, measure each page, print."""
    async with fresh_reme() as engine:
        await fill(engine, count)
        memory = (await engine.memories.list(WORKSPACE, limit=1))[0].memory_id
        here = f"w={WORKSPACE}"
        of_memories = ("q=nothing-says-this", "q=mended", "status=any&order=held", "subject=person-4")
        paths = ["", "?q=small-7", f"/memory?{here}&id={memory}", f"/recall?{here}&id=r8", f"/conversation?{here}&s=s3"]
        paths += [f"/memories?{here}&{chosen}" for chosen in of_memories]
        paths += [
            f"/recalls?{here}&q=nothing",
            f"/conversations?{here}&q=question+77",
            f"/times?{here}&start=2020-01-01",
            f"/ask?{here}&q=matter",
        ]
        paths += [f"/{name}?{here}" for name in PAGES]
        app = create_app(engine)
        pages: dict[str, Any] = {}
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost", timeout=60) as client,
        ):
            for path in paths:
                pages[path] = await measure(client, path, rounds)
    slow = [path for path, times in pages.items() if times["median"] > BAR_MS]
    for path, times in pages.items():
        print(f"{times['first']:6} {times['median']:6} {times['most']:6}  /inspector{path}", file=sys.stderr)
    report(benchmark="inspector", memories=count, milliseconds=pages, beyond_the_bar=slow)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    asyncio.run(run(arguments.memories, arguments.rounds))
