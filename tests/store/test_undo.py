"""Bringing memories back: one to any state in its history, or all that the last bulk change touched."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from reme_core.engine import Engine
from reme_core.errors import ConflictError, InputError, NotFoundError
from reme_core.store.filters import Filters
from reme_core.store.libraries import load
from reme_core.types import Memory, Message, Source
from tests.store.recount import consistent


async def contents(reme: Engine) -> set[str]:
    return {memory.content for memory in await reme.memories.list("w")}


async def test_a_memory_goes_back_to_any_state_in_its_history(words: Engine) -> None:
    (memory,) = await words.memories.add("w", "Her dog is called Rex.")
    name = memory.memory_id
    await words.memories.update("w", name, content="Her cat is called Mia.")
    await words.memories.delete("w", name)
    restored = await words.memories.restore("w", name, actor="ann", reason="it was right")
    assert (restored.content, restored.status) == ("Her cat is called Mia.", "active")
    first, *_, last = await words.memories.history("w", name)
    assert (last.changed_by, last.reason) == ("ann", "it was right")
    assert (await words.memories.restore("w", name, number=first.number)).content == "Her dog is called Rex."
    hits = (await words.recall("w", "dog Rex")).hits
    assert [(h.content, h.parts.lexical) for h in hits] == [("Her dog is called Rex.", 1.0)]
    assert all(h.parts.lexical == 0 for h in (await words.recall("w", "Mia")).hits)
    assert await consistent(words.database, "w")


@pytest.mark.parametrize(
    ("before", "changed"),
    [
        ({"content": "Ann sold Bob the old car."}, {"content": "Bob sold Ann the old car."}),
        ({"content": "She eats fish."}, {"content": "She does not eat fish."}),
        ({"content": "Ask first.", "when_to_use": "A deletion", "kind": "observation"}, {"kind": "task"}),
    ],
)
async def test_what_is_restored_has_the_vector_of_its_own_words(
    reme: Engine, before: dict[str, str], changed: dict[str, str]
) -> None:
    (memory,) = await reme.memories.add("w", Memory(**before))
    vector = "select embedding::text from embedding"
    first = await reme.database.fetch("w", vector)
    await reme.memories.update("w", memory.memory_id, **changed)
    assert await reme.database.fetch("w", vector) != first
    await reme.memories.restore("w", memory.memory_id)
    assert await reme.database.fetch("w", vector) == first
    assert await consistent(reme.database, "w")


async def test_what_cannot_be_restored_is_told(words: Engine) -> None:
    (memory,) = await words.memories.add("w", "Rex")
    with pytest.raises(InputError, match="never changed"):
        await words.memories.restore("w", memory.memory_id)
    with pytest.raises(NotFoundError, match=r"no change of it has the number 99; their numbers are \d+$"):
        await words.memories.restore("w", memory.memory_id, number=99)
    with pytest.raises(NotFoundError, match="never had"):
        await words.memories.restore("w", "nobody")
    with pytest.raises(NotFoundError, match=r"nothing to undo.*; restore takes back the change of one$"):
        await words.memories.undo("w")
    await words.memories.delete("w", memory.memory_id, erase=True)
    with pytest.raises(NotFoundError):
        await words.memories.restore("w", memory.memory_id)


@pytest.mark.parametrize("is_same", [False, True])
async def test_only_a_change_of_the_same_memory_keeps_it_from_being_restored(words: Engine, is_same: bool) -> None:
    dog, cat = await words.memories.add("w", ["Her dog is called Rex.", "Her cat is called Mia."])
    await words.memories.update("w", dog.memory_id, content="She has a dog.")
    async with words.database.write_transaction("w") as conn:
        restored = asyncio.create_task(words.memories.restore("w", dog.memory_id))
        await asyncio.sleep(0.3)  # it waits for the lock by now
        changed = dog.memory_id if is_same else cat.memory_id
        await conn.execute("update reme.memory set importance = 1, freq = 1 where memory_id = %s", [changed])
        await conn.execute("update reme.memory set freq = 2")  # which is no change of a memory
    if is_same:
        with pytest.raises(ConflictError, match="changed meanwhile"):
            await restored
    else:
        assert (await restored).content == "Her dog is called Rex."
        assert {memory.freq for memory in await words.memories.list("w")} == {2}
    assert await consistent(words.database, "w")


@pytest.mark.parametrize("batch", [1, 1000])
async def test_a_replacing_load_is_undone_and_redone(
    words: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(load, "_BATCH", batch)
    await words.record("w", [Message(message_id="m1", content="I drink tea")], wait=True)
    source = Source(kind="message", id="m1", quote="tea")
    await words.memories.add("w", [Memory(memory_id="tea", content="She drinks tea.", sources=[source]), "It rains."])
    library = tmp_path / "new.jsonl"
    library.write_text('{"memory_id": "tea", "content": "She drinks coffee."}\n{"content": "The sun shines."}\n')
    await words.workspaces.load("w", library, replace=True)
    assert await contents(words) == {"She drinks coffee.", "The sun shines."}
    undone = await words.memories.undo("w", actor="ann")
    assert (undone.changed_by, undone.reason, undone.restored, undone.removed) == (
        "load",
        "loaded from new.jsonl",
        2,
        1,
    )
    assert await contents(words) == {"She drinks tea.", "It rains."}
    assert (await words.recall("w", "She drinks tea.")).hits[0].content == "She drinks tea."
    assert await consistent(words.database, "w")
    await words.memories.undo("w")
    assert await contents(words) == {"She drinks coffee.", "The sun shines."}
    await words.memories.undo("w")
    assert await contents(words) == {"She drinks tea.", "It rains."}
    assert await consistent(words.database, "w")


async def test_a_load_that_changes_one_memory_of_several_is_undone_and_redone(words: Engine, tmp_path: Path) -> None:
    for drink in ("tea", "coffee"):
        lines = [
            {"memory_id": "rain", "content": "It rains."},
            {"memory_id": "drink", "content": f"She drinks {drink}."},
        ]
        (tmp_path / "lib.jsonl").write_text("\n".join(map(json.dumps, lines)))
        await words.workspaces.load("w", tmp_path / "lib.jsonl")
    for drink in ("tea", "coffee", "tea"):
        await words.memories.undo("w")
        assert await contents(words) == {"It rains.", f"She drinks {drink}."}
    assert await consistent(words.database, "w")


async def test_what_a_load_removed_comes_back_with_its_evidence(words: Engine, tmp_path: Path) -> None:
    await words.record("w", [Message(message_id="m1", content="I drink tea")], wait=True)
    source = Source(kind="message", id="m1", quote="tea")
    await words.memories.add("w", Memory(memory_id="tea", content="She drinks tea.", sources=[source]))
    (tmp_path / "new.jsonl").write_text('{"content": "The sun shines."}\n')
    await words.workspaces.load("w", tmp_path / "new.jsonl", replace=True)
    assert (await words.memories.restore("w", "tea")).sources == [source]
    assert await contents(words) == {"She drinks tea.", "The sun shines."}


async def test_the_deletion_of_a_single_quote_is_no_change_of_several(words: Engine) -> None:
    await words.record("w", [Message(message_id="m1", content="My dog is called Rex.")], wait=True)
    quote = Memory(
        content="My dog is called Rex.", sources=[Source(kind="message", id="m1")], metadata={"mode": "quoted"}
    )
    await words.memories.add("w", ["Her cat is called Mia.", "Her car is red."], reason="two at once")
    (quote,) = await words.memories.add("w", quote)
    await words.memories.delete("w", quote.memory_id)  # which closes it, and keeps its message out of recall
    assert (await words.memories.undo("w")).reason == "two at once"
    assert await words.memories.list("w") == []


async def test_what_was_changed_since_is_not_undone(words: Engine) -> None:
    added = await words.memories.add("w", ["one", "two", "three"])
    ids = [memory.memory_id for memory in added]
    await words.memories.delete("w", ids[:2])
    await words.memories.add("w", "four")  # one memory is no bulk change
    await words.memories.restore("w", ids[0])
    with pytest.raises(ConflictError, match=f"such as {ids[0]}"):
        await words.memories.undo("w")
    assert await contents(words) == {"one", "three", "four"}


async def test_an_undone_deletion_keeps_counts_of_use(words: Engine) -> None:
    await words.memories.add("w", ["one", "two"])
    both = await words.memories.list("w")
    await words.memories.delete("w", [memory.memory_id for memory in both])
    assert (await words.memories.undo("w")).restored == 2
    await words.memories.add("w", "one")
    assert {m.content: m.seen_count for m in await words.memories.list("w", Filters())} == {"one": 2, "two": 1}


async def test_a_change_of_many_memories_after_changes_of_few_writes_its_history_quickly(words: Engine) -> None:
    many = [Memory(memory_id=str(number), content=f"tea {number}") for number in range(3_000)]
    await words.memories.add("w", many)
    async with words.database.transaction("w") as conn:  # in one session, which keeps the plans of its triggers
        for number in range(10):
            await conn.execute("update reme.memory set seen_count = 2 where memory_id = %s", [str(number)])
        # A nested loop over all pairs of rows takes 15 s, and a hash join a tenth of a second.
        await conn.execute("set local statement_timeout = '8s'")
        await conn.execute("update reme.memory set seen_count = 3")
        counted = await conn.execute("select count(*) from reme.memory_history where operation = 'update'")
        assert await counted.fetchone() == (3_010,)


@pytest.mark.parametrize("change", ["add", "delete", "load"])
async def test_a_change_of_several_of_which_one_is_left_after_an_erasure_is_undone(
    words: Engine, tmp_path: Path, change: str
) -> None:
    await words.memories.add("w", ["It rains.", "The sun shines."])
    names = {"dog": "Her dog is called Rex.", "cat": "Her cat is called Mia.", "bird": "Her bird is called Tweety."}
    if change == "delete":
        for name, content in names.items():  # one after the other, which are no changes of several
            await words.memories.add("w", Memory(memory_id=name, content=content))
        await words.memories.delete("w", [*names])
    elif change == "add":
        await words.memories.add("w", [Memory(memory_id=name, content=content) for name, content in names.items()])
    else:
        lines = [json.dumps({"memory_id": name, "content": content}) for name, content in names.items()]
        (tmp_path / "lib.jsonl").write_text("\n".join(lines))
        await words.workspaces.load("w", tmp_path / "lib.jsonl")
    await words.memories.add("w", "It snows.")
    for name in ("dog", "cat"):
        await words.memories.delete("w", name, erase=True)
    await words.memories.undo("w")
    rest = {"Her bird is called Tweety."} if change == "delete" else set()
    assert await contents(words) == {"It rains.", "The sun shines.", "It snows."} | rest
    with pytest.raises(ConflictError, match="1 of its memories were changed after it"):
        await words.memories.undo("w")  # the undo itself was a change of one, and is not passed by either
    assert await consistent(words.database, "w")


async def test_an_erasure_makes_no_change_of_one_memory_a_change_of_several(words: Engine) -> None:
    (dog,) = await words.memories.add("w", "Her dog is called Rex.")
    (cat,) = await words.memories.add("w", "Her cat is called Mia.")
    await words.memories.update("w", cat.memory_id, content="She has a cat.")
    await words.memories.delete("w", dog.memory_id, erase=True)
    with pytest.raises(NotFoundError, match="nothing to undo"):
        await words.memories.undo("w")
