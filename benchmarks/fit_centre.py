"""What do all vectors of the offline model have in common? Writes `reme_core/store/centre.json`.

    python -m benchmarks.fit_centre

The mean vector of messages to assistants, English and Chinese (data/talk_*.txt and data/worth_*.txt), which are in none
of the sets that retrieval is measured on. `SHARE` of it is taken from a query: on the sets .3 to .9 find as much.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import numpy as np

from benchmarks.common import report
from benchmarks.remembered import RememberingEmbedder
from reme_core.models.local import LocalEmbedder

DATA = Path(__file__).parent / "data"
FILES = ("talk_en.txt", "talk_zh.txt", "worth_en.txt", "worth_zh.txt")
MOST = 400
"""Messages of each file, spread over it."""
SHARE = 0.5
CENTRE = Path(__file__).parents[1] / "reme_core" / "store" / "centre.json"


def messages(name: str) -> list[str]:
    """Messages of a file, in which each has a line of its own behind a sign for what it tells."""
    lines = (DATA / name).read_text(encoding="utf-8").splitlines()
    said = [line[2:].strip() for line in lines if line.startswith(("+ ", "- "))]
    return [said[place] for place in np.linspace(0, len(said) - 1, min(MOST, len(said))).astype(int)]


async def run() -> None:
    """Embed, and write the share of the mean that is taken from a query."""
    embedder = RememberingEmbedder(LocalEmbedder())
    texts = [text for name in FILES for text in messages(name)]
    mean = (await embedder.embed(texts, "passage")).mean(axis=0)
    about = {"command": "python -m benchmarks.fit_centre", "data": f"{len(texts)} messages of {', '.join(FILES)}"}
    axis = [round(float(number), 4) for number in SHARE * mean]
    CENTRE.write_text(json.dumps({"about": about, "models": {embedder.name: axis}}) + "\n", encoding="utf-8")
    report(benchmark="centre", messages=len(texts), length=round(float(np.linalg.norm(mean)), 3))


if __name__ == "__main__":
    asyncio.run(run())
