"""`TurnMemory`: recalled once, written once, and nothing lost on the way."""

from __future__ import annotations

import asyncio
import copy
import gc
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from reme_core import AsyncReMe, ReMe
from reme_core.errors import ConfigurationError, DatabaseUnavailableError, InputError
from reme_core.settings import Settings
from reme_core.turn import NOTE_METADATA, TurnMemory
from reme_core.turn.memory_tools import MemoryTools
from reme_core.types import Kind, Memory, Message, ToolCall
from tests.integrations.inside import ASKED, TOLD, stored, stored_rows

# --- recalling --------------------------------------------------------------------------------------------------------


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


async def test_nothing_crosses_workspaces(reme: AsyncReMe) -> None:
    await TurnMemory(reme, "alice", write="awaited").record([Message(content=TOLD)])
    assert not await TurnMemory(reme, "bob").begin(ASKED)


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


# --- recording --------------------------------------------------------------------------------------------------------


async def test_only_what_is_new_and_was_said_is_written(turn: TurnMemory, reme: AsyncReMe) -> None:
    await turn.record([Message(content=TOLD)])
    note = await turn.begin(ASKED)
    history = [
        Message(role="system", content="You are helpful."),
        note.as_message(),
        Message(content="my own", metadata=dict(NOTE_METADATA)),
        Message(content=ASKED, message_id="q"),
        Message(role="assistant", content="", message_id="c", tool_calls=[ToolCall(name="look")]),
        Message(role="assistant", content="In Lisbon.", message_id="a"),
    ]
    assert await turn.record(history) == 3
    assert await turn.record(history) == 0
    assert await TurnMemory(reme, "alice", write="awaited").record(history) == 3  # another process; the database knows
    assert await stored(reme) == [TOLD, ASKED, "", "In Lisbon."]


async def test_words_that_look_like_a_note_are_kept_as_they_were_typed(turn: TurnMemory, reme: AsyncReMe) -> None:
    typed = [" <memory_note> is a tag.\n", "<memory_note>\n- Rex\n</memory_note> My dog?", "</memory_note>"]
    assert await turn.record([Message(content=text) for text in typed]) == 3
    assert await stored(reme) == typed
    note = await turn.begin([Message(content="<memory_note> Rex", message_id="q")])
    assert "My dog?" in note.text


async def test_what_memory_tools_answered_is_not_written_and_an_empty_answer_of_another_is(
    turn: TurnMemory, reme: AsyncReMe
) -> None:
    calls = [ToolCall(id="1", name="search_memory"), ToolCall(id="2", name="delete")]
    answers = [Message(role="tool", content="Rex", tool_call_id="1"), Message(role="tool", tool_call_id="2")]
    assert await turn.record([Message(content=ASKED), Message(role="assistant", tool_calls=calls), *answers]) == 3
    assert await stored(reme) == [ASKED, "", ""]


async def test_other_words_under_an_id_are_a_new_state_of_the_message(turn: TurnMemory, reme: AsyncReMe) -> None:
    def said(text: str, session_id: str = "s") -> list[Message]:
        return [Message(content=text, message_id="1", session_id=session_id)]

    assert await turn.record(said("Rex lives in Lisbon.")) == 1
    assert await turn.record(said("Rex lives in Porto.")) == 1
    assert await turn.record(said("Rex lives in Porto.")) == 0
    await TurnMemory(reme, "alice", write="awaited").record(said("Rex lives in Faro."))  # another process
    [now] = await reme.messages("alice", "s")
    assert now.content == "Rex lives in Faro."
    assert [former["content"] for former in now.metadata["former"]] == ["Rex lives in Lisbon.", "Rex lives in Porto."]
    found = await reme.recall("alice", "Where does Rex live?", kind="conversation")
    assert [hit.content for hit in found.hits] == ["Rex lives in Faro."]
    await reme.erase_messages("alice", ["1"])
    await TurnMemory(reme, "alice", write="awaited").record(said("Rex lives in Rome."))
    assert await stored(reme) == [""]


async def test_messages_without_ids_get_stable_ones_from_their_turn(reme: AsyncReMe) -> None:
    said = [Message(content="Yes."), Message(content="Yes.")]
    for turn_id in ("t1", "t1", "t2"):
        async with TurnMemory(reme, "alice", write="awaited") as turn:
            await turn.record(said, turn_id, session_id="s")
    assert await stored(reme) == ["Yes."] * 4


