"""Metrics for Prometheus: requests by endpoint and status, calls of models, and what waits in queue, pool and spool."""

from __future__ import annotations

import logging

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.responses import Response

from reme_core.engine import Engine
from reme_core.errors import DatabaseError
from reme_core.models.base import ModelCall

log = logging.getLogger(__name__)

_BUCKETS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)  # from a recall to a long summary


class Metrics:
    """The metrics of one app.

    Attributes:
        in_progress: How many requests are being answered now.
    """

    def __init__(self) -> None:
        # Not the registry of the process: two apps in it would count into the same numbers.
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "reme_requests", "Requests answered.", ["endpoint", "method", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "reme_request_seconds", "How long requests took.", ["endpoint"], buckets=_BUCKETS, registry=self._registry
        )
        self.in_progress = Gauge("reme_requests_under_way", "Requests being answered.", registry=self._registry)
        self._calls = Counter("reme_model_calls", "Calls of models.", ["purpose", "ok"], registry=self._registry)
        self._tokens = Counter(
            "reme_model_tokens", "Tokens of model calls.", ["purpose", "direction"], registry=self._registry
        )
        self._call_seconds = Histogram(
            "reme_model_call_seconds",
            "How long calls of models took.",
            ["purpose"],
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._jobs_due = Gauge("reme_jobs_due", "Jobs that could run now.", registry=self._registry)
        self._oldest_job = Gauge(
            "reme_oldest_job_seconds", "How long the oldest due job has waited.", registry=self._registry
        )
        self._jobs_failed = Gauge("reme_jobs_failed", "Jobs that were given up.", registry=self._registry)
        self._pool_waiting = Gauge(
            "reme_pool_waiting", "Callers that wait for a connection to the database.", registry=self._registry
        )
        self._pool_size = Gauge("reme_pool_connections", "Connections to the database.", registry=self._registry)
        self._spool_waiting = Gauge(
            "reme_spool_waiting", "Turns that wait on this machine for the database.", registry=self._registry
        )
        self._spool_refused = Gauge(
            "reme_spool_refused", "Turns on this machine that the database refuses.", registry=self._registry
        )

    def count(self, endpoint: str, method: str, status: int, seconds: float) -> None:
        """Count one request that was answered.

        Args:
            endpoint: The pattern of its route, such as `/v1/workspaces/{workspace_id}/recall`.
            method: Its HTTP method.
            status: The HTTP status of the answer.
            seconds: How long the answer took.
        """
        self._requests.labels(endpoint, method, str(status)).inc()
        self._seconds.labels(endpoint).observe(seconds)

    def count_call(self, _workspace: str, call: ModelCall) -> None:
        """Count one call of a model."""
        self._calls.labels(call.purpose, str(call.ok).lower()).inc()
        self._tokens.labels(call.purpose, "in").inc(call.prompt_tokens)
        self._tokens.labels(call.purpose, "out").inc(call.completion_tokens)
        self._call_seconds.labels(call.purpose).observe(call.milliseconds / 1000)

    async def update(self, reme: Engine) -> None:
        """Read what waits in spool, pool and queue. If the database is unavailable, the queue's last numbers stay."""
        self._spool_waiting.set(await reme.spools.count_waiting())
        self._spool_refused.set(await reme.spools.count_refused())
        pool = reme.database.pool.get_stats()
        self._pool_waiting.set(pool.get("requests_waiting", 0))
        self._pool_size.set(pool.get("pool_size", 0))
        try:
            load = await reme.background.load()
        except DatabaseError as error:
            log.warning("cannot read the numbers of the queue: %s", error)
            return
        self._jobs_due.set(load.due)
        self._oldest_job.set(load.oldest_seconds)
        self._jobs_failed.set(load.failed)

    def response(self) -> Response:
        """All metrics in Prometheus' text format."""
        return Response(generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})
