"""Jobs that fail, or whose worker dies: they are tried again, none is lost, and people are told."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import textwrap
from datetime import UTC, datetime, timedelta

import pytest

from reme_core import Settings
from reme_core.engine import Engine
from reme_core.errors import ConflictError, DatabaseUnavailableError, ModelUnavailableError, NotFoundError, ReMeError
from tests.summaries import Summaries, turns


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


@pytest.mark.parametrize("hours", [-1, 1])
async def test_jobs_are_due_by_the_clock_of_the_database(
    reme: Engine, summaries: Summaries, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    def wrong() -> datetime:
        return datetime.now(UTC) + timedelta(hours=hours)

    for clock in ("procrastinate.utils.utcnow", "reme_core.jobs.worker.now"):
        monkeypatch.setattr(clock, wrong)
    waits = "select extract(epoch from scheduled_at - now())::float8, attempts from procrastinate_jobs"
    await reme.record("w", turns("I moved to Lisbon"))
    ((seconds, _),) = await reme.database.execute_anywhere(waits)
    assert reme.settings.worker.after_seconds - 30 < seconds <= reme.settings.worker.after_seconds
    summaries.failure = ModelUnavailableError("the model is down")
    await reme.background.drain()
    ((seconds, attempts),) = await reme.database.execute_anywhere(waits)
    assert attempts == 1 and -30 < seconds <= 4


async def test_what_is_said_while_a_model_is_down_uses_up_no_tries(reme: Engine, summaries: Summaries) -> None:
    reme.settings.worker.after_messages, reme.settings.worker.max_attempts = 1, 3
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


async def test_what_a_dead_worker_left_is_counted_as_waiting(reme: Engine) -> None:
    queued = (
        "insert into procrastinate_jobs (queue_name, task_name, lock, args, status, worker_id) values"
        " ('reme', 'reme.learn', %s, '{\"workspace\": \"w\"}', 'doing', %s)"
    )
    worker = "insert into procrastinate_workers (last_heartbeat) values (now() - %s::interval) returning id"
    for age in ("10 seconds", "1 hour"):
        ((number,),) = await reme.database.execute_anywhere(worker, [age])
        await reme.database.execute_anywhere(queued, [age, number])
    load = await reme.background.load()
    assert (load.due, load.retrying, load.failed) == (1, 0, 0)
    assert 3_600 <= load.oldest_seconds < 3_700


async def test_a_job_without_a_time_waits_since_it_was_queued(reme: Engine) -> None:
    reme.settings.worker.after_messages = 1
    await reme.record("w", turns("I moved to Lisbon"))
    await reme.database.execute_anywhere("update procrastinate_events set at = at - interval '1 hour'")
    load = await reme.background.load()
    assert load.due == 1 and 3_600 <= load.oldest_seconds < 3_700


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


async def test_a_summary_that_leaves_its_messages_waiting_fails(reme: Engine) -> None:
    async def leave(workspace: str, session_id: str | None) -> dict[str, int]:
        return {}

    reme.background._summarise = leave
    await reme.record("w", turns("I moved to Lisbon"))
    await reme.background.drain()
    (job,) = await reme.background.jobs("w")
    assert job.error and "left its messages waiting; if summary_personal_memory is a flow of your own" in job.error


async def test_a_failure_whose_words_postgres_cannot_store_is_told_and_counted(
    reme: Engine, summaries: Summaries
) -> None:
    summaries.failure = ReMeError("the model answered 'a\x00b\ud83d'")
    await reme.record("w", turns("hi"))
    with pytest.raises(ReMeError, match="the model answered"):
        await reme.summarise("w")
    [job] = await reme.background.jobs("w")
    assert job.error == "the model answered 'a\ufffdb\ufffd'"
    assert await reme.database.fetch("w", "select is_try from reme.job_error") == [(True,)]


async def test_a_job_that_failed_is_told_in_one_line(
    reme: Engine, summaries: Summaries, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "procrastinate.worker")
    summaries.failure = ModelUnavailableError("the model is down")
    await reme.record("w", turns("hi"))
    await reme.background.drain()
    assert [r.getMessage() for r in caplog.records if r.getMessage().endswith("the model is down")]
    assert [r.getMessage() for r in caplog.records if r.exc_info] == []


async def test_a_job_that_failed_too_often_is_listed_and_can_be_tried_again(
    reme: Engine, summaries: Summaries, caplog: pytest.LogCaptureFixture
) -> None:
    summaries.failure = ModelUnavailableError("the model is down")
    await reme.record("w", turns("hello"))
    for _ in range(reme.settings.worker.max_attempts + 1):
        await reme.background.drain()
    (job,) = await reme.background.jobs(statuses=["failed"])
    assert job.attempts > reme.settings.worker.max_attempts
    assert job.error == "the model is down"
    told = [record.getMessage() for record in caplog.records if "reme jobs retry" in record.getMessage()]
    assert told == [
        f"job {job.id} failed (try 9 of 9, given up; `reme jobs retry {job.id}` puts it back): the model is down"
    ]
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


async def test_what_was_said_after_a_job_was_given_up_is_summarised_although_that_job_is_thrown_away(
    reme: Engine, summaries: Summaries
) -> None:
    reme.background._tries._most = 0
    summaries.failure = ModelUnavailableError("the model is down")
    await reme.record("w", turns("said first"))
    await reme.background.drain()
    (given_up,) = await reme.background.jobs(statuses=["failed"])
    summaries.failure = None
    await reme.record("w", turns("said later"))
    await reme.background.drop(given_up.id)
    await reme.background.drain()
    assert summaries.done == {"said first", "said later"}


async def test_summarise_tries_again_what_was_given_up(reme: Engine, summaries: Summaries) -> None:
    reme.background._tries._most = 0
    summaries.failure = ModelUnavailableError("the model is down")
    await reme.record("w", turns("hello"))
    await reme.record("other", turns("hello"))
    await reme.background.drain()
    assert {job.status for job in await reme.background.jobs()} == {"failed"}
    with pytest.raises(ModelUnavailableError, match="the model is down"):
        await reme.summarise("w")
    summaries.failure = None
    told = await reme.summarise("w")
    assert [(job.workspace, job.status) for job in told.done] == [("w", "succeeded")]
    assert [job.workspace for job in await reme.background.jobs(statuses=["failed"])] == ["other"]


async def test_a_job_that_is_put_back_has_all_its_tries(reme: Engine, summaries: Summaries) -> None:
    reme.background._tries._most = 1
    summaries.failure = ModelUnavailableError("the model is down")
    await reme.record("w", turns("hello"))

    async def after_a_try() -> str:
        await reme.background.drain()
        (job,) = await reme.background.jobs()
        return job.status

    assert [await after_a_try(), await after_a_try()] == ["todo", "failed"]
    await reme.background.retry((await reme.background.jobs())[0].id)
    assert [await after_a_try(), await after_a_try()] == ["todo", "failed"]


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


async def fail_while_more_is_said(reme: Engine) -> None:
    """Record twice in a session: one job of it has failed, and another one waits."""

    async def fail_after_more_was_said(workspace: str, session_id: str) -> None:
        await reme.record(workspace, turns("said meanwhile", session=session_id))
        raise ModelUnavailableError("the model is down")

    reme.background._summarise = fail_after_more_was_said
    await reme.record("w", turns("said first", session="s"))
    await reme.background.drain()


async def test_a_failed_job_waits_again_beside_one_that_was_queued_meanwhile(
    reme: Engine, summaries: Summaries
) -> None:
    await fail_while_more_is_said(reme)
    assert [job.status for job in await reme.background.jobs()] == ["todo", "todo"]
    reme.background._summarise = summaries
    await reme.summarise("w")
    assert sorted(text for texts in summaries.seen for text in texts) == ["said first", "said meanwhile"]


async def test_who_waits_is_told_at_once_where_one_fails_before_another_of_its_conversation(
    reme: Engine, summaries: Summaries
) -> None:
    await fail_while_more_is_said(reme)
    reme.background._summarise = summaries
    summaries.failure = ModelUnavailableError("the model is still down")
    async with asyncio.timeout(3):  # the first of them is tried again after sixteen seconds
        with pytest.raises(ModelUnavailableError, match="still down"):
            await reme.summarise("w")
    assert [(job.status, job.attempts) for job in await reme.background.jobs()] == [("todo", 0), ("todo", 2)]


async def test_a_try_that_fails_while_summarise_waits_for_it_is_made_again(settings: Settings) -> None:
    settings.worker.after_messages = 1
    async with Engine(settings) as reme:
        summaries = Summaries(reme)
        begun, may_fail = asyncio.Event(), asyncio.Event()

        async def fail_first(workspace: str, session_id: str) -> None:
            if not begun.is_set():
                begun.set()
                await may_fail.wait()
                raise ModelUnavailableError("the model is down")
            await summaries(workspace, session_id)

        reme.background._summarise = fail_first
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

    reme.background._summarise = summarise
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
    monkeypatch.setattr("reme_core.jobs.worker.STALLED_SECONDS", 0.0)
    await reme.summarise("w")
    assert sorted(text for texts in summaries.seen for text in texts) == ["said after it", "said before the kill"]
    assert {job.status for job in await reme.background.jobs()} == {"succeeded"}
