"""What does a turn wait for? Recording what was said, and retrieving before the answer; no model but the offline one.

    python -m benchmarks.record [--memories 10000] [--calls 300]

`record_ms` is `record` of one message or two, in conversations that take turns, with the worker in the same process
making vectors and memories of them meanwhile: calls follow each other as those of a lively conversation do, with a
pause that lets it. `record_alone_ms` is the same where a worker of its own does that. `retrieve_ms` is the flow
`retrieve_personal_memory` over the memories of one workspace, its queries embedded before.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import time

from rich.console import Console

from benchmarks import synthetic
from benchmarks.common import fresh_reme, percentiles, report
from benchmarks.recall import DIMENSIONS, load
from reme_core import Message
from reme_core.engine import Engine

SESSIONS = 10
PAUSE_SECONDS = 0.05
QUERIES = 50

SAID = (
    "I moved to Lisbon last spring, and my sister Ana visits me every other month.",
    "We adopted a dachshund named Rex, who sleeps in the kitchen and hates the vacuum cleaner.",
    "On Fridays I cook for the neighbours; Marta is allergic to peanuts, so there is no satay.",
    "My new job at the port begins on 3 May, and I have to be there at half past six.",
    "What was the name of the bakery near the old cinema that you told me about?",
)


async def recording(reme: Engine, workspace: str, calls: int) -> list[float]:
    """Seconds of each call of `record`, after a tenth of them for warming up."""
    seconds, sentence = [], itertools.cycle(SAID)
    for number in range(-calls // 10, calls):
        messages = [Message(content=f"{next(sentence)} ({number})", session_id=f"session {number % SESSIONS}")]
        if number % 2:
            answer = f"Thank you for telling me; I keep it in mind. ({number})"
            messages.append(Message(role="assistant", content=answer, session_id=messages[0].session_id))
        begun = time.perf_counter()
        await reme.record(workspace, messages)
        if number >= 0:
            seconds.append(time.perf_counter() - begun)
        await asyncio.sleep(PAUSE_SECONDS)
    return seconds


async def retrieving(reme: Engine, memories: int, calls: int) -> list[float]:
    """Seconds of each retrieval; the queries were asked once before, so that their vectors are at hand."""
    ((workspace, (known, vectors)),) = (await load(reme, memories, 1, synthetic.NATURAL)).items()
    queries = [query for query, _ in synthetic.queries(known, vectors, QUERIES)]
    seconds = []
    for number in range(-QUERIES, calls):
        begun = time.perf_counter()
        await reme.retrieve(workspace, queries[number % QUERIES])
        if number >= 0:
            seconds.append(time.perf_counter() - begun)
    return seconds


async def main(memories: int, calls: int) -> None:
    """Measure, print a line for each, and the closing JSON line."""
    console = Console(stderr=True)
    results = {}
    for name, embedded in (("record_ms", True), ("record_alone_ms", False)):
        async with fresh_reme(worker={"embedded": embedded}) as reme:
            results[name] = percentiles(await recording(reme, "talk", calls))
            console.print(name, results[name])
    async with fresh_reme(worker={"embedded": False}) as reme:
        results["retrieve_ms"] = percentiles(await retrieving(reme, memories, calls))
        console.print("retrieve_ms", results["retrieve_ms"])
    report(memories=memories, dimensions=DIMENSIONS, calls=calls, **results)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--calls", type=int, default=300)
    given = parser.parse_args()
    asyncio.run(main(given.memories, given.calls))
