"""Health: what tells an operator that a service lives and is ready, and a tenant nothing about the database."""

from __future__ import annotations

import asyncio
import html
import json
import re
import threading
import time
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest
from mcp.shared.memory import create_connected_server_and_client_session as connect
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from pydantic import SecretStr

from reme_core import Settings
from reme_core.engine import Engine
from reme_core.models import local
from reme_core.postgres import database as module
from reme_core.server import auth
from reme_core.server.auth import ApiKeys
from reme_core.server.http import create_app
from reme_core.server.mcp import create_mcp_app, create_server
from reme_core.server.run import _bind, _url_of
from reme_core.server.service import Service
from reme_core.settings import ChatSettings
from reme_core.spool.file import Entry
from reme_core.spool.waiting import Spool, spool_path
from reme_core.testing.gate import Gate
from reme_core.types import Message
from tests.loopback import Loopback
from tests.server.conftest import connected


async def test_a_service_is_ready_and_says_what_waits_whatever_keys_there_are(
    client: httpx.AsyncClient, reme: Engine
) -> None:
    await ApiKeys(reme.database).create("somebody")
    assert (await client.get("/health/live")).json() == {"status": "healthy"}
    ready = (await client.get("/health/ready")).json()
    assert (ready["status"], ready["database"], ready["due_jobs"], ready["models"]) == ("ready", True, 0, None)


async def test_health_never_waits_for_a_request_that_waits(client: httpx.AsyncClient, reme: Engine) -> None:
    held = [await reme.database._pool.getconn() for _ in range(reme.settings.pool_size)]  # type: ignore[union-attr]
    stuck = asyncio.create_task(client.post("/retrieve_task_memory", json={"query": "x"}))
    await asyncio.sleep(0.1)
    begun = time.monotonic()
    assert (await client.get("/health")).json() == {"status": "healthy"}
    assert time.monotonic() - begun < 1
    assert not stuck.done()
    for connection in held:
        await reme.database._pool.putconn(connection)  # type: ignore[union-attr]
    assert (await stuck).status_code == 200


