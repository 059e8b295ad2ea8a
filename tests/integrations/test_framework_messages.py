"""`record` takes the messages of every framework that has an adapter."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from agentscope.message import AssistantMsg, UserMsg
from autogen_agentchat.messages import TextMessage, ThoughtEvent
from autogen_core import FunctionCall
from autogen_core.models import AssistantMessage, FunctionExecutionResult, FunctionExecutionResultMessage, UserMessage
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.tool import invalid_tool_call
from llama_index.core.llms import ChatMessage

from reme_core import AsyncReMe
from reme_core.errors import InputError


class Asked(HumanMessage):
    """A message of an application's own."""


SAID: dict[str, list[Any]] = {
    "langchain": [
        SystemMessage("Be brief."),
        Asked([{"type": "text", "text": "How warm is it?"}]),
        AIMessage("", tool_calls=[{"name": "weather", "args": {"city": "Évora"}, "id": "c1"}]),
        ToolMessage("18 degrees", tool_call_id="c1"),
        AIMessage("It is warm."),
    ],
    "autogen, models": [
        UserMessage(content="How warm is it?", source="user"),
        AssistantMessage(content=[FunctionCall("c1", '{"city": "Évora"}', "weather")], source="guide"),
        FunctionExecutionResultMessage(
            content=[FunctionExecutionResult(content="18 degrees", name="weather", call_id="c1")]
        ),
        AssistantMessage(content="It is warm.", source="guide"),
    ],
    "autogen, agents": [
        TextMessage(content="How warm is it?", source="user"),
        ThoughtEvent(content="Let me see.", source="guide"),
        TextMessage(content="It is warm.", source="guide"),
    ],
    "llamaindex": [ChatMessage("How warm is it?", role="user"), ChatMessage("It is warm.", role="assistant")],
    "agentscope": [UserMsg("user", "How warm is it?"), AssistantMsg("guide", "It is warm.")],
    "mixed": [{"role": "user", "content": "How warm is it?"}, AIMessage("It is warm.")],
}


@pytest.mark.parametrize("framework", SAID)
async def test_messages_of_frameworks_are_recorded_as_they_were_said(reme: AsyncReMe, framework: str) -> None:
    await reme.record(framework, SAID[framework], session_id="monday")
    stored = await reme.messages(framework, "monday")
    told = [(m.role, m.content) for m in stored if m.content]
    assert [one for one in told if one[0] in ("user", "assistant")] == [
        ("user", "How warm is it?"),
        ("assistant", "It is warm."),
    ]
    calls = [(call.name, call.arguments) for m in stored for call in m.tool_calls]
    results = [(m.tool_call_id, m.content) for m in stored if m.role == "tool"]
    with_tools = framework in ("langchain", "autogen, models")
    assert calls == ([("weather", '{"city": "Évora"}')] if with_tools else [])
    assert results == ([("c1", "18 degrees")] if with_tools else [])


ODD: dict[str, Any] = {
    "langchain, arguments that are no JSON": AIMessage("", invalid_tool_calls=[invalid_tool_call(args='{"a": 4711')]),
    "langchain, a refusal": AIMessage([{"type": "refusal", "refusal": "I cannot tell 4711."}]),
    "langchain, a refusal in a field": AIMessage("", additional_kwargs={"refusal": "I cannot tell 4711."}),
    "langchain, a result in parts": ToolMessage([{"type": "json", "json": {"a": 4711}}], tool_call_id="c1"),
    "autogen, arguments that are no text": AssistantMessage(
        content=[FunctionCall("c1", {"a": 4711}, "add")],  # type: ignore[arg-type]  # of a client of an application's own
        source="guide",
    ),
    "autogen, no id": TextMessage(content="It is 4711.", source="guide", id=""),
    "llamaindex, a name that is no text": ChatMessage("It is 4711.", additional_kwargs={"name": 7}),
    "llamaindex, calls that are none": ChatMessage(
        "It is 4711.", role="assistant", additional_kwargs={"tool_calls": 7}
    ),
    "agentscope, deep metadata": UserMsg("user", "It is 4711.", metadata={"in": json.loads("[" * 200 + "]" * 200)}),
    "agentscope, a time that is none": UserMsg("user", "It is 4711.", created_at="yesterday"),
}


@pytest.mark.parametrize("message", ODD.values(), ids=ODD)
async def test_no_words_are_lost_for_what_stands_beside_them(reme: AsyncReMe, message: Any) -> None:
    await reme.record("alice", [message], session_id="monday")
    [stored] = await reme.messages("alice", "monday")
    assert "4711" in stored.content + "".join(call.arguments for call in stored.tool_calls)


@pytest.mark.parametrize("zone", ["Asia/Shanghai", "America/Los_Angeles"])
async def test_a_message_was_sent_when_the_clock_of_its_machine_says_so(
    reme: AsyncReMe, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", zone)
        time.tzset()
        said = [UserMsg("user", "Good morning!"), TextMessage(content="Good night!", source="user")]
        stored = await reme.record("alice", said)
    time.tzset()
    assert [abs(m.sent_at - datetime.now(UTC)) < timedelta(minutes=5) for m in stored] == [True, True]


async def test_images_and_files_are_no_words_of_a_tool(reme: AsyncReMe) -> None:
    parts: list[Any] = [
        {"type": "image", "base64": "aGVsbG8="},
        {"type": "document", "source": {"type": "base64", "data": "aGVsbG8="}},
        {"type": "text", "text": "A cat."},
    ]
    await reme.record("alice", [ToolMessage(parts, tool_call_id="c1")], session_id="monday")
    assert [m.content for m in await reme.messages("alice", "monday")] == ["A cat."]


async def test_one_message_of_a_framework_is_taken_alone_and_other_objects_are_refused(reme: AsyncReMe) -> None:
    assert [m.content for m in await reme.record("alice", HumanMessage("Hello!"))] == ["Hello!"]
    with pytest.raises(InputError, match="a message is a Message"):
        await reme.record("alice", object())  # type: ignore[arg-type]
