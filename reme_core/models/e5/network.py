"""The network of the offline model: an encoder of twelve layers that multiplies matrices in integers.

Activations are quantised to eight bits row by row; a row is a token. So the numbers of a token don't depend on the
other texts that are embedded with it. Every text has a token of large numbers, which costs the others no precision.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from reme_core.models.e5.onnx_file import MICROSOFT, Network, Value
from reme_core.models.e5.weights import Floats, Weights, dequantise

LARGEST_WEIGHT: Final = 64
"""The largest weight as an integer."""
# Processors without VNNI add two products in 16 bits, and 2 × 255 × 64 fits. The weights are stored in four bits, so
# seven bits are enough for them.
GELU_LEAST: Final = 0.17
"""GELU is never below the negative of this. With it added, no number has a sign, and all eight bits are used."""

MIDDLE: Final = range(5, 10)
"""The layers whose rows are added up as the second result, of twelve."""

_LAST = np.array([-1])  # as axes: the last one, which is a token's numbers; as a shape: all in one row


def e5_model(weights: Weights) -> bytes:
    """The network as an ONNX file.

    The network takes `x`, the embeddings of the tokens of several texts of equal length, one text after the other, and
    `shape`: the number of texts, the tokens of each, and three times the width. It gives the last layer's row of each
    token, and the sum of those of the `MIDDLE` layers.
    """
    builder = _Builder(weights)
    hidden = builder.normalise("x", "emb.ln")
    middle = []
    for layer in range(weights.layers):
        hidden = builder.layer(hidden, f"l{layer}")
        if layer in MIDDLE:
            middle.append(hidden)
    inputs: dict[Value, tuple[str, list[str | int]]] = {
        "x": ("float32", ["rows", weights.width]),
        "shape": ("int64", [3]),
    }
    return builder.network.model(inputs, hidden, builder.network.add("Sum", *middle))


class _Builder:
    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.network = Network()
        rows = self.network.add("Shape", "x", start=0, end=1)
        self._zeros = {n: self.network.add("Expand", np.full(1, n, np.uint8), rows) for n in (0, 128)}

    def layer(self, x: Value, name: str) -> Value:
        add, width, inner = self.network.add, self.weights.width, self.weights.inner
        y, bias = self.product(x, [f"{name}.q", f"{name}.k", f"{name}.v"], width)
        thirds = self.network.add_many(3, "Split", add("Reshape", y, "shape"), np.full(3, width), axis=-1)
        y = add("MultiHeadAttention", *thirds, bias, domain=MICROSOFT, num_heads=self.weights.heads)
        y, bias = self.product(add("Reshape", y, np.array([-1, width])), [f"{name}.ao"], width)
        x = self.normalise(add("Add", add("Add", y, bias), x), f"{name}.aln")
        y, bias = self.product(x, [f"{name}.fi"], width)
        y = add("Gelu", add("Add", y, bias), domain=MICROSOFT)
        y, bias = self.product(y, [f"{name}.fo"], inner, least=GELU_LEAST)
        return self.normalise(add("Add", add("Add", y, bias), x), f"{name}.oln")

    def normalise(self, x: Value, name: str) -> Value:
        scale, shift = (self.weights.floats(f"{name}.{part}") for part in "wb")
        return self.network.add("LayerNormalization", x, scale, shift, epsilon=self.weights.epsilon)

    def product(self, x: Value, names: list[str], columns: int, least: float = 0.0) -> tuple[Value, Floats]:
        # Gives x times one or several matrices side by side, and the bias that the caller has to add. With `least`, no
        # x is below its negative; without, x may be anything around 0.
        add = self.network.add
        matrix = np.concatenate([dequantise(self.weights.blocks(f"{name}.w", columns)) for name in names])
        bias = np.concatenate([self.weights.floats(f"{name}.b") for name in names])
        steps = np.abs(matrix).max(axis=1) / np.float32(LARGEST_WEIGHT)
        quantised = np.round(matrix / steps[:, None]).astype(np.int8)
        if least:
            x, zero = add("Add", x, np.float32(least)), 0
            scales = add("Mul", add("ReduceMax", x, _LAST), np.float32(1 / 255))
            bias = bias - np.float32(least) * quantised.sum(axis=1) * steps
        else:
            zero = 128
            scales = add("Mul", add("ReduceMax", add("Abs", x), _LAST), np.float32(1 / 127))
        rows = add("QuantizeLinear", x, add("Reshape", scales, _LAST), self._zeros[zero], axis=0)
        operands = rows, quantised.T, np.float32(1), steps, np.uint8(zero)
        product = add("MatMulIntegerToFloat", *operands, domain=MICROSOFT)
        return add("Mul", product, scales), bias.astype(np.float32)
