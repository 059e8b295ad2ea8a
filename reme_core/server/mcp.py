"""The MCP service: flows as tools, memories as resources, and a prompt with the note of memories about a question.

Its transports are stdio, server-sent events (`/sse`) and streamable HTTP (`/mcp`).
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final, Literal, cast
from urllib.parse import quote, unquote, urlsplit

import anyio
from fastapi import FastAPI
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.sse import SseServerTransport
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import McpError
from pydantic import AnyUrl, ValidationError
from pydantic_core import to_jsonable_python
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response as HttpResponse
from starlette.routing import BaseRoute, Match, Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from reme_core._version import __version__
from reme_core.client import AsyncReMe
from reme_core.engine import Engine
from reme_core.errors import InputError, NotFoundError, ReMeError
from reme_core.given import storable
from reme_core.jobs.log import REQUEST_ID
from reme_core.server.around import counting_calls, surround
from reme_core.server.auth import FULL_ACCESS, Access, access_of, wait_for_refusal
from reme_core.server.errors import INTERNAL_MESSAGE, error_response, message_for_caller, status_of, took_too_long
from reme_core.server.mcp_tools import tool, tool_names
from reme_core.server.pipes import Pipes
from reme_core.server.service import Service
from reme_core.server.wire import DEFAULT_WORKSPACE, FlowRequest, describe_problems, flow_arguments, request_model
from reme_core.turn.memory import TurnMemory
from reme_core.types import Memory, Status, new_id

log = logging.getLogger(__name__)


# The SDK logs it as an error, with its traceback, whenever a client ends its session.
logging.getLogger("mcp.server.streamable_http").addFilter(
    lambda record: not (record.exc_info and isinstance(record.exc_info[1], anyio.ClosedResourceError))
)

SCHEME: Final = "reme"
_MAX_LISTED: Final = 1_000
_NO_RESOURCE: Final = -32002  # as the specification has it, under "Resources"; the SDK names no such code
_NOTE_PROMPT: Final = types.Prompt(
    name="memory_note",
    description="What is remembered about a question, as a note to put before it.",
    arguments=[
        types.PromptArgument(name="query", description="The question at hand.", required=True),
        types.PromptArgument(name="workspace_id", description="Whose memory to look in; default: default."),
    ],
)


def create_server(service: Service) -> Server[Any, Any]:
    """An MCP server over a service, for any transport of the SDK.

    Raises:
        ConfigurationError: `mcp.tools` names an unknown flow.
        FlowError: A flow cannot be built.
    """
    server: Server[Any, Any] = Server("reme-core", version=__version__, instructions="Long-term memory for agents.")
    handlers = _Handlers(service, server)
    server.list_tools()(handlers.list_tools)
    # The flow's model validates the arguments, with messages that name the field; the SDK's own check does not.
    server.call_tool(validate_input=False)(handlers.call_tool)
    server.list_resources()(handlers.list_resources)
    server.list_resource_templates()(handlers.list_resource_templates)
    server.read_resource()(handlers.read_resource)
    server.list_prompts()(handlers.list_prompts)
    server.get_prompt()(handlers.get_prompt)
    return server


async def run_stdio(reme: Engine) -> None:
    """Serve over stdin and stdout, until stdin ends. Nothing else may write to stdout."""
    server = create_server(Service(reme, "localhost"))  # only the program that started it speaks with it
    pipes = Pipes()
    files = cast("anyio.AsyncFile[str]", pipes.lines()), cast("anyio.AsyncFile[str]", pipes)
    async with stdio_server(*files) as (read, write):
        await server.run(read, write, server.create_initialization_options())


def create_mcp_app(reme: Engine, transport: Literal["sse", "http"]) -> FastAPI:
    """The MCP service as an ASGI app: `http` is streamable HTTP at `/mcp`, `sse` is its predecessor at `/sse`."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        with counting_calls(metrics, reme):
            yield

    app = FastAPI(title="ReMe core", version=__version__, lifespan=lifespan, docs_url=None, openapi_url=None)
    app.state.service = Service(reme, reme.settings.mcp.host)
    app.state.mcp = create_server(app.state.service)
    metrics = surround(app, reme.settings, reme.settings.mcp.allowed_hosts)
    app.router.routes.extend(_sse_routes(app) if transport == "sse" else [ROUTE])
    app.add_exception_handler(404, _answer_not_found)
    return app


