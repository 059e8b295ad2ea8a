"""The classes of the service's routes: they replace characters in JSON bodies that Postgres cannot store."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Coroutine
from typing import Any, Final
from urllib.parse import quote, unquote

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Scope

from reme_core.given import storable

# Most bodies hold no such escape, and the bytes are searched much faster than the parsed value is walked. In valid JSON
# these characters can only be escapes: a NUL must be one, and UTF-8 has no surrogates.
_UNSTORABLE_ESCAPE: Final = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")


class JsonRoute(APIRoute):
    """A route that replaces, in the JSON of its requests, what Postgres cannot store; see `storable`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's handler, called with a `_StorableRequest`."""
        handle = super().get_route_handler()

        async def handle_storable(request: Request) -> Response:
            return await handle(_StorableRequest(request.scope, request.receive))

        return handle_storable


class RawPathRoute(JsonRoute):
    """A route that is matched with the path as it was sent: in a name, a slash is `%2F` and separates nothing."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Whether a request is for this route; its parameters are decoded after the path was taken apart."""
        sent = scope.get("raw_path")
        path = sent.decode("latin-1") if sent else ""
        if unquote(path) != scope["path"]:  # a server need not give it, and a redirect changes the path alone
            path = quote(scope["path"])
        match, child = super().matches({**scope, "path": path})
        if match != Match.NONE:
            parameters = child["path_params"]
            child["path_params"] = {k: unquote(v) if isinstance(v, str) else v for k, v in parameters.items()}
        return match, child


class _StorableRequest(Request):
    async def json(self) -> Any:
        body = await self.body()
        try:
            value = json.loads(body, parse_float=_finite_number, parse_constant=_finite_number)
            return storable(value) if _UNSTORABLE_ESCAPE.search(body) else value
        except json.JSONDecodeError:
            raise
        except (ValueError, RecursionError) as error:  # not UTF-8, a number of 5,000 digits, very deep nesting
            # FastAPI answers 422 to this error, and 400 to any other.
            raise json.JSONDecodeError(str(error), "", 0) from None


def _finite_number(text: str) -> float:
    number = float(text)
    # Python would read NaN, Infinity and 1e999, but JSON and Postgres' jsonb have none of them.
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is not a finite number")
    return number
