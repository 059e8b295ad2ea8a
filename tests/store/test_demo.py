"""The demonstration, whatever else works in the same database."""

from __future__ import annotations

from reme_core import Settings
from reme_core.demo import WORKSPACE, run_demo
from reme_core.engine import Engine


async def test_other_processes_leave_the_demonstration_as_it_is(settings: Settings) -> None:
    async with Engine(settings) as reme:
        first = await run_demo(reme)
    async with Engine(settings) as other:
        await other.background.drain()
        await other.background._keep_up()
        await other.background.drain()
        kept = await other.memories.list(WORKSPACE)
        again = await run_demo(other)
    assert {memory.author for memory in kept} == {"demo"} and len(kept) == 22
    assert answers(again) == answers(first)


def answers(told: object) -> list[list[tuple[str, float]]]:
    return [[(hit.content, hit.parts.final) for hit in found.hits] for _, found in told.answers]  # type: ignore[attr-defined]
