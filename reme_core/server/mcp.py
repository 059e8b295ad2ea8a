"""The MCP service: the flows as tools, memories as resources, and a prompt that puts what is remembered before a model.

It speaks over stdio, server-sent events (`/sse`) and streamable HTTP (`/mcp`).
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, Literal
from urllib.parse import quote, unquote, urlsplit

from mcp import types
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.models import InitializationOptions
from mcp.server.sse import SseServerTransport
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import AnyUrl, ValidationError
from starlette.applications import Starlette
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response as HttpResponse
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from reme_core._version import __version__
from reme_core.app import AsyncReMe
from reme_core.errors import InputError, NotFoundError, ReMeError
from reme_core.flow.build import Flow
from reme_core.flow.execute import Response
from reme_core.schema import Memory
from reme_core.server.auth import EVERYTHING, Access, ApiKeys
from reme_core.server.errors import AccessError, error_response
from reme_core.server.service import Service
from reme_core.server.wire import DEFAULT_WORKSPACE, FlowRequest, as_request, problems_in, request_model, scrubbed
from reme_core.store.filters import Filters
from reme_core.turn import TurnMemory

log = logging.getLogger(__name__)

SCHEME: Final = "reme"
_MOST_LISTED: Final = 1_000
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
_NOTE: Final = types.Prompt(
    name="memory_note",
    description="What is remembered about a question, as a note to put before it.",
    arguments=[
        types.PromptArgument(name="query", description="The question at hand.", required=True),
        types.PromptArgument(name="workspace_id", description="Whose memory to look in; default: default."),
    ],
)


def create_server(reme: AsyncReMe) -> Server[Any, Any]:
    """An MCP server over an open memory, for any transport of the SDK.

    Raises:
        FlowError: A flow cannot be built.
    """
    server: Server[Any, Any] = Server("reme-core", version=__version__, instructions="Long-term memory for agents.")
    offer = _Offer(Service(reme), server)
    server.list_tools()(offer.tools)  # type: ignore[no-untyped-call]
    server.call_tool(validate_input=False)(offer.call)  # the request's model validates, and names the field
    server.list_resources()(offer.resources)  # type: ignore[no-untyped-call]
    server.list_resource_templates()(offer.templates)  # type: ignore[no-untyped-call]
    server.read_resource()(offer.read)  # type: ignore[no-untyped-call]
    server.list_prompts()(offer.prompts)  # type: ignore[no-untyped-call]
    server.get_prompt()(offer.prompt)  # type: ignore[no-untyped-call]
    return server


async def run_stdio(reme: AsyncReMe) -> None:
    """Serve the program that started this one, over its pipes, until it hangs up. Nothing else may write to stdout."""
    server = create_server(reme)
    async with stdio_server() as (read, write):
        await server.run(read, write, _options(server))


def create_mcp_app(reme: AsyncReMe, transport: Literal["sse", "http"], *, host: str = "127.0.0.1") -> Starlette:
    """The MCP service as an ASGI app.

    Args:
        reme: An open memory, which stays open.
        transport: `http` is streamable HTTP at `/mcp`; `sse` is its predecessor, at `/sse`.
        host: Where it will listen. On loopback, requests that name another host are refused: a web page could send
            them through a name that it controls.
    """
    server = create_server(reme)
    local = host in ("127.0.0.1", "localhost", "::1")
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=local,
        allowed_hosts=[form for name in _LOOPBACK for form in (name, f"{name}:*")],
        allowed_origins=[f"http://{form}" for name in _LOOPBACK for form in (name, f"{name}:*")],
    )
    limit = reme.settings.http.max_body_bytes
    if transport == "sse":
        inner = _sse_app(server, SseServerTransport("/messages/", security, limit))
    else:
        inner = _streamable_app(
            StreamableHTTPSessionManager(server, security_settings=security, max_request_body_size=limit)
        )
    inner.add_middleware(_Gate, keys=ApiKeys(reme.database))
    return inner


class _Offer:
    """What the server offers, as the SDK's handlers want it."""

    def __init__(self, service: Service, server: Server[Any, Any]) -> None:
        self._service = service
        self._server = server
        catalog = service.reme.flows.catalog
        flows = [catalog.get(name) for name in catalog.names()]
        self._models: dict[str, type[FlowRequest]] = {flow.name: request_model(flow) for flow in flows}
        self._tools = [_tool(flow, self._models[flow.name]) for flow in flows]

    async def tools(self) -> list[types.Tool]:
        return self._tools

    async def call(self, name: str, arguments: dict[str, Any]) -> tuple[list[types.TextContent], dict[str, Any]]:
        with _told_simply(name):
            if name not in self._models:
                raise NotFoundError(f"there is no tool '{name}'; there are {', '.join(self._models)}")
            try:
                body = self._models[name].model_validate(scrubbed(arguments))
            except ValidationError as error:
                raise InputError(problems_in(error.errors())) from None
            response = await self._service.execute(name, as_request(body), await self._access())
            return [types.TextContent(type="text", text=response.answer)], response.model_dump(mode="json")

    async def resources(self) -> list[types.Resource]:
        access = await self._access()
        names = [n for n in await self._workspaces() if access.workspaces is None or n in access.workspaces]
        return [
            types.Resource(
                uri=_uri(name), name=f"Memories of {name}", mimeType="application/json", description="The newest first."
            )
            for name in names[:_MOST_LISTED]
        ]

    async def templates(self) -> list[types.ResourceTemplate]:
        return [
            types.ResourceTemplate(
                uriTemplate=f"{SCHEME}://workspaces/{{workspace_id}}/memories{rest}",
                name=name,
                mimeType="application/json",
            )
            for rest, name in (("", "The memories of a workspace"), ("/{memory_id}", "One memory, with its evidence"))
        ]

    async def read(self, uri: AnyUrl) -> Iterable[ReadResourceContents]:
        with _told_simply(str(uri)):
            return await self._read(str(uri))

    async def _read(self, uri: str) -> Iterable[ReadResourceContents]:
        path = [unquote(part) for part in urlsplit(uri).path.split("/")[1:]]
        if not uri.startswith(f"{SCHEME}://workspaces/") or len(path) not in (2, 3) or path[1] != "memories":
            raise NotFoundError(f"there is no resource {uri}; read {SCHEME}://workspaces/<id>/memories")
        workspace = path[0]
        (await self._access()).check(workspace)
        memories = self._service.reme.memories
        if len(path) == 3:
            return [_as_json((await memories.get(workspace, path[2])).model_dump(mode="json"))]
        found: list[Memory] = await memories.list(workspace, Filters(), limit=_MOST_LISTED)
        return [_as_json([memory.model_dump(mode="json") for memory in found])]

    async def prompts(self) -> list[types.Prompt]:
        return [_NOTE]

    async def prompt(self, name: str, arguments: dict[str, str] | None) -> types.GetPromptResult:
        with _told_simply(name):
            given = arguments or {}
            if name != _NOTE.name:
                raise NotFoundError(f"there is no prompt '{name}'; there is '{_NOTE.name}'")
            query, workspace = given.get("query", ""), given.get("workspace_id") or DEFAULT_WORKSPACE
            (await self._access()).check(workspace)
            memory = TurnMemory(
                self._service.reme, workspace, kinds=("personal", "task"), write="off", spool="memory", on_error="raise"
            )
            note = await memory.begin(query)
            text = "\n\n".join(part for part in (note.text, query) if part)
            content = types.TextContent(type="text", text=text)
            return types.GetPromptResult(
                description=_NOTE.description, messages=[types.PromptMessage(role="user", content=content)]
            )

    async def _workspaces(self) -> list[str]:
        return list(await self._service.reme.workspaces.list())

    async def _access(self) -> Access:
        """What the caller may do: over pipes it is whoever started us, over HTTP the key decides."""
        request = self._server.request_context.request
        return await self._service.keys.access(request) if isinstance(request, HTTPConnection) else EVERYTHING


