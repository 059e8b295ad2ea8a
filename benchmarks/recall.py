"""What does a recall cost over the SQL that it needs?

    python -m benchmarks.recall --memories 10000 [--workspaces 1] [--zipf]

Measured in turns on the same data: `recall`, the public API with the vector given; `sql`, the same hybrid statement by
hand on a connection of the same pool; `vector_sql`, only its vector leg, by the best plan there is; `numpy`, a
resident matrix of all vectors of a workspace, as a lower bound for exact search. `recall_at_10` compares the hits with
the exact answer: no HNSW, every posting of every term; `bm25_at_10` does so for words alone. With `--zipf`, the texts
are the hard case for words (see benchmarks/synthetic.py).
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from pgvector import HalfVector
from rich.console import Console
from rich.progress import track

from benchmarks import synthetic
from benchmarks.common import fresh_reme, percentiles, report
from reme_core.engine import Engine
from reme_core.settings import VectorShares
from reme_core.store import recall_sql
from reme_core.store.index import hnsw, postings
from reme_core.store.relevance import Match, Question

Vector = npt.NDArray[np.float32]
DIMENSIONS = 384
LIMIT = 10


async def timed(rounds: int, ways: dict[str, Callable[[int], Awaitable[Any]]]) -> dict[str, list[float]]:
    """Seconds of each round, by way: they take turns of a tenth of the rounds, after a tenth for warming up.

    So all of them meet the same moods of the machine.
    """
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    turn = max(1, rounds // 10)
    for start in range(-turn, rounds, turn):
        for name, way in ways.items():
            for n in range(start, min(start + turn, rounds)):
                begun = time.perf_counter()
                await way(n)
                if n >= 0:
                    seconds[name].append(time.perf_counter() - begun)
    return seconds


async def load(reme: Engine, total: int, workspaces: int, text: synthetic.Text) -> dict[str, tuple[list[Any], Vector]]:
    """Fill the workspaces evenly; what was put in, by workspace."""
    each = total // workspaces
    held = {}
    for number in track(range(workspaces), "Loading", console=Console(stderr=True)):
        memories, vectors = synthetic.memories(each, dimensions=DIMENSIONS, seed=number, text=text)
        name = f"workspace-{number}"
        for start in range(0, each, 1_000):
            await reme.memories.add(name, memories[start : start + 1_000], embeddings=vectors[start : start + 1_000])
        held[name] = (memories, vectors)
    for name in held:  # which would otherwise be done in the background, while it is measured
        await hnsw.ensure(reme.database, name, exact_below=reme.settings.recall.exact_below)
        await postings.merge(reme.database, name)
    async with reme.database.owner_connection() as connection:
        await connection.execute("vacuum analyze")
        await connection.execute("checkpoint")
    return held


async def bound_model(reme: Engine, workspace: str) -> str:
    """The model whose vectors the workspace holds."""
    return str((await reme.database.fetch(workspace, "select embedding_model from reme.workspace"))[0][0])


def by_hand(width: int | None, model: str, workspace: str, query: str, vector: Vector) -> tuple[str, dict[str, Any]]:
    """The hybrid statement with its values, as somebody would write it who needs nothing else."""
    question = Question(workspace, query, vector, model, LIMIT)
    plan = recall_sql.Plan(hnsw_dimensions=width)
    return recall_sql.prepare(question, plan)


def vector_leg(
    width: int | None, model: str, workspace: str, vector: Vector, limit: int = LIMIT
) -> tuple[str, tuple[Any, ...]]:
    """The nearest by vector alone: through the index of this width, or with None by comparing all."""
    cast = f"::halfvec({width})" if width else ""
    chosen = f"model = '{model}' and hnsw" if width else f"model = '{model}'"
    text = (
        f"select document_id, embedding{cast} <#> %b::halfvec{cast.removeprefix('::halfvec')} as distance"
        f" from reme.embedding where workspace_id = %s and {chosen} order by distance limit {limit}"
    )
    return text, (HalfVector(vector), workspace)


async def run(total: int, workspaces: int, rounds: int, text: synthetic.Text) -> None:
    """Load, measure in turns, print."""
    async with fresh_reme() as reme:
        held = await load(reme, total, workspaces, text)
        names = list(held)
        rng = np.random.default_rng(7)
        asked = []
        for n in range(rounds):
            name = names[int(rng.integers(len(names)))]
            asked.append((name, *synthetic.queries(*held[name], 1, seed=n)[0]))
        model = await bound_model(reme, names[0])
        served = await reme.database.fetch(names[0], "select hnsw from reme.workspace")
        width = DIMENSIONS if served[0][0] else None

        async with reme.database.owner_connection() as connection:
            await connection.execute("set hnsw.ef_search = 100")

            async def through_api(n: int) -> None:
                name, query, vector = asked[n]
                await reme.recall(name, query, embedding=vector, limit=LIMIT)

            async def through_sql(n: int) -> None:
                cursor = await connection.execute(*by_hand(width, model, *asked[n]))
                await cursor.fetchall()

            async def vector_only(n: int) -> None:
                name, _, vector = asked[n]
                cursor = await connection.execute(*vector_leg(width, model, name, vector))
                await cursor.fetchall()

            async def with_numpy(n: int) -> None:
                name, _, vector = asked[n]
                scores = held[name][1] @ vector
                best = np.argpartition(-scores, min(LIMIT, len(scores) - 1))[:LIMIT]
                best[np.argsort(-scores[best])]

            seconds = await timed(
                rounds, {"recall": through_api, "sql": through_sql, "vector_sql": vector_only, "numpy": with_numpy}
            )
        agreement, of_words = await agree(reme, asked[: min(rounds, 100)], every_posting=width is None)

    medians = {name: float(np.median(values)) for name, values in seconds.items()}
    report(
        memories=total,
        workspaces=workspaces,
        hnsw=width is not None,
        **{f"{name}_ms": percentiles(values) for name, values in seconds.items()},
        ratio_to_sql=round(medians["recall"] / medians["sql"], 2),
        ratio_to_vector_sql=round(medians["recall"] / medians["vector_sql"], 2),
        recall_at_10=round(agreement, 3),
        bm25_at_10=round(of_words, 3),
    )


async def agree(reme: Engine, asked: list[tuple[str, str, Vector]], *, every_posting: bool) -> tuple[float, float]:
    """The share of the exact answer that recall gives, of both legs, and of words alone; fewer hits count as misses."""
    whole, words = recall_sql.Plan(), VectorShares(personal=0)
    shares = []
    for name, query, vector in asked:
        question = Question(name, query, vector, await bound_model(reme, name), LIMIT)

        async def best(plan: recall_sql.Plan, question: Question = question) -> list[Match]:
            return list((await recall_sql.find(reme.database, question, plan)).matches)

        found = await reme.recall(name, query, embedding=vector, limit=LIMIT)
        right = {match.memory["memory_id"] for match in await best(whole)}
        last = (await best(replace(whole, shares=words)))[-1].score
        high = [
            match.score > last - 1e-6
            for match in await best(recall_sql.Plan(shares=words, every_posting=every_posting))
        ]
        shares.append((len(right & {hit.memory.memory_id for hit in found.hits}) / len(right), sum(high) / LIMIT))
    both, of_words = np.mean(shares, axis=0)
    return float(both), float(of_words)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--workspaces", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument(
        "--zipf", action="store_true", help="texts of 3,000 words, the commonest in nearly every memory"
    )
    options = parser.parse_args()
    text = synthetic.ZIPF if options.zipf else synthetic.NATURAL
    asyncio.run(run(options.memories, options.workspaces, options.rounds, text))
