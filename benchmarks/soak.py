"""Does anything grow that should not, over hours of work? Memory, file handles, connections, tables, the queue.

    python -m benchmarks.soak [--minutes 60] [--quiet 60] [--clients 8] [--pause 3] [--folder DIR]

Clients write, change, erase and read as in `benchmarks.faults`, with pauses. All the while one of them is frozen and a
transaction is held open; after 5 to 40 s the server is restarted, and it is another's turn. Then they are quiet. Every
half a minute it is noted what they hold, and in `sizes.jsonl` how large each table and index is. At the end the
checker judges, as for any fault. Logs, jobs and history are kept for a quarter of an hour here, so that it can be seen
that they go (workers delete them hourly); tables of memory grow with what is remembered.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil
import psycopg

from benchmarks import checker
from benchmarks.common import embedded_server, report
from benchmarks.faults import World, freeze
from reme_core.postgres import migrate
from reme_core.testing import Gate

PAUSE_SECONDS = 30.0
WARM_UP_MINUTES = 10.0
KEPT_DAYS = 15 / 24 / 60
SHOWN_FROM = 100_000  # bytes that a table or an index has in the end
STATE = """
select (select count(*) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()),
       (select count(*) from reme.procrastinate_jobs),
       (select coalesce(extract(epoch from now() - min(scheduled_at)), 0)
        from reme.procrastinate_jobs where status = 'todo' and scheduled_at < now()),
       (select max(n) from (select count(*) as n from reme.posting group by workspace_id, corpus, term) as terms),
       (select count(*) from reme.memory) + (select count(*) from reme.message),
       (select sum(pg_total_relation_size(oid)) / 1e6 from pg_class
        where relnamespace = 'reme'::regnamespace and relkind = 'r')
