"""`TurnMemory` while the database, or the disk, is away: no turn fails, and nothing that was said is lost."""

from __future__ import annotations

import asyncio
import random
import string
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from reme_core import AsyncReMe
from reme_core.errors import DatabaseError, DatabaseUnavailableError, InputError, ReMeError, SpoolError
from reme_core.settings import LimitSettings, Settings
from reme_core.spool.file import Entry
from reme_core.spool.waiting import Spool, spool_path
from reme_core.store.tool_calls import ToolCallResult
from reme_core.testing import Gate
from reme_core.turn import TurnMemory
from reme_core.types import Message, Scope
from tests.integrations.inside import ASKED, TOLD, stored


async def test_a_dead_database_costs_the_note_and_not_the_turn(gate: Gate, tmp_path: Path) -> None:
    settings = Settings(database_url=gate.url, data_dir=tmp_path)
    async with TurnMemory(settings, "alice", write="awaited", patience=0.5) as turn:
        await turn.begin("Hello?")
        gate.close()
        note = await turn.begin(ASKED, "t1")
        assert not note
        assert isinstance(note.error, DatabaseUnavailableError)
        assert await turn.record([Message(content=TOLD)], "t1") == 1
        assert turn.counts.failures >= 2
        gate.open()
        turn.patience = 20.0
        assert "Lisbon" in (await turn.begin(ASKED, "t2")).text
        assert turn.counts.messages == 1


async def test_a_dead_database_is_an_error_where_asked(gate: Gate, tmp_path: Path) -> None:
    settings = Settings(database_url=gate.url, data_dir=tmp_path)
    async with TurnMemory(settings, "alice", write="awaited", on_error="raise", patience=20.0) as turn:
        await turn.begin("Hello?")
        gate.close()
        turn.patience = 0.5
        for name in ("", "t1"):
            with pytest.raises(ReMeError):
                await turn.begin(ASKED, name)
        with pytest.raises(ReMeError):
            await turn.record([Message(content=TOLD)])
        gate.open()
        turn.patience = 20.0  # the pool takes its time to notice
        for name in ("", "t1"):  # who got an error tries again
            assert "Lisbon" in (await turn.begin(ASKED, name)).text


async def test_a_database_that_takes_no_writes_is_recalled_from(reme: AsyncReMe, database_url: str) -> None:
    await reme.memories.add("alice", TOLD)
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        await connection.execute(_FULL_DISK)
    async with TurnMemory(reme, "alice", write="awaited", spool="memory") as turn:
        await turn.record([Message(content="My cat is called Minka.")])
        assert turn.counts.failures == 1
        note = await turn.begin(ASKED, "t1")
        assert note.error is None and "Lisbon" in note.text


_FULL_DISK = """
create function public.full_disk() returns trigger language plpgsql as
$$ begin raise exception 'no space left' using errcode = 'disk_full'; end $$;
create trigger full_disk before insert on reme.message for each row execute function public.full_disk();
"""

KILLED = """
import asyncio, os, sys
from pathlib import Path
from reme_core.types import Message
from reme_core.turn import TurnMemory
from reme_core.settings import Settings

async def main(url, folder, spool, told):
    spool = Path(spool) if spool else "file"
    turn = TurnMemory(Settings(database_url=url, data_dir=Path(folder)), "alice", patience=0.5, spool=spool)
    await turn.record([Message(content=told)])
    os._exit(9)

asyncio.run(main(*sys.argv[1:]))
"""


async def tell_a_process_that_is_killed(told: str, gate: Gate, folder: Path, spool: str = "") -> None:
    command = [sys.executable, "-c", KILLED, gate.url, str(folder), spool, told]
    process = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60)
    assert process.returncode == 9, process.stderr


async def test_a_killed_process_loses_nothing_that_it_was_asked_to_keep(gate: Gate, tmp_path: Path) -> None:
    gate.close()
    await tell_a_process_that_is_killed(TOLD, gate, tmp_path)
    gate.open()
    async with TurnMemory(Settings(database_url=gate.url, data_dir=tmp_path), "alice") as turn:
        assert "Lisbon" in (await turn.begin(ASKED)).text


