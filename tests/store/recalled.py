"""What tests of recall share: days, what was found in their workspace, and how Postgres went about it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from reme_core.engine import Engine
from reme_core.store import recall_sql
from reme_core.store.relevance import Question
from reme_core.types import Hit


def day(number: int) -> datetime:
    return datetime(2024, 1, 1, tzinfo=UTC) + timedelta(days=number)


def said(hits: list[Hit]) -> list[str]:
    return [hit.content for hit in hits]


async def found(reme: Engine, query: str, **options: object) -> list[str]:
    return said((await reme.recall("w", query, **options)).hits)  # type: ignore[arg-type]


async def explained(
    reme: Engine, question: Question, way: recall_sql.Plan, settings: Mapping[str, str] = recall_sql._SETTINGS
) -> str:
    """How Postgres answers a question, with the numbers of rows that each step gave."""
    statement, values = recall_sql.prepare(question, way)
    rows = await reme.database.fetch(question.workspace, f"explain (analyze) {statement}", values, settings=settings)
    return "\n".join(row[0] for row in rows)
