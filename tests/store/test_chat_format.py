"""`record` takes messages as chat APIs speak them, and refuses what would be stored without what it says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openai.types.chat import ChatCompletionMessage

from reme_core import AsyncReMe, Message, ReMe
from reme_core.errors import InputError
from reme_core.settings import Settings
from reme_core.turn import TurnMemory

CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Porto"}'}}
SAID: list[Any] = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "My dog Rex lives in Porto."}, {"type": "image_url"}]},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "18 degrees"},
    ChatCompletionMessage(role="assistant", content="It is warm there."),
    Message(content="Thank you."),
]


@pytest.fixture
def reme(settings: Settings) -> Iterator[ReMe]:
    with ReMe(settings) as opened:
        yield opened


def test_what_chat_apis_speak_is_recorded_as_it_was_said(reme: ReMe) -> None:
    reme.record("alice", SAID, session_id="monday")
    stored = reme.messages("alice", "monday")
    assert [(m.role, m.content) for m in stored] == [
        ("system", "Be brief."),
        ("user", "My dog Rex lives in Porto."),
        ("assistant", ""),
        ("tool", "18 degrees"),
        ("assistant", "It is warm there."),
        ("user", "Thank you."),
    ]
    (call,) = stored[2].tool_calls
    assert (call.id, call.name, call.arguments) == ("c1", "weather", '{"city": "Porto"}')
    assert stored[3].tool_call_id == "c1"
    reme.record("alice", {"role": "user", "content": "One alone."}, session_id="tuesday")
    assert [m.content for m in reme.messages("alice", "tuesday")] == ["One alone."]


async def test_the_asynchronous_client_and_turns_take_the_same(settings: Settings, tmp_path: Path) -> None:
    async with AsyncReMe(settings) as reme:
        assert len(await reme.record("bob", SAID)) == len(SAID)
        async with TurnMemory(client=reme, workspace_id="carol", write="awaited", spool=tmp_path / "x.sqlite3") as turn:
            await turn.record(SAID, session_id="s")
            turn.record_soon([{"role": "user", "content": "Good night."}], session_id="s")
            assert "Rex" in (await turn.begin([{"role": "user", "content": "Where does my dog live?"}])).text
            told = [m.content for m in await turn.messages("s") if m.content]
    assert told == ["My dog Rex lives in Porto.", "18 degrees", "It is warm there.", "Thank you.", "Good night."]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("My dog is called Rex.", "not 'My dog is called Rex.'"),
        (["My dog is called Rex."], "message 1 is 'My dog is called Rex.'"),
        ([{"content": "Hello"}], "message 1 has no role"),
        ([SAID[0], {"role": "user", "text": "Hello"}], "message 2 has neither content nor tool_calls, but role, text"),
        ([{"role": "robot", "content": "Hello"}], "message 1: role: Input should be 'user'"),
        ([{"role": "user", "content": 7}], "message 1: content: Input should be a valid string"),
        (7, "not 7"),
    ],
)
async def test_what_is_no_message_is_refused_with_what_to_do(settings: Settings, given: Any, told: str) -> None:
    with ReMe(settings) as reme:
        with pytest.raises(InputError) as refused:
            reme.record("alice", given)
        async with TurnMemory(client=reme, workspace_id="alice") as turn:
            with pytest.raises(InputError):
                await turn.record(given)
    assert told in str(refused.value) and '{"role": "user", "content": "…"}' in str(refused.value)
