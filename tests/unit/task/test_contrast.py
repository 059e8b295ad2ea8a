"""A better and a worse attempt are compared by rules."""

from __future__ import annotations

import pytest

from reme_core.task.contrast import contrast
from reme_core.task.state import Segment
from reme_core.types import Message, Trajectory


def attempt(request: str, answer: str, score: float) -> Segment:
    said = [Message(content=request), Message(role="assistant", content=answer)]
    return Segment(Trajectory(score=score, messages=said), said)


@pytest.mark.parametrize(
    ("other", "told"), [("Cancel Ann's order", "Two attempts at this"), ("Cancel Bob's trip", "Similar steps")]
)
def test_attempts_without_a_task_id_are_at_one_task_where_its_text_is_the_same(other: str, told: str) -> None:
    lesson = contrast(attempt("Cancel Ann's order", "Done", 1), attempt(other, "No idea", 0), "en")
    assert lesson is not None and lesson.content.startswith(told)
