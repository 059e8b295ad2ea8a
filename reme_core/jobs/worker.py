"""The worker of one process: it takes jobs from the queue until it is told to stop, and survives outages of Postgres.

procrastinate's worker ends when its database goes away: with an error, or as if it had been told to stop. So this
worker starts it again, until its own flag says to stop. The flag is not a cancellation: procrastinate's worker can lose
a cancellation while it starts, and turns it into a normal end while it works.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextvars import Context
from datetime import datetime, timedelta
from typing import Any

from procrastinate import App, BaseRetryStrategy, PsycopgConnector, RetryDecision
from procrastinate.connector import Notify
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job as QueueJob
from procrastinate.manager import JobManager
from procrastinate.worker import Worker as QueueWorker
from psycopg import AsyncConnection, AsyncCursor
from psycopg.errors import ForeignKeyViolation
from psycopg_pool import AsyncConnectionPool

from reme_core.errors import DatabaseUnavailableError, ReMeError
from reme_core.postgres.database import Database
from reme_core.postgres.errors import translating_errors
from reme_core.settings import WorkerSettings
from reme_core.store.sql import load
from reme_core.types import now

log = logging.getLogger(__name__)


def _drop_traceback(record: logging.LogRecord) -> bool:
    # The message of an error of ours says what was wrong and what to do. A traceback does not help who runs a worker.
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, ReMeError):
        record.msg, record.args = f"{record.getMessage()}: {error}", ()
        record.exc_info = record.exc_text = None
    return True


logging.getLogger("procrastinate.worker").addFilter(_drop_traceback)

_SQL = load("queue.sql")
QUEUE, CHAT_QUEUE = "reme", "reme.chat"  # jobs for every process, and those that need a chat model
STALLED_SECONDS = 35.0
"""A worker with an older heartbeat is dead."""
_COLUMNS = (
    "id", "priority", "lock", "queueing_lock", "task_name", "args", "scheduled_at", "queue_name", "attempts",
    "worker_id",
)  # fmt: skip
_FETCH = f"select {', '.join(_COLUMNS)} from reme.fetch_job(%(queues)s, %(worker)s)"
_AGAIN_SECONDS = 15  # before a job that broke off by no fault of its own runs again
_RETRY_SECONDS = 0.2  # before a task that lost its cancellation is cancelled again
_UPKEEP_SECONDS = 15.0  # between two looks for stalled jobs, and for what is due
_POLL_SECONDS = 2.0  # between two looks for due jobs: nothing is notified when the time of a job comes, or is changed
_HEARTBEAT_SECONDS = 10.0  # between two signs of life
_FORGOTTEN_SECONDS = 86_400.0  # without a sign of life; its jobs are taken long before
_FIRST_SECONDS = 0.3  # before a worker begins: a memory that is open for a moment, as in a command, needs none
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 15.0  # between two attempts while the database is away
_SETTLED_SECONDS = 30.0  # after so long without an error, the outage is over, and the next one is warned of again


class QueueConnector(PsycopgConnector):
    """Runs statements of the queue in transactions of their own, which see the jobs of all workspaces.

    Unless a caller gives a connection: then they are in its transaction.
    """

    def __init__(self, database: Database) -> None:
        super().__init__()
        self._database = database

    @property
    def pool(self) -> AsyncConnectionPool[Any]:
        """The pool of the database, so that nobody has to open the queue beside it."""
        return self._database.pool

    @contextlib.asynccontextmanager
    async def _get_cursor(self, connection: AsyncConnection[Any] | None = None) -> AsyncGenerator[AsyncCursor[Any]]:
        async with contextlib.AsyncExitStack() as stack:
            if connection is None:
                connection = await stack.enter_async_context(self._database.maintenance())
            yield await stack.enter_async_context(super()._get_cursor(connection))

    async def listen_notify(self, on_notification: Notify, channels: Iterable[str]) -> None:
        """Listen for new jobs until cancelled, also across outages of the database."""
        while True:
            # Of an outage others tell: the pool, and the worker if it lasts. Meanwhile the worker looks for jobs.
            with contextlib.suppress(DatabaseUnavailableError), translating_queue_errors(self._database.url):
                await super().listen_notify(on_notification, channels)
            await asyncio.sleep(_POLL_SECONDS)


class _Jobs(JobManager):
    """procrastinate's manager of jobs: one job of a workspace at a time, and times by the database's clock."""

    def __init__(self, database: Database) -> None:
        super().__init__(QueueConnector(database))
        self._database = database

    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> QueueJob | None:
        """The next job that is due, which is under way now; None if there is none."""
        # In one round trip: all workers wait for each other while one fetches.
        values = {"queues": list(queues or []), "worker": worker_id}
        try:
            rows = await self._database.execute_anywhere(_FETCH, values)
        except ForeignKeyViolation:  # its machine slept, and others took this worker for dead
            await self._database.execute_anywhere(_SQL["register_again"], values)
            rows = await self._database.execute_anywhere(_FETCH, values)
        return QueueJob.from_row({"status": "doing", **dict(zip(_COLUMNS, rows[0], strict=True))}) if rows else None

    async def retry_job_by_id_async(self, job_id: int, retry_at: datetime, *arguments: Any, **options: Any) -> None:
        """Let a job run again at a time by this machine's clock."""
        # Jobs are fetched by the database's. If this one is an hour slow, all tries would be used up within minutes; if
        # it is an hour fast, each would come an hour late.
        wait = max(retry_at - now(), timedelta())
        ((begun,),) = await self._database.execute_anywhere("select now()")
        await super().retry_job_by_id_async(job_id, begun + wait, *arguments, **options)


