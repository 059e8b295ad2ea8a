"""Lessons of single attempts: what to do again, and what to avoid. By the model, or by rules if none is set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

from reme_core.flows.deps import Deps
from reme_core.flows.parallel import parallel
from reme_core.flows.registry import op
from reme_core.prompts import phrase
from reme_core.prompts.fence import fence
from reme_core.prompts.transcript import language, transcript
from reme_core.task.answers import ask_for_lessons
from reme_core.task.lessons import failure_lesson, fix_lessons, success_lesson
from reme_core.task.state import Segment, TaskState, is_scored, segments_of
from reme_core.types import Memory


@op(reads={"successes"}, uses={"segments"}, writes={"success_drafts"})
async def success_extraction(state: TaskState, deps: Deps, *, max_lessons: int = 3) -> None:
    """Draw lessons from attempts that succeeded, from each segment if they are divided."""
    found = segments_of(state.successes, state.segments)
    state.success_drafts = await _draw_lessons("success_extraction", found, lambda _: True, deps, max_lessons)


@op(reads={"failures"}, uses={"segments"}, writes={"failure_drafts"})
async def failure_extraction(state: TaskState, deps: Deps, *, max_lessons: int = 3) -> None:
    """Draw lessons from attempts that failed, from each segment if they are divided."""
    found = segments_of(state.failures, state.segments)
    state.failure_drafts = await _draw_lessons("failure_extraction", found, lambda _: False, deps, max_lessons)


@op(reads={"trajectories"}, writes={"memories"})
async def simple_summary(state: TaskState, deps: Deps, *, success_threshold: float = 0.9, max_lessons: int = 2) -> None:
    """Draw lessons from each attempt by one request; those with a score at the threshold or above are successes."""

    def is_success(segment: Segment) -> bool:
        return segment.trajectory.score >= success_threshold

    found = segments_of(state.trajectories, [])
    state.memories = await _draw_lessons("simple_summary", found, is_success, deps, max_lessons)


async def _draw_lessons(
    name: str, found: Sequence[Segment], is_success: Callable[[Segment], bool], deps: Deps, most: int
) -> list[Memory]:
    """At most `most` lessons of each segment: by the prompt `name`, or without a model by rules."""

    async def draw(segment: Segment) -> list[Memory]:
        speech = language(deps.language, segment.messages)
        if deps.chat is None:
            first = (success_lesson if is_success(segment) else failure_lesson)(segment, speech)
            return [*([first] if first else []), *fix_lessons(segment, speech)][:most]
        score, outcome = phrase("no_score", speech), phrase("outcome_open", speech)
        if is_scored(segment.trajectory):
            score = f"{segment.trajectory.score:g}"
            outcome = phrase("outcome_good" if is_success(segment) else "outcome_bad", speech, score=score)
        attempt = fence(transcript(segment.messages), "attempt")
        return await ask_for_lessons(
            deps.chat, name, speech, [segment], most=most, score=score, outcome=outcome, attempt=attempt
        )

    return list(chain.from_iterable(await parallel(map(draw, found))))
