"""Whole workspaces: loaded and dumped without loss, copied with everything, cleared without remains."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from reme_core.engine import Engine
from reme_core.errors import ConflictError, InputError, LibraryError, NotFoundError
from reme_core.models import ModelCall
from reme_core.settings import Settings
from reme_core.store import logs, workspaces
from reme_core.store.change import Change, Close
from reme_core.store.filters import Filters
from reme_core.store.index import writer
from reme_core.store.items import ItemWrite
from reme_core.store.libraries import load
from reme_core.store.libraries.calls import CALLS
from reme_core.store.logs import logging_for_workspace
from reme_core.store.tool_calls import first_id
from reme_core.store.workspaces import _NOT_COPIED
from reme_core.types import Kind, Memory, Message, Source
from reme_core.types import now as present
from tests.loopback import Loopback
from tests.store.recount import consistent

Rows = list[dict[str, Any]]


def library(path: Path, count: int, *, first: int = 0) -> Path:
    rows = [
        {
            "workspace_id": "elsewhere", "memory_id": f"m{n}", "memory_type": "task", "when_to_use": f"Situation {n}",
            "content": f"Do thing {n} carefully.", "score": None if n % 3 else n / 7, "author": "qwen",
            "time_created": "2025-07-24 21:15:17", "time_modified": "2025-07-24 21:15:18",
            "metadata": {"extra_info": {"tags": [f"t{n % 5}"]}},
        }
        for n in range(first, first + count)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def rows_of(path: Path) -> Rows:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def contents(reme: Engine, workspace: str) -> set[str]:
    return {m.content for m in await reme.memories.list(workspace, limit=10_000)}


async def everything(reme: Engine, workspace: str) -> dict[str, Rows]:
    """All rows of a workspace, table by table, without the workspace's name and what a copy numbers anew."""
    tables = await reme.database.fetch(
        workspace,
        "select distinct c.relname from pg_class c join pg_attribute a on a.attrelid = c.oid"
        " where c.relnamespace = 'reme'::regnamespace and c.relkind in ('r', 'p') and a.attname = 'workspace_id'"
        " and not a.attisdropped",
    )
    found = {}
    for (table,) in tables:
        rows = await reme.database.fetch(workspace, f"select to_jsonb(t) from reme.{table} t order by 1::text")
        kept = [json.loads(json.dumps(row), object_hook=_without_names) for (row,) in rows]
        found[table] = sorted(kept, key=lambda row: json.dumps(row, sort_keys=True))
    return found


def _without_names(row: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in row.items() if name not in ("workspace_id", "history_id", "number")}


def note_failure(reme: Engine, workspace: str, answer: str) -> None:
    """Have the log note a call of a model whose answer was of no use."""
    call = ModelCall("test", "model", "read", 0, 0, 1.0, ok=False, error=f"unfit: {answer}", raw=answer)
    with logging_for_workspace(workspace):
        reme.log_writer.log_call(call)


async def furnish(reme: Engine, workspace: str) -> Memory:
    """A bit of everything."""
    old, new = Memory(content="Tom lives in Riga"), Memory(kind=Kind.INSIGHT, content="Tom lives in Berlin", freq=3)
    new.sources.append(Source(kind="message", id="m1", quote="I moved"))
    await reme.record(workspace, [Message(message_id="m1", content="I moved to Berlin", session_id="s")], wait=True)
    await reme.memories.add(workspace, [old, Memory(content="Tom likes tea", when_to_use="When offering drinks")])
    await reme.memories.apply(workspace, Change(add=[new], close=[Close(old.memory_id, "superseded", new.memory_id)]))
    await reme.memories.update(workspace, new.memory_id, content="Tom lives in Berlin now")
    await reme.recall(workspace, "Where does Tom live?")
    await reme.log_writer.flush()
    for statement in (
        "insert into episode (workspace_id, episode_id, number, task_id) values (%s, 'e1', 1, 't')",
        "insert into tool_call_result (workspace_id, call_hash, tool_name) values (%s, 'h', 'search')",
        "insert into item (workspace_id, namespace, key, namespace_place, value) values (%s, '{a}', 'k', 1, '{}')",
        "insert into item_embedding (workspace_id, place, path, embedding) select workspace_id, place, '$', '[1,2]'"
        " from item where workspace_id = %s",
    ):
        await reme.database.execute(workspace, statement, [workspace])
    return new


