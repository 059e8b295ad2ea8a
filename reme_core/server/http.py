"""The HTTP service: every flow as `POST /{flow}`, REST endpoints below `/v1`, MCP at `/mcp`, and documentation.

`create_app` makes an ASGI app for any server; `reme serve`, or ReMe 0.1's `reme backend=http`, runs it with uvicorn.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import cache, partial
from typing import Any, Final

import jinja2
from fastapi import FastAPI, Request
from pydantic import BaseModel, Field
from starlette.responses import HTMLResponse

from reme_core._version import __version__
from reme_core.engine import Engine
from reme_core.flows.catalog import Catalog
from reme_core.flows.execute import Response as FlowResponse
from reme_core.flows.state import RetrievalState
from reme_core.server import experience_maker, inspector, v1
from reme_core.server.around import counting_calls, surround
from reme_core.server.errors import COMMON_STATUSES, openapi_errors
from reme_core.server.route import JsonRoute
from reme_core.server.service import Service, TheAccess, TheService, open_with_worker
from reme_core.server.stream import event_stream, wants_events
from reme_core.server.wire import FlowRequest, flow_arguments, request_model
from reme_core.settings import Settings

try:
    from reme_core.server import mcp
    from reme_core.server.mcp_tools import tool_names
except ImportError:  # without the extra `mcp` there is all the rest
    mcp = None  # type: ignore[assignment]

_TEMPLATES: Final = jinja2.Environment(
    loader=jinja2.PackageLoader(__package__, "."), autoescape=True, trim_blocks=True, lstrip_blocks=True
)
_TEMPLATES.globals["as_json"] = partial(json.dumps, indent=1, ensure_ascii=False)
PLACES: Final = {"listens": "", "docs": "/docs", "inspector": "/inspector"} | ({"MCP": "/mcp"} if mcp else {})
"""The paths that whoever starts the service is told."""


class FlowEntry(BaseModel):
    """A flow in the list of flows."""

    name: str
    description: str
    flow_content: str = Field(description="Its expression: `>>` one after the other, `|` side by side.")
    input_schema: dict[str, Any]


def create_app(source: Engine | Settings | None = None) -> FastAPI:
    """The service as an ASGI app.

    Args:
        source: An open engine, which stays open when the app stops; or settings (None: those of the environment), with
            which an engine is opened when the app starts and closed when it stops.

    Raises:
        FlowError: A flow cannot be built; nothing was opened.
        ConfigurationError: The settings name an op that does not exist, a parameter that it does not take, or a tool of
            MCP that is no flow.
    """
    settings = source.settings if isinstance(source, Engine) else source or Settings.load()
    catalog = source.flows.catalog if isinstance(source, Engine) else Catalog(settings)
    catalog.check()
    if mcp is not None:
        tool_names(settings, catalog)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        opened: AbstractAsyncContextManager[Engine]
        opened = nullcontext(source) if isinstance(source, Engine) else open_with_worker(settings)
        async with opened as engine:
            app.state.service = Service(engine, settings.http.host)
            if mcp is not None:
                app.state.mcp = mcp.create_server(app.state.service)
            with counting_calls(metrics, engine):
                yield

    app = FastAPI(
        title="ReMe core",
        version=__version__,
        description="Long-term memory for AI agents on your own Postgres.",
        lifespan=lifespan,
        docs_url=None,  # FastAPI's own page loads its script from another host
        redoc_url=None,
    )

    @app.get("/docs", include_in_schema=False, response_class=HTMLResponse)
    def documentation() -> str:  # in a thread: it takes seconds
        return _docs_page(app.openapi())

    metrics = surround(app, settings, settings.http.allowed_hosts)

    @app.get("/list", name="list", tags=["service"])
    async def list_flows() -> list[FlowEntry]:
        """The flows. Each has an endpoint of its own name."""
        return [FlowEntry(name=name, **catalog.content(name).model_dump()) for name in catalog.names()]

    # Routes are tried in order. Retrievals come first, since somebody waits for their answers.
    for flow in sorted(map(catalog.get, catalog.names()), key=lambda flow: flow.state is not RetrievalState):
        stream = catalog.content(flow.name).stream
        app.router.routes.append(_flow_route(flow.name, flow.description, request_model(flow), stream=stream))
    if mcp is not None:
        app.router.routes.append(mcp.ROUTE)
    app.include_router(v1.router)
    app.include_router(experience_maker.router)
    app.include_router(inspector.router)
    return app


def _docs_page(document: Mapping[str, Any]) -> str:
    """The OpenAPI document as HTML, for people: every endpoint with its parameters and answers."""
    by_tag: dict[str, list[dict[str, Any]]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            answers = {status: answer["description"] for status, answer in operation["responses"].items()}
            told = operation | {"method": method, "path": path, "answers": answers}
            by_tag.setdefault((operation.get("tags") or ["other"])[0], []).append(told)
    return _TEMPLATES.get_template("docs.html").render(document, by_tag=by_tag)


@cache  # as the models are: to make the routes takes most of the time that it takes to make an app
def _flow_route(name: str, description: str, model: type[FlowRequest], *, stream: bool) -> JsonRoute:
    async def endpoint(request: Request, body: FlowRequest, service: TheService, access: TheAccess) -> Any:
        fields = flow_arguments(body)
        if stream or wants_events(request):
            return event_stream(request, lambda tell: service.execute(name, fields, access, tell=tell))
        return await service.execute(name, fields, access)

    endpoint.__annotations__["body"] = model  # FastAPI reads which model to validate the body with from here
    return JsonRoute(
        f"/{name}",
        endpoint,
        methods=["POST"],
        name=name,
        summary=description,
        tags=["flows"],
        response_model=FlowResponse,
        responses=openapi_errors(404, 409, 502, *COMMON_STATUSES),
    )
