"""MCP over HTTP, beside REST in one service or alone: with the checks, ids, limits and numbers of other requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial

import httpx
import pytest
import uvicorn
from fastapi import FastAPI
from sse_starlette.sse import AppStatus

from reme_core.engine import Engine
from reme_core.errors import ConfigurationError
from reme_core.flows.execute import Response
from reme_core.server import http
from reme_core.server.auth import ApiKeys
from reme_core.server.http import create_app
from reme_core.server.mcp import create_mcp_app
from reme_core.server.run import _bind, _start_listening, _url_of
from reme_core.settings import Settings
from tests.server.conftest import connected

Make = Callable[[Engine], FastAPI]
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_memory", "arguments": {}}}
HEADERS = {"Accept": "application/json"}


@pytest.fixture(params=[create_app, partial(create_mcp_app, transport="http")], ids=["beside REST", "alone"])
def make(request: pytest.FixtureRequest) -> Make:
    """Makes a service that speaks MCP at `/mcp`."""
    made: Make = request.param
    return made


@pytest.fixture
async def client(reme: Engine, make: Make) -> AsyncIterator[httpx.AsyncClient]:
    """A client of one."""
    async with connected(make(reme)) as opened:
        yield opened


@pytest.fixture
def slow(reme: Engine, monkeypatch: pytest.MonkeyPatch) -> tuple[asyncio.Event, asyncio.Event]:
    """Flows that set the first event and wait for the second one."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def wait(*_: object, **__: object) -> Response:
        begun.set()
        await go_on.wait()
        return Response(answer="done")

    monkeypatch.setattr(reme.flows, "execute", wait)
    return begun, go_on


async def test_a_call_has_the_id_and_the_numbers_of_a_request(
    client: httpx.AsyncClient, reme: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise OSError("secret")

    monkeypatch.setattr(reme.flows, "execute", fail)
    answer = await client.post("/mcp", json=LIST, headers=HEADERS | {"X-Request-ID": "tonight"})
    assert (answer.status_code, answer.headers["x-request-id"]) == (200, "tonight")
    assert answer.json()["result"]["content"][0]["text"].endswith("under this request id: tonight")
    assert (await client.get("/health/ready")).json()["status"] == "ready"
    numbers = (await client.get("/metrics")).text
    assert 'reme_requests_total{endpoint="/mcp",method="POST",status="200"} 1.0' in numbers


async def test_a_call_too_many_is_refused(reme: Engine, make: Make, slow: tuple[asyncio.Event, asyncio.Event]) -> None:
    reme.settings.http.limit_concurrency = 1
    begun, go_on = slow
    async with connected(make(reme)) as client:
        first = asyncio.create_task(client.post("/mcp", json=LIST, headers=HEADERS))
        await begun.wait()
        refused = await client.post("/mcp", json=LIST, headers=HEADERS)
        go_on.set()
        assert (await first).json()["result"]["content"][0]["text"] == "done"
    assert (refused.status_code, refused.json()["code"]) == (503, "overloaded")


async def test_a_call_that_takes_too_long_is_told_so_in_the_protocol(
    reme: Engine, make: Make, slow: tuple[asyncio.Event, asyncio.Event]
) -> None:
    reme.settings.http.timeout_seconds = 0.3
    async with connected(make(reme)) as client:
        told = (await client.post("/mcp", json=LIST, headers=HEADERS)).json()["result"]
    assert told["isError"] and "longer than 0.3 seconds" in told["content"][0]["text"]


async def test_only_who_has_a_key_speaks_it(client: httpx.AsyncClient, reme: Engine) -> None:
    key = await ApiKeys(reme.database).create("me", ["mine"])
    assert (await client.post("/mcp", json=LIST, headers=HEADERS)).status_code == 401
    assert [(await client.get(path)).status_code for path in ("/health", "/metrics")] == [200, 401]
    answer = await client.post("/mcp", json=LIST, headers=HEADERS | {"Authorization": f"Bearer {key}"})
    told = answer.json()["result"]
    assert told["isError"] and "not for the workspace 'default'" in told["content"][0]["text"]


async def test_nobody_waits_on_a_stream_on_which_nothing_comes(client: httpx.AsyncClient) -> None:
    async with asyncio.timeout(30):
        answer = await client.get("/mcp", headers={"Accept": "text/event-stream"})
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


async def test_a_call_under_way_is_answered_before_the_service_stops(
    reme: Engine, make: Make, slow: tuple[asyncio.Event, asyncio.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = slow
    server = uvicorn.Server(uvicorn.Config(make(reme), log_config=None, timeout_graceful_shutdown=20))
    with _bind("127.0.0.1", 0) as listens:
        _start_listening(listens)
        serving = asyncio.create_task(server.serve(sockets=[listens]))
        async with httpx.AsyncClient(base_url=_url_of(listens), timeout=20) as client:
            called = asyncio.create_task(client.post("/mcp", json=LIST, headers=HEADERS))
            await begun.wait()
            server.should_exit = True
            monkeypatch.setattr(AppStatus, "should_exit", True)  # as both are after SIGTERM
            await asyncio.sleep(0.5)
            go_on.set()
            answer = await called
        await serving
    assert answer.json()["result"]["content"][0]["text"] == "done"


async def test_without_the_sdk_there_is_the_rest(reme: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "mcp", None)
    async with connected(create_app(reme)) as client:
        assert (await client.get("/health")).status_code == 200
        assert (await client.post("/mcp", json=LIST, headers=HEADERS)).status_code == 404


def test_a_tool_that_there_is_not_is_told_before_the_database_is_opened(settings: Settings) -> None:
    settings.mcp.tools = ["add_memry"]
    with pytest.raises(ConfigurationError, match="did you mean 'add_memory'"):
        create_app(settings)
