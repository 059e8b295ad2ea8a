"""The HTTP service: every flow as `POST /{flow}`, REST endpoints below `/v1`, health, metrics and documentation.

`create_app` makes an ASGI app for any server; `reme serve`, or ReMe 0.1's `reme backend=http`, runs it with uvicorn.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from pydantic import BaseModel, Field
from starlette.responses import PlainTextResponse, Response

from reme_core._version import __version__
from reme_core.engine import Engine
from reme_core.flows.build import Flow
from reme_core.flows.catalog import Catalog
from reme_core.flows.execute import Response as FlowResponse
from reme_core.flows.state import RetrievalState
from reme_core.server import experience_maker, inspector, v1
from reme_core.server.errors import COMMON_STATUSES, add_error_handlers, openapi_errors
from reme_core.server.guard import Guard
from reme_core.server.hosts import HostCheck
from reme_core.server.metrics import Metrics
from reme_core.server.route import JsonRoute
from reme_core.server.service import Service, TheAccess, TheService
from reme_core.server.stream import event_stream, wants_events
from reme_core.server.wire import FlowRequest, flow_arguments, request_model
from reme_core.settings import Settings


class Health(BaseModel):
    """Whether the service runs."""

    status: str = Field("healthy", description="Always `healthy`: a service that isn't does not answer.")


class FlowEntry(BaseModel):
    """A flow as it is listed."""

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
        ConfigurationError: The settings name an op that does not exist, or a parameter that it does not take.
    """
    settings = source.settings if isinstance(source, Engine) else source or Settings.load()
    catalog = Catalog(settings)
    catalog.check()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            engine = source if isinstance(source, Engine) else await stack.enter_async_context(Engine(settings))
            app.state.service = Service(engine)
            yield

    app = FastAPI(
        title="ReMe core",
        version=__version__,
        description="Long-term memory for AI agents on your own Postgres.",
        lifespan=lifespan,
        redoc_url=None,
    )
    metrics = Metrics()
    add_error_handlers(app)
    app.add_middleware(HostCheck, allowed=settings.http.allowed_hosts)
    app.add_middleware(
        Guard,
        metrics=metrics,
        max_body_bytes=settings.http.max_body_bytes,
        timeout_seconds=settings.http.timeout_seconds,
    )
    app.include_router(_service_routes(catalog, metrics))
    flows = APIRouter(route_class=JsonRoute, tags=["flows"])
    # Routes are tried in order. Somebody waits for the answer of a retrieval, so these come first.
    for flow in sorted(map(catalog.get, catalog.names()), key=lambda flow: flow.state is not RetrievalState):
        _add_flow_endpoint(flows, flow, stream=catalog.content(flow.name).stream)
    app.include_router(flows)
    app.include_router(v1.router)
    app.include_router(experience_maker.router)
    app.include_router(inspector.router)
    return app


def _service_routes(catalog: Catalog, metrics: Metrics) -> APIRouter:
    router = APIRouter(tags=["service"])
    entries = [
        FlowEntry(
            name=name, description=flow.description, flow_content=flow.flow_content, input_schema=flow.input_schema
        )
        for name, flow in ((name, catalog.content(name)) for name in catalog.names())
    ]

    @router.get("/health")
    async def health() -> Health:
        """Whether the service runs. It asks nobody, and answers at once."""
        return Health()

    @router.get("/list", name="list")
    async def list_flows() -> list[FlowEntry]:
        """The flows; each is an endpoint of its name."""
        return entries

    @router.get("/metrics", response_class=PlainTextResponse, responses=openapi_errors(401, 403, 503))
    async def numbers(access: TheAccess) -> Response:
        """Numbers for Prometheus."""
        return metrics.response()

    return router


def _add_flow_endpoint(router: APIRouter, flow: Flow, *, stream: bool) -> None:
    model = request_model(flow)

    async def endpoint(request: Request, body: FlowRequest, service: TheService, access: TheAccess) -> Any:
        fields = flow_arguments(body)
        if stream or wants_events(request):
            return event_stream(request, lambda tell: service.execute(flow.name, fields, access, tell=tell))
        return await service.execute(flow.name, fields, access)

    endpoint.__annotations__["body"] = model  # FastAPI reads which model to validate the body with from here
    router.post(
        f"/{flow.name}",
        name=flow.name,
        summary=flow.description,
        response_model=FlowResponse,
        responses=openapi_errors(404, 409, 502, *COMMON_STATUSES),
    )(endpoint)
