"""A client of `benchmarks.faults`: it writes, changes, reads and erases at random, and keeps a history of it."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import runpy
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.synchronize import Semaphore
from pathlib import Path
from typing import Any, NoReturn

from benchmarks import checker
from reme_core import AsyncReMe, Memory, Message, Settings
from reme_core.episodes.rules import Episode
from reme_core.errors import ReMeError
from reme_core.store.tool_calls import ToolCallResult
from reme_core.turn import TurnMemory


@dataclass(frozen=True, slots=True)
class Order:
    """What a client is to do."""

    data_dir: Path
    url: str | None
    """The database, where it is not the embedded one of `data_dir`."""
    spool: Path
    history: Path
    run: int
    number: int
    seed: str
    seconds: float
    """How long to work; 0 is to finish what others left."""
    cancel: float
    """Which share of its calls it cancels."""
    pause: float
    """Mean seconds between two calls of one of its tasks."""
    quiet: float
    """How many seconds to stay open after work."""
    retention: dict[str, float]
    plant: str | None
    """A Python file to run first."""


WHAT = ("message", "message", "turn", "memory", "memory", "memory", "call", "episode")


class Over(Exception):
    """The time of a client is up."""


class Client:
    """Does random operations in the workspaces of a run, and writes its history."""

    def __init__(self, reme: AsyncReMe, turns: dict[str, TurnMemory], order: Order) -> None:
        self.reme, self.turns = reme, turns
        self.random = random.Random(f"{order.seed} {order.number}")
        self.until = time.monotonic() + order.seconds
        self._cancel, self._pause = order.cancel, order.pause
        self._numbers = itertools.count(order.number * 1_000_000)
        self._history = os.open(order.history, os.O_WRONLY | os.O_APPEND)

    async def attempt(self, work: Callable[[], Awaitable[Any]], *, calm: bool = False, **entry: Any) -> None:
        """Do something until it is acknowledged; what failed is done again, as a caller would."""
        begun = time.monotonic()
        while time.monotonic() < self.until:
            self._note(entry, phase="begin")
            is_cancelled = self.random.random() < self._cancel
            try:
                async with asyncio.timeout(self.random.uniform(0, 0.03) if is_cancelled else 60):
                    result = await work()
            except (ReMeError, TimeoutError) as error:
                self._note(entry, phase="error", error=f"{type(error).__name__}: {error}"[:300])
                await asyncio.sleep(0 if is_cancelled else 0.2)
                continue
            shown = {"read": [result], "recall": getattr(result, "hits", [])}.get(entry["op"], [])
            seen = [token for memory in shown for token in checker.TOKEN.findall(memory.content)]
            self._note(entry, phase="ok", seen=seen, calm=time.monotonic() - begun if calm else 0)
            return await asyncio.sleep(self.random.uniform(0, 2 * self._pause))
        self._note(entry, phase="over", calm=time.monotonic() - begun if calm else 0)
        raise Over

    def _note(self, entry: dict[str, Any], **more: Any) -> None:
        os.write(self._history, (json.dumps(entry | more) + "\n").encode())

    def _token(self, workspace: str) -> str:
        return f"{workspace}n{next(self._numbers)}e"

    async def write(self, kind: str, workspace: str, **more: Any) -> str:
        """Write one thing of a kind, and return its token."""
        reme, token = self.reme, self._token(workspace)
        said = Message(message_id=token, session_id=f"s{self.random.randrange(3)}", content=f"My locker is {token}.")
        ways: dict[str, Callable[[], Awaitable[Any]]] = {
            "message": partial(reme.record, workspace, said),
            "turn": partial(self.turns[workspace].keep, [said]),
            "memory": partial(reme.memories.add, workspace, Memory(memory_id=token, content=f"Locker {token}.")),
            "call": partial(reme.tools.record, workspace, [ToolCallResult(tool_name="t", output=token)]),
            "episode": partial(reme.episodes.record, workspace, Episode(episode_id=token, summary="It went.")),
        }
        await self.attempt(ways[kind], op="write", kind=kind, workspace=workspace, id=token, **more)
        return token

    async def work(self, workspace: str) -> NoReturn:
        """Write things until the time is up; a memory is read, changed, recalled and erased, or left before."""
        while True:
            kind = self.random.choice(WHAT)
            token = now = await self.write(kind, workspace)
            for step in ("read", "edit", "read", "recall", "erase")[: self.random.randrange(6) * (kind == "memory")]:
                now = self._token(workspace) if step == "edit" else now
                ways: dict[str, Callable[[], Awaitable[Any]]] = {
                    "read": partial(self.reme.memories.get, workspace, token),
                    "edit": partial(self.reme.memories.update, workspace, token, content=f"Locker {now}."),
                    "recall": partial(self.reme.recall, workspace, now, limit=20),
                    "erase": partial(self._erase, workspace, token),
                }
                await self.attempt(ways[step], op=step, workspace=workspace, id=token, token=now)

    async def _erase(self, workspace: str, memory_id: str) -> None:
        with suppress(LookupError):  # an attempt that was not acknowledged has erased it
            await self.reme.memories.delete(workspace, memory_id, erase=True)

    async def serve(self, workspace: str) -> NoReturn:
        """Add and recall in a workspace that no fault is aimed at, now and then, until the time is up."""
        while True:
            token = await self.write("memory", workspace, calm=True)
            work = partial(self.reme.recall, workspace, token)
            await self.attempt(work, op="recall", workspace=workspace, id=token, calm=True)
            await asyncio.sleep(0.2)


async def run_client(order: Order, ready: Semaphore) -> None:
    """Write, change and read until the time is up; where there is none, deliver what waits and do the jobs."""
    worker = {"after_messages": 3, "after_seconds": 1.0}
    settings = Settings.of(
        {"data_dir": order.data_dir, "database_url": order.url, "worker": worker, "retention": order.retention}
    )
    workspaces = [f"r{order.run}w{number}" for number in range(3)]
    async with AsyncExitStack() as stack:
        reme = await stack.enter_async_context(AsyncReMe(settings))
        turns = {
            name: TurnMemory(client=reme, workspace_id=name, spool=order.spool, on_error="raise") for name in workspaces
        }
        for turn in turns.values():
            await stack.enter_async_context(turn)
        if order.seconds:
            # Loads the embedding model. The log of it is written to its workspace, which a frozen client would lock.
            await reme.recall(workspaces[order.number and 2], "What is there?")
            ready.release()
            client = Client(reme, turns, order)
            ways = [client.work(name) for name in workspaces[:2] for _ in range(3)]
            if order.number:  # the first may be frozen, and with it what it would serve
                ways.append(client.serve(workspaces[2]))
            for ended in await asyncio.gather(*ways, return_exceptions=True):
                if not isinstance(ended, Over):
                    raise ended
            await asyncio.sleep(order.quiet)
        else:
            for name in workspaces:
                await turns[name].begin("What is there?")
                await reme.background.drain(name)


def follow(order: Order, ready: Semaphore) -> None:
    """Be the client, in a process of its own; what it says to stderr stands beside its history."""
    with order.history.with_suffix(".log").open("w") as log:
        os.dup2(log.fileno(), 2)
    if order.plant:
        runpy.run_path(order.plant)
    asyncio.run(run_client(order, ready))
