"""The segments that lessons are drawn from, and what they say about their task."""

from __future__ import annotations

from collections.abc import Sequence

from reme_core.flows.tool_output import is_output
from reme_core.prompts.transcript import condense, speech_in
from reme_core.task.state import Segment
from reme_core.types import Message, Trajectory

MAX_TASK = 240
"""Characters of a task's text that stand in a memory."""
MAX_ANSWER = 160
"""Characters of an answer that stand in a memory."""


def segments_of(trajectories: Sequence[Trajectory], segments: Sequence[Segment]) -> list[Segment]:
    """The segments of each trajectory, or the whole of it if it has none; without those that have no messages."""
    found: list[Segment] = []
    for trajectory in trajectories:
        marked = [segment for segment in segments if segment.trajectory is trajectory]
        found.extend(marked or [Segment(trajectory, speech_in(trajectory.messages))])
    return [segment for segment in found if segment.messages]


def task_of(segment: Segment) -> str:
    """The task in one line: the segment's goal, `task` or `query` of the metadata, the first request, or the id."""
    goal = segment.goal or segment.trajectory.metadata.get("task") or segment.trajectory.metadata.get("query")
    request = next((m.content for m in segment.messages if is_request(m)), "")
    return condense(str(goal or request or segment.trajectory.task_id), MAX_TASK)


def is_request(message: Message) -> bool:
    """Whether a person asks for something in a message."""
    # Agents that write code get its output as a message of the user.
    return message.role == "user" and not is_output(message.content)


def answer_of(segment: Segment) -> str:
    """The agent's last message in one line; empty if somebody else sent the last message, or if it calls tools."""
    last = segment.messages[-1]
    return condense(last.content, MAX_ANSWER) if last.role == "assistant" and not last.tool_calls else ""


def is_scored(trajectory: Trajectory) -> bool:
    """Whether the trajectory was given a score."""
    # A score that was left out reads as 0, and must not be taken for a failure.
    return "score" in trajectory.model_fields_set
