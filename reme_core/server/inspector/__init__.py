"""The inspector: web pages that show what is remembered, why it was recalled, and how attempts at tasks go.

The pages are three files without data. Everything they show comes from `/v1`, with the caller's own key, so they open
nothing that the key does not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from fastapi import APIRouter
from starlette.responses import FileResponse

_FOLDER: Final = Path(__file__).parent
_FILES: Final = {"": "index.html", "/inspector.js": "inspector.js", "/inspector.css": "inspector.css"}
_HEADERS: Final = {
    # What is remembered may hold anything: nothing but our own files runs, and nothing is sent anywhere else.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def router() -> APIRouter:
    """`GET /inspector`, and the files that the page needs."""
    routes = APIRouter(prefix="/inspector", include_in_schema=False)
    for path, name in _FILES.items():
        _serve(routes, path, _FOLDER / name)
    return routes


def _serve(routes: APIRouter, path: str, file: Path) -> None:
    @routes.get(path)
    async def serve() -> FileResponse:
        return FileResponse(file, headers=_HEADERS)
