"""The HTTP service: every flow as `POST /{flow}`, a REST surface below `/v1`, health, metrics and documentation.

`create_app` makes an ASGI app for any server; `reme serve`, or `reme backend=http` as ReMe 0.1 has it, runs it with
uvicorn.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from pydantic import BaseModel, Field
from starlette.responses import PlainTextResponse, Response

from reme_core._version import __version__
from reme_core.app import AsyncReMe
from reme_core.flow.build import Flow
from reme_core.flow.catalog import Catalog
from reme_core.ops.state import RetrievalState
from reme_core.server import errors, experience_maker, inspector, v1
from reme_core.server.errors import ALWAYS, documented
from reme_core.server.guard import Guard
from reme_core.server.metrics import Metrics
from reme_core.server.route import JsonRoute
from reme_core.server.service import Service, TheAccess, TheService
from reme_core.server.stream import event_stream, wants_events
from reme_core.server.wire import FlowRequest, FlowResponse, as_request, request_model
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


def create_app(source: AsyncReMe | Settings | None = None) -> FastAPI:
    """The service as an ASGI app.

    Args:
        source: An open memory, which stays open when the app stops; or settings, or None for those of the environment,
            by which one is opened when the app starts, and closed when it stops.

    Raises:
        FlowError: A flow cannot be built; nothing was opened.
        ConfigurationError: An op that is set does not exist, or its parameter does not fit.
    """
    settings = source.settings if isinstance(source, AsyncReMe) else source or Settings.load()
    catalog = Catalog(settings)
    catalog.check()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            opened = source if isinstance(source, AsyncReMe) else AsyncReMe(settings)
            if opened is not source:
                await stack.enter_async_context(opened)
            app.state.service = Service(opened)
            yield

    app = FastAPI(
        title="ReMe core",
        version=__version__,
        description="Long-term memory for AI agents on your own Postgres.",
        lifespan=lifespan,
        redoc_url=None,
    )
    metrics = Metrics()
    errors.install(app)
    app.add_middleware(
        Guard,
        metrics=metrics,
        max_body_bytes=settings.http.max_body_bytes,
        timeout_seconds=settings.http.timeout_seconds,
    )
    app.include_router(_upkeep(catalog, metrics))
    flows = APIRouter(route_class=JsonRoute, tags=["flows"])
    # Routes are tried one after the other; somebody waits for a retrieval, so these come first.
    for flow in sorted(map(catalog.get, catalog.names()), key=lambda flow: flow.state is not RetrievalState):
        _offer(flows, flow, stream=catalog.content(flow.name).stream)
    app.include_router(flows)
    app.include_router(v1.router())
    app.include_router(experience_maker.router())
    app.include_router(inspector.router())
    return app


def _upkeep(catalog: Catalog, metrics: Metrics) -> APIRouter:
    router = APIRouter(tags=["service"])
    listed = [
        FlowEntry(
            name=name, description=made.description, flow_content=made.flow_content, input_schema=made.input_schema
        )
        for name in catalog.names()
        for made in [catalog.content(name)]
    ]

    @router.get("/health")
    async def health() -> Health:
        """Whether the service runs. It asks nobody, and answers at once."""
        return Health()

    @router.get("/list", name="list")
    async def list_flows() -> list[FlowEntry]:
        """The flows; each is an endpoint of its name."""
        return listed

    @router.get("/metrics", response_class=PlainTextResponse, responses=documented(401, 403, 503))
    async def numbers(access: TheAccess) -> Response:
        """Numbers for Prometheus."""
        return metrics.response()

    return router


def _offer(router: APIRouter, flow: Flow, *, stream: bool) -> None:
    model = request_model(flow)

    async def endpoint(request: Request, body: FlowRequest, service: TheService, access: TheAccess) -> Any:
        fields = as_request(body)
        if stream or wants_events(request):
            return event_stream(request, lambda tell: service.execute(flow.name, fields, access, tell=tell))
        return await service.execute(flow.name, fields, access)

    endpoint.__annotations__["body"] = model
    router.post(
        f"/{flow.name}",
        name=flow.name,
        summary=flow.description,
        response_model=FlowResponse,
        responses=documented(404, 409, 502, *ALWAYS),
    )(endpoint)
