"""The forms in which chat models answer the ops of task memory, and how such answers become drafts."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field, field_validator

from reme_core.ops.drafts import draft
from reme_core.schema import Memory, Message, Trajectory


class Lesson(BaseModel):
    """One reusable lesson."""

    when_to_use: str = Field(description="The situation in which it helps, in one sentence")
    experience: str = Field(description="What to do or to avoid there, and why, in one to three sentences")
    tags: list[str] = Field(default_factory=list, description="Two to five words it should be found by")
    confidence: float = Field(0.5, description="How sure it is, 0 to 1")
    step_type: str = Field("", description="reasoning, action, observation, decision or pattern")
    tools_used: list[str] = Field(default_factory=list, description="Names of the tools it speaks of")
    evidence: list[int] = Field(default_factory=list, description="Numbers of the messages that show it")

    @field_validator("confidence")
    @classmethod
    def _within_bounds(cls, value: float) -> float:
        return min(max(value, 0.0), 1.0)


class Lessons(BaseModel):
    """What a model learned from one or two attempts."""

    # Asked for, but not insisted on: whoever says first why an attempt ended so draws better lessons from it.
    model_config = ConfigDict(json_schema_extra={"required": ["why", "lessons"]})

    why: str = Field("", description="Why it ended as it did, in one sentence")
    lessons: list[Lesson] = Field(description="One to three lessons; none if there is nothing to learn")


def drafts_of(
    answer: Lessons, messages: Sequence[Message], trajectories: Sequence[Trajectory], *, author: str, most: int
) -> list[Memory]:
    """The lessons as drafts. What names no message that exists rests on all that the agent said and saw."""
    drafts = []
    for lesson in answer.lessons[:most]:
        if not (lesson.when_to_use.strip() and lesson.experience.strip()):
            continue
        named = [messages[number - 1] for number in dict.fromkeys(lesson.evidence) if 1 <= number <= len(messages)]
        drafts.append(
            draft(
                lesson.when_to_use.strip(),
                lesson.experience.strip(),
                trajectories=trajectories,
                evidence=named or [m for m in messages if m.role != "user"] or messages,
                author=author,
                confidence=lesson.confidence,
                step_type=lesson.step_type,
                tags=lesson.tags,
                tools=lesson.tools_used,
            )
        )
    return drafts
