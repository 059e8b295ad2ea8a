"""Does recall find what answers a question? Measured on any sets, beside plain searches of the same data.

    python -m benchmarks.retrieval FILE… [--conversations N] [--shares 0 0.5 1] [--quoted]

`benchmarks/sets.py` tells of the forms of files. Each conversation becomes a workspace; its questions are asked through
the public API. Beside it stand plain cosine of the same embedding model, BM25 (k1 1.2, b 0.75) and the reciprocal rank
fusion of the two (k 60), over the same texts. Intervals are 95 % by bootstrap over conversations; where a set has fewer
than five, over its questions. `--shares` measures other shares of the vector leg as well: 1 is meaning alone, 0 words
alone. With `--quoted`, what is searched is the memories that are made of messages without a chat model. Vectors are
kept on disk (`benchmarks/remembered.py`). The last line is a JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.common import fresh_reme, interval, percentiles, report
from benchmarks.remembered import RememberingEmbedder, remember_vectors
from benchmarks.sets import Conversation, read
from reme_core.engine import Engine
from reme_core.models.base import Embedder
from reme_core.settings import VectorShares, WorkerSettings
from reme_core.store.change import searched_text
from reme_core.store.filters import Filters
from reme_core.store.messages import passage
from reme_core.text.terms import terms
from reme_core.types import Memory, Message

DEPTHS = (1, 5, 10, 20)
MEASURES = (*(f"recall@{depth}" for depth in DEPTHS), "all@10", "hit@5", "MRR", "NDCG@10")
ENOUGH_CONVERSATIONS = 5
TIMED = 50
"""Questions of each set that are timed with their embedding."""

Array = npt.NDArray[np.float64]


def judge(found: Sequence[str], evidence: frozenset[str]) -> list[float]:
    """The `MEASURES` of one question."""
    ranks = [rank for rank, name in enumerate(found, 1) if name in evidence]
    recalls = [sum(rank <= depth for rank in ranks) / len(evidence) for depth in DEPTHS]
    all_at_10 = float(sum(rank <= 10 for rank in ranks) == len(evidence))
    gained = sum(1 / np.log2(rank + 1) for rank in ranks if rank <= 10)
    best = sum(1 / np.log2(rank + 1) for rank in range(1, 1 + min(len(evidence), 10)))
    return [*recalls, all_at_10, float(bool(ranks) and ranks[0] <= 5), 1 / ranks[0] if ranks else 0.0, gained / best]


class PlainSearch:
    """Cosine and BM25 over the texts of one workspace."""

    def __init__(self, docs: Sequence[Message | Memory], embedder: Embedder) -> None:
        said = [d for d in docs if isinstance(d, Memory) or d.content.strip()]
        self._ids = [d.message_id if isinstance(d, Message) else d.memory_id for d in said]
        self._embedded = [passage(d.content, d.author) if isinstance(d, Message) else searched_text(d) for d in said]
        self._counts = [
            Counter(terms(f"{d.author} {d.content}" if isinstance(d, Message) else f"{d.when_to_use} {d.content}"))
            for d in said
        ]
        self._embedder = embedder
        self._vectors = np.empty((0, 0), np.float32)
        lengths = np.array([sum(counts.values()) for counts in self._counts])
        self._penalty = 1.2 * (0.25 + 0.75 * lengths / lengths.mean())
        self._holding: dict[str, list[int]] = defaultdict(list)
        for place, counts in enumerate(self._counts):
            for term in counts:
                self._holding[term].append(place)

    async def answers(self, query: str) -> dict[str, list[str]]:
        """What each baseline finds, best first."""
        if not len(self._vectors):
            self._vectors = await self._embedder.embed(self._embedded, "passage")
        cosine = np.argsort(-self._vectors @ (await self._embedder.embed([query], "query"))[0], kind="stable")
        scores = np.zeros(len(self._ids))
        for term in set(terms(query)):
            if places := self._holding.get(term):
                count = np.array([self._counts[place][term] for place in places])
                idf = np.log(1 + (len(self._ids) - len(places) + 0.5) / (len(places) + 0.5))
                scores[places] += idf * count * 2.2 / (count + self._penalty[places])
        words = np.argsort(-scores, kind="stable")[: np.count_nonzero(scores)]
        ranks = np.zeros(len(self._ids))
        for order in (cosine[:100], words[:100]):
            ranks[order] += 1 / (60 + np.arange(1, 1 + len(order)))
        fused = np.argsort(-ranks, kind="stable")
        depth = max(DEPTHS)
        orders = {"cosine": cosine, "BM25": words, "reciprocal ranks": fused}
        return {name: [self._ids[place] for place in order[:depth]] for name, order in orders.items()}


class Results:
    """The measures of every question, by system."""

    def __init__(self) -> None:
        self.rows: dict[str, list[list[float]]] = defaultdict(list)
        self.conversation: list[str] = []
        self.category: list[str] = []

    def figures(self, system: str, category: str | None = None) -> dict[str, list[float]]:
        """Of each measure the mean, and the ends of its interval."""
        chosen = np.array([category in (None, own) for own in self.category])
        values = np.array(self.rows[system])[chosen]
        owners = np.array(self.conversation)[chosen]
        if len(set(self.conversation)) < ENOUGH_CONVERSATIONS:
            owners = np.arange(len(values)).astype(str)
        names, own = np.unique(owners, return_inverse=True)
        sums = np.zeros((len(names), len(MEASURES)))
        np.add.at(sums, own, values)
        counts = np.bincount(own).astype(float)
        low, high = interval(sums, counts)
        return {
            name: [round(float(number), 3) for number in ends]
            for name, *ends in zip(MEASURES, values.mean(axis=0), low, high, strict=True)
        }


async def quoted(reme: Engine, conversation: Conversation) -> Conversation:
    """A loaded conversation with the memories made of its messages; those that rest on evidence are evidence."""
    await reme.summarise(conversation.workspace)
    listed = await reme.memories.list(conversation.workspace, Filters(), limit=10_000)
    memories = [await reme.memories.get(conversation.workspace, memory.memory_id) for memory in listed]
    asked = []
    for question in conversation.questions:
        resting = [m.memory_id for m in memories if {source.id for source in m.sources} & question.evidence]
        if resting:
            asked.append(replace(question, evidence=frozenset(resting)))
    return replace(conversation, docs=memories, questions=asked)


async def load(reme: Engine, conversation: Conversation) -> None:
    """Take the documents of a conversation in."""
    if conversation.messages:
        await reme.record(conversation.workspace, conversation.messages, wait=True)
    else:
        await reme.memories.add(conversation.workspace, conversation.memories)


def asked_at(conversation: Conversation) -> datetime | None:
    """When the questions are asked: a minute after the last message; None where there is none."""
    said = [message.sent_at for message in conversation.messages]
    return max(said) + timedelta(minutes=1) if said else None


async def ask(
    reme: Engine, conversations: Sequence[Conversation], results: Results, shares: Sequence[float]
) -> list[float]:
    """Ask all questions of loaded conversations; the seconds that each recall took, its query's vector being known."""
    seconds = []
    usual = reme.settings.recall.vector_share
    embedder = reme._workspace_models.default
    for conversation in track(conversations, "Asking", console=Console(stderr=True)):
        plain = PlainSearch(conversation.docs, embedder)
        kind = "conversation" if conversation.messages else None
        now = asked_at(conversation)
        for asked in conversation.questions:
            await reme.recall(conversation.workspace, asked.text, kind=kind, limit=1)  # which embeds the query
            begun = time.perf_counter()
            found = await reme.recall(conversation.workspace, asked.text, kind=kind, limit=max(DEPTHS), now=now)
            seconds.append(time.perf_counter() - begun)
            results.conversation.append(conversation.workspace)
            results.category.append(asked.category)
            results.rows["recall"].append(judge([hit.memory.memory_id for hit in found.hits], asked.evidence))
            for share in shares:
                reme.settings.recall.vector_share = VectorShares(**dict.fromkeys(VectorShares.model_fields, share))
                found = await reme.recall(conversation.workspace, asked.text, kind=kind, limit=max(DEPTHS), now=now)
                names = [hit.memory.memory_id for hit in found.hits]
                results.rows[f"recall, share {share:g}"].append(judge(names, asked.evidence))
            reme.settings.recall.vector_share = usual
            for name, ids in (await plain.answers(asked.text)).items():
                results.rows[name].append(judge(ids, asked.evidence))
    return seconds