async def test_no_new_workspace_waits_for_the_first_writing_of_another_one(words: Engine) -> None:
    await words.memories.add("old", "She drinks tea.")  # the model is known from now on
    async with words.database.write_transaction("frozen") as conn:
        index = await writer.begin(conn, "frozen", "memory", count=1, model="words")
        await index.bind(np.ones((1, 64), np.float32))
        async with asyncio.timeout(5):
            await words.memories.add("new", "They drink water.")


async def test_a_loaded_library_goes_out_as_it_came_and_comes_back(words: Engine, tmp_path: Path) -> None:
    path = library(tmp_path / "lib.jsonl", 2300)
    seen: list[tuple[int, int]] = []
    assert await words.workspaces.load("w", path, on_progress=lambda *step: seen.append(step)) == 2300
    assert seen[-1] == (2300, 2300) and seen == sorted(seen)
    assert await words.workspaces.dump("w", tmp_path / "out.jsonl") == 2300
    assert rows_of(tmp_path / "out.jsonl") == [row | {"workspace_id": "w"} for row in rows_of(path)]
    assert (await words.recall("w", "Situation 1234", limit=1)).hits[0].content == "Do thing 1234 carefully."
    assert await consistent(words.database, "w")
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_file()) == ["lib.jsonl", "out.jsonl"]


async def test_loading_twice_gives_the_same(words: Engine, tmp_path: Path) -> None:
    path = library(tmp_path / "lib.jsonl", 30)
    for replace in (True, True, False, False):
        assert await words.workspaces.load("w", path, replace=replace) == 30
        await words.workspaces.dump("w", tmp_path / "out.jsonl")
        assert rows_of(tmp_path / "out.jsonl") == [row | {"workspace_id": "w"} for row in rows_of(path)]
        assert await consistent(words.database, "w")


async def test_loading_replaces_memories_and_leaves_messages(words: Engine, tmp_path: Path) -> None:
    await furnish(words, "w")
    before = present()
    assert await words.workspaces.load("w", library(tmp_path / "lib.jsonl", 2), replace=True) == 2
    assert await contents(words, "w") == {"Do thing 0 carefully.", "Do thing 1 carefully."}
    assert len((await words.recall("w", "Berlin", kind="conversation")).hits) == 1
    assert {m.content for m in await words.memories.as_of("w", before)} == {"Tom lives in Berlin now", "Tom likes tea"}
    assert await consistent(words.database, "w")


async def test_without_replacing_the_others_stay(words: Engine, tmp_path: Path) -> None:
    await words.workspaces.load("w", library(tmp_path / "lib.jsonl", 5))
    await words.memories.update("w", "m4", content="Changed since.")
    await words.workspaces.load("w", library(tmp_path / "lib.jsonl", 5, first=3))
    assert await contents(words, "w") == {f"Do thing {n} carefully." for n in range(8)}
    assert await consistent(words.database, "w")


