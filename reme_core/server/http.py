"""The HTTP service: every flow as `POST /{flow}`, REST endpoints below `/v1`, health, metrics and documentation.

`create_app` makes an ASGI app for any server; `reme serve`, or ReMe 0.1's `reme backend=http`, runs it with uvicorn.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import cache, partial
from typing import Annotated, Any, Final, Literal

import jinja2
from fastapi import APIRouter, FastAPI, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from reme_core._version import __version__
from reme_core.engine import Engine
from reme_core.errors import DatabaseError, ModelError
from reme_core.flows.catalog import Catalog
from reme_core.flows.execute import Response as FlowResponse
from reme_core.flows.state import RetrievalState
from reme_core.models.registry import embedder
from reme_core.server import experience_maker, inspector, v1
from reme_core.server.auth import KeyCheck, key_in_headers
from reme_core.server.errors import COMMON_STATUSES, add_error_handlers, openapi_errors
from reme_core.server.guard import Guard
from reme_core.server.hosts import HostCheck
from reme_core.server.metrics import Metrics
from reme_core.server.route import JsonRoute
from reme_core.server.service import Service, TheAccess, TheService, open_with_worker
from reme_core.server.stream import event_stream, wants_events
from reme_core.server.wire import FlowRequest, flow_arguments, request_model
from reme_core.settings import Settings

log = logging.getLogger(__name__)

_TEMPLATES: Final = jinja2.Environment(
    loader=jinja2.PackageLoader(__package__, "."), autoescape=True, trim_blocks=True, lstrip_blocks=True
)
_TEMPLATES.globals["as_json"] = partial(json.dumps, indent=1, ensure_ascii=False)
_WRITABLE: Final = "select current_setting('transaction_read_only') = 'off'"
_READY_SECONDS: Final = 3.0  # the database; probes come every ten seconds by Kubernetes' default
_MODEL_SECONDS: Final = 20.0  # both models; a local server may first have to load one


class Health(BaseModel):
    """Whether the service runs."""

    status: str = Field("healthy", description="Always `healthy`: a service that isn't does not answer.")


class Readiness(BaseModel):
    """Whether the service can do its work now, and what it lacks. It names no address, role or model."""

    status: Literal["ready", "not ready"]
    database: bool = Field(description="Whether the database answers.")
    writable: bool | None = Field(None, description="Whether it takes writes: a standby does not.")
    due_jobs: int | None = Field(None, description="Jobs in the background that could run now.")
    oldest_job_seconds: float | None = Field(None, description="How long the oldest due job has waited.")
    retrying_jobs: int | None = Field(None, description="Jobs that broke off and run again.")
    failed_jobs: int | None = Field(None, description="Jobs that were given up.")
    models: bool | None = Field(None, description="Whether the models answer; null if they were not asked.")


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
        ConfigurationError: The settings name an op that does not exist, or a parameter that it does not take.
    """
    settings = source.settings if isinstance(source, Engine) else source or Settings.load()
    catalog = source.flows.catalog if isinstance(source, Engine) else Catalog(settings)
    catalog.check()
    metrics = Metrics()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        opened: AbstractAsyncContextManager[Engine]
        opened = nullcontext(source) if isinstance(source, Engine) else open_with_worker(settings)
        async with opened as engine:
            app.state.service = Service(engine, settings.http.host)
            engine.log_writer.listeners.add(metrics)
            try:
                yield
            finally:
                engine.log_writer.listeners.discard(metrics)

    app = FastAPI(
        title="ReMe core",
        version=__version__,
        description="Long-term memory for AI agents on your own Postgres.",
        lifespan=lifespan,
        docs_url=None,  # FastAPI's own page loads its script from another host
        redoc_url=None,
    )

    @app.get("/docs", include_in_schema=False, response_class=HTMLResponse)
    async def documentation() -> str:
        return _docs_page(app.openapi())

    add_error_handlers(app)
    app.add_middleware(KeyCheck, needs_no_key=_needs_no_key, need_no_database=["/metrics"])
    app.add_middleware(HostCheck, allowed=settings.http.allowed_hosts)
    app.add_middleware(
        Guard,
        metrics=metrics,
        max_body_bytes=settings.http.max_body_bytes,
        timeout_seconds=settings.http.timeout_seconds,
        limit_concurrency=settings.http.limit_concurrency,
    )
    app.include_router(_service_routes(catalog, metrics))
    # Routes are tried in order. Retrievals come first, since somebody waits for their answers.
    for flow in sorted(map(catalog.get, catalog.names()), key=lambda flow: flow.state is not RetrievalState):
        stream = catalog.content(flow.name).stream
        app.router.routes.append(_flow_route(flow.name, flow.description, request_model(flow), stream=stream))
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


