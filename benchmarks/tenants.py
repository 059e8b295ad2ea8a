"""Does any workspace see or change what is another's? Thousands of attempts, on every surface.

    python -m benchmarks.tenants [--many 40]

The workspace `victim` holds memories, messages, tool calls, episodes, items, artifacts and jobs, and all of their texts
hold one word. Somebody who may use the workspace `spy` alone tries to read and to change them: by the ids that they
have, by questions that they answer, and in SQL. What is counted are attempts that get to see the word, rows of the
victim that are changed after all attempts of a surface, and attempts that see what is the spy's own: without any, the
others would prove nothing. The last line is a JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import itertools
import os
import socket
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from typing import Any

import httpx
import psycopg
import uvicorn
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client
from mcp.shared.exceptions import McpError
from pydantic import AnyUrl
from starlette.types import ASGIApp

from benchmarks.common import fresh_reme, report
from reme_core import AsyncReMe, Memory, Message
from reme_core.cli import main as command_line
from reme_core.engine import Engine
from reme_core.episodes.rules import Episode
from reme_core.errors import ReMeError
from reme_core.server.auth import ApiKeys
from reme_core.server.http import create_app
from reme_core.server.mcp import create_mcp_app
from reme_core.settings import McpSettings, WorkerSettings
from reme_core.store.filters import Filters
from reme_core.store.items import ItemWrite
from reme_core.store.tool_calls import ToolCallResult
from reme_core.turn import TurnMemory
from reme_core.turn.memory_tools import MemoryTools

WORD, OWN = "quetzal", "kestrel"
Attempt = Callable[[], Awaitable[Any]]


async def fill(reme: Engine, many: int) -> None:
    """Give the victim something of everything."""
    texts = [f"The locker of person {n} opens with {WORD}{n}." for n in range(many)]
    await reme.memories.add("victim", [Memory(memory_id=f"m{n}", content=text) for n, text in enumerate(texts)])
    await reme.record(
        "victim",
        [Message(message_id=f"n{n}", session_id="s", content=text) for n, text in enumerate(texts)],
        wait=True,
    )
    await reme.tools.record("victim", [ToolCallResult(tool_name="t", input={}, output=text) for text in texts])
    await reme.episodes.record("victim", Episode(episode_id="e1", task_id="t", summary=texts[0], score=1.0))
    await reme.items.write("victim", [ItemWrite(("a",), f"k{n}", {"text": text}) for n, text in enumerate(texts)])
    await reme.recall("victim", "What opens the locker?")


async def fill_own(reme: Engine) -> None:
    """Give the spy something to see, anew for each surface, since the attempts delete it."""
    await reme.memories.add("spy", f"The locker of person 0 opens with {OWN}.")
    await reme.record("spy", {"role": "user", "content": f"My locker opens with {OWN}."}, session_id=OWN, wait=True)
    await asyncio.sleep(2)  # entries of the log are written a little later


def of_python(reme: Engine, many: int) -> Iterator[Attempt]:
    """Through the library: the ids of the victim, and questions that its memories answer."""
    store = reme.memories
    for n in range(many):
        name, question = f"m{n}", f"What opens the locker of person {n}?"
        yield from (
            partial(store.get, "spy", name), partial(store.history, "spy", name), partial(store.evidence, "spy", name),
            partial(store.list, "spy", Filters(ids=[name], status=None)),
            partial(store.from_source, "spy", "message", [f"n{n}"]), partial(store.restore, "spy", name),
            partial(store.update, "spy", name, content="Mine."), partial(store.delete, "spy", name),
            partial(store.delete, "spy", name, erase=True), partial(reme.erase_messages, "spy", f"n{n}"),
            partial(reme.items.get, "spy", [(("a",), f"k{n}")]), partial(reme.messages, "spy", "s"),
            partial(reme.recall, "spy", question), partial(reme.recall, "spy", question, limit=100),
            *(partial(reme.retrieve, "spy", question, kind=kind) for kind in ("personal", "task")),
        )  # fmt: skip


def of_adapters(turn: TurnMemory, many: int) -> Iterator[Attempt]:
    """What an adapter offers a model: the note of a turn, and the tools of memory."""
    tools = MemoryTools(turn)
    for n in range(many):
        question = f"What opens the locker of person {n}?"
        yield from (
            partial(turn.begin, question), partial(tools.search_memory, question, 50),
            partial(tools.update_memory, f"m{n}", "Mine."), partial(tools.forget_memory, f"m{n}"),
        )  # fmt: skip


def of_http(client: httpx.AsyncClient, paths: dict[str, Any], many: int) -> Iterator[Attempt]:
    """Every endpoint with a key for `spy`: for the victim, and for `spy` with ids and questions of the victim's."""
    places = ["victim", "spy", "*", "victim/", "spy/../victim", "%76ictim", "Victim", ""]
    for path, n in itertools.product(paths, range(max(1, many // 8))):
        for method, place in itertools.product(paths[path], places):
            url = path
            for part, value in {"workspace_id": place or "%20", "memory_id": f"m{n}", "path": place}.items():
                url = url.replace("{" + part + "}", value)
            body = {
                "workspace_id": place, "query": f"What opens the locker of person {n}?", "limit": 50, "tool_names": "t",
                "memory_id": f"m{n}", "memory_ids": [f"m{n}"], "ids": [f"m{n}"], "action": "dump", "content": "Mine.",
                "messages": [{"content": "Hm."}], "trajectories": [{"messages": [{"role": "user", "content": "Hm."}]}],
            }  # fmt: skip
            yield partial(client.request, method, url, json=body, params={"q": "locker", "workspace_id": place})


def of_mcp(session: ClientSession, tools: list[str], many: int) -> Iterator[Attempt]:
    """Every tool over HTTP with a key for `spy`, and the victim's resources and prompts."""
    for n in range(many):
        question = f"What opens the locker of person {n}?"
        for place in ("victim", "spy", "*"):
            asked = {
                "workspace_id": place,
                "query": question,
                "tool_names": "t",
                "memory_id": f"m{n}",
                "content": "Hm.",
            }
            for tool in tools:
                yield partial(session.call_tool, tool, asked)
            yield partial(session.get_prompt, "memory_note", {"query": question, "workspace_id": place})
        for uri in (f"reme://workspaces/victim/memories/m{n}", f"reme://workspaces/spy/memories/m{n}"):
            yield partial(session.read_resource, AnyUrl(uri))


def of_command_line(many: int) -> Iterator[Attempt]:
    """Commands for `spy` with the ids of the victim."""
    for n in range(max(1, many // 8)):
        for command in (
            ["show", f"m{n}"], ["history", f"m{n}"], ["update", f"m{n}", "Mine."], ["delete", f"m{n}"],
            ["recall", f"What opens the locker of person {n}?"], ["list"], ["jobs", "list"], ["restore", f"m{n}"],
        ):  # fmt: skip
            yield partial(asyncio.to_thread, _run, [*command, "-w", "spy", "--json"])


def _run(arguments: list[str]) -> str:
    told = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told), contextlib.suppress(SystemExit):
        command_line(arguments)
    told.seek(0)
    return told.read()


def of_sql(url: str, queue: bool) -> Iterator[Attempt]:
    """As the role of the service, in `spy` and in no workspace: every table and view, or those of the queue."""
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "select relname from pg_class where relnamespace = 'reme'::regnamespace and relkind in ('r', 'v')"
            " and (relname like 'procrastinate%%') = %s order by 1", [queue]
        ).fetchall()  # fmt: skip
    shapes = [
        "select t::text from reme.{0} t", "select t::text from reme.{0} t where t::text like '%victim%'",
        "select t::text from reme.{0} t where t::text ~ '{1}'", "delete from reme.{0} t returning t::text",
        "select max(t::text) from reme.{0} t", "select string_agg(t::text, ' ') from reme.{0} t",
        "select json_agg(t)::text from reme.{0} t", "copy (select t::text from reme.{0} t) to stdout",
        "select t::text from reme.{0} t, reme.workspace w", "select t::text from reme.{0} t for update",
        "with t as materialized (select * from reme.{0}) select t::text from t", "table reme.{0}",
        "select query_to_xml('select * from reme.{0}', true, false, '')::text",
        "select (select string_agg(t::text, ' ') from reme.{0} t) from generate_series(1, 3)",
        "select t::text from reme.{0} t order by random() limit 1",
    ]  # fmt: skip
    places = [None, "", "spy", "Victim", "victim ", "%", "spy' or 'victim", "vic*"]
    for (table,), shape, place in itertools.product(found, shapes, places):
        yield partial(asyncio.to_thread, _rows, url, shape.format(table, WORD), place)


def _rows(url: str, statement: str, place: str | None) -> str:
    """What a statement gives; it is taken back, since in tables that are nobody's it would touch everybody."""
    with psycopg.connect(url) as connection:
        connection.execute("set role reme_service")
        if place is not None:
            connection.execute("select set_config('reme.workspace', %s, false)", [place])
        found = ""
        with contextlib.suppress(psycopg.Error):
            if statement.startswith("copy"):
                with connection.cursor().copy(statement) as rows:
                    found = "\n".join(bytes(row).decode() for row in rows)
            else:
                found = str(connection.execute(statement).fetchall())
        connection.rollback()
    return f"{WORD}: {found}" if "victim" in found else found  # not all rows of the victim's hold texts


async def count(attempts: Iterator[Attempt]) -> Counter[str]:
    """Make attempts, and count them and those that saw the victim's word, or the spy's own."""
    found: Counter[str] = Counter(attempts=0, seen=0, own=0)
    for attempt in attempts:
        found["attempts"] += 1
        try:
            answer = await attempt()
        except (ReMeError, LookupError, McpError, httpx.InvalidURL):
            continue
        text = answer.text if isinstance(answer, httpx.Response) else str(answer)
        found["own"] += OWN in text
        if WORD in text:
            found["seen"] += 1
            print(f"seen: {attempt}: {text[:300]}", file=sys.stderr)
    return found


@contextlib.asynccontextmanager
async def listening(app: ASGIApp) -> AsyncIterator[str]:
    """Serve an app on a free port of loopback; gives its URL."""
    taken = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    serving = asyncio.create_task(server.serve(sockets=[taken]))
    while not server.started:
        await asyncio.sleep(0.05)
    yield f"http://127.0.0.1:{taken.getsockname()[1]}"
    server.should_exit = True
    await serving


def snapshot(url: str) -> Counter[str]:
    """All rows of the victim's, as texts."""
    rows: Counter[str] = Counter()
    with psycopg.connect(url) as connection:
        for (table,) in connection.execute(
            "select c.table_name from information_schema.columns c join information_schema.tables t using (table_name)"
            " where t.table_schema = 'reme' and c.column_name = 'workspace_id' and t.table_type = 'BASE TABLE'"
        ).fetchall():
            for (row,) in connection.execute(f"select t::text from reme.{table} t where workspace_id = 'victim'"):
                rows[f"{table} {row}"] += 1
        for (row,) in connection.execute("select j::text from reme.procrastinate_jobs j where j::text like '%victim%'"):
            rows[f"job {row}"] += 1
    return rows


async def try_all(many: int) -> dict[str, dict[str, int]]:
    """Make the attempts of each surface, print a line for each, and give the figures."""
    figures: dict[str, dict[str, int]] = {}
    async with fresh_reme(worker=WorkerSettings(embedded=False), mcp=McpSettings(tools="all")) as reme:
        await fill(reme, many)
        url = reme.database.url

        async def on(surface: str, attempts: Iterator[Attempt]) -> None:
            await fill_own(reme)
            before = snapshot(url)
            found = await count(attempts)
            after = snapshot(url)
            found["changed"] = sum(((before - after) + (after - before)).values())
            figures[surface] = dict(found)
            print(
                f"{surface:12} {found['attempts']:6} attempts, {found['seen']} seen, {found['changed']} changed,"
                f" {found['own']} own",
                flush=True,
            )

        await on("Python", of_python(reme, many))
        async with TurnMemory(AsyncReMe.of(reme), "spy", kinds=("personal", "task"), spool="memory") as turn:
            await on("adapters", of_adapters(turn, many))
        await on("SQL", of_sql(url, queue=False))
        await on("queue", of_sql(url, queue=True))
        os.environ["DATABASE_URL"] = url
        await on("command line", of_command_line(many))
        key = await ApiKeys(reme.database).create("spy", ["spy"])
        headers = {"Authorization": f"Bearer {key}"}
        app = create_app(reme)
        async with listening(app) as served, httpx.AsyncClient(base_url=served, headers=headers, timeout=60) as client:
            paths = {p: list(methods) for p, methods in app.openapi()["paths"].items() if not p.startswith("/admin")}
            await on("HTTP", of_http(client, paths, many))
        async with (
            listening(create_mcp_app(reme, "http")) as served,
            streamablehttp_client(f"{served}/mcp", headers=headers) as (read, write, _),
            ClientSession(read, write) as session,
        ):
            await session.initialize()
            tools = [tool.name for tool in (await session.list_tools()).tools]
            await on("MCP", of_mcp(session, tools, max(1, many // 4)))
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--many", type=int, default=40, help="things of each kind that the victim has")
    given = parser.parse_args()
    told = asyncio.run(try_all(given.many))
    sums = {name: sum(one[name] for one in told.values()) for name in ("attempts", "seen", "changed")}
    report(benchmark="tenants", **sums, surfaces=told)
    sys.exit(min(sums["seen"] + sums["changed"], 1) or not all(one["own"] for one in told.values()))
