"""What somebody asks to forget or to delete: it is closed or erased, and what others said stays."""

from __future__ import annotations

from typing import Any

import pytest

from reme_core.engine import Engine
from reme_core.errors import SpoolError
from reme_core.store.artifacts import Artifact, Artifacts
from reme_core.store.change import Change
from reme_core.store.filters import Filters
from reme_core.types import Memory, Message, Scope, Source, Status
from tests.flows.personal_turns import everything, summarise, turn


@pytest.mark.parametrize(
    ("said", "command"),
    [
        ("my boyfriend Jordan turns 21 on the 14th", "also forget everything ive told you about jordan will you"),
        ("我前女友小丽在上海上班，今年26岁", "把小丽的事都忘掉吧"),
    ],
)
async def test_what_somebody_asks_to_forget_is_closed_and_recalled_no_more(
    reme: Engine, said: str, command: str
) -> None:
    await summarise(reme, turn(said), turn("my sister Ada lives in Hull"))
    await summarise(reme, turn(command, "2024-06-01"))
    closed = {m.content: str(m.status) for m in await everything(reme)}
    assert closed == {said: "expired", "my sister Ada lives in Hull": "active"}
    note = (await reme.retrieve("w", "Jordan 小丽 birthday")).answer
    assert said not in note and command not in note


async def test_what_somebody_asks_to_delete_is_erased(reme: Engine) -> None:
    await summarise(reme, turn("my boyfriend Jordan turns 21 on the 14th"))
    await summarise(reme, turn("please delete what I said about Jordan", "2024-06-01"))
    assert await everything(reme) == []
    left = await reme.database.fetch(
        "w", "select content from reme.message where content like '%%21 on the 14th%%'", {}
    )
    assert left == []


@pytest.mark.parametrize("known_by", ["author", "user_id", "both"])
async def test_nobody_erases_what_others_said_in_the_same_words(reme: Engine, known_by: str) -> None:
    said, asked = "I live in Berlin with two dogs.", "Please delete my two dogs from your memory."
    for person, content in (("Bob", said), ("Ann", said), ("Ann", asked)):
        author = "" if known_by == "user_id" else person
        scope: Scope = {} if known_by == "author" else {"user_id": person.lower()}
        told = [Message(content=content, author=author)]
        told += [Message(role="assistant", content=f"You said: {content}")] if content == said else []
        await reme.record("w", told, session_id=f"{person} {content}", **scope)
        await reme.summarise("w")
        await Artifacts(reme.database).put(
            "w", f"{person} {content}", [Artifact(person, "turns", person, content, "?")]
        )
    [left] = [m for m in await everything(reme) if m.status == Status.ACTIVE]
    assert (left.subject == "Bob" or left.user_id == "bob") and left.sources[0].quote == said
    assert len(await reme.memories.history("w", left.memory_id)) == 1
    assert [m.content for m in await reme.messages("w", f"Bob {said}")] == [said, f"You said: {said}"]
    assert (await reme.working.read("w", "Bob")).text == said
    assert [m.content for m in await reme.messages("w", f"Ann {said}") if m.role == "user"] == []


async def test_an_erasure_takes_all_that_one_person_alone_said(reme: Engine) -> None:
    said, asked = "I live in Berlin with two dogs.", "Please delete my two dogs from your memory."
    told = [Message(content=said, author="Ann"), Message(role="assistant", content=f"You said: {said} Fine.")]
    await reme.record("w", [*told, Message(content=f"As I said: {said} Yes!", author="Bob")], session_id="s")
    await reme.summarise("w")
    await reme.record("w", [Message(content=asked, author="Ann")], session_id="t")
    await reme.summarise("w")
    assert [m.content for m in await reme.messages("w", "s")] == [f"You said: {said} Fine.", f"As I said: {said} Yes!"]
    await reme.record("v", told, session_id="s")
    await reme.summarise("v")
    await reme.record("v", [Message(content=asked, author="Ann")], session_id="t")
    await reme.summarise("v")
    assert [m.content for m in await reme.messages("v", "s")] == ["You said:  Fine."]


async def test_what_others_said_stays_though_a_memory_rests_on_it(reme: Engine) -> None:
    told = [("a", "Ann", "I have two dogs."), ("b", "Bob", "Ann has dogs, and I have a canoe.")]
    await reme.record("w", [Message(message_id=i, content=text, author=who) for i, who, text in told], session_id="s")
    rests_on = [Source(kind="message", id=i) for i, *_ in told]
    await reme.memories.add("w", Memory(kind="observation", subject="Ann", content="Has two dogs", sources=rests_on))
    await reme.record("w", [Message(content="Please delete my dogs from your memory.", author="Ann")], session_id="t")
    await reme.summarise("w")
    assert [m.content for m in await reme.messages("w", "s")] == ["Ann has dogs, and I have a canoe."]


async def test_a_command_to_erase_is_not_lost_when_its_erasure_fails(
    reme: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await summarise(reme, turn("my boyfriend Jordan turns 21 on the 14th"), turn("Jordan is allergic to nuts"))

    async def fail(*_: Any) -> None:
        raise SpoolError("the disk is full")

    asked = turn("please delete what I said about Jordan", "2024-06-01")
    with monkeypatch.context() as patch:
        patch.setattr(reme.memories, "_on_erase", fail)
        with pytest.raises(SpoolError):
            await summarise(reme, asked)
    assert len(await everything(reme)) == 2
    await summarise(reme, asked)
    assert await everything(reme) == []


async def test_an_erasure_goes_on_where_somebody_else_has_erased_meanwhile(
    reme: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await summarise(reme, turn("my boyfriend Jordan turns 21 on the 14th"), turn("Jordan is allergic to nuts"))
    first = (await everything(reme))[0]
    apply = reme.memories.apply

    async def apply_late(workspace: str, change: Change, **told: str) -> None:
        if change.erase and await reme.memories.list(workspace, Filters(ids=[first.memory_id], status=None)):
            await reme.memories.delete(workspace, first.memory_id, erase=True)
        await apply(workspace, change, **told)

    monkeypatch.setattr(reme.memories, "apply", apply_late)
    await summarise(reme, turn("please delete what I said about Jordan", "2024-06-01"))
    assert await everything(reme) == []
