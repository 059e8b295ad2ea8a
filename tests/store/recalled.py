"""What tests of recall share: days, and what was found in their workspace."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from reme_core.engine import Engine
from reme_core.types import Hit


def day(number: int) -> datetime:
    return datetime(2024, 1, 1, tzinfo=UTC) + timedelta(days=number)


def said(hits: list[Hit]) -> list[str]:
    return [hit.content for hit in hits]


async def found(reme: Engine, query: str, **options: object) -> list[str]:
    return said((await reme.recall("w", query, **options)).hits)  # type: ignore[arg-type]