async def test_what_waits_is_delivered_when_the_memory_is_closed(gate: Gate, tmp_path: Path, reme: AsyncReMe) -> None:
    settings = Settings(database_url=gate.url, data_dir=tmp_path)
    turn = TurnMemory(settings, "alice", write="awaited", patience=0.5, spool="memory")
    await turn.begin("Hello?")
    gate.close()
    await turn.record([Message(content=TOLD)])
    gate.open()
    turn.patience = 20.0  # the pool takes its time to notice
    await turn.aclose()
    assert await stored(reme) == [TOLD]


@pytest.mark.parametrize("spool", ["file", "memory"])
async def test_a_message_that_is_refused_is_set_aside_and_holds_up_no_others(
    settings: Settings, reme: AsyncReMe, spool: Any, caplog: pytest.LogCaptureFixture
) -> None:
    endless = "".join(random.choices(string.printable, k=20_000))  # too long for an index of Postgres
    async with TurnMemory(settings, "alice", write="awaited", spool=spool) as turn:
        await turn.record([Message(content="one"), Message(content="bad", message_id=endless), Message(content="two")])
        assert "cannot be recorded" in caplog.text
        assert endless not in caplog.text
        await turn.record([Message(content="three")])
        assert turn.counts.set_aside == 1
        assert sorted(await stored(reme)) == ["one", "three", "two"]
        kept = turn._spool
        [refused] = kept.refusals()
        assert [message.content for message in refused.messages] == ["bad"]
        assert "too long" in refused.refusal
        assert kept.entries() == []
        kept.accept()
        await turn.record([Message(content="four")])
        assert [message.content for entry in kept.refusals() for message in entry.messages] == ["bad"]
        await turn.clear()
        assert kept.refusals() == []


async def test_a_turn_that_always_takes_too_long_holds_up_no_others(settings: Settings, reme: AsyncReMe) -> None:
    assert settings.database_url is not None
    limits = LimitSettings(write_seconds=0.5)
    async with await psycopg.AsyncConnection.connect(settings.database_url.get_secret_value()) as owner:
        await owner.execute(
            "create function reme.dawdle() returns trigger language plpgsql"
            " as $$ begin perform pg_sleep(5); return new; end $$"
        )
        await owner.execute(
            "create trigger dawdle before insert on reme.message for each row when (new.content = 'slow')"
            " execute function reme.dawdle()"
        )
    slow = settings.model_copy(update={"limits": limits})
    async with TurnMemory(slow, "alice", spool="memory", write="awaited", on_error="raise") as turn:
        for text in ("slow", "one", "two"):
            turn._spool.put(Entry("alice", [Message(content=text)]))
        with pytest.raises(DatabaseError, match="cancelled a statement"):
            await turn.reme.connection.portal.run(turn._outbox.flush("alice"))
        assert sorted(await stored(reme)) == ["one", "two"]
        [waiting] = turn._spool.entries()
        assert [message.content for message in waiting.messages] == ["slow"]
        assert await turn.record([Message(content="three")]) == 1  # it is stored, whatever waits beside it
        assert sorted(await stored(reme)) == ["one", "three", "two"]


async def test_a_turn_that_is_refused_is_an_error_of_its_own_workspace_alone(reme: AsyncReMe) -> None:
    endless = "".join(random.choices(string.printable, k=20_000))
    refused = [Message(content="My PIN is 4711.", message_id=endless)]
    turn = TurnMemory(client=reme, workspace_id="alice", on_error="raise", spool="memory")
    bob = turn.for_workspace("bob")
    await bob.record([Message(content=TOLD)])
    await turn.record(refused)
    assert "Lisbon" in (await bob.begin(ASKED)).text
    assert not await turn.begin(ASKED)  # nor is it one of the next turn in its own workspace: it is set aside
    assert (turn.counts.set_aside, turn.counts.failures) == (1, 0)
    turn.write = bob.write = "awaited"
    again = [Message(content="My PIN is 4711.", message_id=endless + "2")]
    answers = [turn.record(again), bob.record([Message(content="Rex barks.")])]
    error, barks = await asyncio.gather(*answers, return_exceptions=True)
    assert isinstance(error, InputError) and "too long" in str(error)
    assert barks == 1
    await turn.aclose()


