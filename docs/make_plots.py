"""Draws plots for the site from the tables of its pages, so that a plot and its table cannot disagree."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

Table = list[list[str]]
_GREY = "#808080"  # is read on white and on black
_COLOURS = ["#00897b", "#9e9e9e", "#bdbdbd", "#78909c"]


def plots(page: str, markdown: str) -> dict[str, tuple[str, str]]:
    """For the tables of a page that have a plot: the name of its file, the first line of the table, and the SVG."""
    return {name: (header, draw(table(markdown, header))) for (on, name, header), draw in _DRAWN.items() if on == page}


def table(markdown: str, header: str) -> Table:
    """The cells of the table that begins with this line.

    Raises:
        ValueError: The page has no such table.
    """
    if f"{header}\n" not in markdown:
        raise ValueError(f"no table begins with {header}: draw another one in docs/make_plots.py")
    lines = markdown[markdown.index(header + "\n") :].partition("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in [lines[0], *lines[2:]]]


def compare_searches(cells: Table) -> str:
    """Bars with their intervals: each set, by each way to search."""
    figure, axes = _figure()
    ways = cells[0][1:]
    for place, way in enumerate(ways):
        shown = [re.findall(r"\.\d+", row[place + 1]) for row in cells[1:]]
        values = [[float(number) for number in numbers] for numbers in shown]
        heights = [value[0] for value in values]
        spans = [[v - low for v, low, _ in values], [high - v for v, _, high in values]]
        at = [row + (place - 1.5) * 0.2 for row in range(len(values))]
        axes.bar(at, heights, 0.19, yerr=spans, color=_COLOURS[place], ecolor=_GREY, label=way, error_kw={"lw": 0.8})
    axes.set_xticks(range(len(cells) - 1), [row[0].replace(", ", ",\n") for row in cells[1:]])
    axes.set_ylabel("recall@10")
    return _svg(figure, axes)


def compare_shares(cells: Table) -> str:
    """A line for each set: recall@10 by the share of meaning."""
    figure, axes = _figure()
    shares = [float(share) for share in cells[0][1:]]
    for row in cells[1:]:
        axes.plot(shares, [float(re.findall(r"\.\d+", cell)[0]) for cell in row[1:]], marker="o", ms=3, label=row[0])
    axes.set_xlabel("share of meaning; the rest is words")
    axes.set_ylabel("recall@10")
    return _svg(figure, axes)


def compare_sizes(cells: Table) -> str:
    """Milliseconds by the number of memories in one workspace."""
    figure, axes = _figure()
    rows = [row for row in cells[1:] if "each" not in row[0]]
    sizes = [int(re.sub(r"\D", "", row[0])) for row in rows]
    for place, name in enumerate(cells[0][1:4], 1):
        axes.plot(sizes, [float(row[place].split()[0]) for row in rows], marker="o", ms=4, label=name)
    axes.set_xscale("log")
    axes.set_xlabel("memories in the workspace")
    axes.set_ylabel("milliseconds, median")
    return _svg(figure, axes)


def compare_workspace_sizes(cells: Table) -> str:
    """Milliseconds of a recall by the number of memories in its workspace: the median, and the 95th percentile."""
    figure, axes = _figure()
    sizes = [int(re.sub(r"\D", "", row[0])) for row in cells[1:]]
    times = [[float(number) for number in re.findall(r"\d+", row[1])] for row in cells[1:]]
    for place, name in enumerate(("median", "95th percentile")):
        axes.plot(sizes, [both[place] for both in times], marker="o", ms=4, label=name)
    axes.set_xscale("log")
    axes.set_xlabel("memories in the workspace")
    axes.set_ylabel("milliseconds a recall")
    return _svg(figure, axes)


_ONE_WORKSPACE = (
    "| memories in one workspace | a recall, median (95th percentile) | of the exact ten | of words, the exact ten"
    " | building the index |"
)
_DRAWN: dict[tuple[str, str, str], Callable[[Table], str]] = {
    ("retrieval.md", "searches", "| | recall | cosine | BM25 | reciprocal ranks of the two |"): compare_searches,
    ("retrieval.md", "shares", "| | 0 | .4 | .5 | .6 | .7 | .8 | .9 | 1 |"): compare_shares,
    ("architecture.md", "sizes", "| memories | recall | sql | vector | of the exact hybrid ten |"): compare_sizes,
    ("scaling.md", "workspace-sizes", _ONE_WORKSPACE): compare_workspace_sizes,
}


def _figure() -> tuple[Figure, Any]:
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    return figure, figure.subplots()


def _svg(figure: Figure, axes: Any) -> str:
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=_GREY, labelsize=8)
    for part in (*axes.spines.values(), axes.xaxis.label, axes.yaxis.label):
        part.set_color(_GREY)
    figure.legend(frameon=False, fontsize=8, labelcolor=_GREY, ncols=4, loc="outside upper center")
    written = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "font.family": "sans-serif"}):
        figure.savefig(written, format="svg", transparent=True, metadata={"Date": None})
    return written.getvalue()
