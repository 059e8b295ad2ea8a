"""Shows the model the part of a conversation that fits its window; the agent's state keeps all messages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from langchain.agents.middleware import ModelRequest
from langchain_core.messages import AnyMessage, HumanMessage

from reme_core.turn import NOTE_METADATA, SESSION, CountTokens, TurnMemory, fit_window
from reme_core.types import Message
from reme_langchain.convert import has_words, to_message


@contextmanager
def in_session(session_id: str) -> Iterator[None]:
    """Set `SESSION` within this block."""
    token = SESSION.set(session_id)
    try:
        yield
    finally:
        SESSION.reset(token)


async def show_what_fits(
    request: ModelRequest[Any], memory: TurnMemory, session_id: str, count_tokens: CountTokens | None
) -> ModelRequest[Any]:
    """The request with the part of its conversation that fits the memory's window."""
    if memory.window is None:
        return request
    given = request.messages
    ours = [to_message(message, session_id) for message in given]
    fitted = await fit_window(memory, ours, session_id, count_tokens=count_tokens)
    if fitted is None:
        return request
    return request.override(
        messages=[
            given[place]
            if place >= 0 and message.content == ours[place].content
            else _message_to_show(given, place, message)
            for place, message in zip(fitted.places, fitted.messages, strict=True)
        ]
    )


def _message_to_show(given: list[AnyMessage], place: int, message: Message) -> AnyMessage:
    if place < 0:
        return HumanMessage(message.content, additional_kwargs=dict(NOTE_METADATA))
    original = given[place]
    beside = (
        []
        if isinstance(original.content, str)
        else [part for part in original.content if not has_words(original, part)]
    )
    content: Any = [{"type": "text", "text": message.content}, *beside] if beside else message.content
    return original.model_copy(update={"content": content})
