"""Which messages are worth keeping without a chat model? Fits a network, and says how well it does.

    python -m benchmarks.fit_worth                       # measure
    python -m benchmarks.fit_worth --write               # and write reme_core/personal/worth.json

Fitted on six kinds of data: people with their conversations and a key of what there is to know (`--people`; never of
`unseen`); talk of other people with an assistant (`data/talk_*.txt`); what friends write to each other
(`data/friends`); single messages, some as people write them (`data/worth_*.txt`), some short and plain
(`data/plain_*.txt`); and talk by somebody who knew the code and its mistakes (`data/known_*.txt`), so its figures prove
nothing. In the texts `+` tells something lasting, `-` does not, `>` is what the next line answers, `@` begins a
conversation, `#` another person. Every figure is of people that the network was not fitted to: an eighth of them is
left out in turn. Only measured are `data/judge_*.txt`, `data/other_*.txt`, `data/friends/test`, and LoCoMo's turns
(`--locomo`), where a turn matters if it is evidence of a question. The last line is a JSON object.
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

from benchmarks.common import DATA, report
from benchmarks.fitting import Array, calibration_error, crossed, store, vectors_of
from benchmarks.sets import messages_of, questions_of
from reme_core import Message
from reme_core.personal.grounding import is_about_author
from reme_core.personal.judge import is_short, text_to_judge
from reme_core.personal.quotes import KEEP_FROM, KEEP_SHORT_FROM

TEXTS = Path(__file__).parent / "data"
FOLDS = 8
WEIGHTS = {"worth": 0.5}
"""How much a message counts, if not once: single ones teach less of what memory meets than whole conversations."""

AMONG_PEOPLE = ("friends", "locomo")
"""The sources in which people write to each other."""


@dataclass
class Item:
    """One message, and what is known of it."""

    source: str
    """`people` or `locomo`, or with what the name of its file begins."""
    person: str
    message: Message
    before: Message | None
    kind: str
    """`fact` (tells or ends something lasting), `never` (nothing may be remembered of it) or `filler`."""
    facts: frozenset[str] = frozenset()


def read_texts(source: str) -> Iterator[Item]:
    """The messages that were written for this, of the files whose names begin so."""
    for path in sorted(TEXTS.glob(f"{source}_*.txt")):
        person, before = "", None
        for line in path.read_text(encoding="utf-8").splitlines():
            mark, _, text = line.partition(" ")
            message = Message(content=text.replace("\\n", "\n")) if text else None
            if mark == "#":
                person = f"{path.stem}: {text}"
            elif message and mark in "+-":
                yield Item(source, person, message, before, "fact" if mark == "+" else "filler")
            before = message.model_copy(update={"role": "assistant"}) if message and mark == ">" else None


def read_people(folder: Path) -> Iterator[Item]:
    """The messages of the people."""
    for path in sorted(folder.glob("p*.json")):
        person = json.loads(path.read_text(encoding="utf-8"))
        told: dict[str, set[str]] = {}
        for fact in person["facts"]:
            for name in fact["evidence"]:
                told.setdefault(name, set()).add(f"{person['person']}/{fact['id']}")
        ends = {f["ended"]["message"] for f in person["facts"] if (f["ended"] or {}).get("how") in _ENDED_BY_WORDS}
        never = {n["message"] for n in person["never"]}
        for session in person["sessions"]:
            before = None
            for said in session["messages"]:
                name, message = said["id"], Message(role=said["role"], content=said["text"])
                if said["role"] == "user":
                    kind = (
                        "fact" if name in told else "never" if name in never else "fact" if name in ends else "filler"
                    )
                    yield Item("people", person["person"], message, before, kind, frozenset(told.get(name, ())))
                before = message if said["role"] == "assistant" else None


_ENDED_BY_WORDS = ("replaced", "ended", "retracted")
"""Endings that the person tells; a wish to forget is a command, and what elapses is not told at all."""


def read_friends(folder: Path) -> Iterator[Item]:
    """The messages of people who know each other; each pair counts as a person."""
    for path in sorted(folder.glob("*.jsonl")):
        before: Message | None = None
        for line in path.read_text(encoding="utf-8").splitlines():
            raw = json.loads(line)
            message = Message(content=raw["text"], author=raw["speaker"], session_id=raw["conversation"])
            asked = before if before and before.session_id == message.session_id else None
            kind = "fact" if raw["lasting"] else "filler"
            yield Item("friends", f"{path.stem}/{raw['conversation'][0]}", message, asked, kind)
            before = message


def read_locomo(path: Path) -> Iterator[Item]:
    """The turns of the conversations; the facts of a turn are the questions that it is evidence of."""
    for sample in json.loads(path.read_text(encoding="utf-8")):
        asked_of: dict[str, set[str]] = {}
        for number, asked in enumerate(questions_of(sample)):
            for name in asked.evidence:
                asked_of.setdefault(name, set()).add(f"{sample['sample_id']}/{number}")
        before: Message | None = None
        for turn in messages_of(sample["conversation"]):
            answers = before if before and before.session_id == turn.session_id else None
            facts = frozenset(asked_of.get(turn.message_id, ()))
            yield Item("locomo", sample["sample_id"], turn, answers, "fact" if facts else "filler", facts)
            before = turn


def shares(items: Sequence[Item], kept: npt.NDArray[np.bool_]) -> dict[str, float]:
    """The shares that are kept: of all messages, of facts (by any message that tells them), of what tells nothing."""
    facts = {f for i in items for f in i.facts}
    found = {f for i, k in zip(items, kept, strict=True) if k for f in i.facts}
    result = {"all": float(kept.mean())}
    if facts:
        result["facts"] = len(found) / len(facts)
    for kind in ("fact", "never", "filler"):
        of_kind = np.array([i.kind == kind for i in items])
        if of_kind.any():
            result["telling" if kind == "fact" else kind] = float(kept[of_kind].mean())
    result["precision"] = float(np.mean([i.kind == "fact" for i, k in zip(items, kept, strict=True) if k] or [False]))
    return result


def intervals(items: list[Item], kept: npt.NDArray[np.bool_]) -> dict[str, list[float]]:
    """95 % of 500 draws of as many people, with replacement."""
    people = sorted({i.person for i in items})
    own = {p: [n for n, i in enumerate(items) if i.person == p] for p in people}
    draw = np.random.default_rng(0)
    drawn: list[dict[str, float]] = []
    for _ in range(500):
        numbers = [(copy, n) for copy, p in enumerate(draw.choice(people, len(people))) for n in own[p]]
        # A person who is drawn twice tells their facts twice.
        copies = [
            Item("", "", items[n].message, None, items[n].kind, frozenset(f"{copy}/{f}" for f in items[n].facts))
            for copy, n in numbers
        ]
        drawn.append(shares(copies, kept[[n for _, n in numbers]]))
    return {
        key: [round(float(q), 3) for q in np.quantile([d[key] for d in drawn if key in d], [0.025, 0.975])]
        for key in shares(items, kept)
    }


def measure(name: str, items: list[Item], chances: Array) -> dict[str, Any]:
    """What is kept, with intervals, the curve over thresholds, and simple ways to choose as many messages."""
    eased = np.array([is_short(i.message.content) or i.source in AMONG_PEOPLE for i in items])
    is_kept = chances >= np.where(eased, KEEP_SHORT_FROM, KEEP_FROM)
    share = float(is_kept.mean())
    random = np.random.default_rng(0).random(len(items))
    length = np.array([float(len(i.message.content)) for i in items])
    first_person = np.array([is_about_author(i.message.content, i.before.content if i.before else "") for i in items])
    thresholds = sorted({*np.arange(0.1, 0.95, 0.05).round(2), KEEP_FROM})
    choices = {
        "kept": is_kept,
        **{f"from {t:.2f}": chances >= t for t in thresholds},
        **{f"short from {t:.2f}": chances >= np.where(eased, t, KEEP_FROM) for t in (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)},
        "the best 15 %": chances >= np.quantile(chances, 0.85),
        "all": np.ones(len(items), dtype=bool),
        "random, as many": random >= np.quantile(random, 1 - share),
        "longest, as many": length >= np.quantile(length, 1 - share),
        "first person": first_person,
    }
    results = {label: shares(items, kept) for label, kept in choices.items()}
    table = Table("", *results["all"], title=f"{name}: {len(items)} messages")
    for label, row in results.items():
        table.add_row(label, *(f"{row[key]:.3f}" for key in results["all"]))
    Console(stderr=True).print(table)
    rounded = {label: {key: round(value, 3) for key, value in row.items()} for label, row in results.items()}
    return {
        "kept": rounded,
        "interval": intervals(items, is_kept),
        "calibration_error": round(calibration_error(chances, tells(items)), 3),
    }


async def vectors_of_items(items: Sequence[Item]) -> Array:
    """How the messages are put, as recall would judge them."""
    return await vectors_of([text_to_judge(item.message, item.before) for item in items])


def tells(items: Sequence[Item]) -> Array:
    """1 for each message that tells something lasting, else 0."""
    return np.array([float(item.kind == "fact") for item in items])


async def run(people: Sequence[Path], locomo: Path, *, write: bool) -> None:
    """Fit, measure, print, and write the weights if asked to."""
    sources = ("talk", "worth", "plain", "known")
    items = [item for folder in people for item in read_people(folder)]
    items += [item for source in sources for item in read_texts(source)]
    items += read_friends(TEXTS / "friends")
    number = {name: n for n, name in enumerate(dict.fromkeys(item.person for item in items))}
    folds = np.array([number[item.person] % FOLDS for item in items], dtype=np.intp)
    weights = np.array([WEIGHTS.get(item.source, 1.0) for item in items])
    chances, network = crossed(await vectors_of_items(items), tells(items)[:, None], weights, folds)
    results = {}
    for name in ("people", "friends", *sources):
        chosen = [n for n, item in enumerate(items) if item.source == name]
        results[name] = measure(name, [items[n] for n in chosen], chances[chosen, 0])
    others = {name: read_texts(name) for name in ("judge", "other")}
    others["friends, not fitted on"] = read_friends(TEXTS / "friends" / "test")
    if locomo.exists():
        others["LoCoMo"] = read_locomo(locomo)
    for name, foreign in ((name, list(read)) for name, read in others.items()):
        logits = network.logits(await vectors_of_items(foreign))[:, 0]
        results[name] = measure(name, foreign, 1 / (1 + np.exp(-logits)))
    if write:
        store(network, "worth")
    report(keep_from=KEEP_FROM, keep_short_from=KEEP_SHORT_FROM, **results)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = [TEXTS / "people" / name for name in ("dev", "test")]
    parser.add_argument("--people", type=Path, nargs="+", default=known, help="folders of p01.json, …")
    parser.add_argument("--locomo", type=Path, default=DATA / "locomo_dev.json", help="a file in LoCoMo's own format")
    parser.add_argument("--write", action="store_true", help="write the weights into the package")
    arguments = parser.parse_args()
    asyncio.run(run(arguments.people, arguments.locomo, write=arguments.write))
