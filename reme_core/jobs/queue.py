"""Background work: conversations are summarised, and memories reflected upon, by jobs in the same Postgres.

A job is queued in the transaction that stores the messages, so there is one if and only if they are stored. It names a
workspace and a conversation and nothing else: what is to do is read from the tables when it runs. So a job that runs
twice, or a second time after its worker was killed, finds nothing left to do.

The queue is procrastinate's: workers on any number of machines, one job of a conversation at a time, retries with
growing pauses. A job that failed too often stays as `failed` (`reme jobs list`), and its messages go on waiting.

A job that a process with a chat model has queued needs one: processes without leave it alone and say so once. What was
kept word for word before there was a model is read by it later, in jobs of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from procrastinate import App, JobContext, RetryStrategy
from psycopg import AsyncConnection

from reme_core.errors import DatabaseError, FlowError, NotFoundError, ReMeError
from reme_core.jobs.connector import QueueConnector
from reme_core.jobs.worker import CHAT_QUEUE, QUEUE, Worker, translating_queue_errors
from reme_core.postgres.database import Database
from reme_core.settings import WorkerSettings
from reme_core.store.messages import unsummarised_messages
from reme_core.store.sql import load
from reme_core.types import Message

log = logging.getLogger(__name__)

_SQL = load("queue.sql")
_WAIT_SECONDS = 0.05  # between looks at what another worker has taken on
_MOST = 100_000  # jobs that are looked at when one workspace is summarised
_FORGET_SECONDS = 3600.0  # how often a worker deletes what is kept for a limited time


@dataclass(frozen=True, slots=True)
class Job:
    """One piece of background work, as `reme jobs` shows it."""

    id: int
    task: str
    status: str
    """todo, doing, succeeded, failed, cancelled or aborted."""
    workspace: str
    session_id: str
    attempts: int
    scheduled_at: datetime | None
    changed_at: datetime | None
    error: str | None
    """Why it failed the last time; of one that succeeded, what a reading refused."""
    needs: str
    """What a process must have to take it: `chat model`, or nothing."""


@dataclass(frozen=True, slots=True)
class QueueLoad:
    """What waits in the queue, for all workspaces together."""

    due: int
    """How many jobs could run now."""
    oldest_seconds: float
    """For how long the first of them could have run."""
    failed: int
    """How many were given up."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What became of the conversations that waited to be made memories of."""

    done: list[Job]
    """Those that went well; `error` says what a reading refused, if it did."""
    failed: list[Job]
    """Those that failed; `error` says why. They are tried again later, or given up (`status` is `failed`)."""
    waiting: list[Job]
    """Those that nobody took on; `needs` says what they wait for."""


