"""Messages in the form in which chat APIs take and give them, read as `Message`s."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from pydantic import BaseModel

from reme_core.errors import InputError
from reme_core.types import Message

MessageLike: TypeAlias = Message | Mapping[str, Any] | BaseModel
"""A message: ours, the `{"role": …, "content": …}` of chat APIs, or an object of the `openai` package."""

_HOW = 'a message is a Message, or {"role": "user", "content": "…"} as chat APIs take it'


def read_messages(given: MessageLike | Sequence[MessageLike]) -> list[Message]:
    """Read one message or several, whether ours or those of a chat API, in order.

    Raises:
        InputError: One of them is no message, or would be stored without what it says.

    Example:
        >>> [message] = read_messages({"role": "developer", "content": [{"type": "text", "text": "Be brief."}]})
        >>> message.role, message.content
        ('system', 'Be brief.')
    """
    if isinstance(given, str) or not isinstance(given, Sequence | Mapping | BaseModel):
        raise InputError(f"{_HOW}; not {given!r:.80}")
    messages = given if isinstance(given, Sequence) else [given]
    return [m if isinstance(m, Message) else _read(m, number) for number, m in enumerate(messages, 1)]


def _read(given: object, number: int) -> Message:
    values = given.model_dump(exclude_none=True) if isinstance(given, BaseModel) else given
    if not isinstance(values, Mapping):
        raise InputError(f"message {number} is {values!r:.80}, and {_HOW}")
    if not values.get("role"):
        raise InputError(f"message {number} has no role; {_HOW}")
    said = dict(values)
    # OpenAI's models put a refusal into a field of its own, and leave the content empty.
    if said.get("content") is None and said.get("refusal"):
        said["content"] = said["refusal"]
    if said["role"] != "system" and "content" not in said and not said.get("tool_calls"):
        raise InputError(
            f"message {number} has neither content nor tool_calls, but {', '.join(map(str, said))}; {_HOW}"
        )
    try:
        return Message(**said)
    except InputError as error:
        raise InputError(f"message {number}: {error}; {_HOW}") from None
