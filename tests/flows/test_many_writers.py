"""Many summaries of one workspace at the same time: everything is stored, and nothing twice."""

from __future__ import annotations

import re
from typing import Any

import anyio

from reme_core.engine import Engine
from tests.flows.attempts import answering, attempt, calls, lesson, says, user
from tests.loopback import Loopback

Flow = Any

REQUESTS, CLIENTS = 32, 16
PLACES = ["Rome", "Oslo", "Paris", "Bonn", "Riga", "Bern", "Kyiv", "Lima"]


def posted(number: int) -> dict[str, Any]:
    place = PLACES[number % len(PLACES)]
    return attempt(
        user(f"Book hotel {number} in {place}."),
        calls("book", '{"error": "no dates given"}', hotel=number),
        calls("book", "ok", hotel=number, dates=f"{number} May"),
        says(f"Hotel {number} is booked."),
        score=1.0,
        task_id=f"hotel-{number}",
    )


async def post_all(reme: Engine, flow: Flow, numbers: list[int]) -> int:
    """Summarise one attempt for each number, `CLIENTS` at a time; how many memories were reported as new."""
    limit = anyio.CapacityLimiter(CLIENTS)
    inserted: list[int] = []

    async def one(number: int) -> None:
        async with limit:
            state = await flow(reme, "summary_task_memory", workspace_id="w", trajectories=[posted(number)])
            inserted.append(state.update_result.inserted_count)

    async with anyio.create_task_group() as group:
        for number in numbers:
            group.start_soon(one, number)
    return sum(inserted)


async def test_rules_store_every_attempt_once(reme: Engine, flow: Flow) -> None:
    numbers = [*range(REQUESTS), *range(8)]
    inserted = await post_all(reme, flow, numbers)
    stored = await reme.memories.list("w", limit=1000)
    assert inserted == len(stored) == len({(m.when_to_use, m.content) for m in stored}) == 2 * REQUESTS
    assert {m.subject for m in stored} == {f"hotel-{number}" for number in range(REQUESTS)}


async def test_lessons_of_a_model_are_each_stored_once(reme_with_chat: Engine, flow: Flow, loopback: Loopback) -> None:
    def learned(body: dict[str, Any]) -> dict[str, Any]:
        number, place = re.findall(r"Book hotel (\d+) in (\w+)", body["messages"][-1]["content"])[0]
        return {"lessons": [lesson(f"Booking hotel {number} in {place}", f"Give {number} dates at once.")]}

    loopback.chat(answering(success_extraction=learned))
    inserted = await post_all(reme_with_chat, flow, [*range(REQUESTS), *range(8)])
    stored = await reme_with_chat.memories.list("w", limit=1000)
    assert inserted == len(stored) == len({m.content for m in stored}) == REQUESTS


async def test_one_lesson_that_all_learn_is_stored_once_with_all_its_evidence(
    reme_with_chat: Engine, flow: Flow, loopback: Loopback
) -> None:
    loopback.chat(answering(success_extraction={"lessons": [lesson("Booking a hotel", "Give the dates at once.")]}))
    inserted = await post_all(reme_with_chat, flow, list(range(8)))
    (memory,) = await reme_with_chat.memories.list("w")
    assert inserted == 1
    assert sum(source.kind == "episode" for source in memory.sources) == 8
    assert memory.seen_count == 8
