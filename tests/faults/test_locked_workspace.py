"""A workspace whose locks somebody holds: what writes to it waits, and nobody else does."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator

import psycopg
import pytest

from reme_core.engine import Engine
from reme_core.errors import ConflictError, DatabaseError
from reme_core.postgres.database import Database
from reme_core.postgres.session import WRITE_LOCK
from reme_core.postgres.shares import Shares
from reme_core.settings import LimitSettings, Settings
from reme_core.store.tool_calls import ToolCallResult
from reme_core.turn import TurnMemory
from reme_core.types import Message

OTHERS_SECONDS = 5.0  # within which others are served, on a busy machine; without shares it is fifteen and more
ROW_LOCK = "select from reme.workspace where workspace_id = %s for update"


@contextlib.contextmanager
def holding(url: str, lock: str, *workspaces: str) -> Iterator[None]:
    """A transaction, as somebody may leave one open in psql, that holds a lock of each workspace."""
    with psycopg.connect(url) as connection:
        for workspace in workspaces:
            connection.execute(lock, [workspace])
        yield


async def write_in_every_way(engine: Engine, workspace: str, number: int) -> None:
    """Write once in each of the ways that take a lock of the workspace."""
    call = ToolCallResult(tool_name="search", input={"n": number}, output="found", success=True)
    await asyncio.gather(
        engine.memories.add(workspace, f"She counts to {number}."),
        engine.record(workspace, {"role": "user", "content": f"I count to {number}."}, session_id="s"),
        engine.tools.record(workspace, [call]),
        engine.recall(workspace, "What does she drink?"),
    )


@pytest.mark.parametrize("pool_size", [1, 2, 3, 5, 8, 40])
async def test_reads_keep_a_connection_whatever_is_written(pool_size: int) -> None:
    shares, held = Shares(pool_size), 0
    for workspace in map(str, range(pool_size)):
        share = shares.of_write(workspace)
        if not any(place.locked() for place in share):
            for place in share:
                await place.acquire()
            held += 1
    assert held == max(1, pool_size - max(1, pool_size // 4))
    assert not any(place.locked() for place in shares.of_read("0"))


@pytest.mark.parametrize(
    ("lock", "count"), [(WRITE_LOCK, 1), (WRITE_LOCK, 12), (ROW_LOCK, 1)], ids=["one", "twelve", "row"]
)
async def test_others_are_served_while_somebody_holds_locks(settings: Settings, lock: str, count: int) -> None:
    busy = [f"busy{number}" for number in range(count)]
    async with Engine(settings) as engine:
        for workspace in ("calm", *busy):
            await engine.memories.add(workspace, "She drinks tea.")
        with holding(engine.database.url, lock, *busy):
            writers = [
                asyncio.create_task(write_in_every_way(engine, workspace, number))
                for number in range(20)
                for workspace in busy
            ]
            await asyncio.sleep(0.5)
            for _ in range(3):
                begun = time.monotonic()
                await engine.memories.add("calm", "She drinks coffee.")
                assert time.monotonic() - begun < OTHERS_SECONDS
                for workspace in ("calm", busy[0]):
                    begun = time.monotonic()
                    assert (await engine.recall(workspace, "What does she drink?")).hits
                    assert time.monotonic() - begun < OTHERS_SECONDS
        await asyncio.gather(*writers)  # what waited is done when the locks are free
        for workspace in busy:
            assert await engine.database.fetch(workspace, "select count(*) from reme.tool_call_result") == [(20,)]
            assert await engine.database.fetch(workspace, "select count(*) from reme.message") == [(20,)]
            added = [m for m in await engine.memories.list(workspace, limit=100) if m.content.startswith("She ")]
            assert len(added) == 21  # beside what the worker may have made of the messages meanwhile


async def test_recalls_are_logged_while_somebody_holds_another_workspace(settings: Settings) -> None:
    asked = "select count(*) from reme.retrieval"
    async with Engine(settings) as engine:
        for workspace in ("calm", "busy"):
            await engine.memories.add(workspace, "She drinks tea.")
        with holding(engine.database.url, ROW_LOCK, "busy"):
            for workspace in ("calm", "busy"):
                await engine.recall(workspace, "What does she drink?")
            await engine.log_writer.flush()
            assert await engine.database.fetch("calm", asked) == [(1,)]
            assert await engine.database.fetch("busy", asked) == [(0,)]
        await engine.log_writer.flush()
        assert await engine.database.fetch("busy", asked) == [(1,)]


async def test_turns_have_memory_while_somebody_holds_a_workspace(settings: Settings) -> None:
    async with TurnMemory(settings, "busy", spool="memory", patience=20.0) as turn:
        turns = {"busy": turn, "calm": turn.for_workspace("calm")}
        for one in turns.values():
            await one.record([Message(content="She drinks tea.")])
            await one.messages("")
        with holding((await turn.reme.connection.run(_address)), WRITE_LOCK, "busy"):
            turn.patience = 10.0
            await turn.record([Message(content="She drinks milk.")])
            await asyncio.sleep(0.2)  # its delivery has begun, and waits for the lock
            for number in range(2):
                begun = time.monotonic()
                await turns["calm"].record([Message(content=f"She drinks coffee number {number}.")])
                assert f"number {number}" in (await turns["calm"].begin("What does she drink?")).text
                assert time.monotonic() - begun < OTHERS_SECONDS
            assert "tea" in (await turn.begin("What does she drink?")).text
        turn.patience = 20.0
        assert "milk" in (await turn.begin("What does she drink?")).text


async def test_turns_that_meet_a_lock_are_stored_in_their_order(settings: Settings) -> None:
    limits = LimitSettings(lock_seconds=0.6)
    async with TurnMemory(settings.model_copy(update={"limits": limits}), "busy", spool="memory") as turn:
        await turn.messages("")
        with holding(await turn.reme.connection.run(_address), WRITE_LOCK, "busy"):
            for said in ("one", "two"):
                turn.record_soon([Message(content=said)])
            await asyncio.sleep(1.4)  # the first has given up by now, and the second would wait for the lock
        await asyncio.sleep(1.0)
        assert [message.content for message in await turn.messages("")] == ["one", "two"]


async def _address(engine: Engine) -> str:
    return engine.database.url


async def test_a_writer_waits_no_longer_than_is_set(settings: Settings) -> None:
    limits = LimitSettings(lock_seconds=0.6)
    async with Engine(settings.model_copy(update={"limits": limits})) as engine:
        await engine.memories.add("busy", "She drinks tea.")
        with holding(engine.database.url, WRITE_LOCK, "busy"):
            begun = time.monotonic()
            writes = [engine.memories.add("busy", f"She counts to {number}.") for number in range(10)]
            refused = await asyncio.gather(*writes, return_exceptions=True)
            assert time.monotonic() - begun < 5
        assert {type(error) for error in refused} == {ConflictError}
        assert len(await engine.memories.list("busy")) == 1


async def test_a_statement_takes_no_longer_than_is_set(settings: Settings) -> None:
    limits = LimitSettings(read_seconds=0.1, write_seconds=0.3, upkeep_seconds=0.5)
    async with await Database.open(settings.model_copy(update={"limits": limits})) as database:
        asked = "select current_setting('statement_timeout')"
        assert await database.fetch("w", asked) == [("100ms",)]
        assert await database.execute("w", asked) == [("300ms",)]
        assert await database.execute_anywhere(asked) == [("500ms",)]
        with pytest.raises(DatabaseError, match=r"limits\.read_seconds"):
            await database.fetch("w", "select pg_sleep(1)")
        async with database.write_transaction("w") as connection:
            assert await (await connection.execute(asked)).fetchone() == ("300ms",)
            assert await (await connection.execute("show lock_timeout")).fetchone() == ("20s",)
