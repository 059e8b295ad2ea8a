"""Is anything lost, doubled, stale, brought back or shown to others, while processes and connections die?

    python -m benchmarks.faults [--runs 3] [--seed 1] [--seconds 12] [--kinds client_killed …] [--folder DIR]

Two processes write to two workspaces, and serve a third that no fault is aimed at, while a fault strikes again and
again. Each writes into a history what it begins and what it is told. Then a last process delivers what waits and does
the jobs, and the checker (`benchmarks/checker.py`) compares histories and tables. Histories stay in the folder, under
kind, seed and run. The server is an embedded one of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import runpy
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import psycopg

from benchmarks import checker
from benchmarks.common import report
from reme_core import AsyncReMe, Memory, Message, Settings
from reme_core.episodes.rules import Episode
from reme_core.errors import ReMeError
from reme_core.postgres import migrate
from reme_core.postgres.embedded.server import EmbeddedServer, stop_embedded
from reme_core.postgres.session import WRITE_LOCK
from reme_core.store.tool_calls import ToolCallResult
from reme_core.testing import Gate
from reme_core.turn import TurnMemory

WHAT = ("message", "message", "turn", "memory", "memory", "memory", "call", "episode")


class Over(Exception):
    """The time of a client is up."""


class Client:
    """Does random operations in the workspaces of a run, and writes its history."""

    def __init__(self, reme: AsyncReMe, turns: dict[str, TurnMemory], order: SimpleNamespace) -> None:
        self.reme, self.turns = reme, turns
        self.random = random.Random(f"{order.seed} {order.number}")
        self.until = time.monotonic() + order.seconds
        self._cancel = order.cancel
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
            return self._note(entry, phase="ok", seen=seen, calm=time.monotonic() - begun if calm else 0)
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

    async def work(self, workspace: str) -> None:
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

    async def serve(self, workspace: str) -> None:
        """Add and recall in a workspace that no fault is aimed at, now and then, until the time is up."""
        while True:
            token = await self.write("memory", workspace, calm=True)
            work = partial(self.reme.recall, workspace, token)
            await self.attempt(work, op="recall", workspace=workspace, id=token, calm=True)
            await asyncio.sleep(0.2)


async def run_client(order: SimpleNamespace) -> None:
    """Write, change and read until the time is up; where there is none, deliver what waits and do the jobs."""
    worker = {"after_turns": 3, "after_seconds": 1.0}
    settings = Settings.of({"data_dir": order.data_dir, "database_url": order.url, "worker": worker})
    workspaces = [f"r{order.run}w{number}" for number in range(3)]
    async with AsyncExitStack() as stack:
        reme = await stack.enter_async_context(AsyncReMe(settings))
        turns = {
            name: TurnMemory(client=reme, workspace_id=name, spool=Path(order.spool), on_error="raise")
            for name in workspaces
        }
        for turn in turns.values():
            await stack.enter_async_context(turn)
        if order.seconds:
            await reme.recall(workspaces[2], "What is there?")  # loads the embedding model
            print("ready", flush=True)
            client = Client(reme, turns, order)
            ways = [client.work(name) for name in workspaces[:2] for _ in range(3)]
            if order.number:  # the first may be frozen, and with it what it would serve
                ways.append(client.serve(workspaces[2]))
            for ended in await asyncio.gather(*ways, return_exceptions=True):
                if not isinstance(ended, Over):
                    raise ended
        else:
            for name in workspaces:
                await turns[name].begin("What is there?")
                await reme.background.drain(name)


@dataclass
class World:
    """The processes and the database of one run."""

    data_dir: Path
    url: str
    gate: Gate
    folder: Path
    kind: str
    run: int
    options: argparse.Namespace
    random: random.Random
    until: float = 0.0
    clients: list[subprocess.Popen[str]] = field(default_factory=list)

    def start_client(self, seconds: float) -> subprocess.Popen[str]:
        """Start one and return when it is ready; without any `seconds`, the one that finishes what is left."""
        number = len(list(self.folder.glob("history-*")))
        history = self.folder / f"history-{number}.jsonl"
        history.touch()
        order = {
            "data_dir": str(self.data_dir), "url": self.gate.url if self.kind == "connections_cut" else None,
            "run": self.run, "number": number, "seed": f"{self.options.seed} {self.kind} {self.run}",
            "seconds": max(0, seconds), "cancel": 0.15 if self.kind == "calls_cancelled" else 0,
            "history": str(history), "spool": str(self.folder / "spool.sqlite3"), "plant": self.options.plant,
        }  # fmt: skip
        with (self.folder / f"client-{number}.log").open("w") as errors:
            command = [sys.executable, "-m", "benchmarks.faults", "--client", json.dumps(order)]
            return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)

    def server(self) -> psutil.Process:
        """The server's first process; it is waited for where it is just coming back."""
        while True:
            with suppress(OSError, ValueError, IndexError, psutil.NoSuchProcess):
                return psutil.Process(int((self.data_dir / "postgres" / "postmaster.pid").read_text().split()[0]))
            time.sleep(0.1)

    def backends(self, function: str = "abs", where: str = "true", most: int = 100) -> list[int]:
        """Call a function for connections, a random choice of so many, and return what it gives."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            found = connection.execute(
                f"select {function}(pid) from (select pid from pg_stat_activity where backend_type = 'client backend'"
                f" and pid <> pg_backend_pid() and {where} order by random() limit {most}) as chosen"
            )
            return [value for (value,) in found]


def kill_backend(world: World) -> None:
    for pid in world.backends(most=1):
        os.kill(pid, signal.SIGKILL)


def freeze(processes: list[psutil.Process], seconds: float) -> None:
    for process in processes:
        process.suspend()
    time.sleep(seconds)
    for process in processes:
        process.resume()


def hold_locks(world: World) -> None:
    with psycopg.connect(world.url) as connection:
        connection.execute(WRITE_LOCK, [f"r{world.run}w0"])
        connection.execute("select from reme.workspace where workspace_id = %s for update", [f"r{world.run}w0"])
        time.sleep(3.0)


def take_connections(world: World) -> None:
    with ExitStack() as taken:
        with suppress(psycopg.OperationalError):  # until one is refused
            while True:
                taken.enter_context(psycopg.connect(world.url))
        time.sleep(2.0)


def cut_connections(world: World) -> None:
    world.gate.close()
    time.sleep(world.random.uniform(0, 1.5))
    world.gate.open()


def kill_client(world: World) -> None:
    place = world.random.randrange(len(world.clients))
    world.clients[place].kill()
    world.clients[place].wait()
    world.clients[place] = world.start_client(world.until - time.monotonic())


# What happens, and about how many seconds later it happens again.
KINDS: dict[str, tuple[Callable[[World], Any], float]] = {
    "nothing": (lambda world: None, 1.0),
    "connections_ended": (lambda world: world.backends("pg_terminate_backend", most=3), 0.5),
    "backend_killed": (kill_backend, 4.0),
    "server_killed": (lambda world: world.server().kill(), 4.0),
    "server_restarted": (lambda world: world.server().send_signal(signal.SIGINT), 4.0),
    "server_frozen": (lambda world: freeze([world.server(), *world.server().children()], 2.0), 1.0),
    "statements_cancelled": (lambda world: world.backends("pg_cancel_backend", "state = 'active'"), 0.05),
    "locks_held": (hold_locks, 0.5),
    "connections_taken": (take_connections, 1.0),
    "connections_cut": (cut_connections, 1.0),
    "calls_cancelled": (lambda world: None, 1.0),  # the clients do it themselves
    "client_killed": (kill_client, 1.0),
    "client_frozen": (lambda world: freeze([psutil.Process(world.clients[0].pid)], 11.0), 1.0),
}


def strike(kind: str, run: int, data_dir: Path, url: str, options: argparse.Namespace) -> checker.Verdict:
    """One run of one kind of fault."""
    folder = options.folder / f"{kind}-{options.seed}-{run}"
    folder.mkdir(parents=True)
    seeded = random.Random(f"{options.seed} {run}")
    with Gate(url) as gate:
        world = World(data_dir, url, gate, folder, kind, run, options, seeded)
        world.clients = [world.start_client(options.seconds) for _ in range(2)]
        for client in world.clients:
            assert client.stdout is not None
            client.stdout.readline()
        world.until = time.monotonic() + options.seconds
        while time.monotonic() < world.until - 1.0:
            with suppress(psycopg.OperationalError, psutil.NoSuchProcess):  # it is away already
                KINDS[kind][0](world)
            time.sleep(seeded.uniform(0.5, 1.5) * KINDS[kind][1])
        ended = [client.wait(timeout=120) for client in world.clients]
        EmbeddedServer.acquire(data_dir).release()  # nobody may be left who would start it again
        ended.append(world.start_client(0).wait(timeout=300))
    if any(ended):
        raise RuntimeError(f"a client failed, and not by the fault: see the logs in {folder}")
    verdict = checker.judge(folder.glob("history-*.jsonl"), url, run)
    (folder / "verdict.json").write_text(json.dumps(verdict.failures, indent=1))
    return verdict


def strike_all(options: argparse.Namespace) -> int:
    """Strike with each kind, print the table, and return how many failures there were."""
    options.folder = options.folder or Path(tempfile.mkdtemp(prefix="reme-faults-"))
    data_dir = Path(tempfile.mkdtemp(prefix="reme-", dir="/tmp"))  # short: the server's socket stands in it
    server = EmbeddedServer.acquire(data_dir)
    runs, failures = itertools.count(), 0
    try:
        migrate.upgrade(server.url)
        print(checker.HEAD, flush=True)
        for kind in options.kinds:
            verdicts = [strike(kind, next(runs), data_dir, server.url, options) for _ in range(options.runs)]
            failures += sum(len(found) for verdict in verdicts for found in verdict.failures.values())
            print(checker.row(kind, verdicts), flush=True)
    finally:
        stop_embedded(data_dir)
        server.release()
    report(benchmark="faults", seed=options.seed, runs=options.runs, failures=failures, folder=str(options.folder))
    return failures


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=3, help="of each kind")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--seconds", type=float, default=12.0, help="of each run")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--folder", type=Path, help="for histories; default: a new one")
    parser.add_argument("--plant", help="a Python file that each client runs first, to plant a fault in the library")
    parser.add_argument("--client", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client:
        order = SimpleNamespace(**json.loads(options.client))
        if order.plant:
            runpy.run_path(order.plant)
        asyncio.run(run_client(order))
    else:
        sys.exit(min(strike_all(options), 1))


if __name__ == "__main__":
    main()
