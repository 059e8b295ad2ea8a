"""The measures that benchmarks print, on answers whose measures can be counted by hand."""

from __future__ import annotations

import json
from math import log2
from pathlib import Path

import numpy as np
import pytest

from benchmarks import retrieval, sets
from reme_core.types import Memory


def test_measures_of_one_question() -> None:
    found = ["a", "x", "b", *"cdefgh", "i", "y"]
    measured = dict(zip(retrieval.MEASURES, retrieval.judge(found, frozenset({"x", "y", "z"})), strict=True))
    assert (measured["recall@1"], measured["recall@5"], measured["recall@20"]) == (0, 1 / 3, 2 / 3)
    assert (measured["recall@10"], measured["all@10"], measured["hit@5"], measured["MRR"]) == (1 / 3, 0, 1, 1 / 2)
    assert measured["NDCG@10"] == pytest.approx((1 / log2(3)) / (1 + 1 / log2(3) + 1 / 2))
    assert retrieval.judge([], frozenset("a")) == [0.0] * len(retrieval.MEASURES)


def test_intervals_are_drawn_over_conversations_that_differ() -> None:
    results = retrieval.Results()
    for conversation in "abcdef":
        for _ in range(50):
            results.conversation.append(conversation)
            results.category.append("c")
            results.rows["recall"].append([float(conversation in "abc")] * len(retrieval.MEASURES))
    mean, low, high = results.figures("recall")["MRR"]
    assert mean == 0.5
    assert low < 0.25 < 0.75 < high  # over questions it would be about 0.44 to 0.56


@pytest.mark.parametrize("kind", ["memory", "message"])
def test_a_set_is_read_with_the_questions_that_it_can_answer(tmp_path: Path, kind: str) -> None:
    docs = [{"id": "1", "author": "Ann", "content": "A cat.", "session": None, "sent_at": "2024-01-01"}]
    questions = [
        {"q": "What?", "category": "c", "evidence": ["1", "9"]},
        {"q": "?", "category": "c", "evidence": ["9"]},
    ]
    path = tmp_path / "small_dev.json"
    path.write_text(json.dumps([{"workspace": "w", "kind": kind, "docs": docs, "questions": questions}]))
    (conversation,) = sets.read(path)
    assert (conversation.set, conversation.workspace) == ("small", "w")
    assert conversation.messages == (conversation.docs if kind == "message" else [])
    assert [doc.content for doc in conversation.docs] == ["A cat."]
    assert list(conversation.questions) == [sets.Asked("What?", "c", frozenset({"1"}))]


class Letters:
    """Embeds by which of four letters a text has."""

    async def embed(self, texts, input_type="passage"):  # type: ignore[no-untyped-def]
        rows = np.array([[float(letter in text.lower()) + 0.01 for letter in "abcd"] for text in texts])
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


async def test_baselines_find_by_meaning_by_words_and_by_both() -> None:
    docs = [Memory(memory_id=text, content=text) for text in ("dddd", "bike", "bike bike dance", "aaab")]
    answers = await retrieval.PlainSearch(docs, Letters()).answers("A bike")  # type: ignore[arg-type]
    assert answers["BM25"] == ["bike", "bike bike dance"]
    assert answers["cosine"][0] == "aaab"
    assert answers["reciprocal ranks"][0] in ("bike", "bike bike dance")
