"""Tool calls in Postgres: each is kept once; their statistics are the view `tool_statistics`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from reme_core.schema import now
from reme_core.store import rows
from reme_core.store.database import Database
from reme_core.store.episodes import strings
from reme_core.store.sql import load
from reme_core.tool_call import ToolCallResult, ToolStatistics

_SQL = load("tool.sql")
_ENSURE_WORKSPACE = load("memory.sql")["ensure_workspace"]

_COLUMNS = (
    "call_hash", "tool_name", "input", "output", "success", "error", "time_cost", "token_cost", "summary", "evaluation",
    "score", "called_at", "summarised_at", "metadata",
)  # fmt: skip


async def record(database: Database, workspace: str, calls: Sequence[tuple[ToolCallResult, str]]) -> list[str]:
    """Take calls in, each with the error that it met (empty where it worked), in one transaction.

    Returns:
        The hashes of those that were new.

    Raises:
        InputError: One holds what Postgres cannot store; none was taken.
    """
    written = [_row(call, error) for call, error in calls]
    for row in written:
        for text in strings(row):
            rows.check_text(f"the call of tool {row['tool_name']!r}", text)
    async with database.transaction(workspace) as conn:
        await conn.execute(_ENSURE_WORKSPACE, {"workspace": workspace})
        # In one order everywhere, so that two writers of the same calls wait for each other only one way.
        ordered = sorted({row["call_hash"]: row for row in reversed(written)}.values(), key=lambda r: r["call_hash"])
        values = {"workspace": workspace, "rows": Jsonb(ordered)}
        return [row[0] for row in await (await conn.execute(_SQL["insert_calls"], values)).fetchall()]


async def statistics(database: Database, workspace: str, tools: Sequence[str] | None = None) -> list[ToolStatistics]:
    """How tools fare, by name; without names, all of them."""
    values = {"workspace": workspace, "tools": list(tools) if tools is not None else None}
    found = await database.fetch(workspace, _SQL["statistics"], values)
    names = tuple(ToolStatistics.model_fields)
    return [ToolStatistics.model_construct(**dict(zip(names, row, strict=True))) for row in found]


async def newest(database: Database, workspace: str, tool: str, *, limit: int) -> list[tuple[ToolCallResult, str]]:
    """The newest calls of a tool, oldest first, each with the error that it met."""
    values = {"workspace": workspace, "tool": tool, "limit": limit}
    calls = []
    for row in await database.fetch(workspace, _SQL["newest_calls"], values):
        told = dict(zip(_COLUMNS, row, strict=True))
        error, summarised_at = told.pop("error"), told.pop("summarised_at")
        calls.append((ToolCallResult.model_construct(**told, is_summarized=summarised_at is not None), error))
    return calls


async def mark_summarised(database: Database, workspace: str, tool: str, until: datetime) -> None:
    """Note that guidance was made of a tool's calls up to that time."""
    await database.execute(workspace, _SQL["mark_calls"], {"workspace": workspace, "tool": tool, "until": until})


async def guidance_ids(database: Database, workspace: str, tools: Sequence[str]) -> list[str]:
    """The memories that hold the guidance for these tools."""
    found = await database.fetch(workspace, _SQL["guidance_of"], {"workspace": workspace, "tools": list(tools)})
    return [row[0] for row in found]


def _row(call: ToolCallResult, error: str) -> dict[str, Any]:
    row = call.model_dump(mode="json", include=set(_COLUMNS))
    return row | {"error": error, "summarised_at": now().isoformat() if call.is_summarized else None}
