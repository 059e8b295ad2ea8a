"""Errors over HTTP: JSON with a code, a message that names the field, and an id that is in the log too."""

from __future__ import annotations

import gzip
import json
import logging
import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyio
import httpx
import pytest
from fastapi import FastAPI
from starlette.types import Message, Receive, Scope, Send

from reme_core.engine import Engine
from reme_core.errors import (
    DatabaseUnavailableError,
    ModelAnswerError,
    ModelError,
    ModelRefusedError,
    ModelUnavailableError,
    ReMeError,
)
from reme_core.server.errors import AccessError, status_of
from reme_core.server.http import create_app
from tests.pages.blocks import ROOT
from tests.server.conftest import connected

Client = httpx.AsyncClient
NESTED = b'{"query": "x", "extra": ' + b"[" * 2_000 + rb'"\u0000"' + b"]" * 2_000 + b"}"


def kinds_of_errors(kind: type[ReMeError]) -> Iterator[type[ReMeError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from kinds_of_errors(below)


def test_the_page_of_services_has_every_code_beside_its_status() -> None:
    page = (ROOT / "docs/service.md").read_text(encoding="utf-8")
    told = {
        (status, code)
        for row in re.findall(r"^\| \d{3}.*", page, re.MULTILINE)
        for status in re.findall(r"\b\d{3}\b", row.split("|")[1])
        for code in re.findall(r"`(\w+)`", row.split("|")[2])
    }
    kinds = {kind for kind in kinds_of_errors(ReMeError) if kind.__module__.startswith("reme_core")} - {AccessError}
    assert {(str(status_of(kind.__new__(kind))), kind.code) for kind in kinds} <= told


async def test_every_error_is_json_with_code_message_and_request_id(client: Client) -> None:
    cases: list[tuple[str, str, Any, int, str]] = [
        ("GET", "/nowhere", None, 404, "not_found"),
        ("GET", "/retrieve_task_memory", None, 405, "method_not_allowed"),
        ("POST", "/retrieve_task_memory", {}, 422, "invalid_input"),
        ("POST", "/retrieve_task_memory", {"query": "x", "workspace_id": "*"}, 422, "invalid_input"),
        ("POST", "/react", {"query": "x"}, 409, "configuration"),
        ("GET", "/v1/workspaces/w/memories/none", None, 404, "not_found"),
    ]
    for method, path, body, status, code in cases:
        response = await client.request(method, path, json=body)
        told = response.json()
        assert (response.status_code, told["code"]) == (status, code), (path, told)
        assert set(told) == {"code", "message", "request_id"}
        assert told["message"]
        assert told["request_id"] == response.headers["x-request-id"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"query": 5}, "query"),
        ({"query": "x", "top_k": 0}, "top_k"),
        ({"query": "x", "top_k": "many"}, "top_k"),
        ({"query": "x", "messages": [{"role": "robot"}]}, "messages.0.role"),
        ({"query": "x", "messages": [{"time_created": "yesterday"}]}, "messages.0.time_created"),
        ({"query": "x", "workspace_id": "w" * 201}, "workspace_id"),
    ],
)
async def test_a_validation_error_names_the_field_and_repeats_nothing(client: Client, body: Any, field: str) -> None:
    response = await client.post("/retrieve_task_memory", json=body)
    assert response.status_code == 422
    assert response.json()["message"].startswith(f"{field}: ")
    assert not any(value in response.text for value in ("many", "yesterday"))


async def test_no_type_that_was_tried_is_told_as_a_part_of_a_field(client: Client) -> None:
    answer = await client.post("/summary_task_memory", json={"trajectories": [{"score": "0.9"}]})
    number, boolean = (f"trajectories.0.score: Input should be a valid {what}" for what in ("number", "boolean"))
    assert answer.json()["message"] == f"{number}; {boolean}"


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        (
            "/v1/workspaces/a/memories",
            {"memories": [{"content": "x"}, {"content": " "}]},
            "memories.1.content: it is empty",
        ),
        ("/v1/workspaces/a/recall", {"query": ""}, "query: it is empty; give a text"),
        ("/add_memory", {"content": ""}, "content: it is empty; give a text"),
        ("/agent", {"query": " "}, "query: it is empty; give a text"),
    ],
)
async def test_an_empty_text_is_called_empty(client: Client, path: str, body: Any, told: str) -> None:
    refused = await client.post(path, json=body)
    assert (refused.status_code, refused.json()["message"].startswith(told)) == (422, True), refused.text


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"query": "x", "kind": "custm"}, "kind: Input should be a valid list; kind: Input should be 'observation', "),
        ({"query": "x", "kind": ["custm"]}, "kind.0: Input should be 'observation', "),
        ({"query": "x", "userid": "ann"}, "body: there is no field 'userid'; did you mean 'user_id'?"),
        (
            {"query": "x", "happened": {"since": "2024-05-01"}},
            "happened: there is no field 'since'; it has start, end",
        ),
        (
            {"query": "x", "time": {"strat": "2024-05-01"}},
            "time: there is no field 'strat'; did you mean 'start'?",
        ),
    ],
)
async def test_a_wrong_field_is_told_in_words_that_a_caller_knows(client: Client, body: Any, told: str) -> None:
    message = (await client.post("/v1/workspaces/a/recall", json=body)).json()["message"]
    assert message.startswith(told) and "[" not in message


