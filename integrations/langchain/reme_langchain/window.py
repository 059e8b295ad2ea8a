"""Shows the model the part of a conversation that fits its window; the agent's state keeps all messages."""

from __future__ import annotations

from typing import Any

from langchain.agents.middleware import ModelRequest
from langchain_core.messages import AnyMessage, HumanMessage

from reme_core.turn import NOTE_METADATA, CountTokens, TurnMemory, fit_messages
from reme_langchain.convert import has_words, to_message


async def show_what_fits(
    request: ModelRequest[Any], memory: TurnMemory, session_id: str, count_tokens: CountTokens | None
) -> ModelRequest[Any]:
    """The request with the part of its conversation that fits the memory's window."""
    fitting = await fit_messages(
        memory,
        request.messages,
        session_id,
        parts_of=lambda message: [to_message(message, session_id)],
        with_parts=lambda message, parts: _with_words(message, parts[0].content),
        summary=lambda text: HumanMessage(text, additional_kwargs=dict(NOTE_METADATA)),
        count_tokens=count_tokens,
    )
    return request if fitting is request.messages else request.override(messages=fitting)


def _with_words(message: AnyMessage, words: str) -> AnyMessage:
    """The message with these words in place of its own, and with its images and the like."""
    parts = message.content if isinstance(message.content, list) else []
    beside = [part for part in parts if not has_words(message, part)]
    content: Any = [{"type": "text", "text": words}, *beside] if beside else words
    return message.model_copy(update={"content": content})
