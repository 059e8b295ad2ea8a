"""Memory of tools: how their calls went, statistics of them, and guidance for the next call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from reme_core.flows.execute import Response
from reme_core.postgres.database import Database, check_workspace
from reme_core.store import tool_calls
from reme_core.store.tool_calls import ToolCallResult, ToolStatistics
from reme_core.tools.record import store_calls


class Tools:
    """The tools of all workspaces; every method names the one it works in."""

    def __init__(self, database: Database, execute: Callable[..., Awaitable[Response]]) -> None:
        self._database = database
        self._execute = execute

    async def record(
        self, workspace: str, calls: ToolCallResult | Mapping[str, Any] | Sequence[ToolCallResult | Mapping[str, Any]]
    ) -> dict[str, Any]:
        """Store how calls of tools went. No model is called; a call that is stored already is not counted again.

        Args:
            workspace: The workspace; it is created on first use.
            calls: One or several, as `ToolCallResult` or as a dict of its fields.

        Returns:
            `validation_stats` and `deduplication_stats`: how many were valid, and how many were new.

        Raises:
            InputError: None of them is valid.

        Example:
            ```python
            await reme.tools.record("shop", [{"tool_name": "search", "input": {"q": "tea"}, "output": "3 items"}])
            ```
        """
        given = calls if isinstance(calls, Sequence) and not isinstance(calls, str) else [calls]
        return (await store_calls(self._database, workspace, given))[1]

    async def statistics(self, workspace: str, tool_names: Sequence[str] | None = None) -> list[ToolStatistics]:
        """Statistics of tools, by name (view `tool_statistics`); without names, of all tools."""
        return await tool_calls.statistics(self._database, workspace, tool_names)

    async def summarise(self, workspace: str, tool_names: Sequence[str] = ()) -> Response:
        """Make guidance for tools from their calls (flow `summary_tool_memory`); without names, for all tools.

        Raises:
            InputError: None of the tools has calls.
        """
        return await self._execute(
            "summary_tool_memory", workspace_id=check_workspace(workspace), tool_names=list(tool_names)
        )

    async def guidance(
        self, workspace: str, tool_names: Sequence[str] = (), *, query: str = "", limit: int = 3
    ) -> Response:
        """Retrieve guidance (flow `retrieve_tool_memory`): for the named tools, or for those that fit a query.

        Returns:
            `answer` is a note for an agent's prompt; `metadata["memory_list"]` holds the memories.

        Raises:
            InputError: Neither tools nor a query are given.
        """
        return await self._execute(
            "retrieve_tool_memory", workspace_id=check_workspace(workspace), tool_names=list(tool_names), query=query,
            top_k=limit,
        )  # fmt: skip
