"""Does a recall stay as fast when there are more workspaces, and more in them?

    python -m benchmarks.scale [100:10000 10000:1000000] [--sizes even|zipf] [--rounds 400]

Each size, `workspaces:memories`, gets a database of its own, which four writers fill through the public API. Then
recalls with the vector given go to workspaces chosen at random, in turns on all databases: `recall` as it comes, where
a process meets a workspace for the first time unless there are few of them, and `again`, the same question a moment
later. With `--sizes zipf`, the sizes of the workspaces follow Zipf's law; else they are equal. The last line is a JSON
object; the ratios in it compare each size with the first.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import Progress

from benchmarks import synthetic
from benchmarks.common import fresh_reme, percentiles, report
from benchmarks.recall import DIMENSIONS, LIMIT, timed
from reme_core.engine import Engine
from reme_core.store.index import hnsw, postings

WRITERS, BATCH = 4, 1_000
SIZES = """
select sum(pg_total_relation_size(oid)) / 1e6 from pg_class where relnamespace = 'reme'::regnamespace and relkind = 'r'
"""

Asked = tuple[str, str, npt.NDArray[np.float32]]


@dataclass
class Filled:
    """A database that was filled, with questions to it, and what filling it took."""

    workspaces: int
    memories: int
    reme: Engine
    asked: list[Asked] = field(default_factory=list)
    ingest: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Its size in words."""
        return f"{self.memories:,} in {self.workspaces:,}"


def sizes_of(workspaces: int, memories: int, law: str) -> npt.NDArray[np.int64]:
    """How many memories each workspace gets; every one gets some."""
    shares = 1 / np.arange(1, workspaces + 1) if law == "zipf" else np.ones(workspaces)
    sizes: npt.NDArray[np.int64] = np.maximum(1, np.round(memories * shares / shares.sum())).astype(np.int64)
    return sizes


async def fill(filled: Filled, law: str, rounds: int, progress: Progress) -> None:
    """Write the memories, and keep a question to each of some workspaces that are chosen at random."""
    sizes = sizes_of(filled.workspaces, filled.memories, law)
    chosen = np.random.default_rng(7).integers(0, filled.workspaces, rounds)
    questions: dict[int, Asked] = {}
    bar = progress.add_task(filled.name, total=int(sizes.sum()))
    left = iter(range(filled.workspaces))
    begun, marks = time.perf_counter(), [0.0]

    async def write() -> None:
        for number in left:
            memories, vectors = synthetic.memories(int(sizes[number]), dimensions=DIMENSIONS, seed=number)
            name = f"workspace-{number}"
            for start in range(0, len(memories), BATCH):
                end = start + BATCH
                await filled.reme.memories.add(name, memories[start:end], embeddings=vectors[start:end])
                progress.advance(bar, len(memories[start:end]))
                if progress.tasks[bar].completed >= 100_000 * len(marks):
                    marks.append(time.perf_counter() - begun)
            if number in chosen:
                questions[number] = (name, *synthetic.queries(memories, vectors, 1, seed=number)[0])

    await asyncio.gather(*(write() for _ in range(WRITERS)))
    seconds = time.perf_counter() - begun
    filled.asked = [questions[int(number)] for number in chosen]
    for number in np.flatnonzero(sizes >= filled.reme.settings.recall.exact_below):
        await hnsw.ensure(filled.reme.database, f"workspace-{number}", exact_below=0)
        await postings.merge(filled.reme.database, f"workspace-{number}")
    async with filled.reme.database.owner_connection() as connection:
        await connection.execute("vacuum analyze")
        await connection.execute("checkpoint")
        row = await (await connection.execute(SIZES)).fetchone()
    of_each = np.diff(marks)
    filled.ingest = {
        "rows_a_second": round(int(sizes.sum()) / seconds),
        "seconds_of_each_100000": [round(float(one), 1) for one in of_each],
        "tables_mb": round(float(row[0])) if row else None,
    }


async def measure(all_filled: Sequence[Filled], rounds: int) -> dict[str, dict[str, Any]]:
    """What a recall takes in each database, in turns."""

    async def ask(filled: Filled, n: int) -> None:
        name, query, vector = filled.asked[n]
        await filled.reme.recall(name, query, embedding=vector, limit=LIMIT)

    ways: dict[str, Callable[[int], Awaitable[Any]]] = {}
    for filled in all_filled:
        ways[f"{filled.name}: recall"] = partial(ask, filled)
        ways[f"{filled.name}: again"] = partial(ask, filled)
    seconds = await timed(rounds, ways)
    found: dict[str, dict[str, Any]] = {}
    for filled in all_filled:
        recall, again = (percentiles(seconds[f"{filled.name}: {what}"]) for what in ("recall", "again"))
        found[filled.name] = {"recall_ms": recall, "again_ms": again, "ingest": filled.ingest}
    first = found[all_filled[0].name]
    for one in found.values():
        one["ratio_p50"] = round(one["recall_ms"]["p50"] / first["recall_ms"]["p50"], 2)
        one["ratio_p95"] = round(one["recall_ms"]["p95"] / first["recall_ms"]["p95"], 2)
    return found


async def main(scales: Sequence[str], law: str, rounds: int) -> None:
    """Fill all databases, ask them in turns, and print."""
    async with AsyncExitStack() as stack:
        filled = []
        with Progress(console=Console(stderr=True)) as progress:
            for scale in scales:
                workspaces, memories = map(int, scale.split(":"))
                filled.append(Filled(workspaces, memories, await stack.enter_async_context(fresh_reme())))
                await fill(filled[-1], law, rounds, progress)
        found = await measure(filled, rounds)
    report(benchmark="scale", sizes=law, rounds=rounds, **found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scales", nargs="*", default=["100:10000", "10000:1000000"], metavar="workspaces:memories")
    parser.add_argument("--sizes", choices=["even", "zipf"], default="even")
    parser.add_argument("--rounds", type=int, default=400)
    given = parser.parse_args()
    asyncio.run(main(given.scales, given.sizes, given.rounds))
