"""What all pages of the inspector share: who reads them, in which language, and how pages and errors are rendered."""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final
from urllib.parse import parse_qs, urlsplit

from fastapi import Depends, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.responses import HTMLResponse, RedirectResponse, Response

from reme_core.engine import Engine
from reme_core.errors import InputError, NotFoundError, ReMeError
from reme_core.given import moment_of
from reme_core.postgres.database import check_workspace
from reme_core.server.auth import Access, key_in_headers
from reme_core.server.errors import AccessError, log_own_error, message_for_caller, status_of
from reme_core.server.inspector.look import PREFIX, environment, url
from reme_core.server.service import TheService
from reme_core.store.sql import load

HEADERS: Final = {
    # Memories may contain anything, even scripts: the browser may run only our own files, and connect only to us.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; form-action"
    " 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with `no-referrer`, browsers send forms without their origin
    "Cache-Control": "no-store",  # pages must not stay in the browser after signing out
}
KEY_COOKIE: Final = "reme_key"
LANGUAGE_COOKIE: Final = "reme_language"
_SQL = load("inspector.sql")
_EXISTS = load("workspace.sql")["exists"]

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Page:
    """One request for a page: by whom, and about which workspace."""

    request: Request
    reme: Engine
    access: Access
    workspace: str

    @property
    def actor(self) -> str:
        """The name under which changes by this page stand in the history."""
        return f"inspector, key {self.access.key_id}" if self.access.key_id else "inspector"

    async def read(self, name: str, **values: Any) -> list[Row]:
        """The rows of a statement in `inspector.sql`, in the workspace of the page."""
        values = {"workspace": self.workspace, **values}
        return [row[0] for row in await self.reme.database.fetch(self.workspace, _statement(name), values)]

    async def read_all(self, name: str, **values: Any) -> list[Row]:
        """The rows of a statement in `inspector.sql` that reads all workspaces."""
        return [row[0] for row in await self.reme.database.execute_anywhere(_statement(name), values)]

    def show(self, template: str, **values: Any) -> HTMLResponse:
        """The page that a template makes from these values."""
        return render(self.request, template, page=self, workspace=self.workspace, **values)


def _statement(name: str) -> str:
    return f"select row_to_json(one_row) from ({_SQL[name]}) as one_row"


def render(request: Request, template: str, *, code: int = 200, **values: Any) -> HTMLResponse:
    """A page in the language of the reader, with its HTTP headers."""
    language = _language_of(request)
    text = environment(language).get_template(template).render(request=request, language=language, **values)
    answer = HTMLResponse(text, code, headers=HEADERS)
    if request.query_params.get("lang"):
        answer.set_cookie(LANGUAGE_COOKIE, language, path=url(""), samesite="strict", httponly=True)
    return answer


def _language_of(request: Request) -> str:
    asked = request.query_params.get("lang") or request.cookies.get(LANGUAGE_COOKIE)
    asked = asked or request.headers.get("accept-language", "")
    return "zh" if asked.lower().startswith("zh") else "en"


async def _page_of(
    request: Request, service: TheService, w: Annotated[str, Query(description="The workspace.", max_length=200)] = ""
) -> Page:
    access = await service.keys.access(key_in_headers(request) or request.cookies.get(KEY_COOKIE, ""))
    return Page(request, service.reme, access, w)


async def _page_of_workspace(page: Annotated[Page, Depends(_page_of)]) -> Page:
    if not page.workspace:
        raise InputError("the address names no workspace; choose one on the first page")
    page.access.check(check_workspace(page.workspace))
    if not await page.reme.database.fetch(page.workspace, _EXISTS, {"workspace": page.workspace}):
        raise NotFoundError(f"there is no workspace '{page.workspace}'; the first page lists all")
    return page


ThePage = Annotated[Page, Depends(_page_of)]
"""A page that is not about one workspace. A reader without the key that is needed is asked to sign in."""
ThePageOf = Annotated[Page, Depends(_page_of_workspace)]
"""A page about the workspace that the parameter `w` names."""


class PageRoute(APIRoute):
    """A route that answers errors with pages, and accepts forms only from the inspector's own pages."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's handler, with errors as pages."""
        handle = super().get_route_handler()

        async def handle_with_pages(request: Request) -> Response:
            PREFIX.set(request.scope.get("root_path", "").rstrip("/"))
            try:
                _check_origin(request)
                return await handle(request)
            except ReMeError as error:
                status = status_of(error)
                if status == 401:
                    return _to_sign_in(request)
                log_own_error(error, request.scope)
                return render(request, "error.html", code=status, message=message_for_caller(error))
            except RequestValidationError as error:
                what = error.errors()[0]["msg"]
                return render(request, "error.html", code=422, message=f"{what}; look at the address of this page")

        return handle_with_pages


def _check_origin(request: Request) -> None:
    # `HostCheck` takes two ports of one host for the same site, and does nothing where all hosts are allowed.
    origin = request.headers.get("origin", "")
    if request.method == "POST" and urlsplit(origin).netloc != request.headers.get("host"):
        raise AccessError("this form was not sent by the inspector; open its page anew and try again", status=403)


def _to_sign_in(request: Request) -> RedirectResponse:
    asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    back = asked if request.method == "GET" else url("")
    return RedirectResponse(url("/sign-in", next=back), 303, headers=HEADERS)


async def form_of(request: Request, *, most_bytes: float = math.inf) -> Mapping[str, str]:
    """The fields of a form of at most so many bytes, without spaces around their values."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > most_bytes:
            raise InputError(f"the form is too long; it has at most {most_bytes:,} bytes")
    fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, errors="replace")
    return {name: values[-1].strip().replace("\r\n", "\n") for name, values in fields.items()}


def day_of(text: str) -> datetime | None:
    """The day or the moment that a field of a form names, in UTC unless it has an offset; None if it is empty."""
    try:
        moment = datetime.fromisoformat(text) if text else None
    except ValueError:
        raise InputError(f"{text!r:.40} is no day; give one as 2026-11-23") from None
    return moment_of(moment) if moment else None
