"""`agent_memory.json` and a workspace: in and out without loss, and never over what somebody else recorded."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from pydantic import SecretStr

from reme_core import ReMe
from reme_core.compat import agent_memory as compat
from reme_core.engine import Engine
from reme_core.episodes.rules import Episode, MistakeCard
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
async def test_a_file_goes_in_and_comes_out_the_same(reme: Engine, tmp_path: Path, length: int) -> None:
    source, target = tmp_path / "agent_memory.json", tmp_path / "again.json"
    compat.save_agent_memory(played(length), str(source))
    assert await reme.episodes.load("w", source) == min(length, 100)
    assert await reme.episodes.load("w", source) == 0  # it is all there already
    for bounded in (False, True):
        await reme.episodes.dump("w", target, bounded=bounded)
        assert json.loads(target.read_text()) == json.loads(source.read_text())
    memory = json.loads(source.read_text())
    for task in memory["score_history"]:
        assert await reme.episodes.context("w", task) == compat.build_memory_context(memory, task)


async def test_what_has_no_column_is_kept(reme: Engine) -> None:
    memory = played(10) | {"version": 3, "run": {"seed": 7}, "last_consolidated_at": "2024-05-01"}
    memory["episode_log"][0] |= {"timestamp": "yesterday", "reward_model": "v2", "steps": None}
    memory["episode_log"][1] |= {"timestamp": "2024-05-31T18:00:00Z"}
    memory["episode_log"][2] |= {"timestamp": "2024-05-31T18:00:00+02:00"}
    memory["mistake_cards"][0] |= {"severity": 3}
    assert await reme.episodes.continue_with("w", copy.deepcopy(memory)) == 10
    assert await reme.episodes.as_memory("w") == memory
    assert await reme.episodes.continue_with("w", json.loads(json.dumps(memory))) == 0


async def test_the_metadata_of_an_episode_are_the_callers(reme: Engine) -> None:
    given = {"agent_memory": {"score": "mine"}, "mistake_cards": "none"}
    told = Episode(task_id="t", score=0.5, steps=3, metadata=given, mistake_cards=[MistakeCard(lesson="Wait.")])
    await reme.episodes.record("w", told)
    assert " - Score 0.50 in 3 steps: " in await reme.episodes.context("w", "t")
    memory = await reme.episodes.as_memory("w")
    [entry] = memory["episode_log"]
    assert (entry["task_id"], entry["score"], entry["steps"]) == ("t", 0.5, 3)
    entry["steps"] = "a few"  # which no column can give back
    await reme.episodes.continue_with("w", memory)
    assert (await reme.episodes.as_memory("w"))["episode_log"] == [entry]
    kept = "select metadata, mistake_cards -> 0 ->> 'lesson', file_entry ->> 'steps' from reme.episode"
    assert await reme.database.fetch("w", kept) == [(given, "Wait.", "a few")]


async def test_gaps_and_numbers_of_another_type_are_read_as_the_helper_does(reme: Engine) -> None:
    memory = played(20) | {"total_episodes": 20.0, "last_consolidated_at": 20.0}
    nulls = dict.fromkeys(("mistake_type", "task_id", "evidence", "lesson", "first_seen_episode"))
    memory["mistake_cards"][0] |= {**nulls, "seen_count": "3"}
    await reme.episodes.continue_with("w", copy.deepcopy(memory))
    assert await reme.episodes.as_memory("w") == memory
    assert (await reme.episodes.summary("w"))["total_episodes"] == 20
    assert not (await reme.episodes.consolidate_if_due("w")).due
    assert (await reme.episodes.record("w", {"score": 1})).episodes[0].number == 21


async def test_recording_goes_on_after_an_import(reme: Engine) -> None:
    memory = played(120)
    compat_view = copy.deepcopy(memory)
    compat_view["episode_log"] = compat_view["episode_log"][-100:]
    await reme.episodes.continue_with("w", compat_view)
    told = {"task_id": "task_a", "score": 0.95, "steps": 3, "successes": ["brand new"], "trajectory_summary": "!"}
    compat.record_episode(memory, told)
    done = await reme.episodes.record("w", told)
    assert [e.number for e in done.episodes] == [121]
    assert await reme.episodes.context("w", "task_a") == compat.build_memory_context(memory, "task_a")
    kept = await reme.episodes.as_memory("w", bounded=True)
    assert kept["task_rules"] == memory["task_rules"] and kept["score_history"] == memory["score_history"]


async def test_an_import_over_other_episodes_is_refused_and_changes_nothing(reme: Engine) -> None:
    await reme.episodes.record("w", Episode(task_id="task_a", score=0.123))
    before = await reme.episodes.as_memory("w")
    with pytest.raises(ConflictError, match="1 scores of task 'task_a' that the memory does not continue"):
        await reme.episodes.continue_with("w", played(10))
    assert await reme.episodes.as_memory("w") == before


async def test_a_broken_file_leaves_the_workspace_as_it_was(reme: Engine, tmp_path: Path) -> None:
    path = tmp_path / "agent_memory.json"
    compat.save_agent_memory(played(10), str(path))
    path.write_bytes(path.read_bytes()[:700])
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


EDITS: dict[str, Callable[[dict[str, Any]], object]] = {
    "remove a global rule": lambda m: m["global_rules"].pop(0),
    "reword a global rule": lambda m: m["global_rules"].__setitem__(0, "my own rule"),
    "put a rule first": lambda m: m["global_rules"].insert(0, "human rule"),
    "remove a task rule": lambda m: m["task_rules"]["task_a"].pop(2),
    "remove all rules of a task": lambda m: m["task_rules"]["task_a"].clear(),
    "give rules to a new task": lambda m: m["task_rules"].__setitem__("new", ["human"]),
    "remove a mistake": lambda m: m["mistakes"].pop(0),
    "reorder mistakes": lambda m: m["mistakes"].reverse(),
    "remove the successes": lambda m: m["successes"].clear(),
    "edit a lesson": lambda m: m["mistake_cards"][0].__setitem__("lesson", "better"),
    "edit what a card is known by": lambda m: m["mistake_cards"][0].__setitem__("mistake_type", "other"),
    "remove a card": lambda m: m["mistake_cards"].pop(1),
    "reorder cards": lambda m: m["mistake_cards"].reverse(),
    "edit a summary": lambda m: m["episode_log"][3].__setitem__("summary", "edited"),
    "edit a score in the log": lambda m: m["episode_log"][3].__setitem__("score", 0.33),
    "remove an entry of the log": lambda m: m["episode_log"].pop(5),
    "clear the log": lambda m: m["episode_log"].clear(),
    "change a score": lambda m: m["score_history"]["task_a"].__setitem__(0, 0.55),
    "remove a score": lambda m: m["score_history"]["task_a"].pop(1),
    "add a key": lambda m: m.__setitem__("run", {"seed": 7}),
    "raise the total": lambda m: m.__setitem__("total_episodes", m["total_episodes"] + 5),
    "reset the consolidation": lambda m: m.__setitem__("last_consolidated_at", None),
    "begin anew": lambda m: m.update(compat.new_agent_memory()),
}


@pytest.mark.parametrize("edit", EDITS)
async def test_what_is_edited_by_hand_is_so_in_the_workspace(reme: Engine, edit: str) -> None:
    await reme.episodes.continue_with("w", played(60))
    memory = await reme.episodes.as_memory("w", bounded=True)
    EDITS[edit](memory)
    wanted = copy.deepcopy(dict(memory))
    assert await reme.episodes.continue_with("w", memory) == 0
    loaded = await reme.episodes.as_memory("w", bounded=True)
    assert loaded == wanted
    # The same dict goes on: what is taken out after a save is also seen.
    compat.record_episode(memory, {"task_id": "task_a", "score": 0.2, "mistakes": ["wrong"]})
    await reme.episodes.continue_with("w", memory)
    memory["mistakes"].remove("wrong")
    memory["task_rules"]["task_a"].remove("[AVOID] wrong")
    await reme.episodes.continue_with("w", memory)
    after = await reme.episodes.as_memory("w", bounded=True)
    assert "[AVOID] wrong" not in after.pop("task_rules")["task_a"]
    assert after == {name: value for name, value in memory.items() if name != "task_rules"}


async def test_an_edit_keeps_what_others_recorded_meanwhile(reme: Engine) -> None:
    await reme.episodes.continue_with("w", played(30))
    memory = await reme.episodes.as_memory("w", bounded=True)
    wrong = [memory["mistakes"][0], memory["task_rules"]["task_a"][0], memory["mistake_cards"][0]]
    memory["mistakes"].remove(wrong[0])
    memory["task_rules"]["task_a"].remove(wrong[1])
    memory["mistake_cards"].remove(wrong[2])
    memory["episode_log"][0]["summary"] = "edited"
    memory["task_rules"]["task_b"].append("human rule")
    told = {
        "task_id": "task_a",
        "score": 0.1,
        "mistakes": ["by another"],
        "mistake_cards": [{"mistake_type": "new"}],
    }
    await reme.episodes.record("w", told)
    await reme.episodes.continue_with("w", memory)
    after = await reme.episodes.as_memory("w")
    assert after["total_episodes"] == 31 and after["score_history"]["task_a"][-1] == 0.1
    assert after["mistakes"] == [*memory["mistakes"], "by another"]
    assert after["task_rules"]["task_a"] == [*memory["task_rules"]["task_a"], "[AVOID] by another"]
    assert after["task_rules"]["task_b"][-1] == "human rule"
    assert {card["mistake_type"] for card in after["mistake_cards"][:1]} == {"new"}
    assert after["mistake_cards"][1:] == memory["mistake_cards"]
    assert after["episode_log"][0]["summary"] == "edited" and len(after["episode_log"]) == 31


async def test_a_memory_that_is_read_beside_a_writer_is_of_one_moment(reme: Engine) -> None:
    async def record() -> None:
        for number in range(40):
            await reme.episodes.record("w", Episode(task_id="t", score=0.9, summary=f"attempt {number}"))

    writing = asyncio.create_task(record())
    seen = []
    while not writing.done():
        memory = await reme.episodes.as_memory("w")
        seen.append((memory["total_episodes"], len(memory["score_history"].get("t", [])), len(memory["episode_log"])))
    await writing
    assert len(seen) > 3 and all(len(set(counts)) == 1 for counts in seen)


async def test_a_standby_gives_a_memory(reme: Engine, settings: Settings, database_url: str) -> None:
    await reme.episodes.record("w", Episode(task_id="t", score=0.9, summary="done"))
    url = make_conninfo(database_url, options="-c default_transaction_read_only=on")
    async with Engine(settings.model_copy(update={"database_url": SecretStr(url)})) as standby:
        assert await standby.episodes.as_memory("w") == await reme.episodes.as_memory("w")


async def test_an_empty_workspace_takes_a_memory_that_came_from_elsewhere(reme: Engine) -> None:
    await reme.episodes.continue_with("w", played(30))
    memory = await reme.episodes.as_memory("w", bounded=True)
    await reme.workspaces.clear("w")
    await reme.episodes.continue_with("w", memory)
    assert await reme.episodes.as_memory("w", bounded=True) == memory


async def test_what_both_changed_is_a_conflict_and_nothing_is_written(reme: Engine) -> None:
    await reme.episodes.continue_with("w", played(30))
    mine, theirs = [await reme.episodes.as_memory("w", bounded=True) for _ in range(2)]
    theirs["episode_log"][0]["summary"] = "theirs"
    theirs["mistake_cards"][0]["lesson"] = "theirs"
    await reme.episodes.continue_with("w", theirs)
    for part, name in (("episode_log", "summary"), ("mistake_cards", "lesson")):
        edited = copy.deepcopy(mine)
        edited[part][0][name] = "mine"
        edited["mistakes"].clear()
        with pytest.raises(ConflictError, match="somebody else has recorded there, or edited it"):
            await reme.episodes.continue_with("w", edited)
    assert await reme.episodes.as_memory("w", bounded=True) == theirs


async def test_what_the_helper_cuts_stays_in_the_workspace(reme: Engine, tmp_path: Path) -> None:
    await reme.episodes.continue_with("w", played(130))
    memory = await reme.episodes.as_memory("w", bounded=True)
    whole = await reme.episodes.as_memory("w")
    for number in range(12):  # the rules are cut here, the log when it is saved to a file
        compat.record_episode(memory, {"task_id": "task_a", "score": 0.9, "successes": [f"new {number}"]})
    compat.save_agent_memory(memory, str(tmp_path / "agent_memory.json"))
    await reme.episodes.continue_with("w", memory)
    after = await reme.episodes.as_memory("w")
    assert after["task_rules"]["task_a"][:-10] == whole["task_rules"]["task_a"]
    assert after["episode_log"][:130] == whole["episode_log"]
    memory["episode_log"].clear()
    await reme.episodes.continue_with("w", memory)
    assert (await reme.episodes.as_memory("w", bounded=True))["episode_log"] == []


async def test_an_edit_that_cannot_be_stored_is_refused(reme: Engine) -> None:
    await reme.episodes.continue_with("w", played(30))
    before = await reme.episodes.as_memory("w")
    lowered, moved = copy.deepcopy(before), copy.deepcopy(before)
    lowered["total_episodes"] = 1
    moved["episode_log"].reverse()
    with pytest.raises(InputError, match="cannot be lowered to 1: workspace 'w' keeps episode 30"):
        await reme.episodes.continue_with("w", lowered)
    with pytest.raises(InputError, match="episode_log is in another order"):
        await reme.episodes.continue_with("w", moved)
    assert await reme.episodes.as_memory("w") == before


async def test_a_memory_that_json_cannot_hold_is_refused_whole(reme: Engine) -> None:
    for odd, told in ((float("nan"), "a number that is not finite"), ("a\0b", "a NUL character")):
        entry = {"task_id": "t", "score": 1.0, "summary": "fine", "extra": [odd]}
        with pytest.raises(InputError, match=f"the memory holds {told}"):
            await reme.episodes.continue_with("w", compat.new_agent_memory() | {"episode_log": [entry]})
    assert await reme.workspaces.list() == []


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"task_rules": {"t": [1]}}, "task_rules of 't' must hold texts"),
        ({"mistake_cards": [{"first_seen_episode": "x"}]}, "first_seen_episode of mistake_cards.0. must be a whole"),
        ({"mistake_cards": [{"seen_count": 2**31}]}, "seen_count of mistake_cards.0. is too large"),
        ({"mistakes": [{"what": "x"}]}, "mistakes must hold texts"),
        ({"score_history": {"t": [float("nan")]}}, "the scores of score_history of 't' must be finite numbers"),
        ({"score_history": {"t": [10**400]}}, "the scores of score_history of 't' must be finite numbers"),
        ({"episode_log": [{"task_id": "t", "score": float("inf")}]}, "the scores of episode_log must be finite"),
    ],
)
async def test_what_the_helper_reads_and_postgres_cannot_store_is_named(
    reme: Engine, part: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        await reme.episodes.continue_with("w", compat.new_agent_memory() | part)
    assert await reme.workspaces.list() == []


async def test_episodes_and_tools_go_with_their_workspace(reme: Engine) -> None:
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


async def test_a_copy_has_all_of_a_memory_that_is_being_saved(reme: Engine, database_url: str) -> None:
    await reme.episodes.continue_with("w", compat.new_agent_memory())
    async with await psycopg.AsyncConnection.connect(database_url) as other:
        await other.execute("select from reme.episode_progress where workspace_id = 'w' for update")
        saved = asyncio.create_task(reme.episodes.continue_with("w", played(30)))
        await asyncio.sleep(0.3)  # it waits by now
        copied = asyncio.create_task(reme.workspaces.copy("w", "copy"))
        await asyncio.sleep(0.3)
    await asyncio.gather(saved, copied)
    assert await reme.episodes.as_memory("copy") == await reme.episodes.as_memory("w")
