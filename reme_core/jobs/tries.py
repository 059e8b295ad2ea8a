"""When a job that broke off runs again, and when it is given up."""

from __future__ import annotations

from procrastinate import BaseRetryStrategy, RetryDecision
from procrastinate.jobs import Job

_PAUSE_SECONDS = 15


class Tries(BaseRetryStrategy):
    """Pauses of 4, 16, 64 … seconds after failures; eight further tries span about a day.

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

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
        """What the queue is to do with a job that broke off; None is to give it up."""
        failures = self._failures.pop(job.id, 0)
        if failures > self._most:
            return None
        return RetryDecision(retry_in={"seconds": 4**failures if failures else _PAUSE_SECONDS})
