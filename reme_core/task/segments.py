"""The pieces that lessons are drawn from: whole attempts, or the segments that were marked in them."""

from __future__ import annotations

from collections.abc import Sequence

from reme_core.ops.results import is_output
from reme_core.ops.state import Segment
from reme_core.ops.transcript import condense, said
from reme_core.schema import Message, Trajectory

MAX_TASK = 240
"""Characters of a task's text that a memory names it by."""
MAX_ANSWER = 160


def pieces(trajectories: Sequence[Trajectory], segments: Sequence[Segment]) -> list[Segment]:
    """The segments of each trajectory, or the whole of it where it has none."""
    found: list[Segment] = []
    for trajectory in trajectories:
        marked = [segment for segment in segments if segment.trajectory is trajectory]
        found.extend(marked or [Segment(trajectory, said(trajectory.messages))])
    return [piece for piece in found if piece.messages]


def task_of(piece: Segment) -> str:
    """What was to be done, in one line: the segment's goal, what the metadata say, or the first request."""
    told = piece.goal or piece.trajectory.metadata.get("task") or piece.trajectory.metadata.get("query")
    asked = next((m.content for m in piece.messages if is_request(m)), "")
    return condense(str(told or asked or piece.trajectory.task_id), MAX_TASK)


def is_request(message: Message) -> bool:
    """Whether a person asks for something here; agents that write code get its output in the same role."""
    return message.role == "user" and not is_output(message.content)


def answer_of(piece: Segment) -> str:
    """What the agent said at the end, in one line; empty where the end is no answer."""
    last = piece.messages[-1]
    return condense(last.content, MAX_ANSWER) if last.role == "assistant" and not last.tool_calls else ""


def is_scored(trajectory: Trajectory) -> bool:
    """Whether somebody judged it; a score that was left out looks like a 0."""
    return "score" in trajectory.model_fields_set