async def embedding_seconds(embedder: RememberingEmbedder, conversations: Sequence[Conversation]) -> list[float]:
    """How long the model takes for some of the questions."""
    texts = [asked.text for conversation in conversations for asked in conversation.questions]
    seconds = []
    for text in texts[:: max(1, len(texts) // TIMED)]:
        begun = time.perf_counter()
        await embedder.inner.embed([text], "query")
        seconds.append(time.perf_counter() - begun)
    return seconds


async def measure(
    conversations: Sequence[Conversation], shares: Sequence[float], *, of_quotes: bool
) -> tuple[Results, dict[str, Any]]:
    """The results of one set, and how long its recalls took."""
    results = Results()
    async with fresh_reme(worker=WorkerSettings(embedded=False)) as reme:
        embedder = remember_vectors(reme)
        for conversation in track(conversations, "Taking in", console=Console(stderr=True)):
            await load(reme, conversation)
        if of_quotes:
            conversations = [await quoted(reme, conversation) for conversation in conversations]
        without = await ask(reme, conversations, results, shares)
        embedding = await embedding_seconds(embedder, conversations)
    return results, {
        "recall_ms": percentiles(without),
        "embedding_ms": percentiles(embedding),
        "together_ms": round((float(np.median(without)) + float(np.median(embedding))) * 1e3, 1),
    }


def show(table: Table, name: str, results: Results) -> dict[str, Any]:
    """Add the rows of a set, and give its figures."""
    figures = {system: results.figures(system) for system in results.rows}
    for system, row in figures.items():
        _add_row(table, f"{name}: {system}", len(results.category), row)
    categories = sorted(set(results.category))
    by_category = {category: results.figures("recall", category) for category in categories}
    if len(categories) > 1:
        for category, row in by_category.items():
            _add_row(table, f"  {category}", results.category.count(category), row)
    table.add_section()
    return {"questions": len(results.category), "systems": figures, "by_category": by_category}


def _add_row(table: Table, label: str, count: int, row: dict[str, list[float]]) -> None:
    cells = [f"{mean:.3f} [dim]{low:.2f}-{high:.2f}[/dim]" for mean, low, high in row.values()]
    table.add_row(label, str(count), *cells)


async def run(paths: Sequence[Path], most: int | None, shares: Sequence[float], *, of_quotes: bool) -> None:
    """Measure every set, and print."""
    sets: dict[str, list[Conversation]] = defaultdict(list)
    for path in paths:
        for conversation in read(path):
            sets[conversation.set].append(conversation)
    table = Table("", "questions", *MEASURES, box=box.SIMPLE)
    figures: dict[str, Any] = {}
    for name, conversations in sets.items():
        chosen = sorted(conversations, key=lambda conversation: len(conversation.docs))[:most]
        results, speed = await measure(chosen, shares, of_quotes=of_quotes)
        docs = sum(len(conversation.docs) for conversation in chosen)
        figures[name] = show(table, name, results) | {"conversations": len(chosen), "documents": docs} | speed
    Console(stderr=True, width=200).print(table)
    for name, row in figures.items():
        print(f"{name}: recall {row['recall_ms']['p50']} ms, with its embedding {row['together_ms']} ms (medians)")
    report(benchmark="retrieval", **figures)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--conversations", type=int, help="of each set, its smallest")
    parser.add_argument("--shares", type=float, nargs="+", default=[], help="of the vector leg, to measure as well")
    parser.add_argument("--quoted", action="store_true", help="search the memories that are made of messages")
    arguments = parser.parse_args()
    asyncio.run(run(arguments.files, arguments.conversations, arguments.shares, of_quotes=arguments.quoted))
