"""Numbers for Prometheus: requests by endpoint and status, how long they took, and how many are under way."""

from __future__ import annotations

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.responses import Response

_BUCKETS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)  # from a recall to a long summary


class Metrics:
    """The numbers of one app; two apps in one process count apart."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "reme_requests", "Requests answered.", ["endpoint", "method", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "reme_request_seconds", "How long requests took.", ["endpoint"], buckets=_BUCKETS, registry=self._registry
        )
        self.under_way = Gauge("reme_requests_under_way", "Requests being answered.", registry=self._registry)

    def answered(self, endpoint: str, method: str, status: int, seconds: float) -> None:
        """Count a request. `endpoint` is the route's pattern, so that ids in paths make no new series."""
        self._requests.labels(endpoint, method, str(status)).inc()
        self._seconds.labels(endpoint).observe(seconds)

    def response(self) -> Response:
        """All numbers, in Prometheus' text format."""
        return Response(generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})
