"""Tool calls of a framework, converted for tool memory.

An adapter sees a call while it runs, in a middleware (`observe_call`), or afterwards, in the messages (`calls_in`).
Either way the call gets a hash made from its place in the conversation. So it is counted once, even if the turn is
handed over again or replayed from a checkpoint.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol

from reme_core.store.tool_calls import ToolCallResult
from reme_core.text.ids import stable_id
from reme_core.text.plain import plain_json
from reme_core.types import Message, ToolCall, now
from reme_core.working.offload import READING_TOOLS

OWN_TOOLS: Final = READING_TOOLS | frozenset(
    ("search_memory", "add_memory", "update_memory", "forget_memory", "record_to_memory", "retrieve_from_memory")
)
"""The names of the memory tools. Their calls are neither recorded nor counted in tool memory."""


class ToolCallSink(Protocol):
    """Takes finished calls, as `TurnMemory` does."""

    def record_calls(self, calls: Sequence[ToolCallResult]) -> int:
        """Hand calls over without waiting."""


class ToolRun:
    """A running call. It is recorded only if `finish` is called."""

    def __init__(self) -> None:
        self.ended = False
        self.output: Any = ""
        self.success: bool | None = None

    def finish(self, output: Any, *, success: bool | None = None) -> None:
        """Set the output for the model, and whether the call succeeded, if the framework knows."""
        self.ended, self.output, self.success = True, output, success


@contextmanager
def observe_call(
    sink: ToolCallSink, name: str, arguments: Any, *place: object, interrupts: tuple[type[Exception], ...] = ()
) -> Iterator[ToolRun]:
    """Measure the tool call that runs in this block, and hand it over when it has ended.

    An exception that leaves the block is recorded as a failure, unless the framework interrupts a call by it
    (`interrupts`). A cancelled call is not recorded. The `place` distinguishes the call from others: it is the
    conversation, the message with the call, and its id there.
    """
    run, called_at, begun = ToolRun(), now(), time.perf_counter()
    try:
        yield run
    except interrupts:
        raise
    except Exception as error:  # of the tool, which may fail of anything
        run.finish(f"{type(error).__name__}: {error}", success=False)
        raise
    finally:
        if run.ended:
            call = tool_call_result(name, arguments, run.output, run.success, *place)
            seconds = time.perf_counter() - begun
            sink.record_calls([call.model_copy(update={"time_cost": seconds, "called_at": called_at})])


def calls_in(messages: Sequence[Message], *place: object) -> list[ToolCallResult]:
    """The finished tool calls in a conversation: those of assistant messages that a tool message answers.

    The metadata of a tool message may have `is_error` and `seconds`. Without `is_error`, an error is looked for in the
    text. The `place` distinguishes this conversation from others; by default the ids of the messages do.
    """
    pending: list[ToolCall] = []
    found: list[ToolCallResult] = []
    for message in messages:
        if message.tool_calls:
            pending = list(message.tool_calls)
        call = next((call for call in pending if _answers(message, call)), None)
        if call is None:
            continue
        pending.remove(call)
        failed = message.metadata.get("is_error")
        success = None if failed is None else not failed
        here = (*place, len(found), call.id) if place else (message.session_id, message.message_id)
        result = tool_call_result(call.name, call.arguments, message.content, success, *here)
        seconds = message.metadata.get("seconds")  # anything, where it is not an adapter that put it there
        time_cost = seconds if isinstance(seconds, int | float) and 0 <= seconds < math.inf else None
        found.append(result.model_copy(update={"called_at": message.sent_at, "time_cost": time_cost}))
    return found


def tool_call_result(name: str, arguments: Any, output: Any, success: bool | None, *place: object) -> ToolCallResult:
    """A finished call in plain JSON; its arguments are an object, or JSON text.

    If `success` is None, an error is looked for in the output. The hash is made from `place`, which distinguishes it
    from other calls, and from the outcome, so a second attempt is another call.
    """
    plain_input, plain_output = plain_json(arguments), plain_json(output)
    return ToolCallResult(
        tool_name=name or "unnamed",
        input=plain_input,
        output=plain_output,
        success=success,
        call_hash=stable_id(*place, name, plain_input, plain_output, success),
    )


def _answers(message: Message, call: ToolCall) -> bool:
    same_id = message.tool_call_id == call.id
    return message.role == "tool" and same_id and (not message.author or message.author == call.name)