async def test_what_others_left_is_delivered_by_whoever_comes_first(settings: Settings, reme: AsyncReMe) -> None:
    left = Spool(spool_path("file", settings))
    for name in ("bob", "carol"):
        left.put(Entry(name, [Message(content=TOLD)]))
    left.keep()
    async with TurnMemory(settings, "alice", write="off") as turn:
        await turn.begin(ASKED)
        async with asyncio.timeout(20):
            while left.entries():
                await asyncio.sleep(0.05)
    assert [await stored(reme, name) for name in ("bob", "carol")] == [[TOLD], [TOLD]]


@pytest.mark.parametrize("scope", [{}, {"user_id": "ann"}])
async def test_what_was_erased_while_it_waited_is_not_recorded_afterwards(
    settings: Settings, reme: AsyncReMe, scope: Scope
) -> None:
    endless = "".join(random.choices(string.printable, k=20_000))  # the database refuses it
    said = [
        Message(message_id=name, content=content, session_id="s", user_id="ann")
        for name, content in (("1", "Hello"), ("2", "Her passport is number 4711-0815."), (endless, "Bye"))
    ]
    await reme.record("alice", said[0])
    left = Spool(spool_path("file", settings))
    left.put(Entry("alice", said))
    left.keep()
    if scope:
        await reme.workspaces.clear("alice", **scope)
    else:
        assert await reme.erase_messages("alice", [message.message_id for message in said]) == 3
    assert left.entries() == []
    assert await reme.record("alice", said[:2]) == []
    assert await stored(reme) == ["", ""]


async def test_erasing_a_memory_reaches_what_waits_with_its_words(settings: Settings, reme: AsyncReMe) -> None:
    secret = "Her passport is number 4711-0815."
    memory = (await reme.memories.add("alice", secret))[0]
    left = Spool(spool_path("file", settings))
    left.put(Entry("alice", [Message(content=f"You know that. {secret} Really."), Message(content="Hello")]))
    left.put(Entry("alice", calls=[ToolCallResult(tool_name="look_up", output=secret)]))
    left.put(Entry("bob", [Message(content=secret)]))
    left.keep()
    await reme.memories.delete("alice", memory.memory_id, erase=True)
    found = [(entry.workspace, message.content) for entry in left.entries() for message in entry.messages]
    assert found == [("alice", "You know that.  Really."), ("alice", "Hello"), ("bob", secret)]
    assert [entry.calls for entry in left.entries() if entry.calls] == []


@pytest.mark.parametrize("write", ["background", "awaited"])
async def test_who_records_is_told_where_neither_file_nor_database_take_a_turn(
    gate: Gate, tmp_path: Path, write: Any, reme: AsyncReMe
) -> None:
    (tmp_path / "file").write_text("in the way")
    options: dict[str, Any] = {"write": write, "patience": 0.5, "spool": tmp_path / "file" / "x.sqlite3"}
    async with TurnMemory(Settings(database_url=gate.url, data_dir=tmp_path), "alice", **options) as turn:
        await turn.begin("Hello?")
        gate.close()
        assert await turn.record([Message(content="one")], "t1") == 1
        assert turn.counts.at_risk == 1
        turn.on_error = "raise"
        with pytest.raises(SpoolError, match="in memory only"):
            await turn.record([Message(content="two")], "t2")
        assert turn.counts.at_risk == 2
        (tmp_path / "file").unlink()  # the disk takes something again: it is tried without anybody asking
        async with asyncio.timeout(10):
            while turn.counts.at_risk:
                await asyncio.sleep(0.05)
        gate.open()
        turn.patience = 20.0
        await turn.begin(ASKED)
        assert await stored(reme) == ["one", "two"]


