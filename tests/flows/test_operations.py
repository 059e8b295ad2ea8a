"""MemoryScope's operations do what they did there, in one workspace and no other."""

from __future__ import annotations

from collections import Counter

import pytest

from reme_core import Message
from reme_core.engine import Engine
from reme_core.errors import InputError, NotFoundError
from reme_core.store.change import Change, Close
from reme_core.types import Kind, Memory


async def contents(reme: Engine, **options: object) -> list[str]:
    listed = await reme.execute("list_memory", workspace_id="w", **options)
    return [memory["content"] for memory in listed.metadata["memory_list"]]


async def test_a_statement_is_added_once_listed_and_deleted_by_its_words(reme: Engine) -> None:
    added = await reme.execute("add_memory", workspace_id="w", content="I am allergic to peanuts", user_name="alice")
    assert added.metadata["update_result"]["inserted_count"] == 1
    again = await reme.execute("add_memory", workspace_id="w", content="I am allergic to peanuts ", user_name="alice")
    assert again.metadata["update_result"]["inserted_count"] == 0
    assert again.metadata["memory_list"][0]["memory_id"] == added.metadata["memory_list"][0]["memory_id"]
    assert await contents(reme) == ["I am allergic to peanuts"]
    deleted = await reme.execute("delete_memory", workspace_id="w", content="I am allergic to peanuts")
    assert deleted.metadata["update_result"]["deleted_count"] == 1
    assert await contents(reme) == []
    with pytest.raises(NotFoundError, match="nothing that says exactly"):
        await reme.execute("delete_memory", workspace_id="w", content="I am allergic to peanuts")


async def test_deleting_by_id_needs_a_memory_of_the_same_workspace(reme: Engine) -> None:
    added = await reme.execute("add_memory", workspace_id="w", content="I live in Porto")
    memory_id = added.metadata["memory_list"][0]["memory_id"]
    with pytest.raises(NotFoundError):
        await reme.execute("delete_memory", workspace_id="other", memory_id=memory_id)
    with pytest.raises(InputError, match="name the memory"):
        await reme.execute("delete_memory", workspace_id="w")
    await reme.execute("delete_memory", workspace_id="w", memory_id=memory_id)
    assert await contents(reme) == []


async def test_messages_wait_until_they_are_consolidated(reme: Engine) -> None:
    said = [
        Message(content="I live in Berlin with my sister Ada.", session_id="s"),
        Message(content="How are you?", session_id="t", user_id="ann"),
    ]
    await reme.record("w", said)
    waiting = await reme.execute("read_message", workspace_id="w")
    assert [m["content"] for m in waiting.metadata["messages"]] == [
        "I live in Berlin with my sister Ada.",
        "How are you?",
    ]
    only = await reme.execute("read_message", workspace_id="w", session_id="t")
    assert [m["content"] for m in only.metadata["messages"]] == ["How are you?"]
    anns = await reme.execute("read_message", workspace_id="w", user_id="ann")
    assert anns.metadata == only.metadata  # of the one person alone
    assert (await reme.execute("read_message", workspace_id="w", user_id="bob")).metadata["messages"] == []
    await reme.execute("consolidate", workspace_id="w")
    assert (await reme.execute("read_message", workspace_id="w")).metadata["messages"] == []
    assert any("Berlin" in text for text in await contents(reme))


@pytest.mark.parametrize("flow", ["consolidate", "summary_personal_memory"])
async def test_only_what_waits_of_the_person_that_is_named_is_summarised(reme: Engine, flow: str) -> None:
    said = [
        Message(content="I live in Berlin with my sister Ada.", session_id="s", user_id="ann"),
        Message(content="I am allergic to peanuts and shellfish.", session_id="t", user_id="bob"),
    ]
    await reme.record("w", said)
    anns = await reme.execute(flow, workspace_id="w", user_id="ann")
    assert [memory["content"] for memory in anns.metadata["memory_list"]] == [said[0].content]
    waiting = await reme.execute("read_message", workspace_id="w")
    assert [message["user_id"] for message in waiting.metadata["messages"]] == ["bob"]


async def test_what_was_forgotten_is_shown_only_when_asked_for(reme: Engine) -> None:
    for text in ("I live in Berlin with my sister Ada.", "Forget what I told you about Berlin."):
        await reme.record("w", [Message(content=text, session_id=text)])
        await reme.execute("consolidate", workspace_id="w")
    assert not any("Berlin" in text for text in await contents(reme))
    assert any("Berlin" in text for text in await contents(reme, include_expired=True))
    with pytest.raises(InputError, match="limit"):
        await contents(reme, limit=0)


async def test_what_was_deleted_takes_no_place_in_a_list_of_what_was_closed(reme: Engine) -> None:
    for text in ("I like tea", "I like chess", "I like maps"):
        await reme.execute("add_memory", workspace_id="w", content=text)
    for text in ("I like chess", "I like maps"):
        await reme.execute("delete_memory", workspace_id="w", content=text)
    assert await contents(reme, include_expired=True, limit=2) == ["I like tea"]


