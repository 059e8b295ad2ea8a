"""Shows the model the part of a context that fits its window; the context keeps all messages."""

from __future__ import annotations

from autogen_core.models import FunctionExecutionResultMessage, LLMMessage, UserMessage

from reme_autogen.convert import NOTE_SOURCE, from_model
from reme_core.turn import SESSION, TurnMemory, fit_messages
from reme_core.types import Message


async def what_fits(turn: TurnMemory, messages: list[LLMMessage], session_id: str) -> list[LLMMessage]:
    """The messages of a context that fit the memory's window, with a summary of the others."""
    SESSION.set(session_id)
    return await fit_messages(
        turn,
        messages,
        session_id,
        parts_of=lambda message: from_model(message) or [Message(role="system", content=str(message.content))],
        with_parts=_with_parts,
        summary=lambda text: UserMessage(content=text, source=NOTE_SOURCE),
    )


def _with_parts(message: LLMMessage, parts: dict[int, Message]) -> LLMMessage:
    if isinstance(message, FunctionExecutionResultMessage):
        results = [message.content[number].model_copy(update={"content": one.content}) for number, one in parts.items()]
        return message.model_copy(update={"content": results})
    return message.model_copy(update={"content": parts[0].content})
