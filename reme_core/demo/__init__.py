"""A demonstration: a bilingual conversation, what there is to remember of it, and a library of experience.

The words are our own. The same three questions are asked of it each time, and the same memories answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from typing import TypeVar

from pydantic import BaseModel

from reme_core.app import AsyncReMe
from reme_core.schema import Memory, Message, Recollection, TimeRange
from reme_core.store.change import Change, Close
from reme_core.store.filters import Filters
from reme_core.text.timex import find_times

WORKSPACE = "demo"
SUPERSEDED, SUCCESSOR = "demo-espresso", "demo-green-tea"
HITS = 3
"""How many memories each question is answered with."""

_ASKED_AT = datetime(2024, 9, 15, tzinfo=UTC)  # "today" of the story, so that the answers do not change with the date

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and where to look for its answer."""

    text: str
    kind: str
    remark: str
    """What it shows."""

    @property
    def time(self) -> TimeRange | None:
        """The time that it speaks of, if it speaks of one."""
        mentions = find_times(self.text, now=_ASKED_AT)
        return mentions[0].range if mentions else None


QUESTIONS = (
    Question(
        "The API only answers a list of the first 100 orders. Where are the others?", "task", "experience with tasks"
    ),
    Question("Lena 对什么食物过敏？", "personal", "in Chinese, as it was said"),
    Question("What did she do in May 2024?", "personal", "it speaks of a time: what meets it counts twice"),
)


@dataclass(frozen=True, slots=True)
class Answer:
    """A question with what was recalled for it."""

    question: Question
    recollection: Recollection


@dataclass(frozen=True, slots=True)
class Story:
    """All that the demonstration put in and got back."""

    messages: Sequence[Message]
    observations: Sequence[Memory]
    experience: Sequence[Memory]
    answers: Sequence[Answer]


async def tell(reme: AsyncReMe) -> Story:
    """Store the conversation, the observations and the library in the workspace `demo`, and ask the questions.

    What is there already is left as it is, so that telling it twice gives the same.
    """
    messages = _read("conversation.jsonl", Message)
    observations = _read("observations.jsonl", Memory)
    experience = _read("experience.jsonl", Memory)
    await reme.record(WORKSPACE, messages, wait=True)
    await _remember(reme, [*observations, *experience])
    answers = [
        Answer(
            question,
            await reme.recall(
                WORKSPACE, question.text, kind=question.kind, limit=HITS, boost=question.time, flow="demo"
            ),
        )
        for question in QUESTIONS
    ]
    return Story(messages, observations, experience, answers)


async def _remember(reme: AsyncReMe, memories: Sequence[Memory]) -> None:
    ids = [memory.memory_id for memory in memories]
    known = {m.memory_id for m in await reme.memories.list(WORKSPACE, Filters(ids=ids, status=None), limit=len(ids))}
    new = [memory for memory in memories if memory.memory_id not in known]
    until = datetime(2024, 7, 1, tzinfo=UTC)
    replaced = [Close(SUPERSEDED, "superseded", superseded_by=SUCCESSOR, holds_until=until)]
    change = Change(add=new, close=[] if SUPERSEDED in known else replaced)
    await reme.memories.apply(WORKSPACE, change, actor="demo", reason="she said so")


def _read(name: str, model: type[M]) -> list[M]:
    lines = files(__name__).joinpath(name).read_text(encoding="utf-8").splitlines()
    return [model.model_validate_json(line) for line in lines]
