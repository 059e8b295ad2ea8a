"""Background work: conversations are summarised, and memories reflected upon, by jobs in the same Postgres.

A job is queued in the transaction that stores the messages, so there is one if and only if they are stored. It names a
workspace and a conversation and nothing else: what is to do is read from the tables when it runs. So a job that runs
twice, or a second time after its worker was killed, finds nothing left to do.

The queue is procrastinate's: workers on any number of machines, one job of a conversation at a time, retries with
growing pauses. A job that failed too often stays as `failed` (`reme jobs list`), and its messages go on waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from procrastinate import App, JobContext, PsycopgConnector, RetryStrategy
from procrastinate.exceptions import AlreadyEnqueued
from psycopg import AsyncConnection

from reme_core.errors import DatabaseError, FlowError, NotFoundError
from reme_core.schema import Message
from reme_core.settings import WorkerSettings
from reme_core.store.database import Database
from reme_core.store.messages import unsummarised
from reme_core.store.sql import load
from reme_core.worker import QUEUE, Worker, told

_SQL = load("queue.sql")
_WAIT_SECONDS = 0.05  # between looks at what another worker has taken on
_KEPT_DAYS = 7  # how long jobs that went well are shown


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
    """Why it failed the last time."""


class Background:
    """Queues the jobs of one database and, where asked to, works on them.

    Args:
        database: Where the queue is.
        settings: When and how often.
        summarise: Makes memories from the waiting messages of a conversation: `(workspace, session_id)`.
        reflect: Makes higher memories of a workspace.
    """

    def __init__(
        self,
        database: Database,
        settings: WorkerSettings,
        *,
        summarise: Callable[[str, str], Awaitable[Any]],
        reflect: Callable[[str], Awaitable[Any]],
    ) -> None:
        self._database = database
        self._settings = settings
        self._summarise = summarise
        self._reflect = reflect
        self._app = App(connector=PsycopgConnector())
        self._worker = Worker(database, self._app, settings, now_and_then=self._keep_up)
        # Pauses of 4, 16, 64 … seconds: eight further tries span about a day.
        again = RetryStrategy(max_attempts=settings.max_attempts, exponential_wait=4)
        self._summarising = self._app.task(name="reme.summarise", queue=QUEUE, retry=again, pass_context=True)(
            self._run_summary
        )
        self._reflecting = self._app.task(name="reme.reflect", queue=QUEUE, retry=again, pass_context=True)(
            self._run_reflection
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
        # One such job waits at the most, and one runs. Not one a workspace: a conversation that fails would hold up all
        # others behind it. What two of them decide at the same time, the store tells apart (`Change`).
        options: dict[str, Any] = {"queueing_lock": lock, "lock": lock}
        if seconds:
            options["schedule_in"] = {"seconds": max(1, round(seconds))}
        # Another process may be faster; its job does the same.
        with told(self._database.url), contextlib.suppress(AlreadyEnqueued):
            if conn is None:
                await task.configure(**options).defer_async(**args)
            else:
                async with conn.transaction():  # a savepoint, so that the rest of the caller's work stands
                    await task.configure(**options, connection=conn).defer_async(**args)

    async def _open(self) -> None:
        await self._app.connector.open_async(self._database.pool)  # does nothing when it is open

    async def _run_summary(self, context: JobContext, workspace: str, session_id: str) -> None:
        async with self._doing(context, workspace):
            first = await self._first_waiting(workspace, session_id)
            while first is not None:
                await self._summarise(workspace, session_id)
                before, first = first, await self._first_waiting(workspace, session_id)
                if first == before:
                    raise FlowError(
                        f"the summary of session '{session_id}' in workspace '{workspace}' left its messages waiting; "
                        "a flow summary_personal_memory of your own has to end in the op that stores its result"
                    )

    async def _first_waiting(self, workspace: str, session_id: str) -> str | None:
        waiting = await unsummarised(self._database, workspace, session_id=session_id, limit=1)
        return waiting[0].message_id if waiting else None

    async def _run_reflection(self, context: JobContext, workspace: str) -> None:
        async with self._doing(context, workspace):
            await self._reflect(workspace)
            await self._database.execute(workspace, _SQL["mark_reflected"], {"workspace": workspace})

    @contextlib.asynccontextmanager
    async def _doing(self, context: JobContext, workspace: str) -> AsyncIterator[None]:
        """Around a job: keep why it failed, for `reme jobs`; the error goes on to the queue, which tries again."""
        self._worker.take_on()
        try:
            yield
        except Exception as error:
            noted = {"workspace": workspace, "id": context.job.id, "error": str(error) or type(error).__name__}
            with contextlib.suppress(DatabaseError):  # it is the database that fails, and the log says so
                await self._database.execute(workspace, _SQL["note_error"], noted)
            raise

    def start(self) -> None:
        """Begin to work on jobs in this process, if that isn't so already."""
        self._worker.start()

    @property
    def working(self) -> asyncio.Task[None]:
        """The work on jobs in this process; it goes on until it is stopped, so it is done only after an error.

        Raises:
            ReMeError: None was started.
        """
        return self._worker.working

    async def drain(self, workspace: str | None = None) -> None:
        """Do now what waits, of one workspace or of all, and return when it is done, by whichever worker.

        A job that fails is tried again later as always; it is not waited for.
        """
        values = {"workspace": workspace}
        await self._database.execute_anywhere(_SQL["hurry"], values)
        await self._worker.work_off()
        while await self._database.execute_anywhere(_SQL["at_work"], values):
            await asyncio.sleep(_WAIT_SECONDS)
            await self._worker.work_off()

    async def aclose(self, patience: float) -> None:
        """Stop working.

        Args:
            patience: Seconds that a job that runs may go on; then it is broken off, and runs again some other time.
        """
        await self._worker.aclose(patience)

    async def _keep_up(self) -> None:
        await self._database.execute_anywhere(_SQL["forget_done"], {"days": _KEPT_DAYS})
        for workspace in await self._due_reflections():
            await self._defer(self._reflecting, f"reflect {workspace}", 0, None, workspace=workspace)

    async def _due_reflections(self) -> list[str]:
        found = await self._database.execute_anywhere(
            _SQL["due_reflections"], {"every_hours": self._settings.reflect_every_hours}
        )
        return [row[0] for row in found]

    async def jobs(
        self, workspace: str | None = None, *, statuses: Sequence[str] | None = None, limit: int = 100
    ) -> list[Job]:
        """Jobs, newest first; `statuses=["failed"]` is the list of those that were given up."""
        values = {"workspace": workspace, "statuses": statuses and list(statuses), "id": None, "limit": limit}
        return [Job(*_named(row)) for row in await self._database.execute_anywhere(_SQL["jobs"], values)]

    async def job(self, job_id: int) -> tuple[Job, list[tuple[str, datetime]]]:
        """One job, and what happened to it: `(job, [(event, when), …])`.

        Raises:
            NotFoundError: There is no such job.
        """
        values = {"workspace": None, "statuses": None, "id": job_id, "limit": 1}
        found = await self._database.execute_anywhere(_SQL["jobs"], values)
        if not found:
            raise NotFoundError(f"there is no job {job_id}; `reme jobs list` shows those there are")
        events = await self._database.execute_anywhere(_SQL["job_events"], {"id": job_id})
        return Job(*_named(found[0])), [(row[0], row[1]) for row in events]

    async def retry(self, job_id: int) -> None:
        """Put a job that was given up back into the queue.

        Raises:
            NotFoundError: There is no such job, or it has not failed.
        """
        job, _ = await self.job(job_id)
        if job.status not in ("failed", "doing", "aborted"):
            raise NotFoundError(f"job {job_id} is '{job.status}'; only a job that failed can be tried again")
        await self._open()
        with told(self._database.url):
            await self._app.job_manager.retry_job_by_id_async(job_id, retry_at=datetime.now(UTC))


def _named(row: Sequence[Any]) -> tuple[Any, ...]:
    number, task, status, workspace, session_id, *rest = row
    return number, task.removeprefix("reme."), status, workspace or "", session_id or "", *rest