def make_app(database: Database) -> App:
    """Procrastinate's app for the queue of a database."""
    jobs = _Jobs(database)
    app = App(connector=jobs.connector)
    app.job_manager = jobs
    return app


class _QueueWorker(QueueWorker):
    """procrastinate's worker, in which a heartbeat that fails is not the last one, and the end of a job is noted.

    Without heartbeats, others would take it for dead and run its jobs a second time. And nobody gives back to the queue
    what a living worker seems to be doing: such a job would hold up its workspace for ever. When a job has ended, it
    looks for another one at once: those of the same workspace were not due before.

    A worker that stood still for long is taken for dead. It goes on, and leaves alone the jobs that others have by now.
    """

    async def _fetch_and_process_jobs(self) -> None:
        await super()._fetch_and_process_jobs()  # type: ignore[no-untyped-call]
        while not self.wait and self._running_jobs and not self._stop_event.is_set():
            await asyncio.wait(self._running_jobs, return_when=asyncio.FIRST_COMPLETED)
            await super()._fetch_and_process_jobs()  # type: ignore[no-untyped-call]  # others of its workspace are due

    async def _update_heartbeat(self) -> None:
        while True:
            try:
                await super()._update_heartbeat()  # type: ignore[no-untyped-call]  # ends by an error only
            except ReMeError as error:
                log.warning("a heartbeat of this worker failed, and the next one follows: %s", error)

    async def _persist_job_status(self, job: QueueJob, *arguments: Any, **options: Any) -> None:
        worker, may_be_noted, pause = self.worker_id, False, _FIRST_PAUSE_SECONDS
        while True:
            try:
                held = _SQL["is_held"]
                if not await self.app.connector.execute_query_all_async(held, job=job.id, worker=worker):
                    if not may_be_noted:
                        log.warning("job %s was taken from this worker, which stood still for too long", job.id)
                    return
                await super()._persist_job_status(job, *arguments, **options)
            except ReMeError as error:
                if self._stop_event.is_set():
                    raise
                log.warning("the end of job %s could not be noted, and is tried again: %s", job.id, error)
            else:
                self._new_job_event.set()  # others of its workspace may be due
                return
            await asyncio.sleep(pause)
            may_be_noted, pause = True, min(2 * pause, _LONGEST_PAUSE_SECONDS)  # a connection that broke off may have


