"""Whether a note holds what answers a question: of memories made without a chat model, of messages, and of both.

    python -m benchmarks.notes FILE…              # conversations in any form of benchmarks/sets.py

Conversations are recorded and summarised, and each question is asked once. A note holds the answer if it holds a part
of the evidence: a message of it, or a memory that quotes one. A note of memories alone or of messages alone has twice
as many as each has in the note of both. Intervals are 95 % by bootstrap over conversations. The last line is a JSON
object.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

import numpy as np

from benchmarks.common import Array, fresh_reme, interval, report
from benchmarks.sets import Conversation, read
from reme_core.engine import Engine
from reme_core.settings import WorkerSettings

WAYS = ("memories alone", "messages alone", "half as many messages", "memories and messages")


async def measure(reme: Engine, conversation: Conversation, top_k: int) -> tuple[Array, float]:
    """Which of the questions each way answers, a row each, and the share of messages that was kept."""
    workspace = conversation.workspace
    await reme.record(workspace, conversation.messages, wait=True)
    await reme.summarise(workspace)
    evidence = {
        m.memory_id: {source.id for source in m.sources} for m in await reme.memories.list(workspace, limit=10_000)
    }
    rows = []
    for asked in conversation.questions:
        memories = await reme.recall(workspace, asked.text, kind="personal", limit=2 * top_k)
        messages = await reme.recall(workspace, asked.text, kind="conversation", limit=2 * top_k)
        quoted = [evidence[hit.memory.memory_id] for hit in memories.hits]
        said = [{hit.memory.memory_id} for hit in messages.hits]
        rest = [ids for ids in said if not ids & set[str]().union(*quoted[:top_k])]
        notes = (quoted, said, said[:top_k], quoted[:top_k] + rest[:top_k])
        rows.append([bool(asked.evidence & set[str]().union(*note)) for note in notes])
    kept = set[str]().union(*evidence.values())
    return np.array(rows, float), len(kept) / len(conversation.docs)


async def main(files: list[Path], top_k: int) -> None:
    """Measure all conversations and print a table."""
    answered, kept = [], []
    async with fresh_reme(worker=WorkerSettings(embedded=False)) as reme:
        for conversation in [one for file in files for one in read(file)]:
            rows, share = await measure(reme, conversation, top_k)
            answered.append(rows)
            kept.append(share)
            print(f"  {conversation.workspace}: {len(rows)} questions, {share:.0%} of the messages kept", flush=True)
    sums, counts = np.array([rows.sum(axis=0) for rows in answered]), np.array([float(len(rows)) for rows in answered])
    low, high = interval(sums, counts)
    results = {}
    for column, way in enumerate(WAYS):
        share = float(sums[:, column].sum()) / float(counts.sum())
        results[way] = {"share": round(share, 3), "low": round(low[column], 3), "high": round(high[column], 3)}
        print(f"{way:22} {share:.1%}  ({low[column]:.1%} to {high[column]:.1%})")
    report(benchmark="notes", top_k=top_k, messages_kept=round(float(np.mean(kept)), 3), **results)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--top-k", type=int, default=5, help="memories, and as many messages, in the note of both")
    arguments = parser.parse_args()
    asyncio.run(main(arguments.files, arguments.top_k))
