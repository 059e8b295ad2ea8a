"""Calls on every surface that reach for one thing of a workspace, by their kind: for `benchmarks.tenants`.

With the id of another's thing a call is an attempt; with an id of one's own it shows that a call of its kind does reach
what it may.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import itertools
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import httpx
import psycopg
from mcp import ClientSession
from pydantic import AnyUrl

from reme_core.cli import main as command_line
from reme_core.engine import Engine
from reme_core.store.filters import Filters
from reme_core.turn import TurnMemory
from reme_core.turn.memory_tools import MemoryTools

WRITTEN = "merlin"
"""What calls write; no question has the word."""
ACTIONS = ("copy", "delete", "delete_ids", "dump", "load", "list")
"""Those of the flow `vector_store`."""
SHAPES = (
    "select t::text from {0} t", "select t::text from {0} t where t::text like '%{2}%'",
    "select t::text from {0} t where t::text ~ '({1}|{2})'", "delete from {0} t returning t::text",
    "select max(t::text) from {0} t", "select string_agg(t::text, ' ') from {0} t",
    "select json_agg(t)::text from {0} t", "copy (select t::text from {0} t) to stdout",
    "select t::text from {0} t, reme.workspace w", "select t::text from {0} t for update",
    "with t as materialized (select * from {0}) select t::text from t", "table {0}",
    "select to_jsonb(t)::text from {0} t",
    "select (select string_agg(t::text, ' ') from {0} t) from generate_series(1, 3)",
    "select t::text from {0} t order by random() limit 1",
)  # fmt: skip

SQL = "SQL on "
"""Kinds of calls that are statements begin with it."""

Call = tuple[str, Callable[[], Awaitable[Any]]]
"""The kind of a call, and what makes it."""
Fields = Mapping[str, Collection[str]]
"""The names of what each operation or tool takes; those of parameters in a URL behind a question mark."""


def question(thing: str) -> str:
    """What the memory of a thing answers."""
    return f"What opens the locker of {thing}?"


def of_python(reme: Engine, thing: str) -> Iterator[Call]:
    """Through the library: by ids, and by questions that memories answer."""
    store, asked = reme.memories, question(thing)
    yield "get", partial(store.get, "spy", thing)
    yield "history", partial(store.history, "spy", thing)
    yield "evidence", partial(store.evidence, "spy", thing)
    yield "list", partial(store.list, "spy", Filters(ids=[thing], status=None))
    yield "from_source", partial(store.from_source, "spy", "message", [f"{thing}-said"])
    yield "restore", partial(store.restore, "spy", thing)
    yield "update", partial(store.update, "spy", thing, content=WRITTEN)
    yield "delete", partial(store.delete, "spy", thing)
    yield "erase", partial(store.delete, "spy", thing, erase=True)
    yield "erase_messages", partial(reme.erase_messages, "spy", f"{thing}-said")
    yield "items", partial(reme.items.get, "spy", [(("a",), thing)])
    yield "messages", partial(reme.messages, "spy", f"{thing}-talk")
    yield "recall", partial(reme.recall, "spy", asked)
    yield "recall 100", partial(reme.recall, "spy", asked, limit=100)
    for kind in ("personal", "task"):
        yield f"retrieve {kind}", partial(reme.retrieve, "spy", asked, kind=kind)


def of_adapters(turn: TurnMemory, thing: str) -> Iterator[Call]:
    """What an adapter offers a model: the note of a turn, and the tools of memory."""
    tools, asked = MemoryTools(turn), question(thing)
    yield "note", partial(turn.begin, asked)
    yield "search_memory", partial(tools.search_memory, asked, 50)
    yield "update_memory", partial(tools.update_memory, thing, WRITTEN)
    yield "forget_memory", partial(tools.forget_memory, thing)


def of_command_line(thing: str) -> Iterator[Call]:
    """Commands in the workspace `spy`."""
    for command in (
        ["show", thing], ["history", thing], ["update", thing, WRITTEN], ["delete", thing],
        ["recall", question(thing)], ["list"], ["jobs", "list"], ["restore", thing],
    ):  # fmt: skip
        kind = " ".join(part for part in command if part.isalpha() and part != thing)
        yield kind, partial(asyncio.to_thread, _run, [*command, "-w", "spy", "--json"])


def _run(arguments: list[str]) -> str:
    told = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told), contextlib.suppress(SystemExit):
        command_line(arguments)
    told.seek(0)
    return told.read()


def of_http(
    client: httpx.AsyncClient, fields: Fields, folder: str, thing: str, places: Sequence[str]
) -> Iterator[Call]:
    """Every endpoint: in places, with the ids of a thing."""
    for operation, place in itertools.product(fields, places):
        method, url = operation.split(" ")
        for part, value in {"workspace_id": place or "%20", "memory_id": thing}.items():
            url = url.replace("{" + part + "}", value)
        # One that it does not know is refused, and the attempt would be void.
        known = {"user_id": thing, "workspace_id": place, "deleted": "true"}
        asked = {name: value for name, value in known.items() if f"?{name}" in fields[operation]}
        for kind, body in _bodies(operation, fields[operation], folder, thing, place):
            yield kind, partial(client.request, method, url, json=body, params=asked)


def of_mcp(session: ClientSession, fields: Fields, folder: str, thing: str, places: Sequence[str]) -> Iterator[Call]:
    """Every tool, the resources and the prompt: in places, with the ids of a thing."""
    for place in places:
        for tool in fields:
            for kind, body in _bodies(tool, {*fields[tool], "workspace_id"}, folder, thing, place):
                yield kind, partial(session.call_tool, tool, body)
        asked = {"query": question(thing), "workspace_id": place}
        yield "prompt", partial(session.get_prompt, "memory_note", asked)
        for kind, rest in (("memories", ""), ("memory", f"/{thing}")):
            uri = f"reme://workspaces/{place or '%20'}/memories{rest}"
            yield f"resource {kind}", partial(session.read_resource, AnyUrl(uri))
    yield "resources", session.list_resources


def _bodies(
    name: str, fields: Collection[str], folder: str, thing: str, place: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The kinds of calls of an operation, and what is sent in each, as far as it takes it."""
    written = f"{WRITTEN} of {thing}"
    talk = [
        {"role": "user", "content": f"Please remember: my locker opens with {written}."},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "name": "t", "arguments": "{}"}]},
        {"role": "tool", "tool_call_id": "1", "author": "t", "content": f"{written} " * 40},
        {"role": "assistant", "content": f"It opens with {written}."},
    ]
    attempt = [{"task_id": thing, "messages": talk, "score": score} for score in (1.0, 0.0)]
    whole: dict[str, Any] = {
        "workspace_id": place, "query": question(thing), "limit": 50, "top_k": 50, "memory_id": thing,
        "memory_ids": [thing], "content": written, "memories": [{"content": written}], "messages": talk,
        "trajectories": attempt, "traj_list": attempt, "tool_names": f"{thing}-tool", "freq_threshold": 0,
        "utility_threshold": 2, "memory_dicts": [{"memory_id": f"{thing}-task", "content": "-"}],
        "update_utility": True, "pattern": "opens", "chat_id": f"{thing}-talk", "handle": f"{thing}-text",
        "tool_call_results": [{"tool_name": "t", "input": {}, "output": written}], "max_tool_message_tokens": 20,
        "keep_recent_count": 0, "path": folder, "wait": True,
    }  # fmt: skip
    if name.endswith("delete_memory"):
        del whole["content"]  # it takes one or the other
    body = {field: value for field, value in whole.items() if field in fields}
    if "action" not in fields:
        yield name, body
        return
    for action in ACTIONS:
        # A copy is made into an empty workspace only.
        into = {"workspace_id": "spy-new"} if action == "copy" and place == "spy" else {}
        owner = "spy" if thing.startswith("own") else "victim"
        yield f"{name} {action}", body | {"action": action, "src_workspace_id": owner} | into


