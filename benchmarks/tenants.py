"""Does any workspace see or change what is another's? Thousands of attempts, on every surface.

    python -m benchmarks.tenants [--many 40]

The workspace `victim` holds memories, messages, tool calls, episodes, items, artifacts and jobs, and their texts hold
one word. Somebody who may use the workspaces `spy` and `spy-new` alone tries to read and to change them: by the ids
that they have, by questions that they answer, and in SQL. What is counted are attempts that get to see the word, and
rows of the victim that are changed after all attempts of a surface.

That proves nothing where a call never answers anybody. So before the attempts of a surface and after them, each kind of
call is made once for a thing of the spy's own, too: it has to show it, or to change it in the database. If one does
not, the run fails. The last line is a JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import socket
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import httpx
import numpy as np
import psycopg
import uvicorn
from fastapi import FastAPI
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client
from mcp.shared.exceptions import McpError
from pydantic import SecretStr
from starlette.types import ASGIApp

from benchmarks import attempts
from benchmarks.attempts import SQL, WRITTEN, Call, Fields
from benchmarks.common import fresh_reme, report
from benchmarks.oracle import Endpoint
from reme_core import AsyncReMe, Memory, Message
from reme_core.engine import Engine
from reme_core.episodes.rules import Episode, MistakeCard
from reme_core.errors import ReMeError
from reme_core.server.auth import ApiKeys
from reme_core.server.http import create_app
from reme_core.server.mcp import create_mcp_app
from reme_core.settings import ChatSettings, McpSettings, WorkerSettings
from reme_core.store.artifacts import Artifact, Artifacts
from reme_core.store.items import ItemWrite
from reme_core.store.tool_calls import ToolCallResult
from reme_core.turn import TurnMemory
from reme_core.types import Source

WORD, OWN = "quetzal", "kestrel"
FIGURES: Final = ("attempts", "seen", "changed", "controls", "answered")
OF_THE_SPY: Final = ("spy", "spy-new")
PLACES: Final = ("victim", "spy", "*", "victim/", "spy/../victim", "%76ictim", "Victim", "")
IN_SQL: Final = (None, "", "spy", "Victim", "victim ", "%", "spy' or 'victim", "vic*")
NOBODYS: Final = frozenset((
    "GET /health", "GET /health/live", "GET /health/ready", "GET /list", "GET /metrics", "POST /check_context",
    "check_context", "reme.alembic_version", "reme.api_key", "reme.embedding_model", "reme.queue_migration",
    "reme.procrastinate_workers", "reme.procrastinate_periodic_defers",
))  # fmt: skip
"""Calls and tables in which nothing belongs to a workspace, so that there is nothing of one's own to see."""
NAMED: Final = {
    "GET /v1/workspaces": ("victim", '"spy"'), "resources": ("victim", "/spy/"),
    **dict.fromkeys(("jobs list", "GET /v1/workspaces/{workspace_id}/jobs"), ("m0-talk", "own")),
}  # fmt: skip
"""What calls that show no texts show instead: of the victim's, and of the spy's own."""


