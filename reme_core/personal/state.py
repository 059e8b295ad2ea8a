"""The state that the ops of personal memory read and write."""

from __future__ import annotations

from pydantic import Field

from reme_core.flows.state import Internal, TrajectoryState
from reme_core.types import Message


class PersonalState(TrajectoryState):
    """The state of flows that make memories of a person from conversations, and insights from memories."""

    user_name: str = "user"
    """The author of messages that name none, and the subject of insights."""
    session_id: str | None = None
    """If given, only waiting messages of this conversation are read."""

    waiting: Internal[list[Message]] = Field(default_factory=list)
    """Recorded messages that no flow has summarised yet. The end of the flow marks them as summarised."""
    context: Internal[list[Message]] = Field(default_factory=list)
    """These, each behind what was said right before it, in the order of their conversations."""
    subjects: Internal[list[str]] = Field(default_factory=list)
    """Aspects of a person that no insight is about yet."""