async def test_health_is_told_while_a_retrieval_works(
    client: httpx.AsyncClient, reme: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await reme.memories.add("w", "She drinks tea.")
    encode, may_go_on, went_on = local._encode, threading.Event(), []

    def encode_slowly(*given: Any) -> Any:
        went_on.append(may_go_on.wait(10))
        return encode(*given)

    monkeypatch.setattr(local, "_encode", encode_slowly)
    asked = {"workspace_id": "w", "query": "What does she drink?"}
    working = asyncio.create_task(client.post("/retrieve_personal_memory", json=asked))
    await asyncio.sleep(0.1)
    assert (await client.get("/health")).json() == {"status": "healthy"}
    may_go_on.set()
    assert "tea" in (await working).json()["answer"]
    assert went_on and all(went_on), "nothing else was done while the query was embedded"


async def test_what_could_run_and_does_not_is_counted(settings: Settings) -> None:
    settings.worker.embedded = False
    settings.worker.after_messages = 1
    async with Engine(settings) as reme, connected(create_app(reme)) as client:
        await reme.record("alice", [Message(content="I moved to Porto.", session_id="monday")])
        assert (await client.get("/health/ready")).json()["due_jobs"] == 1


async def test_a_database_that_takes_no_writes_is_not_ready(settings: Settings, database_url: str) -> None:
    url = make_conninfo(database_url, options="-c default_transaction_read_only=on")
    settings.database_url = SecretStr(url)
    settings.worker.embedded = False
    async with Engine(settings) as reme, connected(create_app(reme)) as client:
        answer = await client.get("/health/ready")
    told = answer.json()
    assert (answer.status_code, told["status"], told["database"], told["writable"]) == (503, "not ready", True, False)


async def test_the_log_says_why_a_service_is_not_ready(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("reme_core.server.around._READY_SECONDS", 0.0)
    assert (await client.get("/health/ready")).status_code == 503
    assert "not ready: the database did not answer" in caplog.text


async def test_models_are_asked_where_that_is_wanted(settings: Settings, loopback: Loopback) -> None:
    settings.llm["default"] = ChatSettings(model_name="talker", base_url=loopback.url, max_retries=0)
    async with Engine(settings) as reme, connected(create_app(reme)) as client:
        loopback.chat("OK")
        assert (await client.get("/health/ready")).json()["models"] is None
        assert (await client.get("/health/ready?models=true")).json()["models"] is True
        settings.llm["default"].base_url = "http://127.0.0.1:1/v1"
    async with Engine(settings) as reme, connected(create_app(reme)) as client:
        away = await client.get("/health/ready?models=true")
        assert (away.status_code, away.json()["models"]) == (503, False)


async def test_a_tenant_is_told_nothing_of_a_database_that_is_away_and_the_log_a_line_for_each_request(
    settings: Settings, database_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "POOL_SECONDS", 1.0)
    with Gate(database_url) as gate:
        settings.database_url = SecretStr(gate.url)
        settings.worker.embedded = False
        async with Engine(settings) as reme, connected(create_app(reme)) as client:
            await client.get("/v1/workspaces")
            gate.close()
            answers = [
                await client.get("/health/ready"),
                await client.post("/v1/workspaces/w/recall", json={"query": "tea"}),
                await client.post("/retrieve_personal_memory", json={"query": "tea"}),
            ]
            async with connect(create_server(Service(reme, "localhost"))) as session:
                told = (await session.call_tool("list_memory", {})).content[0].text  # type: ignore[union-attr]
            gate.open()
    assert [answer.status_code for answer in answers] == [503] * 3
    assert len(told_of := [r for r in caplog.records if r.name == "reme_core.server.errors"]) == 2
    assert not any(record.exc_info for record in told_of)
    for text in (*(answer.text for answer in answers), told):
        assert_names_nothing_of(gate.url, text)


def assert_names_nothing_of(url: str, text: str) -> None:
    where = conninfo_to_dict(url)
    for name in ("user", "dbname", "host", "port"):
        assert str(where[name]) not in text, text


@pytest.mark.parametrize(("kind", "path"), [("http", "/mcp"), ("sse", "/sse")])
async def test_mcp_over_http_says_that_the_database_is_away_and_works_when_it_is_back(
    settings: Settings, database_url: str, monkeypatch: pytest.MonkeyPatch, kind: Literal["http", "sse"], path: str
) -> None:
    monkeypatch.setattr(module, "POOL_SECONDS", 1.0)
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    headers = {"accept": "application/json, text/event-stream"}
    with Gate(database_url) as gate:
        settings.database_url = SecretStr(gate.url)
        settings.worker.embedded = False
        async with Engine(settings) as reme, connected(create_mcp_app(reme, kind)) as client:
            gate.close()
            method = "POST" if kind == "http" else "GET"
            away = await client.request(method, path, json=request, headers=headers)
            assert (away.status_code, away.headers["retry-after"]) == (503, "1")
            assert away.json()["code"] == "database_unavailable"
            assert_names_nothing_of(gate.url, away.text)
            gate.open()
            while not await reme.database.answers(within=5):
                await asyncio.sleep(0.1)
            if kind == "http":  # the other one is a stream without an end
                back = await client.post(path, json=request, headers=headers)
                assert back.status_code == 200 and "reme-core" in back.text


def test_the_printed_address_is_the_one_that_is_bound() -> None:
    with _bind("127.0.0.1", 0) as listening:
        host, port = listening.getsockname()
        assert port and _url_of(listening) == f"http://{host}:{port}"
    with _bind("0.0.0.0", 0) as listening:
        assert _url_of(listening).startswith("http://0.0.0.0:")


async def test_the_dashboard_asks_for_numbers_that_there_are(settings: Settings, loopback: Loopback) -> None:
    settings.worker.embedded = False
    settings.llm["default"] = ChatSettings(model_name="talker", base_url=loopback.url, max_retries=0)
    loopback.chat("Porto.")
    async with Engine(settings) as reme, connected(create_app(reme)) as client:
        await client.post("/v1/workspaces/w/recall", json={"query": "tea"})
        await client.post("/react", json={"query": "Where does she live?", "workspace_id": "w"})
        shown = (await client.get("/metrics")).text
    series = set(re.findall(r"^(reme_\w+)", shown, re.M))
    dashboard = json.loads((Path(__file__).parents[2] / "docs" / "grafana-dashboard.json").read_text(encoding="utf-8"))
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert {name for expression in asked for name in re.findall(r"reme_\w+", expression)} <= series
    assert 'reme_model_calls_total{ok="true",purpose="react"} 1.0' in shown
    assert "reme_jobs_due 0.0" in shown and "reme_pool_waiting 0.0" in shown


async def test_turns_that_wait_for_the_database_are_counted(reme: Engine, client: httpx.AsyncClient) -> None:
    spool = Spool(spool_path("file", reme.settings))
    spool.put(Entry("alice", [Message(content="one")]))
    spool.put(refused := Entry("bob", [Message(content="two")]))
    spool.keep()
    spool.set_aside(refused, "it is too long")
    spool.close()
    shown = (await client.get("/metrics")).text
    assert "reme_spool_waiting 1.0" in shown and "reme_spool_refused 1.0" in shown


@pytest.mark.parametrize("needs_key", [False, True])
async def test_the_numbers_of_the_service_are_told_while_the_database_is_away(
    settings: Settings, database_url: str, monkeypatch: pytest.MonkeyPatch, needs_key: bool
) -> None:
    monkeypatch.setattr(module, "POOL_SECONDS", 1.0)
    monkeypatch.setattr(auth, "_CACHE_SECONDS", 0.0)
    with Gate(database_url) as gate:
        settings.database_url = SecretStr(gate.url)
        settings.worker.embedded = False
        async with Engine(settings) as reme, connected(create_app(reme)) as client:
            keys = ApiKeys(reme.database)
            one, revoked = [{"X-API-Key": await keys.create()} for _ in range(2)] if needs_key else ({}, {})
            for headers in (one, revoked):
                assert (await client.get("/metrics", headers=headers)).status_code == 200
            if needs_key:
                await keys.revoke(revoked["X-API-Key"].split("_")[1])
                assert (await client.get("/metrics", headers=revoked)).status_code == 401
            gate.close()
            told = await client.get("/metrics", headers=one)
            assert (told.status_code, "reme_requests_total{" in told.text) == (200, True)
            assert not needs_key or (await client.get("/metrics", headers=revoked)).status_code == 503
            assert (await client.get("/v1/workspaces", headers=one)).status_code == 503
            assert (await client.get("/nowhere", headers=one)).status_code == 503  # only the numbers are told so


async def test_the_documentation_comes_from_the_service_alone(client: httpx.AsyncClient) -> None:
    page = await client.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    document = (await client.get("/openapi.json")).json()
    for path, operations in document["paths"].items():
        for method in operations:
            assert f"<code>{method.upper()} {html.escape(path)}</code>" in page.text
    assert not re.findall(r"(?:src|href)=.?(?:https?:)?//", page.text) and "<script" not in page.text
