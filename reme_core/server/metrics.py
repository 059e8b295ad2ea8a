"""Metrics for Prometheus: requests by endpoint and status, how long they took, and how many are in progress."""

from __future__ import annotations

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.responses import Response

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

    def response(self) -> Response:
        """All metrics in Prometheus' text format."""
        return Response(generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})
