"""`TurnMemory` records: each message once, under its own id, and nothing lost on the way."""

from __future__ import annotations

import asyncio
import copy
import gc

import pytest

from reme_core import AsyncReMe
from reme_core.errors import ConfigurationError
from reme_core.models import ModelCall
from reme_core.settings import Settings
from reme_core.turn import NOTE_METADATA, TurnMemory
from reme_core.turn.accounts import Usage
from reme_core.types import Message, ToolCall
from tests.integrations.inside import ASKED, TOLD, stored, stored_rows


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


async def test_a_service_of_many_tenants_counts_for_those_alone_that_it_serves(turn: TurnMemory) -> None:
    served = turn.for_workspace("bob")
    for number in range(100):
        turn.for_workspace(f"tenant {number}")
    gc.collect()
    assert sorted(turn._usage._spent) == ["alice", "bob"]
    turn._usage.count_call("bob", ModelCall("p", "m", "summary", prompt_tokens=7))
    assert turn.for_workspace("bob").take_usage() == Usage(prompt_tokens=7, calls=1)
    assert (served.take_usage(), turn.take_usage()) == (Usage(), Usage())
