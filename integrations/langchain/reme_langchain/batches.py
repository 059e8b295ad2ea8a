"""`Batches`: carries out the operations of concurrent callers of a store together, as LangGraph's own stores do."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final
from weakref import WeakKeyDictionary

from langgraph.store.base import Op, Result

from reme_core.errors import DatabaseError

MOST: Final = 5_000
"""How many calls one batch takes at most."""


@dataclass(slots=True)
class _Call:
    ops: Sequence[Op]
    answer: asyncio.Future[list[Result]]


@dataclass(slots=True)
class _Queue:
    waiting: list[_Call] = field(default_factory=list)
    worker: asyncio.Task[None] | None = None


class Batches:
    """Collects the operations of all callers in an event loop while a batch runs, and runs them as the next one."""

    def __init__(self, run: Callable[[Sequence[Op]], Awaitable[list[Result]]]) -> None:
        """Use `run` for a batch; in each event loop one batch runs after the other."""
        self._run = run
        self._queues: WeakKeyDictionary[asyncio.AbstractEventLoop, _Queue] = WeakKeyDictionary()
        self._lock = threading.Lock()

    async def ask(self, ops: Sequence[Op]) -> list[Result]:
        """Run operations together with those of other callers in this event loop, and return their results."""
        loop = asyncio.get_running_loop()
        with self._lock:
            queue = self._queues.setdefault(loop, _Queue())
        call = _Call(ops, loop.create_future())
        queue.waiting.append(call)
        if queue.worker is None:
            queue.worker = loop.create_task(self._work(queue))
        return await call.answer

    async def _work(self, queue: _Queue) -> None:
        batch: list[_Call] = []
        try:
            while queue.waiting:
                batch = [call for call in queue.waiting[:MOST] if not call.answer.done()]
                del queue.waiting[:MOST]
                await self._answer(batch)
        finally:  # if this task is cancelled, as at the end of the event loop, no caller may wait for ever
            for call in (*batch, *queue.waiting):
                call.answer.cancel()
            queue.waiting.clear()
            queue.worker = None

    async def _answer(self, batch: Sequence[_Call]) -> None:
        try:
            results = await self._run([op for call in batch for op in call.ops])
        except Exception as error:  # each caller gets the error of its own call
            if len(batch) > 1 and not isinstance(error, DatabaseError):  # find the one call that fails
                await self._answer(batch[: len(batch) // 2])
                await self._answer(batch[len(batch) // 2 :])
                return
            for call in batch:
                if not call.answer.done():
                    call.answer.set_exception(error)
            return
        place = 0
        for call in batch:
            if not call.answer.done():
                call.answer.set_result(results[place : place + len(call.ops)])
            place += len(call.ops)
