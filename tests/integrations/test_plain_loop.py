"""`Turn`: a plain loop around a chat model, with the official client, synchronous and not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from openai import APIStatusError, AsyncOpenAI, OpenAI

from reme_core import AsyncReMe, ReMe, Turn
from reme_core.errors import InputError, ReMeError
from reme_core.settings import Settings
from reme_core.testing import Gate
from tests.loopback import Loopback, tool_call

TOLD = {"role": "user", "content": "My dog Rex lives in Lisbon."}
ASKED = {"role": "user", "content": "Where does my dog Rex live?"}


def say(reme: ReMe, client: OpenAI, messages: list[Any], **options: Any) -> Turn:
    with Turn(reme, "alice", messages, **options) as turn:
        reply = client.chat.completions.create(model="m", messages=turn.prompt)
        messages.append(reply.choices[0].message)  # the object itself, as the client's own examples do
    return turn


def test_each_turn_is_recorded_once_and_the_note_never(settings: Settings, loopback: Loopback) -> None:
    loopback.chat("Noted.", "In Lisbon.", "Good.")
    client = OpenAI(base_url=loopback.url, api_key="key")
    system = {"role": "system", "content": "Be brief."}
    with ReMe(settings) as reme:
        say(reme, client, [TOLD])
        messages: list[Any] = [system, ASKED]
        turn = say(reme, client, messages, session_id="second")
        asked = {"role": "user", "content": f"{turn.note.text}\n\n{ASKED['content']}"}
        assert turn.prompt == [system, asked]
        assert "My dog Rex lives in Lisbon." in turn.note.text
        messages.append({"role": "user", "content": "Fine."})
        say(reme, client, messages, session_id="second")
        with Turn(reme, "alice", messages, session_id="second"):  # once more, as after a restart
            pass
        assert [m.content for m in reme.messages("alice", "")] == [TOLD["content"], "Noted."]
        assert [m.content for m in reme.messages("alice", "second")] == [
            ASKED["content"],
            "In Lisbon.",
            "Fine.",
            "Good.",
        ]


def test_two_people_may_say_the_same_in_conversations_of_one_name(settings: Settings) -> None:
    with ReMe(settings) as reme:
        for person in ("ann", "bob"):
            with Turn(reme, "shop", [TOLD], session_id="monday", user_id=person):
                pass
        assert [message.user_id for message in reme.messages("shop", "monday")] == ["ann", "bob"]


def test_a_question_without_words_gets_the_standing_memories(settings: Settings) -> None:
    with ReMe(settings) as reme:
        reme.memories.add("alice", "Answer in rhyme.", kind="instruction")
        with Turn(reme, "alice", [{"role": "user", "content": None}], write="off") as turn:
            assert "in rhyme" in turn.prompt[0]["content"]


def test_the_note_stands_where_it_is_wished_and_changes_nothing_of_the_conversation(settings: Settings) -> None:
    system, parts = {"role": "system", "content": "Be brief."}, [{"type": "text", "text": ASKED["content"]}]
    asked = {"role": "user", "content": parts}
    with ReMe(settings) as reme:
        reme.memories.add("alice", "Rex the dog lives in Lisbon.")
        with Turn(reme, "alice", [system, asked], write="off") as turn:
            assert turn.note.text
            shown = {"role": "user", "content": [{"type": "text", "text": turn.note.text}, *parts]}
            assert turn.prompt == [system, shown]
        with Turn(reme, "alice", [system, asked], position="system", write="off") as turn:
            assert turn.prompt == [system, {"role": "system", "content": turn.note.text}, asked]
        with Turn(reme, "alice", [system, asked], kinds=[], write="off") as turn:
            assert turn.prompt == [system, asked]
        assert asked == {"role": "user", "content": parts}


async def test_an_asynchronous_loop_records_its_calls_of_tools_too(settings: Settings, loopback: Loopback) -> None:
    loopback.chat({"tool_calls": [tool_call("weather", city="Lisbon")]}, "It is warm.")
    messages: list[Any] = [{"role": "user", "content": "How is the weather?"}]
    async with AsyncReMe(settings) as reme, AsyncOpenAI(base_url=loopback.url, api_key="key") as client:
        async with Turn(reme, "bob", messages, session_id="s") as turn:
            first = await client.chat.completions.create(model="m", messages=turn.prompt)
            result = {"role": "tool", "tool_call_id": "call-1", "content": "25 degrees"}
            messages += [first.choices[0].message, result]
            last = await client.chat.completions.create(model="m", messages=[*turn.prompt, *messages[1:]])
            messages.append(last.choices[0].message)
        stored = await reme.messages("bob", "s")
    assert [(m.role, m.content) for m in stored[2:]] == [("tool", "25 degrees"), ("assistant", "It is warm.")]
    assert stored[1].tool_calls[0].name == "weather"


def test_what_was_said_is_recorded_although_the_model_failed(settings: Settings, loopback: Loopback) -> None:
    loopback.fail(500)
    client = OpenAI(base_url=loopback.url, api_key="key", max_retries=0)
    with ReMe(settings) as reme:
        with pytest.raises(APIStatusError):
            say(reme, client, [TOLD])
        assert [m.content for m in reme.messages("alice", "")] == [TOLD["content"]]


def test_a_turn_goes_on_without_its_memory_and_is_delivered_later(
    database_url: str, loopback: Loopback, tmp_path: Path
) -> None:
    client = OpenAI(base_url=loopback.url, api_key="key")
    with Gate(database_url) as gate:
        gate.close()  # before the first connection: an open one may still carry a last answer
        reme = ReMe(database_url=gate.url, data_dir=tmp_path)
        messages = [TOLD]
        turn = say(reme, client, messages, patience=1.0)
        assert turn.note.error is not None and turn.prompt == [TOLD]
        gate.open()
        assert "Lisbon" in say(reme, client, [ASKED]).note.text
        reme.close()


def test_a_turn_that_could_not_begin_keeps_what_was_said(database_url: str, tmp_path: Path) -> None:
    with Gate(database_url) as gate:
        gate.close()
        reme = ReMe(database_url=gate.url, data_dir=tmp_path)
        with pytest.raises(ReMeError), Turn(reme, "alice", [TOLD], on_error="raise", patience=1.0):
            pytest.fail("the turn begins though memory is away")
        gate.open()
        with Turn(reme, "alice", [ASKED]) as turn:
            assert "Lisbon" in turn.note.text
        reme.close()


@pytest.mark.parametrize("session_id", ["", "monday"])
def test_what_was_said_is_recorded_although_no_message_was_appended(settings: Settings, session_id: str) -> None:
    messages: list[Any] = [TOLD]
    with ReMe(settings) as reme:
        with pytest.raises(InputError, match="message 2 is"), Turn(reme, "alice", messages, session_id=session_id):
            messages.append("Noted.")
        assert [message.content for message in reme.messages("alice", session_id)] == [TOLD["content"]]


def test_an_answer_that_nobody_could_append_is_no_turn(settings: Settings) -> None:
    with ReMe(settings) as reme, pytest.raises(InputError, match="to which the answer is appended"):
        Turn(reme, "alice", "Where do I live?")  # type: ignore[arg-type]


def test_a_window_is_refused_where_nothing_would_be_fitted(settings: Settings) -> None:
    with ReMe(settings) as reme, pytest.raises(InputError, match="shows the model all messages"):
        Turn(reme, "alice", [ASKED], window=1_000)


@pytest.mark.parametrize(
    ("workspace", "session_id", "told"),
    [
        (None, "s", "workspace is a text"),
        ("alice", 5, "5 cannot name"),
        ("alice", "a\0", "session_id"),
        ("alice", " ", "name"),
    ],
)
def test_whose_turn_it_is_and_of_which_conversation_is_checked_first(
    settings: Settings, workspace: Any, session_id: Any, told: str
) -> None:
    # Without a name all users would share the workspace, and what cannot be stored would be lost at the end.
    with ReMe(settings) as reme, pytest.raises(InputError, match=told):
        Turn(reme, workspace, [], session_id=session_id)
