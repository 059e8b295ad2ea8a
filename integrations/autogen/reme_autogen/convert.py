"""Converts AutoGen's messages and models for memory, and memories for AutoGen."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from autogen_agentchat.messages import (
    BaseAgentEvent,
    BaseChatMessage,
    MultiModalMessage,
    ToolCallExecutionEvent,
    ToolCallRequestEvent,
    ToolCallSummaryMessage,
)
from autogen_core import FunctionCall, Image
from autogen_core.memory import MemoryContent, MemoryMimeType
from autogen_core.models import (
    AssistantMessage,
    ChatCompletionClient,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    SystemMessage,
    UserMessage,
)

from reme_core.turn import (
    NOTE_METADATA,
    OWN_TOOLS,
    AgentChat,
    Completion,
    asking_agent,
    check_model,
    heard_call,
    heard_message,
    json_object,
)
from reme_core.types import Memory, Message, ToolCall

NOTE_SOURCE = "reme_memory_note"
"""How the source of a message with a note begins. It marks the note, since no agent has such a name."""
MIME_TYPE = "mime_type"
"""The key in a memory's metadata for the type of its content, if that is not plain text."""
_HANDOFF: Final = re.compile(r"Transferred to (.+), adopting the role of \1 immediately\.")  # AutoGen's words for it


def from_chat(message: BaseChatMessage, agent: str, session_id: str = "") -> Message:
    """A new message between agents and people; if `agent` is its source, its role is `assistant`."""
    words = _words_of(message)
    # A summary of what memory's tools have answered repeats memories: nobody said it.
    is_recalled = isinstance(message, ToolCallSummaryMessage) and any(
        call.name in OWN_TOOLS for call in message.tool_calls
    )
    return heard_message(
        "assistant" if message.source == agent else _role_of_heard(words),
        words,
        author=_author(message.source) or asking_agent(),
        own_id=message.id,
        session_id=session_id,
        sent_at=message.created_at,
        metadata=NOTE_METADATA if is_recalled else message.metadata,
    )


def _words_of(message: BaseChatMessage) -> str:
    # `to_text` would add a mark for each image.
    return text_of(message.content) if isinstance(message, MultiModalMessage) else message.to_text()


def _author(source: str) -> str:
    return "" if source == "user" else source


def _role_of_heard(words: str) -> str:
    """The role of what an agent hears: a user's, who asks something, except for the handoff to the agent.

    The agent is to answer what was asked before the handoff, and recalls for that.
    """
    return "assistant" if _HANDOFF.fullmatch(words) else "user"


def from_events(events: Sequence[BaseAgentEvent | BaseChatMessage]) -> list[Message]:
    """The tool calls of a turn, and their results."""
    found = []
    asked: ToolCallRequestEvent | None = None
    for event in events:
        if isinstance(event, ToolCallRequestEvent):
            asked, calls, at = event, _calls(event.content), event.created_at
            found.append(
                heard_message("assistant", "", author=event.source, own_id=event.id, sent_at=at, tool_calls=calls)
            )
        elif isinstance(event, ToolCallExecutionEvent):
            # Of several calls at once, only the end of the last one is known.
            alone = asked is not None and len(asked.content) == 1
            seconds = (event.created_at - asked.created_at).total_seconds() if asked and alone else None
            for number, result in enumerate(event.content):
                found.append(_result(result, seconds, own_id=f"{event.id}:{number}", sent_at=event.created_at))
    return found


def from_model(message: LLMMessage) -> list[Message]:
    """A message of a model context, without an id; nothing for a system message."""
    if isinstance(message, UserMessage):
        words = text_of(message.content)
        return [heard_message(_role_of_heard(words), words, author=_author(message.source))]
    if isinstance(message, AssistantMessage):
        if isinstance(message.content, str):
            return [heard_message("assistant", message.content, author=message.source)]
        return [heard_message("assistant", "", author=message.source, tool_calls=_calls(message.content))]
    if isinstance(message, FunctionExecutionResultMessage):
        return [_result(result) for result in message.content]
    return []


def read_message(message: BaseChatMessage | BaseAgentEvent | LLMMessage) -> list[Message]:
    """A single message as `Message`s; nothing for a system message, and for events other than tool calls.

    AutoGen calls whoever gives a task `user`; every other source is an agent.
    """
    if isinstance(message, BaseChatMessage):
        return [from_chat(message, agent="" if message.source == "user" else message.source)]
    return from_events([message]) if isinstance(message, BaseAgentEvent) else from_model(message)


def prefer_person(messages: Sequence[Message]) -> list[Message]:
    """The messages as a turn is to recall for them: what other agents say beside a person's words asks nothing.

    The agents of a team hear what the user asked together with what others have already said to it.
    """
    own = [n for n, said in enumerate(messages, 1) if said.role != "user" and not _HANDOFF.fullmatch(said.content)]
    heard = messages[own[-1] if own else 0 :]
    if all(said.author for said in heard):
        return list(messages)
    others = [said.model_copy(update={"role": "assistant"}) if said.author else said for said in heard]
    return [*messages[: len(messages) - len(heard)], *others]


def text_of(content: str | Sequence[str | Image]) -> str:
    """The text of a content that may have images."""
    return content if isinstance(content, str) else "\n".join(part for part in content if isinstance(part, str))


def to_content(memory: Memory, score: float | None = None) -> MemoryContent:
    """A memory in the form of AutoGen's events and queries; its metadata is plain JSON."""
    metadata = dict(memory.metadata)
    mime_type = metadata.pop(MIME_TYPE, MemoryMimeType.TEXT)
    text = memory.content or memory.when_to_use
    # A correction may have made something else of an object.
    value = json_object(text) if mime_type == MemoryMimeType.JSON.value else None
    known = {
        "memory_id": memory.memory_id,
        "kind": str(memory.kind),
        "author": memory.author,
        "observed_at": memory.observed_at.isoformat() if memory.observed_at else None,
        "score": score,
    }
    return MemoryContent(
        content=text if value is None else value,
        mime_type=mime_type,
        metadata=metadata | {name: value for name, value in known.items() if value is not None},
    )


def as_chat(client: ChatCompletionClient) -> AgentChat:
    """A model of the framework as the chat model of memory."""
    check_model(client, ChatCompletionClient)

    async def answer(messages: list[Message]) -> Completion:
        result = await client.create([_to_model(message) for message in messages])
        used = result.usage
        return Completion(str(result.content), "", [], used.prompt_tokens, used.completion_tokens)

    return AgentChat(type(client).__name__, answer)


def _to_model(message: Message) -> LLMMessage:
    if message.role == "system":
        return SystemMessage(content=message.content)
    if message.role == "assistant":
        return AssistantMessage(content=message.content, source="assistant")
    return UserMessage(content=message.content, source="user")


def _calls(calls: Sequence[FunctionCall]) -> list[ToolCall]:
    return [heard_call(call.id, call.name, call.arguments) for call in calls]


def _result(result: FunctionExecutionResult, seconds: float | None = None, **place: Any) -> Message:
    told = {"is_error": result.is_error, "seconds": seconds}
    return heard_message(
        "tool",
        result.content,
        author=result.name,
        tool_call_id=result.call_id,
        metadata={name: value for name, value in told.items() if value is not None},
        **place,
    )
