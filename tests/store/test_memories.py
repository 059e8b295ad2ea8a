"""Memories in Postgres: two time axes, evidence, history, and many writers at once."""

from __future__ import annotations

import asyncio
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from reme_core.engine import Engine
from reme_core.errors import ConflictError, InputError, NotFoundError
from reme_core.store.change import Change, Close
from reme_core.store.filters import Filters
from reme_core.types import Kind, Memory, Message, Source, Status
from reme_core.types import now as present
from tests.loopback import Loopback
from tests.store.recount import consistent


async def test_a_memory_comes_back_as_it_went_in(words: Engine) -> None:
    moment = datetime(2023, 5, 7, 12, tzinfo=UTC)
    memory = Memory(
        kind=Kind.OBSERVATION, subject="Tom", content="Tom 喜欢喝茶", keywords=["茶"], importance=0.25, score=0.5,
        observed_at=moment, valid_from=moment, valid_until=moment + timedelta(days=1), created_at=moment,
        author="rules",
        sources=[Source(kind="message", id="m1", quote="I like tea")], metadata={"deep": {"list": [1, None, "x"]}},
    )  # fmt: skip
    await words.memories.add("w", memory)
    stored = await words.memories.get("w", memory.memory_id)
    assert stored.recorded_at is not None and abs(present() - stored.recorded_at) < timedelta(minutes=1)
    assert stored.model_dump(exclude={"recorded_at"}) == memory.model_dump(exclude={"recorded_at"}) | {
        "workspace_id": "w"
    }


async def test_many_are_added_in_order_or_not_at_all(words: Engine) -> None:
    texts = [f"Number {number} is on the list." for number in range(700)]
    added = await words.memories.add("w", texts)
    listed = await words.memories.list("w", limit=1000)
    assert [m.content for m in reversed(listed)] == texts
    again = [Memory(content="new"), *added[600:601], *(Memory(content=f"other {n}") for n in range(400))]
    with pytest.raises(ConflictError, match=f"exists already: {added[600].memory_id}"):
        await words.memories.add("w", again)
    assert len(await words.memories.list("w", limit=2000)) == 700
    assert await consistent(words.database, "w")


async def test_what_is_added_again_counts_as_seen_again(words: Engine) -> None:
    await words.record("w", [Message(message_id="m1", content="I drink tea")], wait=True)
    tea = Memory(content="She drinks tea.", subject="Ann")
    (first,) = await words.memories.add("w", tea.model_copy())
    sourced = tea.model_copy(update={"sources": [Source(kind="message", id="m1")]})
    again, new, twice = await words.memories.add("w", [sourced, "It rains.", "It rains."])
    assert (again.memory_id, again.seen_count) == (first.memory_id, 2)
    assert new is twice and new.seen_count == 2
    stored = {m.content: m for m in await words.memories.list("w")}
    assert {content: m.seen_count for content, m in stored.items()} == {"She drinks tea.": 2, "It rains.": 2}
    assert stored["She drinks tea."].sources == [Source(kind="message", id="m1")]
    assert await consistent(words.database, "w")


async def test_what_says_anything_else_is_another_memory(words: Engine) -> None:
    kept = [
        Memory(content="tea", subject="Ann"), Memory(content="tea", subject="Bob"), Memory(content="tea", author="x"),
        Memory(content="tea", metadata={"from": "mail"}), Memory(content="tea", kind=Kind.INSIGHT),
        Memory(content="tea", valid_from=present()), Memory(content="tea", memory_id="mine"),
        Memory(content="tea", observed_at=present()),
    ]  # fmt: skip
    await words.memories.add("w", kept)
    await words.memories.delete("w", (await words.memories.add("w", "water"))[0].memory_id)
    await words.memories.add("w", "water")
    assert sorted(m.content for m in await words.memories.list("w")) == [*["tea"] * 8, "water"]


