"""The event loop goes on: while a client opens and imports the ops, at the first flow, and while texts are read."""

from __future__ import annotations

import asyncio
import json
import sys
import time

import pytest

from reme_core.engine import Engine
from reme_core.settings import Settings
from reme_core.types import Message

_PROGRAM = """
import asyncio, json, sys, time
from pydantic import SecretStr
from reme_core import AsyncReMe, Settings

worked, late = [], []

async def beat():
    while True:
        processor, clock = time.thread_time(), time.perf_counter()
        await asyncio.sleep(0.002)
        worked.append(time.thread_time() - processor)
        late.append(time.perf_counter() - clock - 0.002)

async def main():
    heart = asyncio.create_task(beat())
    await asyncio.sleep(0.1)
    before = "reme_core.personal.retrieve" in sys.modules
    async with AsyncReMe(Settings(database_url=SecretStr(sys.argv[1]))) as reme:
        response = await reme.execute("retrieve_personal_memory", workspace_id="w", query="Where does she live?")
        heart.cancel()
    print(json.dumps([before, "reme_core.personal.retrieve" in sys.modules, response.success, max(worked), max(late)]))

asyncio.run(main())
"""


@pytest.mark.long
async def test_the_event_loop_goes_on_while_a_client_opens_and_its_first_flow_runs(database_url: str) -> None:
    best = []
    for _ in range(8):  # a busy machine may keep any one of them waiting
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _PROGRAM, database_url, stdout=asyncio.subprocess.PIPE
        )
        output, _errors = await process.communicate()
        before, after, success, worked, late = json.loads(output)
        assert (before, after, success) == (False, True, True)  # all of it was imported in between
        best.append((worked, late))
        if worked < 0.05 and late < 0.1:
            return
    pytest.fail(f"seconds that the loop worked at a stretch, and that it was late: {best}")


async def test_the_event_loop_goes_on_while_a_conversation_is_read(settings: Settings) -> None:
    told = "From now on, call me Bo{0}. Last Friday my sister moved to flat {0} in Lisbon, where she keeps {0} bees."
    worked = []

    async def beat() -> None:
        while True:
            processor = time.thread_time()
            await asyncio.sleep(0.002)
            worked.append(time.thread_time() - processor)

    settings.worker.embedded = False
    async with Engine(settings) as reme:
        await reme.record("w", [Message(content=told.format(n), session_id="s") for n in range(60)], wait=True)
        heart = asyncio.create_task(beat())
        await reme.summarise("w")
        heart.cancel()
        assert len(await reme.memories.list("w", limit=100)) > 30
    assert max(worked) < 0.15  # seconds; it was .8, and now is a hundredth
