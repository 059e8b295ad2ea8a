"""What the benchmarks share: a database of their own, percentiles and intervals, and the closing JSON line."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from reme_core import Settings
from reme_core.engine import Engine
from reme_core.models.agent_chat import AgentChat
from reme_core.postgres.embedded.server import EmbeddedServer, stop_embedded

Array = npt.NDArray[np.float64]
_DRAWS = 2_000

DATA = Path(os.environ.get("REME_BENCH_DATA", "../shared/data"))
"""Where real data for benchmarks lies; it is not part of the project."""


@asynccontextmanager
async def fresh_reme(*, chat: AgentChat | None = None, **overrides: Any) -> AsyncIterator[Engine]:
    """An open ReMe on an empty embedded Postgres that is thrown away afterwards (or on `REME_BENCH_DATABASE_URL`)."""
    with tempfile.TemporaryDirectory(prefix="reme-bench-") as folder:
        url = os.environ.get("REME_BENCH_DATABASE_URL")
        settings = Settings(data_dir=Path(folder), database_url=url, **overrides)
        async with Engine(settings, chat=chat) as reme:
            yield reme


@contextmanager
def embedded_server(data_dir: Path) -> Iterator[str]:
    """The URL of an embedded Postgres on this folder, which is stopped in the end, whoever uses it."""
    server = EmbeddedServer.acquire(data_dir)
    try:
        yield server.url
    finally:
        stop_embedded(data_dir)
        server.release()


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Minimum (what it takes when nothing else runs), median and 95th percentile, in milliseconds."""
    least, p50, p95 = np.percentile(np.asarray(seconds) * 1e3, [0, 50, 95])
    return {"min": round(float(least), 3), "p50": round(float(p50), 3), "p95": round(float(p95), 3)}


def interval(sums: Array, counts: Array) -> tuple[Array, Array]:
    """The ends of the 95 % interval of `sums / counts`, by bootstrap over their rows: conversations, people, questions.

    Args:
        sums: A row each, a column each figure.
        counts: How many were summed up, a row each; draws that hold none are left out.
    """
    draws = np.random.default_rng(0).integers(0, len(counts), (_DRAWS, len(counts)))
    drawn = counts[draws].sum(axis=1)
    low, high = np.percentile(sums[draws].sum(axis=1)[drawn > 0] / drawn[drawn > 0, None], [2.5, 97.5], axis=0)
    return low, high


def report(**results: Any) -> None:
    """Print the closing line: one JSON object."""
    print(json.dumps(results))