async def test_a_time_is_the_same_in_whatever_zone_it_is_given(words: Engine) -> None:
    in_tokyo = datetime(2026, 5, 2, 7, 30, tzinfo=ZoneInfo("Asia/Tokyo"))
    for moment in (in_tokyo, in_tokyo, in_tokyo.astimezone(UTC)):
        await words.memories.add("w", Memory(content="She moved.", observed_at=moment, valid_from=moment))
    assert [m.seen_count for m in await words.memories.list("w")] == [3]


@pytest.mark.parametrize("value", [date(2026, 5, 2), datetime(2026, 5, 2, 7, 30), ("a", "b"), {"a"}, b"a"])
async def test_metadata_is_the_same_as_json_whatever_it_is_made_of(words: Engine, value: object) -> None:
    for _ in range(2):
        await words.memories.add("w", Memory(content="She moved.", metadata={"given": value}))
    assert [m.seen_count for m in await words.memories.list("w")] == [2]


async def test_what_is_added_as_closed_is_not_what_stands(words: Engine) -> None:
    closed, stands = (Memory(content="She drinks tea.", status=status) for status in ("expired", "active"))
    added = await words.memories.add("w", [closed, stands])
    assert [(m.status, m.seen_count) for m in added] == [("expired", 1), ("active", 1)]
    (another,) = await words.memories.add("w", Memory(content="She drinks tea.", status=Status.EXPIRED))
    assert (another.status, another.seen_count) == ("expired", 1)


async def test_two_that_add_the_same_at_once_make_one_memory(words: Engine) -> None:
    await asyncio.gather(*(words.memories.add("w", "She drinks tea.") for _ in range(8)))
    assert [m.seen_count for m in await words.memories.list("w")] == [8]


@pytest.mark.parametrize("name", ["kinds", "ids", "without"])
def test_a_text_in_place_of_several_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=f"{name} is a list of texts, not 'm1'"):
        Filters(**{name: "m1"})  # type: ignore[arg-type]


async def test_ids_filters_limits_and_queries_of_another_type_are_named(words: Engine) -> None:
    for work in (
        words.memories.get("w", 5),  # type: ignore[arg-type]
        words.memories.delete("w", 5),  # type: ignore[arg-type]
        words.memories.list("w", "personal"),  # type: ignore[arg-type]
        words.recall("w", "tea", limit="x"),  # type: ignore[arg-type]
        words.recall("w", None),  # type: ignore[arg-type]
    ):
        with pytest.raises(InputError):
            await work


async def test_memories_are_not_listed_by_a_session_which_they_do_not_have(reme: Engine) -> None:
    await reme.memories.add("w", "Rex is a dog.")
    with pytest.raises(InputError, match=r"use messages\.list"):
        await reme.memories.list("w", session_id="monday")


async def test_memories_are_listed_by_the_filters_that_recall_takes(words: Engine) -> None:
    mine = Memory(content="She likes tea.", user_id="ann")
    rule = Memory(content="Refunds need a reason.", user_id="ann", kind=Kind.TASK)
    await words.memories.add("w", [mine, rule, Memory(content="He likes rum.", user_id="bob")])
    assert [m.content for m in await words.memories.list("w", user_id="ann", kind="personal")] == ["She likes tea."]
    assert [m.content for m in await words.memories.list("w", kind=["task"])] == ["Refunds need a reason."]
    with pytest.raises(InputError, match="there is no filter 'userid'"):
        await words.memories.list("w", userid="ann")  # type: ignore[call-arg]
    for filters in ({"user_id": "ann"}, Filters()):
        with pytest.raises(InputError, match=r"give filters by name, as in list\("):
            await words.memories.list("w", filters, kind="task")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("", "the memory has no text; give it a content"),
        (["fine", ""], "memory 2 of 2 has no text; give it a content"),
        (["fine", Memory(memory_id="m7", content=" ")], "memory 'm7' has no text; give it a content"),
        (["a\0b", "fine"], "content of memory 1 of 2 holds a NUL character"),
        (
            Memory(content="x", metadata={"a": float("nan")}),
            "score, .* or a source of the memory holds",
        ),
    ],
)
async def test_what_is_wrong_is_told_of_what_was_given_and_not_of_an_id_that_nobody_gave(
    words: Engine, given: Any, told: str
) -> None:
    with pytest.raises(InputError, match=f"^{told}"):
        await words.memories.add("w", given, user_id="ann")


