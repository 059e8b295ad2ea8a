"""The harness of faults: it finds what is planted into the library, and in small, it finds nothing in the library."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PLANT = """
import itertools

from reme_core import engine
from reme_core.store.memories import Memories
from reme_core.store.recall import Recall
from reme_core.types import Memory

numbers, first = itertools.count(), {}
record, add, get, delete, recall = engine.record, Memories.add, Memories.get, Memories.delete, Recall.__call__

async def lose(database, workspace, messages, **more):
    return list(messages) if next(numbers) % 4 == 0 else await record(database, workspace, messages, **more)

async def double(self, workspace, memory, **more):
    if next(numbers) % 4 == 0:
        await add(self, workspace, Memory(content=memory.content))
    return await add(self, workspace, memory, **more)

async def read_once(self, workspace, memory_id):
    return first.setdefault(memory_id, await get(self, workspace, memory_id))

async def close(self, workspace, memory_id, *, erase):
    return await delete(self, workspace, memory_id)

async def ask_elsewhere(self, workspace, *given, **more):
    where = workspace[:-1] + "0" if next(numbers) % 4 == 0 else workspace
    return await recall(self, where, *given, **more)

engine.record, Recall.__call__ = lose, ask_elsewhere
Memories.add, Memories.get, Memories.delete = double, read_once, close
"""


def strike(folder: Path, *arguments: str) -> tuple[dict[str, list[str]], subprocess.CompletedProcess[str]]:
    """What one short run of the harness found."""
    command = [sys.executable, "-m", "benchmarks.faults", "--runs", "1", "--seconds", "5", "--folder", str(folder)]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=300, check=False)
    [verdict] = folder.glob("*/verdict.json")
    found: dict[str, Any] = json.loads(verdict.read_text())
    return found, done


@pytest.mark.long
def test_faults_that_are_planted_are_found(tmp_path: Path) -> None:
    plant = tmp_path / "plant.py"
    plant.write_text(PLANT)
    # On a busy machine, five seconds were too few calls for each of the faults to happen.
    found, done = strike(tmp_path / "histories", "--kinds", "nothing", "--plant", str(plant), "--seconds", "15")
    assert done.returncode == 1
    for failure, told in {
        "lost": "is not in message",
        "doubled": "is there 2 times",
        "stale": "read of ",
        "resurrected": "memory holds ",
        "across": "recall in ",
    }.items():
        assert any(told in one for one in found[failure]), (failure, done.stdout)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["client_killed", "server_killed"])
def test_nothing_is_found_in_the_library(tmp_path: Path, kind: str) -> None:
    found, done = strike(tmp_path / "histories", "--kinds", kind)
    assert (found, done.returncode) == ({failure: [] for failure in found}, 0), done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["failures"] == 0
