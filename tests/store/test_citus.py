"""On a Citus cluster: what is of one workspace is done on one server, which shows no other tenant's rows."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from psycopg import errors as pg
from psycopg.conninfo import make_conninfo
from pydantic import SecretStr

from reme_core import store
from reme_core.engine import Engine
from reme_core.errors import SchemaError
from reme_core.postgres import backup, distribute, migrate
from reme_core.settings import Settings
from reme_core.store.sql import load
from reme_core.types import HistoryEntry, Memory, Message
from tests.citus import cluster_database, empty
from tests.conftest import CITUS_URL
from tests.server.command import Reme

on_a_cluster = pytest.mark.skipif(not CITUS_URL, reason="REME_TEST_CITUS_URL names no cluster")


@pytest.fixture
def cluster_url() -> Iterator[str]:
    """A database on all nodes of the cluster that is not distributed yet."""
    assert CITUS_URL
    with cluster_database(CITUS_URL) as url:
        yield url


def rows(url: str, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(query.encode()).fetchall()


def run(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def workers(url: str) -> list[str]:
    nodes = [node for node in distribute.nodes(url)[0] if node.holds_workspaces]
    assert len(nodes) > 1
    return [make_conninfo(url, host=node.host, port=node.port) for node in nodes]


@pytest.mark.skipif(bool(CITUS_URL), reason="there is Citus on this server")
def test_without_citus_nothing_is_distributed_and_it_says_so(database_url: str) -> None:
    with pytest.raises(SchemaError, match="has no extension Citus; install it on all servers"):
        distribute.distribute(database_url)
    assert distribute.nodes(database_url, "alice") == ([], None)


def statements_of_workspaces() -> dict[str, str]:
    """The statements that a cluster carries out on a worker, by file; the queue stays on the coordinator."""
    found = {file.name: file.read_text("utf-8") for file in Path(store.__file__).parent.rglob("*.sql")}
    del found["queue.sql"]
    return found


def test_no_statement_asks_for_what_a_distributed_table_refuses() -> None:
    # "non-IMMUTABLE functions are not allowed in CASE or COALESCE statements", in those that write; and "functions used
    # in the DO UPDATE SET clause must be marked IMMUTABLE". And "case a when b" arrives there as "case a when a = b".
    in_coalesce, in_case, of_value, in_do_update = (
        re.compile(r"coalesce\((?:[^()]|\(\))*now\(\)"),
        re.compile(r"case\s(?:(?!end\b).)*now\(\)", re.S),
        re.compile(r"\bcase\b(?!\s+(?:when\b|\$))"),
        re.compile(r"do update\s(?:(?!-- name)[^;])*now\(\)"),
    )
    found = {name: re.sub("--(?! name).*", "", sql) for name, sql in statements_of_workspaces().items()}
    assert len(found) > 10
    assert in_coalesce.search("set a = coalesce(b, now())")
    assert in_case.search("case when a then b\nelse now() end")
    assert of_value.search("case a when b then c end")
    assert in_do_update.search("on conflict (id) do update\nset b = 1, a = now()")
    refused = (in_coalesce, in_case, of_value, in_do_update)
    assert {name for name, sql in found.items() if any(pattern.search(sql) for pattern in refused)} == set()


@on_a_cluster
async def test_a_database_is_distributed_with_all_that_is_in_it(cluster_url: str) -> None:
    settings = Settings(database_url=SecretStr(cluster_url))
    async with Engine(settings) as engine:
        given = {name: await engine.memories.add(name, f"{name} likes green tea") for name in ("alice", "bob", "carol")}
    to_do = distribute.steps(cluster_url, 4)
    assert [step.what for step in to_do][-1] == "let posting be moved while it is written to"
    # Somebody was interrupted after the first tables.
    done = [step for step in to_do if "workspace" in step.what or "all nodes" in step.what]
    with psycopg.connect(cluster_url) as connection:
        connection.execute("set citus.enable_unsafe_triggers = on")
        connection.execute("set citus.propagate_set_commands = 'local'")
        connection.execute("set local reme.erasing = 'on'")
        for step in done:
            for statement in step.statements:
                connection.execute(statement)
    rest = distribute.distribute(cluster_url, 4)
    assert [step.what for step in rest] == [step.what for step in to_do if step not in done]
    assert distribute.distribute(cluster_url, 4) == []
    async with Engine(settings) as engine:
        for name in ("alice", "bob", "carol"):
            assert [hit.content for hit in (await engine.recall(name, "Who likes tea?")).hits] == [
                f"{name} likes green tea"
            ]
            assert len(await engine.memories.history(name, given[name][0].memory_id)) == 1


@on_a_cluster
async def test_who_was_connected_while_tables_were_distributed_goes_on(cluster_url: str) -> None:
    """What they read was empty, and what they wrote was refused, until they connected anew."""
    async with Engine(Settings(database_url=SecretStr(cluster_url))) as engine:
        await engine.memories.add("alice", "Alice likes green tea")
        await asyncio.to_thread(distribute.distribute, cluster_url, 4)
        assert [hit.content for hit in (await engine.recall("alice", "tea?")).hits] == ["Alice likes green tea"]
        await engine.memories.add("alice", "Alice likes black tea")
        assert len(await engine.memories.list("alice")) == 2


@on_a_cluster
async def test_a_backup_is_restored_into_a_cluster_and_from_one(
    database_url: str, empty_database_url: str, tmp_path: Path
) -> None:
    """A node with a time zone of its own gave sums with which no backup could be restored."""
    names = ("alice", "bob", "carol", "dave")
    async with Engine(Settings(database_url=SecretStr(database_url))) as engine:
        for name in names:
            await engine.memories.add(name, Memory(memory_id="m1", content=f"{name} likes tea"))
    database = rows(database_url, "select current_database()")[0][0]
    on_nodes = "set citus.enable_ddl_propagation = off"
    for worker in workers(database_url):
        run(worker, on_nodes, f"alter database {database} set timezone = 'Asia/Tokyo'")
    try:
        made = backup.backup(database_url, tmp_path / "cluster.zip")
        assert backup.restore(empty_database_url, tmp_path / "cluster.zip") == made
        assert backup.backup(empty_database_url, tmp_path / "server.zip") == made
        empty(database_url)
        for worker in workers(database_url):  # as on new servers
            run(worker, "select setval(seqrelid::regclass, seqmin, false) from pg_sequence where seqmin > 1")
        assert backup.restore(database_url, tmp_path / "server.zip") == made
    finally:
        for worker in workers(database_url):
            run(worker, on_nodes, f"alter database {database} reset timezone")
    async with Engine(Settings(database_url=SecretStr(database_url))) as engine:
        for name in names:
            assert [hit.content for hit in (await engine.recall(name, "Who likes tea?")).hits] == [f"{name} likes tea"]
            await engine.memories.update(name, "m1", content=f"{name} likes coffee")
            assert [e.operation for e in await engine.memories.history(name, "m1")] == ["insert", "update"]


@on_a_cluster
async def test_a_migration_reaches_all_servers(
    cluster_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reme = Reme(capsys)
    distribute.distribute(cluster_url, 4)
    migrate.downgrade(cluster_url, "0028")
    monkeypatch.setenv("DATABASE_URL", cluster_url)
    assert "0028" in reme("db", "status", code=4)
    for told in (reme("db", "upgrade"), reme("db", "status")):
        assert "Not distributed yet: embedding_model, api_key," in told
    with pytest.raises(SchemaError, match="is distributed but for embedding_model, "):
        await Engine(Settings(database_url=SecretStr(cluster_url))).open()
    again = [step.what for step in distribute.distribute(cluster_url, 4)]  # the tables that the migrations made anew
    assert {"copy api_key to all nodes", "spread embedding beside it"} < set(again)
    assert not any("workspace" in what or "memory" in what for what in again)
    assert distribute.distribute(cluster_url, 4) == []
    async with Engine(Settings(database_url=SecretStr(cluster_url))) as engine:
        (tea,) = await engine.memories.add("alice", [Memory(content="Alice likes green tea")])
        (added,) = await engine.memories.history("alice", tea.memory_id)
        assert added.changed_at == (await engine.memories.get("alice", tea.memory_id)).recorded_at
        await engine.memories.delete("alice", tea.memory_id)
        # A trigger that a migration made on a distributed table.
        assert await engine.database.fetch("alice", "select active from reme.embedding") == [(False,)]


@on_a_cluster
async def test_what_is_of_one_workspace_is_done_by_one_server(
    database_url: str, settings: Settings, tmp_path: Path
) -> None:
    """Recall, record, add, load, reconcile and erase: a statement that had more than one task would be an error."""
    database = rows(database_url, "select current_database()")[0][0]
    unlogged = settings.model_copy(
        update={"recall": settings.recall.model_copy(update={"log": False, "exact_below": 50})}
    )
    async with Engine(settings) as engine:  # the model is registered on all servers, once
        await engine.memories.add("bob", [Memory(content="Bob drinks coffee")])
    run(database_url, f"alter database {database} set citus.multi_task_query_log_level = 'error'")
    try:
        with pytest.raises(pg.InternalError, match="multi-task query"):
            run(database_url, "select count(*) from reme.memory")
        async with Engine(unlogged) as engine:
            await engine.memories.add("alice", [Memory(memory_id="m1", content="Alice drinks green tea")])
            said = Message(message_id="s1", role="user", content="I moved to Lisbon, and I am allergic to nuts.")
            await engine.record("alice", [said])
            await engine.summarise("alice")
            found = await engine.recall("alice", "What does she drink?")
            assert "Alice drinks green tea" in [hit.content for hit in found.hits]
            assert (await engine.recall("alice", "Where to?", kind="conversation")).hits
            await engine.memories.update("alice", "m1", content="Alice drinks black tea")
            now = await engine.recall("alice", "What does she drink?", as_of=datetime.now(UTC))
            assert "Alice drinks black tea" in [hit.content for hit in now.hits]
            await engine.workspaces.dump("alice", tmp_path / "alice.jsonl")
            assert await engine.workspaces.load("alice", tmp_path / "alice.jsonl", replace=True)
            assert await engine.workspaces.load("alice", tmp_path / "alice.jsonl")
            await engine.memories.add("alice", [Memory(content=f"She has seen film {n}") for n in range(60)])
            await engine.workspaces.load("alice", tmp_path / "alice.jsonl")  # brings the workspace into the index
            is_indexed = "select hnsw from reme.workspace where workspace_id = 'alice'"
            assert await engine.database.fetch("alice", is_indexed) == [(True,)]
            found = await engine.recall("alice", "What does she drink?")
            assert "Alice drinks black tea" in [hit.content for hit in found.hits]
            assert await engine.memories.delete("alice", "m1", erase=True)
            assert await engine.erase_messages("alice", "s1") == 1
    finally:
        run(database_url, f"alter database {database} reset citus.multi_task_query_log_level")


@on_a_cluster
async def test_the_log_of_many_workspaces_is_written_wherever_they_are(database_url: str, settings: Settings) -> None:
    names = [f"w{n}" for n in range(8)]
    async with Engine(settings) as engine:
        recalls = []
        for name in names:
            await engine.memories.add(name, [Memory(content=f"{name} likes green tea")])
            recalls.append(await engine.recall(name, "Who likes tea?"))
            engine.log_writer.log_note(name, recalls[-1:], lambda hit: "space")
        assert len({distribute.nodes(database_url, name)[1] for name in names}) > 1
        await engine.log_writer.flush()
        for name, recalled in zip(names, recalls, strict=True):
            logged = await engine.database.fetch(
                name,
                "select r.retrieval_id, r.note_id <> '', h.memory_id, h.left_out"
                " from reme.retrieval r join reme.retrieval_hit h using (workspace_id, retrieval_id)"
                " where r.workspace_id = %s", [name],
            )  # fmt: skip
            assert logged == [(recalled.retrieval_id, True, recalled.hits[0].memory.memory_id, "space")]
            shown = {"workspace": name, "flow": "", "q": "", "limit": 5, "offset": 0}
            listed = await engine.database.fetch(name, load("inspector.sql")["recalls"], shown)
            assert [row[0] for row in listed] == [recalled.retrieval_id]


def told(entry: HistoryEntry) -> tuple[int, str, str]:
    return entry.number, entry.operation, (entry.after or {})["content"]


@on_a_cluster
async def test_a_copy_may_be_on_another_server(database_url: str, settings: Settings) -> None:
    async with Engine(settings) as engine:
        await engine.memories.add("alice", [Memory(memory_id="m1", content="Alice drinks tea")])
        await engine.memories.update("alice", "m1", content="Alice drinks green tea")
        history = await engine.memories.history("alice", "m1")
        copies = [f"copy {n}" for n in range(8)]
        for name in copies:
            assert await engine.workspaces.copy("alice", name) == 1
            assert list(map(told, await engine.memories.history(name, "m1"))) == list(map(told, history))
            await engine.memories.update(name, "m1", content=f"Alice drinks black tea in {name}")
            *earlier, last = await engine.memories.history(name, "m1")
            assert list(map(told, earlier)) == list(map(told, history)) and last.number > history[-1].number
        assert len({distribute.nodes(database_url, name)[1] for name in copies}) > 1


@on_a_cluster
async def test_a_worker_shows_no_row_of_another_tenant(database_url: str, settings: Settings) -> None:
    async with Engine(settings) as engine:
        for name in ("alice", "bob", "carol", "dave"):
            await engine.memories.add(name, [Memory(content=f"the secret of {name}")])
    seen = 0
    for url in workers(database_url):
        with psycopg.connect(url, autocommit=True) as worker:
            worker.execute("set citus.override_table_visibility = off")
            tables = [
                f"reme.{name}"
                for (name,) in worker.execute(
                    r"select relname from pg_class where relkind = 'r' and relname ~ '^(memory|posting|embedding)_\d+$'"
                )
            ]
            assert tables
            in_all = sum(worker.execute(f"select count(*) from {name}".encode()).fetchone()[0] for name in tables)
            worker.execute("set role reme_service")
            for name in tables:
                assert worker.execute(f"select count(*) from {name}".encode()).fetchone() == (0,)
                of_alice = f"select workspace_id from {name} where current_setting('reme.workspace') <> ''"
                worker.execute("set reme.workspace = 'alice'")
                assert {row[0] for row in worker.execute(of_alice.encode())} <= {"alice"}
                worker.execute("reset reme.workspace")
            seen += in_all
            with pytest.raises(pg.InsufficientPrivilege):
                worker.execute("set reme.workspace = 'alice'")
                worker.execute(
                    f"insert into {_shard(tables, 'memory')} (workspace_id, memory_id, kind, content)"
                    " values ('mallory', 'm', 'observation', 'c')"
                )
    assert seen > 4


def _shard(tables: list[str], name: str) -> str:
    return next(table for table in tables if table.startswith(f"reme.{name}_"))


@on_a_cluster
async def test_a_history_goes_on_in_order_wherever_its_workspace_moves(database_url: str, settings: Settings) -> None:
    async with Engine(settings) as engine:
        await engine.memories.add("alice", [Memory(memory_id="m1", content="Alice drinks tea")])
        versions = [await engine.memories.version("alice")]
        for _ in range(3):
            here = distribute.nodes(database_url, "alice")[1]
            there = next(
                node
                for node in distribute.nodes(database_url)[0]
                if node.holds_workspaces and f"{node.host}:{node.port}" != here
            )
            run(
                database_url,
                "select citus_move_shard_placement(get_shard_id_for_distribution_column('reme.workspace', 'alice'),"
                f" '{str(here).split(':')[0]}', {str(here).split(':')[1]}, '{there.host}', {there.port},"
                " shard_transfer_mode => 'block_writes')",
            )
            assert distribute.nodes(database_url, "alice")[1] == f"{there.host}:{there.port}"
            await engine.memories.add("alice", [Memory(content=f"Alice moved to {there.port} {len(versions)}")])
            versions.append(await engine.memories.version("alice"))
    assert versions == sorted(set(versions))
