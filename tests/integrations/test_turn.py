"""`TurnMemory` recalls: once a turn, what fits, and nothing that the model sees anyhow."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from reme_core import AsyncReMe
from reme_core.errors import DatabaseUnavailableError, InputError
from reme_core.settings import Settings
from reme_core.turn import TurnMemory
from reme_core.turn.memory_tools import MemoryTools
from reme_core.types import Kind, Memory, Message
from tests.integrations.inside import ASKED, TOLD, stored


async def test_a_turn_recalls_once_however_often_it_is_asked(turn: TurnMemory) -> None:
    await turn.record([Message(content=TOLD)])
    notes = await asyncio.gather(*(turn.begin(ASKED, "t1") for _ in range(5)))
    assert await turn.begin(ASKED, "t1") is notes[0]
    assert all(note is notes[0] for note in notes)
    assert "Lisbon" in notes[0].text
    assert turn.counts.recalls == 1
    assert turn.counts.reused == 5
    assert await turn.begin(ASKED, "t2") is not notes[0]


async def test_messages_name_their_turn(turn: TurnMemory) -> None:
    question = Message(content=ASKED, message_id="m7")
    await turn.begin([question])
    await turn.begin([question, Message(role="assistant", content="Let me see.")])
    assert turn.counts.recalls == 1


async def test_equal_ids_of_messages_name_the_turn_in_their_conversation_alone(turn: TurnMemory) -> None:
    await turn.record([Message(content=TOLD), Message(content="The blue car is in the garage of Ann.")])
    notes = []
    for session, asked in (("monday", ASKED), ("tuesday", "Where is the blue car?")):
        notes.append((await turn.begin([Message(content=asked, message_id="1")], session_id=session)).text)
    assert turn.counts.recalls == 2
    assert notes[0] != notes[1]


async def test_turns_that_are_numbered_in_each_conversation_have_notes_of_their_own(turn: TurnMemory) -> None:
    await turn.record([Message(content=TOLD), Message(content="The blue car is in the garage of Ann.")])
    lisbon = await turn.begin(ASKED, "1", session_id="monday")
    garage = await turn.begin("Where is the blue car?", "1", session_id="tuesday")
    assert "Lisbon" in lisbon.text and "garage" in garage.text and garage is not lisbon
    assert await turn.begin(ASKED, "1", session_id="monday") is lisbon


async def test_a_search_ends_when_patience_does(turn: TurnMemory, database_url: str) -> None:
    await turn.record([Message(content=TOLD)])
    await turn.recall(ASKED)
    turn.patience = 0.5
    with psycopg.connect(database_url) as connection:
        connection.execute("lock table reme.message, reme.memory")
        with pytest.raises(DatabaseUnavailableError, match="did not answer within"):
            await turn.recall(ASKED)
        assert "cannot be reached" in await MemoryTools(turn).search_memory(ASKED)


async def test_cancelling_one_who_waits_leaves_the_others_their_note(turn: TurnMemory) -> None:
    await turn.record([Message(content=TOLD)])
    first, second = (asyncio.ensure_future(turn.begin(ASKED, "t1")) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert "Lisbon" in (await second).text
    assert first.cancelled()


async def test_a_recall_ends_when_all_who_wait_for_it_are_cancelled(turn: TurnMemory, database_url: str) -> None:
    await turn.record([Message(content=TOLD)])
    await turn.recall(ASKED)
    waiting = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    with psycopg.connect(database_url) as connection, psycopg.connect(database_url, autocommit=True) as watch:

        async def until_recalling(expected: bool) -> None:
            async with asyncio.timeout(5):  # the recall itself has ten seconds
                while (watch.execute(waiting).fetchone() != (0,)) is not expected:
                    await asyncio.sleep(0.02)

        connection.execute("lock table reme.message, reme.memory")
        both = [asyncio.ensure_future(turn.begin(ASKED, "t1")) for _ in range(2)]
        await until_recalling(True)
        for one in both:
            one.cancel()
        await until_recalling(False)
    assert "Lisbon" in (await turn.begin(ASKED, "t1")).text
    assert turn.counts.recalls == 2


async def test_a_turn_about_nothing_gets_standing_memories_alone_where_that_is_wished(reme: AsyncReMe) -> None:
    await reme.memories.add("alice", "Answer in rhymes.", kind="instruction")
    await reme.record("alice", [Message(content=TOLD)], wait=True)
    async with TurnMemory(client=reme, workspace_id="alice", min_relevance=0.15, write="off") as turn:
        nothing, asked = [await turn.begin(question) for question in ("thanks!", ASKED)]
        assert "rhymes" in nothing.text and "Lisbon" not in nothing.text
        assert "rhymes" in asked.text and "Lisbon" in asked.text
        assert any("Lisbon" in hit.content for hit in await turn.recall("thanks!"))  # asked for on purpose
    with pytest.raises(InputError, match="between 0 and 1"):
        TurnMemory(client=reme, workspace_id="alice", min_relevance=7)


async def test_the_last_time_we_talked_is_not_this_conversation(turn: TurnMemory) -> None:
    earlier = datetime(2024, 5, 6, tzinfo=UTC)
    for days, (session, told) in enumerate({"s1": "The zoo was closed.", "s2": "The cake was burnt."}.items()):
        await turn.record([Message(content=told, sent_at=earlier + timedelta(days=days))], session_id=session)
    await turn.record([Message(content="Good morning!")], session_id="now")
    note = await turn.begin("What did we discuss the last time we talked?", session_id="now")
    assert note.hits[0].content == "The cake was burnt."


async def test_yesterday_is_the_day_before_the_question_was_sent(turn: TurnMemory) -> None:
    monday = datetime(2024, 5, 6, 23, 50, tzinfo=UTC)
    for days, told in enumerate(("The zoo was closed.", "The cake was burnt.", "The boat sank.")):
        await turn.record([Message(content=told, sent_at=monday + timedelta(days=days))], session_id=told)
    for days, told in ((1, "The zoo was closed."), (2, "The cake was burnt.")):
        asked = Message(content="What did I say yesterday?", sent_at=monday + timedelta(days=days, minutes=9))
        assert (await turn.begin([asked])).hits[0].content == told


async def test_a_wish_for_a_day_stands_in_the_turns_of_that_day(turn: TurnMemory) -> None:
    day = datetime(2024, 5, 6, tzinfo=UTC)
    wish = Memory(content="Answer in French today.", kind=Kind.INSTRUCTION, valid_until=day + timedelta(days=1))
    await turn.reme.memories.add("alice", wish)
    for hours, stands in ((23, True), (25, False)):
        note = await turn.begin([Message(content="How far is the moon?", sent_at=day + timedelta(hours=hours))])
        assert bool(note.standing) is stands


async def test_what_the_model_sees_anyhow_is_not_recalled(turn: TurnMemory) -> None:
    told = Message(content=TOLD, message_id="m1")
    await turn.record([told, Message(content="My dog Rex is a dachshund.")])
    note = await turn.begin([told, Message(content=ASKED)], "t1")
    assert "Lisbon" not in note.text
    assert "dachshund" in note.text


async def test_what_was_said_twice_is_quoted_once(turn: TurnMemory) -> None:
    for _ in range(4):
        await turn.record([Message(content="Rex barks at Lisbon's trams.")])
    assert (await turn.begin(ASKED)).text.count("trams") == 1


async def test_memories_and_messages_of_the_kinds_in_use_are_recalled(reme: AsyncReMe) -> None:
    await reme.memories.add("alice", "Rex is a dachshund.")
    await reme.memories.add("alice", "Ask for Rex's vaccination.", kind="task")
    await reme.record("alice", [Message(content=TOLD)])
    found = {}
    for kinds in (["personal"], ["task"], ["conversation"], ["personal", "conversation"], []):
        found[tuple(kinds)] = (await TurnMemory(reme, "alice", kinds=kinds).begin("What about Rex?")).text
    assert "dachshund" in found["personal",]
    assert "Lisbon" not in found["personal",]
    assert "vaccination" in found["task",]
    assert "dachshund" not in found["task",]
    assert "Lisbon" in found["conversation",]
    assert all(word in found["personal", "conversation"] for word in ("dachshund", "Lisbon"))
    assert found[()] == ""


async def test_standing_memories_are_given_whatever_is_asked(reme: AsyncReMe) -> None:
    await reme.memories.add("alice", "Answer in rhyme.", kind="instruction")
    for kinds in (["task"], []):
        note = await TurnMemory(reme, "alice", kinds=kinds).begin("How far is the moon?")
        assert "Answer in rhyme." in note.text
        assert [memory.kind for memory in note.standing] == [Kind.INSTRUCTION]


@pytest.mark.parametrize(
    "others",
    [
        {"kind": Kind.PROFILE, "subject": "Bob"},
        {"kind": Kind.PROFILE, "subject": "Ann"},
        {"kind": Kind.INSTRUCTION, "subject": "Bob"},
        {"kind": Kind.INSTRUCTION, "subject": "Ann", "valid_from": datetime(2999, 1, 1, tzinfo=UTC)},
    ],
)
async def test_a_wish_stands_however_much_is_known_beside_it(reme: AsyncReMe, others: dict[str, Any]) -> None:
    await reme.memories.add("alice", Memory(content="Answer in French.", kind=Kind.INSTRUCTION, subject="Ann"))
    await reme.memories.add("alice", [Memory(content=f"It is number {n}.", **others) for n in range(101)])
    note = await TurnMemory(reme, "alice").begin([Message(content="Hello again", author="Ann")])
    assert "Answer in French." in [memory.content for memory in note.standing]
    assert {memory.subject for memory in note.standing} == {"Ann"}
    profile = await reme.get_profile("alice", subject="Ann")
    assert [memory.content for memory in profile.instructions] == ["Answer in French."]


async def test_the_profile_has_the_most_important_of_many_facts(reme: AsyncReMe) -> None:
    importances = [1 - n / 200 for n in range(101)]
    await reme.memories.add(
        "alice", [Memory(kind="profile", content=f"Fact {place}", importance=n) for place, n in enumerate(importances)]
    )
    known = [memory.importance for memory in (await reme.get_profile("alice")).facts]
    assert known == sorted(importances, reverse=True)[: len(known)] and len(known) < len(importances)


async def test_what_is_over_or_a_wish_for_later_does_not_stand(reme: AsyncReMe) -> None:
    now, day = datetime.now(UTC), timedelta(days=1)
    spans = {"over": (None, now - day), "later": (now + day, None), "now": (now - day, now + day)}
    for kind in (Kind.INSTRUCTION, Kind.PROFILE):
        memories = [
            Memory(kind=kind, content=f"{kind} {name}", valid_from=since, valid_until=until)
            for name, (since, until) in spans.items()
        ]
        await reme.memories.add("alice", memories)
    note = await TurnMemory(reme, "alice").begin("How far is the moon?")
    assert {memory.content for memory in note.standing} == {"instruction now", "profile now", "profile later"}
    assert f"profile later (since {now + day:%Y-%m-%d})" in note.text and "over" not in note.text


async def test_a_fact_that_is_over_is_told_where_its_time_is_asked_about(reme: AsyncReMe) -> None:
    since, until = datetime(2020, 1, 1, tzinfo=UTC), datetime(2022, 1, 1, tzinfo=UTC)
    for kind in (Kind.INSTRUCTION, Kind.PROFILE):
        await reme.memories.add("alice", Memory(kind=kind, content=f"{kind} past", valid_from=since, valid_until=until))
    turn = TurnMemory(reme, "alice")
    for query, told in (("Where did I live in 2021?", True), ("Where did I live in 2023?", False), ("Hello", False)):
        assert [m.content for m in (await turn.begin(query)).standing] == (["profile past"] if told else []), query


async def test_a_turn_about_a_person_has_what_they_and_agents_said_to_each_other(reme: AsyncReMe) -> None:
    for name, pay in (("Ann", "52k"), ("Bob", "90k")):
        told = Message(content=f"My salary is {pay}.", author=name, session_id=name)
        answer = Message(role="assistant", content=f"{pay} at Acme, noted.", session_id=name)
        await reme.record("alice", [told, answer], wait=True)
    ann = TurnMemory(reme, "alice").about("Ann")
    note = (await ann.begin("What is my salary at Acme?")).text
    assert "My salary is 52k." in note and "52k at Acme, noted." in note and "90k" not in note
    assert not [hit for hit in await ann.recall("salary") if "90k" in hit.content]


async def test_nothing_crosses_workspaces_that_share_their_connections(reme: AsyncReMe) -> None:
    async with TurnMemory(reme, "alice", write="awaited") as alice:
        bob = alice.for_workspace("bob")
        await alice.record([Message(content=TOLD)], "t1")
        assert await alice.begin(ASKED, "t2")
        assert not await bob.begin(ASKED, "t2")
        assert not await bob.recall(ASKED)
        await bob.record([Message(content="Rex is my cat.")], "t1")
    assert await stored(reme, "bob") == ["Rex is my cat."]
    assert await stored(reme) == [TOLD]


async def test_the_note_speaks_the_language_of_the_question(turn: TurnMemory) -> None:
    await turn.record([Message(content="我的狗住在里斯本。")])
    note = await turn.begin("我的狗住在哪里？")
    assert "里斯本" in note.text
    assert "以前说过" in note.text


async def test_small_talk_brings_no_memories_into_the_prompt(settings: Settings) -> None:
    async with TurnMemory(settings, "alice") as turn:
        await turn.reme.memories.add("alice", ["Alice lives in Lisbon.", "Alice plays the cello.", "她对花生过敏。"])
        for small in ("hi", "thanks!", "asdfghjkl", "谢谢", "ok cool"):
            assert not (await turn.begin(small)).hits, small
        assert "Lisbon" in (await turn.begin("Which city do I live in?")).text
    async with TurnMemory(settings, "alice", min_relevance=0) as turn:
        assert (await turn.begin("hi")).hits


async def test_what_the_model_sees_anyhow_does_not_make_the_rest_fit(turn: TurnMemory) -> None:
    facts = ("I live in Lisbon.", "I play the cello.", "I drive a Volvo.")
    await turn.record([Message(content=fact) for fact in facts])
    said = [Message(content="thanks!", message_id="m1"), Message(content="Sure.", message_id="m2", role="assistant")]
    await turn.record(said, session_id="now")
    for asked, fits in (("thanks!", False), ("Where do I live?", True)):
        note = await turn.begin([*said, Message(content=asked, message_id=asked)], session_id="now")
        assert bool(note.hits) is fits, asked


async def test_a_memory_of_words_that_the_model_sees_is_not_recalled(turn: TurnMemory) -> None:
    known = [Memory(content=told, kind=Kind.OBSERVATION) for told in (TOLD, "I play the cello.", "I drive a Volvo.")]
    await turn.reme.memories.add("alice", known)
    assert (await turn.begin(ASKED)).hits[0].content == TOLD
    note = await turn.begin([Message(content=f"Listen. {TOLD}"), Message(content=ASKED)], "t1")
    assert not note.hits


async def test_a_lesson_whose_words_the_model_sees_still_tells_when_they_hold(reme: AsyncReMe) -> None:
    lesson = Memory(kind=Kind.TASK, when_to_use="The deployment of the shop fails", content="Roll it back.")
    await reme.memories.add("alice", lesson)
    turn = TurnMemory(reme, "alice", kinds=["task"])
    asked = "The deployment of the shop fails. Shall I wait? Or: Roll it back."
    assert [hit.content for hit in (await turn.begin(asked)).hits] == ["Roll it back."]
