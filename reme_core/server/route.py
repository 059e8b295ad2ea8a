"""Routes that read JSON as it really arrives."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Awaitable, Callable
from typing import Any, Final

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from reme_core.server.wire import scrubbed

_SUSPECT: Final = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")


class JsonRoute(APIRoute):
    """A route whose JSON may hold what Postgres cannot store; see `scrubbed`."""

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        """The handler, given a request that reads so."""
        handle = super().get_route_handler()

        async def handle_scrubbed(request: Request) -> Response:
            return await handle(_Scrubbed(request.scope, request.receive))

        return handle_scrubbed


class _Scrubbed(Request):
    async def json(self) -> Any:
        body = await self.body()
        try:
            value = json.loads(body, parse_float=_finite, parse_constant=_finite)
        except json.JSONDecodeError:
            raise
        except (ValueError, RecursionError) as error:  # not UTF-8, a number of 5,000 digits, brackets without end
            raise json.JSONDecodeError(str(error), "", 0) from None
        return scrubbed(value) if _SUSPECT.search(body) else value


def _finite(text: str) -> float:
    """A number as Python has it; `NaN` and numbers beyond a double are no JSON that could be stored or given back."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is not a finite number")
    return number
