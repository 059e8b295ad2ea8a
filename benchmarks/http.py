"""How fast is retrieval over HTTP, and does the health check stay quick meanwhile?

    python -m benchmarks.http --memories 10000 [--clients 8]

A real `reme backend=http` process serves; its embedding model is a server on this machine that answers at once with
vectors of 1,024 dimensions, so what is measured is the service, the recall and the client, all on the same cores.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track

from benchmarks import synthetic
from benchmarks.common import fresh_reme, percentiles, report
from reme_core import Kind, Memory
from reme_core.settings import EmbeddingSettings
from reme_core.store.index import hnsw

DIMENSIONS = 1024
MODEL = "benchmark-embedding"
WORKSPACE = "benchmark"
Vectors = dict[str, bytes]


class Embeddings:
    """An OpenAI-compatible embedding server that looks vectors up, in plain asyncio: it costs next to nothing."""

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                texts = json.loads(await reader.readexactly(length))["input"]
                data = [
                    {"object": "embedding", "index": n, "embedding": base64.b64encode(self._vectors[text]).decode()}
                    for n, text in enumerate([texts] if isinstance(texts, str) else texts)
                ]
                usage = {"prompt_tokens": 1, "total_tokens": 1}
                body = json.dumps({"object": "list", "model": MODEL, "data": data, "usage": usage}).encode()
                start = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
                writer.write(start.encode() + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


class Client:
    """One connection that stays open. It knows just enough HTTP, so that the cores are left to the service."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def __aenter__(self) -> Client:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2**20)
        return self

    async def __aexit__(self, *exception: object) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def request(self, method: str, path: str, body: bytes = b"") -> bytes:
        """The body of an answer with status 200."""
        head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{self._port}\r\ncontent-type: application/json\r\n"
        self._writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        answer = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        content = await self._reader.readexactly(int(answer.split(b"content-length:")[1].split(b"\r\n")[0]))
        if not answer.startswith(b"http/1.1 200"):
            raise RuntimeError(content.decode())
        return content


@asynccontextmanager
async def service(folder: str, model_url: str) -> AsyncIterator[int]:
    """The port of a `reme backend=http` process on the data in a folder."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    arguments = [
        "backend=http",
        f"http.port={port}",
        f"data_dir={folder}",
        f"embedding_model.default.model_name={MODEL}",
        f"embedding_model.default.base_url={model_url}",
        "vector_store.default.backend=local",
    ]
    if url := os.environ.get("REME_BENCH_DATABASE_URL"):
        arguments.append(f"database_url={url}")
    command = [str(Path(sys.executable).parent / "reme"), *arguments]
    process = await asyncio.create_subprocess_exec(*command, stderr=subprocess.DEVNULL)
    try:
        while True:
            try:
                async with Client(port) as client:
                    await client.request("GET", "/health")
                break
            except OSError:
                if process.returncode is not None:
                    raise
                await asyncio.sleep(0.1)
        yield port
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def retrieve(client: Client, query: str) -> float:
    """Seconds that one retrieval takes."""
    body = json.dumps({"workspace_id": WORKSPACE, "query": query, "top_k": 5}).encode()
    begun = time.perf_counter()
    answer = await client.request("POST", "/retrieve_task_memory", body)
    took = time.perf_counter() - begun
    found = json.loads(answer)["metadata"]["memory_list"]
    if len(found) != 5:
        raise RuntimeError(f"{len(found)} memories came back for {query!r}; 5 were asked for")
    return took


async def measure(port: int, queries: list[str], clients: int) -> dict[str, Any]:
    """Retrievals one at a time, then side by side while the health check is asked."""
    half = len(queries) // 2
    async with Client(port) as client:
        for query in queries[: half // 10]:
            await retrieve(client, query)
        alone = [await retrieve(client, query) for query in queries[:half]]
    waiting, beside, health = list(queries[half:]), [], []

    async def one_client() -> None:
        async with Client(port) as client:
            while waiting:
                beside.append(await retrieve(client, waiting.pop()))

    async def check_health() -> None:
        async with Client(port) as client:
            while waiting:
                begun = time.perf_counter()
                await client.request("GET", "/health")
                health.append(time.perf_counter() - begun)
                await asyncio.sleep(0.01)

    begun = time.perf_counter()
    await asyncio.gather(check_health(), *(one_client() for _ in range(clients)))
    seconds = time.perf_counter() - begun
    return {
        "retrieval_ms": percentiles(alone),
        f"retrieval_ms_{clients}_clients": percentiles(beside),
        "requests_per_second": round(len(beside) / seconds, 1),
        "health_p99_ms": round(float(np.percentile(np.asarray(health) * 1e3, 99)), 2),
        "health_checks": len(health),
    }


async def run(total: int, clients: int, rounds: int) -> None:
    """Load, serve, measure, print."""
    memories, vectors = synthetic.memories(total, dimensions=DIMENSIONS, seed=1)
    asked = synthetic.queries(memories, vectors, 2 * rounds, seed=2)
    known: Vectors = {query: np.asarray(vector, dtype="<f4").tobytes() for query, vector in asked}
    server = await asyncio.start_server(Embeddings(known), "127.0.0.1", 0, limit=2**20)
    model_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    model = EmbeddingSettings(model_name=MODEL, base_url=model_url)
    async with server, fresh_reme(embedding_model={"default": model}) as reme:
        for start in track(range(0, total, 1_000), "Loading", console=Console(stderr=True)):
            part = [as_task(memory) for memory in memories[start : start + 1_000]]
            await reme.memories.add(WORKSPACE, part, embeddings=vectors[start : start + 1_000])
        async with reme.database.owner_connection() as connection:
            await connection.execute("vacuum analyze")
        await hnsw.ensure(reme.database, WORKSPACE, exact_below=reme.settings.recall.exact_below)
        async with service(str(reme.settings.data_dir), model_url) as port:
            results = await measure(port, [query for query, _ in asked], clients)
    report(memories=total, dimensions=DIMENSIONS, clients=clients, **results)


def as_task(memory: Memory) -> Memory:
    """The same as a piece of experience."""
    return memory.model_copy(update={"kind": Kind.TASK, "when_to_use": memory.content})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=400, help="retrievals alone, and as many side by side")
    options = parser.parse_args()
    asyncio.run(run(options.memories, options.clients, options.rounds))
