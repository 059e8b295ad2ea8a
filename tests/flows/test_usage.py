"""Frequency and utility: told by callers, by retrieval ids, and by attempts that name the retrievals they used."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from reme_core.engine import Engine
from reme_core.errors import InputError
from reme_core.flows.state import UpdateResult
from reme_core.types import Kind, Memory
from tests.flows.attempts import attempt, says, user

Flow = Any


async def recalled(reme: Engine, flow: Flow) -> str:
    """Two memories, one retrieval of both; its id."""
    both = [Memory(kind=Kind.TASK, memory_id=n, when_to_use=f"Booking {n}", content=f"Do {n}.") for n in ("a", "b")]
    await reme.memories.add("w", both)
    state = await flow(reme, "retrieve_task_memory_simple", workspace_id="w", query="booking", top_k=2)
    return str(state.retrieval_id)


async def counts(reme: Engine) -> dict[str, tuple[int, int]]:
    return {m.memory_id: (m.freq, m.utility) for m in await reme.memories.list("w")}


async def helped(reme: Engine) -> dict[str, bool | None]:
    rows = await reme.database.fetch("w", "select memory_id, helped from reme.retrieval_hit where workspace_id = 'w'")
    return dict(rows)


@pytest.mark.parametrize("as_reme01", [False, True])
async def test_a_retrieval_id_is_enough_and_counts_once(reme: Engine, flow: Flow, as_reme01: bool) -> None:
    told: dict[str, Any] = {"retrieval_id": await recalled(reme, flow)}
    told = {"memory_dicts": [], "metadata": told} if as_reme01 else told
    for _ in range(2):
        state = await flow(reme, "record_task_memory", workspace_id="w", update_utility=True, **told)
    assert state.update_result.updated_count == 0
    assert await counts(reme) == {"a": (1, 1), "b": (1, 1)}
    assert await helped(reme) == {"a": True, "b": True}


@pytest.mark.parametrize("in_metadata", [False, True])
@pytest.mark.parametrize("settled", [False, True])
async def test_a_retrieval_counts_once_if_its_memories_are_given_too(
    reme: Engine, flow: Flow, in_metadata: bool, settled: bool
) -> None:
    retrieval = await recalled(reme, flow)
    await reme.memories.add("w", Memory(kind=Kind.TASK, memory_id="c", content="Do c."))
    told: dict[str, Any] = {"retrieval_id": retrieval}
    told = {"metadata": told} if in_metadata else told
    given = [{"memory_id": memory_id} for memory_id in ("a", "b", "c", "gone")]
    if settled:
        posted = attempt(user("Book it."), says("Booked."), score=1.0, retrieval_id=retrieval)
        await flow(reme, "summary_task_memory", workspace_id="w", trajectories=[posted])
    for _ in range(2):
        state = await flow(
            reme, "record_task_memory", workspace_id="w", memory_dicts=given, update_utility=True, **told
        )
    found = await counts(reme)
    assert (found["a"], found["b"], found["c"]) == ((1, 1), (1, 1), (2, 2))
    assert (state.update_result.updated_count, state.report["unknown_ids"]) == (1, ["gone"])
    assert [memory.memory_id for memory in state.memories] == ["a", "b", "c"]


async def test_memories_named_one_by_one_are_marked_in_the_log_too(reme: Engine, flow: Flow) -> None:
    await recalled(reme, flow)
    given = [{"memory_id": "a"}, {"memory_id": "gone"}]
    state = await flow(reme, "record_task_memory", workspace_id="w", memory_dicts=given, update_utility=False)
    assert await counts(reme) == {"a": (1, 0), "b": (0, 0)}
    assert await helped(reme) == {"a": False, "b": None}
    assert state.report["unknown_ids"] == ["gone"]
    assert [memory.memory_id for memory in state.memories] == ["a"]


async def test_an_attempt_that_names_its_retrieval_settles_it(reme: Engine, flow: Flow) -> None:
    retrieval = await recalled(reme, flow)
    posted = attempt(user("Book it."), says("Booked."), score=1.0, retrieval_id=retrieval)
    for _ in range(2):
        await flow(reme, "summary_task_memory", workspace_id="w", trajectories=[posted])
    found = await counts(reme)
    assert (found["a"], found["b"]) == ((1, 1), (1, 1))


async def test_an_attempt_without_a_score_settles_no_retrieval(reme: Engine, flow: Flow) -> None:
    posted = attempt(user("Book it."), says("Booked."), score=None, retrieval_id=await recalled(reme, flow))
    await flow(reme, "summary_task_memory", workspace_id="w", trajectories=[posted])
    assert await counts(reme) == {"a": (0, 0), "b": (0, 0)}
    await flow(reme, "summary_task_memory", workspace_id="w", trajectories=[posted | {"score": 1.0}])
    found = await counts(reme)
    assert (found["a"], found["b"]) == ((1, 1), (1, 1))


async def test_another_workspace_cannot_settle_it_and_is_told_so(reme: Engine, flow: Flow) -> None:
    retrieval = await recalled(reme, flow)
    state = await flow(
        reme, "record_task_memory", workspace_id="other", memory_dicts=[], update_utility=True,
        metadata={"retrieval_id": retrieval},
    )  # fmt: skip
    assert state.report["unknown_retrieval_ids"] == [retrieval]
    posted = attempt(user("Book it."), says("Booked."), score=1.0, retrieval_id=retrieval)
    state = await flow(reme, "summary_task_memory", workspace_id="other", trajectories=[posted])
    assert state.report["unknown_retrieval_ids"] == [retrieval]
    assert await counts(reme) == {"a": (0, 0), "b": (0, 0)}


async def test_an_agent_that_was_given_nothing_has_nothing_to_record(reme: Engine, flow: Flow) -> None:
    state = await flow(reme, "record_task_memory", workspace_id="w", memory_dicts=[], update_utility=True)
    assert (state.memories, state.update_result.updated_count) == ([], 0)


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        ({"memory_dicts": [{"content": "x"}], "update_utility": True}, r"memory_dicts\.0: has no memory_id"),
        ({"memory_dicts": [{"memory_id": "a"}]}, "update_utility: required by record_task_memory"),
    ],
)
async def test_what_names_no_memory_is_refused(
    reme: Engine, flow: Flow, request_: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InputError, match=problem):
        await flow(reme, "record_task_memory", workspace_id="w", **request_)


async def test_counters_of_a_library_decide_which_lessons_go(reme: Engine, flow: Flow, tmp_path: Path) -> None:
    rows = [
        {"memory_id": name, "memory_type": "task", "when_to_use": name, "content": name, "metadata": counters}
        for name, counters in {
            "seldom": {"freq": 9, "utility": 1},
            "often": {"freq": 9, "utility": 8},
            "new": {},
        }.items()
    ]
    (tmp_path / "w.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    await reme.workspaces.load("w", str(tmp_path))
    await flow(reme, "record_task_memory", workspace_id="w", memory_dicts=[{"memory_id": "often"}], update_utility=True)
    state = await flow(reme, "delete_task_memory", workspace_id="w", freq_threshold=5, utility_threshold=0.5)
    assert state.update_result.deleted_count == 1
    listed = (await reme.execute("vector_store", workspace_id="w", action="list")).metadata["action_result"]
    told = {m["memory_id"]: (m["metadata"].get("freq"), m["metadata"].get("utility")) for m in listed}
    assert told == {"often": (10, 9), "new": (None, None)}


async def test_reports_and_changes_of_the_same_memories_wait_for_each_other(reme: Engine, flow: Flow) -> None:
    retrieval = await recalled(reme, flow)
    told: dict[str, Any] = {"memory_dicts": [{"memory_id": "a"}, {"memory_id": "b"}], "update_utility": True}
    for known in ({"metadata": {"retrieval_id": retrieval}}, {}):
        async with reme.database.write_transaction("w") as conn:
            await conn.execute("update reme.memory set importance = 1 where memory_id = 'b'")
            report = asyncio.create_task(flow(reme, "record_task_memory", workspace_id="w", **told, **known))
            await asyncio.sleep(0.3)  # it would have counted "a" by now, and wait for "b"
            await conn.execute("update reme.memory set importance = 1 where memory_id = 'a'")
        assert (await report).update_result.updated_count == 2


@pytest.mark.parametrize("by_hand", [False, True])
async def test_a_lesson_that_was_pruned_is_learned_again_and_one_that_somebody_deleted_is_not(
    reme: Engine, flow: Flow, by_hand: bool
) -> None:
    posted = {"trajectories": [attempt(user("Book it.", time_created="2026-01-01 10:00:00"), says("Booked."))]}
    (lesson,) = (await flow(reme, "summary_task_memory", workspace_id="w", **posted)).memories
    given = [{"memory_id": lesson.memory_id}]
    await flow(reme, "record_task_memory", workspace_id="w", memory_dicts=given, update_utility=False)
    if by_hand:
        await reme.memories.delete("w", lesson.memory_id)
    else:
        state = await flow(reme, "delete_task_memory", workspace_id="w", freq_threshold=1, utility_threshold=0.5)
        assert (state.update_result.deleted_count, state.report["deleted_memory_ids"]) == (1, [lesson.memory_id])
    posted["trajectories"].append(attempt(user("Book it.", time_created="2026-02-01 10:00:00"), says("Booked.")))
    state = await flow(reme, "summary_task_memory", workspace_id="w", **posted)
    assert state.update_result == UpdateResult(inserted_count=int(not by_hand))
    assert [memory.memory_id for memory in state.memories] == [lesson.memory_id] * (not by_hand)
    assert await counts(reme) == ({} if by_hand else {lesson.memory_id: (0, 0)})
    assert len((await reme.memories.get("w", lesson.memory_id)).sources) == len(lesson.sources) * (1 if by_hand else 2)
