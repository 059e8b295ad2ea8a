"""What all pages of the inspector share: who looks, in which language, and how a page, or an error, is shown."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from string import Template
from typing import Annotated, Any, Final
from urllib.parse import parse_qs, urlencode, urlsplit

import psycopg
from fastapi import Depends, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.responses import HTMLResponse, RedirectResponse, Response

from reme_core.errors import InputError, NotFoundError, ReMeError
from reme_core.postgres.database import check_workspace
from reme_core.server.auth import Access
from reme_core.server.errors import AccessError, message_for_caller, status_of
from reme_core.server.inspector.look import environment
from reme_core.server.service import Service
from reme_core.store.sql import load

HEADERS: Final = {
    # Memories may contain anything, scripts too: the browser shall run only our own files, and connect only to us.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; form-action"
    " 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # none at all would have forms sent without their origin
    "Cache-Control": "no-store",  # or whoever signs out would leave the pages behind
}
KEY_COOKIE: Final = "reme_key"
LANGUAGE_COOKIE: Final = "reme_language"
PER_PAGE: Final = 25
_SQL = load("inspector.sql")
_EXISTS = load("workspace.sql")["exists"]

Row = dict[str, Any]


class Page:
    """One request for a page: by whom, about which workspace, in which language."""

    def __init__(self, request: Request, service: Service, access: Access, workspace: str) -> None:
        self.request = request
        self.service = service
        self.reme = service.reme
        self.access = access
        self.workspace = workspace

    @property
    def actor(self) -> str:
        """Who changes something, for the history."""
        return f"inspector, key {self.access.key_id}" if self.access.key_id else "inspector"

    async def read(self, name: str, **values: Any) -> list[Row]:
        """The rows of a statement of `inspector.sql`, in the workspace of the page."""
        values = {"workspace": self.workspace, **values}
        found = await self.reme.database.fetch(self.workspace, _statement(name), values)
        return [row[0] for row in found]

    async def read_all(self, name: str, **values: Any) -> list[Row]:
        """The rows of a statement that looks at all workspaces."""
        return [row[0] for row in await self.reme.database.execute_anywhere(_statement(name), values)]

    def show(self, template: str, **values: Any) -> HTMLResponse:
        """The page that a template makes of these values."""
        return render(self.request, template, page=self, workspace=self.workspace, **values)


@cache
def _statement(name: str) -> str:
    return Template("select row_to_json(one_row) from ($statement) as one_row").substitute(statement=_SQL[name])


def render(request: Request, template: str, *, code: int = 200, **values: Any) -> HTMLResponse:
    """A page as it is sent, in the language of the reader."""
    language = _language_of(request)
    shown = environment(language).get_template(template)
    here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    text = shown.render(request=request, language=language, here=here, **values)
    answer = HTMLResponse(text, code, headers=HEADERS)
    if request.query_params.get("lang"):
        answer.set_cookie(LANGUAGE_COOKIE, language, path="/inspector", samesite="strict", httponly=True)
    return answer


def _language_of(request: Request) -> str:
    asked = request.query_params.get("lang") or request.cookies.get(LANGUAGE_COOKIE)
    asked = asked or request.headers.get("accept-language", "")
    return "zh" if asked.lower().startswith("zh") else "en"


async def _page_of(
    request: Request, w: Annotated[str, Query(description="The workspace.", max_length=200)] = ""
) -> Page:
    service: Service = request.app.state.service
    bearer = request.headers.get("authorization", "").removeprefix("Bearer ").strip()
    access = await service.keys.access_by(bearer or request.cookies.get(KEY_COOKIE, ""))
    return Page(request, service, access, w)


async def _page_of_workspace(page: Annotated[Page, Depends(_page_of)]) -> Page:
    if not page.workspace:
        raise InputError("no workspace is named; choose one on the first page")
    page.access.check(check_workspace(page.workspace))
    ((exists,),) = await page.reme.database.fetch(page.workspace, _EXISTS, {"workspace": page.workspace})
    if not exists:
        raise NotFoundError(f"there is no workspace '{page.workspace}'; the first page lists those there are")
    return page


ThePage = Annotated[Page, Depends(_page_of)]
"""A page about no workspace in particular. Where a key is needed and missing, the reader is asked to sign in."""
ThePageOf = Annotated[Page, Depends(_page_of_workspace)]
"""A page about the workspace that the parameter `w` names."""


class PageRoute(APIRoute):
    """A route whose errors are pages, and which takes forms of the inspector's own pages only."""

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        """FastAPI's handler, with errors as pages."""
        handle = super().get_route_handler()

        async def handle_with_pages(request: Request) -> Response:
            try:
                _check_origin(request)
                return await handle(request)
            except AccessError as error:
                if error.status == 401:
                    return _to_sign_in(request)
                return render(request, "error.html", code=error.status, message=str(error))
            except ReMeError as error:
                status = status_of(error)
                return render(request, "error.html", code=status, message=message_for_caller(error))
            except (RequestValidationError, psycopg.DataError) as error:
                what = error.errors()[0]["msg"] if isinstance(error, RequestValidationError) else "a value does not fit"
                return render(request, "error.html", code=422, message=f"{what}; look at the address of this page")

        return handle_with_pages


def _check_origin(request: Request) -> None:
    """Refuse what pages of another origin send, also where a service answers for all hosts, and ports are others'."""
    origin = request.headers.get("origin", "")
    if request.method == "POST" and urlsplit(origin).netloc != request.headers.get("host"):
        raise AccessError("this form was not sent by the inspector; open its page anew and try again", status=403)


def _to_sign_in(request: Request) -> RedirectResponse:
    here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    back = here if request.method == "GET" else "/inspector"
    return RedirectResponse(f"/inspector/sign-in?{urlencode({'next': back})}", 303, headers=HEADERS)


async def form_of(request: Request) -> Mapping[str, str]:
    """The fields of a form that was sent, without the space around them."""
    fields = parse_qs((await request.body()).decode("utf-8", "replace"), keep_blank_values=True, errors="replace")
    return {name: values[-1].strip().replace("\r\n", "\n") for name, values in fields.items()}


def day_of(text: str) -> datetime | None:
    """The day, or the moment of it, that a field names (UTC); None where it is empty.

    Raises:
        InputError: It is no day.
    """
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC) if text else None
    except ValueError:
        raise InputError(f"{text!r:.40} is no day; give one as 2026-11-23") from None
