"""Ids of messages whose framework gives them none, or lets applications choose them."""

from __future__ import annotations

import uuid

from reme_core.ids import ConversationIds, id_within
from reme_core.types import Message, ToolCall, new_id

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


def test_an_id_that_an_application_chose_counts_within_its_conversation() -> None:
    for chosen in ("1", "msg-0001", "a" * 32 + "b", "monday/7"):
        assert id_within(chosen, "c") == f"c/{chosen}"
    for unique in (new_id(), str(uuid.uuid4()), f"{new_id()}:call-1", "mhvXdrZT4jP5T8vBxuvm75"):
        assert id_within(unique, "c") == unique
    assert id_within("1", "") == "1"
