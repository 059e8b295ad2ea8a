"""How fast is a search beside mem0 and LangGraph's Postgres store, on the same server, with the same vectors?

    python -m benchmarks.peers --memories 10000 [--workspaces 1] [--zipf]

Each runs in a process of its own (`benchmarks/peer_client.py`), the peers in environments that are made with uv in the
user's cache. They take turns, so that all meet the same moods of the machine. All get the vectors of the texts ready
made, have an HNSW index, and are asked for ten memories of one workspace. mem0 searches by words too, and so do we.

- `p50`, `p95`: milliseconds of one search after another.
- `per_second`: searches of `--callers` callers at once.
- `rows`: how many of the ten rows came back, in the mean: a filter after an index leaves fewer.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import numpy as np
import platformdirs
import psycopg
from psycopg.conninfo import make_conninfo
from rich.console import Console
from rich.table import Table

from benchmarks import synthetic
from benchmarks.common import embedded_server, percentiles, report

ROOT: Final = Path(__file__).parents[1]
PACKAGES: Final = {
    "mem0": ["mem0ai", "psycopg[binary,pool]", "numpy"],
    "langgraph": ["langgraph-checkpoint-postgres", "langgraph", "psycopg[binary,pool]", "numpy"],
}
"""What the environment of each peer needs."""
DIMENSIONS: Final = 384
TURNS: Final = 10


class Client:
    """A process that loads the texts into its store, and searches in it."""

    def __init__(self, python: str, name: str, url: str, folder: Path) -> None:
        # With -P, the modules beside the script do not stand in for those of the peers that have the same names.
        command = [python, "-P", str(ROOT / "benchmarks" / "peer_client.py"), name, url, str(folder)]
        environment = os.environ | {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(folder / name)}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def do(self, **what: Any) -> Any:
        """Have it do something, and wait for the answer."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        if not (line := self._process.stdout.readline()):
            raise SystemExit(f"a client ended with {self._process.wait()}; what it printed stands above")
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        self._process.communicate(timeout=60)


def environment(name: str) -> str:
    """The Python of a peer's environment, which is made if it is not there."""
    folder = Path(platformdirs.user_cache_dir("reme-core-benchmarks", appauthor=False)) / name
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        uv = [sys.executable, "-m", "uv"]
        subprocess.run([*uv, "venv", "--quiet", "--clear", str(folder)], check=True)
        subprocess.run([*uv, "pip", "install", "--quiet", "--python", str(python), *PACKAGES[name]], check=True)
        (folder / "ready").touch()
    return str(python)


def write_texts(folder: Path, total: int, workspaces: int, rounds: int, text: synthetic.Text) -> None:
    """Write what all of them store, and what they are asked."""
    each = total // workspaces
    rng = np.random.default_rng(7)
    asked = rng.integers(0, workspaces, rounds)
    texts, vectors, queries = [], [], {}
    for number in range(workspaces):
        memories, of_memories = synthetic.memories(each, dimensions=DIMENSIONS, seed=number, text=text)
        # Texts are told apart by their words alone: a store that embeds them by name needs each once.
        texts.append([f"{memory.content} w{number}n{n}" for n, memory in enumerate(memories)])
        vectors.append(of_memories)
        for n in np.flatnonzero(asked == number):
            query, vector = synthetic.queries(memories, of_memories, 1, seed=int(n))[0]
            queries[int(n)] = {"workspace": f"w{number}", "query": query, "vector": vector.tolist()}
    (folder / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
    (folder / "queries.json").write_text(json.dumps([queries[n] for n in range(rounds)]), encoding="utf-8")
    np.save(folder / "vectors.npy", np.stack(vectors))


def run(options: argparse.Namespace) -> None:
    """Load, let them take turns, print."""
    names = ["reme", *options.peers]
    text = synthetic.ZIPF if options.zipf else synthetic.NATURAL
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="reme-", dir="/tmp")))
        write_texts(folder, options.memories, options.workspaces, options.rounds, text)
        url = stack.enter_context(embedded_server(folder / "server"))
        clients = {}
        for name in names:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(f"create database {name}_store")  # one of three constants
            python = sys.executable if name == "reme" else environment(name)
            clients[name] = Client(python, name, make_conninfo(url, dbname=f"{name}_store"), folder)
            stack.callback(clients[name].close)
            print(f"{name} loads", file=sys.stderr)
            clients[name].do(load=True)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("checkpoint")
        seconds: dict[str, list[float]] = {name: [] for name in names}
        rows: dict[str, list[int]] = {name: [] for name in names}
        rates: dict[str, list[float]] = {name: [] for name in names}
        turn = max(1, options.rounds // TURNS)
        for start in range(-turn, options.rounds, turn):  # the first turn warms up
            for name, client in clients.items():
                answer = client.do(search=[n % options.rounds for n in range(start, start + turn)])
                if start >= 0:
                    seconds[name] += answer["seconds"]
                    rows[name] += answer["rows"]
        for _ in range(TURNS):
            for name, client in clients.items():
                rates[name].append(client.do(callers=options.callers, searches=turn * 2)["per_second"])
    figures = {
        name: {
            **percentiles(seconds[name]),
            "per_second": round(float(np.median(rates[name])), 1),
            "rows": round(float(np.mean(rows[name])), 2),
        }
        for name in names
    }
    table = Table("", *next(iter(figures.values())))
    for name, values in figures.items():
        table.add_row(name, *map(str, values.values()))
    Console().print(table)
    report(memories=options.memories, workspaces=options.workspaces, zipf=options.zipf, **figures)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--workspaces", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--callers", type=int, default=8)
    parser.add_argument("--peers", nargs="*", choices=sorted(PACKAGES), default=sorted(PACKAGES))
    parser.add_argument(
        "--zipf", action="store_true", help="texts of 3,000 words, the commonest in nearly every memory"
    )
    run(parser.parse_args())
