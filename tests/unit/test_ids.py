"""Ids of messages whose framework gives them none."""

from __future__ import annotations

from reme_core.ids import ConversationIds
from reme_core.types import Message, ToolCall

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
