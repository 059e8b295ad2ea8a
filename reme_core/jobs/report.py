"""What the queue tells of its jobs: one of them, how much waits, and what came of a summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from reme_core.errors import InputError, did_you_mean

STATUSES: Final = ("todo", "doing", "succeeded", "failed", "cancelled", "aborted")
"""The statuses of jobs; `failed` are those that were given up."""
_KNOWN: Final = f"there are {', '.join(STATUSES)}"


@dataclass(frozen=True, slots=True)
class Job:
    """One piece of background work, as `reme jobs` shows it."""

    id: int
    task: str
    status: str
    """One of `STATUSES`."""
    workspace: str
    session_id: str
    attempts: int
    scheduled_at: datetime | None
    changed_at: datetime | None
    error: str | None
    """Why it failed the last time; for a job that succeeded, the operations that were refused."""
    needs: str
    """What a process must have to take the job: `chat model`, or nothing."""


@dataclass(frozen=True, slots=True)
class QueueLoad:
    """How much waits in the queue, for all workspaces together."""

    due: int
    """How many jobs could run now, those that a dead worker left among them."""
    oldest_seconds: float
    """For how many seconds the oldest of them could have run."""
    retrying: int
    """How many jobs broke off and run again, now or later."""
    failed: int
    """How many jobs were given up."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The jobs of the conversations that waited for their summary, by their outcome."""

    done: list[Job]
    """Jobs that succeeded; `error` says which operations were refused, if any."""
    failed: list[Job]
    """Jobs that failed; `error` says why. They are tried again later, or were given up (`status` is `failed`)."""
    waiting: list[Job]
    """Jobs that nobody took; `needs` says what they wait for."""

    @property
    def reasons(self) -> str:
        """Why jobs failed."""
        return "; ".join(sorted({job.error or "no reason was kept" for job in self.failed}))


def check_statuses(given: Sequence[str] | None) -> list[str] | None:
    """The statuses by which somebody looks for jobs, or None for all.

    Raises:
        InputError: There is no such status.
    """
    for name in given or ():
        if name not in STATUSES:
            raise InputError(f"there is no status '{name}'; {did_you_mean(name, STATUSES, _KNOWN)}")
    return None if given is None else list(given)
