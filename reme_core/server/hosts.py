"""Which requests a service answers, by the host and origin that they name: no web page reaches it from a browser.

A page can have its own domain name resolved to this machine and then send requests here (DNS rebinding), or post to an
address here outright. Both show: the first names the page's domain as `Host`, the second as `Origin`. Addresses cannot
be rebound, so a host that is one is answered; names are answered if they are this machine's or are allowed.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from reme_core.server.errors import error_response

_OWN_NAMES: Final = ("localhost", "127.0.0.1", "::1")


class HostCheck:
    """Middleware that answers 421 to requests in the name of another host, and 403 to those of another site's pages.

    Args:
        app: The app that answers the other requests.
        allowed: Host names that are answered besides this machine's own and addresses; `*` allows all.
    """

    def __init__(self, app: ASGIApp, *, allowed: Sequence[str]) -> None:
        self._app = app
        self._allowed = {name.lower() for name in (*_OWN_NAMES, *allowed)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, as ASGI defines it."""
        if scope["type"] == "http" and "*" not in self._allowed and (problem := self._problem(Headers(scope=scope))):
            await error_response(str(scope.get("request_id", "")), *problem)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _problem(self, headers: Headers) -> tuple[int, str, str] | None:
        host, advice = _name_in(f"//{headers.get('host', '')}"), "; add it to allowed_hosts in the settings"
        if host not in self._allowed and not _is_address(host):
            return 421, "wrong_host", f"this service does not answer for the host {host[:100]!r}{advice}"
        # A browser names the page that a request comes from; other programs name none.
        origin = headers.get("origin")
        if origin is not None and (page := _name_in(origin)) != host and page not in self._allowed:
            return 403, "forbidden", f"web pages of {page[:100]!r} may not use this service{advice}"
        return None


def _name_in(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
