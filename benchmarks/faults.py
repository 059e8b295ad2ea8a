"""Is anything lost, doubled, stale, brought back or shown to others, while processes and connections die?

    python -m benchmarks.faults [--runs 3] [--seed 1] [--seconds 12] [--kinds client_killed …] [--folder DIR]

Two processes write to two workspaces, and serve a third that no fault is aimed at, while a fault strikes again and
again. Each writes into a history what it begins and what it is told. Then a last process delivers what waits and does
the jobs, and the checker (`benchmarks/checker.py`) compares histories and tables. Histories stay in the folder, under
kind, seed and run. Each kind has an embedded server of its own. To fill a disk, one is mounted: only root can do that.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from multiprocessing.synchronize import Semaphore
from pathlib import Path
from typing import Any

import psutil
import psycopg

from benchmarks import checker
from benchmarks.common import embedded_server, report
from benchmarks.fault_client import Order, follow
from reme_core.postgres import migrate
from reme_core.postgres.embedded.server import EmbeddedServer
from reme_core.postgres.session import WRITE_LOCK
from reme_core.testing import Gate

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["benchmarks.fault_client"])  # which is read once, and not by each client


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
    clients: list[ForkServerProcess] = field(default_factory=list)
    _ready: Semaphore = field(default_factory=lambda: PROCESSES.Semaphore(0))

    def start_client(self, seconds: float) -> ForkServerProcess:
        """Start one; without any `seconds`, the one that finishes what is left."""
        number = len(list(self.folder.glob("history-*.jsonl")))
        history = self.folder / f"history-{number}.jsonl"
        history.touch()
        order = Order(
            data_dir=self.data_dir, url=self.gate.url if self.kind == "connections_cut" else None,
            spool=self.data_dir / f"spool-{self.kind}-{self.run}.sqlite3", history=history,
            run=self.run, number=number, seed=f"{self.options.seed} {self.kind} {self.run}",
            seconds=max(0, seconds), cancel=0.15 if self.kind == "calls_cancelled" else 0,
            plant=self.options.plant, pause=self.options.pause, quiet=self.options.quiet,
            retention=self.options.retention,
        )  # fmt: skip
        client = PROCESSES.Process(target=follow, args=[order, self._ready])
        client.start()
        return client

    def start_clients(self, seconds: float, many: int) -> None:
        """Start so many, and return when all of them are ready."""
        self.clients = [self.start_client(seconds) for _ in range(many)]
        if not all(self._ready.acquire(timeout=300) for _ in self.clients):
            raise RuntimeError(f"a client did not start: see the logs in {self.folder}")

    def finish(self) -> None:
        """Wait for the clients, and for a last one that delivers what waits and does the jobs."""
        for client in self.clients:
            client.join(300 + self.options.quiet)
        EmbeddedServer.acquire(self.data_dir).release()  # nobody may be left who would start it again
        self.clients.append(self.start_client(0))
        self.clients[-1].join(300)
        if any(client.exitcode != 0 for client in self.clients):
            raise RuntimeError(f"a client failed, and not by the fault: see the logs in {self.folder}")

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


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A disk of its own for a folder, a file system in a file; to mount it one has to be root."""
    with tempfile.NamedTemporaryFile(prefix="reme-disk-") as image:
        image.truncate(2**31)
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", image.name], check=True)
        subprocess.run(["mount", "-o", "loop", image.name, str(folder)], check=True)
        try:
            yield
        finally:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill_disk(world: World) -> None:
    """Leave no byte free where the database and the spool are, and every other time no log to write to either."""
    filler = world.data_dir / "filler"
    try:
        with filler.open("wb") as file, suppress(OSError):  # what is free is less than that by what its own blocks take
            os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(world.data_dir).free)
        time.sleep(1.0)
        with psycopg.connect(world.url, autocommit=True) as connection:
            for _ in range(world.random.randrange(2) * WAL_FILES):
                connection.execute("select pg_logical_emit_message(false, 'fill', ''), pg_switch_wal()")
        time.sleep(1.0)
    finally:
        filler.unlink()


def kill_client(world: World) -> None:
    place = world.random.randrange(len(world.clients))
    world.clients[place].kill()
    world.clients[place].join()
    world.clients[place] = world.start_client(world.until - time.monotonic())


WAL_FILES = 12  # more than Postgres keeps ready (`min_wal_size`); without a next one it ends in a panic

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
    "disk_full": (fill_disk, 2.0),
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
        world.start_clients(options.seconds, 2)
        world.until = time.monotonic() + options.seconds
        while time.monotonic() < world.until - 1.0:
            with suppress(psycopg.OperationalError, psutil.NoSuchProcess):  # it is away already
                KINDS[kind][0](world)
            time.sleep(seeded.uniform(0.5, 1.5) * KINDS[kind][1])
        world.finish()
    verdict = checker.judge(folder.glob("history-*.jsonl"), url, run)
    (folder / "verdict.json").write_text(json.dumps(verdict.failures, indent=1))
    return verdict


def strike_kind(kind: str, options: argparse.Namespace) -> int:
    """All runs of one kind, on a server of their own; prints a row, and returns how many failures there were."""
    data_dir = Path(tempfile.mkdtemp(prefix="reme-", dir="/tmp"))  # short: the server's socket stands in it
    with small_disk(data_dir) if kind == "disk_full" else nullcontext(), embedded_server(data_dir) as url:
        migrate.upgrade(url)
        verdicts = [strike(kind, run, data_dir, url, options) for run in range(options.runs)]
    print(checker.row(kind, verdicts, os.getloadavg()[2]), flush=True)
    return sum(len(found) for verdict in verdicts for found in verdict.failures.values())


def strike_all(options: argparse.Namespace) -> int:
    """Strike with each kind, print the table, and return how many failures there were."""
    options.folder = options.folder or Path(tempfile.mkdtemp(prefix="reme-faults-"))
    print(checker.HEAD, flush=True)
    failures = sum(strike_kind(kind, options) for kind in options.kinds)
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
    parser.set_defaults(pause=0.0, quiet=0.0, retention={})  # see `benchmarks.soak`
    options = parser.parse_args()
    sys.exit(min(strike_all(options), 1))


if __name__ == "__main__":
    main()
