"""Ids of messages whose framework gives them none, or lets applications choose them."""

from __future__ import annotations

import uuid

import pytest

from reme_core.text.ids import ConversationIds, id_within
from reme_core.types import Message, ToolCall

UNIQUE = uuid.UUID("3088d51d-f5fe-4aa8-815a-2e0243531d8e")
QUESTION = Message(content="Is it late?")
CALL = Message(role="assistant", author="writer", tool_calls=[ToolCall(id="1", name="clock", arguments="{}")])
ANSWER = Message(role="assistant", author="writer", content="Yes.")
HEARD = Message(role="user", author="writer", content="Yes.")


def ids(*messages: Message, conversation: str = "c") -> list[str]:
    names = ConversationIds(conversation)
    return [names.name(message).message_id for message in messages]


def test_a_conversation_is_known_again_by_others_and_with_more_messages() -> None:
    assert ids(QUESTION, CALL, ANSWER)[2] == ids(QUESTION, HEARD, QUESTION)[1]
    assert ids(QUESTION, ANSWER) == ids(QUESTION, ANSWER, QUESTION)[:2]
    assert ids(QUESTION) != ids(QUESTION, conversation="d")


def test_what_is_said_twice_has_two_ids() -> None:
    assert len(set(ids(QUESTION, ANSWER, ANSWER, QUESTION, ANSWER))) == 5


@pytest.mark.parametrize("chosen", ["1", "monday/7", UNIQUE.hex, str(UNIQUE), f"{UNIQUE.hex}:call-1"])
def test_an_id_counts_within_its_conversation(chosen: str) -> None:
    assert id_within(chosen, "c") == f"c/{chosen}"
    assert id_within(chosen, "") == chosen


def test_no_two_conversations_have_an_id_in_common() -> None:
    parts = ["a", "b", "a/b", "a%2Fb", "a%252Fb", "/", "%"]
    ids = {id_within(message_id, conversation) for conversation in parts for message_id in parts}
    assert len(ids) == len(parts) ** 2
