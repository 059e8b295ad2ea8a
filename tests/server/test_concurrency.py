"""Many clients at once: nothing is lost, nothing is stored twice, and the health check goes on answering."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx

from reme_core.engine import Engine
from tests.flows.attempts import attempt, calls, says, user

Client = httpx.AsyncClient


def booking(number: int) -> dict[str, Any]:
    """An attempt at a task of its own, with a mistake that was overcome."""
    tool = f"book_{number:02d}"
    return attempt(
        user(f"Book room {number} in house {number * 7 + 1}."),
        calls(tool, '{"error": "date must be YYYY-MM-DD"}', date="tomorrow"),
        calls(tool, '{"status": "ok"}', date=f"2025-03-{number % 28 + 1:02d}"),
        says("Booked."),
        score=1.0,
        task_id=f"room-{number}",
    )


async def test_32_summaries_of_16_clients_are_all_stored_and_none_twice(client: Client, reme: Engine) -> None:
    waiting = list(range(32))
    made: dict[str, int] = {}

    async def one_client() -> None:
        while waiting:
            number = waiting.pop()
            body = {"workspace_id": "shared", "trajectories": [booking(number)]}
            response = await client.post("/summary_task_memory", json=body)
            assert response.status_code == 200, response.text
            for memory in response.json()["metadata"]["memory_list"]:
                made[memory["memory_id"]] = number

    await asyncio.gather(*(one_client() for _ in range(16)))
    stored = await reme.memories.list("shared", limit=1_000)
    assert {memory.memory_id for memory in stored} == set(made), "what was told to be stored, and only that, is stored"
    assert set(made.values()) == set(range(32)), "every request was learned from"
    contents = [(memory.when_to_use, memory.content) for memory in stored]
    assert len(contents) == len(set(contents))


async def test_the_same_summary_posted_by_16_clients_at_once_is_stored_once(client: Client, reme: Engine) -> None:
    body = {"workspace_id": "shared", "trajectories": [booking(1)]}
    answers = await asyncio.gather(*(client.post("/summary_task_memory", json=body) for _ in range(16)))
    assert {answer.status_code for answer in answers} == {200}
    stored = await reme.memories.list("shared")
    assert stored
    told = [answer.json()["metadata"]["update_result"]["inserted_count"] for answer in answers]
    assert sum(told) == len(stored)
    contents = [(memory.when_to_use, memory.content) for memory in stored]
    assert len(contents) == len(set(contents))


async def test_health_never_waits_for_a_request_that_waits(client: Client, reme: Engine) -> None:
    held = [await reme.database._pool.getconn() for _ in range(reme.settings.pool_size)]  # type: ignore[union-attr]
    stuck = asyncio.create_task(client.post("/retrieve_task_memory", json={"query": "x"}))
    await asyncio.sleep(0.1)
    begun = time.monotonic()
    assert (await client.get("/health")).json() == {"status": "healthy"}
    assert time.monotonic() - begun < 1
    assert not stuck.done()
    for connection in held:
        await reme.database._pool.putconn(connection)  # type: ignore[union-attr]
    assert (await stuck).status_code == 200
