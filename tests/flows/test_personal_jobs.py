"""Two processes on one database, one of them without a chat model: what needs the model is left to the other."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator

import pytest

from reme_core.engine import Engine
from reme_core.settings import ChatSettings, Settings, WorkerSettings
from reme_core.types import Message
from tests.loopback import Loopback

TOLD = "my sister Ada lives in Hull"


@pytest.fixture
def settings_without_worker(settings: Settings) -> Settings:
    return settings.model_copy(update={"worker": WorkerSettings(embedded=False)})


@pytest.fixture
async def without_model(settings_without_worker: Settings) -> AsyncIterator[Engine]:
    async with Engine(settings_without_worker) as opened:
        yield opened


@pytest.fixture
async def with_model(settings_without_worker: Settings, loopback: Loopback) -> AsyncIterator[Engine]:
    chat = ChatSettings(model_name="loop-chat", base_url=loopback.url, max_retries=0)
    async with Engine(settings_without_worker.model_copy(update={"llm": {"default": chat}})) as opened:
        yield opened


async def test_a_process_without_a_model_leaves_a_models_job_alone_and_says_so_once(
    with_model: Engine, without_model: Engine, loopback: Loopback, caplog: pytest.LogCaptureFixture
) -> None:
    await with_model.record("w", [Message(content=TOLD, session_id="s")])
    with caplog.at_level(logging.WARNING, "reme_core.jobs"):
        await without_model.summarise("w")
        await without_model.summarise("w")
    assert [r.message[:50] for r in caplog.records] == ["jobs that wait for a process with a chat model: 1;"]
    [job] = await without_model.background.jobs()
    assert (job.status, job.needs) == ("todo", "chat model")
    assert await without_model.memories.list("w") == []
    operation = {"op": "add", "evidence": [1], "statement": "Ada lives in Hull", "value": "Hull"}
    loopback.chat({"operations": [operation, {**operation, "evidence": [9]}]})
    await with_model.summarise("w")
    assert [m.content for m in await without_model.memories.list("w")] == ["Ada lives in Hull"]
    [job] = await without_model.background.jobs()
    assert job.status == "succeeded"
    assert job.error == "refused 1 operations: 1 × it names no message of a person as evidence"


async def test_another_process_without_a_model_leaves_the_job_too(with_model: Engine, database_url: str) -> None:
    await with_model.record("w", [Message(content=TOLD, session_id="s")])
    script = "from reme_core import ReMe\nwith ReMe() as reme:\n    reme.summarise('w')\n"
    environ = {**os.environ, "REME_DATABASE_URL": database_url}
    ended = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, env=environ, stderr=asyncio.subprocess.PIPE
    )
    _, said = await asyncio.wait_for(ended.communicate(), 60)
    assert ended.returncode == 0, said.decode()
    assert "wait for a process with a chat model" in said.decode()
    [job] = await with_model.background.jobs()
    assert (job.status, job.needs) == ("todo", "chat model")
    assert await with_model.memories.list("w") == []


async def test_what_needs_no_model_is_done_by_either(with_model: Engine, without_model: Engine) -> None:
    await without_model.record("w", [Message(content=TOLD, session_id="s")])
    [job] = await with_model.background.jobs()
    assert job.needs == ""
    await without_model.summarise("w")
    [memory] = await without_model.memories.list("w")
    assert (memory.content, memory.metadata["mode"]) == (TOLD, "quoted")


async def test_a_workspace_that_gets_a_model_later_is_caught_up_in_order(
    with_model: Engine, without_model: Engine, loopback: Loopback
) -> None:
    for day, told in enumerate((TOLD, "my sister Ada moved to Leeds"), 1):
        sent = f"2024-03-0{day}T09:00:00Z"
        message = Message.model_validate({"content": told, "session_id": f"s{day}", "sent_at": sent})
        await without_model.record("w", [message])
        await without_model.summarise("w")
    read: list[str] = []

    def answer(body: dict[str, object]) -> dict[str, object]:
        text = str(body["messages"][1]["content"])  # type: ignore[index]
        read.append("Hull" if "[1] The user: my sister Ada lives" in text else "Leeds")
        statement = f"Ada lives in {read[-1]}"
        operation = {"op": "change" if "m1" in text else "add", "memory": 1, "evidence": [1], "statement": statement}
        return {"operations": [{**operation, "value": read[-1], "thing": "home"}]}

    loopback.chat(answer)
    await with_model.background.catch_up()
    await with_model.background.drain()
    assert read == ["Hull", "Leeds"]
    assert [m.content for m in await with_model.memories.list("w")] == ["Ada lives in Leeds"]


async def test_the_model_is_asked_once_for_each_conversation_however_many_of_a_workspace_wait(
    with_model: Engine, loopback: Loopback
) -> None:
    for number in range(12):
        await with_model.record("w", [Message(content=f"{TOLD} {number}", session_id=f"s{number}")])
    loopback.chat({"operations": [{"op": "add", "evidence": [1], "statement": "Ada lives in Hull", "value": "Hull"}]})
    async with Engine(with_model.database.settings) as elsewhere:
        summary, _ = await asyncio.gather(with_model.summarise("w"), elsewhere.summarise("w"))
    assert not summary.failed
    assert len(loopback.bodies("/chat/completions")) == 12


async def test_a_job_that_becomes_due_while_a_younger_one_runs_begins_after_it(
    with_model: Engine, loopback: Loopback
) -> None:
    for number in range(2):
        await with_model.record("w", [Message(content=f"{TOLD} {number}", session_id=f"s{number}")])
    older, younger = sorted(job.id for job in await with_model.background.jobs())
    due = "update procrastinate_jobs set scheduled_at = now() + %s * interval '1 hour' where id = %s returning id"
    await with_model.database.execute_anywhere(due, [1, older])
    await with_model.database.execute_anywhere(due, [0, younger])
    loopback.chat({"operations": [{"op": "add", "evidence": [1], "statement": "Ada lives in Hull", "value": "Hull"}]})
    loopback.latency = 1.0
    async with Engine(with_model.database.settings) as elsewhere:
        with_model.background.start()
        while not loopback.requests:
            await asyncio.sleep(0.05)
        await elsewhere.summarise("w")
    assert [request.beside for request in loopback.requests] == [1, 1]


async def test_the_conversations_of_one_workspace_take_no_places_from_others(
    with_model: Engine, loopback: Loopback
) -> None:
    for number in range(5):
        await with_model.record("w", [Message(content=f"{TOLD} {number}", session_id=f"s{number}")])
    await with_model.record("other", [Message(content=f"{TOLD} elsewhere", session_id="s")])
    loopback.chat({"operations": []})
    loopback.latency = 0.5
    await with_model.background.drain()  # with four places
    asked = ["elsewhere" in str(body) for body in loopback.bodies("/chat/completions")]
    assert asked.index(True) < 2
