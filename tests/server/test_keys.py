"""API keys: who has one gets into its workspaces, and nobody else gets anywhere."""

from __future__ import annotations

import html
from datetime import timedelta
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.types import ASGIApp

from reme_core.engine import Engine
from reme_core.jobs.report import Job
from reme_core.server.auth import ApiKeys
from reme_core.server.http import create_app
from reme_core.server.inspector import actions
from reme_core.server.mcp import create_mcp_app
from reme_core.server.service import Service
from reme_core.settings import FlowSettings, Settings
from reme_core.types import now
from tests.server.conftest import connected

Client = httpx.AsyncClient


@pytest.fixture
def keys(app: object, client: Client) -> ApiKeys:
    service: Service = app.state.service  # type: ignore[attr-defined]
    return service.keys


async def answer_without_body(app: ASGIApp, method: str, path: str) -> tuple[int, bool]:
    """The status that a request without a key gets whose body never comes, and whether it was asked for."""
    asked, status = False, 0

    async def receive() -> Any:
        nonlocal asked
        asked = True
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        nonlocal status
        status = message.get("status", status)

    host = (b"host", b"localhost")
    headers = [
        host,
        (b"origin", b"http://localhost"),
        (b"content-length", b"1000"),
        (b"content-type", b"application/json"),
    ]
    scope = {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"w=mine",
        "root_path": "", "scheme": "http", "headers": headers, "server": ("localhost", 80), "client": ("127.0.0.1", 1),
    }  # fmt: skip
    await app(scope, receive, send)
    return status, asked


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


async def test_where_there_are_keys_one_is_needed_everywhere_but_for_health(client: Client, keys: ApiKeys) -> None:
    assert (await client.get("/v1/workspaces")).status_code == 200
    key = await keys.create("ops")
    models = "/health/ready?models=true"  # their answers cost
    for method, path in (
        ("GET", "/v1/workspaces"), ("GET", "/metrics"), ("GET", models), ("POST", "/retrieve_task_memory"),
    ):  # fmt: skip
        body = {"query": "x"} if method == "POST" else None
        refused = await client.request(method, path, json=body)
        assert (refused.status_code, refused.json()["code"]) == (401, "unauthorized")
        assert refused.headers["www-authenticate"] == "Bearer"
        assert (await client.request(method, path, json=body, headers=bearer(key))).status_code == 200
        assert (await client.request(method, path, json=body, headers={"X-API-Key": key})).status_code == 200
    for path in ("/health", "/health/ready"):
        assert (await client.get(path)).status_code == 200


@pytest.mark.parametrize(
    "change", [lambda k: k[:-1], lambda k: k + "x", lambda _: "reme_00_x", lambda _: "reme", lambda _: "é\x7f"]
)
async def test_a_key_that_is_not_quite_one_is_refused(client: Client, keys: ApiKeys, change: object) -> None:
    key = await keys.create()
    wrong = change(key)  # type: ignore[operator]
    headers = {"X-API-Key": wrong.encode()}
    assert (await client.get("/v1/workspaces", headers=headers)).status_code == 401  # type: ignore[arg-type]


async def test_a_key_opens_its_workspaces_and_no_other(client: Client, keys: ApiKeys, reme: Engine) -> None:
    for name in ("mine", "yours"):
        await reme.memories.add(name, f"The secret of {name}.")
    headers = bearer(await keys.create("me", ["mine"]))
    listed = await client.get("/v1/workspaces", headers=headers)
    assert listed.json() == {"workspaces": ["mine"]}
    for workspace, status in (("mine", 200), ("yours", 403)):
        for flow in ("retrieve_task_memory", "retriever"):
            body = {"workspace_id": workspace, "query": "secret"}
            assert (await client.post(f"/{flow}", json=body, headers=headers)).status_code == status
        assert (await client.get(f"/v1/workspaces/{workspace}/memories", headers=headers)).status_code == status
    response = await client.post("/retrieve_task_memory", json={"query": "secret"}, headers=headers)
    assert response.status_code == 403, "the workspace that is meant where none is named is one like any other"
    assert "it opens 'mine': give one as workspace_id" in response.json()["message"]


async def test_why_a_job_failed_is_told_to_keys_for_all_workspaces(client: Client, keys: ApiKeys, reme: Engine) -> None:
    async def jobs(*_: object, **__: object) -> list[Job]:
        return [Job(1, "summarise", "failed", "mine", "s", 8, None, None, "m at http://secret was not found", "")]

    reme.background.jobs = jobs  # type: ignore[method-assign]
    await reme.memories.add("mine", "Rex is a dog.")
    for key, told in ((await keys.create("me", ["mine"]), "log says why"), (await keys.create("ops"), "http://secret")):
        for path in ("/v1/workspaces/mine/jobs", "/inspector/jobs?w=mine"):
            assert told in html.unescape((await client.get(path, headers=bearer(key))).text)
            assert ("secret" in (await client.get(path, headers=bearer(key))).text) is ("secret" in told)


