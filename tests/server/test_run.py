"""What a running service does besides answering."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx
import pytest
import uvicorn
from pydantic import SecretStr
from sse_starlette.sse import AppStatus

from reme_core import Message, Settings
from reme_core.engine import Engine
from reme_core.errors import ConfigurationError
from reme_core.flows.execute import Response
from reme_core.server import stream
from reme_core.server.http import create_app
from reme_core.server.run import _bind, _listen, _signals_to, _start_listening, _url_of, serve_http, serve_mcp
from reme_core.server.service import Service
from reme_core.settings import WorkerSettings
from tests.server.conftest import Process, connected


@asynccontextmanager
async def running(reme: Engine, *, stop_seconds: int) -> AsyncIterator[tuple[uvicorn.Server, httpx.AsyncClient]]:
    """A service that waits so many seconds for requests when it is told to stop, until it has ended; and a client."""
    server = uvicorn.Server(uvicorn.Config(create_app(reme), log_config=None, timeout_graceful_shutdown=stop_seconds))
    with _bind("127.0.0.1", 0) as listening:
        _start_listening(listening)
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        async with httpx.AsyncClient(base_url=_url_of(listening), timeout=20) as client:
            yield server, client
        await serving


async def test_what_an_earlier_service_left_is_done_although_nobody_records(
    start: Callable[..., Process], own_data_dir: Path, free_port: int
) -> None:
    worker = WorkerSettings(embedded=False, after_messages=1)
    async with Engine(Settings(data_dir=own_data_dir, worker=worker)) as reme:
        await reme.record("w", [Message(content="My name is Lena and I live in Hamburg.", session_id="s")])
        assert [job.status for job in await reme.background.jobs("w")] == ["todo"]

    process = start("backend=http", f"http.port={free_port}")
    await asyncio.to_thread(process.wait_until_healthy)
    until = time.monotonic() + 60
    async with httpx.AsyncClient(base_url=process.url) as client:
        while not (kept := (await client.get("/v1/workspaces/w/memories")).json()["memories"]):
            assert time.monotonic() < until, process.said
            await asyncio.sleep(0.2)
    assert any("Hamburg" in memory["content"] for memory in kept)


async def test_an_app_in_a_server_of_ones_own_does_what_was_left_too(settings: Settings) -> None:
    settings.worker = WorkerSettings(embedded=False, after_messages=1)
    async with Engine(settings) as reme:
        await reme.record("w", [Message(content="My name is Lena and I live in Hamburg.", session_id="s")])
    settings.worker.embedded = True
    async with asyncio.timeout(60), connected(create_app(settings)) as client:
        while not (await client.get("/v1/workspaces/w/memories")).json()["memories"]:
            await asyncio.sleep(0.2)


@pytest.mark.parametrize(
    ("host", "port", "told"),
    [
        ("127.0.0.1", 99_999, "cannot listen on 127.0.0.1:99999: a port is a number from 0 to 65535; set another"),
        ("no.such.host.invalid", 0, "not known; set another host or port"),
    ],
)
async def test_an_address_that_cannot_be_is_an_error_that_says_so(
    settings: Settings, host: str, port: int, told: str
) -> None:
    settings.http.host, settings.http.port = host, port
    with pytest.raises(ConfigurationError, match=told):
        await serve_http(settings)


@pytest.mark.parametrize("grace", [None, 1])
async def test_a_stream_ends_in_order_though_the_service_is_stopped(
    reme: Engine, monkeypatch: pytest.MonkeyPatch, grace: float | None
) -> None:
    if grace is not None:
        monkeypatch.setattr(stream, "GRACE_SECONDS", grace)
    told = asyncio.Event()

    async def answer_slowly(*_: object, tell: Callable[[str], None], **__: object) -> Response:
        tell("Good ")
        told.set()
        await asyncio.sleep(3)
        return Response(answer="Good morning.")

    monkeypatch.setattr(Service, "execute", answer_slowly)
    async with running(reme, stop_seconds=10) as (server, client):
        headers = {"Accept": "text/event-stream"}
        asked = asyncio.create_task(client.post("/retrieve_task_memory", json={"query": "x"}, headers=headers))
        await told.wait()
        server.should_exit = True
        monkeypatch.setattr(AppStatus, "should_exit", True)  # as both are after SIGTERM
        events = (await asked).text
    assert "event: answer" in events
    last = events.partition("event: response")[2] if grace is None else events.partition("event: error")[2]
    assert ("Good morning." if grace is None else '"code":"stopping"') in last


async def test_a_request_that_a_stopping_service_cannot_wait_for_is_told_so(
    reme: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = asyncio.Event()

    async def answer_never(*_: object, **__: object) -> Response:
        begun.set()
        await asyncio.sleep(60)
        return Response()

    monkeypatch.setattr(Service, "execute", answer_never)
    async with running(reme, stop_seconds=1) as (server, client):
        asked = asyncio.create_task(client.post("/retrieve_task_memory", json={"query": "x"}))
        await begun.wait()
        server.should_exit = True
        answer = await asked
    assert (answer.status_code, answer.json()["code"]) == (503, "stopping")


async def test_a_port_that_is_taken_is_told_before_the_database_is_opened(settings: Settings, free_port: int) -> None:
    settings.database_url = SecretStr("postgresql://nobody@127.0.0.1:1/nowhere")
    settings.http.port = settings.mcp.port = free_port
    settings.mcp.transport = "http"
    with _bind("127.0.0.1", free_port) as first, _bind("127.0.0.1", free_port) as second:
        _start_listening(first)
        with pytest.raises(ConfigurationError, match=f":{free_port}: Address already in use; set another"):
            _start_listening(second)
        for serve in (serve_http, serve_mcp):
            with pytest.raises(ConfigurationError, match=f":{free_port}: Address already in use; set another"):
                await serve(settings)


async def test_own_ops_in_a_file_beside_the_configuration_are_served(
    start: Callable[..., Process], tmp_path: Path, free_port: int
) -> None:
    (tmp_path / "my_module.py").write_text(
        "from reme_core.flows.registry import op\n"
        "from reme_core.flows.state import RetrievalState\n"
        "@op(reads={'query'}, writes={'answer'})\n"
        "async def shout(state: RetrievalState, deps: object) -> None:\n"
        "    'Shout.'\n"
        "    state.answer = state.query.upper()\n"
    )
    (tmp_path / "mine.yaml").write_text("ops: [my_module]\nflow: {shout: {flow_content: shout}}\n")
    process = start("backend=http", "config=mine.yaml", f"http.port={free_port}")
    await asyncio.to_thread(process.wait_until_healthy)
    async with httpx.AsyncClient(base_url=process.url) as client:
        assert (await client.post("/shout", json={"query": "hello"})).json()["answer"] == "HELLO"


async def test_a_log_in_json_is_an_object_each_line_and_names_the_request_and_no_key(
    start: Callable[..., Process], free_port: int
) -> None:
    process = start("serve", "--json", "--port", str(free_port), "--set", "log.level=DEBUG")
    await asyncio.to_thread(process.wait_until_healthy)
    async with httpx.AsyncClient(base_url=process.url) as client:
        headers = {"X-Request-ID": "tonight", "Authorization": "Bearer reme_hidden"}
        await client.get("/v1/workspaces/Zoë%0A/memories?user_id=secret", headers=headers)
        path = "/v1/workspaces/w/memories"
        await client.post(path, content=b"{}", headers={"X-Request-ID": "bad"})
    process.stop()
    lines = [json.loads(line) for line in process.said.splitlines()]
    assert all(line.keys() >= {"time", "level", "logger", "message"} for line in lines)
    assert any("listens http://127.0.0.1" in line["message"] for line in lines)
    told = {line["request_id"]: line for line in lines if "request_id" in line}
    assert told["tonight"]["message"].startswith("GET /v1/workspaces/Zo%C3%AB%0A/memories: ")
    assert told["bad"]["message"].startswith(f"POST {path}: 422 after ")
    assert "hidden" not in process.said and "secret" not in process.said


async def test_a_log_can_be_of_warnings_alone(start: Callable[..., Process], free_port: int) -> None:
    process = start("serve", "--port", str(free_port), REME_LOG__LEVEL="warning", REME_LOG__FORMAT="json")
    await asyncio.to_thread(process.wait_until_healthy)
    process.stop()
    assert process.said == ""


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("transport", ["", "http", "stdio"])
def test_a_service_that_is_stopped_closes_its_engine_in_order(
    migrated_data_dir: Path, free_port: int, tmp_path: Path, transport: str, signum: int
) -> None:
    port = ["--port", str(free_port)]
    command = ["mcp", "--transport", transport] if transport else ["serve"]
    command += port if transport != "stdio" else []
    script = (
        "import signal, sys\nfrom reme_core.cli.main import main\nfrom reme_core.engine import Engine\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"  # as what a shell starts in the background has it
        "close = Engine.aclose\n"
        "async def close_and_say(self):\n    await close(self)\n    print('closed in order', file=sys.stderr)\n"
        f"Engine.aclose = close_and_say\nmain({command!r})"
    )
    environ = {**os.environ, "REME_HOME": str(migrated_data_dir), "COLUMNS": "200"}
    said = tmp_path / "said.txt"
    with (
        said.open("wb") as errors,
        subprocess.Popen([sys.executable, "-c", script], env=environ, stdin=subprocess.PIPE, stderr=errors) as process,
    ):
        until = time.monotonic() + 60
        while "database" not in said.read_text(encoding="utf-8"):
            assert process.poll() is None and time.monotonic() < until, said.read_text(encoding="utf-8")
            time.sleep(0.1)
        time.sleep(0.5)  # it serves
        process.send_signal(signum)
        try:
            code = process.wait(timeout=20)
        finally:
            process.kill()
    assert "closed in order" in said.read_text(encoding="utf-8")
    assert "Traceback" not in said.read_text(encoding="utf-8")
    assert code == (130 if transport == "stdio" else 0)


@pytest.mark.timeout(30)
async def test_a_service_that_is_stopped_while_it_opens_does_not_serve(reme: Engine) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    with suppress(asyncio.CancelledError):  # as `wait_for` may swallow it before Python 3.12
        await asyncio.sleep(0)
    try:
        with _bind("127.0.0.1", 0) as listening, pytest.raises(asyncio.CancelledError):
            await _listen(reme, create_app(reme), listening, {"listens": ""})
    finally:
        task.uncancel()


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_just_before_a_service_handles_signals_stops_it(signum: signal.Signals) -> None:
    server = uvicorn.Server(uvicorn.Config("no.app"))
    with _signals_to(server):
        signal.raise_signal(signum)
    assert server.should_exit


def test_a_worker_that_says_that_it_works_can_be_stopped(start: Callable[..., Process]) -> None:
    process = start("worker")
    until = time.monotonic() + 60
    while "working on jobs" not in process.said:
        assert time.monotonic() < until, process.said
        time.sleep(0.02)
    assert process.stop() == 0, "it ends in order, and is not killed by the signal"
