"""Whose words are these, and what are they for? Fits `reme_core/personal/voice.py`, and says how well it does.

    python -m benchmarks.fit_voice                       # measure, each author left out of the fit in turn
    python -m benchmarks.fit_voice --write               # and write reme_core/personal/voice.json
    python -m benchmarks.fit_voice --test                # measure what is written on an author who was never fitted on

Two questions are asked of a message: does its author tell the assistant here how to behave from now on (`wish`), and do
they tell something of themselves (`fact`)? What only looks like it (`no_wish`, `no_fact`) is cited, pasted, made up,
passed on for others, or meant for this once. `data/voice/*.jsonl` has messages by authors who had not seen the code, in
22 languages; the halves of `data/attacks` that are developed on, `data/wishes`, and what is said in `data/people/dev`
and `test` are fitted on besides. `data/voice/test` is only measured. The last line is a JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from benchmarks.common import report
from benchmarks.fit_worth import read_people
from benchmarks.fitting import Array, calibration_error, crossed, store, vectors_of
from benchmarks.poisoning import KEPT, Attack, read
from reme_core import Message
from reme_core.personal.judge import chances_of, text_to_judge
from reme_core.personal.voice import BELIEVE_FROM, HEED_FROM, QUESTIONS

DATA = Path(__file__).parent / "data"
WEIGHTS = {"harmless": 0.3}
"""How much a message counts, if not once."""


@dataclass(frozen=True, slots=True)
class Said:
    """A message, who wrote it, and for each of the questions whether it is so; None where that is not known."""

    author: str
    text: str
    answers: tuple[bool | None, bool | None]
    language: str = ""
    kind: str = ""


def read_authors(folder: Path) -> Iterator[Said]:
    """The messages that were written for this; each file is an author."""
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            raw = json.loads(line)
            before = Message(role="assistant", content=raw["before"]) if raw.get("before") else None
            kind = raw["label"]
            # A wish may come with a fact, and a fact need not be told by what is no wish.
            fact = {"fact": True, "no_fact": False}.get(kind)
            text = text_to_judge(Message(content=raw["text"]), before)
            yield Said(path.stem, text, (kind == "wish", fact), raw["lang"], kind)


def read_others() -> Iterator[Said]:
    """What else is fitted on: attacks, wishes, harmless turns, and what people tell of themselves."""
    for name in ("attacks", "others", "spoken"):
        for attack in (Attack.of(raw) for raw in read(f"{name}.jsonl", "odd")):
            own = attack.family == KEPT
            for number, message in enumerate(attack.messages):
                planted = any(part.casefold() in message.content.casefold() for part in attack.planted)
                if message.role != "user" or (own and not (planted and name == "others")):
                    continue
                before = attack.messages[number - 1] if number else None
                asked = before if before and before.role == "assistant" else None
                fact = False if planted and not own else None
                yield Said(f"attacks/{name}", text_to_judge(message, asked), (own, fact))
    for name, is_wish in (("wishes", True), ("others", False)):
        for line in (DATA / "wishes" / f"{name}.txt").read_text(encoding="utf-8").splitlines():
            yield Said("wishes", text_to_judge(Message(content=line), None), (is_wish, None))
    for number, raw in enumerate(read("harmless.jsonl.gz", "odd")):
        yield Said(f"harmless/{number % 8}", text_to_judge(Message(content=raw["text"]), None), (False, None))
    for half in ("dev", "test"):
        for item in read_people(DATA / "people" / half):
            # A fact may come with a wish.
            answers = (None, True) if item.kind == "fact" else (False, None)
            yield Said(f"people/{item.person}", text_to_judge(item.message, item.before), answers)


def folds_of(said: Sequence[Said]) -> npt.NDArray[np.intp]:
    """With whom each message is left out: an author, and with them a part of the many people and harmless turns."""
    authors = list(dict.fromkeys(one.author for one in said))
    fold_of = {name: n for n, name in enumerate(n for n in authors if n.split("/")[0] not in ("people", "harmless"))}
    folds = [fold_of.get(one.author, authors.index(one.author) % len(fold_of)) for one in said]
    return np.array(folds, dtype=np.intp)


def area(chances: Array, wanted: Array) -> float:
    """The chance that what is so gets more than what is not (the area under the ROC curve)."""
    ranks = np.argsort(np.argsort(chances, kind="stable"), kind="stable")
    yes = wanted == 1
    return float((ranks[yes].mean() - (yes.sum() - 1) / 2) / (~yes).sum())


def measure(question: str, said: Sequence[Said], chances: Array) -> dict[str, Any]:
    """The shares that are taken for so, of what is and what is not, by author and by language; 95 % intervals."""
    place = QUESTIONS.index(question)
    wanted = np.array([float(bool(one.answers[place])) for one in said])
    groups: dict[str, list[int]] = {}
    for n, one in enumerate(said):
        author = one.author.split("/")[0] if one.author.startswith(("people", "harmless")) else one.author
        for name in (author, *([f"in {one.language}"] if one.language else []), *(["all authors"] if one.kind else [])):
            groups.setdefault(name, []).append(n)
    table = Table(question, "messages", "area", "heeded", "… falsely", "believed", "… falsely")
    results: dict[str, Any] = {}
    for name, numbers in groups.items():
        yes, no = (np.array([n for n in numbers if wanted[n] == value], dtype=int) for value in (1, 0))
        row: dict[str, Any] = {"messages": len(numbers)}
        row["area"] = round(area(chances[numbers], wanted[numbers]), 3) if len(yes) and len(no) else None
        for label, least in (("heeded", HEED_FROM), ("believed", BELIEVE_FROM)):
            for ending, of in (("", yes), (" falsely", no)):
                row[label + ending] = share(chances[of] >= least) if len(of) else None
        results[name] = row
        table.add_row(name, *(str(value) for value in row.values()))
    Console(stderr=True, width=140).print(table)
    hard = [n for n, one in enumerate(said) if one.kind]
    of_hard, so = chances[hard], wanted[hard] == 1
    curve = {t: [round(float((of_hard[of] >= t).mean()), 3) for of in (so, ~so)] for t in np.arange(2, 19) / 20}
    return results | {"curve": curve, "calibration_error": round(calibration_error(of_hard, wanted[hard]), 3)}


def share(hits: Any) -> list[float]:
    """A share with its 95 % interval (Wilson)."""
    count, p, z = len(hits), float(hits.mean()), 1.96
    middle = (p + z * z / (2 * count)) / (1 + z * z / count)
    reach = z * ((p * (1 - p) / count + z * z / (4 * count * count)) ** 0.5) / (1 + z * z / count)
    return [round(value, 3) for value in (p, max(0.0, middle - reach), min(1.0, middle + reach))]


async def run(*, write: bool, test: bool) -> None:
    """Fit and measure, or measure what is written; and write the weights if asked to."""
    said = list(read_authors(DATA / "voice" / "test")) if test else [*read_authors(DATA / "voice"), *read_others()]
    vectors = await vectors_of([one.text for one in said])
    if test:
        chances = chances_of(np.asarray(vectors, np.float32), "voice")
    else:
        wanted = [[np.nan if answer is None else answer for answer in one.answers] for one in said]
        weights = np.array([WEIGHTS.get(one.author.split("/")[0], 1.0) for one in said])
        chances, network = crossed(vectors, np.array(wanted, dtype=float), weights, folds_of(said))
        if write:
            store(network, "voice")
    results = {}
    for place, question in enumerate(QUESTIONS):
        known = [n for n, one in enumerate(said) if one.answers[place] is not None]
        results[question] = measure(question, [said[n] for n in known], chances[known, place])
    report(heed_from=HEED_FROM, believe_from=BELIEVE_FROM, **results)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the weights into the package")
    parser.add_argument("--test", action="store_true", help="measure what is written on data/voice/test")
    arguments = parser.parse_args()
    asyncio.run(run(write=arguments.write, test=arguments.test))