async def test_a_key_opens_no_path_of_another_workspace(app: FastAPI, client: Client, keys: ApiKeys) -> None:
    headers = bearer(await keys.create("me", ["mine"]))
    for path, methods in app.openapi()["paths"].items():
        for method in methods if path.startswith("/v1/workspaces/") else ():
            address = path.format(workspace_id="yours", memory_id="x")
            answer = await client.request(method, address, json={}, headers=headers)
            assert answer.status_code == 403, f"{method} {path}"


async def test_revoked_and_expired_keys_open_nothing_and_the_door_stays_shut(client: Client, keys: ApiKeys) -> None:
    revoked = await keys.create("revoked")
    expired = await keys.create("expired", expires_at=now() - timedelta(seconds=1))
    assert (await client.get("/v1/workspaces", headers=bearer(revoked))).status_code == 200
    await keys.revoke(revoked.split("_")[1])
    for key in (revoked, expired, ""):
        assert (await client.get("/v1/workspaces", headers=bearer(key))).status_code == 401
    assert await keys.clear() == 2
    assert (await client.get("/v1/workspaces")).status_code == 200


async def test_the_database_holds_no_key(keys: ApiKeys, reme: Engine) -> None:
    key = await keys.create("ops")
    secret = key.split("_", 2)[2]
    async with reme.database.maintenance() as connection:
        row = await (await connection.execute("select k::text from reme.api_key k")).fetchone()
    assert row is not None
    assert secret not in row[0]
    assert secret.encode().hex() not in row[0]
    assert await reme.database.fetch("w", "select key_id from reme.api_key") == [], "no workspace sees the keys"


async def test_nothing_of_a_request_is_read_before_its_key(app: FastAPI, keys: ApiKeys) -> None:
    await keys.create("ops")
    paths = app.openapi()["paths"]
    assert {"/add_memory", "/v1/workspaces/{workspace_id}/records", "/retriever"} <= paths.keys()
    for path in paths:
        for method in paths[path].keys() - {"get"}:
            address = path.format(workspace_id="mine", memory_id="x")
            assert await answer_without_body(app, method.upper(), address) == (401, False), path
    for form in {route.path for route in actions.router.routes} - {"/inspector/sign-in", "/inspector/sign-out"}:
        assert await answer_without_body(app, "POST", form) == (303, False), f"{form} leads to the page for the key"


@pytest.mark.parametrize(("transport", "path"), [("http", "/mcp"), ("sse", "/messages/"), ("sse", "/sse")])
async def test_nothing_is_read_over_mcp_before_the_key(reme: Engine, transport: Any, path: str) -> None:
    await ApiKeys(reme.database).create("ops")
    app = create_mcp_app(reme, transport)
    assert await answer_without_body(app, "GET" if path == "/sse" else "POST", path) == (401, False)


async def test_a_form_that_is_no_key_is_not_read_to_its_end(client: Client, keys: ApiKeys) -> None:
    await keys.create("ops")
    form, headers = {"key": "x" * 100_000}, {"Origin": "http://localhost"}
    refused = await client.post("/inspector/sign-in", data=form, headers=headers)
    assert (refused.status_code, "the form is too long" in refused.text) == (422, True)


async def test_what_a_flow_takes_by_default_it_takes_and_needs_a_key_for(settings: Settings) -> None:
    by_default = {"workspace_id": {"type": "string", "default": "shop"}, "top_k": {"type": "integer", "default": 5}}
    settings.flow["few"] = FlowSettings(flow_content="build_query >> recall >> merge", input_schema=by_default)
    async with Engine(settings) as reme, connected(app := create_app(reme)) as client:
        await reme.memories.add("shop", [f"Tea number {number} is good." for number in range(9)], kind="task")
        for request, count in (({}, 5), ({"top_k": None, "workspace_id": "shop"}, 5), ({"top_k": 2}, 2)):
            answer = await client.post("/few", json={"query": "tea", **request})
            assert len(answer.json()["metadata"]["memory_list"]) == count
        service: Service = app.state.service
        headers = bearer(await service.keys.create("me", ["default"]))
        refused = await client.post("/few", json={"query": "tea"}, headers=headers)
        assert refused.status_code == 403 and "'shop'" in refused.json()["message"]
        assert (await client.post("/few", json={"query": "x", "workspace_id": ""}, headers=headers)).status_code == 200


async def test_a_flow_with_the_name_of_the_inspector_needs_a_key_like_others(settings: Settings) -> None:
    settings.flow["inspector"] = FlowSettings(flow_content="build_query >> recall >> merge")
    async with Engine(settings) as reme, connected(app := create_app(reme)) as client:
        assert (await client.post("/inspector", json={"query": "tea"})).status_code == 200
        service: Service = app.state.service
        key = await service.keys.create("me")
        assert (await client.post("/inspector", json={"query": "tea"})).status_code == 401
        assert (await client.post("/inspector", json={"query": "tea"}, headers=bearer(key))).status_code == 200
