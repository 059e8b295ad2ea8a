"""What stands before every request: an id, a limit of size and time, the count, and the last catch of errors.

It is plain ASGI and adds some microseconds.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reme_core.schema import new_id
from reme_core.server.errors import error_response
from reme_core.server.metrics import Metrics

log = logging.getLogger(__name__)

HEADER: Final = "X-Request-ID"
_USABLE: Final = re.compile(r"[\w.:-]{1,100}", re.ASCII)
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Guard:
    """Wraps an app.

    Args:
        app: What answers the requests.
        metrics: Where they are counted.
        max_body_bytes: Larger bodies are refused with 413.
        timeout_seconds: A request that isn't answered by then is cancelled, and answered with 504.
    """

    def __init__(self, app: ASGIApp, *, metrics: Metrics, max_body_bytes: int, timeout_seconds: float) -> None:
        self._app = app
        self._metrics = metrics
        self._max_body_bytes = max_body_bytes
        self._timeout_seconds = timeout_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        asked = headers.get(HEADER, "")
        request_id = scope["request_id"] = asked if _USABLE.fullmatch(asked) else new_id()
        begun, status = time.perf_counter(), 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[HEADER] = request_id
            await send(message)

        problem: tuple[int, str, str] | None = None
        self._metrics.under_way.inc()
        try:
            if int(headers.get("content-length") or 0) > self._max_body_bytes:
                problem = (413, "too_large", self._too_large())
            else:
                async with asyncio.timeout(self._timeout_seconds) as limit:
                    await self._app(scope, self._measured(receive), answer)
        except TimeoutError:
            if not limit.expired():
                raise
            problem = (504, "timeout", f"it took longer than {self._timeout_seconds:g} seconds (http.timeout_seconds)")
        except Exception:
            log.exception("request %s failed", request_id)
            problem = (500, "internal", "an error of the service itself; its log tells more under this request id")
        finally:
            if problem is not None and not status:
                await error_response(request_id, *problem)(scope, receive, answer)
            self._metrics.under_way.dec()
            method = scope["method"] if scope["method"] in _METHODS else "other"
            route = getattr(scope.get("route"), "path", "unknown")
            self._metrics.answered(route, method, status or 499, time.perf_counter() - begun)

    def _measured(self, receive: Receive) -> Receive:
        """Refuse a body that comes in pieces without saying how long it is, once it is too long."""
        taken = 0

        async def measured() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > self._max_body_bytes:
                raise HTTPException(413, self._too_large())  # as one of its own, FastAPI lets it pass
            return message

        return measured

    def _too_large(self) -> str:
        return f"the body is larger than {self._max_body_bytes:,} bytes (http.max_body_bytes)"
