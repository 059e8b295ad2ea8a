"""Tool calls in Postgres: each is stored once; the view `tool_statistics` has their statistics."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from reme_core.postgres.database import Database
from reme_core.store import rows
from reme_core.store.sql import load
from reme_core.tools.types import ToolCallResult, ToolStatistics
from reme_core.types import now

_SQL = load("tool.sql")
_ENSURE_WORKSPACE = load("memory.sql")["ensure_workspace"]

_COLUMNS = (
    "call_hash", "tool_name", "input", "output", "success", "error", "time_cost", "token_cost", "summary", "evaluation",
    "score", "called_at", "summarised_at", "metadata",
)  # fmt: skip


async def record(database: Database, workspace: str, calls: Sequence[tuple[ToolCallResult, str]]) -> list[str]:
    """Store calls, each with its error (empty if it worked), in one transaction.

    Returns:
        The hashes of those that were new.

    Raises:
        InputError: One contains text that Postgres cannot store; none was stored.
    """
    written = [_row(call, error) for call, error in calls]
    for row in written:
        for text in rows.strings(row):
            rows.check_text(f"the call of tool {row['tool_name']!r}", text)
    async with database.transaction(workspace) as conn:
        await conn.execute(_ENSURE_WORKSPACE, {"workspace": workspace})
        # All writers insert in the order of the hashes, so that two of them cannot deadlock on the same calls.
        ordered = sorted({row["call_hash"]: row for row in reversed(written)}.values(), key=lambda r: r["call_hash"])
        values = {"workspace": workspace, "rows": Jsonb(ordered)}
        return [row[0] for row in await (await conn.execute(_SQL["insert_calls"], values)).fetchall()]


async def statistics(database: Database, workspace: str, tools: Sequence[str] | None = None) -> list[ToolStatistics]:
    """Statistics of tools, by name; without names, of all tools."""
    values = {"workspace": workspace, "tools": list(tools) if tools is not None else None}
    found = await database.fetch(workspace, _SQL["statistics"], values)
    names = tuple(ToolStatistics.model_fields)
    return [ToolStatistics.model_construct(**dict(zip(names, row, strict=True))) for row in found]


async def newest_calls(
    database: Database, workspace: str, tool: str, *, limit: int
) -> list[tuple[ToolCallResult, str]]:
    """The newest `limit` calls of a tool, oldest first, each with its error (empty if it worked)."""
    values = {"workspace": workspace, "tool": tool, "limit": limit}
    calls = []
    for row in await database.fetch(workspace, _SQL["newest_calls"], values):
        fields = dict(zip(_COLUMNS, row, strict=True))
        error, summarised_at = fields.pop("error"), fields.pop("summarised_at")
        calls.append((ToolCallResult.model_construct(**fields, is_summarized=summarised_at is not None), error))
    return calls


async def mark_summarised(database: Database, workspace: str, tool: str, until: datetime) -> None:
    """Mark a tool's calls up to that time as used for guidance."""
    await database.execute(workspace, _SQL["mark_calls"], {"workspace": workspace, "tool": tool, "until": until})


async def guidance_ids(database: Database, workspace: str, tools: Sequence[str]) -> list[str]:
    """Ids of the memories with the guidance for these tools."""
    found = await database.fetch(workspace, _SQL["guidance_of"], {"workspace": workspace, "tools": list(tools)})
    return [row[0] for row in found]


def _row(call: ToolCallResult, error: str) -> dict[str, Any]:
    row = call.model_dump(mode="json", include=set(_COLUMNS))
    return row | {"error": error, "summarised_at": now().isoformat() if call.is_summarized else None}
