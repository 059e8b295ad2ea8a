"""The checker of `benchmarks.faults`: what clients were told, against the tables. It knows nothing of the library.

A client writes a line before each operation (`begin`) and one after it was acknowledged (`ok`); what has no second line
may have happened or not, but once. Each thing has a token, such as `r3w0n12e`, which says to which run and workspace it
belongs. Tokens are looked for in every column of every table that has workspaces.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

FAILURES = {
    "lost": "acknowledged, and not there",
    "doubled": "there more than once",
    "stale": "a read or a recall that began after a change was acknowledged, and did not show it",
    "resurrected": "acknowledged as erased, and still in some table",
    "across": "shown to another workspace, or stored in one",
    "stuck": "at the end, a message that nobody summarised, or a job that is not done",
}
HEAD = (
    f"| fault | runs | acknowledged | unclear | {' | '.join(FAILURES)} | slowest for others | load |\n"
    f"|---|{'---:|' * (5 + len(FAILURES))}"
)
TOKEN = re.compile(r"r\d+w\d+n\d+e")

_TABLES = {"turn": "message", "call": "tool_call_result"}  # where they are called otherwise


@dataclass(slots=True)
class Thing:
    """Something that a client wrote, as far as it was told."""

    table: str
    says: set[str]
    """The token that was acknowledged last, and those that were begun since."""
    is_known: bool = False
    erasing: str = ""
    """`begin` or `ok`, where it was to be erased."""


@dataclass(slots=True)
class Verdict:
    """What was found in one run."""

    things: dict[str, Thing] = field(default_factory=dict)
    former: dict[str, str] = field(default_factory=dict)
    """By token the thing that said it once."""
    failures: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in FAILURES})
    acknowledged: int = 0
    slowest: float = 0.0
    """Seconds of the slowest call in the workspace that no fault was aimed at."""


def judge(histories: Iterable[Path], url: str, run: int) -> Verdict:
    """Judge one run by its histories, and as a superuser by the database at `url`."""
    verdict = Verdict()
    for path in sorted(histories):
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
            if line.endswith("\n"):  # else the client was killed while it wrote
                _take(json.loads(line), verdict)
    with psycopg.connect(url) as connection:
        found = _count_tokens(connection, f"^r{run}w", verdict.failures)
    for (table, token), _ in found.items():
        thing = verdict.things[verdict.former[token]]
        if thing.erasing == "ok":
            verdict.failures["resurrected"].append(f"{table} holds {token} of {verdict.former[token]}")
    for name, thing in verdict.things.items():
        rows = max(found[thing.table, token] for token in thing.says)
        quotes = found["memory", name] if thing.table == "message" else 0  # what was made of it, word for word
        if thing.is_known and not thing.erasing and not rows:
            verdict.failures["lost"].append(f"{name} is not in {thing.table}")
        if max(rows, quotes) > 1:
            verdict.failures["doubled"].append(f"{name} is there {max(rows, quotes)} times")
    return verdict


def row(kind: str, verdicts: Sequence[Verdict], load: float) -> str:
    """The row of one kind of fault in the table under `HEAD`; `load` is the machine's, other work included."""
    unclear = sum(not thing.is_known for verdict in verdicts for thing in verdict.things.values())
    counts = [sum(len(verdict.failures[name]) for verdict in verdicts) for name in FAILURES]
    acknowledged, slowest = sum(v.acknowledged for v in verdicts), max(v.slowest for v in verdicts)
    cells = [kind, len(verdicts), f"{acknowledged:,}", unclear, *counts, f"{slowest:.1f} s", f"{load:.0f}"]
    return f"| {' | '.join(map(str, cells))} |"


def _take(entry: dict[str, Any], verdict: Verdict) -> None:
    """Take in one line of a history."""
    op, name, is_done, token = entry["op"], entry["id"], entry["phase"] == "ok", entry.get("token", entry["id"])
    verdict.acknowledged += is_done and op in ("write", "edit", "erase")
    verdict.slowest = max(verdict.slowest, entry.get("calm", 0))
    if op == "write":
        table = _TABLES.get(entry["kind"], entry["kind"])
        thing = verdict.things.setdefault(name, Thing(table, {name}))
        thing.is_known |= is_done
    thing = verdict.things[name]
    verdict.former[token] = name
    if op == "edit":
        thing.says = {token} if is_done else thing.says | {token}
    elif op == "erase" and entry["phase"] != "error":
        thing.erasing = "ok" if is_done else thing.erasing or "begin"
    elif op in ("read", "recall") and is_done:
        elsewhere = [seen for seen in entry["seen"] if not seen.startswith(entry["workspace"] + "n")]
        verdict.failures["across"] += [f"{op} in {entry['workspace']} showed {seen}" for seen in elsewhere]
        if not thing.says & set(entry["seen"]):
            verdict.failures["stale"].append(f"{op} of {name} showed {entry['seen']}, not {thing.says}")


def _count_tokens(
    connection: psycopg.Connection[Any], run: str, failures: dict[str, list[str]]
) -> Counter[tuple[str, str]]:
    """In how many rows of which table each token stands; notes what stands elsewhere, and what is stuck."""
    found: Counter[tuple[str, str]] = Counter()
    for (table,) in connection.execute(
        "select c.table_name from information_schema.columns c join information_schema.tables t using (table_name)"
        " where t.table_schema = 'reme' and c.column_name = 'workspace_id' and t.table_type = 'BASE TABLE'"
    ).fetchall():
        statement = sql.SQL("select workspace_id, t::text from reme.{} t where workspace_id ~ %s")
        for workspace, text in connection.execute(statement.format(sql.Identifier(table)), [run]):
            for token in set(TOKEN.findall(text)):
                found[table, token] += 1
                if not token.startswith(workspace + "n"):
                    failures["across"].append(f"{table} holds {token} in {workspace}")
    for stuck in (
        "select id, status from reme.procrastinate_jobs where status <> 'succeeded' and args ->> 'workspace' ~ %s",
        "select workspace_id, message_id from reme.message where summarised_at is null and workspace_id ~ %s",
    ):
        failures["stuck"] += [str(row) for row in connection.execute(stuck, [run])]
    return found
