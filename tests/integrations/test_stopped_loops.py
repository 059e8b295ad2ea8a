"""A caller whose event loop stands still holds nobody up, himself included."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from langchain_core.messages import HumanMessage
from llama_index.core.base.llms.types import ChatMessage
from reme_langchain import ReMeChatMessageHistory, ReMeRetriever, ReMeStore
from reme_llamaindex import ReMeMemory

from reme_core import AsyncReMe, Message, ReMe, Settings
from reme_core.turn.memory import TurnMemory

LONGEST_SECONDS = 3.0
"""A tenth of a second on a quiet machine, more on a busy one. Waiting for the other loop would take five."""

STOPPING = """
import asyncio, random, sys, time
from reme_core import AsyncReMe, Message

async def main(url):
    chance = random.Random(7)
    async with AsyncReMe(database_url=url) as reme:
        await reme.record("shared", [Message(content="The first words.")])
        print("ready", flush=True)
        for number in range(4):
            tasks = [
                asyncio.create_task(reme.record("shared", [Message(content=f"Remark {number}, part {part} of it.")]))
                for part in range(6)
            ] + [asyncio.create_task(reme.memories.add("shared", f"Fact {number} about the harbour."))]
            await asyncio.sleep(chance.uniform(0, 0.05))
            time.sleep(5)
            await asyncio.gather(*tasks)
    print("done", flush=True)

asyncio.run(main(sys.argv[1]))
"""


@contextmanager
def quick(what: str, took: list[tuple[float, str]]) -> Iterator[None]:
    begun = time.perf_counter()
    yield
    took.append((time.perf_counter() - begun, what))


@pytest.mark.long
async def test_a_loop_that_stands_still_holds_up_no_other_process(database_url: str) -> None:
    stopping = subprocess.Popen([sys.executable, "-c", STOPPING, database_url], stdout=subprocess.PIPE, text=True)
    assert stopping.stdout is not None
    took: list[tuple[float, str]] = []
    try:
        async with AsyncReMe(database_url=database_url) as reme:
            assert await asyncio.to_thread(stopping.stdout.readline) == "ready\n"
            await reme.record("shared", [Message(content="A word before.")], wait=True)
            await reme.recall("shared", "the harbour")  # the embedder is loaded now
            number = 0
            while stopping.poll() is None:
                number += 1
                with quick("record", took):
                    await reme.record("shared", [Message(content=f"Said meanwhile: number {number}.")])
                with quick("recall", took):
                    await reme.recall("shared", "the harbour")
                await asyncio.sleep(0.05)
        assert stopping.stdout.read() == "done\n"
        assert max(took) < (LONGEST_SECONDS,), f"the slowest of {len(took)} calls: {sorted(took)[-3:]}"
        assert len(took) > 100
    finally:
        stopping.kill()
        stopping.wait()
        stopping.stdout.close()


@pytest.mark.long
async def test_blocking_calls_in_a_running_loop_wait_for_nothing_of_that_loop(settings: Settings) -> None:
    chance, took = random.Random(3), list[tuple[float, str]]()
    async with AsyncReMe(settings) as reme:
        with ReMe(settings) as blocking, ReMeStore(reme, "w") as store:
            retriever = ReMeRetriever(reme, "w")
            history = ReMeChatMessageHistory("chat", reme, "w")
            turn = TurnMemory(reme, "w", spool="memory")
            llama = ReMeMemory.from_defaults(client=reme, workspace_id="w", session_id="llama")
            calls: dict[str, Callable[[int], object]] = {
                "ReMe.recall": lambda n: blocking.recall("w", "the harbour"),
                "ReMe.record": lambda n: blocking.record("w", [Message(content=f"Remark {n} about boats.")]),
                "ReMe.memories.add": lambda n: blocking.memories.add("w", f"Boat {n} is in the harbour."),
                "TurnMemory.begin": lambda n: turn.call(turn.begin, "Which boat?"),
                "ReMeStore.put": lambda n: store.put(("boats",), str(n), {"text": f"boat {n}"}),
                "ReMeStore.get": lambda n: store.get(("boats",), str(n - 1)),
                "ReMeChatMessageHistory.add": lambda n: history.add_messages([HumanMessage(f"line {n}")]),
                "ReMeRetriever.invoke": lambda n: retriever.invoke("Which boat?"),
                "llamaindex.put": lambda n: llama.put(ChatMessage(role="user", content=f"word {n}")),
                "llamaindex.get": lambda n: llama.get("Which boat?"),
            }
            names = list(calls)
            under_way: set[asyncio.Task[object]] = set()
            for number in range(200):
                # Work of this very loop is under way while the call below stops it.
                under_way.add(asyncio.create_task(reme.record("w", [Message(content=f"Said by the way: {number}.")])))
                await asyncio.sleep(chance.uniform(0, 0.004))
                name = names[number % len(names)]
                with quick(name, took):
                    calls[name](number)
            await asyncio.gather(*under_way)
    assert max(took) < (LONGEST_SECONDS,), f"the slowest of {len(took)} calls: {sorted(took)[-3:]}"