async def fill(reme: Engine, workspace: str, things: Sequence[str], word: str) -> None:
    """Give a workspace something of everything for each thing; all of it holds a word."""
    store = reme.memories
    for thing in things:
        text, tool = f"The locker of {thing} opens with {word}.", f"{thing}-tool"
        said = Message(message_id=f"{thing}-said", session_id=f"{thing}-talk", content=f"Please remember: {text}")
        await reme.record(workspace, [said], wait=True)
        evidence = [Source(kind="message", id=f"{thing}-said")]
        await store.add(workspace, Memory(memory_id=thing, content=text, user_id=thing, sources=evidence))
        await store.update(workspace, thing, content=f"{text} Really.")
        await reme.tools.record(workspace, [ToolCallResult(tool_name=tool, output=text, summary=text, success=True)])
        await reme.execute("summary_tool_memory", workspace_id=workspace, tool_names=tool)
        why = "insert into reme.job_error (workspace_id, job_id, error) values (%s, 0, %s)"
        await reme.database.execute(workspace, why, [workspace, text])
        artifact = Artifact(f"{thing}-text", "output", "t", text)
        await Artifacts(reme.database).put(workspace, f"{thing}-talk", [artifact])
        card = MistakeCard(mistake_type="guess", evidence=text, lesson=text)
        attempt = Episode(task_id=f"{thing}-{word}", summary=text, mistakes=[text], mistake_cards=[card])
        await reme.episodes.record(workspace, attempt)
        vectors = {"text": np.ones(384, dtype=np.float32)}
        await reme.items.write(workspace, [ItemWrite(("a",), thing, {"text": text}, vectors=vectors)])
        of_task = Memory(memory_id=f"{thing}-task", kind="task", content=text, when_to_use=attempts.question(thing))
        seen = [Memory(memory_id=f"{thing}-{n}", content=f"{word} is key {n} of {thing}.") for n in range(6)]
        await store.add(workspace, [of_task, *seen])  # the last change of several memories, which can be undone
        used = [{"memory_id": f"{thing}-task"}]
        await reme.execute("record_task_memory", workspace_id=workspace, memory_dicts=used, update_utility=False)


@dataclass(frozen=True, slots=True)
class Tenants:
    """The workspaces of the victim and of the spy, and the files of their libraries."""

    reme: Engine
    folder: Path
    victims_jobs: int
    """So many of the jobs of the queue are the victim's, the first ones."""
    numbers: Iterator[int] = field(default_factory=itertools.count)

    async def refill(self) -> str:
        """Give the spy a new thing to see, since calls delete what there is; gives its id."""
        thing = f"own{next(self.numbers)}"
        with contextlib.suppress(ReMeError):  # it is there only after a copy into it
            await self.reme.workspaces.clear("spy-new")
        await fill(self.reme, "spy", [thing], OWN)
        await self.reme.workspaces.dump("spy", str(self.folder))
        # So that there is something to load which is not stored yet.
        file = self.folder / "spy.jsonl"
        file.write_text(file.read_text(encoding="utf-8").replace("Really", "Truly"), encoding="utf-8")
        return thing

    def rows(self, *workspaces: str) -> Counter[str]:
        """All rows of workspaces, as texts, and the lines of their libraries."""
        found: Counter[str] = Counter()
        with psycopg.connect(self.reme.database.url) as connection:
            tables = connection.execute(
                "select c.table_name from information_schema.columns c join information_schema.tables t"
                " using (table_schema, table_name) where t.table_schema = 'reme' and c.column_name = 'workspace_id'"
                " and t.table_type = 'BASE TABLE'"
            ).fetchall()
            for (table,) in tables:
                query = f"select t::text from reme.{table} t where workspace_id = any(%s)"
                found.update(f"{table} {row}" for (row,) in connection.execute(query, [list(workspaces)]))
            for name in workspaces:
                query = "select j::text from reme.procrastinate_jobs j where j.args->>'workspace_id' = %s"
                found.update(f"job {row}" for (row,) in connection.execute(query, [name]))
                file = self.folder / f"{name}.jsonl"
                found.update(file.read_text(encoding="utf-8").splitlines() if file.exists() else ())
        return found

    def own_rows(self) -> Counter[str]:
        """Those of the spy's that hold a text of the spy's: no log of a question is among them."""
        found = self.rows(*OF_THE_SPY)
        return Counter({row: many for row, many in found.items() if OWN in row or WRITTEN in row})


async def answer_of(call: Call) -> str:
    """What a call answers; empty where it is refused."""
    try:
        answer = await call[1]()
    except (ReMeError, LookupError, McpError, httpx.InvalidURL):
        return ""
    return answer.text if isinstance(answer, httpx.Response) else str(answer)


def shown_by(kind: str) -> tuple[str, str]:
    """What a call of a kind shows where it shows the victim's, and where the spy's own."""
    return ("victim", "spy") if kind.startswith(SQL) else NAMED.get(kind, (WORD, OWN))


