"""`TurnMemory` with loops, threads and clients: who opens and closes what, and what is refused at once."""

from __future__ import annotations

import asyncio
import gc
import threading
import time

import psycopg

from reme_core import AsyncReMe, ReMe
from reme_core.settings import Settings
from reme_core.turn import TurnMemory
from reme_core.types import Message
from tests.integrations.inside import ASKED, TOLD


def test_it_works_without_a_loop_and_in_one_after_another(settings: Settings) -> None:
    turn = TurnMemory(settings, "alice", write="awaited")
    turn.call(turn.record, [Message(content=TOLD)])
    texts = [turn.call(turn.begin, ASKED).text]
    texts += [asyncio.run(turn.begin(ASKED)).text for _ in range(2)]
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(turn.call(turn.begin, ASKED).text))
    thread.start()
    thread.join()
    turn.close()
    assert all("Lisbon" in text for text in texts + found)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("reme-turns")]


def test_a_memory_of_loops_that_have_ended_hangs_up_when_it_is_closed(settings: Settings, database_url: str) -> None:
    turn = TurnMemory(settings, "alice", write="awaited")
    asyncio.run(turn.record([Message(content=TOLD)]))
    assert "Lisbon" in asyncio.run(turn.begin(ASKED)).text
    with psycopg.connect(database_url, autocommit=True) as server:
        others = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
        assert server.execute(others).fetchone() != (0,)
        turn.close()
        deadline = time.monotonic() + 10  # the server notices a moment later
        while server.execute(others).fetchone() != (0,):
            assert time.monotonic() < deadline, "connections were left open"
            gc.collect()  # one that was just being made when the loop ended
            time.sleep(0.01)


async def test_a_synchronous_memory_can_be_shared(settings: Settings) -> None:
    with ReMe(settings) as blocking:
        await asyncio.to_thread(blocking.record, "alice", [Message(content=TOLD)])
        async with TurnMemory(blocking, "alice") as turn:
            assert "Lisbon" in (await turn.begin(ASKED)).text
        assert await asyncio.to_thread(blocking.recall, "alice", ASKED, kind="conversation")


async def test_nothing_connects_again_when_what_was_given_is_closed(settings: Settings) -> None:
    async with AsyncReMe(settings) as lent:
        turn = TurnMemory(lent, "alice", spool="memory")
        turn.record_soon([Message(content=TOLD)])
    note = await turn.begin(ASKED)
    assert "has been closed" in str(note.error)
    await turn.record([Message(content="Rex is a dachshund.")])
    async with lent:
        assert "Lisbon" in (await turn.begin(ASKED)).text
    await turn.aclose()


async def test_closing_twice_and_using_it_again_is_fine(settings: Settings) -> None:
    turn = TurnMemory(settings, "alice", write="awaited")
    await turn.record([Message(content=TOLD)])
    await turn.aclose()
    await turn.aclose()
    assert "Lisbon" in (await turn.begin(ASKED)).text
    await turn.aclose()
