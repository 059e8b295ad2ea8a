"""Background work: queued with the messages, done once, never lost."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import textwrap
import time
from datetime import timedelta
from typing import Any

import pytest

from reme_core import Message, Settings
from reme_core.engine import Engine
from reme_core.errors import (
    ConflictError,
    DatabaseUnavailableError,
    InputError,
    ModelUnavailableError,
    NotFoundError,
    ReMeError,
)
from reme_core.store.messages import unsummarised_messages


class Summaries:
    """Stands in for the flow: notes what it was given, and marks it as done as the flow's last op does."""

    def __init__(self, reme: Engine) -> None:
        self.reme = reme
        self.seen: list[list[str]] = []
        self.failure: ReMeError | None = None

    async def __call__(self, workspace: str, session_id: str) -> None:
        messages = await unsummarised_messages(self.reme.database, workspace, session_id=session_id)
        self.seen.append([m.content for m in messages])
        if self.failure is not None:
            raise self.failure
        ids = [m.message_id for m in messages]
        statement = "update reme.message set summarised_at = now() where message_id = any(%s)"
        await self.reme.database.execute(workspace, statement, (ids,))


@pytest.fixture
def summaries(reme: Engine) -> Summaries:
    """What the summary jobs did."""
    reme.background._summarise = Summaries(reme)  # the flow itself is tested with the flows
    return reme.background._summarise


def turns(*texts: str, session: str = "s") -> list[Message]:
    """User messages of one session."""
    return [Message(content=text, session_id=session) for text in texts]


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
    reme.settings.worker.after_turns, reme.settings.worker.after_seconds = 3, 100
    await reme.record("w", turns("a"))
    (job,) = await reme.background.jobs("w")
    assert job.scheduled_at is not None
    assert 60 < job.scheduled_at.timestamp() - time.time() < 110
    await reme.record("w", turns("b", "c"))
    (job,) = await reme.background.jobs("w")
    assert job.scheduled_at is not None
    assert job.scheduled_at.timestamp() <= time.time()


async def test_a_model_that_is_down_delays_a_summary_and_loses_nothing(reme: Engine, summaries: Summaries) -> None:
    summaries.failure = ModelUnavailableError("the model is down")
    await reme.record("w", turns("I moved to Lisbon"))
    await reme.background.drain()
    (job,) = await reme.background.jobs("w")
    assert (job.status, job.attempts) == ("todo", 1)
    summaries.failure = None
    await reme.background.drain()
    assert summaries.seen == [["I moved to Lisbon"]] * 2
    assert [job.status for job in await reme.background.jobs("w")] == ["succeeded"]


async def test_what_is_said_while_a_model_is_down_uses_up_no_tries(reme: Engine, summaries: Summaries) -> None:
    reme.settings.worker.after_turns, reme.settings.worker.max_attempts = 1, 3
    summaries.failure = ModelUnavailableError("the model is down")
    for text in ("one", "two", "three", "four", "five", "six"):
        await reme.record("w", turns(text))
        await reme.background._worker.work_off()
    (job,) = await reme.background.jobs("w")
    assert (job.status, job.attempts) == ("todo", 1)
    summaries.failure = None
    await reme.background.drain()
    assert summaries.seen[-1] == ["one", "two", "three", "four", "five", "six"]


async def test_a_failure_is_logged_and_counted_at_once_not_only_when_a_job_is_given_up(
    reme: Engine, summaries: Summaries, caplog: pytest.LogCaptureFixture
) -> None:
    summaries.failure = ModelUnavailableError("the model is down")
    await reme.record("w", turns("I moved to Lisbon"))
    await reme.background.drain()
    (job,) = await reme.background.jobs("w")
    assert f"job {job.id} failed (try 1 of 9): the model is down" in caplog.text
    assert "Traceback" not in caplog.text
    load = await reme.background.load()
    assert (load.failed, load.retrying) == (0, 1)