async def test_what_only_we_know_survives_dump_and_load(words: Engine, tmp_path: Path) -> None:
    await furnish(words, "w")
    await words.memories.delete("w", [(await words.memories.add("w", "Deleted, not given out"))[0].memory_id])
    assert await words.workspaces.dump("w", tmp_path) == 4  # with the call of a tool that has no guidance
    (tmp_path / "w.jsonl").rename(tmp_path / "v.jsonl")
    assert await words.workspaces.load("v", tmp_path) == 4
    every = Filters(status=None)
    before, after = [
        {
            m.memory_id: m.model_dump(exclude={"workspace_id", "recorded_at"})
            for m in await words.memories.list(w, every)
        }
        for w in "wv"
    ]
    del after[first_id("search")]
    assert after.items() <= before.items() and len(after) == 3


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (b'{"memory_id": "x", "content": "y", "score": "z"}\n', "line 300: score must be a number"),
        (b"{not json}\n", "line 300: it is not JSON"),
        (b'{"memory_id": "m5", "content": "y"}\n', "line 300: memory_id 'm5' stands on an earlier line too"),
    ],
)
async def test_a_broken_line_leaves_the_workspace_as_it_was(
    words: Engine, tmp_path: Path, broken: bytes, reason: str
) -> None:
    await furnish(words, "w")
    before = await everything(words, "w")
    lines = library(tmp_path / "lib.jsonl", 400).read_bytes().splitlines(keepends=True)
    lines[299] = broken
    (tmp_path / "lib.jsonl").write_bytes(b"".join(lines))
    with pytest.raises(LibraryError, match=reason) as caught:
        await words.workspaces.load("w", tmp_path / "lib.jsonl")
    assert caught.value.line == 300
    assert await everything(words, "w") == before


async def test_an_id_that_comes_again_far_below_is_noticed(words: Engine, tmp_path: Path) -> None:
    path = library(tmp_path / "lib.jsonl", 1500)
    path.write_text(path.read_text() + '{"memory_id": "m7", "content": "again"}\n')
    with pytest.raises(LibraryError, match="line 1501: memory_id 'm7'"):
        await words.workspaces.load("w", path)
    assert await words.workspaces.list() == []


async def test_files_that_cannot_be_read_or_written_are_named(words: Engine, tmp_path: Path) -> None:
    with pytest.raises(LibraryError, match=r"cannot read .*none.jsonl: No such file"):
        await words.workspaces.load("w", tmp_path / "none.jsonl")
    with pytest.raises(NotFoundError, match="no workspace 'w'"):
        await words.workspaces.dump("w", tmp_path)
    await words.memories.add("w", "x y z")
    with pytest.raises(InputError, match="cannot write"):
        await words.workspaces.dump("w", tmp_path / "none" / "out.jsonl")
    assert list(tmp_path.glob("*.part")) == list(tmp_path.glob(".*.part")) == []


async def test_a_model_that_fails_leaves_the_workspace_as_it_was(
    words: Engine, tmp_path: Path, loopback: Loopback
) -> None:
    await words.workspaces.load("w", library(tmp_path / "lib.jsonl", 3))
    before = await everything(words, "w")
    loopback.fail(400)
    with pytest.raises(Exception, match="told to fail"):
        await words.workspaces.load("w", library(tmp_path / "lib.jsonl", 9))
    assert await everything(words, "w") == before


async def test_a_copy_is_a_twin_that_goes_its_own_way(words: Engine, loopback: Loopback) -> None:
    await furnish(words, "w")
    moment, asked = present(), len(loopback.requests)
    before = await everything(words, "w")
    assert await words.workspaces.copy("w", "twin") == 3
    assert len(loopback.requests) == asked
    twin = await everything(words, "twin")
    left_out = {"retrieval", "retrieval_hit", "model_call"}
    assert {t: r for t, r in twin.items() if r and t != "workspace"} == {
        t: r for t, r in before.items() if r and t not in left_out and t != "workspace"
    }
    assert left_out <= {t for t, r in before.items() if r}
    assert await consistent(words.database, "twin")
    known = [m.content for m in await words.memories.as_of("twin", moment)]
    assert known == [m.content for m in await words.memories.as_of("w", moment)] and len(known) == 2
    assert [m.content for m in reversed(await words.memories.list("twin", as_of=moment))] == known
    await words.memories.add("twin", "Only the twin knows")
    assert await words.workspaces.clear("w") == 3
    assert "Only the twin knows" in await contents(words, "twin")
    assert (await words.recall("twin", "Tom lives in Berlin", limit=1)).hits[0].content == "Tom lives in Berlin now"


