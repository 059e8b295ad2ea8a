"""The example keeps its promise: with memory the agent solves more lakes, and chance alone does not explain it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    path = Path(__file__).parents[2] / "examples" / "frozenlake.py"
    spec = importlib.util.spec_from_file_location("frozenlake", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "frozenlake", module)
    spec.loader.exec_module(module)
    return module


async def test_memory_on_beats_memory_off_beyond_the_interval(
    example: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = example.options(["--maps", "30", "--practice", "5", "--output", str(tmp_path)])
    assert await example.main(given)
    assert "memory off" in capsys.readouterr().out
    assert (tmp_path / "frozenlake.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "frozenlake.svg").read_text()


async def test_the_agent_is_told_only_what_it_stepped_on(example: ModuleType) -> None:
    for seed in range(20):
        told = await example.play(example.RuleAgent(), seed, 0, "")
        last = example.Trip(told.task_id)
        for name in told.summary.removeprefix("Went ").partition(" and ")[0].split(", "):
            down, right = example.MOVES[name]
            row, column = last.cells[-1][0] + down, last.cells[-1][1] + right
            last.cells.append((min(max(row, 0), 3), min(max(column, 0), 3)))
        named = {f"row {row}, column {column}" for row, column in last.cells}
        assert all(mistake.partition(":")[0] in named for mistake in told.mistakes)


def test_the_interval_is_wilsons(example: ModuleType) -> None:
    assert [round(bound, 4) for bound in example.interval(15, 100)] == [0.0931, 0.2328]
    assert example.interval(100, 100)[1] == pytest.approx(1.0)
