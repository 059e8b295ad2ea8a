"""A demonstration: a conversation in two languages, the memories made of it, and a library of experience.

Three fixed questions are asked; the answers are the same memories each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.resources import files
from typing import TypeVar

from pydantic import BaseModel

from reme_core.engine import Engine
from reme_core.store.change import Change, Close
from reme_core.store.filters import Filters
from reme_core.store.messages import unsummarised_messages
from reme_core.text.timex import find_times
from reme_core.types import Memory, Message, Recollection, TimeRange

WORKSPACE = "demo"
SUPERSEDED, SUCCESSOR = "demo-espresso", "demo-green-tea"

_ASKED_AT = datetime(2024, 9, 15, tzinfo=UTC)  # "today" of the questions, so that answers do not change with the date

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and the kind of memory that answers it."""

    text: str
    kind: str
    remark: str
    """What it demonstrates."""

    @property
    def time(self) -> TimeRange | None:
        """The time that the text mentions, if any."""
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
class DemoResult:
    """What the demonstration stored, in which workspace, and the answers that it got."""

    workspace: str
    messages: Sequence[Message]
    observations: Sequence[Memory]
    experience: Sequence[Memory]
    answers: Sequence[tuple[Question, Recollection]]


async def run_demo(reme: Engine, workspace: str = WORKSPACE) -> DemoResult:
    """Store the conversation, the observations and the library in a workspace, and ask the questions.

    A later run gives the same result.
    """
    messages = _read_lines("conversation.jsonl", Message)
    observations = _read_lines("observations.jsonl", Memory)
    experience = _read_lines("experience.jsonl", Memory)
    # Nobody reflects on these memories, and nobody makes others of the conversation (`summarised` below): else a later
    # run would give other answers.
    await reme.workspaces.schedule(workspace, reflect_every_hours=0)
    await reme.record(workspace, messages, wait=True)
    await _store_memories(reme, workspace, messages, [*observations, *experience])
    ask = partial(reme.recall, workspace, limit=3, now=_ASKED_AT, flow="demo")
    answers = [(question, await ask(question.text, kind=question.kind)) for question in QUESTIONS]
    return DemoResult(workspace, messages, observations, experience, answers)


async def _store_memories(
    reme: Engine, workspace: str, messages: Sequence[Message], memories: Sequence[Memory]
) -> None:
    ids = [memory.memory_id for memory in memories]
    known = {m.memory_id for m in await reme.memories.list(workspace, Filters(ids=ids, status=None), limit=len(ids))}
    # An earlier run has stored the others, and closed the one that is superseded.
    new = [memory for memory in memories if memory.memory_id not in known]
    waiting = await unsummarised_messages(reme.database, workspace, ids=[message.message_id for message in messages])
    until = datetime(2024, 7, 1, tzinfo=UTC)
    replaced = [Close(SUPERSEDED, "superseded", superseded_by=SUCCESSOR, holds_until=until)]
    change = Change(
        add=new,
        close=[] if SUPERSEDED in known else replaced,
        summarised={message.message_id: message.content for message in waiting},
    )
    await reme.memories.apply(workspace, change, actor="demo", reason="to show memory at work")


def _read_lines(name: str, model: type[M]) -> list[M]:
    lines = files(__name__).joinpath(name).read_text(encoding="utf-8").splitlines()
    return [model.model_validate_json(line) for line in lines]