def _needs_no_key(method: str, path: str) -> bool:
    """Whether a request concerns nothing that is remembered, or is for the inspector, which asks for the key itself."""
    if method == "GET":
        return path.removeprefix("/").partition("/")[0] in ("inspector", "health", "list", "docs", "openapi.json")
    return path.startswith("/inspector/")  # not `/inspector` itself, which is a flow's if one has that name


def _service_routes(catalog: Catalog, metrics: Metrics) -> APIRouter:
    router = APIRouter(tags=["service"])
    entries = [FlowEntry(name=name, **catalog.content(name).model_dump()) for name in catalog.names()]

    @router.get("/health")
    async def health() -> Health:
        """Whether the service runs. It checks nothing else and answers at once."""
        return Health()

    @router.get("/health/live")
    async def live() -> Health:
        """The same, for liveness probes: if it fails, restart the service."""
        return Health()

    @router.get(
        "/health/ready",
        responses=openapi_errors(401) | {503: {"model": Readiness, "description": "It cannot work now"}},
    )
    async def ready(
        service: TheService,
        request: Request,
        response: Response,
        models: Annotated[bool, Query(description="Ask the embedding and chat models too, once each.")] = False,
    ) -> Readiness:
        """Whether the database answers and takes writes, and which jobs wait.

        If it fails, send requests to another instance. Where there are keys, who asks for the models needs one.
        """
        if models:  # what they answer is paid for
            await service.keys.access(key_in_headers(request))
        found = await _readiness(service.reme, ask_models=models)
        response.status_code = 200 if found.status == "ready" else 503
        return found

    @router.get("/list", name="list")
    async def list_flows() -> list[FlowEntry]:
        """The flows. Each has an endpoint of its own name."""
        return entries

    @router.get("/metrics", response_class=PlainTextResponse, responses=openapi_errors(401, 403, 503))
    async def numbers(service: TheService, access: TheAccess) -> Response:
        """Metrics for Prometheus."""
        await metrics.update(service.reme)
        return metrics.response()

    return router


async def _readiness(reme: Engine, *, ask_models: bool) -> Readiness:
    try:
        async with asyncio.timeout(_READY_SECONDS):
            # A standby says so as well as a database that is set to be read-only.
            ((writable,),) = await reme.database.execute_anywhere(_WRITABLE)
            load = await reme.background.load()
    except (DatabaseError, TimeoutError) as error:
        log.warning("not ready: %s", str(error) or "the database did not answer")
        return Readiness(status="not ready", database=False)
    if not writable:
        log.warning("not ready: the database takes no writes")
    answered = await _models_answer(reme) if ask_models else None
    return Readiness(
        status="not ready" if answered is False or not writable else "ready",
        database=True,
        writable=writable,
        due_jobs=load.due,
        oldest_job_seconds=round(load.oldest_seconds, 1),
        retrying_jobs=load.retrying,
        failed_jobs=load.failed,
        models=answered,
    )


async def _models_answer(reme: Engine) -> bool:
    model = embedder(reme.settings)
    try:
        async with asyncio.timeout(_MODEL_SECONDS):
            await model.embed(["ready?"])
            if reme.chat is not None:
                await reme.chat.complete([{"role": "user", "content": "Answer with OK."}], purpose="health")
    except (ModelError, TimeoutError) as error:
        log.warning("not ready: %s", str(error) or "a model did not answer")
        return False
    finally:
        await model.aclose()
    return True


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