async def _answer_call(scope: Scope, receive: Receive, send: Send) -> None:
    state = scope["app"].state
    # Without sessions any process answers any call, also after a restart. With JSON in place of a stream a call that is
    # under way when the service stops is waited for, as a request over HTTP is: the SDK cuts off its streams.
    manager = StreamableHTTPSessionManager(
        state.mcp,
        stateless=True,
        json_response=True,
        max_request_body_size=state.service.reme.settings.http.max_body_bytes,
    )
    async with manager.run():
        await manager.handle_request(scope, receive, send)


class _Handlers:
    """The handlers of the server's requests, with the signatures that the SDK requires."""

    def __init__(self, service: Service, server: Server[Any, Any]) -> None:
        self._service = service
        self._server = server
        catalog = service.reme.flows.catalog
        flows = [catalog.get(name) for name in tool_names(service.reme.settings, catalog)]
        self._models: dict[str, type[FlowRequest]] = {flow.name: request_model(flow) for flow in flows}
        self._tools = [tool(flow, self._models[flow.name]) for flow in flows]

    async def list_tools(self) -> list[types.Tool]:
        return self._tools

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> tuple[list[types.TextContent], dict[str, Any]]:
        async with self._answer_safely(name):
            if name not in self._models:
                more = "" if self._service.reme.settings.mcp.tools == "all" else "; the setting mcp.tools adds others"
                raise NotFoundError(f"there is no tool '{name}'; there are {', '.join(self._models)}{more}")
            try:
                body = self._models[name].model_validate(storable(arguments))
            except ValidationError as error:
                raise InputError(describe_problems(error.errors())) from None
            response = await self._service.execute(name, flow_arguments(body), self._access())
            return [types.TextContent(type="text", text=response.answer)], response.model_dump(mode="json")

    async def list_resources(self) -> list[types.Resource]:
        access = self._access()
        async with self._answer_safely("resources/list"):
            workspaces = await self._service.reme.workspaces.list()
        names = [name for name in workspaces if access.allows(name)]
        return [
            types.Resource(
                uri=AnyUrl(f"{SCHEME}://workspaces/{quote(name, safe='')}/memories"),
                name=f"Memories of {name}",
                mimeType="application/json",
                description="The newest first.",
            )
            for name in names[:_MAX_LISTED]
        ]

    async def list_resource_templates(self) -> list[types.ResourceTemplate]:
        return [
            types.ResourceTemplate(
                uriTemplate=f"{SCHEME}://workspaces/{{workspace_id}}/memories{rest}",
                name=name,
                mimeType="application/json",
            )
            for rest, name in (("", "The memories of a workspace"), ("/{memory_id}", "One memory, with its evidence"))
        ]

    async def read_resource(self, uri: AnyUrl) -> Iterable[ReadResourceContents]:
        async with self._answer_safely(str(uri)):
            return await self._read(str(uri))

    async def _read(self, uri: str) -> Iterable[ReadResourceContents]:
        path = [unquote(part) for part in urlsplit(uri).path.split("/")[1:]]
        if not uri.startswith(f"{SCHEME}://workspaces/") or len(path) not in (2, 3) or path[1] != "memories":
            raise NotFoundError(f"there is no resource {uri}; read {SCHEME}://workspaces/<id>/memories")
        workspace, _, *memory_id = path
        self._access().check(workspace)
        memories = self._service.reme.memories
        found: Memory | list[Memory]
        if memory_id:
            found = await memories.get(workspace, *memory_id)
            if found.status == Status.DELETED:
                raise NotFoundError(f"memory '{found.memory_id}' was deleted")
        else:
            found = await memories.list(workspace, limit=_MAX_LISTED)
        text = json.dumps(to_jsonable_python(found), ensure_ascii=False)
        return [ReadResourceContents(text, "application/json")]

    async def list_prompts(self) -> list[types.Prompt]:
        return [_NOTE_PROMPT]

    async def get_prompt(self, name: str, arguments: dict[str, str] | None) -> types.GetPromptResult:
        async with self._answer_safely(name):
            arguments = storable(arguments or {})
            if name != _NOTE_PROMPT.name:
                raise InputError(f"there is no prompt '{name}'; there is '{_NOTE_PROMPT.name}'")
            query, workspace = arguments.get("query", ""), arguments.get("workspace_id") or DEFAULT_WORKSPACE
            if not query.strip():
                raise InputError("query: it is missing; give the question at hand")
            self._access().check(workspace)
            memory = TurnMemory(
                AsyncReMe.of(self._service.reme),
                workspace,
                kinds=("personal", "task"),
                write="off",
                spool="memory",
                on_error="raise",
            )
            note = await memory.begin(query)
            text = f"{note.text}\n\n{query}" if note else query
            content = types.TextContent(type="text", text=text)
            return types.GetPromptResult(
                description=_NOTE_PROMPT.description, messages=[types.PromptMessage(role="user", content=content)]
            )

    def _access(self) -> Access:
        request = self._server.request_context.request
        # Over stdio the caller is the program that started this one; it needs no key.
        if not isinstance(request, HTTPConnection):
            return FULL_ACCESS
        return access_of(request)

    @asynccontextmanager
    async def _answer_safely(self, what: str) -> AsyncIterator[None]:
        """Answer within `http.timeout_seconds`, under an id for the log; of internal errors it alone is told."""
        # The SDK sends the message of an exception to the model. Those of other libraries could hold passwords.
        timeout_seconds = self._service.reme.settings.http.timeout_seconds
        request = self._server.request_context.request
        request_id = request.scope["request_id"] if isinstance(request, HTTPConnection) else new_id()
        REQUEST_ID.set(request_id)
        started = time.perf_counter()
        try:
            async with asyncio.timeout(timeout_seconds) as limit:
                yield
        except ReMeError as error:
            if (message := message_for_caller(error)) != str(error):
                log.exception("request %s: %s failed", request_id, what)
                message += f" (request {request_id})"
            raise _protocol_error(status_of(error), message) from None
        except Exception as error:  # as above: of any library
            if isinstance(error, TimeoutError) and limit.expired():
                raise _protocol_error(504, took_too_long(timeout_seconds)) from None
            log.exception("request %s: %s failed", request_id, what)
            raise _protocol_error(500, f"{INTERNAL_MESSAGE}: {request_id}") from None
        finally:
            log.debug("MCP %s: after %.0f ms, request %s", what, 1_000 * (time.perf_counter() - started), request_id)


