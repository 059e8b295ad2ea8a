"""Lessons of single attempts: what to do again, and what to avoid. By the model, or by rules if none is set."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from reme_core.flows.deps import Deps
from reme_core.flows.parallel import parallel
from reme_core.flows.registry import op
from reme_core.models import ChatModel
from reme_core.prompts import phrase
from reme_core.prompts.fence import fence
from reme_core.prompts.transcript import language, transcript
from reme_core.task.answers import ask_for_lessons
from reme_core.task.lessons import DrawLesson, failure_lesson, lessons_of, success_lesson
from reme_core.task.segments import is_scored, segments_of
from reme_core.task.state import Segment, TaskState
from reme_core.types import Memory


@op(reads={"successes"}, uses={"segments"}, writes={"success_drafts"})
async def success_extraction(state: TaskState, deps: Deps, *, max_lessons: int = 3) -> None:
    """Draw lessons from attempts that succeeded, from each segment if they are divided."""
    found = segments_of(state.successes, state.segments)
    state.success_drafts = await _draw_lessons("success_extraction", found, success_lesson, deps, max_lessons)


@op(reads={"failures"}, uses={"segments"}, writes={"failure_drafts"})
async def failure_extraction(state: TaskState, deps: Deps, *, max_lessons: int = 3) -> None:
    """Draw lessons from attempts that failed, from each segment if they are divided."""
    found = segments_of(state.failures, state.segments)
    state.failure_drafts = await _draw_lessons("failure_extraction", found, failure_lesson, deps, max_lessons)


async def _draw_lessons(name: str, found: Sequence[Segment], rule: DrawLesson, deps: Deps, most: int) -> list[Memory]:
    """At most `most` lessons of each segment: by the prompt `name`, or without a model by `rule` and from fixes."""
    if deps.chat is not None:
        return await _draw_by_model(name, found, deps.language, deps.chat, most)
    return [lesson for segment in found for lesson in lessons_of(segment, rule, deps.language, most)]


async def _draw_by_model(name: str, found: Sequence[Segment], setting: str, chat: ChatModel, most: int) -> list[Memory]:
    async def ask(segment: Segment) -> list[Memory]:
        speech = language(setting, segment.messages)
        score = f"{segment.trajectory.score:g}" if is_scored(segment.trajectory) else phrase("no_score", speech)
        attempt = fence(transcript(segment.messages), "attempt")
        return await ask_for_lessons(
            chat, name, speech, segment.messages, [segment.trajectory], most=most, score=score, attempt=attempt
        )

    return [memory for drafts in await parallel([partial(ask, segment) for segment in found]) for memory in drafts]
