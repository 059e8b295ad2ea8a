"""`agent_memory.json` and a workspace: in and out without loss, and never over what somebody else recorded."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from reme_core import ReMe
from reme_core.compat import agent_memory as compat
from reme_core.engine import Engine
from reme_core.episodes.rules import Episode
from reme_core.errors import ConflictError, InputError
from reme_core.settings import Settings
from tests.unit.compat.histories import history


def played(length: int) -> dict[str, Any]:
    memory = compat.new_agent_memory()
    for told in history(length):
        compat.record_episode(memory, told)
        if memory["total_episodes"] % 20 == 0:
            memory["global_rules"].append(f"[CONSOLIDATED] rule {memory['total_episodes']}")
            memory["last_consolidated_at"] = memory["total_episodes"]
    return memory


@pytest.mark.parametrize("length", [10, 100, 300])
async def test_a_file_goes_in_and_comes_out_the_same(settings: Settings, tmp_path: Path, length: int) -> None:
    source, target = tmp_path / "agent_memory.json", tmp_path / "again.json"
    compat.save_agent_memory(played(length), str(source))
    async with Engine(settings) as reme:
        assert await reme.episodes.load("w", source) == min(length, 100)
        assert await reme.episodes.load("w", source) == 0  # it is all there already
        for bounded in (False, True):
            await reme.episodes.dump("w", target, bounded=bounded)
            assert json.loads(target.read_text()) == json.loads(source.read_text())
        memory = json.loads(source.read_text())
        for task in memory["score_history"]:
            assert await reme.episodes.context("w", task) == compat.build_memory_context(memory, task)


async def test_what_has_no_column_is_kept(settings: Settings) -> None:
    memory = played(10) | {"version": 3, "run": {"seed": 7}, "last_consolidated_at": "2024-05-01"}
    memory["episode_log"][0] |= {"timestamp": "yesterday", "reward_model": "v2", "steps": None}
    memory["episode_log"][1] |= {"timestamp": "2024-05-31T18:00:00Z"}
    memory["mistake_cards"][0] |= {"severity": 3}
    async with Engine(settings) as reme:
        await reme.episodes.continue_with("w", copy.deepcopy(memory))
        assert await reme.episodes.as_memory("w") == memory


async def test_recording_goes_on_after_an_import(settings: Settings) -> None:
    memory = played(120)
    compat_view = copy.deepcopy(memory)
    compat_view["episode_log"] = compat_view["episode_log"][-100:]
    async with Engine(settings) as reme:
        await reme.episodes.continue_with("w", compat_view)
        told = {"task_id": "task_a", "score": 0.95, "steps": 3, "successes": ["brand new"], "trajectory_summary": "!"}
        compat.record_episode(memory, told)
        done = await reme.episodes.record("w", told)
        assert [e.number for e in done.episodes] == [121]
        assert await reme.episodes.context("w", "task_a") == compat.build_memory_context(memory, "task_a")
        kept = await reme.episodes.as_memory("w", bounded=True)
        assert kept["task_rules"] == memory["task_rules"] and kept["score_history"] == memory["score_history"]


async def test_an_import_over_other_episodes_is_refused_and_changes_nothing(settings: Settings) -> None:
    async with Engine(settings) as reme:
        await reme.episodes.record("w", Episode(task_id="task_a", score=0.123))
        before = await reme.episodes.as_memory("w")
        with pytest.raises(ConflictError, match="1 scores of task 'task_a' that the memory does not continue"):
            await reme.episodes.continue_with("w", played(10))
        assert await reme.episodes.as_memory("w") == before


async def test_a_broken_file_leaves_the_workspace_as_it_was(settings: Settings, tmp_path: Path) -> None:
    path = tmp_path / "agent_memory.json"
    compat.save_agent_memory(played(10), str(path))
    path.write_bytes(path.read_bytes()[:700])
    async with Engine(settings) as reme:
        with pytest.raises(InputError, match=r"broken at byte \d+"):
            await reme.episodes.load("w", path)
        assert await reme.workspaces.list() == []


def test_the_helpers_functions_work_on_a_workspace(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings.database_url is not None
    monkeypatch.setenv("REME_DATABASE_URL", settings.database_url.get_secret_value())
    memory = compat.load_agent_memory("reme://trainer")
    assert memory == compat.new_agent_memory()
    for told in history(120):
        compat.record_episode(memory, told)
    compat.save_agent_memory(memory, "reme://trainer")
    assert len(memory["episode_log"]) == 100
    with ReMe(settings) as reme:
        assert len(reme.episodes.as_memory("trainer")["episode_log"]) == 120  # the database forgets nothing
    again = compat.load_agent_memory("reme://trainer")
    assert again == memory
    compat.record_episode(again, {"task_id": "task_a", "score": 0.9})
    compat.save_agent_memory(again, "reme://trainer")
    compat.record_episode(memory, {"task_id": "task_a", "score": 0.1})  # a process that has not loaded since
    with pytest.raises(ConflictError, match="somebody else has recorded there"):
        compat.save_agent_memory(memory, "reme://trainer")
    with pytest.raises(InputError, match="names no workspace"):
        compat.load_agent_memory("reme://")


async def test_a_memory_that_json_cannot_hold_is_refused_whole(settings: Settings) -> None:
    async with Engine(settings) as reme:
        for odd, told in ((float("nan"), "a number that is not finite"), ("a\0b", "a NUL character")):
            entry = {"task_id": "t", "score": 1.0, "summary": "fine", "extra": [odd]}
            with pytest.raises(InputError, match=f"the memory holds {told}"):
                await reme.episodes.continue_with("w", compat.new_agent_memory() | {"episode_log": [entry]})
        assert await reme.workspaces.list() == []


async def test_episodes_and_tools_go_with_their_workspace(settings: Settings) -> None:
    async with Engine(settings) as reme:
        await reme.episodes.continue_with("w", played(30))
        await reme.tools.record("w", [{"tool_name": "search", "output": "ok"}])
        await reme.workspaces.copy("w", "twin")
        assert await reme.episodes.as_memory("twin") == await reme.episodes.as_memory("w")
        assert [stats.calls for stats in await reme.tools.statistics("twin")] == [1]
        await reme.tools.record("twin", [{"tool_name": "search", "output": "ok again"}])
        await reme.workspaces.clear("w")
        assert await reme.episodes.as_memory("w") == compat.new_agent_memory()
        assert await reme.tools.statistics("w") == []
        assert [stats.calls for stats in await reme.tools.statistics("twin")] == [2]
