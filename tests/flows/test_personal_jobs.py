"""Two processes on one database, one of them without a chat model: what needs the model is left to the other."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from typing import Any

import pytest

from reme_core import Settings
from reme_core.engine import Engine
from reme_core.errors import NotFoundError
from reme_core.flows import execute
from reme_core.types import Memory, Message, Source
from tests.loopback import Loopback
from tests.summaries import turns

TOLD = "my sister Ada lives in Hull"


async def test_a_process_without_a_model_leaves_a_models_job_alone_and_says_so_once(
    reme_with_chat: Engine, reme: Engine, loopback: Loopback, caplog: pytest.LogCaptureFixture
) -> None:
    await reme_with_chat.record("w", [Message(content=TOLD, session_id="s")])
    with caplog.at_level(logging.WARNING, "reme_core.jobs"):
        await reme.summarise("w")
        await reme.summarise("w")
    assert [r.message[:50] for r in caplog.records] == ["jobs that wait for a process with a chat model: 1;"]
    assert "`reme jobs drop ID` gives one up" in caplog.text, "whoever does without a model again has a way on"
    [job] = await reme.background.jobs()
    assert (job.status, job.needs) == ("todo", "chat model")
    assert await reme.memories.list("w") == []
    operation = {"op": "add", "evidence": [1], "statement": "Ada lives in Hull", "value": "Hull"}
    loopback.chat({"operations": [operation, {**operation, "evidence": [9]}]})
    await reme_with_chat.summarise("w")
    assert [m.content for m in await reme.memories.list("w")] == ["Ada lives in Hull"]
    [job] = await reme.background.jobs()
    assert job.status == "succeeded"
    assert job.error == "refused 1 operations: 1 × it names no message of a person as evidence"


async def test_who_does_without_a_model_again_has_a_waiting_summary_made_word_for_word(
    reme_with_chat: Engine, reme: Engine
) -> None:
    await reme_with_chat.record("w", [Message(content=TOLD, session_id="s")])
    [job] = await reme.background.jobs()
    with pytest.raises(NotFoundError, match="is 'todo'; only a job that failed"):
        await reme_with_chat.background.retry(job.id)
    await reme.background.retry(job.id)
    await reme.background.drain("w")
    [memory] = await reme.memories.list("w")
    assert (memory.content, memory.metadata["mode"]) == (TOLD, "quoted")
    assert [job.status for job in await reme.background.jobs()] == ["succeeded"]


async def test_another_process_without_a_model_leaves_the_job_too(reme_with_chat: Engine, database_url: str) -> None:
    await reme_with_chat.record("w", [Message(content=TOLD, session_id="s")])
    script = "from reme_core import ReMe\nwith ReMe() as reme:\n    reme.summarise('w')\n"
    environ = {**os.environ, "REME_DATABASE_URL": database_url}
    ended = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, env=environ, stderr=asyncio.subprocess.PIPE
    )
    _, said = await asyncio.wait_for(ended.communicate(), 60)
    assert ended.returncode == 0, said.decode()
    assert "wait for a process with a chat model" in said.decode()
    [job] = await reme_with_chat.background.jobs()
    assert (job.status, job.needs) == ("todo", "chat model")
    assert await reme_with_chat.memories.list("w") == []


async def test_what_needs_no_model_is_done_by_either(reme_with_chat: Engine, reme: Engine) -> None:
    await reme.record("w", [Message(content=TOLD, session_id="s")])
    [job] = await reme_with_chat.background.jobs()
    assert job.needs == ""
    await reme.summarise("w")
    [memory] = await reme.memories.list("w")
    assert (memory.content, memory.metadata["mode"]) == (TOLD, "quoted")


async def test_a_workspace_that_gets_a_model_later_is_caught_up_in_order(
    reme_with_chat: Engine, reme: Engine, loopback: Loopback
) -> None:
    for day, told in enumerate((TOLD, "my sister Ada moved to Leeds"), 1):
        sent = f"2024-03-0{day}T09:00:00Z"
        message = Message.model_validate({"content": told, "session_id": f"s{day}", "sent_at": sent})
        await reme.record("w", [message])
        await reme.summarise("w")
    read: list[str] = []

    def answer(body: dict[str, object]) -> dict[str, object]:
        text = str(body["messages"][1]["content"])  # type: ignore[index]
        read.append("Hull" if "[1] The user: my sister Ada lives" in text else "Leeds")
        statement = f"Ada lives in {read[-1]}"
        operation = {"op": "change" if "m1" in text else "add", "memory": 1, "evidence": [1], "statement": statement}
        return {"operations": [{**operation, "value": read[-1], "thing": "home"}]}

    loopback.chat(answer)
    await reme_with_chat.background.catch_up()
    await reme_with_chat.background.drain()
    assert read == ["Hull", "Leeds"]
    assert [m.content for m in await reme_with_chat.memories.list("w")] == ["Ada lives in Leeds"]


async def test_what_no_message_of_its_workspace_says_is_not_caught_up_with_again_and_again(
    reme_with_chat: Engine, loopback: Loopback
) -> None:
    quote = Memory(
        content=TOLD, kind="observation", metadata={"mode": "quoted"}, sources=[Source(kind="message", id="m")]
    )
    await reme_with_chat.memories.add("w", quote)
    for _ in range(2):
        await reme_with_chat.background.catch_up()
        await reme_with_chat.background.drain()
    assert [job.task for job in await reme_with_chat.background.jobs("w")] == ["catch_up"]
    assert [m.content for m in await reme_with_chat.memories.list("w")] == [TOLD]
    assert loopback.bodies("/chat/completions") == []


async def test_the_model_is_asked_once_for_each_conversation_however_many_of_a_workspace_wait(
    reme_with_chat: Engine, loopback: Loopback
) -> None:
    for number in range(12):
        await reme_with_chat.record("w", [Message(content=f"{TOLD} {number}", session_id=f"s{number}")])
    loopback.chat({"operations": [{"op": "add", "evidence": [1], "statement": "Ada lives in Hull", "value": "Hull"}]})
    async with Engine(reme_with_chat.database.settings) as elsewhere:
        summary, _ = await asyncio.gather(reme_with_chat.summarise("w"), elsewhere.summarise("w"))
    assert not summary.failed
    assert len(loopback.bodies("/chat/completions")) == 12


async def test_a_job_that_becomes_due_while_a_younger_one_runs_begins_after_it(
    reme_with_chat: Engine, loopback: Loopback
) -> None:
    for number in range(2):
        await reme_with_chat.record("w", [Message(content=f"{TOLD} {number}", session_id=f"s{number}")])
    older, younger = sorted(job.id for job in await reme_with_chat.background.jobs())
    due = "update procrastinate_jobs set scheduled_at = now() + %s * interval '1 hour' where id = %s returning id"
    await reme_with_chat.database.execute_anywhere(due, [1, older])
    await reme_with_chat.database.execute_anywhere(due, [0, younger])
    loopback.chat({"operations": [{"op": "add", "evidence": [1], "statement": "Ada lives in Hull", "value": "Hull"}]})
    loopback.latency = 1.0
    async with Engine(reme_with_chat.database.settings) as elsewhere:
        reme_with_chat.background.start()
        while not loopback.requests:
            await asyncio.sleep(0.05)
        await elsewhere.summarise("w")
    assert [request.beside for request in loopback.requests] == [1, 1]


async def test_the_conversations_of_one_workspace_take_no_places_from_others(
    reme_with_chat: Engine, loopback: Loopback
) -> None:
    for number in range(5):
        await reme_with_chat.record("w", [Message(content=f"{TOLD} {number}", session_id=f"s{number}")])
    await reme_with_chat.record("other", [Message(content=f"{TOLD} elsewhere", session_id="s")])
    loopback.chat({"operations": []})
    loopback.latency = 0.5
    await reme_with_chat.background.drain()  # with four places
    asked = ["elsewhere" in str(body) for body in loopback.bodies("/chat/completions")]
    assert asked.index(True) < 2


async def test_background_work_is_no_part_of_the_trace_of_whoever_began_it(exporter: Any, settings: Settings) -> None:
    settings.worker.after_messages = 1
    async with Engine(settings) as reme:
        with execute._tracer.start_as_current_span("the turn of ann"):
            await reme.record("ann", turns("I live in Porto."))
        await reme.record("bob", turns("I live in Lima."))
        async with asyncio.timeout(30):
            while {job.status for job in await reme.background.jobs()} != {"succeeded"}:
                await asyncio.sleep(0.1)
    jobs = [span for span in exporter.get_finished_spans() if span.name == "reme.flow summary_personal_memory"]
    assert sorted(span.attributes["reme.workspace_id"] for span in jobs) == ["ann", "bob"]
    assert [span.parent for span in jobs] == [None, None]
