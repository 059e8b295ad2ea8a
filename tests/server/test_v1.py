"""The REST surface: single memories, recall, records and jobs."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx
import pytest

from reme_core.engine import Engine

Client = httpx.AsyncClient
ROOT = "/v1/workspaces/alice/"


async def ok(client: Client, method: str, path: str, status: int = 200, **more: Any) -> Any:
    response = await client.request(method, ROOT + path, **more)
    assert response.status_code == status, response.text
    return response.json()


async def test_what_would_be_ignored_of_a_request_is_refused(client: httpx.AsyncClient, reme: Engine) -> None:
    (memory,) = await reme.memories.add("w", "Rex is a dog.")
    path = f"/v1/workspaces/w/memories/{memory.memory_id}"
    asked = [
        await client.request("DELETE", path, json={"erase": True}),
        await client.post(f"{path}/restore", json={"number": 1}),
        await client.request("DELETE", path, headers={"If-Match": '"1"'}),
        await client.patch(path, json={"content": "Rex is a cat."}, headers={"If-Match": '"1"'}),
    ]
    for refused, told in zip(asked, ("takes no body", "takes no body", "no If-Match", "no If-Match"), strict=True):
        assert refused.status_code == 422 and refused.json()["message"].startswith("nothing was done: ")
        assert told in refused.json()["message"]
    assert await reme.memories.get("w", memory.memory_id) == memory
    assert (await client.request("DELETE", path, json={}, headers={"If-Match": "*"})).json() == {"deleted_count": 1}


async def test_the_life_of_a_memory(client: Client) -> None:
    given = {"content": "Rex is a dog.", "kind": "observation", "subject": "Rex", "importance": 0.3}
    (made,) = (await ok(client, "POST", "memories", 201, json={"memories": [given]}))["memories"]
    path = f"memories/{made['memory_id']}"
    refused = await ok(client, "PATCH", path, 422, json={"reason": "He meows."})
    assert refused["message"].startswith(
        "body: a reason alone changes nothing; give a field to change: content, kind, "
    )
    changed = await ok(client, "PATCH", path, json={"content": "Rex is a cat.", "reason": "He meows."})
    assert (changed["content"], changed["subject"]) == ("Rex is a cat.", "Rex")
    history = await ok(client, "GET", f"{path}/history")
    assert [(entry["operation"], entry["reason"]) for entry in history] == [("insert", ""), ("update", "He meows.")]
    assert {entry["changed_by"] for entry in history} == {"http"}
    listed = await ok(client, "GET", "memories", params={"kind": "observation", "subject": "Rex"})
    assert [memory["memory_id"] for memory in listed["memories"]] == [made["memory_id"]]
    assert (await ok(client, "GET", "memories", params={"kind": "task"}))["memories"] == []
    assert (await ok(client, "DELETE", path))["deleted_count"] == 1
    await ok(client, "GET", path, 404)
    assert (await ok(client, "GET", path, params={"deleted": True}))["status"] == "deleted"
    await ok(client, "DELETE", path, params={"erase": True})
    await ok(client, "GET", path, 404, params={"deleted": True})


async def test_a_list_takes_the_families_of_kinds_that_recall_takes(client: Client) -> None:
    given = [{"content": kind, "kind": kind} for kind in ("profile", "rule", "tool")]
    await ok(client, "POST", "memories", 201, json={"memories": given})
    for families, kinds in (
        (("personal",), ["profile"]),
        (("task",), ["rule"]),
        (("tool", "personal"), ["tool", "profile"]),
    ):
        found = (await ok(client, "GET", "memories", params={"kind": families}))["memories"]
        assert [memory["kind"] for memory in found] == kinds
    assert "conversation" not in (await ok(client, "GET", "memories", 422, params={"kind": "conversation"}))["message"]


async def test_a_deleted_memory_is_changed_only_after_it_was_restored(client: Client) -> None:
    given = {"content": "Ann wears size 44.", "memory_id": "size"}
    await ok(client, "POST", "memories", 201, json={"memories": [given]})
    await ok(client, "DELETE", "memories/size")
    refused = await ok(client, "PATCH", "memories/size", 404, json={"content": "Ann wears size 45."})
    assert refused["message"] == "memory 'size' was deleted; restore it before you change it"
    restored = await ok(client, "POST", "memories/size/restore")
    assert (restored["status"], restored["content"]) == ("active", "Ann wears size 44.")
    await ok(client, "PATCH", "memories/size", json={"content": "Ann wears size 45."})


async def test_a_memory_is_brought_back_to_an_earlier_state_and_a_change_of_several_is_undone(client: Client) -> None:
    given = [{"content": "Rex is a dog."}, {"content": "Mia is a cat."}]
    rex, _ = (await ok(client, "POST", "memories", 201, json={"memories": given}))["memories"]
    undone = await ok(client, "POST", "undo")
    assert (undone["removed"], undone["restored"], undone["changed_by"]) == (2, 0, "http")
    assert (await ok(client, "GET", "memories"))["memories"] == []
    await ok(client, "POST", "undo")
    path = f"memories/{rex['memory_id']}"
    await ok(client, "PATCH", path, json={"content": "Rex is a wolf."})
    assert (await ok(client, "POST", "undo", 409))["code"] == "conflict"
    assert (await ok(client, "POST", f"{path}/restore"))["content"] == "Rex is a dog."
    closing = (await ok(client, "GET", f"{path}/history"))[1]
    closed = await ok(client, "POST", f"{path}/restore", params={"number": closing["number"]})
    assert (closed["status"], closed["content"]) == ("deleted", "Rex is a dog.")
    await ok(client, "POST", f"{path}/restore", 404, params={"number": 10**6})
    await ok(client, "POST", f"{path}/restore", 422, params={"number": 0})
    await ok(client, "POST", "memories/none/restore", 404)
    assert (await client.post("/v1/workspaces/nobody/undo")).status_code == 404


async def test_an_erasure_with_a_mistyped_or_an_empty_name_erases_nothing(client: Client) -> None:
    memory = {"content": "Ann wears size 44.", "user_id": "ann", "run_id": "today"}
    await ok(client, "POST", "memories", 201, json={"memories": [memory]})
    refused = await ok(client, "DELETE", "memories", 422, params={"user_id": "ann", "run": "tomorrow"})
    assert refused["message"] == "nothing was done: there is no parameter 'run'; did you mean 'run_id'?"
    await ok(client, "DELETE", "memories", 422, params={"user_id": "", "run_id": "today"})
    assert len((await ok(client, "GET", "memories"))["memories"]) == 1
    assert await ok(client, "DELETE", "memories", params={"user_id": "ann", "run_id": "today"}) == {"deleted_count": 1}


async def test_a_parameter_that_is_given_twice_is_refused_since_only_the_last_would_count(client: Client) -> None:
    given = [{"content": f"{name} wears size 44.", "user_id": name} for name in ("ann", "bob")]
    await ok(client, "POST", "memories", 201, json={"memories": given})
    twice = {"user_id": ["ann", "bob"]}
    for method in ("DELETE", "GET"):
        refused = await ok(client, method, "memories", 422, params=twice)
        assert refused["message"] == ("nothing was done: 'user_id' is given 2 times; ask for each by itself")
    assert len((await ok(client, "GET", "memories"))["memories"]) == 2


async def test_a_mistyped_parameter_neither_shows_nor_changes_more_than_was_meant(client: Client) -> None:
    given = [{"content": "Ann wears size 44.", "user_id": "ann", "memory_id": "size"}]
    await ok(client, "POST", "memories", 201, json={"memories": given})
    for method, path, name, meant in [
        ("GET", "memories", "usr_id", "user_id"),
        ("GET", "memories/size", "delete", "deleted"),
        ("GET", "curve", "task", "task_id"),
        ("GET", "jobs", "limits", "limit"),
        ("DELETE", "memories/size", "erased", "erase"),
        ("POST", "memories/size/restore", "numbers", "number"),
    ]:
        refused = await ok(client, method, path, 422, params={name: "1"})
        assert refused["message"] == f"nothing was done: there is no parameter '{name}'; did you mean '{meant}'?"
    refused = await ok(client, "GET", "memories", 422, params={"page": "2"})
    assert refused["message"].endswith(
        "no parameter 'page'; there are kind, subject, status, user_id, agent_id, run_id, limit, offset"
    )
    refused = await ok(client, "POST", "undo", 422, params={"dry_run": "1"})
    assert refused["message"] == "nothing was done: there is no parameter 'dry_run'; there are none here"
    (memory,) = (await ok(client, "GET", "memories", params={"kind": ["custom", "task"]}))["memories"]
    assert memory["status"] == "active"


async def test_a_workspace_may_have_slashes_in_its_name(client: Client) -> None:
    for name in ("team/alice", "team/alice/memories"):
        root = f"/v1/workspaces/{quote(name, safe='')}"
        added = await client.post(f"{root}/memories", json={"memories": [{"content": f"Said in {name}."}]})
        assert added.status_code == 201, added.text
        (memory,) = added.json()["memories"]
        assert memory["workspace_id"] == name
        (listed,) = (await client.get(f"{root}/memories")).json()["memories"]
        path = f"{root}/memories/{memory['memory_id']}"
        assert listed["content"] == (await client.get(path)).json()["content"] == f"Said in {name}."
        assert len((await client.get(f"{path}/history")).json()) == 1
        (hit,) = (await client.post(f"{root}/recall", json={"query": "What was said?"})).json()["hits"]
        assert hit["memory"]["memory_id"] == memory["memory_id"]


async def test_every_name_that_may_be_given_can_be_reached(client: Client) -> None:
    names = [("w", "doc/7"), ("w", "memories"), ("w", "a b%2Fc?#é"), ("w", "history"), ("a/memories", "memories"),
             ("line\nbreak", "m\nn"), ("100%25", "doc/7/history"), ("memories", "restore"),
             ("w", "x" * 600)]  # fmt: skip
    for workspace, name in names:
        root = f"/v1/workspaces/{quote(workspace, safe='')}/memories"
        made = await client.post(root, json={"memories": [{"memory_id": name, "content": "Rex is a dog."}]})
        assert made.status_code == 201, made.text
        assert name in {memory["memory_id"] for memory in (await client.get(root)).json()["memories"]}
        path = f"{root}/{quote(name, safe='')}"
        changed = await client.patch(path, json={"content": "Rex is a cat."})
        assert changed.status_code == 200, changed.text
        found = (await client.get(path)).json()
        assert (found["workspace_id"], found["memory_id"], found["content"]) == (workspace, name, "Rex is a cat.")
        assert len((await client.get(f"{path}/history")).json()) == 2
        assert (await client.post(f"{path}/restore")).json()["content"] == "Rex is a dog."
        assert (await client.delete(path)).json() == {"deleted_count": 1}
        assert (await client.get(path)).status_code == 404
    unencoded = await client.get("/v1/workspaces/team/alice/memories")
    assert unencoded.json() == {"memories": []}


async def test_what_is_answered_is_what_is_stored(client: Client) -> None:
    given = {"memories": [{"content": "Rex is a dog.", "importance": 0.3, "score": 0.1}, {"content": "Rex barks."}]}
    for time in range(2):
        answered = (await ok(client, "POST", "memories", 201, json=given))["memories"]
        assert all(memory["recorded_at"] for memory in answered)
        assert answered[0]["seen_count"] == time + 1
        for memory in answered:
            assert memory == await ok(client, "GET", f"memories/{memory['memory_id']}")
    changed = await ok(client, "PATCH", f"memories/{answered[0]['memory_id']}", json={"importance": 0.7})
    assert (changed["importance"], changed["score"]) == (0.7, 0.1), "a number reads as it was given"
    assert changed == await ok(client, "GET", f"memories/{answered[0]['memory_id']}")


async def test_recall_says_why_and_keeps_to_the_kinds(client: Client) -> None:
    memories = [{"content": "Rex is a dog."}, {"content": "Refund with the API.", "kind": "task"}]
    await ok(client, "POST", "memories", 201, json={"memories": memories})
    found = await ok(client, "POST", "recall", json={"query": "Who is Rex?", "kind": ["personal"], "limit": 5})
    assert (await ok(client, "POST", "recall", json={"query": "Rex", "kind": "custom"}))["hits"][0]["rank"] == 1
    wrong = await client.post("/v1/workspaces/w/recall", json={"query": "Rex", "kind": "persnal"})
    assert wrong.status_code == 422 and "'personal' or 'conversation'" in wrong.json()["message"]
    (hit,) = found["hits"]
    assert hit["memory"]["content"] == "Rex is a dog."
    assert hit["parts"]["final"] > 0
    past = {"query": "Rex", "known": {"end": "2000-01-01T00:00:00Z"}}
    assert (await ok(client, "POST", "recall", json=past))["hits"] == []
    assert 0 < hit["relevance"] <= found["relevance"] < 1
    nothing = {"query": "thanks!", "kind": ["personal"]}
    assert (await ok(client, "POST", "recall", json=nothing))["hits"] != []
    assert (await ok(client, "POST", "recall", json=nothing | {"min_relevance": 0.15}))["hits"] == []
    for no_chance in (2, False, "0.5"):
        await ok(client, "POST", "recall", 422, json=nothing | {"min_relevance": no_chance})


async def test_roles_may_have_the_names_that_other_years_gave_them(client: Client, reme: Engine) -> None:
    said = [{"role": role, "content": "Be brief.", "session_id": "s"} for role in ("developer", "function")]
    await ok(client, "POST", "records", json={"messages": said})
    assert [message.role for message in await reme.messages("alice", "s")] == ["system", "tool"]


async def test_what_is_recorded_is_found_as_it_was_said_and_queued_once(client: Client) -> None:
    said = [{"role": "user", "content": "I moved to Lisbon.", "message_id": "m1", "session_id": "s"}]
    assert (await ok(client, "POST", "records", json={"messages": said, "wait": True}))["message_ids"] == ["m1"]
    assert (await ok(client, "POST", "records", json={"messages": said}))["message_ids"] == []
    found = await ok(client, "POST", "recall", json={"query": "Lisbon", "kind": "conversation"})
    assert [hit["memory"]["content"] for hit in found["hits"]] == ["I moved to Lisbon."]
    asked = {"query": "What did I say today?", "kind": "conversation", "timezone": "Asia/Tokyo"}
    assert (await ok(client, "POST", "recall", json=asked))["hits"][0]["parts"]["time"] == 2
    assert (await ok(client, "POST", "recall", json=asked | {"time": None}))["hits"][0]["parts"]["time"] == 0
    assert "time zone" in (await ok(client, "POST", "recall", 422, json=asked | {"timezone": "Mars"}))["message"]
    (job,) = (await ok(client, "GET", "jobs"))["jobs"]
    assert job["session_id"] == "s"
    other = await client.get("/v1/workspaces/bob/jobs")
    assert other.json() == {"jobs": []}


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"])
async def test_a_time_that_others_use_for_none_is_taken(client: Client, time: str) -> None:
    said = [{"content": "I moved to Lisbon.", "sent_at": time}]
    await ok(client, "POST", "records", json={"messages": said, "wait": True})
    found = await ok(client, "POST", "recall", json={"query": "Lisbon", "kind": "conversation"})
    assert [hit["memory"]["observed_at"][:4] for hit in found["hits"]] == ["0002" if time < "1" else "9998"]


async def test_a_message_may_say_when_it_was_said_as_the_answers_do(client: Client) -> None:
    await ok(client, "POST", "records", json={"messages": [{"content": "Tea!", "created_at": "2025-01-05T10:00:00Z"}]})
    (hit,) = (await ok(client, "POST", "recall", json={"query": "Tea", "kind": "conversation"}))["hits"]
    assert hit["memory"]["created_at"] == "2025-01-05T10:00:00Z"


@pytest.mark.parametrize("name", ["time_created", "sent_at", "created_at", "timestamp"])
async def test_an_empty_time_of_a_message_is_none_and_what_is_no_time_is_refused(client: Client, name: str) -> None:
    await ok(client, "POST", "records", json={"messages": [{"content": "Tea!", name: ""}]})
    refused = await ok(client, "POST", "records", 422, json={"messages": [{"content": "Tea!", name: "10:32 AM"}]})
    assert (refused["code"], name in refused["message"]) == ("invalid_input", True)


async def test_a_batch_is_stored_whole_or_not_at_all(client: Client) -> None:
    taken = {"content": "First.", "memory_id": "m1"}
    await ok(client, "POST", "memories", 201, json={"memories": [taken]})
    told = await ok(client, "POST", "memories", 409, json={"memories": [{"content": "Second."}, taken]})
    assert told["code"] == "conflict"
    assert [m["content"] for m in (await ok(client, "GET", "memories"))["memories"]] == ["First."]
