"""What the benchmarks share: a database of their own, percentiles, and the closing JSON line."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np

from reme_core import Settings
from reme_core.engine import Engine
from reme_core.models.agent_chat import AgentChat

DATA = Path(os.environ.get("REME_BENCH_DATA", "../shared/data"))
"""Where real data for benchmarks lies; it is not part of the project."""


@asynccontextmanager
async def fresh_reme(*, chat: AgentChat | None = None, **overrides: Any) -> AsyncIterator[Engine]:
    """An open ReMe on an empty embedded Postgres that is thrown away afterwards (or on `REME_BENCH_DATABASE_URL`)."""
    with tempfile.TemporaryDirectory(prefix="reme-bench-") as folder:
        url = os.environ.get("REME_BENCH_DATABASE_URL")
        settings = Settings(data_dir=Path(folder), database_url=url, **overrides)  # type: ignore[arg-type]
        async with Engine(settings, chat=chat) as reme:
            yield reme


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Minimum (what it takes when nothing else runs), median and 95th percentile, in milliseconds."""
    least, p50, p95 = np.percentile(np.asarray(seconds) * 1e3, [0, 50, 95])
    return {"min": round(float(least), 3), "p50": round(float(p50), 3), "p95": round(float(p95), 3)}


def report(**results: Any) -> None:
    """Print the closing line: one JSON object."""
    print(json.dumps(results))
