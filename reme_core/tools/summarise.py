"""Make guidance for tools from their calls, and replace it as new calls come in."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, Field

from reme_core.errors import InputError
from reme_core.flows.deps import Deps
from reme_core.flows.drafts import RULES
from reme_core.flows.parallel import parallel
from reme_core.flows.registry import op
from reme_core.flows.state import UpdateResult
from reme_core.prompts import prompt
from reme_core.prompts.fence import fence
from reme_core.prompts.transcript import condense, language
from reme_core.store import tool_calls
from reme_core.store.change import Change, Close, retry_conflicts
from reme_core.store.filters import Filters
from reme_core.store.tool_calls import Call, ToolStatistics, first_id
from reme_core.tools.note import format_input, guidance, situation
from reme_core.tools.state import ToolState, guidance_of
from reme_core.types import Kind, Memory, new_id

_MAX_OUTPUT: Final = 300


class _Guidance(BaseModel):
    when_to_use: str = Field(description="For what the tool is good, in one sentence")
    guidance: str = Field(description="How to call it, what to avoid, what to expect; at most eight short points")


@op(reads={"tool_names"}, writes={"memories", "closing", "update_result", "answer"})
async def summarise_tools(state: ToolState, deps: Deps, *, max_calls: int = 30) -> None:
    """Make guidance for tools from their statistics and newest calls; it replaces earlier guidance.

    Without `tool_names`, it is made for all tools that have calls. A tool without new calls keeps what it has.

    Args:
        max_calls: How many calls of each tool to read, the newest.

    Raises:
        InputError: None of the tools has calls.
    """
    # Read first, so that the guidance is made from all of these, and perhaps from calls that came after them.
    waiting = await tool_calls.waiting_calls(deps.database, state.workspace_id, state.tool_names or None)
    found = await tool_calls.statistics(deps.database, state.workspace_id, state.tool_names or None)
    known = {stats.tool_name for stats in found}
    missing = [name for name in state.tool_names if name not in known]
    if not found:
        raise InputError(
            f"tool_names: no calls are kept of {', '.join(missing) or 'any tool'} in workspace '{state.workspace_id}';"
            " report them with add_tool_call_result first"
        )
    updates = await parallel(
        _update_guidance(stats, waiting.get(stats.tool_name, []), state.workspace_id, deps, max_calls)
        for stats in found
    )
    state.memories = [memory for memory, _, _ in updates]
    state.closing = [close for _, _, closing in updates for close in closing]
    made = sum(is_new for _, is_new, _ in updates)
    state.update_result = UpdateResult(len(state.closing), made)
    told = [f"Tool: {memory.subject}\n{memory.content}" for memory in state.memories]
    head = f"Processed {len(found)} tool(s): {made} summarized, {len(found) - made} skipped"
    state.answer = "\n\n---\n\n".join([head, *told])
    # Read anew: by now the calls are summarised.
    found = await tool_calls.statistics(deps.database, state.workspace_id, sorted(known))
    state.report["tool_statistics"] = [stats.model_dump(mode="json") for stats in found]
    if missing:
        state.report["unknown_tools"] = missing


async def _update_guidance(
    stats: ToolStatistics, waiting: list[str], workspace: str, deps: Deps, most: int
) -> tuple[Memory, bool, list[Close]]:
    """The guidance for one tool, whether it is new, and what it replaced; `waiting` are the calls that wait for it."""
    before = await guidance_of(stats.tool_name, workspace, deps)
    if before and before[0].content and not waiting:
        return before[0], False, []
    calls = await tool_calls.newest_calls(deps.database, workspace, [stats.tool_name], limit=most)
    memory = await _write_guidance(stats, calls[stats.tool_name], deps)
    memory.workspace_id = workspace

    async def replace(_: int) -> tuple[Memory, bool, list[Close]]:
        # Looked up again: somebody else may have replaced the guidance while the model wrote.
        version = await deps.memories.version(workspace)
        before = await guidance_of(stats.tool_name, workspace, deps)
        still = (await tool_calls.waiting_calls(deps.database, workspace, [stats.tool_name])).get(stats.tool_name, [])
        unread = list(set(waiting).intersection(still))
        if not unread and (waiting or (before and before[0].content)):
            # What there is was made from all these calls, and perhaps from later ones; or the workspace was cleared.
            return before[0] if before else memory, False, []
        same = next((m for m in before if (m.content, m.when_to_use) == (memory.content, memory.when_to_use)), None)
        # Calls are marked in one transaction with the guidance that was made from them, also where it stays the same.
        change = Change(guided=unread, expected_version=version)
        if same is None:
            # The first guidance gets the id that callers were told before it was made. A closed one keeps its id.
            taken = await deps.memories.list(workspace, Filters(ids=[first_id(stats.tool_name)], status=None))
            memory.memory_id = new_id() if taken else first_id(stats.tool_name)
            change.add, change.close = [memory], [Close(m.memory_id, "superseded", memory.memory_id) for m in before]
        await deps.memories.apply(workspace, change, actor=deps.flow, reason=f"{len(unread)} calls since")
        return (same, False, []) if same else (memory, True, list(change.close))

    return await retry_conflicts(replace)


async def _write_guidance(stats: ToolStatistics, calls: list[Call], deps: Deps) -> Memory:
    speech = language(deps.language, [f"{format_input(call.input)} {call.output}" for call, _ in calls])
    when, content, author = situation(stats.tool_name, calls, speech), guidance(stats, calls, speech), RULES
    if deps.chat is not None:
        request = prompt(
            "summary_tool",
            speech,
            tool=stats.tool_name,
            record=fence(content, "calls"),
            calls=fence("\n".join(_format_call(number, call) for number, call in enumerate(calls, 1)), "calls"),
        )
        answer = await deps.chat.complete_as(request, _Guidance, purpose="summary_tool")
        if answer.guidance.strip():
            when, content, author = answer.when_to_use.strip() or when, answer.guidance.strip(), deps.chat.name
            if stats.tool_name not in when:  # a note of several tools has to say which is which
                when = f"{stats.tool_name}: {when}"
    scores = [call.score for call, _ in calls if call.score is not None]
    return Memory(
        kind=Kind.TOOL,
        subject=stats.tool_name,
        when_to_use=when,
        content=content,
        keywords=[stats.tool_name],
        score=sum(scores) / len(scores) if scores else stats.success_rate,
        author=author,
        observed_at=stats.last_called_at,
        metadata={"statistics": stats.model_dump(mode="json", exclude={"not_summarised"})},
    )


def _format_call(number: int, call: Call) -> str:
    result, error = call
    outcome = f"failed: {error}" if error else "worked"
    evaluation = f" ({result.evaluation})" if result.evaluation else ""
    output = result.summary or condense(result.output, _MAX_OUTPUT)
    return f"[{number}] {format_input(result.input, _MAX_OUTPUT)} → {outcome}{evaluation}: {output}"