def test_a_mistake_in_redact_shows_when_a_memory_is_made() -> None:
    with pytest.raises(ConfigurationError, match="redact: there is no kind 'emial'"):
        TurnMemory(Settings(redact=["emial"]), "alice")


async def test_two_people_say_the_same_in_turns_of_one_name(reme: AsyncReMe) -> None:
    said = [{"role": "user", "content": "I live in Rome."}, {"role": "assistant", "content": "I see."}]
    for person in ("ann", "bob"):
        async with TurnMemory(client=reme, workspace_id="alice", user_id=person, write="awaited") as turn:
            for _ in range(2):
                await turn.record(said, "t1")
    rows = await stored_rows(reme, "user_id, content")
    assert rows == [(person, message["content"]) for person in ("ann", "bob") for message in said]


async def test_ids_count_within_the_conversation_of_their_person(reme: AsyncReMe) -> None:
    for person in ("ann", "bob") * 2:
        async with TurnMemory(reme, "alice", user_id=person, write="awaited") as turn:
            told = Message(message_id="1", content=f"I am {person}.")
            await turn.record([told], session_id="monday")
            assert (await turn.begin([told], session_id="monday")).hits == ()
            [kept] = await turn.messages("monday")
            assert kept.content == f"I am {person}." and "former" not in kept.metadata
    assert len(await stored(reme)) == 2


@pytest.mark.parametrize("earlier", ["1", "monday/1"])
async def test_what_was_stored_before_ids_counted_within_a_person_is_known_again(reme: AsyncReMe, earlier: str) -> None:
    told = Message(message_id=earlier, content="I live in Rome.", session_id="monday", user_id="ann")
    await reme.record("alice", told)
    async with TurnMemory(reme, "alice", user_id="ann", write="awaited") as turn:
        for content in ("I live in Rome.", "I live in Oslo."):
            await turn.record([Message(message_id="1", content=content)], session_id="monday")
        assert [message.message_id for message in await turn.messages("monday")] == [earlier]
    assert await stored(reme) == ["I live in Oslo."]
    await reme.erase_messages("alice", earlier)
    async with TurnMemory(reme, "alice", user_id="ann", write="awaited") as turn:
        await turn.record([told], session_id="monday")
    assert await stored(reme) == [""]


async def test_an_id_that_was_stored_in_another_conversation_is_no_earlier_one(reme: AsyncReMe) -> None:
    await reme.record("alice", Message(message_id="1", content="I live in Rome.", session_id="monday", user_id="ann"))
    async with TurnMemory(reme, "alice", user_id="ann", write="awaited") as turn:
        await turn.record([Message(message_id="1", content="I live in Oslo.")], session_id="tuesday")
        assert [message.content for message in await turn.messages("tuesday")] == ["I live in Oslo."]
    assert len(await stored(reme)) == 2


async def test_a_persons_words_are_no_edit_of_nobodys(reme: AsyncReMe) -> None:
    said = [("", "The office opens at nine."), ("ann", "I am pregnant."), ("ann", "I am not pregnant.")]
    for person, content in said:
        async with TurnMemory(reme, "alice", user_id=person, write="awaited") as turn:
            await turn.record([Message(message_id="1", content=content)], session_id="monday")
    assert await stored(reme) == ["The office opens at nine.", "I am not pregnant."]
    await reme.workspaces.clear("alice", user_id="ann")
    assert await stored(reme) == ["The office opens at nine.", ""]


async def test_what_is_read_back_keeps_its_id(reme: AsyncReMe) -> None:
    async with TurnMemory(reme, "alice", user_id="ann", write="awaited") as turn:
        await turn.record([Message(message_id="1", content="I live in Rome.")], session_id="monday")
        assert await turn.record(await turn.messages("monday"), session_id="monday") == 0


async def test_a_copy_counts_what_it_does_itself(turn: TurnMemory) -> None:
    await turn.record([Message(content=TOLD)])
    async with copy.deepcopy(turn) as copied:
        await asyncio.gather(*(copied.begin(ASKED, "t1") for _ in range(3)))
        assert (copied.counts.records, copied.counts.recalls, copied.counts.reused) == (0, 1, 2)
    assert (turn.counts.records, turn.counts.recalls, turn.counts.reused) == (1, 0, 0)


