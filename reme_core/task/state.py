"""The state that the ops of task memory read and write."""

from __future__ import annotations

import dataclasses
from typing import Any

from pydantic import Field

from reme_core.flows.state import Internal, SummaryState, Trajectories
from reme_core.types import Memory, Message, Trajectory


@dataclasses.dataclass(frozen=True)
class Segment:
    """A part of a trajectory with one goal, or the whole trajectory if it was not divided."""

    trajectory: Trajectory
    messages: list[Message]
    goal: str = ""


class TaskState(SummaryState):
    """Attempts and the lessons drawn from them, or memories that were used and how the attempt ended."""

    trajectories: Trajectories = Field(default_factory=list)
    memory_dicts: list[dict[str, Any]] = Field(default_factory=list)
    """Memories that an agent was given, as they were retrieved."""
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