@contextmanager
def _told_simply(what: str) -> Iterator[None]:
    """Errors of ours go to the model as they are; others to the log, and only their existence to the model."""
    try:
        yield
    except ReMeError:
        raise
    except Exception:
        log.exception("%s failed", what)
        raise ReMeError("an error of the service itself; its log tells more") from None


class _Gate:
    """Refuses HTTP requests without a good API key, where keys are used."""

    def __init__(self, app: ASGIApp, *, keys: ApiKeys) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                await self._keys.access(HTTPConnection(scope))
            except AccessError as error:
                await error_response("", error.status, error.code, str(error))(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _sse_app(server: Server[Any, Any], transport: SseServerTransport) -> Starlette:
    async def connect(request: Request) -> HttpResponse:
        async with transport.connect_sse(request.scope, request.receive, request._send) as (read, write):
            await server.run(read, write, _options(server))
        return HttpResponse()

    return Starlette(routes=[Route("/sse", connect), Mount("/messages/", transport.handle_post_message)])


def _streamable_app(manager: StreamableHTTPSessionManager) -> Starlette:
    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            yield

    class Endpoint:
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            await manager.handle_request(scope, receive, send)

    return Starlette(routes=[Route("/mcp", Endpoint())], lifespan=lifespan)


def _options(server: Server[Any, Any]) -> InitializationOptions:
    return server.create_initialization_options(NotificationOptions())


def _tool(flow: Flow, model: type[FlowRequest]) -> types.Tool:
    takes = model.model_json_schema()
    if "config" not in flow.input_schema:  # it is taken, but a model that reads the tools has better things to read
        takes["properties"].pop("config")
    return types.Tool(
        name=flow.name,
        description=flow.description,
        inputSchema=takes,
        outputSchema=Response.model_json_schema(),
        annotations=types.ToolAnnotations(readOnlyHint=flow.name.startswith("retrieve_"), openWorldHint=False),
    )


def _uri(workspace: str) -> AnyUrl:
    return AnyUrl(f"{SCHEME}://workspaces/{quote(workspace, safe='')}/memories")


def _as_json(value: Any) -> ReadResourceContents:
    return ReadResourceContents(json.dumps(value, ensure_ascii=False), "application/json")
