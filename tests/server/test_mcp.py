"""MCP, by the official SDK's own client: over pipes, over streamable HTTP, and over server-sent events."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
import uvicorn
from mcp import ClientSession, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client
from mcp.shared.exceptions import McpError
from mcp.shared.memory import create_connected_server_and_client_session as connect
from mcp.types import CallToolResult, TextContent
from pydantic import AnyUrl

from reme_core.engine import Engine
from reme_core.errors import ConfigurationError, DatabaseUnavailableError, ModelError
from reme_core.server import auth
from reme_core.server.mcp import create_mcp_app, create_server
from reme_core.server.mcp_tools import DEFAULT_TOOLS
from reme_core.server.run import _bind, _start_listening, _url_of
from reme_core.server.service import Service
from reme_core.settings import FlowSettings, Settings
from reme_core.types import Kind, Memory
from tests.scripts import REME
from tests.server.conftest import Process

SAID = {"role": "user", "content": "我喜欢早上喝咖啡工作"}
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


async def whole_story(session: ClientSession) -> None:
    """Remember, retrieve, and look at what is remembered."""
    tools = {tool.name: tool for tool in (await session.list_tools()).tools}
    assert {"retrieve_task_memory", "summary_personal_memory", "add_memory"} <= set(tools)
    assert tools["retrieve_task_memory"].inputSchema["required"] == ["query"]
    made = await session.call_tool(
        "summary_personal_memory", {"workspace_id": "alice", "trajectories": [{"messages": [SAID]}]}
    )
    assert not made.isError, made.content
    assert structured(made)["metadata"]["memory_list"]
    found = await session.call_tool("retrieve_personal_memory", {"workspace_id": "alice", "query": "早上喝什么？"})
    assert "咖啡" in text_of(found)
    assert structured(found)["answer"] == text_of(found)


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


def structured(result: CallToolResult) -> dict[str, Any]:
    assert result.structuredContent is not None
    return result.structuredContent


@pytest.fixture
async def session(reme: Engine) -> AsyncIterator[ClientSession]:
    """A client of a server in this process."""
    task_done = asyncio.Event()
    ready: asyncio.Future[ClientSession] = asyncio.get_running_loop().create_future()

    async def hold() -> None:  # the SDK's scopes have to be left by the task that entered them
        async with connect(create_server(Service(reme, "localhost"))) as opened:
            ready.set_result(opened)
            await task_done.wait()

    holder = asyncio.create_task(hold())
    yield await ready
    task_done.set()
    await holder


async def test_tools_have_proper_schemas_and_give_structured_results(session: ClientSession) -> None:
    await whole_story(session)
    for tool in (await session.list_tools()).tools:
        assert tool.description
        assert tool.inputSchema["type"] == "object"
        assert "config" not in tool.inputSchema["properties"], "a model need not read what only its host would set"
        assert tool.outputSchema is not None
        assert set(tool.outputSchema["properties"]) == {"answer", "messages", "success", "metadata"}


async def test_a_tool_is_called_read_only_by_what_it_does(settings: Settings) -> None:
    settings.mcp.tools = "all"
    settings.flow["retrieve_and_add"] = FlowSettings(flow_content="add_told")
    settings.flow["look_up"] = FlowSettings(flow_content="build_query >> recall >> merge")
    async with Engine(settings) as reme, connect(create_server(Service(reme, "localhost"))) as session:
        tools = (await session.list_tools()).tools
    assert {tool.name for tool in tools if tool.annotations and tool.annotations.readOnlyHint} == {
        "look_up", "retrieve_personal_memory", "retrieve_task_memory", "retrieve_task_memory_simple",
        "retrieve_tool_memory", "list_memory", "read_message", "check_context", "grep_working_memory",
        "read_working_memory",
    }  # fmt: skip


async def test_what_a_model_is_shown_fits_into_its_context(session: ClientSession) -> None:
    tools = (await session.list_tools()).tools
    assert [tool.name for tool in tools] == sorted(DEFAULT_TOOLS) and len(tools) <= 8
    assert len(json.dumps([tool.model_dump(mode="json", exclude_none=True) for tool in tools])) <= 12 * 1024
    assert not any(tool.annotations and tool.annotations.destructiveHint for tool in tools)
    refused = await session.call_tool("vector_store", {"action": "clear"})
    assert refused.isError and "the setting mcp.tools adds others" in text_of(refused)
    by_name = {tool.name: tool for tool in tools}
    message = by_name["summary_personal_memory"].inputSchema["$defs"]["MessageIn"]["properties"]
    assert {"role", "content", "session_id", "message_id"} <= set(message)


@pytest.mark.parametrize(
    ("asked", "listed"), [(["vector_store", "add_memory"], ["vector_store", "add_memory"]), ("all", None)]
)
async def test_other_tools_are_listed_when_they_are_asked_for(
    settings: Settings, asked: str | list[str], listed: list[str] | None
) -> None:
    settings.mcp.tools = asked  # type: ignore[assignment]
    settings.flow["mine"] = FlowSettings(flow_content="build_query >> recall >> merge")
    async with Engine(settings) as reme, connect(create_server(Service(reme, "localhost"))) as session:
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
    assert list(tools) == (listed or sorted(reme.flows.catalog.names()))
    assert tools["vector_store"].annotations and tools["vector_store"].annotations.destructiveHint


async def test_a_tool_that_there_is_not_is_refused_at_the_start(settings: Settings) -> None:
    settings.mcp.tools = ["add_memry"]
    async with Engine(settings) as reme:
        with pytest.raises(ConfigurationError, match="did you mean 'add_memory'"):
            create_server(Service(reme, "localhost"))
        reme.settings.mcp.tools = ["xyz"]
        with pytest.raises(ConfigurationError, match="`reme flows` lists all flows"):
            create_server(Service(reme, "localhost"))


async def test_an_error_tells_the_model_what_to_do(reme: Engine) -> None:
    reme.settings.mcp.tools = "all"
    async with connect(create_server(Service(reme, "localhost"))) as session:
        await errors_tell_what_to_do(session)


async def errors_tell_what_to_do(session: ClientSession) -> None:
    for name, arguments, told in (
        ("retrieve_task_memory", {"query": 5}, "query: "),
        ("retrieve_task_memory", {}, "query: "),
        ("retrieve_task", {"query": "x"}, "there is no tool"),
        (
            "retrieve_task_memory",
            {"query": "x", "config": {"llm.default.api_key": "x"}},
            "config.llm.default.api_key: ",
        ),
        ("react", {"query": "x"}, "llm.default.model_name"),
        ("vector_store", {"action": "dump", "path": "/etc"}, "path: "),
    ):
        result = await session.call_tool(name, arguments)
        assert result.isError
        assert told in text_of(result)


async def test_what_fails_inside_is_told_without_its_inside(
    session: ClientSession, reme: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(reme.workspaces, "list", fail)
    monkeypatch.setattr(reme.flows, "execute", fail)
    for error in (DatabaseUnavailableError("postgresql://secret"), ModelError("m at http://secret"), OSError("secret")):
        with pytest.raises(McpError) as caught:
            await session.list_resources()
        result = await session.call_tool("retrieve_task_memory", {"query": "x"})
        assert result.isError
        assert "secret" not in f"{caught.value} {text_of(result)}"
        assert str(error) in caplog.text


async def test_a_failure_is_found_in_the_log_by_the_request_that_the_caller_was_told(
    session: ClientSession, reme: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise OSError("secret")

    monkeypatch.setattr(reme.flows, "execute", fail)
    told = [text_of(await session.call_tool("retrieve_task_memory", {"query": "x"})) for _ in range(2)]
    ids = [text.rpartition(" ")[2] for text in told]
    assert len(set(ids)) == 2
    assert [r.getMessage() for r in caplog.records if r.name == "reme_core.server.mcp"] == [
        f"request {name}: retrieve_task_memory failed" for name in ids
    ]


async def test_a_tool_that_takes_too_long_is_cancelled_and_says_so(
    session: ClientSession, reme: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = asyncio.Event()

    async def dawdle(*_: object, **__: object) -> None:
        try:
            await anyio.sleep(60)
        finally:
            ended.set()

    monkeypatch.setattr(reme.flows, "execute", dawdle)
    reme.settings.http.timeout_seconds = 0.5
    result = await session.call_tool("retrieve_task_memory", {"query": "x"})
    assert result.isError and ended.is_set()
    told = "it took longer than 0.5 seconds (http.timeout_seconds) and was cancelled; send less at a time"
    assert text_of(result).startswith(told)
    reme.settings.http.timeout_seconds = 60.0
    assert (await session.list_resources()).resources == []


async def test_memories_can_be_browsed_as_resources(session: ClientSession, reme: Engine) -> None:
    (memory,) = await reme.memories.add("alice/bob 茶", "Rex is a dog.")
    (resource,) = (await session.list_resources()).resources
    listed = json.loads((await session.read_resource(resource.uri)).contents[0].text)  # type: ignore[union-attr]
    assert [m["content"] for m in listed] == ["Rex is a dog."]
    one = await session.read_resource(AnyUrl(f"{resource.uri}/{memory.memory_id}"))
    assert json.loads(one.contents[0].text)["memory_id"] == memory.memory_id  # type: ignore[union-attr]
    await reme.memories.delete("alice/bob 茶", memory.memory_id)
    with pytest.raises(McpError, match="was deleted"):
        await session.read_resource(AnyUrl(f"{resource.uri}/{memory.memory_id}"))
    templates = (await session.list_resource_templates()).resourceTemplates
    assert [t.uriTemplate for t in templates] == [
        "reme://workspaces/{workspace_id}/memories",
        "reme://workspaces/{workspace_id}/memories/{memory_id}",
    ]
    with pytest.raises(McpError, match="no resource"):
        await session.read_resource(AnyUrl("reme://elsewhere/x"))


async def test_a_prompt_puts_what_is_remembered_before_the_question(session: ClientSession, reme: Engine) -> None:
    await reme.memories.add("w", Memory(kind=Kind.OBSERVATION, content="Rex is a dog."))
    (prompt,) = (await session.list_prompts()).prompts
    given = await session.get_prompt(prompt.name, {"query": "Who is Rex?", "workspace_id": "w"})
    content = given.messages[0].content
    assert isinstance(content, TextContent)
    assert "Rex is a dog." in content.text
    assert content.text.endswith("Who is Rex?")
    with pytest.raises(McpError, match="query: it is missing; give the question"):
        await session.get_prompt(prompt.name, {"workspace_id": "w"})


@pytest.mark.timeout(180)
async def test_over_pipes_nothing_but_the_protocol_is_on_stdout(own_data_dir: Path, tmp_path: Path) -> None:
    parameters = StdioServerParameters(
        command=REME,
        args=[
            "backend=mcp",
            "mcp.transport=stdio",
            "llm.default.model_name=qwen3-30b-a3b-thinking-2507",
            "embedding_model.default.model_name=text-embedding-v4",
            "vector_store.default.backend=local",
        ],
        env={**os.environ, "REME_HOME": str(own_data_dir)},
        cwd=tmp_path,
    )
    errors = tmp_path / "stderr.txt"
    with errors.open("w", encoding="utf-8") as sink:
        async with stdio_client(parameters, errlog=sink) as (read, write), ClientSession(read, write) as session:
            await session.initialize()  # the SDK's client logs, and fails on, what is no protocol
            await whole_story(session)
    assert "offline rules serve" in " ".join(errors.read_text(encoding="utf-8").split())
    assert "Traceback" not in errors.read_text(encoding="utf-8")


def test_a_call_at_the_end_of_the_input_is_answered(migrated_data_dir: Path) -> None:
    said: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": HELLO},
        {"method": "notifications/initialized"},
        {"id": "cut", "method": "tools/call", "params": {"name": "add_memory", "arguments": {"content": "Tea \ud83c"}}},
        {"id": "last", "method": "tools/call", "params": {"name": "list_memory", "arguments": {}}},
    ]
    process = subprocess.run(
        [REME, "mcp"],
        input=f"{'[' * 100_000}\n" + "".join(json.dumps({"jsonrpc": "2.0", **one}) + "\n" for one in said),
        env=os.environ | {"REME_HOME": str(migrated_data_dir)},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    told = {answer["id"]: answer for answer in map(json.loads, process.stdout.splitlines()) if "id" in answer}
    assert told.keys() == {1, "cut", "last"} and not told["last"]["result"]["isError"]
    assert "Tea \ufffd" in told["cut"]["result"]["structuredContent"]["answer"], (
        "half of an emoji, as JavaScript cuts it"
    )
    assert "Traceback" not in process.stderr


def between_pipes(command: list[str], home: Path) -> subprocess.Popen[str]:
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(command, env=os.environ | {"REME_HOME": str(home)}, text=True, **pipes)


def test_a_client_that_goes_away_ends_it_in_order(migrated_data_dir: Path) -> None:
    with between_pipes([REME, "mcp"], migrated_data_dir) as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        process.stdout.close()
        process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}) + "\n")
        process.stdin.close()
        told = process.stderr.read()
        assert process.wait(timeout=60) == 0
    assert "nobody reads the answers any more" in told and "Traceback" not in told and "BrokenPipe" not in told


def test_ctrl_c_ends_it_although_its_input_stays_open(migrated_data_dir: Path) -> None:
    code = (
        "import signal\nfrom reme_core.cli import main\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a job in the background ignores it
        "main(['mcp'])"
    )
    with between_pipes([sys.executable, "-c", code], migrated_data_dir) as process:
        assert process.stderr is not None
        while "embedding" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(timeout=20) == 130
        finally:
            process.kill()
        assert "Traceback" not in process.stderr.read()


@asynccontextmanager
async def over_http(kind: str, process: Process) -> AsyncIterator[ClientSession]:
    if kind == "sse":
        async with (
            sse_client(f"{process.url}/sse") as (read, write),
            ClientSession(read, write) as session,
        ):
            yield session
    else:
        async with (
            streamablehttp_client(f"{process.url}/mcp") as (read, write, _),
            ClientSession(read, write) as session,
        ):
            yield session


@pytest.mark.filterwarnings("ignore:Use `streamable_http_client`:DeprecationWarning")
@pytest.mark.timeout(180)
@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_over_http_with_a_real_process(kind: str, start: Callable[..., Process], free_port: int) -> None:
    process = start("backend=mcp", f"mcp.transport={kind}", f"mcp.port={free_port}")
    await listening(process)
    async with over_http(kind, process) as session:
        await session.initialize()
        await whole_story(session)
    async with httpx.AsyncClient() as client:
        answer = await client.post(
            f"{process.url}/{'messages/' if kind == 'sse' else 'mcp'}",
            headers={"Host": "evil.example", "Content-Type": "application/json"},
            content=b"{}",
        )
        assert answer.status_code == 421, "a web page cannot reach it through a name of its own"
        astray = await client.post(f"{process.url}/", json={})
        where = "/sse" if kind == "sse" else "/mcp"
        assert (astray.status_code, astray.json()["message"]) == (404, f"there is no / here; MCP is at {where}")
    assert "Traceback" not in process.said, "a client that leaves is no error"


async def test_over_http_any_process_answers_any_call(reme: Engine) -> None:
    app = create_mcp_app(reme, "http")
    headers = {"Accept": "application/json, text/event-stream", "Mcp-Session-Id": "of another process"}
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as client,
    ):
        answer = await client.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    assert (answer.status_code, "add_memory" in answer.text) == (200, True)


async def listening(process: Process) -> None:
    for _ in range(300):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", process.port)
        except OSError:
            await asyncio.sleep(0.1)
        else:
            writer.close()
            await writer.wait_closed()
            return
    raise AssertionError(process.said)


async def test_a_service_that_is_stopped_while_somebody_listens_says_nothing_of_it(
    start: Callable[..., Process], free_port: int
) -> None:
    process = start("backend=mcp", "mcp.transport=sse", f"mcp.port={free_port}")
    async with httpx.AsyncClient(base_url=process.url, timeout=40) as client:
        headers = {"accept": "application/json, text/event-stream"}
        await listening(process)
        async with client.stream("GET", "/sse", headers=headers) as answer:
            assert answer.status_code == 200
            assert await asyncio.to_thread(process.stop) in (0, -signal.SIGTERM)
            with contextlib.suppress(httpx.RemoteProtocolError):
                await answer.aread()
    assert "ERROR" not in process.said and "Traceback" not in process.said


async def test_events_end_when_their_key_is_revoked_since_no_call_would_be_answered(
    reme: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "_CACHE_SECONDS", 0.1)
    keys = auth.ApiKeys(reme.database)
    key = await keys.create("an agent")
    server = uvicorn.Server(uvicorn.Config(create_mcp_app(reme, "sse"), log_config=None))
    with _bind("127.0.0.1", 0) as listens:
        _start_listening(listens)
        serving = asyncio.create_task(server.serve(sockets=[listens]))
        async with (
            asyncio.timeout(30),
            sse_client(f"{_url_of(listens)}/sse", headers={"X-API-Key": key}) as (read, write),
            ClientSession(read, write) as session,
        ):
            await session.initialize()
            assert not (await session.call_tool("list_memory", {})).isError
            await asyncio.sleep(0.5)
            assert not (await session.call_tool("list_memory", {})).isError
            await keys.revoke(key.split("_")[1])
            with pytest.raises((McpError, anyio.ClosedResourceError)):
                while True:
                    await session.call_tool("list_memory", {})
                    await asyncio.sleep(0.1)
        server.should_exit = True
        await serving


@pytest.mark.parametrize(
    ("uri", "code"),
    [
        ("reme://workspaces/w/memories/none", -32002),
        ("reme://elsewhere/x", -32002),
        ("reme://workspaces/*/memories", -32602),
    ],
)
async def test_a_client_tells_errors_of_resources_apart_by_their_codes(
    session: ClientSession, uri: str, code: int
) -> None:
    with pytest.raises(McpError) as caught:
        await session.read_resource(AnyUrl(uri))
    assert caught.value.error.code == code


async def test_errors_of_prompts_and_of_the_service_have_the_codes_of_the_protocol(
    session: ClientSession, reme: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise OSError("secret")

    for name, arguments in (("no_such", {"query": "x"}), ("memory_note", {})):
        with pytest.raises(McpError) as refused:
            await session.get_prompt(name, arguments)
        assert refused.value.error.code == -32602
    monkeypatch.setattr(reme.workspaces, "list", fail)
    with pytest.raises(McpError) as failed:
        await session.list_resources()
    assert failed.value.error.code == -32603