async def test_what_is_wrong_with_a_message_is_told_likewise(words: Engine) -> None:
    for message, told in ((Message(content="\0"), "message 2 of 2"), (Message(message_id="m7", author="\0"), "'m7'")):
        with pytest.raises(InputError, match=f"of (message )?{told} holds a NUL"):
            await words.record("w", [Message(content="fine"), message])


@pytest.mark.parametrize(
    ("memory", "reason"),
    [
        (Memory(content=" "), "has no text"),
        (Memory(content="a\0b"), "NUL"),
        (Memory(content="\ud800"), "surrogate"),
        (Memory(content="x", metadata={"a": "\0"}), "NUL"),
        (Memory(content="x", metadata={"a": float("nan")}), "not finite"),
        (Memory(content="x", keywords=["\udc00"]), "surrogate"),
        (Memory(content="x", kind=Kind.CONVERSATION), "raw messages"),
    ],
)
async def test_what_cannot_be_stored_is_refused_before_anything_is(words: Engine, memory: Memory, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        await words.memories.add("w", ["fine", memory])
    assert await words.memories.list("w") == []


async def test_a_backslash_that_looks_like_a_nul_is_kept(words: Engine) -> None:
    (memory,) = await words.memories.add("w", Memory(content="x", metadata={"code": "\\u0000"}))
    assert (await words.memories.get("w", memory.memory_id)).metadata == {"code": "\\u0000"}


async def test_an_update_is_found_by_its_new_words_only_and_keeps_the_old_in_its_history(words: Engine) -> None:
    (memory, _) = await words.memories.add("w", ["Her dog is called Rex.", "She lives in Riga."])
    before = present()
    await words.memories.update("w", memory.memory_id, content="Her cat is called Mia.", actor="ann", reason="she said")
    found = (await words.recall("w", "cat Mia", limit=1)).hits[0]
    assert (found.content, found.parts.lexical) == ("Her cat is called Mia.", 1.0)
    assert all(hit.parts.lexical == 0 for hit in (await words.recall("w", "Rex")).hits)
    history = await words.memories.history("w", memory.memory_id)
    assert [(e.operation, e.changed_by, e.reason) for e in history] == [
        ("insert", "", ""),
        ("update", "ann", "she said"),
    ]
    assert history[1].before and history[1].before["content"] == "Her dog is called Rex."
    then = {m.content for m in await words.memories.as_of("w", before)}
    assert then == {"Her dog is called Rex.", "She lives in Riga."}
    assert await consistent(words.database, "w")


async def test_an_update_that_changes_nothing_is_none(words: Engine) -> None:
    (memory,) = await words.memories.add("w", ["Her dog is called Rex."])
    before = await words.memories.get("w", memory.memory_id)
    for values in ({}, {"content": "Her dog is called Rex."}):
        assert await words.memories.update("w", memory.memory_id, **values) == before
    assert await words.memories.get("w", memory.memory_id) == before
    assert len(await words.memories.history("w", memory.memory_id)) == 1


async def test_a_time_of_validity_that_ends_before_it_begins_is_refused_with_the_names_of_its_fields(
    words: Engine,
) -> None:
    begun, ended = datetime(2024, 2, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)
    told = "^valid_until of memory 'm' .2024-01-01 .* is before its valid_from .2024-02-01 .*; swap them$"
    with pytest.raises(InputError, match=told):
        await words.memories.add("w", Memory(memory_id="m", content="in Oslo", valid_from=begun, valid_until=ended))
    await words.memories.add("w", Memory(memory_id="m", content="in Oslo", valid_from=begun))
    with pytest.raises(InputError, match=told):
        await words.memories.update("w", "m", valid_until=ended)
    assert (await words.memories.get("w", "m")).valid_until is None


async def test_a_memory_in_use_has_no_time_at_which_it_was_closed(words: Engine) -> None:
    ends = datetime(2030, 1, 1, tzinfo=UTC)
    with pytest.raises(InputError, match="the memory is active and has an expired_at; valid_until is"):
        await words.memories.add("w", Memory(content="in Oslo", expired_at=ends))
    (stored,) = await words.memories.add("w", Memory(content="in Oslo", status=Status.EXPIRED, expired_at=ends))
    assert stored.expired_at == ends


async def test_a_time_of_validity_is_compared_as_time_also_where_clocks_are_set_back(words: Engine) -> None:
    berlin = ZoneInfo("Europe/Berlin")
    begun, ended = (datetime(2025, 10, 26, 2, 30, tzinfo=berlin), datetime(2025, 10, 26, 2, 10, tzinfo=berlin, fold=1))
    (held,) = await words.memories.add("w", Memory(content="at the bar", valid_from=begun, valid_until=ended))
    assert held.valid_until == ended.astimezone(UTC)
    with pytest.raises(InputError, match="swap them"):
        await words.memories.add("w", Memory(content="at the bar again", valid_from=ended, valid_until=begun))


async def test_what_may_not_be_changed_or_is_not_there_is_refused(words: Engine) -> None:
    (memory,) = await words.memories.add("w", "x marks the spot")
    with pytest.raises(InputError, match="cannot change status"):
        await words.memories.update("w", memory.memory_id, status="deleted")
    with pytest.raises(NotFoundError, match="has no memory 'none'"):
        await words.memories.update("w", "none", content="y")
    with pytest.raises(NotFoundError):
        await words.memories.get("other", memory.memory_id)


async def test_a_deleted_memory_is_changed_only_after_it_was_restored(words: Engine) -> None:
    (memory,) = await words.memories.add("w", "Her dog is called Rex.")
    await words.memories.delete("w", memory.memory_id)
    with pytest.raises(NotFoundError, match="was deleted; restore it before you change it"):
        await words.memories.update("w", memory.memory_id, content="Her dog is called Max.")
    restored = await words.memories.restore("w", memory.memory_id)
    assert (restored.status, restored.content) == ("active", "Her dog is called Rex.")


async def test_updates_at_the_same_time_all_count(words: Engine) -> None:
    (memory,) = await words.memories.add("w", "It begins here.")
    changes: list[dict[str, Any]] = [{"content": f"Version {n}"} for n in range(6)]
    changes += [{"score": 0.5}, {"keywords": ["seven"]}, {"subject": "Tom"}]
    await asyncio.gather(*(words.memories.update("w", memory.memory_id, **change) for change in changes))
    after = await words.memories.get("w", memory.memory_id)
    assert (after.score, after.keywords, after.subject) == (0.5, ["seven"], "Tom")
    assert len(await words.memories.history("w", memory.memory_id)) == 10
    assert await consistent(words.database, "w")


async def test_what_is_deleted_while_its_new_words_are_embedded_stays_out_of_recall(
    words: Engine, loopback: Loopback
) -> None:
    (memory,) = await words.memories.add("w", "Her dog is called Rex.")
    loopback.slow(0.4)
    change = asyncio.create_task(words.memories.update("w", memory.memory_id, content="Her dog is called Max."))
    while len(loopback.requests) < 2:
        await asyncio.sleep(0.01)
    await words.memories.delete("w", memory.memory_id)
    with pytest.raises(NotFoundError, match="was deleted"):
        await change
    assert (await words.memories.get("w", memory.memory_id)).status == Status.DELETED
    assert not (await words.recall("w", "her dog Max")).hits
    assert await consistent(words.database, "w")


async def test_a_deleted_memory_is_out_of_use_and_still_explained(words: Engine) -> None:
    (memory, other) = await words.memories.add("w", ["Her dog is called Rex.", "Her cat is called Mia."])
    assert await words.memories.delete("w", [memory.memory_id, memory.memory_id, "none"], reason="asked to") == 1
    assert await words.memories.delete("w", [memory.memory_id]) == 0
    assert [m.memory_id for m in await words.memories.list("w")] == [other.memory_id]
    assert [h.memory.memory_id for h in (await words.recall("w", "dog Rex")).hits] == [other.memory_id]
    gone = await words.memories.get("w", memory.memory_id)
    assert gone.status == Status.DELETED and gone.expired_at is not None
    assert (await words.memories.history("w", memory.memory_id))[-1].reason == "asked to"


async def test_what_is_superseded_holds_until_its_successor_on_both_axes(words: Engine) -> None:
    moved = datetime(2023, 5, 1, tzinfo=UTC)
    old = Memory(subject="Tom", content="Tom lives in Riga.", valid_from=datetime(2020, 1, 1, tzinfo=UTC))
    new = Memory(subject="Tom", content="Tom lives in Berlin.", valid_from=moved)
    await words.memories.add("w", old)
    known = present()
    await words.memories.apply(
        "w",
        Change(
            add=[new],
            close=[Close(old.memory_id, "superseded", superseded_by=new.memory_id, holds_until=moved)],
        ),
    )
    stored = await words.memories.get("w", old.memory_id)
    assert (stored.status, stored.superseded_by, stored.valid_until) == (Status.SUPERSEDED, new.memory_id, moved)
    assert [m.content for m in await words.memories.list("w")] == ["Tom lives in Berlin."]

    def contents(memories: list[Memory]) -> list[str]:
        return [m.content for m in memories]

    before, after = datetime(2021, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)
    assert contents(await words.memories.as_of("w", known)) == ["Tom lives in Riga."]
    assert contents(await words.memories.as_of("w", present(), held_at=after)) == ["Tom lives in Berlin."]
    assert contents(await words.memories.as_of("w", present(), held_at=before)) == ["Tom lives in Riga."]
    assert contents(await words.memories.as_of("w", present())) == ["Tom lives in Berlin."]
    held = Filters(status=None, held_at=before)
    assert contents(await words.memories.list("w", held)) == ["Tom lives in Riga."]
    without_zone = before.replace(tzinfo=None)  # is in UTC
    assert contents(await words.memories.list("w", status=None, held_at=without_zone)) == ["Tom lives in Riga."]
    assert (await words.recall("w", "Tom", status=None, held_at=without_zone)).hits[0].content == "Tom lives in Riga."


async def test_what_was_put_better_or_taken_back_is_not_among_what_held_then(words: Engine) -> None:
    since = datetime(2020, 1, 1, tzinfo=UTC)
    short = Memory(content="Tom lives in Riga.", valid_from=since)
    full = Memory(content="Tom lives in Riga with his brother.", valid_from=since)
    joke = Memory(content="Tom lives on the moon.", valid_from=since)
    await words.memories.add("w", [short, joke])
    close = [Close(short.memory_id, "superseded", superseded_by=full.memory_id), Close(joke.memory_id, "expired")]
    await words.memories.apply("w", Change(add=[full], close=close))
    held = await words.memories.as_of("w", present(), held_at=datetime(2021, 1, 1, tzinfo=UTC))
    assert [m.content for m in held] == [full.content]


async def test_what_never_held_stays_so_when_it_is_changed_or_moved(words: Engine, tmp_path: Path) -> None:
    starts, said = datetime(2025, 7, 1, tzinfo=UTC), datetime(2025, 3, 1, tzinfo=UTC)
    plan = Memory(memory_id="plan", content="Gil starts at Siemens.", observed_at=said, valid_from=starts)
    await words.memories.add("w", plan)
    cancelled = Change(close=[Close("plan", "expired", holds_until=datetime(2025, 6, 1, tzinfo=UTC))])
    await words.memories.apply("w", cancelled, actor="test", reason="cancelled")
    await words.memories.update("w", "plan", importance=0.9)
    await words.workspaces.dump("w", tmp_path / "w.jsonl")
    await words.workspaces.load("v", tmp_path / "w.jsonl")
    for workspace in ("w", "v"):
        stored = await words.memories.get(workspace, "plan")
        assert stored.valid_from == stored.valid_until is not None
        for moment in (said, starts, datetime(2020, 1, 1, tzinfo=UTC), datetime(2030, 1, 1, tzinfo=UTC)):
            found = await words.memories.list(workspace, Filters(status=None, held_at=moment))
            assert found == []


async def test_what_never_held_does_not_hold_because_it_is_superseded(words: Engine) -> None:
    day = datetime(2024, 5, 1, tzinfo=UTC)
    await words.memories.add("w", Memory(memory_id="plan", content="She moves.", valid_from=day, valid_until=day))
    close = [Close("plan", "superseded", holds_until=day + timedelta(days=31))]
    await words.memories.apply("w", Change(close=close))
    for moment in (datetime(2020, 1, 1, tzinfo=UTC), day, day + timedelta(days=1)):
        assert await words.memories.list("w", Filters(status=None, held_at=moment)) == []
        assert await words.memories.as_of("w", present(), held_at=moment) == []


async def test_a_change_happens_whole_or_not_at_all(words: Engine) -> None:
    (memory,) = await words.memories.add("w", "Tom lives in Riga.")
    await words.record("w", [Message(message_id="m1", content="I moved to Berlin")], wait=True)
    change = Change(add=[Memory(content="Tom lives in Berlin.")], close=[Close("none", "expired")])
    change.summarised = {"m1": "I moved to Berlin"}
    with pytest.raises(ConflictError, match="no active memory has the id: none"):
        await words.memories.apply("w", change)
    assert [m.memory_id for m in await words.memories.list("w")] == [memory.memory_id]
    change.close = [Close(memory.memory_id, "expired")]
    await words.memories.apply("w", change)
    with pytest.raises(ConflictError, match="summarised already, or edited: m1"):
        await words.memories.apply("w", Change(add=[Memory(content="again")], summarised={"m1": "I moved to Berlin"}))
    assert [m.content for m in await words.memories.list("w")] == ["Tom lives in Berlin."]


async def test_given_embeddings_must_fit(words: Engine) -> None:
    await words.memories.add("w", "first", embeddings=[[2.0] + [0.0] * 63])
    for wrong, reason in (
        ([[1.0, 2.0]], "64 dimensions"),
        ([[0.0] * 64], "all zeros"),
        ([], "1 embeddings are needed"),
        ([["north"] * 64], "an embedding is a row of numbers"),
        ([[1.0], [2.0, 3.0]], "an embedding is a row of numbers"),
    ):
        with pytest.raises(InputError, match=reason):
            await words.memories.add("w", "second", embeddings=wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="an embedding is a row of numbers"):
        await words.recall("w", "first", embedding=["north"] * 64)  # type: ignore[list-item]
    assert await words.database.fetch("w", "select vector_norm(embedding::vector) from embedding") == [(1.0,)]


async def test_sixteen_writers_store_everything_once(words: Engine) -> None:
    vector = np.eye(1, 64, dtype=np.float32)

    async def write(writer: int) -> None:
        for number in range(8):
            shared = Memory(memory_id=f"shared-{number}", content=f"Everybody says sentence {number}.")
            own = Memory(memory_id=f"{writer}-{number}", content=f"Writer {writer} says sentence {number} 茶.")
            await words.memories.add("w", own, embeddings=vector)
            try:
                await words.memories.add("w", shared, embeddings=vector)
            except ConflictError:
                continue
            if writer % 4 == 0:
                await words.memories.update("w", own.memory_id, content=f"Writer {writer} takes {number} back.")
            if writer % 4 == 1:
                await words.memories.delete("w", [own.memory_id], erase=True)
            await words.record("w", [Message(message_id=f"m{number}", content=f"said {writer}", session_id="s")])

    async with asyncio.TaskGroup() as group:
        for writer in range(16):
            group.create_task(write(writer))
    stored = {m.memory_id for m in await words.memories.list("w", limit=1000)}
    assert {f"shared-{n}" for n in range(8)} <= stored
    assert {f"{w}-{n}" for w in range(16) for n in range(8) if w % 4 != 1} <= stored
    assert (await words.database.fetch("w", "select count(*), max(position) from message")) == [(8, 8)]
    assert await consistent(words.database, "w")


async def test_a_forgotten_where_leaks_nothing(words: Engine) -> None:
    for workspace in ("alice", "bob"):
        await words.memories.add(workspace, Memory(content=f"The secret of {workspace}", kind="rule"))
        await words.record(workspace, [Message(content=f"I am {workspace}")], wait=True)
        await words.recall(workspace, "secret")
    await words.log_writer.flush()
    tables = await words.database.fetch(
        "alice",
        "select c.relname, c.relrowsecurity and c.relforcerowsecurity, exists (select from pg_attribute a"
        " where a.attrelid = c.oid and a.attname = 'workspace_id' and not a.attisdropped)"
        " from pg_class c where c.relnamespace = 'reme'::regnamespace and c.relkind in ('r', 'p')",
    )
    unguarded = {name for name, guarded, of_tenant in tables if of_tenant and not guarded}
    assert unguarded == set()
    for name, _, of_tenant in tables:
        if of_tenant:
            seen = await words.database.fetch("alice", f"select distinct workspace_id from reme.{name}")
            assert seen in ([], [("alice",)]), name
            assert await words.database.fetch("nobody", f"select 1 from reme.{name}") == []
    with_rows = [
        name
        for name, _, of_tenant in tables
        if of_tenant and await words.database.fetch("bob", f"select 1 from reme.{name}")
    ]
    assert {"memory", "message", "posting", "embedding", "retrieval", "retrieval_hit", "memory_history"} <= set(
        with_rows
    )


async def test_the_newest_are_listed_without_a_look_at_all(reme: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = np.ones((2_000, 384), np.float32)
    await reme.memories.add("w", [f"fact {n}" for n in range(2_000)], embeddings=vectors)
    wishes = [Memory(kind=Kind.INSTRUCTION, content=f"wish {n}") for n in range(2_000)]
    await reme.memories.add("others", wishes, embeddings=vectors)
    async with reme.database.owner_connection() as connection:
        await connection.execute("analyze reme.memory")
    asked: list[tuple[Any, ...]] = []
    fetch = reme.database.fetch

    async def note(*args: Any) -> Any:
        asked.append(args)
        return await fetch(*args)

    async def plan_of(filters: Filters) -> tuple[list[str], str]:
        asked.clear()
        listed = await reme.memories.list("w", filters, limit=3)
        workspace, statement, values = asked[0]
        return [memory.content for memory in listed], str(await fetch(workspace, f"explain {statement}", values))

    monkeypatch.setattr(reme.database, "fetch", note)
    for nothing in (Filters(), Filters.of(), Filters(kinds=[])):  # the last one is HTTP's
        newest, plan = await plan_of(nothing)
        assert newest == ["fact 1999", "fact 1998", "fact 1997"]
        assert "memory_document" in plan
        assert "Sort" not in plan
    newest, plan = await plan_of(Filters(kinds=[str(Kind.INSTRUCTION)]))  # the planner takes them to be common
    assert newest == []
    assert "memory_document" not in plan