async def test_a_mistyped_path_is_told_the_nearest(client: Client) -> None:
    wrong = await client.post("/retreive_task_memory", json={"query": "x"})
    assert wrong.json()["message"] == "there is no /retreive_task_memory here; did you mean '/retrieve_task_memory'?"
    assert (await client.get("/zzz")).json()["message"] == "there is no /zzz here; see /docs"


async def test_the_first_wrong_address_holds_nobody_up(
    client: Client, app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    def describe() -> Any:
        raise AssertionError("to describe all of the service takes seconds")

    allowed = {
        path: sorted(method.upper() for method in operations) for path, operations in app.openapi()["paths"].items()
    }
    monkeypatch.setattr(app, "openapi", describe)
    assert (await client.get("/favicon.ico")).status_code == 404
    for path in ("/v1/workspaces/{workspace_id}/memories", "/add_memory", "/health", "/list", "/retriever"):
        refused = await client.put(path.format(workspace_id="w"))
        assert (refused.status_code, refused.headers["allow"]) == (405, ", ".join(allowed[path]))


@pytest.mark.parametrize("where", [{}, {"chat_id": "s"}, {"handle": "beef"}])
async def test_a_bad_pattern_is_refused_also_where_there_is_nothing_to_search(
    client: Client, where: dict[str, str]
) -> None:
    refused = await client.post("/grep_working_memory", json={"workspace_id": "w", "pattern": "[", **where})
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_input"), refused.text
    assert refused.json()["message"].startswith("'[' is no regular expression to use")


async def test_a_nul_in_an_address_is_called_one(client: Client) -> None:
    refused = await client.get("/v1/workspaces/a/memories", params={"user_id": "a\0"})
    assert refused.json()["message"] == "user_id: it holds a NUL character (U+0000); remove it"


@pytest.mark.parametrize(
    "content", [b"{", b"\xff", b'{"query": NaN}', b'{"top_k": 1e999}', b"[" * 100_000, b'"x"', NESTED]
)
async def test_a_body_that_is_no_usable_json_is_the_callers_error(client: Client, content: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    response = await client.post("/retrieve_task_memory", content=content, headers=headers)
    assert (response.status_code, response.json()["code"]) == (422, "invalid_input")


@pytest.mark.parametrize("depth", [101, 300, 2_000, 100_000])
async def test_what_is_nested_too_deeply_is_the_callers_error(client: Client, depth: int) -> None:
    nested = '{"a":' * depth + "1" + "}" * depth
    for path, body in (
        ("/v1/workspaces/w/memories", f'{{"memories":[{{"content":"x","metadata":{nested}}}]}}'),
        ("/v1/workspaces/w/records", f'{{"messages":[{{"content":"x","metadata":{nested}}}]}}'),
    ):
        answer = await client.post(path, content=body, headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input"), answer.text
        assert len(answer.content) < 500


async def test_a_body_without_its_content_type_is_told_what_to_send(client: Client) -> None:
    response = await client.post("/retrieve_task_memory", content=b'{"query": "x"}')
    assert response.status_code == 422
    assert "Content-Type: application/json" in response.json()["message"]


async def test_a_request_id_of_the_caller_comes_back_unless_it_is_unusable(client: Client) -> None:
    for given, kept in (("trace-7", True), ("a b", False), ("x" * 200, False)):
        response = await client.get("/health", headers={"X-Request-ID": given})
        assert (response.headers["x-request-id"] == given) is kept


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (ModelUnavailableError("m at http://secret could not be reached"), 503, "model_unavailable"),
        (DatabaseUnavailableError("no connection to secret"), 503, "database_unavailable"),
        (ModelAnswerError("m at http://secret did not answer with JSON"), 502, "model_answer"),
        (ModelRefusedError("m at http://secret refused the request"), 502, "model_refused"),
        (ModelError("m at http://secret refused the key (401: Incorrect API key provided: secret)"), 502, "model"),
        (RuntimeError("password=hunter2"), 500, "internal"),
    ],
)
async def test_a_failure_inside_is_told_without_its_inside(
    reme: Engine,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    status: int,
    code: str,
) -> None:
    async def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(reme.flows, "execute", fail)
    async with connected(create_app(reme)) as client:
        with caplog.at_level(logging.ERROR):
            response = await client.post("/retrieve_task_memory", json={"query": "x"})
    assert (response.status_code, response.json()["code"]) == (status, code)
    assert "hunter2" not in response.text
    assert "secret" not in response.text
    assert "Traceback" not in response.text
    assert response.json()["request_id"] in caplog.text
    assert str(error) in caplog.text


async def test_a_body_beyond_the_limit_is_refused_announced_or_not(reme: Engine) -> None:
    reme.settings.http.max_body_bytes = 1_000

    async def pieces() -> Any:
        for _ in range(100):
            yield b'{"query": "' + b"x" * 100

    async with connected(create_app(reme)) as client:
        for content in (b'"' + b"x" * 2_000 + b'"', pieces()):
            headers = {"Content-Type": "application/json"}
            response = await client.post("/retrieve_task_memory", content=content, headers=headers)
            assert (response.status_code, response.json()["code"]) == (413, "too_large")


@pytest.mark.parametrize("path", ["/retrieve_task_memory", "/v1/workspaces/w/recall", "/mcp"])
async def test_a_compressed_body_is_refused_as_one(client: Client, path: str) -> None:
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/json", "Accept": "application/json"}
    refused = await client.post(path, content=gzip.compress(b'{"query": "tea"}'), headers=headers)
    assert (refused.status_code, refused.json()["code"]) == (415, "content_encoding")
    assert refused.json()["message"] == "the body is 'gzip'; send it without Content-Encoding"
    plain = await client.post("/retrieve_task_memory", json={"query": "tea"}, headers={"Content-Encoding": "identity"})
    assert plain.status_code == 200


async def test_a_request_too_many_is_refused_in_the_form_of_all_errors(reme: Engine) -> None:
    reme.settings.http.limit_concurrency = 1
    held, going_on = anyio.Event(), anyio.Event()

    async def hold() -> Any:
        held.set()
        await going_on.wait()
        yield b'{"query": "x"}'

    async with connected(create_app(reme)) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(
            partial(client.post, "/retrieve_task_memory", content=hold(), headers={"Content-Type": "application/json"})
        )
        await held.wait()
        for path in ("/health", "/health/live"):  # a service that is busy is alive, and must not be restarted
            assert (await client.get(path)).status_code == 200
        refused = await client.post("/retrieve_task_memory", json={"query": "x"})
        going_on.set()
    assert (refused.status_code, refused.json()["code"], refused.headers["retry-after"]) == (503, "overloaded", "1")
    assert "no more than 1 at a time (http.limit_concurrency)" in refused.json()["message"]


async def test_a_request_that_a_server_cancels_is_under_way_no_more_though_its_answer_cannot_be_sent(
    reme: Engine,
) -> None:
    reme.settings.http.limit_concurrency = 1
    app = create_app(reme)

    async def give_way(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_next(message: Message) -> None:
            await anyio.sleep(0)  # a scope of anyio cancels whatever is awaited in it
            await send(message)

        await app(scope, receive, send_next)

    async with connected(app), Client(transport=httpx.ASGITransport(give_way), base_url="http://localhost") as client:
        with anyio.CancelScope() as cancelled:

            async def hold() -> Any:
                cancelled.cancel()
                await anyio.sleep(60)
                yield b""

            headers = {"Content-Type": "application/json"}
            await client.post("/retrieve_task_memory", content=hold(), headers=headers)
        assert cancelled.cancelled_caught
        assert (await client.post("/retrieve_task_memory", json={"query": "x"})).status_code == 200


async def test_a_request_that_takes_too_long_is_cancelled(reme: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []

    async def dawdle(*_: Any, **__: Any) -> None:
        try:
            await anyio.sleep(60)
        finally:
            ended.append("cancelled")

    monkeypatch.setattr(reme.flows, "execute", dawdle)
    reme.settings.http.timeout_seconds = 2.0  # long enough for a busy machine to get as far as the work
    async with connected(create_app(reme)) as client:
        response = await client.post("/retrieve_task_memory", json={"query": "x"})
        streamed = await client.post(
            "/retrieve_task_memory", json={"query": "x"}, headers={"Accept": "text/event-stream"}
        )
    assert (response.status_code, response.json()["code"]) == (504, "timeout")
    event, data = streamed.text.split("\r\n")[:2]
    told = json.loads(data.removeprefix("data: "))
    assert (event, told["code"], told["message"]) == ("event: error", "timeout", response.json()["message"])
    assert told["request_id"] == streamed.headers["x-request-id"]
    assert ended == ["cancelled", "cancelled"]


async def test_metrics_count_by_route_and_not_by_path(client: Client, app: FastAPI) -> None:
    for name in ("a", "b"):
        await client.get(f"/v1/workspaces/w/memories/{name}")
    text = (await client.get("/metrics")).text
    series = (
        'reme_requests_total{endpoint="/v1/workspaces/{workspace_id}/memories/{memory_id}",method="GET",status="404"}'
    )
    assert f"{series} 2.0" in text