class Background:
    """Queues the jobs of one database and, where asked to, works on them.

    Args:
        database: Where the queue is.
        settings: When and how often.
        summarise: Makes memories from the waiting messages of a conversation: `(workspace, session_id)`, or of all
            conversations where that is None. Gives back what it refused: `{reason: how often}`.
        reflect: Makes higher memories of a workspace.
        embed: Has what waits for its vectors embedded, wherever it was recorded.
        has_chat: Whether this process has a chat model.
    """

    def __init__(
        self,
        database: Database,
        settings: WorkerSettings,
        *,
        summarise: Callable[[str, str | None], Awaitable[Mapping[str, int]]],
        reflect: Callable[[str], Awaitable[Any]],
        embed: Callable[[], Awaitable[None]],
        has_chat: bool,
    ) -> None:
        self._database = database
        self._settings = settings
        self._summarise = summarise
        self._reflect = reflect
        self._embed = embed
        self._app = App(connector=QueueConnector(database))
        self._queues = [QUEUE, CHAT_QUEUE] if has_chat else [QUEUE]
        self._left_alone = False
        self._forgot_at: float | None = None
        self._worker = Worker(database, self._app, settings, queues=self._queues, now_and_then=self._keep_up)
        # Pauses of 4, 16, 64 … seconds: eight further tries span about a day.
        again = RetryStrategy(max_attempts=settings.max_attempts, exponential_wait=4)
        self._summarising = self._app.task(name="reme.summarise", queue=QUEUE, retry=again, pass_context=True)(
            self._run_summary
        )
        self._reflecting = self._app.task(name="reme.reflect", queue=QUEUE, retry=again, pass_context=True)(
            self._run_reflection
        )
        self._catching_up = self._app.task(name="reme.catch_up", queue=QUEUE, retry=again, pass_context=True)(
            self._run_catch_up
        )

    async def queue(self, conn: AsyncConnection[Any], workspace: str, messages: Collection[Message]) -> None:
        """Queue the summary of the conversations that `messages` belong to, inside the caller's transaction.

        A conversation has one waiting job. It runs when nothing was said for `after_seconds`, or at once when
        `after_turns` turns wait.
        """
        sessions = list({m.session_id for m in messages if m.role in ("user", "assistant")})
        values = {
            "workspace": workspace,
            "sessions": sessions,
            "after_turns": self._settings.after_turns,
            "after_seconds": self._settings.after_seconds,
        }
        cursor = await conn.execute(_SQL["reschedule"], values)
        for session_id, lock, seconds in await cursor.fetchall():
            await self._defer(self._summarising, lock, seconds, conn, workspace=workspace, session_id=session_id)

    async def _defer(
        self, task: Any, lock: str, seconds: float, conn: AsyncConnection[Any] | None, **args: str
    ) -> None:
        await self._open()
        # Of the jobs with one lock, one runs at a time. It is not one a workspace: a conversation that fails would hold
        # up all others. What two of them decide at the same time, the store tells apart (`Change`). A queueing lock
        # would keep a second one from waiting as well. But then a job that is to run again, after an error or after its
        # worker died, could not go back into the queue while another one waits. So whoever queues looks himself.
        options: dict[str, Any] = {"lock": lock, "queue": self._queues[-1]}
        options |= {"connection": conn} if conn is not None else {}
        if seconds:
            options["schedule_in"] = {"seconds": max(1, round(seconds))}
        with translating_queue_errors(self._database.url):
            await task.configure(**options).defer_async(**args)

    async def _open(self) -> None:
        await self._app.connector.open_async(self._database.pool)  # does nothing when it is open

    async def _run_summary(self, context: JobContext, workspace: str, session_id: str) -> None:
        async with self._note_error(context, workspace):
            await self._summarise_waiting(context, workspace, session_id)

    async def _run_catch_up(self, context: JobContext, workspace: str) -> None:
        async with self._note_error(context, workspace):
            await self._database.execute(workspace, _SQL["reopen_quoted"], {"workspace": workspace})
            await self._summarise_waiting(context, workspace, None)

    async def _summarise_waiting(self, context: JobContext, workspace: str, session_id: str | None) -> None:
        refused: Counter[str] = Counter()
        first = await self._first_waiting(workspace, session_id)
        while first is not None:
            refused.update(await self._summarise(workspace, session_id))
            before, first = first, await self._first_waiting(workspace, session_id)
            if first == before:
                raise FlowError(
                    f"the summary of session '{session_id}' in workspace '{workspace}' left its messages waiting; "
                    "a flow summary_personal_memory of your own has to end in the op that stores its result"
                )
        if refused:
            # By their reasons alone: what was refused are words of a conversation, which have their own place.
            told = "; ".join(f"{count} × {reason}" for reason, count in refused.most_common())
            await self._note(context, workspace, f"refused {refused.total()} operations: {told}")

    async def _first_waiting(self, workspace: str, session_id: str | None) -> str | None:
        waiting = await unsummarised_messages(self._database, workspace, session_id=session_id, limit=1)
        return waiting[0].message_id if waiting else None

    async def _run_reflection(self, context: JobContext, workspace: str) -> None:
        async with self._note_error(context, workspace):
            await self._reflect(workspace)
            await self._database.execute(workspace, _SQL["mark_reflected"], {"workspace": workspace})

    @contextlib.asynccontextmanager
    async def _note_error(self, context: JobContext, workspace: str) -> AsyncIterator[None]:
        """Around a job: keep why it failed, for `reme jobs`; the error goes on to the queue, which tries again."""
        self._worker.take_on()
        try:
            yield
        except Exception as error:
            with contextlib.suppress(DatabaseError):  # it is the database that fails, and the log says so
                await self._note(context, workspace, str(error) or type(error).__name__)
            raise

    async def _note(self, context: JobContext, workspace: str, note: str) -> None:
        values = {"workspace": workspace, "id": context.job.id, "error": note}
        await self._database.execute(workspace, _SQL["note_error"], values)

    def start(self) -> None:
        """Begin to work on jobs in this process, if that isn't so already."""
        self._worker.start()

    @property
    def task(self) -> asyncio.Task[None]:
        """The work on jobs in this process; it goes on until it is stopped, so it is done only after an error.

        Raises:
            ReMeError: None was started.
        """
        return self._worker.task

    async def drain(self, workspace: str | None = None) -> None:
        """Do now what waits, of one workspace or of all, and return when it is done, by whichever worker.

        A job that fails is tried again later as always; it is not waited for.
        """
        values = {"workspace": workspace, "queues": self._queues}
        await self._say_what_is_left()
        await self._database.execute_anywhere(_SQL["hurry"], values)
        await self._worker.work_off()
        while await self._database.execute_anywhere(_SQL["at_work"], values):
            await asyncio.sleep(_WAIT_SECONDS)
            await self._worker.work_off()

    async def summarise(self, workspace: str) -> Summary:
        """Do now what waits of one workspace, and tell what became of it.

        Raises:
            ReMeError: All of it failed; the message says why.
        """
        waiting = await self.jobs(workspace, statuses=["todo", "doing"], limit=_MOST)
        tried = {job.id: job.attempts for job in waiting}
        await self.drain(workspace)
        jobs = await self.jobs(workspace, ids=list(tried), limit=_MOST)
        # What failed in a try that had begun before is tried now, as all that waits is.
        begun_before = {job.id for job in waiting if job.status == "doing"}
        if any(job.id in begun_before and job.status == "todo" for job in jobs):
            await self.drain(workspace)
            jobs = await self.jobs(workspace, ids=list(tried), limit=_MOST)
        done = [job for job in jobs if job.status == "succeeded"]
        failed = [job for job in jobs if job.status != "succeeded" and job.attempts > tried[job.id]]
        if failed and not done:
            why = "; ".join(sorted({job.error or "no reason was kept" for job in failed}))
            raise ReMeError(
                f"no memories were made in workspace '{workspace}': {why}. What was said waits, and is tried again; "
                "`reme jobs list` shows it"
            )
        return Summary(done, failed, [job for job in jobs if job not in done and job not in failed])

    async def aclose(self, patience: float) -> None:
        """Stop working.

        Args:
            patience: Seconds that a job that runs may go on; then it is broken off, and runs again some other time.
        """
        await self._worker.aclose(patience)

    async def _keep_up(self) -> None:
        await self._forget_old()
        await self._say_what_is_left()
        await self._embed()
        await self.catch_up()
        for workspace in await self._due_reflections():
            await self._defer(self._reflecting, f"reflect {workspace}", 0, None, workspace=workspace)

    async def _forget_old(self) -> None:
        if self._forgot_at is not None and time.monotonic() < self._forgot_at + _FORGET_SECONDS:
            return
        self._forgot_at = time.monotonic()
        kept = self._database.settings.retention
        for statement, days in (
            ("forget_jobs", kept.job_days),
            ("forget_retrievals", kept.log_days),
            ("forget_model_calls", kept.log_days),
            ("forget_history", kept.history_days),
        ):
            if days:
                await self._database.execute_anywhere(_SQL[statement], {"days": days})

    async def catch_up(self) -> None:
        """Queue the reading of what was kept word for word before there was a chat model; without one, do nothing."""
        if CHAT_QUEUE in self._queues:
            for (workspace,) in await self._database.execute_anywhere(_SQL["unread_quotes"], {}):
                await self._defer(self._catching_up, f"catch up {workspace}", 0, None, workspace=workspace)

    async def _say_what_is_left(self) -> None:
        if self._left_alone or CHAT_QUEUE in self._queues:
            return
        found = await self._database.execute_anywhere(_SQL["waiting_in"], {"queue": CHAT_QUEUE})
        if found and found[0][0]:
            self._left_alone = True
            log.warning(
                "%s jobs wait for a process with a chat model, and this one has none; set llm.default.model_name here, "
                "or run `reme worker` where it is set (`reme jobs list` shows them)",
                found[0][0],
            )

    async def _due_reflections(self) -> list[str]:
        found = await self._database.execute_anywhere(
            _SQL["due_reflections"], {"every_hours": self._settings.reflect_every_hours}
        )
        return [row[0] for row in found]

    async def jobs(
        self,
        workspace: str | None = None,
        *,
        statuses: Sequence[str] | None = None,
        ids: Sequence[int] | None = None,
        limit: int = 100,
    ) -> list[Job]:
        """Jobs, newest first; `statuses=["failed"]` is the list of those that were given up, `ids` names some."""
        values = {"workspace": workspace, "statuses": statuses and list(statuses), "ids": ids, "limit": limit}
        return [Job(*_job_fields(row)) for row in await self._database.execute_anywhere(_SQL["jobs"], values)]

    async def load(self) -> QueueLoad:
        """How much waits, and since when."""
        ((due, oldest, failed),) = await self._database.execute_anywhere(_SQL["load"])
        return QueueLoad(due, max(0.0, oldest), failed)

    async def job(self, job_id: int) -> tuple[Job, list[tuple[str, datetime]]]:
        """One job, and what happened to it: `(job, [(event, when), …])`.

        Raises:
            NotFoundError: There is no such job.
        """
        values = {"workspace": None, "statuses": None, "ids": [job_id], "limit": 1}
        found = await self._database.execute_anywhere(_SQL["jobs"], values)
        if not found:
            raise NotFoundError(f"there is no job {job_id}; `reme jobs list` shows those there are")
        events = await self._database.execute_anywhere(_SQL["job_events"], {"id": job_id})
        return Job(*_job_fields(found[0])), [(row[0], row[1]) for row in events]

    async def retry(self, job_id: int) -> None:
        """Put a job that was given up back into the queue.

        Raises:
            NotFoundError: There is no such job, or it has not failed.
        """
        job, _ = await self.job(job_id)
        if job.status not in ("failed", "doing", "aborted"):
            raise NotFoundError(f"job {job_id} is '{job.status}'; only a job that failed can be tried again")
        await self._open()
        with translating_queue_errors(self._database.url):
            await self._app.job_manager.retry_job_by_id_async(job_id, retry_at=datetime.now(UTC))


def _job_fields(row: Sequence[Any]) -> tuple[Any, ...]:
    number, task, status, workspace, session_id, *rest, queue = row
    needs = "chat model" if queue == CHAT_QUEUE else ""
    return number, task.removeprefix("reme."), status, workspace or "", session_id or "", *rest, needs
