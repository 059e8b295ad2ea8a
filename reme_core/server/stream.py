"""Answers as server-sent events: pieces while the model writes, then the whole response, or an error.

event: answer     data: {"text": "…"}         any number of times: the next piece of the answer
event: response   data: {"answer": …, …}      once, at the end: what a request without streaming returns
event: error      data: {"code": …, …}        instead of the response, if the flow failed
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.requests import Request

from reme_core.errors import ReMeError
from reme_core.flows.execute import Response
from reme_core.server.errors import INTERNAL_MESSAGE, ErrorBody, message_for_caller

log = logging.getLogger(__name__)

Tell = Callable[[str], None]
_PING_SECONDS = 15  # many proxies close a connection that is silent for a minute
GRACE_SECONDS = 25
"""How long a stream may go on after the service was asked to stop."""


def wants_events(request: Request) -> bool:
    """Whether the caller asks for a stream: `Accept: text/event-stream`."""
    return "text/event-stream" in request.headers.get("accept", "")


def event_stream(request: Request, execute: Callable[[Tell], Awaitable[Response]]) -> EventSourceResponse:
    """Stream the pieces that `execute` passes to its argument, then the response that it returns.

    When the caller hangs up, `execute` is cancelled.
    """
    events = _events(request.scope["request_id"], execute)
    return EventSourceResponse(events, ping=_PING_SECONDS, shutdown_grace_period=GRACE_SECONDS)


async def _events(
    request_id: str, execute: Callable[[Tell], Awaitable[Response]]
) -> AsyncIterator[ServerSentEvent | bytes]:
    pieces: asyncio.Queue[str | None] = asyncio.Queue()
    task = asyncio.ensure_future(execute(pieces.put_nowait))
    task.add_done_callback(lambda _: pieces.put_nowait(None))  # None: no more pieces
    try:
        while (piece := await pieces.get()) is not None:
            yield ServerSentEvent(json.dumps({"text": piece}, ensure_ascii=False), event="answer")
        yield ServerSentEvent((await task).model_dump_json(), event="response")
    except ReMeError as error:
        log.warning("request %s: %s", request_id, error)
        yield error_event(error.code, message_for_caller(error), request_id)
    except Exception:  # the answer has begun, so `guard.py` can send no error any more
        log.exception("request %s failed", request_id)
        yield error_event("internal", INTERNAL_MESSAGE, request_id)
    finally:
        task.cancel()


def error_event(code: str, message: str, request_id: str) -> bytes:
    """The event `error`, as it is sent."""
    body = ErrorBody(code=code, message=message, request_id=request_id)
    return ServerSentEvent(body.model_dump_json(), event="error").encode()