async def test_without_its_file_a_turn_waits_for_the_database(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    async with TurnMemory(settings, "alice", spool=tmp_path / "file" / "x.sqlite3", on_error="raise") as turn:
        await turn.record([Message(content=TOLD)])
        assert (turn.counts.records, turn.counts.at_risk) == (1, 0)


async def test_a_broken_spool_costs_no_turn(gate: Gate, tmp_path: Path, reme: AsyncReMe) -> None:
    settings = Settings(database_url=gate.url, data_dir=tmp_path)
    spool = tmp_path / "x.sqlite3"
    spool.write_bytes(b"garbage" * 1000)
    gate.close()
    for number in range(5):
        await tell_a_process_that_is_killed(f"turn {number}", gate, tmp_path, str(spool))
    gate.open()
    async with TurnMemory(settings, "alice", spool=spool) as turn:
        await turn.begin(ASKED)
    assert await stored(reme) == [f"turn {number}" for number in range(5)]


async def test_a_turn_too_many_is_refused_and_can_be_handed_over_again(
    gate: Gate, tmp_path: Path, reme: AsyncReMe, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reme_core.spool.waiting.MOST_WAITING", 2)
    async with TurnMemory(Settings(database_url=gate.url, data_dir=tmp_path), "alice", patience=0.5) as turn:
        await turn.begin("Hello?")
        gate.close()
        said = [Message(content=text, message_id=text) for text in ("one", "two", "three")]
        assert [await turn.record([message]) for message in said] == [1, 1, 0]
        assert turn.counts.refused == 1
        assert "2 turns wait for the database already" in caplog.text
        turn.on_error = "raise"
        with pytest.raises(SpoolError):
            await turn.record(said)
        assert turn.record_soon(said) == 0  # it is called where another error is under way
        assert turn.counts.refused == 3
        gate.open()
        turn.patience = 20.0
        await turn.begin(ASKED)
        assert await turn.record(said) == 1
    assert await stored(reme) == ["one", "two", "three"]


async def test_erasing_reaches_what_waits_in_the_file(gate: Gate, settings: Settings, reme: AsyncReMe) -> None:
    spool = spool_path("file", settings)
    assert spool is not None
    names = ("alice", "bob", "carol")
    gate.close()
    away = Settings(database_url=gate.url, data_dir=settings.data_dir)
    async with TurnMemory(away, "alice", spool=spool, patience=0.5) as turn:
        for name in names:
            said = [Message(content=text, message_id=text) for text in ("keep", "drop")]
            await turn.for_workspace(name).record(said, "t1")
        assert await reme.erase_messages("alice", ["drop", "unknown"]) == 1
        await reme.workspaces.clear("bob")
        gate.open()
        turn.patience = 20.0
    assert [await stored(reme, name) for name in names] == [["", "keep"], [], ["keep", "drop"]]


async def test_erasing_reaches_what_waits_in_memory(settings: Settings, gate: Gate) -> None:
    async with AsyncReMe(Settings(database_url=gate.url, data_dir=settings.data_dir)) as reme:
        turn = TurnMemory(client=reme, workspace_id="alice", spool="memory")
        await turn.record([Message(content="first")], "t0")
        await turn.messages("")
        gate.close()
        turn.patience = 0.5
        await turn.record([Message(content=text, message_id=text) for text in ("keep", "drop")], "t1")
        gate.open()
        assert await reme.erase_messages("alice", ["drop"]) == 1
        turn.patience = 20.0
        await turn.aclose()
        assert [text for text in await stored(reme) if text] == ["first", "keep"]


async def test_a_loop_that_ends_at_once_leaves_nothing_behind(turn: TurnMemory) -> None:
    def record_and_stop() -> None:
        loop = asyncio.new_event_loop()
        recording = loop.create_task(turn.record([Message(content=TOLD)]))
        loop.call_soon(loop.stop)  # after the first step of the recording, and before that of any task that it makes
        loop.run_forever()
        assert not recording.done()
        loop.set_exception_handler(lambda *_: None)  # that a pending task is dropped is what is tested
        loop.close()

    await asyncio.to_thread(record_and_stop)
    async with asyncio.timeout(20):
        while turn.counts.messages < 1:  # no further turn, and no closing, delivers them
            await asyncio.sleep(0.05)
