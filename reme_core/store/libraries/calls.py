"""Calls of tools in libraries and on the wire, where they are a field of their tool's memory, as in ReMe 0.1."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from reme_core.errors import InputError
from reme_core.postgres.database import Database
from reme_core.prompts.transcript import condense
from reme_core.store.libraries.dialects import excerpt
from reme_core.store.libraries.format import WIRE_KEY, time_text
from reme_core.store.tool_calls import LISTED_CALLS, Call, ToolCallResult, newest_calls, parse_call
from reme_core.types import Kind, Memory

CALLS: Final = "tool_call_results"
"""The field of a tool's memory that holds its calls."""

_LONGEST_ERROR: Final = 200


def take_calls(memory: Memory) -> list[Call]:
    """The calls that a tool's memory has in a library; they are removed from the memory."""
    kept = memory.metadata.get(WIRE_KEY)
    if memory.kind != Kind.TOOL or not isinstance(kept, dict) or not isinstance(values := kept.get(CALLS), list):
        return []
    rest = {name: value for name, value in kept.items() if name != CALLS}
    memory.metadata = {k: v for k, v in memory.metadata.items() if k != WIRE_KEY} | ({WIRE_KEY: rest} if rest else {})
    return [_read_call(number, value) for number, value in enumerate(values)]


async def add_calls(database: Database, workspace: str, memories: Sequence[dict[str, Any]]) -> None:
    """Add to each memory of a tool, in the form of the wire, the newest calls of that tool."""
    of_tools = [memory for memory in memories if memory["memory_type"] == "tool"]
    if of_tools:
        names = list({memory["when_to_use"] for memory in of_tools})
        calls = await newest_calls(database, workspace, names, limit=LISTED_CALLS)
        for memory in of_tools:
            memory[CALLS] = [call_to_wire(call) for call, _ in calls[memory["when_to_use"]]]


def call_to_wire(call: ToolCallResult) -> dict[str, Any]:
    """A call in the form of ReMe 0.1, where unknown values are -1 or 0."""
    return {
        "create_time": time_text(call.called_at),
        "tool_name": call.tool_name,
        "input": call.input,
        "output": call.output,
        "token_cost": -1 if call.token_cost is None else call.token_cost,
        "success": bool(call.success),
        "time_cost": call.time_cost or 0.0,
        "summary": call.summary,
        "evaluation": call.evaluation,
        "score": call.score or 0.0,
        "is_summarized": call.is_summarized,
        "call_hash": call.call_hash,
        "metadata": call.metadata,
    }


def _read_call(number: int, value: Any) -> Call:
    try:
        if not isinstance(value, Mapping):
            raise InputError(f"a call must be an object, not {excerpt(value)}")
        call = parse_call(_without_old_hash(value))
    except InputError as error:
        raise InputError(f"{CALLS}.{number}: {error}") from None
    success = call.success is not False
    # A 0 stands for an unknown value (see `call_to_wire`), unless an evaluation explains a score of 0.
    score = call.score if call.score or call.evaluation else None
    call = call.model_copy(update={"success": success, "score": score, "time_cost": call.time_cost or None})
    return call, "" if success else condense(call.output, _LONGEST_ERROR)


def _without_old_hash(call: Mapping[str, Any]) -> Mapping[str, Any]:
    """The call without ReMe 0.1's hash, which tells neither tools nor times apart; it gets one of ours."""
    given = call.get("input", "")
    text = json.dumps(given, sort_keys=True) if isinstance(given, dict) else str(given)
    digest = hashlib.md5(f"{text}|{call.get('output', '')}".encode(errors="replace"), usedforsecurity=False)
    is_old = call.get("call_hash") == digest.hexdigest()
    return {name: value for name, value in call.items() if not (is_old and name == "call_hash")}
