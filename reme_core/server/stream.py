"""Answers as server-sent events: pieces while the model writes, then the whole response, or the error.

event: answer     data: {"text": "…"}         as often as the model has something to say
event: response   data: {"answer": …, …}      once, what the plain request would have given
event: error      data: {"code": …, …}        instead of it
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.requests import Request

from reme_core.errors import ReMeError
from reme_core.flow.execute import Response
from reme_core.server.errors import ErrorBody

log = logging.getLogger(__name__)

Tell = Callable[[str], None]
_PING_SECONDS = 15  # proxies close connections on which nothing happens for a minute


def wants_events(request: Request) -> bool:
    """Whether the caller asks for a stream: `Accept: text/event-stream`."""
    return "text/event-stream" in request.headers.get("accept", "")


def event_stream(request: Request, execute: Callable[[Tell], Awaitable[Response]]) -> EventSourceResponse:
    """Stream what `execute` tells, and what it gives in the end. When the caller goes, it is cancelled."""
    return EventSourceResponse(_events(request.scope["request_id"], execute), ping=_PING_SECONDS)


async def _events(request_id: str, execute: Callable[[Tell], Awaitable[Response]]) -> AsyncIterator[ServerSentEvent]:
    pieces: asyncio.Queue[str | None] = asyncio.Queue()
    task = asyncio.ensure_future(execute(pieces.put_nowait))
    task.add_done_callback(lambda _: pieces.put_nowait(None))
    try:
        while (piece := await pieces.get()) is not None:
            yield ServerSentEvent(json.dumps({"text": piece}, ensure_ascii=False), event="answer")
        yield ServerSentEvent((await task).model_dump_json(), event="response")
    except ReMeError as error:
        yield ServerSentEvent(_told(error.code, str(error), request_id), event="error")
    except Exception:
        log.exception("request %s failed", request_id)
        message = "an error of the service itself; its log tells more under this request id"
        yield ServerSentEvent(_told("internal", message, request_id), event="error")
    finally:
        task.cancel()


def _told(code: str, message: str, request_id: str) -> str:
    return ErrorBody(code=code, message=message, request_id=request_id).model_dump_json()