def is_somebodys(kind: str) -> bool:
    """Whether a call of a kind looks at what belongs to a workspace."""
    return kind not in NOBODYS and kind.removeprefix(SQL).partition(":")[0] not in NOBODYS


async def prove(tenants: Tenants, own: Callable[[str], Iterator[Call]]) -> Counter[str]:
    """Make each kind of call for a thing of the spy's; counts them, and those that show it or change it."""
    found: Counter[str] = Counter(controls=0, answered=0)
    thing, calls = await tenants.refill(), own("")
    for kind, _ in filter(lambda call: is_somebodys(call[0]), calls):
        if not kind.startswith(SQL):  # a statement is taken back, while other calls delete what there is
            thing = await tenants.refill()
        before = tenants.own_rows()
        text = await answer_of(next(call for call in own(thing) if call[0] == kind))
        is_answered = shown_by(kind)[1] in text or tenants.own_rows() != before
        found += Counter(controls=1, answered=is_answered)
        if not is_answered:
            print(f"nothing of one's own: {kind}: {text[:300]}", file=sys.stderr)
    return found


async def made(tenants: Tenants, calls: Iterator[Call]) -> Counter[str]:
    """Make attempts, and count them, those that saw the victim's word, and the victim's rows that they changed."""
    found: Counter[str] = Counter(attempts=0, seen=0, changed=0)
    before = tenants.rows("victim")
    for call in calls:
        found["attempts"] += 1
        text = await answer_of(call)
        if shown_by(call[0])[0] in text:
            found["seen"] += 1
            print(f"seen: {call}: {text[:300]}", file=sys.stderr)
    after = tenants.rows("victim")
    found["changed"] = ((before - after) + (after - before)).total()
    found["seen"] += sum(WORD in row for row in tenants.rows(*OF_THE_SPY))
    return found


async def try_surface(
    tenants: Tenants, surface: str, calls: Iterator[Call], own: Callable[[str], Iterator[Call]]
) -> dict[str, int]:
    """Make the attempts of a surface between two rounds of calls for what is the spy's own; gives its figures."""
    found = await prove(tenants, own)
    await tenants.refill()
    await asyncio.sleep(2)  # entries of the log are written a little later
    found += await made(tenants, calls)
    found += await prove(tenants, own)
    figures = {name: found[name] for name in FIGURES}
    print(f"{surface:12}", *(f"{name} {number:6}" for name, number in figures.items()), flush=True)
    return figures


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


def fields_of_http(app: FastAPI) -> Fields:
    """The operations of the HTTP service, with the fields of their bodies and the parameters of their URLs."""
    document = app.openapi()
    models = document["components"]["schemas"]
    found: dict[str, list[str]] = {}
    for path, method, operation in ((p, m, o) for p, all_of in document["paths"].items() for m, o in all_of.items()):
        content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
        model = models.get(content.get("schema", {}).get("$ref", "").rpartition("/")[2], {})
        parameters = [f"?{one['name']}" for one in operation.get("parameters", ()) if one["in"] == "query"]
        found[f"{method.upper()} {path}"] = [*model.get("properties", ()), *parameters]
    return found


def echo(prompt: str) -> dict[str, Any]:
    """The answer of a chat model that says what it is given to read, in whatever form it is asked for.

    An agent that it answers for looks into its memory first.
    """
    if "search_memory" in prompt and "memory_note" not in prompt:
        call = {"name": "search_memory", "arguments": json.dumps({"query": prompt[-200:]})}
        return {"tool_calls": [{"id": "1", "type": "function", "function": call}]}
    lesson = {"when_to_use": "The locker is locked.", "experience": prompt}
    verdicts = [{"number": n, "is_valid": True, "score": 1} for n in range(1, 10)]
    insight = {"subjects": [f"lockers, {uuid4()}"], "content": f"it opens with {WRITTEN}"}
    return {
        "answer": prompt, "guidance": prompt, **lesson, "lessons": [lesson], "operations": [], "verdicts": verdicts,
        **insight,
    }  # fmt: skip


