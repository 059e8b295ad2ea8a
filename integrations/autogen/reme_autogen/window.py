"""Shows the model the part of a context that fits its window; the context keeps all messages."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from autogen_core.models import FunctionExecutionResultMessage, LLMMessage, UserMessage

from reme_autogen.convert import NOTE_SOURCE, from_model
from reme_core.turn import SESSION, TurnMemory, fit_window
from reme_core.types import Message


async def what_fits(turn: TurnMemory, messages: list[LLMMessage], session_id: str) -> list[LLMMessage]:
    """The messages of a context that fit the memory's window, with a summary of the others."""
    if turn.window is None:
        return messages
    SESSION.set(session_id)
    parts = [(place, part) for place, message in enumerate(messages) for part in _parts(message)]
    fitted = await fit_window(turn, [part for _, part in parts], session_id)
    if fitted is None:
        return messages
    shown: list[LLMMessage] = []
    pairs = zip(fitted.places, fitted.messages, strict=True)
    # No cut separates a call from its results, so the results of one message stay or leave together.
    for place, group in groupby(pairs, key=lambda pair: parts[pair[0]][0] if pair[0] >= 0 else -1):
        contents = [message.content for _, message in group]
        summary = UserMessage(content=contents[0], source=NOTE_SOURCE)
        shown.append(_with_contents(messages[place], contents) if place >= 0 else summary)
    return shown


def _parts(message: LLMMessage) -> list[Message]:
    return from_model(message) or [Message(role="system", content=str(message.content))]


def _with_contents(message: LLMMessage, contents: Sequence[str]) -> LLMMessage:
    """The message with new contents of its parts."""
    if [part.content for part in _parts(message)] == list(contents):
        return message
    if isinstance(message, FunctionExecutionResultMessage):
        results = zip(message.content, contents, strict=True)
        return message.model_copy(
            update={"content": [result.model_copy(update={"content": content}) for result, content in results]}
        )
    return message.model_copy(update={"content": contents[0]})
