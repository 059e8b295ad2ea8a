"""Sort attempts into successes and failures, and divide them into segments, one for each sub-task."""

from __future__ import annotations

import itertools
from typing import Literal

from pydantic import BaseModel, Field

from reme_core.flows.deps import Deps
from reme_core.flows.parallel import parallel
from reme_core.flows.registry import op
from reme_core.models import ChatModel
from reme_core.prompts import prompt
from reme_core.prompts.fence import fence
from reme_core.prompts.transcript import condense, language, speech_in, transcript
from reme_core.task.state import Segment, TaskState, is_request
from reme_core.types import Trajectory

_GOAL = 200  # characters


@op(reads={"trajectories"}, writes={"successes", "failures"})
async def trajectory_preprocess(state: TaskState, deps: Deps, *, success_threshold: float = 1.0) -> None:
    """Sort attempts into successes (score at the threshold or above) and failures; a missing score is a 0."""
    trajectories = [trajectory for trajectory in state.trajectories if speech_in(trajectory.messages)]
    state.successes = [trajectory for trajectory in trajectories if trajectory.score >= success_threshold]
    state.failures = [trajectory for trajectory in trajectories if trajectory.score < success_threshold]


class _Part(BaseModel):
    last: int = Field(description="Number of its last message")
    goal: str = Field("", description="What it is to achieve")


class _Parts(BaseModel):
    segments: list[_Part] = Field(description="The sub-tasks in order")


@op(reads={"successes", "failures"}, writes={"segments"})
async def segmentation(
    state: TaskState, deps: Deps, *, segment_target: Literal["all", "success", "failure"] = "all"
) -> None:
    """Divide each attempt into segments, one for each sub-task: by the model, or at each new request of the user."""
    trajectories = [
        *(state.successes if segment_target != "failure" else []),
        *(state.failures if segment_target != "success" else []),
    ]
    if deps.chat is None:
        divided = [_split_at_requests(trajectory) for trajectory in trajectories]
    else:
        divided = await parallel(_mark_by_model(t, deps.language, deps.chat) for t in trajectories)
    state.segments = [segment for segments in divided for segment in segments]


async def _mark_by_model(trajectory: Trajectory, setting: str, chat: ChatModel) -> list[Segment]:
    messages = speech_in(trajectory.messages)
    request = prompt("segmentation", language(setting, messages), attempt=fence(transcript(messages), "attempt"))
    answer = await chat.complete_as(request, _Parts, purpose="segmentation")
    segments: list[Segment] = []
    start = 0
    # Messages that the model leaves out, or puts out of order, go to the segment around them, so that none is lost.
    for part in answer.segments:
        if start < part.last <= len(messages):
            segments.append(Segment(trajectory, messages[start : part.last], condense(part.goal, _GOAL)))
            start = part.last
    if not segments:
        return [Segment(trajectory, messages)]
    if start < len(messages):
        final = segments[-1]
        segments[-1] = Segment(trajectory, [*final.messages, *messages[start:]], final.goal)
    return segments


def _split_at_requests(trajectory: Trajectory) -> list[Segment]:
    messages = speech_in(trajectory.messages)
    # Of two requests in a row the second one completes the first.
    starts = [
        place
        for place, message in enumerate(messages)
        if place and is_request(message) and not is_request(messages[place - 1])
    ]
    bounds = [0, *starts, len(messages)]
    return [
        Segment(trajectory, part, condense(next((m.content for m in part if is_request(m)), ""), _GOAL))
        for part in (messages[start:end] for start, end in itertools.pairwise(bounds))
        if part
    ]
