"""How fast can memories be taken in?

    python -m benchmarks.ingest --memories 20000

`rows_per_s`: `memories.add` in batches of 5,000 with the vectors given, everything included: history, sources, both
legs of recall. `copy_rows_per_s`: COPY of the same texts and vectors into a bare table, the fastest that Postgres does.
`add_ms`: a single memory with its vector given.
"""

from __future__ import annotations

import argparse
import asyncio
import time

from pgvector import HalfVector
from rich.console import Console
from rich.progress import track

from benchmarks import synthetic
from benchmarks.common import fresh_reme, percentiles, report
from reme_core import Memory
from reme_core.engine import Engine
from reme_core.store.index import hnsw

DIMENSIONS = 384
BATCH = 5_000


async def through_api(reme: Engine, memories: list[Memory], vectors: synthetic.Vectors) -> float:
    """Seconds for all of them, in batches."""
    begun = time.perf_counter()
    for start in track(range(0, len(memories), BATCH), "Adding", console=Console(stderr=True)):
        batch = slice(start, start + BATCH)
        await reme.memories.add("batches", memories[batch], embeddings=vectors[batch])
    return time.perf_counter() - begun


async def by_copy(reme: Engine, memories: list[Memory], vectors: synthetic.Vectors) -> float:
    """Seconds for the same rows, copied into a table that has a key and nothing else."""
    async with reme.database.owner_connection() as connection:
        await connection.execute("create table public.bare (id text primary key, content text, embedding halfvec)")
        begun = time.perf_counter()
        async with connection.cursor().copy("copy public.bare from stdin (format binary)") as copy:
            copy.set_types(["text", "text", "halfvec"])
            for memory, vector in zip(memories, vectors, strict=True):
                await copy.write_row((memory.memory_id, memory.content, HalfVector(vector)))
        return time.perf_counter() - begun


async def one_by_one(reme: Engine, memories: list[Memory], vectors: synthetic.Vectors) -> list[float]:
    """Seconds of each single add."""
    seconds = []
    for n, (memory, vector) in enumerate(zip(memories, vectors, strict=True)):
        begun = time.perf_counter()
        await reme.memories.add("single", memory, embeddings=vector[None])
        if n >= 20:
            seconds.append(time.perf_counter() - begun)
    return seconds


async def run(count: int) -> None:
    """Measure, print."""
    memories, vectors = synthetic.memories(count, dimensions=DIMENSIONS)
    async with fresh_reme() as reme:
        # The index is built beside; a load of this size is measured without it, as COPY is.
        reme.settings.recall.exact_below = hnsw.WIDEST * count
        warm, warm_vectors = synthetic.memories(BATCH, dimensions=DIMENSIONS, seed=9)
        await reme.memories.add("warm", warm, embeddings=warm_vectors)
        seconds = await through_api(reme, memories, vectors)
        copied = await by_copy(reme, memories, vectors)
        single = await one_by_one(reme, memories[:300], vectors[:300])
    report(
        memories=count,
        rows_per_s=round(count / seconds),
        copy_rows_per_s=round(count / copied),
        ratio_to_copy=round(copied / seconds, 3),
        add_ms=percentiles(single),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=20_000)
    asyncio.run(run(parser.parse_args().memories))
