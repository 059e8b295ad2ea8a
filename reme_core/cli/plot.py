"""A line plot for the terminal, drawn in Braille: each character holds two by four dots."""

from __future__ import annotations

from collections.abc import Sequence

_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))


def line_plot(values: Sequence[float], *, width: int, height: int = 10) -> str:
    """Draw values from left to right, with an axis at the left; values below 0 or above 1 are clipped.

    >>> print(line_plot([0, 0.5, 1], width=6, height=3))
    1.00 ┤    ⣠⠞
         │  ⣠⠞⠁
    0.00 ┤⣠⠞⠁
    """
    import numpy as np

    cells = [[0] * width for _ in range(height)]
    columns, rows = width * 2, height * 4
    before: int | None = None
    places = np.linspace(0, len(values) - 1, columns if len(values) > 1 else len(values))
    for column, value in enumerate(np.interp(places, range(len(values)), values) if values else ()):
        row = round((1 - min(max(value, 0), 1)) * (rows - 1))
        # Between two columns the line is drawn vertically, so that it has no gaps where it is steep.
        top, bottom = sorted((row, row if before is None else before))
        for dot in range(top, bottom + 1):
            cells[dot // 4][column // 2] |= _DOTS[column % 2][dot % 4]
        before = row
    axis = {0: "1.00 ┤", height - 1: "0.00 ┤"}
    lines = ("".join(chr(0x2800 + dots) if dots else " " for dots in line).rstrip() for line in cells)
    return "\n".join(axis.get(y, "     │") + line for y, line in enumerate(lines))
