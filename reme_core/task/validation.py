"""Judge drafts before they are stored: by the model, or without one by the confidence of the rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from reme_core.errors import ModelAnswerError
from reme_core.flows.deps import Deps
from reme_core.flows.drafts import confidence_of
from reme_core.flows.parallel import parallel
from reme_core.flows.registry import op
from reme_core.models import ChatModel
from reme_core.prompts import prompt
from reme_core.prompts.fence import fence
from reme_core.prompts.transcript import language
from reme_core.task.state import TaskState
from reme_core.types import Memory

_AT_ONCE = 8  # lessons in a prompt; with more of them small models lose count


class _Verdict(BaseModel):
    # All fields are required in the schema, since a model that first gives its reason judges more strictly. An answer
    # can be used with a number, a score and `is_valid` alone.
    model_config = ConfigDict(json_schema_extra=lambda schema: schema.update(required=list(schema["properties"])))

    number: int
    reason: str = ""
    actionability: float = 0.0
    accuracy: float = 0.0
    relevance: float = 0.0
    clarity: float = 0.0
    uniqueness: float = 0.0
    is_valid: bool
    score: float = Field(description="0 to 1")


class _Verdicts(BaseModel):
    verdicts: list[_Verdict]


@op(uses={"success_drafts", "failure_drafts", "comparative_drafts"}, writes={"memories"})
async def validation(state: TaskState, deps: Deps, *, validation_threshold: float = 0.5) -> None:
    """Score drafts by actionability, accuracy, relevance, clarity and uniqueness; keep those at the threshold or above.

    Without a model a draft's score is its confidence. The report lists those that were refused, with the reasons.

    Raises:
        ModelAnswerError: The model leaves lessons out even when it is asked a second time.
    """
    drafts = [*state.success_drafts, *state.failure_drafts, *state.comparative_drafts]
    if deps.chat is None:
        # What rules write is true by construction: it quotes what happened.
        verdicts = [_Verdict(number=n, is_valid=True, score=confidence_of(d)) for n, d in enumerate(drafts)]
    else:
        groups = [drafts[start : start + _AT_ONCE] for start in range(0, len(drafts), _AT_ONCE)]
        judged = await parallel(_judge(group, deps.language, deps.chat) for group in groups)
        verdicts = [verdict for group in judged for verdict in group]
    kept: list[Memory] = []
    refused: list[dict[str, Any]] = []
    for memory, verdict in zip(drafts, verdicts, strict=True):
        score = min(max(verdict.score, 0.0), 1.0)
        if verdict.is_valid and score >= validation_threshold:
            # Only what the model said: a criterion that it passed over is not 0.
            said = verdict.model_dump(exclude={"number", "is_valid"}, exclude_unset=True)
            criteria = {} if deps.chat is None else {"validation": said}
            kept.append(memory.model_copy(update={"score": score, "metadata": memory.metadata | criteria}))
        else:
            refused.append({"when_to_use": memory.when_to_use, "score": score, "reason": verdict.reason})
    state.memories = kept
    if refused:
        state.report["refused"] = refused


async def _judge(drafts: Sequence[Memory], setting: str, chat: ChatModel) -> list[_Verdict]:
    """One verdict for each draft, in order; drafts that the model leaves out are judged in a second request."""
    found: dict[int, _Verdict] = {}
    # By their numbers: a model may give its verdicts in another order.
    missing = list(range(1, len(drafts) + 1))
    for _ in range(2):
        if not missing:
            break
        lessons = "\n\n".join(_format_draft(number, drafts[number - 1]) for number in missing)
        speech = language(setting, [draft.content for draft in drafts])
        request = prompt("validation", speech, lessons=fence(lessons, "lessons"))
        answer = await chat.complete_as(request, _Verdicts, purpose="validation")
        found.update({v.number: v for v in answer.verdicts if v.number in missing})
        missing = [number for number in missing if number not in found]
    if missing:
        raise ModelAnswerError(f"'{chat.name}' gave no verdict on lessons {missing}, asked twice; try a larger model")
    return [found[number] for number in sorted(found)]


def _format_draft(number: int, memory: Memory) -> str:
    passages = "\n".join(f"  - {s.quote}" for s in memory.sources if s.quote)
    return f"[{number}] when: {memory.when_to_use}\n  lesson: {memory.content}\n  rests on:\n{passages}"
