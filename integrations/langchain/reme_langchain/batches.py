"""Operations of a store that are asked for together are carried out together, as LangGraph's own stores do it."""

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
"""Callers whose operations are carried out together."""


@dataclass(slots=True)
class _Call:
    ops: Sequence[Op]
    answer: asyncio.Future[list[Result]]


@dataclass(slots=True)
class _Queue:
    waiting: list[_Call] = field(default_factory=list)
    worker: asyncio.Task[None] | None = None


class Batches:
    """Takes operations, and runs those of all callers in an event loop that came since the last batch began."""

    def __init__(self, run: Callable[[Sequence[Op]], Awaitable[list[Result]]]) -> None:
        """Carry operations out by `run`, one batch after the other in an event loop."""
        self._run = run
        self._queues: WeakKeyDictionary[asyncio.AbstractEventLoop, _Queue] = WeakKeyDictionary()
        self._lock = threading.Lock()

    async def ask(self, ops: Sequence[Op]) -> list[Result]:
        """The results of operations, which run with those of others in this event loop."""
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
        finally:  # where this is cancelled, as an event loop does that ends, nobody may wait for ever
            for call in (*batch, *queue.waiting):
                call.answer.cancel()
            queue.waiting.clear()
            queue.worker = None

    async def _answer(self, batch: Sequence[_Call]) -> None:
        try:
            results = await self._run([op for call in batch for op in call.ops])
        except Exception as error:
            if len(batch) > 1 and not isinstance(error, DatabaseError):  # it is the fault of one caller: look for him
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
