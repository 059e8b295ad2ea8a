"""Validate and store reported tool calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reme_core.errors import InputError
from reme_core.flows.deps import Deps
from reme_core.flows.registry import op
from reme_core.flows.state import UpdateResult
from reme_core.flows.tool_output import MAX_ERROR, error_in
from reme_core.postgres.database import Database
from reme_core.prompts.transcript import condense
from reme_core.store import tool_calls
from reme_core.store.tool_calls import ToolCallResult, parse_call
from reme_core.tools.evaluate import evaluate
from reme_core.tools.memory import memory_of
from reme_core.tools.state import ToolState

_SHOWN = 10  # invalid calls whose problems the answer names


@op(reads={"tool_call_results"}, writes={"memories", "update_result", "answer"})
async def add_tool_calls(state: ToolState, deps: Deps) -> None:
    """Store finished tool calls, each once, and have the model judge the new ones.

    The report says which calls were invalid and how many were new. The memories are those of the tools. A tool that had
    calls before counts as deleted and inserted, as in ReMe 0.1.

    Raises:
        InputError: None is given, or none of them is valid.
    """
    workspace = state.workspace_id
    before = {stats.tool_name for stats in await tool_calls.statistics(deps.database, workspace)}
    stored, report = await store_calls(deps.database, workspace, state.tool_call_results)
    state.report.update(report)
    await evaluate(stored, state, deps)
    state.memories = [
        await memory_of(name, workspace, deps) for name in report["deduplication_stats"]["inserted_by_tool"]
    ]
    known = [memory.memory_id for memory in state.memories if memory.subject in before]
    state.report["deleted_memory_ids"] = known
    state.update_result = UpdateResult(len(known), len(state.memories))
    state.answer = f"stored {len(stored)} of {len(state.tool_call_results)} tool calls"


async def store_calls(
    database: Database, workspace: str, reported: Sequence[Mapping[str, Any] | ToolCallResult]
) -> tuple[list[ToolCallResult], dict[str, Any]]:
    """Store the calls that are valid.

    Returns:
        Those that were new; and `validation_stats` (total_count, valid_count, invalid_count, and the first problems as
        `invalid`) and `deduplication_stats` (total_count, inserted_count, duplicate_count, and the number inserted for
        each tool), both also by ReMe 0.1's names.

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
    # A call that was reported twice at once has one hash, and counts once.
    for call_hash, name in {call.call_hash: call.tool_name for call in valid}.items():
        by_tool[name] = by_tool.get(name, 0) + (call_hash in new)
    stored = {call.call_hash: call for call, _ in judged if call.call_hash in new}
    return list(stored.values()), {
        "validation_stats": {
            "total_count": len(reported),
            "valid_count": len(valid),
            "invalid_count": len(problems),
            "invalid": problems[:_SHOWN],
            # The names of ReMe 0.1.
            "total_input": len(reported),
            "valid": len(valid),
            "filtered": len(problems),
        },
        "deduplication_stats": {
            "total_count": len(valid),
            "inserted_count": len(new),
            "duplicate_count": len(valid) - len(new),
            "inserted_by_tool": by_tool,
            # The names of ReMe 0.1.
            "total_new": len(valid),
            "added": len(new),
            "deduplicated": len(valid) - len(new),
        },
    }


def _split_valid(
    reported: Sequence[Mapping[str, Any] | ToolCallResult],
) -> tuple[list[ToolCallResult], list[dict[str, Any]]]:
    """The valid calls, and the problems of the others as `{"index", "error"}`."""
    valid, problems = [], []
    for index, call in enumerate(reported):
        try:
            valid.append(parse_call(call))
        except InputError as error:
            problems.append({"index": index, "error": str(error)})
    return valid, problems


def _judge(call: ToolCallResult) -> tuple[ToolCallResult, str]:
    """The call with `success` filled in from its output where it was not given, and its error in one line."""
    error = "" if call.success is True else error_in(call.output)
    success = call.success if call.success is not None else not error
    if not success and not error:
        error = condense(call.output, MAX_ERROR)
    return call.model_copy(update={"success": success}), error
