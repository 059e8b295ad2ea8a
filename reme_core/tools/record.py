"""Validate and store reported tool calls, and have the model judge what each was good for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, Field

from reme_core.errors import InputError, ModelError
from reme_core.flows.deps import Deps
from reme_core.flows.parallel import parallel
from reme_core.flows.registry import op
from reme_core.flows.state import UpdateResult
from reme_core.flows.tool_output import MAX_ERROR, error_in
from reme_core.given import storable
from reme_core.models import ChatModel
from reme_core.postgres.database import Database
from reme_core.prompts import phrase, prompt
from reme_core.prompts.fence import fence
from reme_core.prompts.transcript import condense, language
from reme_core.store import rows, tool_calls
from reme_core.store.tool_calls import ToolCallResult, parse_call
from reme_core.tools.note import format_input
from reme_core.tools.state import ToolState, memory_of

_SHOWN = 10  # invalid calls whose problems the answer names
_LONGEST_OUTPUT = 2_000  # characters that the model is shown


@op(reads={"tool_call_results"}, writes={"memories", "update_result", "answer"})
async def add_tool_calls(state: ToolState, deps: Deps) -> None:
    """Store finished tool calls, each once, and have the model judge the new ones.

    The report says which calls were invalid and how many were new. The memories are those of the tools. A tool that had
    calls before counts as deleted and inserted, as in ReMe 0.1.

    Raises:
        InputError: None is given, or none of them is valid.
    """
    workspace = state.workspace_id
    names = list({storable(str(call.get("tool_name"))) for call in state.tool_call_results})
    earlier = await tool_calls.newest_calls(deps.database, workspace, names, limit=1)
    stored, report = await store_calls(deps.database, workspace, state.tool_call_results)
    state.report.update(report)
    await _evaluate(stored, state, deps)
    state.memories = [
        await memory_of(name, workspace, deps) for name in report["deduplication_stats"]["inserted_by_tool"]
    ]
    known = [memory.memory_id for memory in state.memories if earlier.get(memory.subject)]
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
    valid: list[ToolCallResult] = []
    problems: list[dict[str, Any]] = []
    for index, call in enumerate(reported):
        try:
            valid.append(parse_call(call))
        except InputError as error:
            problems.append({"index": index, "error": str(error)})
    if not valid:
        raise InputError(
            f"tool_call_results: none of {len(reported)} fits ({problems[0]['error']})"
            if problems
            else "tool_call_results: empty; give the calls as objects with tool_name, input, output and success"
        )
    told = rows.first_by(map(_with_outcome, valid), lambda call: call[0].call_hash)
    new = set(await tool_calls.record(database, workspace, list(told.values())))
    stored = [call for call_hash, (call, _) in told.items() if call_hash in new]
    by_tool = {call.tool_name: 0 for call, _ in told.values()} | Counter(call.tool_name for call in stored)
    return stored, {
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


def _with_outcome(call: ToolCallResult) -> tuple[ToolCallResult, str]:
    """The call with `success` filled in from its output where it was not given, and its error in one line."""
    error = "" if call.success is True else error_in(call.output)
    success = call.success if call.success is not None else not error
    if not success and not error:
        error = condense(call.output, MAX_ERROR)
    return call.model_copy(update={"success": success}), error


class _Evaluation(BaseModel):
    summary: str = Field(description="What came out, in one sentence")
    evaluation: str = Field(description="Why it is of use or not, in at most three sentences")
    score: float = Field(description="1 if the output is of use, else 0")


async def _evaluate(calls: Sequence[ToolCallResult], state: ToolState, deps: Deps) -> None:
    """Have the model judge stored calls that nobody has judged. If it fails, they stay unjudged; the report says so."""
    open_calls = [call for call in calls if not call.evaluation]
    if deps.chat is None or not open_calls:
        return
    answers = await parallel(_ask_model(call, deps.language, deps.chat) for call in open_calls)
    judged = [answer for answer in answers if isinstance(answer, ToolCallResult)]
    await tool_calls.judge(deps.database, state.workspace_id, judged)
    if failures := [answer for answer in answers if isinstance(answer, ModelError)]:
        what = f"could not judge {len(failures)} of {len(open_calls)} calls"
        state.report["degraded"] = [f"{what}: {failures[0]}"]


async def _ask_model(call: ToolCallResult, setting: str, chat: ChatModel) -> ToolCallResult | ModelError:
    speech = language(setting, [f"{format_input(call.input)} {call.output}"])
    request = prompt(
        "evaluate_tool_call",
        speech,
        tool=call.tool_name,
        outcome=phrase("call_worked" if call.success else "call_failed", speech),
        input=fence(format_input(call.input), "call"),
        output=fence(condense(call.output, _LONGEST_OUTPUT), "call"),
    )
    try:
        told = await chat.complete_as(request, _Evaluation, purpose="evaluate_tool_call")
    except ModelError as error:
        return error
    # As in ReMe 0.1, a call was of use or not. On a finer scale models do not give the same score twice.
    score = 1.0 if told.score >= 0.5 else 0.0
    # What the caller said stays. ReMe 0.1 writes a score of 0 where there is none.
    own = {"summary": call.summary or told.summary, "score": call.score or score}
    return call.model_copy(update={"evaluation": told.evaluation, **own})
