"""What a call of a tool was good for, as the model judges it: one question a call."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pydantic import BaseModel, Field

from reme_core.errors import ModelError
from reme_core.flows.deps import Deps
from reme_core.flows.parallel import parallel
from reme_core.models import ChatModel
from reme_core.prompts import phrase, prompt
from reme_core.prompts.fence import fence
from reme_core.prompts.transcript import condense, language
from reme_core.store import tool_calls
from reme_core.store.tool_calls import ToolCallResult
from reme_core.tools.note import format_input
from reme_core.tools.state import ToolState
from reme_core.types import Message

_LONGEST_OUTPUT = 2_000


class _Evaluation(BaseModel):
    summary: str = Field(description="What came out, in one sentence")
    evaluation: str = Field(description="Why it is of use or not, in at most three sentences")
    score: float = Field(description="1 if the output is of use, else 0")


async def evaluate(calls: Sequence[ToolCallResult], state: ToolState, deps: Deps) -> None:
    """Have the model judge stored calls that nobody has judged. If it fails, they stay unjudged; the report says so."""
    open_calls = [call for call in calls if not call.evaluation]
    if deps.chat is None or not open_calls:
        return
    answers = await parallel([partial(_ask, call, deps.language, deps.chat) for call in open_calls])
    judged = [answer for answer in answers if isinstance(answer, ToolCallResult)]
    await tool_calls.judge(deps.database, state.workspace_id, judged)
    if failures := [answer for answer in answers if isinstance(answer, ModelError)]:
        what = f"could not judge {len(failures)} of {len(open_calls)} calls"
        state.report["degraded"] = [f"{what}: {failures[0]}"]


async def _ask(call: ToolCallResult, setting: str, chat: ChatModel) -> ToolCallResult | ModelError:
    speech = language(setting, [Message(content=f"{format_input(call.input)} {call.output}")])
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
    return call.model_copy(update={"summary": told.summary, "evaluation": told.evaluation, "score": score})
