"""Bursts of puts, and searches from threads, in `ReMeStore` and in LangGraph's own Postgres store on the same server.

It needs `pip install langgraph-checkpoint-postgres`. Run `python -m benchmarks.langgraph_store --items 7000`.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import Any

from langgraph.store.base import BaseStore
from langgraph.store.postgres.aio import AsyncPostgresStore
from reme_langchain import ReMeStore

from benchmarks.common import fresh_reme, report


async def measure(store: BaseStore, items: int, run: int) -> dict[str, float]:
    """Seconds for a burst of puts, and for as many gets in ten bursts."""
    begun = time.perf_counter()
    await asyncio.gather(*[store.aput(("burst", str(run)), f"k{n}", {"n": n, "text": "x" * 50}) for n in range(items)])
    put = time.perf_counter()
    for part in range(10):
        names = [f"k{n}" for n in range(items) if n % 10 == part]
        found = await asyncio.gather(*[store.aget(("burst", str(run)), name) for name in names])
        assert None not in found
    return {"puts": put - begun, "gets": time.perf_counter() - put}


async def main() -> None:
    """Measure both in turn, three times, and take the shortest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=7_000)
    items = parser.parse_args().items
    async with fresh_reme() as reme:
        url = reme.database.url
        async with AsyncPostgresStore.from_conn_string(url) as theirs, ReMeStore(url, "burst") as ours:
            await theirs.setup()
            seconds: dict[str, list[dict[str, float]]] = {"ours": [], "theirs": []}
            for run in range(3):
                for name, store in (("ours", ours), ("theirs", theirs)):
                    seconds[name].append(await measure(store, items, run))
    least: dict[str, dict[str, Any]] = {
        name: {part: round(min(run[part] for run in runs), 3) for part in ("puts", "gets")}
        for name, runs in seconds.items()
    }
    ratios = {part: round(least["ours"][part] / least["theirs"][part], 2) for part in ("puts", "gets")}
    report(items=items, **least, ratio=ratios)


if __name__ == "__main__":
    asyncio.run(main())
