"""LlamaIndex's messages as ours."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from llama_index.core.base.llms.types import ToolCallBlock
from llama_index.core.llms import ChatMessage, MessageRole

from reme_core.turn import plain_json
from reme_core.types import Message, ToolCall, new_id

_ROLES: dict[MessageRole, str] = {
    MessageRole.SYSTEM: "system",
    MessageRole.DEVELOPER: "system",
    MessageRole.ASSISTANT: "assistant",
    MessageRole.CHATBOT: "assistant",
    MessageRole.MODEL: "assistant",
    MessageRole.TOOL: "tool",
    MessageRole.FUNCTION: "tool",
}


def from_llamaindex(messages: Sequence[ChatMessage], session_id: str = "") -> list[Message]:
    """Messages with new ids, since LlamaIndex's have none."""
    return [
        Message.model_validate(
            {
                "role": _ROLES.get(message.role, "user"),
                "content": message.content or "",
                "author": message.additional_kwargs.get("name") or "",
                "message_id": new_id(),
                "session_id": session_id,
                "tool_calls": _calls(message),
                "tool_call_id": str(message.additional_kwargs.get("tool_call_id") or ""),
            }
        )
        for message in messages
    ]


def _calls(message: ChatMessage) -> list[ToolCall]:
    """The calls of tools in a message: blocks of it, or in the form of OpenAI's API beside it."""
    blocks = [
        ToolCall(id=block.tool_call_id or "", name=block.tool_name, arguments=_text(block.tool_kwargs))
        for block in message.blocks
        if isinstance(block, ToolCallBlock)
    ]
    beside = message.additional_kwargs.get("tool_calls") or []
    return blocks or [
        ToolCall.model_validate(plain_json(call if isinstance(call, Mapping) else call.model_dump())) for call in beside
    ]


def _text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(plain_json(arguments), ensure_ascii=False)