async def test_what_cannot_be_made_ready_to_store_ends_no_turn_and_may_be_handed_over_again(settings: Settings) -> None:
    told = Message(message_id="m1", content=TOLD)
    chosen = settings.model_copy(update={"redact": ["email"]})
    async with TurnMemory(chosen, "alice", write="awaited") as turn:
        chosen.redact.append("emial")
        assert await turn.record([told]) == 0
        assert turn.record_soon([told]) == 0
        assert turn.counts.refused == 2
        chosen.redact.pop()
        assert await turn.record([told]) == 1
        assert turn.counts.messages == 1


async def test_what_cannot_be_stored_is_cleaned_and_stored(turn: TurnMemory, reme: AsyncReMe) -> None:
    await turn.record([Message(content="a\x00b\ud800", metadata={"type": object, "n": float("inf")})])
    assert await stored(reme) == ["a\ufffdb\ufffd"]


async def test_conversations_whose_names_cannot_be_stored_stay_apart(turn: TurnMemory, reme: AsyncReMe) -> None:
    for session in ("monday", "mon\x00day", "mon\ud800day"):
        await turn.begin(ASKED, session_id=session)
        await turn.record([Message(content=session.encode("ascii", "replace").decode())], session_id=session)
    assert [m.content for m in await reme.messages("alice", "monday")] == ["monday"]
    assert len(await stored(reme)) == 3
    assert turn.counts.failures == 0


async def test_nothing_is_written_when_writing_is_off(reme: AsyncReMe) -> None:
    async with TurnMemory(reme, "alice", write="off") as turn:
        assert await turn.record([Message(content=TOLD)]) == 0
        assert turn.record_soon([Message(content=TOLD)]) == 0
    assert await stored(reme) == []


async def test_background_writes_are_there_for_the_next_turn(reme: AsyncReMe) -> None:
    async with TurnMemory(reme, "alice", write="background") as turn:
        await turn.record([Message(content=TOLD)])
        assert "Lisbon" in (await turn.begin(ASKED)).text
        turn.record_soon([Message(content="Rex is a dachshund.")])
        assert "dachshund" in (await turn.begin("What is Rex?")).text
        assert turn.counts.records == 2


async def test_hundred_turns_cost_a_recall_and_a_record_each(reme: AsyncReMe) -> None:
    async with TurnMemory(reme, "alice", write="awaited", token_budget=200) as turn:
        for number in range(100):
            note = await turn.begin(f"Remark number {number} about my dog Rex.", f"t{number}")
            assert note.tokens <= 200
            await turn.record([Message(content=f"Remark number {number} about my dog Rex.")], f"t{number}")
        assert (turn.counts.recalls, turn.counts.records, turn.counts.messages) == (100, 100, 100)


# --- loops, threads, ownership ----------------------------------------------------------------------------------------


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


async def test_it_works_for_code_that_blocks_a_running_loop(reme: AsyncReMe) -> None:
    await reme.record("alice", [Message(content=TOLD)])
    async with TurnMemory(reme, "alice") as turn:
        assert "Lisbon" in turn.call(turn.begin, ASKED).text


async def test_a_synchronous_memory_can_be_shared(settings: Settings) -> None:
    with ReMe(settings) as blocking:
        await asyncio.to_thread(blocking.record, "alice", [Message(content=TOLD)])
        async with TurnMemory(blocking, "alice") as turn:
            assert "Lisbon" in (await turn.begin(ASKED)).text
        assert await asyncio.to_thread(blocking.recall, "alice", ASKED, kind="conversation")


async def test_what_was_given_open_stays_open(reme: AsyncReMe) -> None:
    async with TurnMemory(reme, "alice") as turn:
        await turn.begin(ASKED)
        assert turn.reme is reme
    assert not reme.connection.is_closed


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


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"kinds": ["feelings"]}, "feelings"),
        ({"top_k": 0}, "1 or more"),
        ({"on_error": "cry"}, "on_error"),
        ({"write": "never"}, "write"),
        ({"workspace_id": ""}, "workspace"),
    ],
)
def test_what_does_not_fit_is_said_at_once(settings: Settings, values: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        TurnMemory(settings, **values)
