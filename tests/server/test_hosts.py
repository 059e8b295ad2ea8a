"""Web pages do not reach a service from a browser: neither under a name of their own, nor by posting to its address."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx
import pytest

from reme_core.engine import Engine
from reme_core.server.http import create_app
from reme_core.server.mcp import create_mcp_app
from tests.server.conftest import Process, connected


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "evil.example:8002", "", "[", "0x7f.1"])
async def test_a_host_that_is_not_ours_is_not_answered(client: httpx.AsyncClient, host: str) -> None:
    for path in ("/list", "/inspector", "/v1/workspaces", "/health"):
        answer = await client.get(path, headers={"Host": host})
        assert (answer.status_code, answer.json()["code"]) == (421, "wrong_host")
        assert "allowed_hosts" in answer.json()["message"]


@pytest.mark.parametrize("host", ["localhost:8002", "127.0.0.1", "[::1]:8002", "LOCALHOST", "192.0.2.7:8002"])
async def test_our_names_and_addresses_are_answered(client: httpx.AsyncClient, host: str) -> None:
    assert (await client.get("/list", headers={"Host": host})).status_code == 200


async def test_a_probe_that_names_no_host_is_answered(start: Callable[..., Process], free_port: int) -> None:
    process = start("serve", "--port", str(free_port))
    await asyncio.to_thread(process.wait_until_healthy)
    for request, status in (("GET /health", b"200"), ("OPTIONS /health", b"405"), ("GET /v1/workspaces", b"200")):
        reader, writer = await asyncio.open_connection("127.0.0.1", free_port)
        writer.write(f"{request} HTTP/1.0\r\n\r\n".encode())
        assert (await reader.readline()).split()[1] == status
        writer.close()
    async with httpx.AsyncClient(base_url=process.url) as client:
        for path in ("/health", "/health/ready", "/docs", "/inspector", "/v1/workspaces"):
            answer = await client.head(path)
            assert (answer.status_code, answer.content) == (200, b"")
            assert int(answer.headers["content-length"]) > 0
        wrong = await client.post("/inspector")
        assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET")
        assert wrong.json()["message"] == "/inspector takes GET only"


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "http://192.0.2.9", "null", "http://localhost.evil.example"]
)
async def test_a_page_of_another_site_writes_nothing(client: httpx.AsyncClient, reme: Engine, origin: str) -> None:
    memory = {"content": "Planted."}
    answer = await client.post("/v1/workspaces/w/memories", json=memory, headers={"Origin": origin})
    assert answer.status_code == 403
    assert await reme.memories.list("w") == []


async def test_our_own_pages_are_answered(client: httpx.AsyncClient) -> None:
    for origin in ("http://localhost:8002", "http://127.0.0.1:3000"):
        assert (await client.get("/list", headers={"Origin": origin})).status_code == 200
    own = {"Host": "192.0.2.7:8002", "Origin": "http://192.0.2.7:8002"}
    assert (await client.get("/list", headers=own)).status_code == 200


async def test_a_host_can_be_allowed(reme: Engine) -> None:
    reme.settings.http.allowed_hosts = ["reme.example"]
    async with connected(create_app(reme)) as client:
        own = {"Host": "reme.example", "Origin": "https://reme.example"}
        assert (await client.get("/list", headers=own)).status_code == 200
        assert (await client.get("/list", headers={"Host": "evil.example"})).status_code == 421
    reme.settings.http.allowed_hosts = ["*"]
    async with connected(create_app(reme)) as client:
        assert (await client.get("/list", headers={"Host": "evil.example"})).status_code == 200


@pytest.mark.parametrize(("kind", "path"), [("http", "/mcp"), ("sse", "/messages/")])
async def test_mcp_keeps_the_same_rule(reme: Engine, kind: str, path: str) -> None:
    app = create_mcp_app(reme, kind)  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        for headers, status in (({"Host": "evil.example"}, 421), ({"Origin": "https://evil.example"}, 403)):
            assert (await client.post(path, json={}, headers=headers)).status_code == status