class Tries(BaseRetryStrategy):
    """When a job that broke off runs again: after 4, 16, 64 … seconds; eight further tries span about a day.

    Only a failure that was counted is a try. Where a job broke off because the database went away, others changed
    the same memories, or its worker stopped, it runs again a little later, however often: a server that restarts all
    day long uses up no tries, and neither do busy writers, one of whom always gets on.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._failures: dict[int | None, int] = {}

    def count(self, job_id: int | None, failures: int) -> None:
        """Say that a job has failed, and how often it has by now."""
        self._failures[job_id] = failures

    def get_retry_decision(self, *, exception: BaseException, job: QueueJob) -> RetryDecision | None:
        """What the queue is to do with a job that broke off; None is to give it up."""
        failures = self._failures.pop(job.id, 0)
        if failures > self._most:
            return None
        return RetryDecision(retry_in={"seconds": 4**failures if failures else _AGAIN_SECONDS})


class Worker:
    """Works on the jobs of one database, as many at a time as the settings say.

    `now_and_then` is other work for a worker, which it does every quarter of a minute.
    """

    def __init__(
        self,
        database: Database,
        app: App,
        settings: WorkerSettings,
        *,
        queues: Sequence[str],
        now_and_then: Callable[[], Awaitable[None]],
    ) -> None:
        self._database = database
        self._app = app
        self._settings = settings
        self._queues = list(queues)
        self._now_and_then = now_and_then
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._queue_worker: QueueWorker | None = None
        self._jobs: set[asyncio.Task[Any]] = set()

    def start(self) -> None:
        """Begin to work, unless it works already."""
        if not self._stopping.is_set() and (self._task is None or self._task.done()):
            # Without the context of the caller: the jobs of all others would be parts of that caller's trace.
            self._task = asyncio.create_task(self._keep_working(), context=Context())
            self._task.add_done_callback(_report_end)

    @property
    def task(self) -> asyncio.Task[None]:
        """The task that works; unless it is stopped, it ends only by an error.

        Raises:
            ReMeError: It was not started.
        """
        if self._task is None:
            raise ReMeError("no worker runs here; start one with background.start()")
        return self._task

    async def work_off(self) -> None:
        """Work on the jobs that are due, and return when none is left.

        Raises:
            DatabaseUnavailableError: The database went away; jobs that are left go on waiting.
        """
        with translating_queue_errors(self._database.url):
            await self._rescue()
            await self._worker_of_queue(wait=False).run()

    def take_on(self) -> None:
        """Note that the running task is a job: `aclose` waits for it."""
        task = asyncio.current_task()
        assert task is not None
        self._jobs.add(task)
        task.add_done_callback(self._jobs.discard)

    async def aclose(self, patience: float) -> None:
        """Stop: running jobs may go on for `patience` seconds; after that they are cancelled, and run again later."""
        self._stopping.set()
        tasks = self._running_tasks()
        if self._task in tasks and self._queue_worker is not None:
            self._queue_worker.stop()
        if patience and tasks:
            await asyncio.wait(tasks, timeout=patience)
        await _cancel_until_done(self._running_tasks())

    def _running_tasks(self) -> set[asyncio.Task[Any]]:
        return {task for task in (self._task, *self._jobs) if task is not None and not task.done()}

    async def _keep_working(self) -> None:
        task = asyncio.current_task()
        away, pause = False, _FIRST_PAUSE_SECONDS
        await self._pause(_FIRST_SECONDS)
        while not self._stopping.is_set():
            begun, lost = time.monotonic(), "it closed the connection"
            try:
                with translating_queue_errors(self._database.url):
                    if not away:  # after an outage, others that live have not said so yet
                        await self._rescue()
                    begun = time.monotonic()
                    await self._work()
            except ReMeError as error:
                lost = str(error)
            if self._stopping.is_set():
                return
            # The queue's worker may have swallowed a cancellation, see above.
            if task is not None and task.cancelling():
                raise asyncio.CancelledError
            if time.monotonic() - begun > _SETTLED_SECONDS:
                away, pause = False, _FIRST_PAUSE_SECONDS
            if not away:
                log.warning("background work waits for the database: %s", lost)
            away = True
            await self._pause(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    async def _pause(self, seconds: float) -> None:
        """Wait, until it is told to stop at the longest."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)

    async def _work(self) -> None:
        """Work until told to stop, or until the database is away; that may raise an error, or not."""
        # It may have been told to stop just now, and the queue's worker forgets a `stop` that comes before its `run`.
        if self._stopping.is_set():
            return
        self._queue_worker = self._worker_of_queue(wait=True)
        upkeep = asyncio.create_task(self._keep_up())
        try:
            await self._queue_worker.run()
        finally:
            await _cancel_until_done({upkeep})

    def _worker_of_queue(self, *, wait: bool) -> QueueWorker:
        return _QueueWorker(
            self._app,
            queues=self._queues,
            wait=wait,
            concurrency=self._settings.concurrency,
            install_signal_handlers=False,
            listen_notify=wait and not self._database.has_pooler,
            fetch_job_polling_interval=_POLL_SECONDS,
            update_heartbeat_interval=_HEARTBEAT_SECONDS,
            stalled_worker_timeout=_FORGOTTEN_SECONDS,
            shutdown_graceful_timeout=self._settings.stop_seconds,
        )

    async def _keep_up(self) -> None:
        while True:
            await asyncio.sleep(_UPKEEP_SECONDS)
            try:
                with translating_queue_errors(self._database.url):
                    await self._rescue()
                    await self._now_and_then()
            except ReMeError as error:
                log.warning("upkeep of the queue did not work and is tried again: %s", error)
            except Exception:  # of whatever kind: nobody waits for this task, and without it much would be left undone
                log.exception("upkeep of the queue did not work and is tried again")

    async def _rescue(self) -> None:
        """Give jobs of workers that died back to the queue."""
        # In one statement: procrastinate's, for each job, fails if another worker gave it back a moment ago.
        own = self._queue_worker.worker_id if self._queue_worker is not None else None
        values = {"seconds": STALLED_SECONDS, "own": own}
        for (job_id,) in await self._database.execute_anywhere(_SQL["rescue"], values):
            log.warning("job %s was left by a worker that died; it runs again", job_id)


async def _cancel_until_done(tasks: Collection[asyncio.Task[Any]]) -> None:
    # Again and again: a task that waits with a time limit may lose a cancellation.
    while tasks := {task for task in tasks if not task.done()}:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=_RETRY_SECONDS)


def _report_end(ended: asyncio.Task[None]) -> None:
    if not ended.cancelled() and (error := ended.exception()) is not None:
        log.error("background work has ended by an error; it begins again with the next message recorded: %s", error)


@contextlib.contextmanager
def translating_queue_errors(url: str) -> Iterator[None]:
    """Raise our errors for those of the driver about the database at `url`, also if the queue has wrapped them."""
    with translating_errors(url):
        try:
            yield
        except ConnectorException as error:
            if error.__cause__ is None:
                raise
            raise error.__cause__ from None