async def test_a_copy_makes_memories_of_the_conversations_that_wait(reme: Engine) -> None:
    await reme.record("w", [Message(content="I live in York with my cat.", session_id=s) for s in ("s1", "s2")])
    await reme.workspaces.copy("w", "twin")
    done = await reme.summarise("twin")
    assert sorted(job.session_id for job in done.done) == ["s1", "s2"]
    assert [m.content for m in await reme.memories.list("twin")] == ["I live in York with my cat."]
    assert len((await reme.summarise("w")).done) == 2


async def test_a_copy_takes_nothing_away_unasked(words: Engine) -> None:
    await words.memories.add("a", "from a")
    await words.memories.add("b", "from b")
    with pytest.raises(ConflictError, match="'b' is not empty"):
        await words.workspaces.copy("a", "b")
    assert await words.workspaces.copy("a", "b", replace=True) == 1
    assert await contents(words, "b") == {"from a"}
    with pytest.raises(NotFoundError, match="no workspace 'none'"):
        await words.workspaces.copy("none", "b", replace=True)
    assert await contents(words, "b") == {"from a"}
    with pytest.raises(InputError, match="onto itself"):
        await words.workspaces.copy("a", "a")


async def test_a_copy_mixes_with_nothing_that_the_target_holds(words: Engine) -> None:
    await words.memories.add("a", "from a")
    await words.items.write("b", [ItemWrite(("shelf",), "key", {"from": "b"})])
    with pytest.raises(ConflictError, match="'b' is not empty"):
        await words.workspaces.copy("a", "b")
    assert await words.workspaces.copy("a", "b", replace=True) == 1
    assert await words.items.search("b", ()) == []


async def test_a_copy_goes_into_a_workspace_that_has_been_emptied(words: Engine) -> None:
    await words.memories.add("a", "from a")
    await words.workspaces.schedule("b", reflect_every_hours=None)
    assert await words.workspaces.copy("a", "b") == 1
    (last,) = await words.memories.add("c", "from c")
    await words.memories.delete("c", last.memory_id, erase=True)
    assert await words.workspaces.copy("a", "c", replace=True) == 1
    assert await contents(words, "b") == await contents(words, "c") == {"from a"}


