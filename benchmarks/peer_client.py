"""One of the stores of `benchmarks.peers`, in a process of its own: it does what it is told in lines of JSON.

It runs in the environment of a peer, which has neither this project nor what it depends on; so nothing of it is
imported but where our own store is asked for.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
import uuid
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import numpy as np

LIMIT = 10
BATCH = 1_000
POOL = 8
_until_the_end = AsyncExitStack()
Search = Callable[[int], Coroutine[Any, Any, int]]
"""Searches for the n-th query, and gives how many rows came back."""


class Data:
    """What is stored, and what is asked."""

    def __init__(self, folder: Path) -> None:
        self.texts: list[list[str]] = json.loads((folder / "texts.json").read_text(encoding="utf-8"))
        self.vectors = np.load(folder / "vectors.npy")
        self.queries: list[dict[str, Any]] = json.loads((folder / "queries.json").read_text(encoding="utf-8"))
        self.by_text = {query["query"]: query["vector"] for query in self.queries}

    def batches(self) -> Iterator[tuple[str, list[str], Any]]:
        """Some texts of one workspace at a time, with their vectors."""
        for number, (texts, vectors) in enumerate(zip(self.texts, self.vectors, strict=True)):
            for start in range(0, len(texts), BATCH):
                yield f"w{number}", texts[start : start + BATCH], vectors[start : start + BATCH]

    def vectors_of(self, texts: list[str]) -> list[list[float]]:
        """The vectors of queries, or of the texts of a batch that is being stored."""
        return [self.by_text[text] for text in texts]


async def reme(url: str, data: Data) -> tuple[Callable[[], Coroutine[Any, Any, None]], Search]:
    """This project, through its public interface."""
    from reme_core import AsyncReMe
    from reme_core.postgres import migrate
    from reme_core.store.index import hnsw, postings

    migrate.upgrade(url)
    client = AsyncReMe(database_url=url)

    async def load() -> None:
        for workspace, texts, vectors in data.batches():
            await client.memories.add(workspace, texts, embeddings=vectors)
        await client.connection.run(_finish_index)

    async def _finish_index(engine: Any) -> None:  # which would otherwise be done in the background
        for workspace in {workspace for workspace, _, _ in data.batches()}:
            await hnsw.ensure(engine.database, workspace, exact_below=engine.settings.recall.exact_below)
            await postings.merge(engine.database, workspace)

    async def search(n: int) -> int:
        asked = data.queries[n]
        found = await client.recall(asked["workspace"], asked["query"], embedding=asked["vector"], limit=LIMIT)
        return len(found.hits)

    return load, search


async def langgraph(url: str, data: Data) -> tuple[Callable[[], Coroutine[Any, Any, None]], Search]:
    """LangGraph's `AsyncPostgresStore`, with its default index."""
    from langgraph.store.base import PutOp
    from langgraph.store.postgres.aio import AsyncPostgresStore

    opened = AsyncPostgresStore.from_conn_string(
        url,
        pool_config={"min_size": POOL, "max_size": POOL},
        index={"dims": data.vectors.shape[-1], "embed": data.vectors_of, "fields": ["text"]},
    )
    store = await _until_the_end.enter_async_context(opened)
    await store.setup()

    async def load() -> None:
        for workspace, texts, vectors in data.batches():
            data.by_text.update(zip(texts, vectors.tolist(), strict=True))
            await store.abatch([PutOp((workspace,), str(uuid.uuid4()), {"text": text}) for text in texts])
            for text in texts:
                del data.by_text[text]

    async def search(n: int) -> int:
        asked = data.queries[n]
        return len(await store.asearch((asked["workspace"],), query=asked["query"], limit=LIMIT))

    return load, search


async def mem0(url: str, data: Data) -> tuple[Callable[[], Coroutine[Any, Any, None]], Search]:
    """mem0's `Memory` on its pgvector store, in threads; its own embedder and chat model are not asked."""
    from mem0 import Memory
    from mem0.utils.lemmatization import lemmatize_for_bm25

    class Ready:
        def embed(self, text: str, _action: str = "") -> list[float]:
            return data.vectors_of([text])[0]

        def embed_batch(self, texts: list[str], _action: str = "") -> list[list[float]]:
            return data.vectors_of(texts)

    without_network = {"provider": "openai", "config": {"api_key": "none"}}
    store = {"connection_string": url, "collection_name": "memories", "embedding_model_dims": data.vectors.shape[-1],
             "hnsw": True, "maxconn": POOL}  # fmt: skip
    memory = Memory.from_config(
        {"vector_store": {"provider": "pgvector", "config": store}, "llm": without_network, "embedder": without_network}
    )
    memory.embedding_model = Ready()
    threads = ThreadPoolExecutor(POOL)

    async def load() -> None:
        for workspace, texts, vectors in data.batches():
            payloads = [
                {"data": text, "text_lemmatized": lemmatize_for_bm25(text), "user_id": workspace, "hash": ""}
                for text in texts
            ]
            memory.vector_store.insert(vectors.tolist(), payloads, [str(uuid.uuid4()) for _ in texts])

    def search_now(n: int) -> int:
        asked = data.queries[n]
        found = memory.search(asked["query"], filters={"user_id": asked["workspace"]}, top_k=LIMIT, threshold=0.0)
        return len(found["results"])

    async def search(n: int) -> int:
        return await asyncio.get_running_loop().run_in_executor(threads, search_now, n)

    return load, search


async def main(name: str, url: str, folder: str) -> None:
    """Do what the lines of the standard input say, and answer each with a line."""
    data = Data(Path(folder))
    load, search = await {"reme": reme, "langgraph": langgraph, "mem0": mem0}[name](url, data)
    out, sys.stdout = sys.stdout, sys.stderr  # what libraries print is no answer
    for line in sys.stdin:
        told = json.loads(line)
        answer: dict[str, Any] = {}
        if "load" in told:
            await load()
        elif "search" in told:
            answer = {"seconds": [], "rows": []}
            for n in told["search"]:
                begun = time.perf_counter()
                answer["rows"].append(await search(n))
                answer["seconds"].append(time.perf_counter() - begun)
        else:
            waiting = iter(range(told["searches"]))

            async def call(waiting: Iterator[int] = waiting) -> None:
                for n in waiting:
                    await search(n % len(data.queries))

            begun = time.perf_counter()
            await asyncio.gather(*(call() for _ in range(told["callers"])))
            answer = {"per_second": told["searches"] / (time.perf_counter() - begun)}
        out.write(json.dumps(answer) + "\n")
        out.flush()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
