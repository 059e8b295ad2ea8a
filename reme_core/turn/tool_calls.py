"""Calls of tools that a framework runs, on their way to tool memory.

A framework tells of a call while it runs it, to a middleware (`watched`), or afterwards by its messages (`calls_in`).
Either way the call gets a hash that follows from where it stands in its conversation, so that a turn which is handed
over again, or replayed from a checkpoint, is counted once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol

from reme_core.ops.identity import stable_id
from reme_core.schema import Message, ToolCall, now
from reme_core.text.plain import plain_json
from reme_core.tool_call import ToolCallResult

OWN_TOOLS: Final = frozenset(
    ("search_memory", "add_memory", "update_memory", "forget_memory", "record_to_memory", "retrieve_from_memory")
)
"""Names of the tools with which an agent tends its memory; how they fare is no experience of the agent's."""


class Keeper(Protocol):
    """Takes finished calls, as `TurnMemory` does."""

    def record_calls(self, calls: Sequence[ToolCallResult]) -> int:
        """Hand calls over without waiting."""


class Running:
    """A call that runs. `gave` says how it ended; of one that never says, nothing is kept."""

    def __init__(self) -> None:
        self.ended = False
        self.output: Any = ""
        self.success: bool | None = None

    def gave(self, output: Any, *, success: bool | None = None) -> None:
        """Tell the outcome: what the model is told, and whether it worked, if the framework knows."""
        self.ended, self.output, self.success = True, output, success


@contextmanager
def watched(
    keeper: Keeper, name: str, arguments: Any, *place: object, passing: tuple[type[Exception], ...] = ()
) -> Iterator[Running]:
    """Run a call of a tool in this, and it is timed and handed over when it ends.

    An exception that leaves it is a failure. A cancellation is neither that nor a success, and nothing is kept of it.

    Args:
        keeper: Whose tool memory it is for.
        name: The tool.
        arguments: What it is given: an object, or JSON text.
        place: What tells it apart from other calls: the conversation, the message that asks for it, its id there.
        passing: Exceptions by which the framework only interrupts a call.
    """
    running, called_at, begun = Running(), now(), time.perf_counter()
    try:
        yield running
    except passing:
        raise
    except Exception as error:
        running.gave(f"{type(error).__name__}: {error}", success=False)
        raise
    finally:
        if running.ended:
            call = finished(name, arguments, running.output, running.success, *place)
            seconds = time.perf_counter() - begun
            keeper.record_calls([call.model_copy(update={"time_cost": seconds, "called_at": called_at})])


def calls_in(messages: Sequence[Message], *place: object) -> list[ToolCallResult]:
    """The calls that messages tell of: those of an assistant's message that messages of tools answer.

    Whether one failed is asked of its text, unless the tool's message says it by `is_error` in its metadata; what it
    took, `seconds` there says.

    Args:
        messages: In order.
        place: What tells these messages apart from others; without it their ids do.
    """
    asked: list[ToolCall] = []
    found: list[ToolCallResult] = []
    for message in messages:
        if message.tool_calls:
            asked = list(message.tool_calls)
        call = next((call for call in asked if _answers(message, call)), None)
        if call is None:
            continue
        asked.remove(call)
        failed = message.metadata.get("is_error")
        success = None if failed is None else not failed
        here = (*place, len(found), call.id) if place else (message.session_id, message.message_id)
        told = finished(call.name, call.arguments, message.content, success, *here)
        found.append(
            told.model_copy(update={"called_at": message.sent_at, "time_cost": message.metadata.get("seconds")})
        )
    return found


def finished(name: str, arguments: Any, output: Any, success: bool | None, *place: object) -> ToolCallResult:
    """A call that has ended, in plain JSON.

    Its outcome is part of its hash: what a second attempt gave is another call's.

    Args:
        name: The tool.
        arguments: What it was given: an object, or JSON text.
        output: What the model is told of its outcome.
        success: Whether it worked; None asks the output for an error.
        place: What tells it apart from other calls.
    """
    given, told = plain_json(arguments), plain_json(output)
    return ToolCallResult(
        tool_name=name or "unnamed",
        input=given,
        output=told,
        success=success,
        call_hash=stable_id(*place, name, given, told, success),
    )


def _answers(message: Message, call: ToolCall) -> bool:
    same_id = message.tool_call_id == call.id
    return message.role == "tool" and same_id and (not message.author or message.author == call.name)
