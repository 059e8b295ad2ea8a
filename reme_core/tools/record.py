"""Validate and store reported tool calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from reme_core.errors import InputError
from reme_core.flows.deps import Deps
from reme_core.flows.registry import op
from reme_core.flows.tool_output import MAX_ERROR, error_in
from reme_core.postgres.database import Database
from reme_core.prompts.transcript import condense
from reme_core.store import tool_calls
from reme_core.store.tool_calls import ToolCallResult
from reme_core.tools.state import ToolState

_SHOWN = 10  # problems that the answer spells out


@op(reads={"tool_call_results"}, writes={"answer"})
async def add_tool_calls(state: ToolState, deps: Deps) -> None:
    """Store finished tool calls, each once; the report says which were invalid and how many were new.

    Raises:
        InputError: None is given, or none of them is valid.
    """
    found = await store_calls(deps.database, state.workspace_id, state.tool_call_results)
    state.report.update(found)
    counted = found["deduplication_stats"]
    state.answer = f"stored {counted['inserted_count']} of {found['validation_stats']['total_count']} tool calls"


async def store_calls(
    database: Database, workspace: str, reported: Sequence[Mapping[str, Any] | ToolCallResult]
) -> dict[str, Any]:
    """Store the calls that are valid.

    Returns:
        `validation_stats` (total_count, valid_count, invalid_count, and the first problems as `invalid`) and
        `deduplication_stats` (total_count, inserted_count, duplicate_count, and the number inserted for each tool).

    Raises:
        InputError: None is given, or none of them is valid.
    """
    valid, problems = _split_valid(reported)
    if not valid:
        raise InputError(
            f"tool_call_results: none of {len(reported)} fits ({problems[0]['error']})"
            if problems
            else "tool_call_results: empty; give the calls as objects with tool_name, input, output and success"
        )
    judged = [_judge(call) for call in valid]
    new = set(await tool_calls.record(database, workspace, judged))
    by_tool: dict[str, int] = {}
    for call_hash, name in {call.call_hash: call.tool_name for call in valid}.items():
        by_tool[name] = by_tool.get(name, 0) + (call_hash in new)
    return {
        "validation_stats": {
            "total_count": len(reported),
            "valid_count": len(valid),
            "invalid_count": len(problems),
            "invalid": problems[:_SHOWN],
        },
        "deduplication_stats": {
            "total_count": len(valid),
            "inserted_count": len(new),
            "duplicate_count": len(valid) - len(new),
            "inserted_by_tool": by_tool,
        },
    }


def _split_valid(
    reported: Sequence[Mapping[str, Any] | ToolCallResult],
) -> tuple[list[ToolCallResult], list[dict[str, Any]]]:
    """The valid calls, and the problems of the others as `{"index", "error"}`."""
    valid, problems = [], []
    for index, call in enumerate(reported):
        try:
            valid.append(call if isinstance(call, ToolCallResult) else ToolCallResult.model_validate(call))
        except ValidationError as error:
            first = error.errors()[0]
            problems.append({"index": index, "error": f"{'.'.join(map(str, first['loc']))}: {first['msg']}"})
    return valid, problems


def _judge(call: ToolCallResult) -> tuple[ToolCallResult, str]:
    """The call with `success` filled in from its output where it was not given, and its error in one line."""
    error = "" if call.success is True else error_in(call.output)
    success = call.success if call.success is not None else not error
    if not success and not error:
        error = condense(call.output, MAX_ERROR)
    return call.model_copy(update={"success": success}), error
