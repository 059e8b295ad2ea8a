"""Lessons in a model's answer, as models write them."""

from __future__ import annotations

import json

import pytest

from reme_core.errors import ModelAnswerError
from reme_core.models.json_in_words import read_answer
from reme_core.task.answers import Lesson, Lessons

LESSON = {"when_to_use": "When booking", "experience": "Use ISO dates."}


def read(lesson: dict[str, object]) -> Lesson:
    return read_answer(json.dumps({"why": "", "lessons": [lesson]}), Lessons).lessons[0]


def test_what_a_model_says_beside_a_lesson_costs_no_lesson() -> None:
    odd = {"tags": "dates, flights", "tools_used": "book", "confidence": "high", "step_type": 3, "evidence": ["[2]"]}
    lesson = read(LESSON | odd)
    assert (lesson.tags, lesson.tools_used) == (["dates", "flights"], ["book"])
    assert (lesson.confidence, lesson.step_type, lesson.evidence) == (0.5, "", [])
    assert read(LESSON | {"confidence": "0.8", "evidence": ["2"]}).model_dump(include={"confidence", "evidence"}) == {
        "confidence": 0.8,
        "evidence": [2],
    }


def test_a_lesson_that_says_nothing_is_no_answer() -> None:
    with pytest.raises(ModelAnswerError, match=r"lessons\.0\.experience"):
        read({"when_to_use": "When booking"})
