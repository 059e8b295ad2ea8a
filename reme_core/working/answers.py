"""The answers of the reading tools to a model: short enough to stay in the window, and fenced as data."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from reme_core.prompts.budget import most_tokens
from reme_core.prompts.fence import NOTE, fence
from reme_core.store.artifacts import Match, Piece
from reme_core.working.offload import READ, head_of

MOST: Final = 1_500
"""How many tokens an answer has at most; it must not need offloading itself."""
MOST_READ: Final = 6_000
"""How many characters are read from the database for one answer."""
MOST_FOUND: Final = 50
"""How many lines one search gives at most."""


def grep_answer(matches: Sequence[Match], limit: int) -> str:
    """The lines that were found, each with the offset at which to read on."""
    if not matches:
        return "Nothing that left the window matches; try other words, or a part of them."
    lines = [f"{one.artifact_id} @{one.offset} ({one.source}): {one.line}" for one in matches]
    costs = itertools.accumulate(map(most_tokens, lines))
    shown = [line for line, cost in zip(lines, costs, strict=True) if cost <= MOST]
    # With as many matches as were asked for, the database may have more.
    more = "" if len(shown) == len(matches) < limit else " There may be more; a narrower pattern finds them."
    head = f'To read around a line: {READ}(handle, offset), with the number behind its "@".{more}'
    return fence("\n".join([head, *shown]), NOTE)


def read_answer(piece: Piece) -> str:
    """A piece of an artifact, and how to read on."""
    text = head_of(piece.text, MOST)
    end = piece.offset + len(text)
    more = f'; it goes on with {READ}("{piece.artifact_id}", {end})' if end < piece.length else ""
    return fence(f"{piece.source}, characters {piece.offset} to {end} of {piece.length}{more}:\n{text}", NOTE)
