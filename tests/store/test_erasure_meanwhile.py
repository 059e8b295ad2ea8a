"""Erasure while others work: what they decided on before, or bring afterwards, brings nothing back."""

from __future__ import annotations

import asyncio

import pytest

from reme_core.engine import Engine
from reme_core.errors import ConflictError, NotFoundError
from reme_core.models import ModelCall
from reme_core.store.change import Change
from reme_core.store.logs import logging_for_workspace
from reme_core.types import Memory, Message, Source
from tests.loopback import Loopback
from tests.store.erased import KNOWN, KNOWN_LATER, RARE, SAID, remember, traces
from tests.store.recount import consistent


async def test_what_others_still_hold_in_their_hands_is_not_written_afterwards(words: Engine) -> None:
    stored = await remember(words, "alice")
    dog = stored["dog"]
    await words.recall("alice", "Zyxxo quokka")  # its log entry is still on its way when the text goes
    with logging_for_workspace("alice"):
        words.log_writer.log_call(ModelCall("openai", "m", "extract", ok=False, raw=KNOWN, error=KNOWN))
    with logging_for_workspace("alice"):  # a model is asked before, and answers afterwards
        await words.memories.delete("alice", [dog.memory_id], erase=True)
        words.log_writer.log_call(ModelCall("openai", "m", "extract", ok=False, raw=KNOWN, error=KNOWN))
    await words.log_writer.flush()
    late = [
        Memory(content="Tom likes Zyxxo", sources=[Source(kind="memory", id=dog.memory_id)]),
        Memory(content="Zyxxo is a dog", sources=[Source(kind="message", id="m2")]),
    ]
    for memory in late:
        with pytest.raises(ConflictError, match="erased meanwhile"):
            await words.memories.add("alice", memory)
    with pytest.raises(ConflictError, match="summarised already"):
        await words.memories.apply("alice", Change(add=[Memory(content="Zyxxo")], summarised={"m2": "?"}))
    with pytest.raises(NotFoundError):
        await words.memories.update("alice", dog.memory_id, content=KNOWN)
    assert await traces(words.database, *RARE) == {}


async def test_what_was_decided_on_a_workspace_that_was_cleared_is_refused(words: Engine) -> None:
    await words.memories.add("w", KNOWN)
    decided = Change(add=[Memory(content=KNOWN_LATER)], expected_version=await words.memories.version("w"))
    await words.workspaces.clear("w")
    with pytest.raises(ConflictError, match="decide again"):
        await words.memories.apply("w", decided)
    assert await traces(words.database, *RARE) == {}


async def test_what_was_decided_on_what_is_erased_by_now_is_refused(words: Engine) -> None:
    (dog, _) = await words.memories.add("w", [KNOWN, "It rains."])
    version = await words.memories.version("w")
    await words.memories.delete("w", dog.memory_id, erase=True)
    with pytest.raises(ConflictError, match="decide again"):
        await words.memories.apply("w", Change(add=[Memory(content=KNOWN_LATER)], expected_version=version))
    assert await traces(words.database, *RARE) == {}


async def test_what_is_erased_while_its_earlier_words_are_embedded_is_not_restored(
    words: Engine, loopback: Loopback
) -> None:
    (dog,) = await words.memories.add("w", KNOWN)
    await words.memories.update("w", dog.memory_id, content="Tom has a dog")
    await words.memories.add("w", "It rains.")
    loopback.slow(0.4)
    before = len(loopback.requests)
    restored = asyncio.create_task(words.memories.restore("w", dog.memory_id))
    while len(loopback.requests) == before:
        await asyncio.sleep(0.01)
    await words.memories.delete("w", dog.memory_id, erase=True)
    with pytest.raises(ConflictError, match="changed meanwhile"):
        await restored
    assert await traces(words.database, *RARE) == {}
    assert await consistent(words.database, "w")


async def test_a_vector_that_comes_late_is_not_stored(words: Engine, loopback) -> None:  # type: ignore[no-untyped-def]
    loopback.slow(0.4)
    await words.record("w", [Message(message_id="m1", content=SAID), Message(message_id="m2", content="And you?")])
    await asyncio.sleep(0.1)
    await words.erase_messages("w", ["m1"])
    await words._indexing.wait_for_vectors("w", 60)
    vectors = await words.database.fetch(
        "w", "select message_id from embedding join message using (workspace_id, document_id)"
    )
    assert vectors == [("m2",)]


async def test_a_workspace_that_is_cleared_while_its_vectors_are_made_stays_away(
    words: Engine, loopback: Loopback
) -> None:
    loopback.slow(0.4)
    await words.record("w", [Message(content=SAID)])
    while not loopback.requests:
        await asyncio.sleep(0.01)
    await words.workspaces.clear("w")
    await words._indexing.wait_for_vectors("w", 60)
    assert await words.workspaces.list() == []


async def test_erasing_while_others_write_keeps_everything_straight(words: Engine) -> None:
    async def live(name: str) -> None:
        for number in range(6):
            said = Message(message_id=f"{name}{number}", content=f"{name} bought {number} blue lamps", session_id="s")
            await words.record("w", [said])
            (memory,) = await words.memories.add(
                "w", Memory(content=f"{name} owns {number} lamps", sources=[Source(kind="message", id=said.message_id)])
            )
            await words.recall("w", f"{name} lamps")
            if number % 2:
                await words.memories.delete("w", [memory.memory_id], erase=True)
            else:
                await words.memories.update("w", memory.memory_id, content=f"{name} owns {number} green lamps")

    async with asyncio.TaskGroup() as group:
        for name in ("Ann", "Ben", "Cleo", "Dan"):
            group.create_task(live(name))
    await words._indexing.wait_for_vectors("w", 60)
    assert await consistent(words.database, "w")
    assert len(await words.memories.list("w")) == 12
    assert await words.database.fetch("w", "select count(*) from message where content = ''") == [(12,)]
