"""Whole workspaces through the flow that the seeds call `vector_store`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reme_core.engine import Engine
from reme_core.errors import ConflictError, InputError, LibraryError, NotFoundError
from reme_core.types import Kind, Memory, Message

Flow = Any


@pytest.fixture
async def filled(reme: Engine) -> Engine:
    await reme.memories.add(
        "w", [Memory(kind=Kind.TASK, memory_id=n, when_to_use=f"case {n}", content=f"Do {n}.") for n in ("a", "b", "c")]
    )
    return reme


async def act(flow: Flow, reme: Engine, action: str, **request: Any) -> Any:
    state = await flow(reme, "vector_store", **{"workspace_id": "w", "action": action, **request})
    return state.report["action_result"]


async def test_a_library_is_dumped_into_a_new_folder_and_loaded_elsewhere(
    filled: Engine, flow: Flow, tmp_path: Path
) -> None:
    folder = tmp_path / "docs" / "library"
    assert await act(flow, filled, "dump", path=str(folder)) == {"size": 3}
    lines = [json.loads(line) for line in (folder / "w.jsonl").read_text().splitlines()]
    assert {line["memory_id"] for line in lines} == {"a", "b", "c"}
    (folder / "w.jsonl").rename(folder / "v.jsonl")
    for _ in range(2):
        assert await act(flow, filled, "load", workspace_id="v", path=str(folder)) == {"size": 3}
    listed = await act(flow, filled, "list", workspace_id="v")
    assert {row["workspace_id"] for row in listed} == {"v"}
    assert len(listed) == 3


async def test_a_callers_author_in_the_metadata_may_be_anything(reme: Engine, flow: Flow, tmp_path: Path) -> None:
    """One such memory would keep its workspace from being retrieved from, listed and dumped."""
    of_document = {"author": ["Ada", "Eva"]}
    await reme.memories.add("w", Memory(kind=Kind.TASK, content="Read it.", metadata=of_document))
    found = await reme.execute("retrieve_task_memory", workspace_id="w", query="read")
    assert found.metadata["memory_list"][0]["metadata"]["author"] == ["Ada", "Eva"]
    await act(flow, reme, "dump", path=str(tmp_path))
    await reme.workspaces.load("v", tmp_path / "w.jsonl")
    [loaded] = await reme.memories.list("v")
    assert (loaded.author, loaded.metadata) == ("", of_document)


async def test_a_workspace_is_copied_and_cleared(filled: Engine, flow: Flow) -> None:
    assert await act(flow, filled, "copy", workspace_id="twin", src_workspace_id="w") == {"size": 3}
    with pytest.raises(ConflictError, match="not empty"):
        await act(flow, filled, "copy", workspace_id="twin", src_workspace_id="w")
    assert await act(flow, filled, "delete") == {"size": 3}
    assert await act(flow, filled, "list") == []
    assert len(await act(flow, filled, "list", workspace_id="twin")) == 3


async def test_single_memories_are_deleted_by_id(filled: Engine, flow: Flow) -> None:
    assert await act(flow, filled, "delete_ids", memory_ids=["a", "gone"]) == {"size": 1}
    assert {row["memory_id"] for row in await act(flow, filled, "list")} == {"b", "c"}


async def test_a_long_workspace_is_listed_whole(reme: Engine, flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reme_core.flows.ops.library._PAGE", 2)
    await reme.memories.add("w", [f"fact {n}" for n in range(5)])
    assert {row["content"] for row in await act(flow, reme, "list")} == {f"fact {n}" for n in range(5)}


async def test_an_action_with_a_scope_concerns_only_what_belongs_to_it(reme: Engine, flow: Flow) -> None:
    ann, bob = await reme.memories.add("w", [Memory(content=f"I am {n}.", user_id=n) for n in ("ann", "bob")])
    await reme.record("w", [Message(content=f"I am {n}.", user_id=n) for n in ("ann", "bob")])
    assert [row["memory_id"] for row in await act(flow, reme, "list", user_id="ann")] == [ann.memory_id]
    assert await act(flow, reme, "delete_ids", memory_ids=[bob.memory_id], user_id="ann") == {"size": 0}
    for action in ("copy", "dump", "load"):
        with pytest.raises(InputError, match=f"user_id: the action '{action}' is about a whole workspace"):
            await act(flow, reme, action, user_id="ann")
    with pytest.raises(InputError, match="user_id is empty"):
        await act(flow, reme, "delete", user_id="")
    assert await act(flow, reme, "delete", user_id="ann") == {"size": 1}
    assert [row["memory_id"] for row in await act(flow, reme, "list")] == [bob.memory_id]
    assert await reme.workspaces.count_messages("w") == 1


@pytest.mark.parametrize(
    ("request_", "error", "problem"),
    [
        ({"action": "burn"}, InputError, "action: .*'copy'"),
        ({"action": "copy"}, InputError, "src_workspace_id: the action 'copy' needs"),
        ({"action": "copy", "src_workspace_id": "nowhere", "workspace_id": "x"}, NotFoundError, "nowhere"),
        ({"action": "delete_ids"}, InputError, "memory_ids: the action 'delete_ids' needs"),
        ({"action": "load", "path": "/no/such/folder"}, LibraryError, "/no/such/folder"),
        ({}, InputError, "action: required by vector_store"),
    ],
)
async def test_what_an_action_lacks_is_named(
    reme: Engine, flow: Flow, request_: dict[str, Any], error: type[Exception], problem: str
) -> None:
    with pytest.raises(error, match=problem):
        await flow(reme, "vector_store", **request_)
