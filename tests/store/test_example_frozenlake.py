"""The example keeps its promise: with memory the agent solves more lakes, and chance alone does not explain it."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from reme_core.engine import Engine
from reme_core.settings import ChatSettings, Settings
from tests.loopback import Loopback
from tests.scripts import load_script


@pytest.fixture
def example() -> ModuleType:
    return load_script("examples/frozenlake.py")


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
        last = example.Trip(told.task_id, [])
        for name in told.summary.removeprefix("Went ").partition(" and ")[0].split(", "):
            down, right = example.MOVES[name]
            row, column = last.cells[-1][0] + down, last.cells[-1][1] + right
            last.cells.append((min(max(row, 0), 3), min(max(column, 0), 3)))
        named = {f"row {row}, column {column}" for row, column in last.cells}
        assert all(mistake.partition(":")[0] in named for mistake in told.mistakes)


def test_the_interval_is_wilsons(example: ModuleType) -> None:
    assert [round(bound, 4) for bound in example.interval(15, 100)] == [0.0931, 0.2328]
    assert example.interval(100, 100)[1] == pytest.approx(1.0)


def test_no_lake_of_the_test_was_practised_on(example: ModuleType) -> None:
    found = example.lakes(seed=1, number=150)
    assert len({"".join(rows) for rows in found}) == 150
    assert not {"".join(rows) for rows in found} <= {"".join(rows) for rows in example.lakes(seed=2, number=150)}


async def test_an_agent_goes_the_way_that_worked_on_another_lake(example: ModuleType) -> None:
    note = "The tools that worked, in this order: down() ×3 → right() ×2 → …"
    trip = example.Trip("lake", ["SFFF", "FFFF", "FFFF", "FFFG"])
    score, fell = await example.walk(example.FollowingAgent(), trip, note, "seed")
    assert trip.moves[:5] == ["down", "down", "down", "right", "right"]
    assert (score, fell) == (1.0, False)


async def test_a_model_walks_other_lakes_with_their_map_and_with_what_was_learned(
    example: ModuleType, settings: Settings, loopback: Loopback
) -> None:
    def answer(body: dict[str, Any]) -> Any:
        if "You walk on a frozen lake" in body["messages"][0]["content"]:
            return {"move": "right"}
        return {"lessons": [{"when_to_use": "On ice", "experience": "Keep off the holes.", "confidence": 1}]}

    loopback.chat(answer)
    settings.llm["default"] = ChatSettings(model_name="m", base_url=loopback.url)
    small = ["--protocol", "transfer", "--practice-maps", "1", "--runs", "1", "--maps", "2", "--seeds", "1"]
    async with Engine(settings) as reme:
        scores = await example.elsewhere(reme, example.MapAgent(reme.chat), example.options(small))
    assert scores == {"memory off": [0.0, 0.0], "memory on": [0.0, 0.0]}
    shown = [body["messages"][0]["content"] for body in loopback.bodies("/chat/completions")]
    assert all(any("\n".join(rows) in system for system in shown) for rows in example.lakes(seed=0, number=3))
