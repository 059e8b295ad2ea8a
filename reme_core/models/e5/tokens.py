"""The tokenizer of the offline model: it cuts a text into pieces of the vocabulary, by the most probable division."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from reme_core.models.e5.weights import Weights

SPACE: Final = "▁"
"""The vocabulary's sign for a space. Pieces have it at their beginning only, so each word can be cut by itself."""
WORDS_KEPT: Final = 20_000
"""Words whose pieces are kept in memory: most words of a text have come before."""
LONGEST_KEPT: Final = 24
"""Characters of a word that is kept: longer ones are data or sentences without spaces, and seldom come again."""


class Tokenizer:
    """The tokenizer of XLM-RoBERTa."""

    def __init__(self, weights: Weights) -> None:
        self._characters = weights.characters
        self._ids = {piece: number for number, piece in enumerate(weights.pieces)}
        self._longest = max(map(len, self._ids))
        del self._ids[weights.pieces[weights.unknown]]
        self._scores = weights.scores.data
        self._unknown = weights.unknown
        self._unknown_score = min(self._scores) - 10  # lower than that of every piece
        self._divide_often = lru_cache(WORDS_KEPT)(self._divide)

    def ids(self, text: str) -> list[int]:
        """The numbers of the pieces of a text."""
        plain = re.sub(" {2,}", " ", text.translate(self._characters)).replace(" ", SPACE)
        if not plain.startswith(SPACE):
            plain = SPACE + plain
        found: list[int] = []
        for word in re.findall(f"{SPACE}[^{SPACE}]*", plain):
            found += self._divide_often(word) if len(word) <= LONGEST_KEPT else self._divide(word)
        return found

    def _divide(self, word: str) -> list[int]:
        # The algorithm of Viterbi: `best[n]` is the score of the best division of the first n characters, and `last[n]`
        # the last piece of that division and where it begins.
        ids, scores = self._ids, self._scores
        best = [0.0] + [float("-inf")] * len(word)
        last = [(self._unknown, 0)] * (len(word) + 1)
        for start, reached in enumerate(best[:-1]):
            reached = best[start]  # noqa: PLW2901 - it has grown since the loop began
            for end in range(start + 1, min(len(word), start + self._longest) + 1):
                piece = ids.get(word[start:end])
                if piece is not None and (score := reached + scores[piece]) > best[end]:
                    best[end], last[end] = score, (piece, start)
            if (score := reached + self._unknown_score) > best[start + 1]:
                best[start + 1], last[start + 1] = score, (self._unknown, start)
        found = []
        end = len(word)
        while end:
            piece, end = last[end]
            found.append(piece)
        return found[::-1]
