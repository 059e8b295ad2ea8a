"""Messages and tool calls as frameworks hand them over: their values may be of any type.

A framework checks little of what models, tools and applications put beside the words of a message. No words may be lost
for what stands beside them: here what should be text becomes text, and a time or an id that is none is made anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

from pydantic import BaseModel, TypeAdapter

from reme_core.given import moment_of
from reme_core.store.rows import within_scope
from reme_core.text.ids import id_within, with_persons_id
from reme_core.text.plain import plain_json
from reme_core.types import Message, Scope, ToolCall

_TIME: Final = TypeAdapter(datetime)


def heard_message(
    role: str,
    content: Any,
    *,
    own_id: Any = None,
    session_id: str = "",
    sent_at: Any = None,
    metadata: Any = None,
    tool_calls: Sequence[ToolCall] = (),
    **texts: Any,
) -> Message:
    """A message of a framework.

    Args:
        role: One of ours.
        content: What was said.
        own_id: Its id within its conversation; None or empty if it has none.
        session_id: Its conversation.
        sent_at: When it was said; without a time zone, by the clock of this machine.
        metadata: A dict of anything.
        tool_calls: Its tool calls, as `heard_call` gives them.
        texts: Other texts of a `Message`, such as `author`.
    """
    values: dict[str, Any] = {name: text_of_value(value) for name, value in texts.items()}
    if sent_at is not None:
        with suppress(ValueError, OverflowError):  # if it names no time, it was said just now
            said_at = _TIME.validate_python(sent_at)
            # A time without a zone is by the clock of this machine, as `datetime.now()` gives it.
            values["sent_at"] = moment_of(said_at if said_at.tzinfo else said_at.astimezone())
    message = Message.model_validate(
        {
            "role": role,
            "content": text_of_value(content),
            "session_id": session_id,
            "metadata": plain_json(metadata) if isinstance(metadata, Mapping) else {},
            "tool_calls": tool_calls,
            **values,
        }
    )
    if named := text_of_value(own_id):
        # Behind the validation, which refuses halves of surrogate pairs in an id; they are escaped when it is recorded.
        return message.model_copy(update={"message_id": id_within(named, session_id)})
    return message


def in_scope(messages: Sequence[Message], session_id: str, scope: Scope) -> list[Message]:
    """Messages in a scope and a conversation, as far as they name none, with ids that count within the person's."""
    here = [m if m.session_id else m.model_copy(update={"session_id": session_id}) for m in messages]
    return [with_persons_id(message) for message in within_scope(here, scope)]


def heard_call(call_id: Any, name: Any, arguments: Any) -> ToolCall:
    """A tool call of a framework; the arguments are an object, or text, which may be broken JSON."""
    return ToolCall(id=text_of_value(call_id), name=text_of_value(name), arguments=text_of_value(arguments))


def text_of_value(value: Any) -> str:
    """A text as it is, nothing for None, and any other value as JSON.

    >>> text_of_value("a"), text_of_value(None), text_of_value({"b": {1}})
    ('a', '', '{"b": [1]}')
    """
    if value is None or isinstance(value, str):
        return value or ""
    plain = plain_json(value)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def calls_of_api(given: Any) -> list[ToolCall]:
    """The tool calls in what should be a list of them in the form of OpenAI's API, as dicts or objects of an SDK.

    What has another form stands in the arguments. Numbers and the like are no calls.
    """
    calls = given if isinstance(given, Sequence) and not isinstance(given, str | bytes) else [given]
    return [_call_of_api(call) for call in calls if call and not isinstance(call, bool | int | float)]


def _call_of_api(call: Any) -> ToolCall:
    values = _fields(call)
    values |= _fields(values.get("function"))
    if "name" not in values:
        return heard_call("", "", call)
    return heard_call(values.get("id"), values["name"], values.get("arguments"))


def _fields(value: Any) -> dict[Any, Any]:
    if isinstance(value, Mapping | BaseModel):
        return dict(value)
    return dict(getattr(value, "__dict__", {}))
