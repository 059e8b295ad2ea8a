"""kill -9 of a process that loads a library or moves a workspace: what was there is there, and nothing is half."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from reme_core.engine import Engine
from reme_core.settings import EmbeddingSettings, Settings
from reme_core.types import Memory
from tests.loopback import Loopback
from tests.store.recount import consistent

COUNT = 2_000

WORK = """
import asyncio, sys
from pydantic import SecretStr
from reme_core.engine import Engine
from reme_core.models.registry import embedder
from reme_core.settings import EmbeddingSettings, Settings

async def main(database, endpoint, action):
    words, others = (
        Settings(database_url=SecretStr(database), embedding_model={
            "default": EmbeddingSettings(model_name=name, base_url=endpoint, api_key=SecretStr("key"))})
        for name in ("words", "others")
    )
    tell = lambda done, total: print(done, flush=True)
    async with Engine(words) as reme:
        if action == "reembed":
            await reme.workspaces.reembed("w", embedder(others), on_progress=tell)
        else:
            await reme.workspaces.load("w", action, replace=True, on_progress=tell)
    print("acknowledged", flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
async def words(settings: Settings, loopback: Loopback) -> AsyncIterator[Engine]:
    model = EmbeddingSettings(model_name="words", base_url=loopback.url, api_key=SecretStr("key"))
    async with Engine(settings.model_copy(update={"embedding_model": {"default": model}})) as opened:
        yield opened


def killed(settings: Settings, loopback: Loopback, action: str, *, at: int, after: float) -> bool:
    """Start the work, kill it `after` seconds from when `at` memories are done; says whether it was acknowledged."""
    assert settings.database_url is not None
    command = [sys.executable, "-c", WORK, settings.database_url.get_secret_value(), loopback.url, action]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if int(line) >= at:
                break
        time.sleep(after)
        process.kill()
        return "acknowledged" in process.stdout.read()


async def settled(reme: Engine) -> None:
    """Wait until Postgres has noticed that the client is gone."""
    await reme.database.fetch("w", "select pg_advisory_xact_lock(hashtextextended('reme.index w', 0))")


@pytest.mark.parametrize("after", [0.0, 0.05, 0.2, 0.5])
async def test_a_killed_load_leaves_the_old_memories_or_all_the_new(
    words: Engine, settings: Settings, loopback: Loopback, tmp_path: Path, after: float
) -> None:
    old = {f"old-{n}" for n in range(50)}
    await words.memories.add("w", [Memory(memory_id=i, content=f"This one is {i}") for i in sorted(old)])
    path = tmp_path / "lib.jsonl"
    rows = [
        {"memory_id": f"new-{n}", "memory_type": "task", "content": f"Do thing {n} carefully"} for n in range(COUNT)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    acknowledged = await asyncio.to_thread(killed, settings, loopback, str(path), at=COUNT, after=after)
    await settled(words)

    there = {m.memory_id for m in await words.memories.list("w", limit=10_000)}
    new = {row["memory_id"] for row in rows}
    assert there == new if acknowledged else there in (old, new)
    assert await consistent(words.database, "w")
    assert await words.workspaces.load("w", path) == COUNT
    assert await consistent(words.database, "w")


@pytest.mark.long
async def test_a_killed_move_serves_on_and_is_taken_up_again(
    words: Engine, settings: Settings, loopback: Loopback
) -> None:
    await words.memories.add("w", [f"Tom bought {n} lamps" for n in range(600)])
    loopback.latency = 1.0  # so that the move is far from its end when it is killed, however slow the killer
    assert not await asyncio.to_thread(killed, settings, loopback, "reembed", at=128, after=0)
    loopback.latency = 0.0
    await settled(words)
    asked, counted = "select embedding_model from workspace", "select count(*) from embedding where model = 'others'"
    ((model,),), ((done,),) = [await words.database.fetch("w", read) for read in (asked, counted)]
    assert model == "words" and 128 <= done < 600
    assert len((await words.recall("w", "Tom bought 7 lamps", limit=5)).hits) == 5

    # The new model is where the old one was, so this process reaches it too.
    moved = await asyncio.to_thread(killed, settings, loopback, "reembed", at=600, after=5)
    assert moved
    assert await words.database.fetch("w", asked) == [("others",)]
    assert await words.database.fetch("w", counted) == [(600,)]
    assert len((await words.recall("w", "Tom bought 7 lamps", limit=5)).hits) == 5
    assert await consistent(words.database, "w")
