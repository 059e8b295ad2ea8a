"""Scopes within a workspace, through the services and the command line."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from mcp.shared.memory import create_connected_server_and_client_session as connect

from reme_core.engine import Engine
from reme_core.server.mcp import create_server
from reme_core.server.service import Service
from reme_core.store.messages import conversation
from tests.server.command import Reme

SAID = "My dog Rex lives in Lisbon with my mother."
ASKED = "Where does my dog Rex live?"


async def test_v1(client: httpx.AsyncClient) -> None:
    async def ask(method: str, path: str, **more: Any) -> Any:
        response = await client.request(method, f"/v1/workspaces/team/{path}", **more)
        assert response.is_success, response.text
        return response.json()

    memories = [{"content": f"Rex lives with {name}.", "user_id": name} for name in ("ann", "bob")]
    made = (await ask("POST", "memories", json={"memories": memories}))["memories"]
    await ask("POST", "records", json={"messages": [{"content": SAID, "user_id": "ann", "run_id": "r1"}]})
    assert [m["user_id"] for m in made] == ["ann", "bob"]
    listed = (await ask("GET", "memories", params={"user_id": "bob"}))["memories"]
    assert [m["content"] for m in listed] == ["Rex lives with bob."]
    cases: Any = [(["personal"], {"user_id": "ann"}, 1), ("conversation", {"run_id": "r1"}, 1)]
    for kind, scope, count in (*cases, ("conversation", {"user_id": "bob"}, 0)):
        found = await ask("POST", "recall", json={"query": ASKED, "kind": kind, **scope})
        assert len(found["hits"]) == count
    await ask("PATCH", f"memories/{made[1]['memory_id']}", json={"user_id": "ann"})
    assert len((await ask("GET", "memories", params={"user_id": "ann"}))["memories"]) == 2


async def test_v1_stores_what_names_nobody_for_those_that_the_request_names(
    client: httpx.AsyncClient, reme: Engine
) -> None:
    root, mine = "/v1/workspaces/team", {"user_id": "ann", "run_id": "r1"}
    memories = [{"content": "I like tea."}, {"content": "I like rum.", "user_id": "bob"}]
    made = (await client.post(f"{root}/memories", json={"memories": memories, **mine})).json()["memories"]
    assert [(m["user_id"], m["run_id"]) for m in made] == [("ann", "r1"), ("bob", "r1")]
    said = [{"content": SAID, "session_id": "s"}, {"content": "And I?", "session_id": "s", "user_id": "bob"}]
    assert (await client.post(f"{root}/records", json={"messages": said, **mine})).status_code == 200
    stored = await conversation(reme.database, "team", "s")
    assert [(m.user_id, m.run_id) for m in stored] == [("ann", "r1"), ("bob", "r1")]


@pytest.mark.parametrize("name", ["userid", "userId", "agent-id"])
async def test_v1_refuses_to_store_under_a_mistyped_name(client: httpx.AsyncClient, reme: Engine, name: str) -> None:
    root = "/v1/workspaces/team"
    for path, body in (
        ("memories", {"memories": [{"content": "I like tea."}], name: "ann"}),
        ("records", {"messages": [{"content": "I like tea."}], name: "ann"}),
        ("records", {"messages": [{"content": "I like tea.", name: "ann"}]}),
    ):
        refused = await client.post(f"{root}/{path}", json=body)
        assert (refused.status_code, "there is no" in refused.json()["message"]) == (422, True)
    assert await reme.workspaces.list() == []
    answer = {"role": "assistant", "content": "Yes.", "refusal": None, "annotations": [], "reasoning": "…"}
    assert (await client.post(f"{root}/records", json={"messages": [answer]})).status_code == 200


async def test_v1_erases_what_is_of_somebody(client: httpx.AsyncClient) -> None:
    path = "/v1/workspaces/team/memories"
    memories = [{"content": f"Rex lives with {name}.", "user_id": name} for name in ("ann", "bob")]
    await client.post(path, json={"memories": memories})
    assert (await client.delete(path)).status_code == 422
    assert (await client.delete(path, params={"user_id": "ann"})).json() == {"deleted_count": 1}
    assert [m["user_id"] for m in (await client.get(path)).json()["memories"]] == ["bob"]
    away = await client.delete("/v1/workspaces/nobody/memories", params={"user_id": "ann"})
    told = (await client.get("/openapi.json")).json()["paths"]["/v1/workspaces/{workspace_id}/memories"]["delete"]
    assert str(away.status_code) == "404" in told["responses"]


async def test_flows_over_http_and_mcp(client: httpx.AsyncClient, reme: Engine) -> None:
    given = {"workspace_id": "team", "trajectories": [{"messages": [{"content": SAID}]}], "user_id": "ann"}
    made = (await client.post("/summary_personal_memory", json=given)).json()
    assert made["metadata"]["memory_list"]
    assert {m.user_id for m in await reme.memories.list("team")} == {"ann"}
    async with connect(create_server(Service(reme, "localhost"))) as session:
        for user, knows in (("ann", True), ("bob", False)):
            request = {"workspace_id": "team", "query": ASKED, "user_id": user}
            assert (
                "Lisbon" in (await client.post("/retrieve_personal_memory", json=request)).json()["answer"]
            ) is knows
            found = await session.call_tool("retrieve_personal_memory", request)
            assert ("Lisbon" in str(found.content)) is knows
            listed = await session.call_tool("list_memory", {"workspace_id": "team", "user_id": user})
            assert ("Lisbon" in str(listed.content)) is knows


@pytest.mark.usefixtures("configured")
def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    run = Reme(capsys)
    run("add", "Rex lives with Ann.", "-w", "team", "--user-id", "ann", "--agent-id", "cook")
    run("record", SAID, "-w", "team", "--user-id", "ann")
    assert run.json("list", "-w", "team", "--user-id", "bob") == []
    [memory] = run.json("list", "-w", "team", "--agent-id", "cook")
    assert memory["user_id"] == "ann"
    assert "user ann, agent cook" in run("show", memory["memory_id"], "-w", "team")
    for user, count in (("ann", 1), ("bob", 0)):
        for kind in ("personal", "conversation"):
            found = run.json("recall", ASKED, "-w", "team", "--user-id", user, "-k", kind)
            assert len(found["hits"]) == count
    assert run.json("clear", "team", "--user-id", "ann", "--yes")["removed"] == 1
    assert run.json("list", "-w", "team") == []


async def test_a_deletion_over_http_obeys_the_scope_and_refuses_what_it_does_not_know(
    client: httpx.AsyncClient, reme: Engine
) -> None:
    for user in ("ann", "bob"):
        await reme.memories.add("team", f"I am {user}.", user_id=user)
    for flow, given in (("delete_all", {}), ("vector_store", {"action": "delete"})):
        refused = await client.post(f"/{flow}", json={"workspace_id": "team", "userid": "ann", **given})
        assert refused.status_code == 422
        assert refused.json()["message"].endswith("did you mean 'user_id'?")
    given = {"workspace_id": "team", "action": "delete", "user_id": "ann"}
    answer = (await client.post("/vector_store", json=given)).json()
    assert answer["metadata"]["action_result"] == {"size": 1}
    assert [m.user_id for m in await reme.memories.list("team")] == ["bob"]
