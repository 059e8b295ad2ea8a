"""Work that workspaces ask for now and then, and that is done for each of them in rounds."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

_AGAIN_SECONDS = 10.0  # after which a round that failed is run again, if it is to be
_QUIET_SECONDS = 2.0  # without being asked for, after which a round begins that waits for quiet
_MOST_SECONDS = 300.0  # after which a round begins though asking never stops: most bulk loads take less


class Rounds:
    """Runs rounds of work: one at a time for each workspace, and another if it is asked for during a round.

    A round that fails is told in the log, and to nobody else.

    Args:
        what: What a round does, for the log.
        work: A round for a workspace.
        meanwhile: What is done while they go on asking: a round begins when nobody has asked for a moment. None: it
            begins at once.
        again: Whether a round that failed is run again after a while, or only when somebody asks.
    """

    def __init__(
        self,
        what: str,
        work: Callable[[str], Awaitable[None]],
        *,
        meanwhile: Callable[[], Awaitable[None]] | None = None,
        again: bool = False,
    ) -> None:
        self._what = what
        self._work = work
        self._meanwhile = meanwhile
        self._again = again
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._asked_at: dict[str, float] = {}  # of rounds that have not begun, the last time
        self._ended: dict[str, asyncio.Event] = {}  # of the rounds that were asked for last
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._closing = asyncio.Event()

    def ask(self, workspace: str) -> asyncio.Event:
        """Ask for a round; the event is set when one that began after this call has ended, well or not."""
        # A round that has begun may have looked too early for what the caller has written; one that has not will do.
        if workspace not in self._asked_at:
            self._ended[workspace] = asyncio.Event()
        self._asked_at[workspace] = time.monotonic()
        if workspace not in self._tasks:
            self._tasks[workspace] = asyncio.create_task(self._run(workspace))
        return self._ended[workspace]

    async def wait(self, workspace: str, patience: float) -> None:
        """Wait until the round that was asked for last has ended, or `patience` seconds."""
        if (ended := self._ended.get(workspace)) is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), patience)

    async def aclose(self, patience: float) -> None:
        """Let rounds end for `patience` seconds, then cancel them. Those that wait for quiet begin at once."""
        self._again = False  # what fails from now on is tried again by the next process
        self._closing.set()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        tasks = set(self._tasks.values())
        if tasks and patience:
            await asyncio.wait(tasks, timeout=patience)
        for task in tasks:
            task.cancel()
        for ended in self._ended.values():  # a task that is cancelled before its first step does nothing
            ended.set()

    async def _run(self, workspace: str) -> None:
        try:
            while workspace in self._asked_at:
                await self._run_round(workspace, self._ended[workspace])
        finally:
            del self._tasks[workspace], self._ended[workspace]
            self._asked_at.pop(workspace, None)  # of one that was asked for during a round that was broken off

    async def _run_round(self, workspace: str, ended: asyncio.Event) -> None:
        try:
            try:
                if self._meanwhile is not None:
                    await self._wait_for_quiet(workspace, self._meanwhile)
            finally:
                del self._asked_at[workspace]
            await self._work(workspace)
        except Exception as error:  # whatever it is, a later round may go well
            log.warning("%s of workspace '%s' failed and waits for its next time: %s", self._what, workspace, error)
            if self._again and workspace not in self._timers:
                loop = asyncio.get_running_loop()
                self._timers[workspace] = loop.call_later(_AGAIN_SECONDS, self._ask_again, workspace)
        finally:
            ended.set()

    async def _wait_for_quiet(self, workspace: str, meanwhile: Callable[[], Awaitable[None]]) -> None:
        last = time.monotonic() + _MOST_SECONDS
        while (until := min(self._asked_at[workspace] + _QUIET_SECONDS, last)) > time.monotonic():
            await meanwhile()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), until - time.monotonic())
                return  # who closes asks no more

    def _ask_again(self, workspace: str) -> None:
        del self._timers[workspace]
        self.ask(workspace)
