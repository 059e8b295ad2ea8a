"""The inspector: a web page that shows what is remembered, why it was recalled, and how attempts at tasks go.

The page is three static files. All data it shows it fetches from `/v1` with the user's own API key, so the files need
none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from fastapi import APIRouter
from starlette.responses import FileResponse

_FOLDER: Final = Path(__file__).parent
_HEADERS: Final = {
    # Memories may contain anything, scripts too: the browser shall run only our own files, and connect only to us.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


router = APIRouter(prefix="/inspector", include_in_schema=False)


@router.get("")
async def _page() -> FileResponse:
    return _file("index.html")


@router.get("/inspector.js")
async def _script() -> FileResponse:
    return _file("inspector.js")


@router.get("/inspector.css")
async def _style() -> FileResponse:
    return _file("inspector.css")


def _file(name: str) -> FileResponse:
    return FileResponse(_FOLDER / name, headers=_HEADERS)
