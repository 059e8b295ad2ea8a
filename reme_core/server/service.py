"""What HTTP and MCP have in common: an open memory, who may ask for what, and the running of flows for callers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Depends
from starlette.requests import Request

from reme_core.app import AsyncReMe
from reme_core.flow.execute import Response
from reme_core.server.auth import Access, ApiKeys
from reme_core.server.confine import confined


class Service:
    """A memory that is offered over a network. It belongs to the event loop that opened it.

    Attributes:
        reme: The open memory.
        keys: Who may use it.
    """

    def __init__(self, reme: AsyncReMe) -> None:
        self.reme = reme
        self.keys = ApiKeys(reme.database)

    async def execute(
        self, name: str, request: dict[str, Any], access: Access, *, tell: Callable[[str], None] | None = None
    ) -> Response:
        """Run a flow for a caller, in the workspaces that its key opens and the folders that are configured.

        Args:
            name: The flow.
            request: What it takes.
            access: What the caller may do.
            tell: Hears the answer piece by piece, where the flow makes it so.

        Raises:
            AccessError: The key is not for the workspace.
            InputError: The request does not fit, or names a path outside the folders.
        """
        workspace = request.get("workspace_id") or "default"
        source = request.get("src_workspace_id") or workspace
        access.check(workspace, source)
        if "path" in self.reme.flows.catalog.get(name).input_schema and request.get("action") in ("load", "dump"):
            request = request | {"path": str(confined(str(request.get("path") or "."), workspace, self.reme.settings))}
        return await self.reme.flows.execute(name, request, tell=tell)


async def _service_of(request: Request) -> Service:  # a plain function would be run in a thread, for each request
    return request.app.state.service  # type: ignore[no-any-return]


async def _access_of(request: Request) -> Access:
    return await (await _service_of(request)).keys.access(request)


TheService = Annotated[Service, Depends(_service_of)]
"""The service of the app that a request came to."""
TheAccess = Annotated[Access, Depends(_access_of)]
"""What the caller of a request may do; without a good key, where keys are used, it is refused here."""
