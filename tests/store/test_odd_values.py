"""Values between the types: what a float4 rounds, and ranges with one open end."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from reme_core.app import AsyncReMe
from reme_core.schema import Memory, TimeRange
from reme_core.settings import Settings


@pytest.mark.timeout(20)
async def test_a_memory_of_any_importance_can_be_changed(settings: Settings) -> None:
    async with AsyncReMe(settings) as reme:
        (memory,) = await reme.memories.add("w", Memory(content="Rex is a dog.", importance=0.3))
        changed = await reme.memories.update("w", memory.memory_id, content="Rex is a cat.")
        assert (changed.content, round(changed.importance, 6)) == ("Rex is a cat.", 0.3)


async def test_a_range_of_time_may_be_open_on_either_side(settings: Settings) -> None:
    past, future = datetime(2000, 1, 1, tzinfo=UTC), datetime(3000, 1, 1, tzinfo=UTC)
    async with AsyncReMe(settings) as reme:
        await reme.memories.add("w", "Rex is a dog.")
        for known, count in ((TimeRange(start=past), 1), (TimeRange(end=future), 1), (TimeRange(end=past), 0)):
            assert len(await reme.recall("w", "Rex", known=known)) == count
