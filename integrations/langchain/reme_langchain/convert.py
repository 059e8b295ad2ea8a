"""Converts LangChain's messages and models for memory, and recalled memories to LangChain's documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.messages.tool import invalid_tool_call, tool_call
from langchain_core.runnables import Runnable

from reme_core.turn import (
    AgentChat,
    Completion,
    as_text,
    check_model,
    heard_call,
    heard_message,
    id_without,
    json_object,
    plain_json,
    text_of_value,
)
from reme_core.types import Hit, Message

_DATA: Final = ("image", "image_url", "audio", "input_audio", "video", "file")
"""The types of the parts of a content that have no words."""


def from_langchain(messages: Sequence[AnyMessage | BaseMessage], session_id: str = "") -> list[Message]:
    """The messages of a conversation, without those that middleware generated.

    The id of a message counts within its conversation.
    """
    return [to_message(message, session_id) for message in messages if not is_generated(message)]


def read_message(message: BaseMessage) -> list[Message]:
    """A single message as a `Message` in a list; the list is empty if middleware generated the message."""
    return from_langchain([message])


def to_message(message: AnyMessage | BaseMessage, session_id: str) -> Message:
    """A message as a `Message`: its text, its author, its role and its tool calls."""
    common = {"author": message.name, "own_id": message.id, "session_id": session_id}
    if isinstance(message, AIMessage):
        # A call whose arguments are no JSON stands apart.
        calls = [
            heard_call(call["id"], call["name"], call["args"])
            for call in (*message.tool_calls, *message.invalid_tool_calls)
        ]
        return heard_message("assistant", str(message.text) or _refusal_in(message), tool_calls=calls, **common)
    if isinstance(message, ToolMessage | FunctionMessage):
        call_id = message.tool_call_id if isinstance(message, ToolMessage) else ""
        return heard_message("tool", _result_in(message), tool_call_id=call_id, **common)
    role = "system" if isinstance(message, SystemMessage) else "user"
    if isinstance(message, ChatMessage) and message.role in ("assistant", "system", "tool"):
        role = message.role
    return heard_message(role, str(message.text), **common)


def _refusal_in(message: AIMessage) -> Any:
    """The words by which a model of OpenAI refuses: they stand in a field of their own, and there are no others."""
    parts = message.content if isinstance(message.content, list) else []
    refused = [part.get("refusal") for part in parts if isinstance(part, dict) and part.get("type") == "refusal"]
    return refused[0] if refused else message.additional_kwargs.get("refusal")


def _result_in(message: BaseMessage) -> str:
    """What a tool told: its text, and other blocks as JSON, without images and files."""
    parts = message.content if isinstance(message.content, list) else []
    others = [text_of_value(part) for part in parts if not is_text(part) and _has_words(message, part)]
    return "\n".join(filter(None, [str(message.text), *others]))


def with_words(message: AnyMessage, words: str) -> AnyMessage:
    """The message with these words in place of its own, and with its images and the like."""
    parts = message.content if isinstance(message.content, list) else []
    beside = [part for part in parts if not _has_words(message, part)]
    content: Any = [{"type": "text", "text": words}, *beside] if beside else words
    return message.model_copy(update={"content": content})


def _has_words(message: BaseMessage, part: str | dict[Any, Any]) -> bool:
    """Whether a part of a message's content is among the words that memory has of it."""
    if isinstance(part, str) or not isinstance(message, ToolMessage | FunctionMessage):
        return is_text(part)
    source = part.get("source")
    return part.get("type") not in _DATA and not (isinstance(source, dict) and source.get("type") == "base64")


def is_text(part: str | dict[Any, Any]) -> bool:
    """Whether a part of a message's content is text."""
    return isinstance(part, str) or part.get("type") == "text"


def to_langchain(message: Message) -> BaseMessage:
    """A recorded message as LangChain's: its text, its author, its role and its tool calls.

    It has its id within the conversation, so that an agent that is given it there does not record it once more.
    """
    common: dict[str, Any] = {"content": message.content, "name": message.author or None, "id": id_without(message)}
    if message.role == "assistant":
        calls, invalid = [], []
        for call in message.tool_calls:
            arguments = json_object(call.arguments or "{}")
            if arguments is None:
                invalid.append(invalid_tool_call(name=call.name, args=call.arguments, id=call.id))
            else:
                calls.append(tool_call(name=call.name, args=arguments, id=call.id))
        return AIMessage(**common, tool_calls=calls, invalid_tool_calls=invalid)
    if message.role == "tool":
        return ToolMessage(**common, tool_call_id=message.tool_call_id)
    return SystemMessage(**common) if message.role == "system" else HumanMessage(**common)


def is_generated(message: AnyMessage | BaseMessage) -> bool:
    """Whether middleware generated a message, such as LangChain's summary in place of old messages."""
    return isinstance(message, HumanMessage) and bool(message.additional_kwargs.get("lc_source"))


def as_document(hit: Hit) -> Document:
    """A recalled memory or message as a document; its metadata is plain JSON."""
    memory = hit.memory
    about = {
        "memory_id": memory.memory_id,
        "kind": str(memory.kind),
        "subject": memory.subject,
        "author": memory.author,
        "observed_at": memory.observed_at.isoformat() if memory.observed_at else "",
        "score": hit.parts.final,
    }
    metadata = plain_json(memory.metadata) | {name: value for name, value in about.items() if value != ""}
    return Document(id=memory.memory_id, page_content=as_text(memory, "en"), metadata=metadata)


def as_chat(model: BaseChatModel) -> AgentChat:
    """A model of the framework as the chat model of memory."""
    check_model(model, BaseChatModel, Runnable)  # a model with fallbacks is a Runnable, or one that each run chooses

    async def answer(messages: list[Message]) -> Completion:
        reply = await model.ainvoke([(message.role, message.content) for message in messages])
        used = getattr(reply, "usage_metadata", None) or {}
        return Completion(str(reply.text), "", [], used.get("input_tokens", 0), used.get("output_tokens", 0))

    return AgentChat(str(getattr(model, "model_name", None) or type(model).__name__), answer)