async def test_an_error_that_nobody_foresaw_is_named_and_logged_with_its_traceback(
    reme: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    async def stumble(workspace: str, session_id: str | None) -> dict[str, int]:
        return {}[workspace]

    reme.background._summarise = stumble
    await reme.record("w", turns("I moved to Lisbon"))
    await reme.background.drain()
    (job,) = await reme.background.jobs("w")
    assert job.error == "KeyError: 'w'"
    assert "in stumble" in caplog.text


async def test_a_job_that_is_under_way_is_not_begun_again(reme: Engine, summaries: Summaries) -> None:
    await reme.record("w", turns("hello"))
    (job,) = await reme.background.jobs("w")
    begin = "update procrastinate_jobs set status = 'doing' where id = %(id)s"
    await reme.database.execute_anywhere(begin, {"id": job.id})
    with pytest.raises(NotFoundError, match="is 'doing'; only a job that failed"):
        await reme.background.retry(job.id)


async def test_a_job_that_failed_too_often_is_listed_and_can_be_tried_again(reme: Engine, summaries: Summaries) -> None:
    summaries.failure = ModelUnavailableError("the model is down")
    await reme.record("w", turns("hello"))
    for _ in range(reme.settings.worker.max_attempts + 1):
        await reme.background.drain()
    (job,) = await reme.background.jobs(statuses=["failed"])
    assert job.attempts > reme.settings.worker.max_attempts
    assert job.error == "the model is down"
    _, events = await reme.background.job(job.id)
    assert events[-1][0] == "failed"
    summaries.failure = None
    await reme.background.retry(job.id)
    await reme.background.drain()
    assert [j.status for j in await reme.background.jobs()] == ["succeeded"]
    with pytest.raises(NotFoundError, match="only a job that failed"):
        await reme.background.retry(job.id)
    with pytest.raises(NotFoundError, match="no job 4711"):
        await reme.background.job(4711)


async def test_a_job_that_was_given_up_can_be_thrown_away_with_what_it_stood_for(
    reme: Engine, summaries: Summaries
) -> None:
    reme.background._tries._most = 0
    summaries.failure = ModelUnavailableError("the model refuses this")
    await reme.record("w", turns("poison", session="bad"))
    await reme.record("w", turns("fine", session="good"))
    await reme.background.drain()
    jobs = {job.session_id: job for job in await reme.background.jobs(statuses=["failed"])}
    await reme.background.drop(jobs["bad"].id)
    assert [job.session_id for job in await reme.background.jobs()] == ["good"]
    summaries.failure = None
    await reme.record("w", turns("and on", session="bad"))
    await reme.background.retry(jobs["good"].id)
    await reme.background.drain()
    assert sorted(summaries.seen[2:]) == [["and on"], ["fine"]]
    stored = await reme.database.fetch("w", "select content from reme.message where session_id = 'bad' order by 1")
    assert stored == [("and on",), ("poison",)]
    with pytest.raises(NotFoundError, match="is 'succeeded'; only a job that waits or failed can be dropped"):
        await reme.background.drop(jobs["good"].id)


@pytest.mark.parametrize("failure", [DatabaseUnavailableError("the server stops"), ConflictError("others changed it")])
async def test_a_database_that_goes_away_and_busy_writers_use_up_no_tries(
    reme: Engine, summaries: Summaries, failure: ReMeError
) -> None:
    summaries.failure = failure
    await reme.record("w", turns("hello"))
    for _ in range(reme.settings.worker.max_attempts + 2):
        await reme.background.drain()
    (job,) = await reme.background.jobs("w")
    assert (job.status, job.error) == ("todo", str(failure))
    summaries.failure = ModelUnavailableError("the model is down")  # the first failure that counts
    await reme.background.drain()
    (job,) = await reme.background.jobs("w")
    assert (job.status, job.error) == ("todo", "the model is down")


async def test_one_failing_conversation_does_not_hold_up_the_others(reme: Engine, summaries: Summaries) -> None:
    summaries.failure = ModelUnavailableError("the model is down")
    await reme.record("w", turns("poison", session="bad"))
    await reme.background.drain()
    summaries.failure = None
    await reme.record("w", turns("fine", session="good"))
    await reme.background._worker.work_off()
    await reme.background.drain()
    assert ["fine"] in summaries.seen


async def test_sixteen_writers_of_one_conversation_queue_one_job(reme: Engine, summaries: Summaries) -> None:
    await asyncio.gather(*(reme.record("w", turns(f"message {n}")) for n in range(16)))
    assert [job.status for job in await reme.background.jobs()] == ["todo"]
    await reme.background.drain()
    assert sorted(text for texts in summaries.seen for text in texts) == sorted(f"message {n}" for n in range(16))


async def test_an_embedded_worker_starts_with_the_first_message(settings: Settings) -> None:
    settings.worker.after_turns = 1
    async with Engine(settings) as reme:
        summaries: Any = Summaries(reme)
        reme.background._summarise = summaries
        await reme.record("w", turns("hi"))
        for _ in range(100):
            if summaries.seen:
                break
            await asyncio.sleep(0.1)
    assert summaries.seen == [["hi"]]


async def test_draining_waits_for_what_another_worker_took_on(settings: Settings) -> None:
    settings.worker.after_turns = 1
    async with Engine(settings) as reme:
        summaries: Any = Summaries(reme)
        reme.background._summarise = summaries
        for n in range(5):
            await reme.record("w", turns(f"message {n}", session=str(n)))
        await reme.summarise("w")
        assert len(summaries.seen) == 5
        assert {job.status for job in await reme.background.jobs("w")} == {"succeeded"}


async def test_a_try_that_fails_while_summarise_waits_for_it_is_made_again(settings: Settings) -> None:
    settings.worker.after_turns = 1
    async with Engine(settings) as reme:
        summaries: Any = Summaries(reme)
        begun, may_fail = asyncio.Event(), asyncio.Event()

        async def fail_first(workspace: str, session_id: str) -> None:
            if not begun.is_set():
                begun.set()
                await may_fail.wait()
                raise ModelUnavailableError("the model is down")
            await summaries(workspace, session_id)

        tried: Any = fail_first
        reme.background._summarise = tried
        await reme.record("w", turns("hi"))
        await begun.wait()  # in the embedded worker
        telling = asyncio.create_task(reme.summarise("w"))
        await asyncio.sleep(0.3)
        may_fail.set()
        told = await telling
        assert ([job.status for job in told.done], told.failed, told.waiting) == (["succeeded"], [], [])
        assert summaries.seen == [["hi"]]


async def test_summarise_tells_what_failed_and_raises_where_all_did(reme: Engine, summaries: Summaries) -> None:
    down = {"a", "b"}

    async def summarise(workspace: str, session_id: str) -> None:
        if session_id in down:
            raise ModelUnavailableError(f"the model is down for {session_id}")
        await summaries(workspace, session_id)

    tried: Any = summarise
    reme.background._summarise = tried
    for session in ("a", "b"):
        await reme.record("w", turns(f"said in {session}", session=session))
    with pytest.raises(
        ModelUnavailableError, match=r"no job .*: the model is down for a; the model is down for b\. They"
    ):
        await reme.summarise("w")
    down.remove("b")
    told = await reme.summarise("w")
    assert [job.session_id for job in told.done] == ["b"] and told.waiting == []
    assert [(job.session_id, job.error) for job in told.failed] == [("a", "the model is down for a")]
    down.clear()
    assert [job.session_id for job in (await reme.summarise("w")).done] == ["a"]
    assert (await reme.summarise("w")).done == []


KILLED = textwrap.dedent(
    """
    import asyncio, sys
    from reme_core import Settings
    from reme_core.engine import Engine

    async def hang(workspace, session_id):
        print("working", flush=True)
        await asyncio.sleep(600)

    async def main():
        async with Engine(Settings(database_url=sys.argv[1])) as reme:
            reme.background._summarise = hang
            await reme.background.drain()

    asyncio.run(main())
    """
)


async def test_a_job_whose_worker_was_killed_runs_again(
    reme: Engine, summaries: Summaries, monkeypatch: pytest.MonkeyPatch
) -> None:
    await reme.record("w", turns("do not lose me"))
    await hold_a_job_and_die(reme)
    assert [job.status for job in await reme.background.jobs()] == ["doing"]
    monkeypatch.setattr("reme_core.jobs.worker._STALLED_SECONDS", 0.0)
    await reme.background.drain()
    assert summaries.seen == [["do not lose me"]]
    assert [job.status for job in await reme.background.jobs()] == ["succeeded"]


async def hold_a_job_and_die(reme: Engine) -> None:
    """A worker of another process takes a job on and is killed."""
    assert reme.settings.database_url is not None
    url = reme.settings.database_url.get_secret_value()
    worker = subprocess.Popen([sys.executable, "-c", KILLED, url], stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    assert await asyncio.to_thread(worker.stdout.readline) == "working\n"
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    worker.stdout.close()


async def test_a_killed_job_and_one_that_waits_behind_it_both_run(
    reme: Engine, summaries: Summaries, monkeypatch: pytest.MonkeyPatch
) -> None:
    await reme.record("w", turns("said before the kill"))
    await hold_a_job_and_die(reme)
    await reme.record("w", turns("said after it"))
    assert sorted(job.status for job in await reme.background.jobs()) == ["doing", "todo"]
    monkeypatch.setattr("reme_core.jobs.worker._STALLED_SECONDS", 0.0)
    await reme.summarise("w")
    assert sorted(text for texts in summaries.seen for text in texts) == ["said after it", "said before the kill"]
    assert {job.status for job in await reme.background.jobs()} == {"succeeded"}


async def test_a_failed_job_waits_again_beside_one_that_was_queued_meanwhile(
    reme: Engine, summaries: Summaries
) -> None:
    async def fail_after_more_was_said(workspace: str, session_id: str) -> None:
        await reme.record(workspace, turns("said meanwhile", session=session_id))
        raise ModelUnavailableError("the model is down")

    reme.background._summarise = fail_after_more_was_said
    await reme.record("w", turns("said first", session="s"))
    await reme.background.drain()
    assert [job.status for job in await reme.background.jobs()] == ["todo", "todo"]
    reme.background._summarise = summaries
    await reme.summarise("w")
    assert sorted(text for texts in summaries.seen for text in texts) == ["said first", "said meanwhile"]


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
    assert left == {table: both[table] - old[table] for table in tables}
    assert len(await reme.memories.list("w")) == 2


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


async def test_a_job_that_failed_is_told_in_one_line(
    reme: Engine, summaries: Summaries, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "procrastinate.worker")
    summaries.failure = ModelUnavailableError("the model is down")
    await reme.record("w", turns("hi"))
    await reme.background.drain()
    assert [r.getMessage() for r in caplog.records if r.getMessage().endswith("the model is down")]
    assert [r.getMessage() for r in caplog.records if r.exc_info] == []
