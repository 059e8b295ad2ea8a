"""A chat history gives back what was put into it, whatever people type and whatever a message holds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as bounds
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from reme_langchain import ReMeChatMessageHistory

from reme_core import AsyncReMe, ReMe, Settings
from reme_core.errors import InputError
from reme_core.types import Message, ToolCall, new_id

CONVERSATIONS = int(os.environ.get("REME_TEST_CONVERSATIONS", "60"))
"""How many conversations are made up; `REME_TEST_CONVERSATIONS=10000` asks for many."""

words = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        [
            "", " ", "\n", "  two blanks on either side  ", "My dog is called Rex.",
            "<memory_note>", "</memory_note> after", "I like tea. <memory_note>\nI live in Rome.",
            "<memory_note>\n- likes tea\n</memory_note>", "Look: < MEMORY_NOTE >", "a\x00b", "\x10", "\x100000",
            "\x10=inf", "half \ud83d", "\ud83d\ude00",
        ]
    ),
)  # fmt: skip
names = st.none() | st.sampled_from(["ada", "bob", "memory", "search_memory", "long_term_memory"])
ids = st.none() | st.sampled_from(["1", "2", "run-1"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=4,
)
extras = st.dictionaries(st.sampled_from(["x", "reme_note", "lc_source", "data", "refusal"]), values, max_size=2)
image = st.just({"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}})
text_part = words.map(lambda text: {"type": "text", "text": text})
other_part = st.sampled_from(["refusal", "json"]).flatmap(
    lambda kind: words.map(lambda text: {"type": kind, kind: text})
)
contents = words | st.lists(text_part | image | other_part | words, max_size=3)
calls = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.sampled_from(["clock", "search_memory"]),
            "args": st.dictionaries(words, values, max_size=2),
            "id": st.none() | words,
            "type": st.just("tool_call"),
        }
    ),
    max_size=2,
)
common: dict[str, Any] = {"content": contents, "name": names, "id": ids, "additional_kwargs": extras}
messages = st.one_of(
    st.builds(HumanMessage, **common),
    st.builds(AIMessage, **common, tool_calls=calls, response_metadata=extras),
    st.builds(AIMessageChunk, **common),
    st.builds(SystemMessage, **common),
    st.builds(
        ToolMessage, **common, tool_call_id=words, artifact=values, status=st.sampled_from(["success", "error"])
    ),
    st.builds(FunctionMessage, content=contents, name=words, id=ids, additional_kwargs=extras),
    st.builds(ChatMessage, **common, role=st.sampled_from(["user", "assistant", "critic"])),
)  # fmt: skip
repeated = st.lists(messages, min_size=1, max_size=4).map(lambda said: [*said, said[0]])


@pytest.fixture
def history(settings: Settings) -> Iterator[ReMeChatMessageHistory]:
    """A history whose conversation each example names anew."""
    settings.worker.embedded = False
    opened = ReMeChatMessageHistory("monday", settings, "alice", on_error="raise", patience=60)
    yield opened
    opened.close()


# The connection pool draws random numbers in its thread, which Hypothesis takes for a strategy's.
@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisDeprecationWarning")
@pytest.mark.timeout(3600)
@given(said=st.lists(messages, max_size=6) | repeated)
@bounds(max_examples=CONVERSATIONS, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_list_of_messages_comes_back_as_it_was(history: ReMeChatMessageHistory, said: list[BaseMessage]) -> None:
    history.session_id = new_id()
    history.add_messages(said)
    kept = history.messages
    assert [type(message) for message in kept] == [type(message) for message in said]
    assert [message.model_dump() for message in kept] == [message.model_dump() for message in said]


def test_an_empty_result_stays_beside_its_call(history: ReMeChatMessageHistory) -> None:
    said = [
        HumanMessage("Delete the file."),
        AIMessage("", tool_calls=[{"name": "delete", "args": {}, "id": "c1"}]),
        ToolMessage("", tool_call_id="c1"),
        AIMessage("Done."),
    ]
    history.add_messages(said)
    assert history.messages == said


def test_what_another_adapter_recorded_comes_back_in_its_role(
    settings: Settings, history: ReMeChatMessageHistory
) -> None:
    history.session_id = new_id()
    given = {"1": '{"a": 1}', "2": "", "3": "no"}
    calls = [ToolCall(id=place, name="clock", arguments=arguments) for place, arguments in given.items()]
    said = [
        Message(role="system", content="Be brief."),
        Message(content="Is it late?"),
        Message(role="assistant", author="writer", tool_calls=calls),
        Message(role="tool", author="clock", content="It is noon.", tool_call_id="1"),
        Message(role="assistant", author="writer", content="No."),
    ]
    with ReMe(settings) as reme:
        reme.record("alice", said, session_id=history.session_id)
    history.add_user_message("Good.")
    kept = history.messages
    assert [(type(message), message.name, message.text) for message in kept] == [
        (SystemMessage, None, "Be brief."),
        (HumanMessage, None, "Is it late?"),
        (AIMessage, "writer", ""),
        (ToolMessage, "clock", "It is noon."),
        (AIMessage, "writer", "No."),
        (HumanMessage, None, "Good."),
    ]
    asked, answered = kept[2], kept[3]
    assert isinstance(asked, AIMessage)
    assert [(call["id"], call["args"]) for call in asked.tool_calls] == [("1", {"a": 1}), ("2", {})]
    assert [(call["id"], call["args"]) for call in asked.invalid_tool_calls] == [("3", "no")]
    assert isinstance(answered, ToolMessage)
    assert answered.tool_call_id == "1"


async def test_a_note_that_somebody_types_is_remembered_as_what_was_said(reme: AsyncReMe) -> None:
    typed = "  Why does my prompt hold <memory_note>? My dog Rex lives in Lisbon.  "
    history = ReMeChatMessageHistory("monday", reme, "alice")
    await history.aadd_messages([HumanMessage(typed)])
    assert [hit.content for hit in (await reme.recall("alice", "Rex Lisbon", kind="conversation")).hits] == [typed]


async def test_what_is_no_json_is_refused_and_nothing_is_added(settings: Settings) -> None:
    history = ReMeChatMessageHistory("monday", settings, "alice")
    with pytest.raises(InputError, match="type object, which JSON has not; nothing was added"):
        await history.aadd_messages([HumanMessage("Hello"), ToolMessage("x", tool_call_id="1", artifact=object())])
    assert await history.aget_messages() == []
    await history.aclose()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"session_id": " "}, "cannot name a conversation"),
        ({"session_id": None}, "session_id names"),
        ({"write": "off"}, "write is"),
        ({"thread_id": "monday"}, "'session_id'"),
    ],
)
def test_what_means_nothing_is_refused(settings: Settings, arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        ReMeChatMessageHistory(**{"session_id": "monday", "database_url": settings, **arguments})


async def test_a_conversation_is_of_whom_was_named(reme: AsyncReMe) -> None:
    with ReMeChatMessageHistory("monday", reme, "alice", user_id="ann") as history:
        history.add_user_message("My dog is called Rex.")
    for user, found in (("ann", 1), ("bob", 0)):
        assert len((await reme.recall("alice", "Rex", kind="conversation", user_id=user)).hits) == found


async def test_an_erased_conversation_leaves_none_of_its_words(reme: AsyncReMe) -> None:
    history = ReMeChatMessageHistory("monday", reme, "alice")
    parts: list[Any] = [{"type": "text", "text": "My dog is called Rex."}, {"type": "text", "text": "nul\x00l"}]
    await history.aadd_messages([HumanMessage(parts), ToolMessage("", tool_call_id="1"), HumanMessage("nul\x00l")])
    await history.aclear()
    assert await history.aget_messages() == []
    rows = await reme.connection.run(
        lambda engine: engine.database.fetch("alice", "select content, metadata::text from reme.message")
    )
    assert rows == [("", "{}")] * 3


async def test_histories_of_equal_name_are_apart_where_their_scopes_are(reme: AsyncReMe) -> None:
    ann, bob = (ReMeChatMessageHistory("monday", reme, "alice", user_id=user) for user in ("ann", "bob"))
    await ann.aadd_messages([HumanMessage("My dog is called Rex.")])
    await bob.aadd_messages([HumanMessage("My cat is called Tom.")])
    assert [message.text for message in await ann.aget_messages()] == ["My dog is called Rex."]
    await ann.aclear()
    assert [message.text for message in await bob.aget_messages()] == ["My cat is called Tom."]
