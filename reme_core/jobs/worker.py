"""The worker of one process: it takes jobs from the queue until it is told to stop, through outages of the database.

procrastinate's own worker ends when its database goes away: by an error, or as if it had been told to stop. So this one
looks only at whether it was told to. It is told by a flag, and not by a cancellation: a worker that is only starting
can lose that, and one that works turns it into a normal end.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from typing import Any

from procrastinate import App
from procrastinate.exceptions import ConnectorException
from procrastinate.worker import Worker as QueueWorker

from reme_core.errors import ReMeError
from reme_core.postgres.database import Database
from reme_core.postgres.errors import translating_errors
from reme_core.settings import WorkerSettings

log = logging.getLogger(__name__)


class _InWords(logging.Filter):
    """An error of ours says what was wrong and what to do; where it came up in the code helps nobody at a worker."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, ReMeError):
            record.msg, record.args = f"{record.getMessage()}: {error}", ()
            record.exc_info = record.exc_text = None
        return True


logging.getLogger("procrastinate.worker").addFilter(_InWords())

QUEUE, CHAT_QUEUE = "reme", "reme.chat"  # jobs for every process, and those that need a chat model
_RETRY_SECONDS = 0.2  # until a task that lost its cancellation is cancelled again
_UPKEEP_SECONDS = 15.0  # how often a worker looks for stalled jobs, and for what is due
_POLL_SECONDS = 2.0  # a job whose time comes, or is moved, announces itself to nobody
_STALLED_SECONDS = 35.0  # a worker whose heartbeat (every ten seconds) is older than this is dead
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 15.0  # between looks at a database that is away
_SETTLED_SECONDS = 30.0  # having worked for so long, a worker has overcome its outage; the next one is a new one


class Worker:
    """Works on the jobs of one database, as many at a time as the settings say.

    Args:
        database: Where the queue is.
        app: The queue, with its tasks.
        settings: How many jobs at a time.
        queues: Which jobs it takes.
        now_and_then: What else a worker has to do, every quarter of a minute.
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
        """Begin to work, if that isn't so already."""
        if not self._stopping.is_set() and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._keep_working())
            self._task.add_done_callback(_tell)

    @property
    def task(self) -> asyncio.Task[None]:
        """The work itself; it goes on until it is stopped, so it is done only after an error.

        Raises:
            ReMeError: It was not started.
        """
        if self._task is None:
            raise ReMeError("no worker runs here; start one with background.start()")
        return self._task

    async def work_off(self) -> None:
        """Work on what is due now, and return when nothing is.

        Raises:
            DatabaseUnavailableError: The database went away; what is left waits.
        """
        with translating_queue_errors(self._database.url):
            await self._rescue()
            await self._worker_of_queue(wait=False).run()

    def take_on(self) -> None:
        """Say, in the task that the queue runs a job in, that this is one: `aclose` waits for it to its very end."""
        task = asyncio.current_task()
        assert task is not None
        self._jobs.add(task)
        task.add_done_callback(self._jobs.discard)

    async def aclose(self, patience: float) -> None:
        """Stop: jobs that run are finished if they take no longer than `patience` seconds, else they run again."""
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
        while not self._stopping.is_set():
            begun, lost = time.monotonic(), "it closed the connection"
            try:
                with translating_queue_errors(self._database.url):
                    await self._rescue()
                    begun = time.monotonic()
                    await self._work()
            except ReMeError as error:
                lost = str(error)
            if self._stopping.is_set():
                return
            if task is not None and task.cancelling():  # what breaks off under a cancellation may hide it
                raise asyncio.CancelledError
            if time.monotonic() - begun > _SETTLED_SECONDS:
                away, pause = False, _FIRST_PAUSE_SECONDS
            if not away:
                log.warning("background work waits for the database: %s", lost)
            away = True
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    async def _work(self) -> None:
        """Work until told to stop, or until the database is away: then by an error or without one."""
        if self._stopping.is_set():  # in the meantime; the queue's worker forgets what it was told before it runs
            return
        self._queue_worker = self._worker_of_queue(wait=True)
        upkeep = asyncio.get_running_loop().create_task(self._keep_up())
        try:
            await self._queue_worker.run()
        finally:
            await _cancel_until_done({upkeep})

    def _worker_of_queue(self, *, wait: bool) -> QueueWorker:
        return QueueWorker(
            self._app,
            queues=self._queues,
            wait=wait,
            concurrency=self._settings.concurrency,
            install_signal_handlers=False,
            listen_notify=wait,
            fetch_job_polling_interval=_POLL_SECONDS,
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

    async def _rescue(self) -> None:
        """Give jobs of workers that died back to the queue."""
        await self._app.connector.open_async(self._database.pool)  # does nothing when it is open
        manager = self._app.job_manager
        for queue in (QUEUE, CHAT_QUEUE):
            for job in await manager.get_stalled_jobs(queue=queue, seconds_since_heartbeat=_STALLED_SECONDS):
                log.warning("job %s was left by a worker that died; it runs again", job.id)
                await manager.retry_job(job)


async def _cancel_until_done(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks again and again until they end: one that waits with a time limit may lose a cancellation."""
    while tasks := {task for task in tasks if not task.done()}:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=_RETRY_SECONDS)


def _tell(ended: asyncio.Task[None]) -> None:
    if not ended.cancelled() and (error := ended.exception()) is not None:
        log.error("background work has ended by an error; it begins again with the next message recorded: %s", error)


@contextlib.contextmanager
def translating_queue_errors(url: str) -> Iterator[None]:
    """Raise our errors for those that the queue wraps around the driver's, about the database at `url`."""
    with translating_errors(url):
        try:
            yield
        except ConnectorException as error:
            if error.__cause__ is None:
                raise
            raise error.__cause__ from None