"""
COLUMNS = (
    "minute", "rss_mb", "server_mb", "files", "threads",
    "connections", "jobs", "queue_age", "segments", "things", "tables_mb",
)  # fmt: skip
SIZES = """
select relname, pg_relation_size(oid) from pg_class
where relnamespace = 'reme'::regnamespace and relkind in ('r', 'i') order by relname
"""


class Looks:
    """What the clients and the database hold, again and again."""

    def __init__(self, world: World, processes: list[psutil.Process]) -> None:
        self.begun = time.monotonic()
        self.rows: list[dict[str, float]] = []
        self.sizes: list[dict[str, int]] = []
        self._world, self._processes = world, processes
        print(f"| {' | '.join(COLUMNS)} |\n|{'---:|' * len(COLUMNS)}", flush=True)

    @property
    def minute(self) -> float:
        return (time.monotonic() - self.begun) / 60

    def look(self) -> None:
        """Look once, as soon as the server answers."""
        while True:
            with suppress(psycopg.OperationalError, psutil.NoSuchProcess):
                with psycopg.connect(self._world.url) as connection:
                    state, sizes = connection.execute(STATE).fetchone(), connection.execute(SIZES).fetchall()
                server = self._world.server()
                server_mb = sum(map(_own_mb, [server, *server.children()]))
                break
            time.sleep(0.5)  # it is just being restarted
        assert state is not None
        try:
            values = (
                self.minute,
                sum(process.memory_info().rss for process in self._processes) / 1e6,
                server_mb,
                sum(process.num_fds() for process in self._processes),
                sum(process.num_threads() for process in self._processes),
                *(float(value or 0) for value in state),
            )
        except psutil.NoSuchProcess as gone:
            raise RuntimeError(f"a client failed before its time: see the logs in {self._world.folder}") from gone
        self.rows.append({name: round(value, 1) for name, value in zip(COLUMNS, values, strict=True)})
        self.sizes.append(dict(sizes))
        with (self._world.folder / "sizes.jsonl").open("a") as file:
            file.write(json.dumps({"minute": self.rows[-1]["minute"]} | self.sizes[-1]) + "\n")
        print(f"| {' | '.join(f'{value:g}' for value in self.rows[-1].values())} |", flush=True)

    def growth(self, begin: float, end: float) -> dict[str, float]:
        """By how much each grew from the first third of a time, in minutes, to its last."""
        chosen = [row for row in self.rows if begin <= row["minute"] < end]
        third = max(1, len(chosen) // 3)
        first, last = chosen[:third], chosen[-third:]
        means = {name: [statistics.mean(row[name] for row in part) for part in (first, last)] for name in COLUMNS[1:]}
        return {name: round(after / before, 3) if before else after for name, (before, after) in means.items()}

    def at(self, minute: float) -> dict[str, int]:
        """The sizes of tables and indexes at a minute."""
        nearest = min(range(len(self.rows)), key=lambda place: abs(self.rows[place]["minute"] - minute))
        return self.sizes[nearest]


def _own_mb(process: psutil.Process) -> float:
    """What a process has in memory that it shares with no other."""
    with suppress(psutil.NoSuchProcess):
        return float(process.memory_full_info().uss) / 1e6
    return 0.0


def disturb(world: World) -> None:
    """Hold a transaction and freeze a client for a while, restart the server, and so on until the time is up."""
    while time.monotonic() < world.until:
        with suppress(psycopg.OperationalError, psutil.NoSuchProcess), psycopg.connect(world.url) as held:
            held.execute("select count(*) from reme.memory")
            freeze([psutil.Process(world.random.choice(world.clients).pid)], world.random.uniform(5, 40))
            world.server().send_signal(signal.SIGINT)
        time.sleep(0.5)


def soak(options: argparse.Namespace, data_dir: Path, url: str) -> tuple[Looks, checker.Verdict]:
    """Let the clients work and be quiet, and look at them until they end."""
    with Gate(url) as gate:
        world = World(data_dir, url, gate, options.folder, "nothing", 0, options, random.Random(options.seed))
        seconds = options.minutes * 60
        world.start_clients(seconds, options.clients)
        world.until = time.monotonic() + seconds
        looks = Looks(world, [psutil.Process(client.pid) for client in world.clients])
        disturber = threading.Thread(target=disturb, args=[world])
        disturber.start()
        while looks.minute * 60 < seconds + options.quiet - 2 * PAUSE_SECONDS:
            time.sleep(PAUSE_SECONDS)
            looks.look()
        disturber.join()
        world.finish()
    return looks, checker.judge(options.folder.glob("history-*.jsonl"), url, 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0, help="of work")
    parser.add_argument("--quiet", type=float, default=60.0, help="minutes without work, after it")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--pause", type=float, default=3.0, help="seconds between two calls of one of a client's tasks")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--folder", type=Path, help="for histories and sizes; default: a new one")
    options = parser.parse_args()
    options.plant, options.quiet = None, options.quiet * 60
    options.retention = {"log_days": KEPT_DAYS, "job_days": KEPT_DAYS, "history_days": KEPT_DAYS}
    options.folder = options.folder or Path(tempfile.mkdtemp(prefix="reme-soak-"))
    options.folder.mkdir(parents=True, exist_ok=True)
    data_dir = Path(tempfile.mkdtemp(prefix="reme-", dir="/tmp"))
    with embedded_server(data_dir) as url:
        migrate.upgrade(url)
        looks, verdict = soak(options, data_dir, url)
    work, end = options.minutes, options.minutes + options.quiet / 60
    times = (min(WARM_UP_MINUTES, work / 3), work / 2, work, end)
    print(
        f"\n| table or index, kB at minute | {' | '.join(f'{time:g}' for time in times)} |\n|---|{'---:|' * len(times)}"
    )
    for name, size in sorted(looks.at(end).items(), key=lambda item: -item[1]):
        if size > SHOWN_FROM:
            print(f"| {name} | {' | '.join(f'{looks.at(time).get(name, 0) / 1e3:.0f}' for time in times)} |")
    print(f"\n{checker.HEAD}\n{checker.row('soak', [verdict], os.getloadavg()[2])}")
    growth = {"work": looks.growth(times[0], work), "quiet": looks.growth(work + 1, end)}
    report(benchmark="soak", clients=options.clients, growth=growth, folder=str(options.folder))


if __name__ == "__main__":
    main()
