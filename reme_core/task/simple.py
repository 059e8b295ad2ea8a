"""Lessons in one step: one request to the model for each attempt, or for all attempts at one task."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from reme_core.flows.deps import Deps
from reme_core.flows.parallel import parallel
from reme_core.flows.registry import op
from reme_core.models import ChatModel
from reme_core.prompts import Language, phrase
from reme_core.prompts.fence import fence
from reme_core.prompts.transcript import MAX_TRANSCRIPT, language, transcript
from reme_core.task.answers import ask_for_lessons
from reme_core.task.comparison import best_and_worst_of, group_by_task
from reme_core.task.contrast import contrast
from reme_core.task.lessons import failure_lesson, lessons_of, success_lesson
from reme_core.task.segments import is_scored, segments_of
from reme_core.task.state import Segment, TaskState
from reme_core.types import Memory, Trajectory


@op(reads={"trajectories"}, writes={"memories"})
async def simple_summary(state: TaskState, deps: Deps, *, success_threshold: float = 0.9, max_lessons: int = 2) -> None:
    """Draw lessons from each attempt by one request; those with a score at the threshold or above are successes."""
    found = segments_of(state.trajectories, [])
    if deps.chat is None:
        rules = [success_lesson if s.trajectory.score >= success_threshold else failure_lesson for s in found]
        lessons = [
            lessons_of(segment, rule, deps.language, max_lessons) for segment, rule in zip(found, rules, strict=True)
        ]
    else:
        requests = [
            partial(_draw_by_model, segment, deps.language, deps.chat, success_threshold, max_lessons)
            for segment in found
        ]
        lessons = await parallel(requests)
    state.memories = [memory for drafts in lessons for memory in drafts]


@op(reads={"trajectories"}, writes={"memories"})
async def simple_comparative(state: TaskState, deps: Deps, *, max_lessons: int = 2) -> None:
    """Draw lessons from all attempts at a task together, by one request for each task."""
    groups = [attempts for attempts in group_by_task(state.trajectories) if len(attempts) > 1]
    if deps.chat is None:
        pairs = [segments_of(pair, []) for attempts in groups for pair in best_and_worst_of(attempts)]
        # An attempt that has no messages is left out, and its pair with it.
        lessons = [
            contrast(pair[0], pair[1], language(deps.language, pair[0].messages)) for pair in pairs if len(pair) == 2
        ]
        state.memories = [memory for memory in lessons if memory is not None]
        return
    requests = [partial(_compare_by_model, attempts, deps.language, deps.chat, max_lessons) for attempts in groups]
    state.memories = [memory for drafts in await parallel(requests) for memory in drafts]


async def _draw_by_model(
    segment: Segment, setting: str, chat: ChatModel, success_threshold: float, most: int
) -> list[Memory]:
    speech = language(setting, segment.messages)
    trajectory = segment.trajectory
    outcome = _outcome(trajectory, success_threshold, speech)
    attempt = fence(transcript(segment.messages), "attempt")
    return await ask_for_lessons(
        chat, "simple_summary", speech, segment.messages, [trajectory], most=most, outcome=outcome, attempt=attempt
    )


def _outcome(trajectory: Trajectory, success_threshold: float, speech: Language) -> str:
    if not is_scored(trajectory):
        return phrase("outcome_open", speech)
    name = "outcome_good" if trajectory.score >= success_threshold else "outcome_bad"
    return phrase(name, speech, score=f"{trajectory.score:g}")


async def _compare_by_model(attempts: Sequence[Trajectory], setting: str, chat: ChatModel, most: int) -> list[Memory]:
    found = segments_of(sorted(attempts, key=lambda t: -t.score), [])  # the best first, as the prompt says
    messages = [message for segment in found for message in segment.messages]
    speech = language(setting, messages)
    shown = []
    number = 1
    for segment in found:
        head = phrase("attempt_of", speech, score=f"{segment.trajectory.score:g}")
        text = transcript(segment.messages, budget=MAX_TRANSCRIPT // len(found), first=number)
        shown.append(f"{head}\n{fence(text, 'attempt')}")
        number += len(segment.messages)
    trajectories = [segment.trajectory for segment in found]
    return await ask_for_lessons(
        chat, "simple_comparative", speech, messages, trajectories,
        most=most, count=len(found), attempts="\n\n".join(shown),
    )  # fmt: skip
