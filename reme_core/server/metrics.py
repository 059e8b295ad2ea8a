"""Metrics for Prometheus: requests by endpoint and status, calls of models, and what waits in queue, pool and spool."""

from __future__ import annotations

import logging
from functools import partial

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.responses import Response

from reme_core.engine import Engine
from reme_core.errors import DatabaseError
from reme_core.models.base import ModelCall

log = logging.getLogger(__name__)

_BUCKETS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)  # from a recall to a long summary


class Metrics:
    """The metrics of one app."""

    def __init__(self) -> None:
        # Not the registry of the process: two apps in it would count into the same numbers.
        self._registry = CollectorRegistry()
        count = partial(Counter, registry=self._registry)
        gauge = partial(Gauge, registry=self._registry)
        spread = partial(Histogram, registry=self._registry)
        self._requests = count("reme_requests", "Requests answered.", ["endpoint", "method", "status"])
        self._seconds = spread("reme_request_seconds", "How long requests took.", ["endpoint"], buckets=_BUCKETS)
        self.in_progress = gauge("reme_requests_under_way", "Requests being answered.")
        self._calls = count("reme_model_calls", "Calls of models.", ["purpose", "ok"])
        self._tokens = count("reme_model_tokens", "Tokens of model calls.", ["purpose", "direction"])
        self._call_seconds = spread(
            "reme_model_call_seconds", "How long calls of models took.", ["purpose"], buckets=_BUCKETS
        )
        self._jobs_due = gauge("reme_jobs_due", "Jobs that could run now.")
        self._oldest_job = gauge("reme_oldest_job_seconds", "How long the oldest due job has waited.")
        self._jobs_retrying = gauge("reme_jobs_retrying", "Jobs that broke off and run again.")
        self._jobs_failed = gauge("reme_jobs_failed", "Jobs that were given up.")
        self._pool_waiting = gauge("reme_pool_waiting", "Callers that wait for a connection to the database.")
        self._pool_size = gauge("reme_pool_connections", "Connections to the database.")
        self._spool_waiting = gauge("reme_spool_waiting", "Turns that wait on this machine for the database.")
        self._spool_refused = gauge("reme_spool_refused", "Turns on this machine that the database refuses.")

    def count(self, endpoint: str, method: str, status: int, seconds: float) -> None:
        """Count one request that was answered; `endpoint` is a route's pattern, such as `/inspector/static/{name}`."""
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
        waiting, refused = await reme.spools.count()
        self._spool_waiting.set(waiting)
        self._spool_refused.set(refused)
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
        self._jobs_retrying.set(load.retrying)
        self._jobs_failed.set(load.failed)

    def response(self) -> Response:
        """All metrics in Prometheus' text format."""
        return Response(generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})
