"""Background work: queued with the messages, and done once."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import AsyncMock

import pytest

from reme_core import Message, Settings
from reme_core.engine import Engine
from reme_core.errors import InputError, ModelUnavailableError, NotFoundError, ReMeError
from reme_core.jobs.queue import _SQL
from reme_core.postgres import migrate
from reme_core.store.index.upkeep import refresh_statistics
from tests.summaries import Summaries, turns


async def test_a_conversation_has_one_waiting_job_however_much_is_said(reme: Engine, summaries: Summaries) -> None:
    for text in ("one", "two", "three"):
        await reme.record("w", turns(text))
    await reme.record("w", turns("elsewhere", session="t"))
    waiting = await reme.background.jobs("w")
    assert sorted((job.session_id, job.status) for job in waiting) == [("s", "todo"), ("t", "todo")]
    await reme.background.drain("w")
    assert sorted(summaries.seen) == [["elsewhere"], ["one", "two", "three"]]
    assert {job.status for job in await reme.background.jobs("w")} == {"succeeded"}


async def test_messages_that_are_not_stored_queue_nothing(reme: Engine, summaries: Summaries) -> None:
    with pytest.raises(ValueError, match="NUL"):
        await reme.record("w", [*turns("fine"), Message(content="broken \x00", session_id="s")])
    assert await reme.background.jobs() == []
    same = turns("once")
    await reme.record("w", same)
    await reme.background.drain()
    await reme.record("w", same)
    assert [job.status for job in await reme.background.jobs()] == ["succeeded"]


async def test_a_full_conversation_is_due_at_once_and_a_short_one_when_it_pauses(reme: Engine) -> None:
    reme.settings.worker.after_messages, reme.settings.worker.after_seconds = 3, 100
    await reme.record("w", turns("a"))
    (job,) = await reme.background.jobs("w")
    assert job.scheduled_at is not None
    assert 60 < job.scheduled_at.timestamp() - time.time() < 110
    await reme.record("w", turns("b", "c"))
    (job,) = await reme.background.jobs("w")
    assert job.scheduled_at is not None
    assert job.scheduled_at.timestamp() <= time.time()


async def test_a_job_that_is_under_way_is_not_begun_again(reme: Engine, summaries: Summaries) -> None:
    await reme.record("w", turns("hello"))
    (job,) = await reme.background.jobs("w")
    begin = "update procrastinate_jobs set status = 'doing' where id = %(id)s"
    await reme.database.execute_anywhere(begin, {"id": job.id})
    with pytest.raises(NotFoundError, match="is 'doing'; only a job that failed"):
        await reme.background.retry(job.id)


async def test_the_next_job_is_found_without_a_look_at_all_that_wait(reme: Engine, summaries: Summaries) -> None:
    queue = """insert into reme.procrastinate_jobs (queue_name, task_name, lock, queueing_lock, args)
               select 'reme', 'reme.summarise', lock, lock, jsonb_build_object('workspace', 'w' || number)
               from generate_series(1, 10000) as number cross join lateral (values ('w' || number)) as named (lock)"""
    async with reme.database.maintenance() as conn:
        await conn.execute(queue)
        # Once in a session, so that what is read of the catalogue does not count.
        await conn.execute("select reme.fetch_job('{reme}', null)")
        explain = "explain (analyze, buffers, format json) select reme.fetch_job('{reme}', null)"
        row = await (await conn.execute(explain)).fetchone()
    assert row is not None
    assert row[0][0]["Plan"]["Shared Hit Blocks"] < 1_000  # three for each job that waits would be 30,000


@pytest.mark.parametrize("name", ["", "*"])
async def test_only_a_workspace_is_summarised(reme: Engine, name: str) -> None:
    with pytest.raises(InputError, match="workspace"):
        await reme.summarise(name)


async def test_sixteen_writers_of_one_conversation_queue_one_job(reme: Engine, summaries: Summaries) -> None:
    await asyncio.gather(*(reme.record("w", turns(f"message {n}")) for n in range(16)))
    assert [job.status for job in await reme.background.jobs()] == ["todo"]
    await reme.background.drain()
    assert sorted(text for texts in summaries.seen for text in texts) == sorted(f"message {n}" for n in range(16))


async def test_names_with_spaces_are_told_apart(reme: Engine, summaries: Summaries) -> None:
    """Else the conversation "eu call" of "acme" and "call" of "acme eu" would have one lock."""
    reme.settings.worker.after_messages = 1
    await reme.record("acme eu", turns("one", session="call"))
    await reme.record("acme", turns("two", session="eu call"))
    await reme.record("another", turns("three"))
    await reme.background.drain()
    assert {job.status for job in await reme.background.jobs()} == {"succeeded"}
    assert summaries.done == {"one", "two", "three"}


async def test_what_waits_while_the_database_is_upgraded_is_found_after_it(reme: Engine, summaries: Summaries) -> None:
    await reme.record("w", turns("before"))
    await asyncio.to_thread(migrate.downgrade, reme.database.url, "0038")
    ((before,),) = await reme.database.execute_anywhere("select lock from procrastinate_jobs")
    assert before == "summarise w s"
    await asyncio.to_thread(migrate.upgrade, reme.database.url)
    await reme.record("w", turns("after"))
    assert [job.status for job in await reme.background.jobs("w")] == ["todo"]
    await reme.background.drain()
    assert summaries.seen == [["before", "after"]]


async def test_an_embedded_worker_starts_with_the_first_message(settings: Settings) -> None:
    settings.worker.after_messages = 1
    async with Engine(settings) as reme:
        summaries = Summaries(reme)
        await reme.record("w", turns("hi"))
        for _ in range(100):
            if summaries.seen:
                break
            await asyncio.sleep(0.1)
    assert summaries.seen == [["hi"]]


async def test_draining_waits_for_what_another_worker_took_on(settings: Settings) -> None:
    settings.worker.after_messages = 1
    async with Engine(settings) as reme:
        summaries = Summaries(reme)
        for n in range(5):
            await reme.record("w", turns(f"message {n}", session=str(n)))
        await reme.summarise("w")
        assert len(summaries.seen) == 5
        assert {job.status for job in await reme.background.jobs("w")} == {"succeeded"}


async def test_what_is_kept_for_a_limited_time_is_forgotten_after_it(reme: Engine, summaries: Summaries) -> None:
    settings = reme.settings.retention
    settings.log_days, settings.history_days = 90, 30
    tables = {"procrastinate_jobs": 7, "job_error": 7, "retrieval": 90, "model_call": 90, "memory_history": 30}

    async def counts() -> dict[str, int]:
        read = "select count(*) from reme."
        return {table: (await reme.database.execute_anywhere(read + table))[0][0] for table in tables}

    async def leave_something(days_ago: float) -> None:
        summaries.failure = ModelUnavailableError("the model is down")
        await reme.record("w", turns(f"said {days_ago} days ago", session=str(days_ago)))
        with pytest.raises(ReMeError):
            await reme.summarise("w")
        summaries.failure = None
        await reme.summarise("w")
        await reme.memories.add("w", f"Something of {days_ago} days ago.")
        await reme.recall("w", "What was there?")
        await reme.log_writer.flush()
        for table, column in (
            ("procrastinate_events", "at"), ("job_error", "failed_at"), ("retrieval", "asked_at"),
            ("model_call", "called_at"), ("memory_history", "changed_at"),
        ):  # fmt: skip
            age = f"update reme.{table} set {column} = now() - interval '{days_ago} days'"
            await reme.database.execute_anywhere(f"{age} where {column} > now() - interval '1 hour'")

    await leave_something(100)
    old = await counts()
    await leave_something(0)
    both = await counts()
    assert all(both[table] > old[table] > 0 for table in tables)
    await reme.background._keep_up()
    left = await counts()
    # How a memory that is there read since then can still be looked up.
    assert left == {table: both[table] - old[table] + (table == "memory_history") for table in tables}
    assert len(await reme.memories.list("w")) == 2


async def test_what_is_too_old_goes_a_part_at_a_time_until_nothing_is_left(
    reme: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reme_core.jobs.queue._MOST_FORGOTTEN", 2)
    await reme.memories.add("w", "She lives in Riga.")
    logged = (
        "insert into reme.retrieval (workspace_id, retrieval_id, asked_at, query)"
        " select workspace_id, n::text, now() - interval '1 year', '' from reme.workspace, generate_series(1, 5) n"
    )
    left = []
    await reme.database.execute_anywhere(logged)
    for _ in range(4):
        await reme.background._keep_up()
        left += await reme.database.execute_anywhere("select count(*) from reme.retrieval")
    await reme.database.execute_anywhere(logged)
    await reme.background._keep_up()  # within the hour
    left += await reme.database.execute_anywhere("select count(*) from reme.retrieval")
    assert left == [(3,), (1,), (0,), (0,), (5,)]


async def test_a_memory_is_found_as_it_read_since_the_time_for_which_its_history_is_kept(reme: Engine) -> None:
    reme.settings.retention.history_days = 30
    (kept, removed) = await reme.memories.add("w", ["She lives in Riga.", "She lives on Mars."])
    await reme.memories.update("w", kept.memory_id, content="She lives in Oslo.")
    await reme.database.execute_anywhere("delete from reme.memory where memory_id = %s", [removed.memory_id])
    long_ago = datetime.now(UTC) - timedelta(days=40)
    await reme.database.execute_anywhere("update reme.memory set recorded_at = %s", [long_ago])
    await reme.database.execute_anywhere("update reme.memory_history set changed_at = %s", [long_ago])
    await reme.memories.update("w", kept.memory_id, content="She lives in Bergen.")
    await reme.background._keep_up()
    moment = datetime.now(UTC) - timedelta(days=10)
    assert [hit.content for hit in (await reme.recall("w", "Where does she live?", as_of=moment)).hits] == [
        "She lives in Oslo."
    ]
    assert [memory.content for memory in await reme.memories.as_of("w", moment)] == ["She lives in Oslo."]
    assert len(await reme.memories.history("w", kept.memory_id)) == 2
    with pytest.raises(NotFoundError):
        await reme.memories.history("w", removed.memory_id)


async def test_no_words_of_a_removed_memory_are_left_where_its_removal_goes_in_an_earlier_part(
    reme: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reme_core.jobs.queue._MOST_FORGOTTEN", 2)
    reme.settings.retention.history_days = 30
    added = await reme.memories.add("w", ["She lives in Riga.", "She lives on Mars.", "She lives in Oslo."])
    for memory in added:
        await reme.database.execute_anywhere("delete from reme.memory where memory_id = %s", [memory.memory_id])
    for operation in ("delete", "insert"):  # their places in the table are in this order now
        age = "update reme.memory_history set changed_at = now() - interval '40 days' where operation = %s"
        await reme.database.execute_anywhere(age, [operation])
    for _ in range(4):
        await reme.background._keep_up()
    assert await reme.database.execute_anywhere("select after ->> 'content' from reme.memory_history") == []


async def test_a_workspace_is_reflected_upon_by_its_own_schedule(reme: Engine) -> None:
    for workspace in ("often", "never", "usual"):
        await reme.memories.add(workspace, "The user likes tea.")
    await reme.workspaces.schedule("often", reflect_every_hours=1)
    await reme.workspaces.schedule("never", reflect_every_hours=0)

    async def due(hours: int) -> set[str]:
        """What is queued when the workspaces are so many hours old."""
        await reme.database.execute_anywhere(
            "update reme.workspace set created_at = now() - %s", [timedelta(hours=hours)]
        )
        await reme.background._keep_up()
        return {job.workspace for job in await reme.background.jobs(statuses=["todo"]) if job.task == "reflect"}

    assert await due(2) == {"often"}
    assert await due(25) == {"often", "usual"}
    await reme.background.drain()
    await reme.background._keep_up()  # nothing was learned since
    assert {job.status for job in await reme.background.jobs()} == {"succeeded"}
    await reme.workspaces.schedule("never", reflect_every_hours=None)
    assert await due(25) == {"never"}
    # Of a time that Postgres cannot reckon with, the upkeep of all workspaces would end in an error.
    for hours in (-1, 1e8, 1e300, float("inf"), float("nan")):
        with pytest.raises(InputError, match=r"from 0 \(never\) to 1,000,000"):
            await reme.workspaces.schedule("often", reflect_every_hours=hours)
    await reme.workspaces.schedule("often", reflect_every_hours=1_000_000)
    assert await due(25) == {"never"}


@pytest.mark.parametrize(
    ("statement", "values"), [("due_reflections", {"every_hours": 24.0, "most_hours": 1e6}), ("unread_quotes", {})]
)
async def test_memories_of_workspaces_in_which_nothing_happens_are_not_read_to_see_that(
    reme: Engine, statement: str, values: dict[str, float]
) -> None:
    await reme.memories.add("quiet", [f"The user likes tea number {n}." for n in range(500)])
    await reme.database.execute_anywhere(
        "update reme.workspace set created_at = now() - interval '9 days',"
        " settings = jsonb_build_object('reflected_at', now() - interval '2 days')"
    )
    read = """update reme.memory
              set updated_at = now() - interval '3 days', metadata = '{"mode": "quoted", "read": true}'"""
    await reme.database.execute_anywhere(f"{read} returning 1")
    await refresh_statistics(reme.database)
    async with reme.database.maintenance() as conn:
        await conn.execute("set local enable_seqscan = off")  # of so few memories it would read all
        explain = f"explain (analyze, format json) {_SQL[statement]}"
        found = await (await conn.execute(explain, values)).fetchone()
    assert found is not None

    def rows_read(plan: dict[str, Any]) -> float:
        own = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0) if plan.get("Alias") == "m" else 0
        return own + sum(map(rows_read, plan.get("Plans", [])))

    assert rows_read(found[0][0]["Plan"]) == 0


async def test_a_reflection_that_runs_or_was_given_up_is_not_queued_again(reme: Engine) -> None:
    reme.background._tries._most = 0
    await reme.workspaces.schedule("w", reflect_every_hours=1)
    await reme.memories.add("w", "The user likes tea.")
    await reme.database.execute_anywhere("update reme.workspace set created_at = now() - interval '1 day'")
    states: list[list[str]] = []

    async def queued() -> list[str]:
        await reme.background._keep_up()
        return [job.status for job in await reme.background.jobs("w")]

    async def reflect(workspace: str) -> None:
        states.append(await queued())
        raise ModelUnavailableError("the model is down")

    reme.background._reflect = reflect
    assert await queued() == await queued() == ["todo"]
    await reme.background._worker.work_off()
    assert states == [["doing"]]
    assert await queued() == ["failed"]
    await reme.database.execute_anywhere("update procrastinate_events set at = at - interval '2 hours'")
    assert await queued() == ["todo", "failed"]


async def test_what_is_due_is_queued_once_by_two_workers_that_look_at_about_the_same_time(
    reme: Engine, settings: Settings
) -> None:
    for number in range(30):
        await reme.memories.add(f"w{number}", "The user likes tea.")
    await reme.database.execute_anywhere("update reme.workspace set created_at = now() - interval '2 days'")
    async with Engine(settings) as other:
        reme.background._reflect = other.background._reflect = reflected = AsyncMock()

        async def look(worker: Engine, after: float) -> None:
            await asyncio.sleep(after)
            await worker.background._keep_up()

        # The jobs of the first are done while the second still has those that it found due.
        await asyncio.gather(look(reme, 0), look(other, 0.03), reme.background.drain(), other.background.drain())
        await reme.background.drain()
    assert sorted(call.args[0] for call in reflected.await_args_list) == sorted(f"w{n}" for n in range(30))


async def test_what_is_learned_during_a_reflection_waits_for_the_next(reme: Engine) -> None:
    await reme.workspaces.schedule("w", reflect_every_hours=1e-9)
    await reme.memories.add("w", "The user likes tea.")

    async def reflect(workspace: str) -> None:
        reme.background._reflect = AsyncMock()
        await reme.memories.add(workspace, "The user likes coffee.")

    reme.background._reflect = reflect
    for status in ("todo", "todo", "succeeded"):
        await reme.background._keep_up()
        assert (await reme.background.jobs("w"))[0].status == status
        await reme.background.drain("w")
