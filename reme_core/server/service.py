"""What the HTTP and MCP services share: an open engine, its API keys, and running flows within their rights."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends
from starlette.requests import Request

from reme_core.engine import Engine
from reme_core.errors import InputError
from reme_core.flows.execute import Response
from reme_core.given import path_of
from reme_core.server.auth import Access, ApiKeys, access_of
from reme_core.server.errors import degraded_for_caller
from reme_core.server.hosts import LOOPBACK
from reme_core.settings import Settings
from reme_core.store.libraries.format import library_path


class Service:
    """An open engine that is served at an address (`host`), in the event loop that opened it."""

    def __init__(self, reme: Engine, host: str) -> None:
        self.reme = reme
        self.host = host
        self.keys = ApiKeys(reme.database)

    async def execute(
        self, name: str, request: dict[str, Any], access: Access, *, tell: Callable[[str], None] | None = None
    ) -> Response:
        """Check that a caller may use the workspaces and the path of a request, then run the flow.

        If the flow streams its answer, `tell` is called with each piece as the model writes it.

        Raises:
            AccessError: The caller's key is not for the workspace.
            InputError: The request does not fit the flow, or names a path outside the configured folders.
        """
        flow = self.reme.flows.catalog.get(name)
        request = flow.complete(request)  # the workspace that the flow takes by default is checked as well
        workspace = request.get("workspace_id") or "default"
        source = request.get("src_workspace_id") or workspace
        access.check(workspace, source)
        # The ops are asked, not the schema: a field that the schema does not name reaches the ops too.
        if "path" in flow.state.inputs() and request.get("action") in ("load", "dump"):
            path = str(request.get("path") or ".")
            # Where there are keys, callers have different rights, and none to the working directory.
            is_local = self.host in LOOPBACK and access.is_local and not await self.keys.has_any()
            folder = library_folder(path, workspace, self.reme.settings, is_local=is_local)
            request = request | {"path": str(folder)}
        response = await self.reme.flows.execute(name, request, tell=tell)
        if told := response.metadata.get("degraded"):
            response.metadata["degraded"] = [degraded_for_caller(line) for line in told]
        return response


@asynccontextmanager
async def open_with_worker(settings: Settings) -> AsyncIterator[Engine]:
    """An engine, with its worker if that is embedded; it is closed at the end of the block."""
    async with Engine(settings) as reme:
        # An engine starts its worker when something is recorded. Here the worker starts at once, for the jobs that an
        # earlier service left undone.
        if settings.worker.embedded:
            reme.background.start()
        yield reme


def library_folder(path: str, workspace: str, settings: Settings, *, is_local: bool) -> Path:
    """Check that callers may read and write the library of a workspace in a folder, and return its absolute path.

    Libraries may lie below the `library_dirs` and the `data_dir` of the settings. Below the working directory they may
    lie only if the service `is_local`: then only programs on this machine reach it, all with the same rights.

    Raises:
        InputError: No folder can have that name, or it, or the file in it, lies elsewhere.
    """
    folders = (*settings.library_dirs, settings.data_dir, *([Path()] if is_local else []))
    allowed = [folder.resolve() for folder in folders]
    # Both are resolved before the comparison, since `..` or a symbolic link in either could lead out of the folder.
    folder = path_of(path).resolve()
    file = library_path(folder, workspace).resolve()
    for root in allowed:
        if folder.is_relative_to(root) and file.is_relative_to(root):
            return folder
    names = ", ".join(str(root) for root in allowed)
    raise InputError(f"path: libraries are read and written below {names} only; `library_dirs` sets more folders")


async def _service_of(request: Request) -> Service:  # async, since FastAPI runs a plain function in a thread
    service: Service = request.app.state.service
    return service


async def _access_of(request: Request) -> Access:
    return access_of(request)


TheService = Annotated[Service, Depends(_service_of)]
"""The service of the app that a request came to."""
TheAccess = Annotated[Access, Depends(_access_of)]
"""What the caller of a request may do. Endpoints that take it answer 401 where a valid key is needed and missing."""
