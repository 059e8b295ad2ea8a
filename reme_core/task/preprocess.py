"""Sorting attempts by how they went, and marking the sub-tasks within them."""

from __future__ import annotations

import itertools
from functools import partial

from pydantic import BaseModel, Field

from reme_core.ops.beside import side_by_side
from reme_core.ops.deps import Deps
from reme_core.ops.registry import op
from reme_core.ops.state import Segment, SummaryState
from reme_core.ops.task.pieces import is_request
from reme_core.ops.transcript import condense, language, said, transcript
from reme_core.prompts import prompt
from reme_core.schema import Trajectory
from reme_core.text.fence import fenced

_GOAL = 200


@op(reads={"trajectories"}, writes={"successes", "failures"})
async def trajectory_preprocess(state: SummaryState, deps: Deps, *, success_threshold: float = 1.0) -> None:
    """Sort attempts into successes (score at the threshold or above) and failures; a missing score is a 0."""
    told = [trajectory for trajectory in state.trajectories if said(trajectory.messages)]
    state.successes = [trajectory for trajectory in told if trajectory.score >= success_threshold]
    state.failures = [trajectory for trajectory in told if trajectory.score < success_threshold]


class _Part(BaseModel):
    last: int = Field(description="Number of its last message")
    goal: str = Field("", description="What it is to achieve")


class _Parts(BaseModel):
    segments: list[_Part] = Field(description="The sub-tasks in order")


@op(reads={"successes", "failures"}, writes={"segments"}, aliases=("trajectory_segmentation",))
async def segmentation(state: SummaryState, deps: Deps) -> None:
    """Mark the sub-tasks of each attempt: by the model, or where a new request comes."""
    trajectories = [*state.successes, *state.failures]
    if deps.chat is None:
        divided = [_by_request(trajectory) for trajectory in trajectories]
    else:
        divided = await side_by_side([partial(_by_model, trajectory, deps) for trajectory in trajectories])
    state.segments = [segment for segments in divided for segment in segments]


async def _by_model(trajectory: Trajectory, deps: Deps) -> list[Segment]:
    assert deps.chat is not None
    messages = said(trajectory.messages)
    request = prompt("segmentation", language(deps.language, messages), attempt=fenced(transcript(messages), "attempt"))
    answer = await deps.chat.structured(request, _Parts, purpose="segmentation")
    segments: list[Segment] = []
    start = 0
    # What the model leaves out, or puts out of order, belongs to the part around it: no message is lost.
    ends = [part for part in answer.segments if 0 < part.last <= len(messages)]
    for part in ends:
        if part.last > start:
            segments.append(Segment(trajectory, messages[start : part.last], condense(part.goal, _GOAL)))
            start = part.last
    if not segments:
        return [Segment(trajectory, messages)]
    if start < len(messages):
        final = segments[-1]
        segments[-1] = Segment(trajectory, [*final.messages, *messages[start:]], final.goal)
    return segments


def _by_request(trajectory: Trajectory) -> list[Segment]:
    messages = said(trajectory.messages)
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
