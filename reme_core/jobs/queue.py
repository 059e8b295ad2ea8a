"""Background work: conversations are summarised, and memories reflected upon, by jobs in the same Postgres.

A job is queued in the transaction that stores the messages: so there is a job if, and only if, they are stored. A job
names a workspace and a conversation and nothing else; when it runs, it reads from the tables what is to do. So a job
that runs twice, for example after its worker was killed, finds nothing left to do.

The queue is procrastinate's: workers on any number of machines, one job of a workspace at a time, retries with growing
pauses. A job that failed too often stays as `failed` (`reme jobs list`), and its messages go on waiting.

If a process with a chat model has queued a job, the job needs a chat model. Processes without one leave it alone and
say so once. Messages that were kept word for word before there was a chat model are read later, in jobs of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from procrastinate import JobContext
from psycopg import AsyncConnection

from reme_core.errors import ConflictError, DatabaseError, DatabaseUnavailableError, FlowError, NotFoundError, ReMeError
from reme_core.given import storable
from reme_core.jobs.report import Job, QueueLoad, Summary, check_statuses
from reme_core.jobs.worker import CHAT_QUEUE, QUEUE, STALLED_SECONDS, Tries, Worker, make_app, translating_queue_errors
from reme_core.postgres.database import Database
from reme_core.settings import WorkerSettings
from reme_core.settings.sections import MAX_HOURS
from reme_core.store.messages import unsummarised_messages
from reme_core.store.sql import load
from reme_core.types import Message

log = logging.getLogger(__name__)

_SQL = load("queue.sql")
# What else is done when a job is thrown away, so that its work does not wait for ever; by its task.
_DROPPED = {"summarise": _SQL["drop_summarise"], "learn": _SQL["drop_learn"], "reflect": _SQL["drop_reflect"]}
_NO_TRIES = (DatabaseUnavailableError, ConflictError)  # failures that no job is to blame for
_WAIT_SECONDS = 0.05  # between two looks at jobs that other workers are doing
_MOST = 100_000  # jobs that are looked at when one workspace is summarised
_MOST_FAILURES = 1_000  # of which the kind is kept
LEARN_SECONDS = 900.0  # after which a process that made the lessons of an episode must have ended before it was done
_FORGET_SECONDS = 3600.0  # between two deletions of what is kept for a limited time
_MOST_FORGOTTEN = 10_000  # rows of a kind that are deleted at once, about: 100,000 logged recalls took a minute


class Background:
    """Queues the jobs of one database, and works on them if it is started.

    Args:
        database: The database with the queue.
        settings: When jobs run, and how often.
        summarise: Makes memories from the waiting messages of a conversation, `(workspace, session_id)`, or of all
            conversations if `session_id` is None. Returns the operations that it refused: `{reason: how often}`.
        reflect: Makes higher memories of a workspace.
        learn: Makes the lessons of a workspace's episodes that wait for them.
        embed: Begins to embed the messages that wait in all workspaces.
        has_chat: Whether this process has a chat model.
    """

    def __init__(
        self,
        database: Database,
        settings: WorkerSettings,
        *,
        summarise: Callable[[str, str | None], Awaitable[Mapping[str, int]]],
        reflect: Callable[[str], Awaitable[Any]],
        learn: Callable[[str], Awaitable[None]],
        embed: Callable[[], Awaitable[None]],
        has_chat: bool,
    ) -> None:
        self._database = database
        self._settings = settings
        self._summarise = summarise
        self._reflect = reflect
        self._learn = learn
        self._embed = embed
        self._app = make_app(database)
        self._queues = [QUEUE, CHAT_QUEUE] if has_chat else [QUEUE]
        self._left_alone = False
        self._forgot_at = float("-inf")
        self._worker = Worker(database, self._app, settings, queues=self._queues, now_and_then=self._keep_up)
        # By what kinds of errors jobs failed here last, by their ids; for `do_waiting`.
        self._failures = deque[tuple[int | None, type[ReMeError]]](maxlen=_MOST_FAILURES)
        self._tries = Tries(settings.max_attempts)
        self._summarising = self._task("reme.summarise", self._run_summaries)
        self._reflecting = self._task("reme.reflect", self._run_reflection)
        self._catching_up = self._task("reme.catch_up", self._run_catch_up)
        self._learning = self._task("reme.learn", lambda _, workspace: self._learn(workspace))

    def _task(self, name: str, work: Callable[..., Awaitable[None]]) -> Any:
        async def run(context: JobContext, /, workspace: str, **more: str) -> None:
            self._worker.take_on()
            try:
                await work(context, workspace, **more)
            except Exception as error:  # a job may fail of anything; the queue tries it again
                await self._note_failure(context, workspace, error)
                raise

        return self._app.task(name=name, queue=QUEUE, retry=self._tries, pass_context=True)(run)

    async def queue(self, conn: AsyncConnection[Any], workspace: str, messages: Collection[Message]) -> None:
        """Queue the summary of the conversations that `messages` belong to, inside the caller's transaction.

        A conversation has one waiting job. It runs when nothing was said for `after_seconds`, or at once if
        `after_messages` messages wait.
        """
        sessions = {m.session_id for m in messages if m.role in ("user", "assistant")}
        await self._queue_sessions(conn, workspace, sessions)

    async def queue_waiting(self, conn: AsyncConnection[Any], workspace: str) -> None:
        """Queue the summaries of conversations that wait and have no job, inside the caller's transaction."""
        found = await conn.execute(_SQL["waiting_sessions"], {"workspace": workspace})
        await self._queue_sessions(conn, workspace, {row[0] for row in await found.fetchall()})

    async def queue_lessons(self, workspace: str) -> None:
        """Queue the lessons of the workspace's episodes that wait for them."""
        lock = _lock_of(self._learning, workspace)
        if not await self._database.execute_anywhere(_SQL["waits"], {"lock": lock}):
            await self._defer(self._learning, lock, None, None, workspace=workspace)
        self.start_embedded()

    async def _queue_sessions(self, conn: AsyncConnection[Any], workspace: str, sessions: Collection[str]) -> None:
        values = {
            "workspace": workspace,
            "sessions": list(sessions),
            "after_messages": self._settings.after_messages,
            "after_seconds": self._settings.after_seconds,
        }
        cursor = await conn.execute(_SQL["reschedule"], values)
        for session_id, lock, due in await cursor.fetchall():
            await self._defer(self._summarising, lock, due, conn, workspace=workspace, session_id=session_id)

    async def _queue_due(self, task: Any, due: str, values: Mapping[str, Any]) -> None:
        """Queue a job for all of each workspace that the statement `due` names."""
        async with self._database.maintenance() as conn:
            # Two workers that looked at the same moment would both queue what is due.
            await conn.execute(_SQL["take_turns"], {"name": due})
            for (workspace,) in await (await conn.execute(_SQL[due], values)).fetchall():
                await self._defer(task, _lock_of(task, workspace), None, conn, workspace=workspace)

    async def _defer(
        self, task: Any, lock: str, due: datetime | None, conn: AsyncConnection[Any] | None, **args: str
    ) -> None:
        # One job of a workspace runs at a time (`reme.fetch_job`). The lock is that of a conversation, not of the
        # workspace, where one conversation that waits to be tried again would hold up all others.
        # procrastinate's queueing lock would allow only one waiting job. But then a job that has to run again, after an
        # error or after its worker died, could not go back into the queue while another one waits. So our statements
        # look for a waiting job themselves.
        options: dict[str, Any] = {"lock": lock, "queue": self._queues[-1], "schedule_at": due}
        options |= {"connection": conn} if conn is not None else {}
        with translating_queue_errors(self._database.url):
            await task.configure(**options).defer_async(**args)

    async def _run_catch_up(self, context: JobContext, workspace: str) -> None:
        told = {"actor": "catch_up", "reason": "no message here says it"}
        await self._database.execute(workspace, _SQL["reopen_quoted"], {"workspace": workspace}, **told)
        await self._run_summaries(context, workspace, None)

    async def _run_summaries(self, context: JobContext, workspace: str, session_id: str | None) -> None:
        refused: Counter[str] = Counter()
        first = await self._first_waiting(workspace, session_id)
        while first is not None:
            refused.update(await self._summarise(workspace, session_id))
            before, first = first, await self._first_waiting(workspace, session_id)
            if first == before:  # without this error, the loop would never end
                raise FlowError(
                    f"the summary of session '{session_id}' in workspace '{workspace}' left its messages waiting; "
                    "if summary_personal_memory is a flow of your own, it has to end in the op that stores its result"
                )
        if refused:
            # The reasons alone: the refused operations have words of a conversation, which must not be in a log.
            told = "; ".join(f"{count} × {reason}" for reason, count in refused.most_common())
            await self._note(context, workspace, f"refused {refused.total()} operations: {told}", is_try=False)

    async def _first_waiting(self, workspace: str, session_id: str | None) -> str | None:
        waiting = await unsummarised_messages(self._database, workspace, session_id=session_id, limit=1)
        return waiting[0].message_id if waiting else None

    async def _run_reflection(self, _: JobContext, workspace: str) -> None:
        # What is learned from now on waits for the next one.
        ((begun,),) = await self._database.fetch(workspace, "select now()")
        await self._reflect(workspace)
        await self._database.execute(workspace, _SQL["mark_reflected"], {"workspace": workspace, "at": begun})

    async def _note_failure(self, context: JobContext, workspace: str, error: Exception) -> None:
        """Note why a job failed, for `reme jobs`."""
        is_ours = isinstance(error, ReMeError)
        self._failures.append((context.job.id, type(error) if isinstance(error, ReMeError) else ReMeError))
        # It may quote what a tool or a model said, with characters that Postgres cannot store.
        why = storable(str(error) if is_ours else f"{type(error).__name__}: {error}")
        with contextlib.suppress(DatabaseError):  # then the database is the reason, and the log says so
            is_try = not isinstance(error, _NO_TRIES)
            before = await self._note(context, workspace, why, is_try=is_try)
            if is_try:
                self._tries.count(context.job.id, before + 1)
                tried, job_id = f"try {before + 1} of {self._settings.max_attempts + 1}", context.job.id
                if before >= self._settings.max_attempts:
                    tried += f", given up; `reme jobs retry {job_id}` puts it back"
                log.warning("job %s failed (%s): %s", job_id, tried, why, exc_info=not is_ours)

    async def _note(self, context: JobContext, workspace: str, note: str, *, is_try: bool) -> int:
        """Note something about a job, and tell how many tries it had used up before."""
        values = {"workspace": workspace, "id": context.job.id, "error": note, "is_try": is_try}
        ((tries,),) = await self._database.execute(workspace, _SQL["note_error"], values)
        return int(tries)

    def start_embedded(self) -> None:
        """Begin to work in this process if it is to do so by the settings: it has made work for a worker."""
        if self._settings.embedded:
            self.start()

    def start(self) -> None:
        """Begin to work on jobs in this process, unless it does so already."""
        self._worker.start()

    @property
    def task(self) -> asyncio.Task[None]:
        """The task that works on jobs in this process; see `Worker.task`."""
        return self._worker.task

    async def drain(self, workspace: str | None = None) -> None:
        """Do what is due, and return when nothing of this workspace (None: of any) is, here or at other workers.

        Its jobs that wait for their time are due now. One that fails is tried again later; that is not waited for.
        """
        values = {"workspace": workspace, "queues": self._queues}
        await self._say_what_is_left()
        await self._database.execute_anywhere(_SQL["hurry"], values)
        await self._worker.work_off()
        while await self._database.execute_anywhere(_SQL["at_work"], values):
            await asyncio.sleep(_WAIT_SECONDS)
            await self._worker.work_off()

    async def summarise_waiting(self, workspace: str) -> Summary:
        """Do, with the waiting jobs of a workspace, the summaries that were given up or that nobody has queued.

        A summary that a caller asked for, with the messages themselves, may have failed after these were stored.
        """
        await self._database.execute_anywhere(_SQL["try_given_up"], {"workspace": workspace})
        async with self._database.write_transaction(workspace) as conn:
            await self.queue_waiting(conn, workspace)
        return await self.do_waiting(workspace)

    async def do_waiting(self, workspace: str | None = None) -> Summary:
        """Do the waiting jobs of one workspace, or of all (None), now; returns them by their outcome.

        Raises:
            ReMeError: All that were tried failed; the message says why. If all failed here by one kind of error, such
                as a `ModelUnavailableError`, it is of that kind.
        """
        waiting = await self.jobs(workspace, statuses=["todo", "doing"], limit=_MOST)
        tried = {job.id: job.attempts for job in waiting}
        await self.drain(workspace)
        jobs = await self.jobs(workspace, ids=list(tried), limit=_MOST)
        # A job that was running when this began, and failed, waits again now: it is tried once more, like all others.
        begun_before = {job.id for job in waiting if job.status == "doing"}
        if any(job.id in begun_before and job.status == "todo" for job in jobs):
            await self.drain(workspace)
            jobs = await self.jobs(workspace, ids=list(tried), limit=_MOST)
        done = [job for job in jobs if job.status == "succeeded"]
        failed = [job for job in jobs if job.status != "succeeded" and job.attempts > tried[job.id]]
        summary = Summary(done, failed, [job for job in jobs if job not in done and job not in failed])
        if failed and not done:
            kinds = dict(self._failures)
            kind, *others = {kinds.get(job.id, ReMeError) for job in failed}
            told = f"no job was done: {summary.reasons}. They wait, and are tried again; `reme jobs list` shows them"
            raise (ReMeError if others else kind)(told)
        return summary

    async def aclose(self, patience: float) -> None:
        """Stop working.

        Args:
            patience: Seconds for which running jobs may go on; after that they are cancelled, and run again later.
        """
        await self._worker.aclose(patience)

    async def _keep_up(self) -> None:
        await self._forget_old()
        await self._say_what_is_left()
        await self._embed()
        await self.catch_up()
        await self._queue_due(self._learning, "late_lessons", {"seconds": LEARN_SECONDS})
        hours = {"every_hours": self._settings.reflect_every_hours, "most_hours": MAX_HOURS}
        await self._queue_due(self._reflecting, "due_reflections", hours)

    async def _forget_old(self) -> None:
        if time.monotonic() < self._forgot_at + _FORGET_SECONDS:
            return
        self._forgot_at = time.monotonic()
        settings = self._database.settings
        kept = settings.retention
        for statement, days in (
            ("forget_jobs", kept.job_days),
            ("forget_job_errors", kept.job_days),
            ("forget_retrievals", kept.log_days),
            ("forget_model_calls", kept.log_days),
            ("forget_history", kept.history_days),
            ("forget_artifacts", settings.working.keep_days),
        ):
            if days:
                gone = await self._database.execute_anywhere(_SQL[statement], {"days": days, "most": _MOST_FORGOTTEN})
                if len(gone) >= _MOST_FORGOTTEN:
                    self._forgot_at = float("-inf")  # the rest goes at the next times

    async def catch_up(self) -> None:
        """Queue jobs for messages that were kept word for word before there was a chat model; else do nothing."""
        if CHAT_QUEUE in self._queues:
            await self._queue_due(self._catching_up, "unread_quotes", {})

    async def _say_what_is_left(self) -> None:
        if self._left_alone or CHAT_QUEUE in self._queues:
            return
        found = await self._database.execute_anywhere(_SQL["waiting_in"], {"queue": CHAT_QUEUE})
        if found and found[0][0]:
            self._left_alone = True
            log.warning(
                "jobs that wait for a process with a chat model: %s; this one has none; set "
                "llm.default.model_name here, or run `reme worker` where it is set; `reme jobs list` shows them, and "
                "`reme jobs retry ID` has a summary made without it, `reme jobs drop ID` gives one up",
                found[0][0],
            )

    async def jobs(
        self,
        workspace: str | None = None,
        *,
        statuses: Sequence[str] | None = None,
        ids: Sequence[int] | None = None,
        limit: int = 100,
    ) -> list[Job]:
        """Jobs, newest first, only of these ids, or these statuses (an unknown one is an `InputError`)."""
        values = {"workspace": workspace, "statuses": check_statuses(statuses), "ids": ids, "limit": limit}
        values["chat_queue"] = CHAT_QUEUE
        return [Job(*row) for row in await self._database.execute_anywhere(_SQL["jobs"], values)]

    async def load(self) -> QueueLoad:
        """How many jobs wait, and since when."""
        found = await self._database.execute_anywhere(_SQL["load"], {"stalled": STALLED_SECONDS})
        ((due, oldest, retrying, failed),) = found
        return QueueLoad(due, max(0.0, oldest), retrying, failed)

    async def job(self, job_id: int) -> tuple[Job, list[tuple[str, datetime]]]:
        """One job and its events: `(job, [(event, when), …])`.

        Raises:
            NotFoundError: There is no such job.
        """
        found = await self.jobs(ids=[job_id])
        if not found:
            raise NotFoundError(f"there is no job {job_id}; `reme jobs list` shows those there are")
        events = await self._database.execute_anywhere(_SQL["job_events"], {"id": job_id})
        return found[0], [(row[0], row[1]) for row in events]

    async def drop(self, job_id: int) -> None:
        """Throw a job away: what it was to make memories of stays stored, and counts as done, unless another has it.

        A conversation in which more was said after its job was given up has another job, which does all that waits.
        What was kept word for word without a chat model goes on waiting for one; its job begins anew.

        Raises:
            NotFoundError: There is no such job, or it is under way or done.
        """
        job, _ = await self.job(job_id)
        values = {"id": job_id, "workspace": job.workspace, "session": job.session_id}
        async with self._database.maintenance() as conn:
            dropped = await (await conn.execute(_SQL["drop_job"], values)).fetchone()
            if dropped is None:
                raise NotFoundError(f"job {job_id} is '{job.status}'; only a job that waits or failed can be dropped")
            (is_others,) = dropped
            if job.task in _DROPPED and not is_others:
                await conn.execute(_DROPPED[job.task], values)

    async def retry(self, job_id: int) -> None:
        """Put a job back that was given up, or, without a chat model here, a summary that waits for one, to be quoted.

        Raises:
            NotFoundError: There is no such job, or it has not failed.
        """
        job, _ = await self.job(job_id)
        taken = {"id": job_id, "from": CHAT_QUEUE, "to": QUEUE}
        if CHAT_QUEUE not in self._queues and await self._database.execute_anywhere(_SQL["take_over"], taken):
            return
        if job.status not in ("failed", "aborted"):
            raise NotFoundError(f"job {job_id} is '{job.status}'; only a job that failed can be tried again")
        await self._database.execute(job.workspace, _SQL["begin_anew"], {"workspace": job.workspace, "id": job_id})
        with translating_queue_errors(self._database.url):
            await self._app.job_manager.retry_job_by_id_async(job_id, retry_at=datetime.now(UTC))


def _lock_of(task: Any, workspace: str) -> str:
    """The lock of a job for all of a workspace."""
    return f"{task.name.removeprefix('reme.')} {workspace}"