def _protocol_error(status: int, message: str) -> McpError:
    # Of a tool the SDK makes a result of it, which has no code.
    code = _NO_RESOURCE if status == 404 else types.INVALID_PARAMS if status < 500 else types.INTERNAL_ERROR
    return McpError(types.ErrorData(code=code, message=message))


def _answer_not_found(request: Request, _: Exception) -> HttpResponse:
    where = "/sse" if any(getattr(route, "path", "") == "/sse" for route in request.app.routes) else "/mcp"
    message = f"there is no {request.url.path} here; MCP is at {where}"
    return error_response(request.scope, 404, NotFoundError.code, message)


class _AppRoute(Route):
    """A route to an ASGI app. Starlette would call a function with a request, and send its result."""

    def __init__(self, path: str, app: ASGIApp, method: str) -> None:
        super().__init__(path, app, methods=[method])
        self.app = app

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Whether a request is for this route; if so, its scope names the route, for the metrics."""
        match, child = super().matches(scope)
        return match, {**child, "route": self}


# Only POST: a client that listens would hold a stream on which, without sessions, nothing ever comes.
ROUTE: Final = _AppRoute("/mcp", _answer_call, "POST")
"""Streamable HTTP, for an app whose `state` has the `service` and the server (`mcp`)."""


def _sse_routes(app: FastAPI) -> list[BaseRoute]:
    server, limit = app.state.mcp, app.state.service.reme.settings.http.max_body_bytes
    transport = SseServerTransport("/messages/", max_request_body_size=limit)

    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        async def end_when_refused() -> None:
            await wait_for_refusal(HTTPConnection(scope))
            tasks.cancel_scope.cancel()

        # A call with a key that is no longer good is refused, while the client waits for its answer on this stream.
        async with transport.connect_sse(scope, receive, send) as (read, write), anyio.create_task_group() as tasks:
            tasks.start_soon(end_when_refused)
            await server.run(read, write, server.create_initialization_options())
            tasks.cancel_scope.cancel()

    return [_AppRoute("/sse", stream, "GET"), Mount("/messages/", transport.handle_post_message)]
