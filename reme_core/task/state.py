"""The state that the ops of task memory read and write: attempts, their segments, and lessons drawn from these."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from pydantic import Field

from reme_core.flows.state import Internal, TrajectoryState
from reme_core.flows.tool_output import is_output
from reme_core.prompts.transcript import condense, speech_in
from reme_core.types import Memory, Message, Trajectory

_TASK, _ANSWER = 240, 160  # characters of a task and of an answer that stand in a memory


@dataclasses.dataclass(frozen=True)
class Segment:
    """A part of a trajectory with one goal, or the whole trajectory if it was not divided."""

    trajectory: Trajectory
    messages: list[Message]
    goal: str = ""


class TaskState(TrajectoryState):
    """Attempts and the lessons drawn from them, or memories that were used and how the attempt ended."""

    memory_dicts: list[dict[str, Any]] = Field(default_factory=list)
    """Memories that an agent was given, as they were retrieved."""
    retrieval_id: str = ""
    """The retrieval that they come from."""
    update_utility: bool = False
    """Whether the agent that was given them succeeded."""
    freq_threshold: int = Field(0, ge=0)
    utility_threshold: float = 0.0

    successes: Internal[list[Trajectory]] = Field(default_factory=list)
    failures: Internal[list[Trajectory]] = Field(default_factory=list)
    segments: Internal[list[Segment]] = Field(default_factory=list)
    success_drafts: Internal[list[Memory]] = Field(default_factory=list)
    failure_drafts: Internal[list[Memory]] = Field(default_factory=list)
    comparative_drafts: Internal[list[Memory]] = Field(default_factory=list)


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
    return condense(str(goal or request or segment.trajectory.task_id), _TASK)


def task_key(segment: Segment) -> str:
    """Equal for attempts at the same task: its `task_id`, or where there is none the text of the task."""
    # No `task_id` begins with a NUL, so no id is taken for the text of a task.
    return segment.trajectory.task_id or f"\0{task_of(segment)}"


def is_request(message: Message) -> bool:
    """Whether a person asks for something in a message."""
    # Agents that write code get its output as a message of the user.
    return message.role == "user" and not is_output(message.content)


def answer_of(segment: Segment) -> str:
    """The agent's last message in one line; empty if somebody else sent the last message, or if it calls tools."""
    last = segment.messages[-1]
    return condense(last.content, _ANSWER) if last.role == "assistant" and not last.tool_calls else ""


def is_scored(trajectory: Trajectory) -> bool:
    """Whether the trajectory was given a score."""
    # A score that was left out reads as 0, and must not be taken for a failure.
    return "score" in trajectory.model_fields_set
