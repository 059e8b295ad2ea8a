"""What a reading of a conversation does to the memory of a person: operations, as a model answers them."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

Operator = Literal["add", "confirm", "change", "end", "forget", "nothing"]

CLOSING: frozenset[Operator] = frozenset({"change", "end", "forget"})
"""What closes the memory that it names."""


class Operation(BaseModel):
    """One operation; see the prompt `personal/read` for what its fields mean."""

    op: Operator
    evidence: list[int] = Field(description="Numbers of the messages that say it")
    memory: int = Field(0, description="Number of the remembered statement; 0 for none")
    about: str = Field("", description="user, or whom else it is about")
    thing: str = Field("", description="What it is about, in one to three words")
    value: str = Field("", description="The value, in words of the messages")
    statement: str = Field("", description="One sentence that is understood alone")
    kind: Literal["fact", "profile", "event", "instruction"] = "fact"
    since: str = Field("", description="When it begins, in words of the messages or as YYYY-MM-DD; or empty")
    until: str = Field("", description="When it ends, likewise")


class Reading(BaseModel):
    """All operations of one window."""

    operations: list[Operation]


class _ShortOperation(BaseModel):
    op: Operator
    evidence: list[int]
    memory: int
    value: str
    statement: str


class ShortReading(BaseModel):
    """The same with the fields that a small model fills in reliably."""

    operations: list[_ShortOperation]


class Confirmation(BaseModel):
    """Which of the closing operations hold, now that their memories are shown in full."""

    holds: list[int] = Field(description="Numbers of the operations that hold")