async def test_deleting_everything_about_people_leaves_experience(reme: Engine) -> None:
    await reme.memories.add("w", "Refunds need a reason.", kind="task")
    for text in ("I like tea", "I like chess"):
        await reme.execute("add_memory", workspace_id="w", content=text)
    deleted = await reme.execute("delete_all", workspace_id="w")
    assert deleted.metadata["update_result"]["deleted_count"] == 2
    assert [m.content for m in await reme.memories.list("w")] == ["Refunds need a reason."]


@pytest.mark.parametrize(
    ("flow", "given"),
    [
        ("delete_all", {"userid": "ann"}),
        ("delete_memory", {"content": "I like tea", "userid": "ann"}),
        ("delete_task_memory", {"freq_threshold": 0, "utility_threshold": 1.0, "user_id": "ann"}),
        ("vector_store", {"action": "delete", "userid": "ann"}),
    ],
)
async def test_a_deletion_refuses_a_field_that_it_does_not_know(
    reme: Engine, flow: str, given: dict[str, object]
) -> None:
    await reme.memories.add("w", ["I like tea", Memory(kind=Kind.TASK, content="Refunds need a reason.")])
    with pytest.raises(InputError, match=rf"{[*given][-1]}: nothing was done, since {flow} takes no such field; "):
        await reme.execute(flow, workspace_id="w", **given)
    assert len(await reme.memories.list("w")) == 2


async def test_a_deletion_takes_fields_of_null_and_names_the_field_that_was_meant(reme: Engine) -> None:
    await reme.execute("add_memory", workspace_id="w", content="I like tea", user_id="ann")
    with pytest.raises(InputError, match="did you mean 'user_id'"):
        await reme.execute("delete_all", workspace_id="w", userid="bob")
    as_before = {"query": "", "messages": [], "metadata": {}}  # ReMe 0.1 sent these with every request
    deleted = await reme.execute("delete_all", workspace_id="w", user_id="ann", userid=None, **as_before)
    assert deleted.metadata["update_result"]["deleted_count"] == 1


async def test_a_memory_of_somebody_else_is_not_deleted_by_its_id(reme: Engine) -> None:
    added = await reme.execute("add_memory", workspace_id="w", content="I like tea", user_id="ann")
    named = {"workspace_id": "w", "memory_id": added.metadata["memory_list"][0]["memory_id"]}
    with pytest.raises(NotFoundError):
        await reme.execute("delete_memory", **named, user_id="bob")
    await reme.execute("delete_memory", **named, user_id="ann")
    assert await contents(reme) == []


async def about(reme: Engine) -> dict[str, int]:
    """How many memories there are of each person."""
    return Counter(memory.subject for memory in await reme.memories.list("w"))


async def test_a_statement_is_added_and_deleted_of_the_person_that_is_named(reme: Engine) -> None:
    for person in ("Ann", "Ben", "Ben"):
        added = await reme.execute("add_memory", workspace_id="w", content="I like tea", user_name=person)
        assert added.metadata["memory_list"][0]["target"] == person
    assert await about(reme) == {"Ann": 1, "Ben": 1}
    assert len(await contents(reme, user_name="Ann")) == 1
    await reme.execute("delete_memory", workspace_id="w", content="I like tea", user_name="Ben")
    assert await about(reme) == {"Ann": 1}
    [ann] = await reme.memories.list("w")
    for named in ({"content": "I like tea"}, {"memory_id": ann.memory_id}):
        with pytest.raises(NotFoundError, match="about Ben"):
            await reme.execute("delete_memory", workspace_id="w", user_name="Ben", **named)
    await reme.execute("delete_all", workspace_id="w", user_name="Ben")
    assert await about(reme) == {"Ann": 1}


@pytest.mark.parametrize("named", ["memory_id", "content", "all"])
async def test_what_has_expired_can_be_deleted_too(reme: Engine, named: str) -> None:
    ended = Memory(content="I live in Berlin", subject="user", kind=Kind.OBSERVATION)
    await reme.memories.add("w", [ended, Memory(content="I like tea", subject="user")])
    await reme.memories.apply("w", Change(close=[Close(ended.memory_id, "expired")]))
    options = {"memory_id": ended.memory_id} if named == "memory_id" else {"content": ended.content}
    flow, options = ("delete_all", {}) if named == "all" else ("delete_memory", options)
    deleted = await reme.execute(flow, workspace_id="w", **options)
    assert deleted.metadata["update_result"]["deleted_count"] == (2 if named == "all" else 1)
    assert await contents(reme, include_expired=True) == ([] if named == "all" else ["I like tea"])
    assert (await reme.memories.history("w", ended.memory_id))[-1].reason.endswith("on request")
    if named == "all":
        await reme.memories.undo("w")
    else:
        await reme.memories.restore("w", ended.memory_id)
    assert len(await contents(reme, include_expired=True)) == 2
