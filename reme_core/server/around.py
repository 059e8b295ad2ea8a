"""What is around the HTTP and MCP services: checks of each request, errors in one form, health and metrics."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Final, Literal

from fastapi import APIRouter, FastAPI, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import PlainTextResponse, Response

from reme_core.engine import Engine
from reme_core.errors import DatabaseError, ModelError
from reme_core.models.registry import embedder
from reme_core.server.auth import KeyCheck, key_in_headers
from reme_core.server.errors import add_error_handlers, openapi_errors
from reme_core.server.guard import Guard
from reme_core.server.hosts import HostCheck
from reme_core.server.metrics import Metrics
from reme_core.server.service import TheAccess, TheService
from reme_core.settings import Settings

log = logging.getLogger(__name__)

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


def surround(app: FastAPI, settings: Settings, allowed_hosts: Sequence[str]) -> Metrics:
    """Add to an app what every service has: checks of each request, errors in one form, and routes for operators."""
    metrics = Metrics()
    add_error_handlers(app)
    app.add_middleware(KeyCheck, needs_no_key=_needs_no_key, need_no_database=["/metrics"])
    app.add_middleware(HostCheck, allowed=allowed_hosts)
    app.add_middleware(
        Guard,
        metrics=metrics,
        max_body_bytes=settings.http.max_body_bytes,
        timeout_seconds=settings.http.timeout_seconds,
        limit_concurrency=settings.http.limit_concurrency,
    )
    app.include_router(_routes(metrics))
    return metrics


@contextmanager
def counting_calls(metrics: Metrics, engine: Engine) -> Iterator[None]:
    """Count the calls of models that an engine makes, within this block."""
    engine.log_writer.listeners.add(metrics)
    try:
        yield
    finally:
        engine.log_writer.listeners.discard(metrics)


def _needs_no_key(method: str, path: str) -> bool:
    """Whether a request concerns nothing that is remembered, or is for the inspector, which asks for the key itself."""
    if method == "GET":
        return path.removeprefix("/").partition("/")[0] in ("inspector", "health", "list", "docs", "openapi.json")
    return path.startswith("/inspector/")  # not `/inspector` itself, which is a flow's if one has that name


def _routes(metrics: Metrics) -> APIRouter:
    router = APIRouter(tags=["service"])

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
