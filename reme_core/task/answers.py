"""What the ops of task memory ask chat models for: lessons, and their conversion to drafts of memories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
)

from reme_core.flows.drafts import draft
from reme_core.models import ChatModel
from reme_core.prompts import Language, prompt
from reme_core.task.state import Segment
from reme_core.types import Memory


class Lesson(BaseModel):
    """One reusable lesson."""

    when_to_use: str = Field(description="The situation in which it helps, in one sentence")
    experience: str = Field(description="What to do or to avoid there, and why, in one to three sentences")
    tags: list[str] = Field(default_factory=list, description="Two to five words it should be found by")
    confidence: float = Field(0.5, description="How sure it is, 0 to 1")
    step_type: str = Field("", description="reasoning, action, observation, decision or pattern")
    tools_used: list[str] = Field(default_factory=list, description="Names of the tools it speaks of")
    evidence: list[int] = Field(default_factory=list, description="Numbers of the messages that show it")

    @field_validator("tags", "confidence", "step_type", "tools_used", "evidence", mode="wrap")
    @classmethod
    def _take_default(cls, value: Any, read: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        # Small models write `"tags": "a, b"` or `"confidence": "high"`. That must not cost the lesson, and with it the
        # whole summary.
        if isinstance(value, str) and info.field_name in ("tags", "tools_used"):
            value = [part.strip() for part in value.split(",") if part.strip()]
        try:
            return read(value)
        except ValidationError:
            return cls.model_fields[str(info.field_name)].get_default(call_default_factory=True)

    @field_validator("confidence")
    @classmethod
    def _clamp(cls, value: float) -> float:
        return min(max(value, 0.0), 1.0)


class Lessons(BaseModel):
    """What a model learned from one or two attempts."""

    # `why` is required in the schema, since a model that first says why an attempt ended so draws better lessons. It is
    # not required of the answer, which can be used without it.
    model_config = ConfigDict(json_schema_extra={"required": ["why", "lessons"]})

    why: str = Field("", description="Why it ended as it did, in one sentence")
    lessons: list[Lesson] = Field(description="One to three lessons; none if there is nothing to learn")


async def ask_for_lessons(
    chat: ChatModel, name: str, speech: Language, segments: Sequence[Segment], *, most: int, **values: object
) -> list[Memory]:
    """At most `most` lessons as drafts, by one request to the model: the prompt `name`, with `values`.

    Lessons with an empty field are left out. A lesson whose `evidence` names none of the messages (by their numbers in
    the prompt) gets all messages but the user's as its sources.
    """
    messages = [message for segment in segments for message in segment.messages]
    answer = await chat.complete_as(prompt(name, speech, most=most, **values), Lessons, purpose=name)
    drafts = []
    for lesson in answer.lessons[:most]:
        if not (lesson.when_to_use.strip() and lesson.experience.strip()):
            continue
        evidence = [messages[number - 1] for number in dict.fromkeys(lesson.evidence) if 1 <= number <= len(messages)]
        drafts.append(
            draft(
                lesson.when_to_use.strip(),
                lesson.experience.strip(),
                trajectories=[segment.trajectory for segment in segments],
                evidence=evidence or [m for m in messages if m.role != "user"] or messages,
                author=chat.name,
                confidence=lesson.confidence,
                step_type=lesson.step_type,
                tags=lesson.tags,
                tools=lesson.tools_used,
            )
        )
    return drafts
