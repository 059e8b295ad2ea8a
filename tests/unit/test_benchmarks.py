"""The measures that benchmarks print, on answers whose measures can be counted by hand."""

from __future__ import annotations

import json
import sys
from math import log2
from pathlib import Path

import numpy as np
import pytest

from benchmarks import answers, personal, retrieval, sets
from reme_core.cli import main
from reme_core.types import Memory
from tests.loopback import Loopback


def test_an_installed_command_finds_the_benchmarks_of_the_checkout_it_runs_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "personal.py").write_text(
        "import argparse\ndef parser():\n    parser = argparse.ArgumentParser()\n"
        "    for name in ('--llm', '--model'):\n        parser.add_argument(name)\n    return parser\n"
        "async def main(given):\n    print('measured with', given.llm)\n"
    )
    for name in ("benchmarks", "benchmarks.personal"):
        monkeypatch.delitem(sys.modules, name)
    # As where the package was installed, and not the checkout: a command's folder is not among those of its modules.
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if not Path(folder, "benchmarks").is_dir()])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["eval", "personal", "--llm", "none"])
    assert not ended.value.code and "measured with none" in capsys.readouterr().out


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


@pytest.mark.parametrize(
    ("said", "expected", "exact", "f1"),
    [
        ("The blue bicycle.", "a Blue bicycle", 1, 1),
        ("a blue bicycle in the shed", "blue bicycle", 0, 2 * 2 / (4 + 2)),
        ("她住在里斯本", "里斯本", 0, 2 * 3 / (6 + 3)),
        ("green", "blue", 0, 0),
    ],
)
def test_answers_are_graded_by_their_words(said: str, expected: str, exact: float, f1: float) -> None:
    assert answers.grade(said, expected) == (exact, pytest.approx(f1))


class Shown:
    """Shows the way's own name."""

    async def show(self, way: str, question: str) -> str:
        return f"shown by {way}"


async def test_an_examination_goes_on_where_it_was_stopped_and_spends_no_more_than_it_may(
    tmp_path: Path, loopback: Loopback
) -> None:
    loopback.chat(lambda body: "blue" if "by note" in body["messages"][0]["content"] else "green")
    conversation = sets.Conversation("s", "w", [], [])
    asked = [sets.Asked(f"What colour is number {number}?", "c", frozenset("1"), "Blue.") for number in (1, 2)]

    async def examine(most_tokens: int) -> answers.Examination:
        examination = answers.Examination(answers.Model(loopback.url, "m"), None, tmp_path / "answers", most_tokens)
        examination.read()
        for one in asked:
            await examination.ask(conversation, one, Shown())  # type: ignore[arg-type]
        await examination.llm.aclose()
        return examination

    first = await examine(1)
    assert (first.llm.calls, first.complete()["note"]) == (1, [])  # the first answer has spent what there was
    second = await examine(10_000)
    assert second.llm.calls == 7
    assert {way: [a.exact for a in given] for way, given in second.complete().items()} == {
        "note": [1, 1],
        "cosine": [0, 0],
        "whole conversation": [0, 0],
        "nothing": [0, 0],
    }
    assert (await examine(10_000)).llm.calls == 0


async def test_a_small_model_is_judged_by_what_people_said(
    tmp_path: Path, loopback: Loopback, capsys: pytest.CaptureFixture[str]
) -> None:
    said = {"id": "m1", "role": "user", "name": "Ann", "at": "2024-01-09T20:41:00+00:00", "text": "I live in Hull."}
    fact = {
        "id": "f1", "about": "user", "thing": "home", "statement": "Ann lives in Hull", "evidence": ["m1"],
        "says": [["Hull"]], "known_from": "m1",
    }  # fmt: skip
    person = {
        "person": "ann", "language": "en", "sessions": [{"id": "s1", "messages": [said]}], "facts": [fact],
        "never": [], "checks": [{"at": "2024-01-10T00:00:00+00:00", "fact": "f1", "state": "current"}], "questions": [],
    }  # fmt: skip
    (tmp_path / "ann.json").write_text(json.dumps(person))
    loopback.chat({"operations": []})
    await personal.main(personal.parser().parse_args(["--people", str(tmp_path), "--llm", loopback.url, "--small"]))
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    # The model found nothing, so what was said is kept word for word.
    assert (figures["fact kept"]["share"], figures["right at a moment"]["share"]) == (1, 1)
    assert figures["calls"]["median"] == 1
