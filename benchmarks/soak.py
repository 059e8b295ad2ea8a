"""Does anything grow that should not, over hours of work? Memory, file handles, connections, tables, the queue.

    python -m benchmarks.soak [--minutes 5] [--folder DIR]

Two processes write, change, erase and read as in `benchmarks.faults`, without faults. Every quarter of a minute it is
noted what they hold. The last line compares the first third after the first minute, in which they warm up, with the
last third. Tables of memory grow with what is remembered; logs and jobs until their time is over (`retention`).
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from pathlib import Path

import psutil
import psycopg

from benchmarks.common import report
from benchmarks.faults import World
from reme_core.postgres import migrate
from reme_core.postgres.embedded.server import EmbeddedServer, stop_embedded
from reme_core.testing import Gate

PAUSE_SECONDS = 15.0
WARM_UP_SECONDS = 60.0
STATE = """
select (select count(*) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()),
       (select count(*) from reme.procrastinate_jobs
        where status = 'todo' and scheduled_at < now() - interval '1 minute'),
       (select count(*) from reme.memory) + (select count(*) from reme.message),
       (select sum(pg_total_relation_size(c.oid)) / 1e6 from pg_class c
        where c.relnamespace = 'reme'::regnamespace and c.relkind = 'r')
"""
COLUMNS = ("minute", "rss_mb", "files", "threads", "connections", "late_jobs", "things", "tables_mb")


def look(begun: float, clients: list[psutil.Process], url: str) -> dict[str, float]:
    """What the clients and the database hold now."""
    with psycopg.connect(url) as connection:
        state = connection.execute(STATE).fetchone()
    assert state is not None
    rss = sum(client.memory_info().rss for client in clients) / 1e6
    files, threads = sum(client.num_fds() for client in clients), sum(client.num_threads() for client in clients)
    values = ((time.monotonic() - begun) / 60, rss, files, threads, *map(float, state))
    return {name: round(value, 1) for name, value in zip(COLUMNS, values, strict=True)}


def soak(options: argparse.Namespace, data_dir: Path, url: str) -> list[dict[str, float]]:
    """Let two clients work, and look at them until they end."""
    seconds, looks = options.minutes * 60, []
    with Gate(url) as gate:
        world = World(data_dir, url, gate, options.folder, "nothing", 0, options, random.Random(options.seed))
        clients = [world.start_client(seconds) for _ in range(2)]
        processes = [psutil.Process(client.pid) for client in clients]
        for client in clients:
            assert client.stdout is not None
            client.stdout.readline()
        begun = time.monotonic()
        print(f"| {' | '.join(COLUMNS)} |\n|{'---:|' * len(COLUMNS)}")
        while time.monotonic() < begun + seconds - PAUSE_SECONDS:
            time.sleep(PAUSE_SECONDS)
            looks.append(look(begun, processes, url))
            print(f"| {' | '.join(f'{value:g}' for value in looks[-1].values())} |", flush=True)
        if any(client.wait(timeout=120) for client in clients):
            raise RuntimeError(f"a client failed: see the logs in {options.folder}")
    return looks


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--folder", type=Path, help="for histories; default: a new one")
    options = parser.parse_args()
    options.plant = None
    options.folder = options.folder or Path(tempfile.mkdtemp(prefix="reme-soak-"))
    options.folder.mkdir(parents=True, exist_ok=True)
    data_dir = Path(tempfile.mkdtemp(prefix="reme-", dir="/tmp"))
    server = EmbeddedServer.acquire(data_dir)
    try:
        migrate.upgrade(server.url)
        looks = soak(options, data_dir, server.url)
    finally:
        stop_embedded(data_dir)
        server.release()
    warm = [one for one in looks if one["minute"] * 60 > WARM_UP_SECONDS]
    third = max(1, len(warm) // 3)
    first, last = warm[:third], warm[-third:]
    growth = {
        name: round(statistics.mean(one[name] for one in last) / statistics.mean(one[name] for one in first), 3)
        for name in ("rss_mb", "files", "threads", "connections")
    }
    report(benchmark="soak", minutes=options.minutes, growth=growth, last=looks[-1], folder=str(options.folder))


if __name__ == "__main__":
    main()
