"""What the ops of personal memory work on."""

from __future__ import annotations

from pydantic import Field

from reme_core.flows.state import Internal, SummaryState, Trajectories
from reme_core.types import Message


class PersonalState(SummaryState):
    """A conversation on its way to what is remembered about a person, and this on its way to insights."""

    trajectories: Trajectories = Field(default_factory=list)
    user_name: str = "user"
    """Whom messages without an author are from, and whom insights are about."""
    session_id: str | None = None
    """Of the messages that wait in the store, only those of this conversation."""

    waiting: Internal[list[Message]] = Field(default_factory=list)
    """Recorded messages that no memory was made of yet, all of which count as summarised in the end."""
    context: Internal[list[Message]] = Field(default_factory=list)
    """What was said before them, in their conversations."""
    subjects: Internal[list[str]] = Field(default_factory=list)
    """Sides of a person that no insight is about yet."""