async def try_all(many: int) -> dict[str, dict[str, int]]:
    """Make the attempts of each surface, print a line for each, and give the figures."""
    with tempfile.TemporaryDirectory() as folder, Endpoint(echo) as model:
        chat = ChatSettings(base_url=model.url, model_name="echo", api_key=SecretStr("-"))
        async with fresh_reme(
            worker=WorkerSettings(embedded=False), mcp=McpSettings(tools="all"), library_dirs=[Path(folder)],
            llm={"default": chat},
        ) as reme:  # fmt: skip
            victims = [f"m{n}" for n in range(many)]
            await fill(reme, "victim", victims, WORD)
            await reme.recall("victim", "What opens the locker?")
            await ApiKeys(reme.database).create("victim", ["victim"])
            await reme.workspaces.dump("victim", folder)
            with psycopg.connect(reme.database.url) as connection:
                ((jobs,),) = connection.execute("select max(id) from reme.procrastinate_jobs").fetchall()
            tenants = Tenants(reme, Path(folder), jobs)
            return {**await try_inside(tenants, victims), **await try_services(tenants, victims[: max(1, many // 8)])}


async def try_inside(tenants: Tenants, victims: Sequence[str]) -> dict[str, dict[str, int]]:
    """The surfaces that know no keys: Python, adapters, SQL and the command line."""
    reme, figures = tenants.reme, {}

    async def on(surface: str, of: Callable[[str], Iterator[Call]]) -> None:
        figures[surface] = await try_surface(tenants, surface, chain.from_iterable(map(of, victims)), of)

    await on("Python", partial(attempts.of_python, reme))
    async with TurnMemory(AsyncReMe.of(reme), "spy", kinds=("personal", "task"), spool="memory") as turn:
        await on("adapters", partial(attempts.of_adapters, turn))
    os.environ["DATABASE_URL"] = url = reme.database.url
    await on("command line", attempts.of_command_line)
    for surface in ("SQL", "queue"):
        of = partial(attempts.of_sql, url, attempts.statements_on(url, tenants.victims_jobs, queue=surface == "queue"))
        own = partial(of, (OWN, "spy"), ["spy"])
        figures[surface] = await try_surface(tenants, surface, of((WORD, "victim"), IN_SQL), lambda _: own())  # noqa: B023
    return figures


async def try_services(tenants: Tenants, victims: Sequence[str]) -> dict[str, dict[str, int]]:
    """HTTP and MCP, with a key for the spy's workspaces."""
    reme, folder, figures = tenants.reme, str(tenants.folder), {}

    async def on(surface: str, of: Callable[[str, Sequence[str]], Iterator[Call]]) -> None:
        calls = chain.from_iterable(of(thing, PLACES) for thing in victims)
        figures[surface] = await try_surface(tenants, surface, calls, lambda thing: of(thing, ["spy"]))

    headers = {"Authorization": f"Bearer {await ApiKeys(reme.database).create('spy', OF_THE_SPY)}"}
    app = create_app(reme)
    async with listening(app) as url, httpx.AsyncClient(base_url=url, headers=headers, timeout=60) as client:
        await on("HTTP", partial(attempts.of_http, client, fields_of_http(app), folder))
    async with (
        listening(create_mcp_app(reme, "http")) as url,
        streamablehttp_client(f"{url}/mcp", headers=headers) as (read, write, _),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        catalog = reme.flows.catalog
        fields = {tool.name: list(catalog.get(tool.name).input_schema) for tool in (await session.list_tools()).tools}
        await on("MCP", partial(attempts.of_mcp, session, fields, folder))
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--many", type=int, default=40, help="things of each kind that the victim has")
    given = parser.parse_args()
    told = asyncio.run(try_all(given.many))
    sums = {name: sum(one[name] for one in told.values()) for name in FIGURES}
    report(benchmark="tenants", **sums, surfaces=told)
    sys.exit(sums["seen"] + sums["changed"] > 0 or sums["answered"] < sums["controls"] or not sums["attempts"])
