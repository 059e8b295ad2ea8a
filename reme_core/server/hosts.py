"""Checks the headers `Host` and `Origin` of requests, so that no foreign web page uses a service through a browser.

A page can attack in two ways. It can make its own domain name resolve to this machine and send requests to that name
(DNS rebinding); then `Host` is the page's domain. Or it can send requests to this machine's address; then `Origin` is
the page's site. An address cannot be rebound, so a `Host` that is an address is accepted. A name is accepted if it is
one of this machine's or is allowed in the settings.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from reme_core.server.errors import error_response

LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
"""The names of this machine that nobody else reaches."""


class HostCheck:
    """Middleware that answers 421 if `Host` is not accepted, and 403 to requests from pages of other sites.

    Addresses, the names of this machine and those that are `allowed` are accepted; `*` accepts all.
    """

    def __init__(self, app: ASGIApp, *, allowed: Sequence[str]) -> None:
        self._app = app
        self._allowed = {name.lower() for name in (*LOOPBACK, *allowed)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, as ASGI defines it."""
        if scope["type"] == "http" and "*" not in self._allowed and (problem := self._problem(Headers(scope=scope))):
            await error_response(scope, *problem)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _problem(self, headers: Headers) -> tuple[int, str, str] | None:
        host = _name_in(f"//{headers.get('host', '')}")
        advice = "; add it to the setting http.allowed_hosts, for `reme mcp` mcp.allowed_hosts"
        # Every browser names a host; a probe that speaks HTTP/1.0, such as HAProxy's, need not.
        if "host" in headers and host not in self._allowed and not _is_address(host):
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