def statements_on(url: str, victims_jobs: int, *, queue: bool) -> list[tuple[str, str]]:
    """Every table and view, or those of the queue, with each statement that Postgres allows on it.

    An event of the queue names nobody, only a job; of these the first ones, so many, are the victim's.
    """
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(
            "select relname from pg_class where relnamespace = 'reme'::regnamespace and relkind in ('r', 'v')"
            " and (relname like 'procrastinate%%') = %s order by 1", [queue]
        ).fetchall()  # fmt: skip
        whose = f"case when job_id <= {victims_jobs} then 'victim' else 'spy' end as whose"
        tables = [
            f"(select *, {whose} from reme.{name})" if name == "procrastinate_events" else f"reme.{name}"
            for (name,) in found
        ]
        return [each for each in itertools.product(tables, SHAPES) if _runs(connection, *each)]


def _runs(connection: psycopg.Connection, table: str, shape: str) -> bool:
    statement = shape.format(table, "-", "-")
    try:
        with connection.transaction(force_rollback=True):
            if not statement.startswith("copy"):
                connection.execute(statement)
    except psycopg.Error:
        return False
    return True


def of_sql(
    url: str, statements: Sequence[tuple[str, str]], sought: tuple[str, str], places: Sequence[str | None]
) -> Iterator[Call]:
    """As the role of the service, in places: statements on tables and views, that look for a word and a workspace."""
    for (table, shape), place in itertools.product(statements, places):
        statement = shape.format(table, *sought)
        yield f"{SQL}{table}: {shape}", partial(asyncio.to_thread, _rows, url, statement, place)


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
    return found
