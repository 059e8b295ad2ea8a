"""The inspector: web pages that show why an agent said something, with the note that it got and the evidence for it.

The pages work without JavaScript. Their one script adds keyboard navigation and turns fields for days into sliders.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from fastapi import APIRouter, HTTPException
from starlette.responses import FileResponse

from reme_core.errors import NotFoundError
from reme_core.server.inspector import actions, pages
from reme_core.server.inspector.page import HEADERS, PageRoute, ThePage

_STATIC: Final = Path(__file__).parent / "static"

router = APIRouter(include_in_schema=False)
router.include_router(pages.router)
router.include_router(actions.router)


@router.get("/inspector/static/{name}")
async def _file(name: str) -> FileResponse:
    if name not in ("inspector.css", "inspector.js"):
        raise HTTPException(404)
    return FileResponse(_STATIC / name, headers=HEADERS | {"Cache-Control": "no-cache"})


_others = APIRouter(route_class=PageRoute)


@_others.get("/inspector/{path:path}")
async def _unknown(path: str, page: ThePage) -> None:
    raise NotFoundError(f"there is no page '{path}'; the first page lists the workspaces")


router.include_router(_others)  # the last one: whatever is no page of those above
