"""Taking in how tool calls went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from reme_core.errors import InputError
from reme_core.ops.deps import Deps
from reme_core.ops.registry import op
from reme_core.ops.results import MAX_ERROR, error_in
from reme_core.ops.state import SummaryState
from reme_core.ops.transcript import condense
from reme_core.store import tool_calls
from reme_core.store.database import Database
from reme_core.tool_call import ToolCallResult

_SHOWN = 10  # problems that the answer spells out


@op(reads={"tool_call_results"}, writes={"answer"}, aliases=("parse_tool_call_result", "add_tool_call"))
async def add_tool_calls(state: SummaryState, deps: Deps) -> None:
    """Keep finished tool calls, each once; the answer tells which did not fit and which were known.

    Raises:
        InputError: None is given, or none of them fits.
    """
    found = await take_calls(deps.database, state.workspace_id, state.tool_call_results)
    state.report.update(found)
    counted = found["deduplication_stats"]
    state.answer = f"stored {counted['inserted_count']} of {found['validation_stats']['total_count']} tool calls"


async def take_calls(
    database: Database, workspace: str, given: Sequence[Mapping[str, Any] | ToolCallResult]
) -> dict[str, Any]:
    """Keep the calls that fit.

    Returns:
        `validation_stats` (total_count, valid_count, invalid_count, and the first problems as `invalid`) and
        `deduplication_stats` (total_count, inserted_count, duplicate_count, and the inserted ones by tool).
    """
    valid, problems = _checked(given)
    if not valid:
        raise InputError(
            f"tool_call_results: none of {len(given)} fits ({problems[0]['error']})"
            if problems
            else "tool_call_results: empty; give the calls as objects with tool_name, input, output and success"
        )
    judged = [_judged(call) for call in valid]
    new = set(await tool_calls.record(database, workspace, judged))
    by_tool: dict[str, int] = {}
    for call_hash, name in {call.call_hash: call.tool_name for call in valid}.items():
        by_tool[name] = by_tool.get(name, 0) + (call_hash in new)
    return {
        "validation_stats": {
            "total_count": len(given),
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


def _checked(given: Sequence[Mapping[str, Any] | ToolCallResult]) -> tuple[list[ToolCallResult], list[dict[str, Any]]]:
    valid, problems = [], []
    for index, told in enumerate(given):
        try:
            valid.append(told if isinstance(told, ToolCallResult) else ToolCallResult.model_validate(told))
        except ValidationError as error:
            first = error.errors()[0]
            problems.append({"index": index, "error": f"{'.'.join(map(str, first['loc']))}: {first['msg']}"})
    return valid, problems


def _judged(call: ToolCallResult) -> tuple[ToolCallResult, str]:
    """The call with whether it worked, and the error it met in one line."""
    error = "" if call.success is True else error_in(call.output)
    success = call.success if call.success is not None else not error
    if not success and not error:
        error = condense(call.output, MAX_ERROR)
    return call.model_copy(update={"success": success}), error
