"""Erasure while a turn is on its way to the database: what was erased meanwhile is not recorded afterwards."""

from __future__ import annotations

import asyncio
import random
import string
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import psycopg
import pytest

from reme_core import AsyncReMe
from reme_core.postgres.session import WRITE_LOCK
from reme_core.settings import Settings
from reme_core.spool.waiting import Spool, spool_path
from reme_core.store.tool_calls import ToolCallResult
from reme_core.turn import TurnMemory
from reme_core.types import Kind, Message
from tests.integrations.inside import fetch, stored, stored_rows

WORDS = "Her dog is called Rex the third."


@asynccontextmanager
async def locked(url: str) -> AsyncIterator[None]:
    """The workspace is locked, and whoever came last waits for that at the end."""
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await connection.execute(WRITE_LOCK, ["alice"])
        yield
        await asyncio.sleep(0.3)


@pytest.mark.parametrize("same_process", [True, False])
async def test_a_turn_that_is_being_recorded_loses_what_is_erased_meanwhile(
    settings: Settings, reme: AsyncReMe, database_url: str, same_process: bool
) -> None:
    (memory,) = await reme.memories.add("alice", WORDS)
    async with AsyncReMe(settings) as other, TurnMemory(reme if same_process else other, "alice") as turn:
        await turn.begin("hello")
        async with locked(database_url):
            erased = asyncio.create_task(reme.memories.delete("alice", memory.memory_id, erase=True))
            await asyncio.sleep(0.3)
            said = [f"So: {WORDS} And I swim.", WORDS, "I sing."]
            await turn.record([Message(content=text, message_id=text[:3]) for text in said])
        await erased
    assert await stored_rows(reme, "content, summarised_at is null") == [
        ("So:  And I swim.", True), ("", False), ("I sing.", True)
    ]  # fmt: skip
    assert len(await reme.background.jobs("alice")) == 1


async def test_a_call_that_is_being_recorded_loses_what_is_erased_meanwhile(reme: AsyncReMe, database_url: str) -> None:
    (memory,) = await reme.memories.add("alice", WORDS)
    async with TurnMemory(reme, "alice", kinds=[Kind.TOOL]) as turn:
        async with locked(database_url):
            erased = asyncio.create_task(reme.memories.delete("alice", memory.memory_id, erase=True))
            await asyncio.sleep(0.3)
            turn.record_calls([ToolCallResult(tool_name="save", input={"text": WORDS}, output="ok", success=True)])
        await erased
    calls = await fetch(reme, "alice", "select input, output, success from reme.tool_call_result")
    assert calls == [({"text": ""}, "ok", True)]


async def test_a_turn_that_is_refused_is_set_aside_without_what_was_erased_meanwhile(
    settings: Settings, reme: AsyncReMe, database_url: str
) -> None:
    (memory,) = await reme.memories.add("alice", WORDS)
    endless = "".join(random.choices(string.printable, k=20_000))  # too long for an index of Postgres
    async with AsyncReMe(settings) as other, TurnMemory(other, "alice") as turn:
        await turn.begin("hello")
        async with locked(database_url):
            erased = asyncio.create_task(reme.memories.delete("alice", memory.memory_id, erase=True))
            await asyncio.sleep(0.3)
            await turn.record([Message(content=f"{WORDS} I swim.", message_id=endless), Message(content="And you?")])
        await erased
    left = Spool(spool_path("file", settings))
    assert [message.content for entry in left.refusals() for message in entry.messages] == [" I swim."]
    assert left.entries() == []
    assert await stored(reme) == ["And you?"]


@pytest.mark.parametrize(("turn_first", "left"), [(True, []), (False, ["I sing."])])
async def test_a_workspace_is_cleared_of_what_was_said_before_and_not_of_what_is_said_after(
    reme: AsyncReMe, database_url: str, turn_first: bool, left: list[str]
) -> None:
    await reme.memories.add("alice", WORDS)
    async with TurnMemory(reme, "alice") as turn:
        await turn.begin("hello")
        async with locked(database_url):  # so that both wait, the one behind the other
            works: list[Callable[[], Awaitable[object]]] = [
                lambda: reme.workspaces.clear("alice"),
                lambda: turn.record([Message(content="I sing.")]),
            ]
            tasks = []
            for work in works[:: -1 if turn_first else 1]:
                tasks.append(asyncio.ensure_future(work()))
                await asyncio.sleep(0.3)
        await asyncio.gather(*tasks)
    assert await stored(reme) == left
