"""ASGI middleware for every request: an id, limits of size and time, metrics, and an answer to unexpected errors."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from contextlib import suppress
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reme_core.jobs.log import REQUEST_ID
from reme_core.server.errors import INTERNAL_MESSAGE, error_response, took_too_long
from reme_core.server.metrics import Metrics
from reme_core.server.stream import error_event
from reme_core.types import new_id

log = logging.getLogger(__name__)

_REQUEST_ID_HEADER: Final = "X-Request-ID"
# Callers may choose the ids of their requests, but only of characters that cannot forge a line of the log.
_REQUEST_ID: Final = re.compile(r"[\w.:-]{1,100}", re.ASCII)
_LAST_WORDS_SECONDS: Final = 5.0  # for the end of a stream, since a caller may have stopped reading
_PATH_CHARACTERS: Final = 500  # of a path in the log
_LIVENESS: Final = ("/health", "/health/live")  # if they were refused, a service would be restarted for being busy
_MCP: Final = ("/mcp", "/sse")  # a call over MCP keeps the same limit, and tells of it in its own protocol
_STOPPING: Final = (503, "stopping", "the service stops; send the request again")
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Guard:
    """Middleware around an ASGI app.

    A request that comes while `limit_concurrency` others are under way is refused with 503; liveness is told.
    A body of more than `max_body_bytes` is refused with 413, and a compressed one with 415. A request that takes longer
    than `timeout_seconds` is cancelled and answered with 504, and one that the stopping service cannot wait for with
    503; a stream that has begun ends with an event `error` in both cases. MCP limits the time of its calls itself.
    """

    def __init__(
        self, app: ASGIApp, *, metrics: Metrics, max_body_bytes: int, timeout_seconds: float, limit_concurrency: int
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._max_body_bytes = max_body_bytes
        self._timeout_seconds = timeout_seconds
        self._limit_concurrency, self._under_way = limit_concurrency, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, as ASGI defines it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        self._under_way += 1
        try:
            with self._metrics.in_progress.track_inprogress():
                await self._answer(scope, receive, send)
        finally:  # however it ends: an answer, too, may fail or be cancelled
            self._under_way -= 1

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        scope = _scope_with_id(scope, headers)
        request_id = scope["request_id"]
        REQUEST_ID.set(request_id)
        started, status, streams, is_open = time.perf_counter(), 0, False, False

        async def send_with_id(message: Message) -> None:
            nonlocal status, streams, is_open
            if message["type"] == "http.response.start":
                status = message["status"]
                answer_headers = MutableHeaders(scope=message)
                answer_headers[_REQUEST_ID_HEADER] = request_id
                streams = answer_headers.get("content-type", "").startswith("text/event-stream")
            is_open = message["type"] == "http.response.start" or bool(message.get("more_body"))
            await send(message)

        problem: tuple[int, str, str] | None = None
        try:
            path = scope["path"].removeprefix(scope.get("root_path", ""))
            if self._under_way > self._limit_concurrency and path not in _LIVENESS:
                most = f"no more than {self._limit_concurrency:,} at a time (http.limit_concurrency)"
                problem = (503, "overloaded", f"{most}; try again in a moment")
            elif int(headers.get("content-length") or 0) > self._max_body_bytes:
                problem = (413, "too_large", self._too_large())
            elif (coding := headers.get("content-encoding", "").lower()) not in ("", "identity"):
                problem = (415, "content_encoding", f"the body is {coding[:50]!r}; send it without Content-Encoding")
            else:
                async with asyncio.timeout(None if path in _MCP else self._timeout_seconds) as limit:
                    await self._app(scope, self._limit_body(receive), send_with_id)
                problem = _STOPPING if is_open else None  # a stream that was cut off, unless its caller hung up
        except asyncio.CancelledError:
            if status:
                raise
            problem = _STOPPING  # the server cancels what goes on when it has stopped for long enough
        except TimeoutError:
            if not limit.expired():  # a TimeoutError of the app itself
                raise
            problem = (504, "timeout", took_too_long(self._timeout_seconds))
        except Exception:  # whatever no handler has caught is ours to mend, and is answered without its message
            log.exception("request %s failed", request_id)
            problem = (500, "internal", INTERNAL_MESSAGE)
        finally:
            if problem is not None and not status:  # once an answer has begun, its status cannot be taken back
                await error_response(scope, *problem)(scope, receive, send_with_id)
            elif problem is not None and streams:
                await _send_last_words(send, error_event(*problem[1:], request_id))
            self._note(scope, status or 499, time.perf_counter() - started)  # 499: nginx's, for a caller that hung up

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        """Count a request that was answered, and log it."""
        # No value that callers can make up may become a label: each would be a time series of its own.
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self._metrics.count(getattr(scope.get("route"), "path_format", "unknown"), method, status, seconds)
        # The path as it was sent, in which no character breaks the line, and without what was asked.
        path = scope.get("raw_path", b"").decode("ascii", "replace")[:_PATH_CHARACTERS]
        log.debug("%s %s: %d after %.0f ms, request %s", method, path, status, 1_000 * seconds, scope["request_id"])

    def _limit_body(self, receive: Receive) -> Receive:
        """A `receive` that raises once a body has more than the allowed bytes."""
        # A body sent in chunks has no Content-Length, so it has to be counted.
        count = 0

        async def receive_limited() -> Message:
            nonlocal count
            message = await receive()
            count += len(message.get("body", b""))
            if count > self._max_body_bytes:
                # FastAPI turns any other exception that is raised while it reads a body into a 400.
                raise HTTPException(413, self._too_large())
            return message

        return receive_limited

    def _too_large(self) -> str:
        return f"the body is larger than {self._max_body_bytes:,} bytes (http.max_body_bytes)"


def _scope_with_id(scope: Scope, headers: Headers) -> Scope:
    given = headers.get(_REQUEST_ID_HEADER, "")
    # HEAD is the same as GET; the server, whose scope stays as it was, leaves the body out.
    method = "GET" if scope["method"] == "HEAD" else scope["method"]
    return {**scope, "method": method, "request_id": given if _REQUEST_ID.fullmatch(given) else new_id()}


async def _send_last_words(send: Send, event: bytes) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(_LAST_WORDS_SECONDS):
            await send({"type": "http.response.body", "body": event})
