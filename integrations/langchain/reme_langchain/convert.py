"""Converts LangChain's messages and models for memory, and recalled memories to LangChain's documents."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

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

from reme_core.turn import AgentChat, Completion, as_text, check_model, id_within, id_without, plain_json
from reme_core.types import Hit, Message, ToolCall


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
    common = {
        "content": str(message.text),
        "author": message.name or "",
        "session_id": session_id,
        "metadata": {},
        **({"message_id": id_within(message.id, session_id)} if message.id else {}),
    }
    if isinstance(message, AIMessage):
        calls = [
            ToolCall(id=call["id"] or "", name=call["name"], arguments=plain_json(call["args"]))
            for call in message.tool_calls
        ]
        return Message.model_validate({**common, "role": "assistant", "tool_calls": calls})
    if isinstance(message, ToolMessage | FunctionMessage):
        call_id = message.tool_call_id if isinstance(message, ToolMessage) else ""
        return Message.model_validate({**common, "role": "tool", "tool_call_id": call_id})
    role = "system" if isinstance(message, SystemMessage) else "user"
    if isinstance(message, ChatMessage) and message.role in ("assistant", "system", "tool"):
        role = message.role
    return Message.model_validate({**common, "role": role})


def to_langchain(message: Message) -> BaseMessage:
    """A recorded message as LangChain's: its text, its author, its role and its tool calls.

    It has its id within the conversation, so that an agent that is given it there does not record it once more.
    """
    within = id_without(message.message_id, message.session_id)
    common: dict[str, Any] = {"content": message.content, "name": message.author or None, "id": within}
    if message.role == "assistant":
        calls, invalid = [], []
        for call in message.tool_calls:
            arguments = _object_in(call.arguments)
            if arguments is None:
                invalid.append(invalid_tool_call(name=call.name, args=call.arguments, id=call.id))
            else:
                calls.append(tool_call(name=call.name, args=arguments, id=call.id))
        return AIMessage(**common, tool_calls=calls, invalid_tool_calls=invalid)
    if message.role == "tool":
        return ToolMessage(**common, tool_call_id=message.tool_call_id)
    return SystemMessage(**common) if message.role == "system" else HumanMessage(**common)


def _object_in(text: str) -> dict[str, Any] | None:
    """The JSON object in a text, which may be empty for an empty one; None if there is none."""
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


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