@pytest.mark.parametrize("rows", [0, 4], ids=["emptied", "grown"])
async def test_a_library_that_is_changed_while_it_is_loaded_changes_nothing(
    words: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    path, embed = library(tmp_path / "w.jsonl", 3), load._embed
    await words.memories.add("w", "It rains.")

    async def embed_and_change(*args: Any) -> int:
        width = await embed(*args)
        library(path, rows)
        return width

    monkeypatch.setattr(load, "_embed", embed_and_change)
    with pytest.raises(LibraryError, match="was changed while it was read; nothing was loaded"):
        await words.workspaces.load("w", path, replace=True)
    assert await contents(words, "w") == {"It rains."}


async def test_an_item_that_is_put_during_a_copy_does_not_break_it_off(
    words: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await words.items.write("a", [ItemWrite(("n",), "early", {"x": 1}, vectors={"x": np.ones(2, np.float32)})])

    class Meanwhile(set[str]):
        def __contains__(self, table: object) -> bool:
            if table == "item_embedding":  # the items are copied, and their vectors come next
                with psycopg.connect(words.database.url) as connection:
                    values = "select 'a', '{n}', 'late', 1, '{}' returning place"
                    insert = "insert into reme.item (workspace_id, namespace, key, namespace_place, value)"
                    put = f"with late as ({insert} {values}) insert into reme.item_embedding"
                    connection.execute(f"{put} select 'a', place, '$', '[1,2]' from late")
            return super().__contains__(table)

    monkeypatch.setattr(workspaces, "_NOT_COPIED", Meanwhile(_NOT_COPIED))
    await words.workspaces.copy("a", "b", replace=True)
    (copied,) = await words.items.search("b", vector=np.ones(2, np.float32))
    assert (copied.key, copied.score) == ("early", pytest.approx(1))


async def test_the_calls_of_a_tool_that_gets_guidance_during_a_dump_are_in_it(
    words: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await words.memories.add("w", "It rains.")
    await words.tools.record("w", [{"tool_name": "search", "output": "done"}])
    loop, to_wire = asyncio.get_running_loop(), workspaces.to_wire

    def meanwhile(memory: Memory) -> dict[str, Any]:  # in a thread, while the first rows are written
        if memory.content == "It rains.":
            guidance = Memory(kind=Kind.TOOL, subject="search", content="Search for single words.")
            asyncio.run_coroutine_threadsafe(words.memories.add("w", guidance), loop).result()
        return to_wire(memory)

    monkeypatch.setattr(workspaces, "to_wire", meanwhile)
    assert await words.workspaces.dump("w", tmp_path / "w.jsonl") == 2
    assert [row["output"] for one in rows_of(tmp_path / "w.jsonl") for row in one.get(CALLS, [])] == ["done"]


async def test_a_dump_waits_for_a_slow_disk_after_its_transaction(
    words: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await words.memories.add("w", "Ann has a cat.")
    states: list[str] = []

    def flush(_file: object) -> None:
        with psycopg.connect(words.database.url) as connection:
            asked = "select state from pg_stat_activity where datname = current_database()"
            states.extend(str(state) for (state,) in connection.execute(asked))

    monkeypatch.setattr(workspaces, "flush_to_disk", flush)
    assert await words.workspaces.dump("w", tmp_path / "w.jsonl") == 1
    assert "idle" in states and "idle in transaction" not in states


async def test_every_table_of_a_tenant_is_copied_or_known_not_to_be(words: Engine) -> None:
    tables = set(await everything(words, "w"))
    copied = {
        "embedding", "episode", "episode_finding", "episode_progress", "episode_rule", "episode_score", "item",
        "item_embedding", "memory", "memory_history", "memory_source", "message", "mistake_card", "posting",
        "corpus_statistic", "tool_call_result", "artifact",
    }  # fmt: skip
    assert tables - copied == set(_NOT_COPIED), "say in workspaces.py whether the new table is copied, and here"


async def test_a_cleared_workspace_leaves_no_row(words: Engine) -> None:
    await furnish(words, "w")
    await words.memories.add("other", "stays here")
    await words.recall("w", "its log entry is on its way")
    note_failure(words, "w", "on its way, too")
    assert await words.workspaces.clear("w") == 3
    await words.log_writer.flush()
    left = {table: rows for table, rows in (await everything(words, "w")).items() if rows}
    assert set(left) == {"model_call"} and {(row["raw"], row["error"]) for row in left["model_call"]} == {("", "")}
    assert await words.workspaces.list() == ["other"]
    for name in ("w", "never was"):
        with pytest.raises(NotFoundError, match=f"there is no workspace '{name}'"):
            await words.workspaces.clear(name)
        with pytest.raises(NotFoundError, match=f"there is no workspace '{name}'"):  # and not: nothing was hers
            await words.workspaces.clear(name, user_id="ann")
    await words.memories.add("w", "begins anew")
    assert await contents(words, "w") == {"begins anew"}
    assert await consistent(words.database, "w")


async def test_a_workspace_that_begins_anew_logs_nothing_from_before(
    words: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "_PAUSE_SECONDS", 60)  # as long as it takes until there is a workspace again
    await words.record("w", [Message(content="Tom likes tea")], wait=True)
    assert (await words.recall("w", "tea from before", kind=Kind.CONVERSATION)).hits
    note_failure(words, "w", "tea from before")
    await words.workspaces.clear("w")
    await words.record("w", [Message(content="Tom begins anew")], wait=True)
    assert (await words.recall("w", "since then", kind=Kind.CONVERSATION)).hits
    await words.log_writer.flush()
    assert await words.database.fetch("w", "select query from reme.retrieval") == [("since then",)]
    assert await words.database.fetch("w", "select 1 from reme.model_call where raw || error <> ''") == []


async def test_a_cleared_workspace_leaves_no_job(reme: Engine) -> None:
    for workspace in ("w", "other"):
        await reme.record(workspace, [Message(content="I live in Oslo.", session_id="a name in here")])
    await reme.workspaces.clear("w")
    assert [job.workspace for job in await reme.background.jobs()] == ["other"]
    assert await reme.database.execute_anywhere(
        "select distinct j.args ->> 'workspace'"
        " from procrastinate_events e join procrastinate_jobs j on j.id = e.job_id"
    ) == [("other",)]
    await reme.record("w", [Message(content="I moved to Bergen.", session_id="a name in here")])
    assert [job.workspace for job in await reme.background.jobs()] == ["w", "other"]


async def test_workspaces_are_described(words: Engine) -> None:
    await furnish(words, "w")
    await words.record("w", [Message(message_id="gone", content="Never mind", session_id="s")])
    await words.erase_messages("w", "gone")
    (told,) = await words.workspaces.describe()
    assert (told.workspace_id, told.embedding_model, told.dimensions, told.hnsw) == ("w", "words", 64, False)
    assert (told.memories, told.closed_memories, told.messages, told.episodes) == (2, 1, 1, 1)
    assert told.created_at <= datetime.now(UTC)


async def test_a_large_workspace_is_searched_by_an_index_after_loading(
    with_model: Callable[[str], Settings], tmp_path: Path
) -> None:
    settings = with_model("words")
    small = settings.model_copy(update={"recall": settings.recall.model_copy(update={"exact_below": 200})})
    async with Engine(small) as reme:
        for _ in range(2):
            await reme.workspaces.load("w", library(tmp_path / "lib.jsonl", 300))
            assert await reme.database.fetch("w", "select distinct hnsw from embedding") == [(True,)]
        assert (await reme.workspaces.describe())[0].hnsw
        await reme.memories.add("w", Memory(kind=Kind.TASK, when_to_use="Singular", content="Found in the index too."))
        assert (await reme.recall("w", "Singular: found in the index", limit=1)).hits[
            0
        ].content == "Found in the index too."
        assert await reme.workspaces.copy("w", "twin") == 301
        assert {info.workspace_id: info.hnsw for info in await reme.workspaces.describe()} == {"w": True, "twin": True}
        assert len((await reme.recall("twin", "Situation", limit=300)).hits) == 300


async def test_a_workspace_that_grows_large_is_brought_into_the_index(
    with_model: Callable[[str], Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reme_core.store.index.rounds._QUIET_SECONDS", 0.1)
    settings = with_model("words")
    small = settings.model_copy(update={"recall": settings.recall.model_copy(update={"exact_below": 50})})
    async with Engine(small) as reme:
        vectors = np.random.default_rng(0).normal(size=(60, 64))
        await reme.memories.add("w", [f"sentence {n}" for n in range(60)], embeddings=vectors)
    async with Engine(small) as reme:
        assert (await reme.workspaces.describe())[0].hnsw
        assert await reme.database.fetch("w", "select distinct hnsw from embedding") == [(True,)]


async def test_what_models_cost_is_told_for_each_workspace(words: Engine) -> None:
    for workspace, purpose, tokens, ok in (
        ("alice", "summary", 70, True), ("alice", "summary", 30, False), ("alice", "rewrite", 5, True),
        ("bob", "summary", 1, True),
    ):  # fmt: skip
        with logging_for_workspace(workspace):
            words.log_writer.log_call(ModelCall("openai", "m", purpose, tokens, 10, milliseconds=500, ok=ok))
    await words.log_writer.flush()
    summary, rewrite = await words.workspaces.model_usage("alice")
    assert (summary.model, summary.purpose, summary.calls, summary.failed) == ("m", "summary", 2, 1)
    assert (summary.prompt_tokens, summary.completion_tokens, summary.seconds) == (100, 20, 1.0)
    assert (rewrite.purpose, rewrite.prompt_tokens) == ("rewrite", 5)
    assert await words.workspaces.model_usage("alice", since=present()) == []
