"""The HNSW index is built whole, or anew: after a build that was broken off, and where little memory is shared."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from reme_core.engine import Engine
from reme_core.errors import DatabaseError
from reme_core.postgres.embedded.server import stop_embedded
from reme_core.store import recall_sql
from reme_core.store.filters import Filters
from reme_core.store.index import hnsw
from reme_core.store.relevance import Question
from reme_core.types import Message
from tests.conftest import CITUS_URL
from tests.store.recalled import explained

IS_VALID = "select indisvalid from pg_index where indexrelid::regclass::text like '%embedding_hnsw%'"
WITH_LITTLE_SHARED_MEMORY = """
import asyncio, sys
from pathlib import Path
import numpy as np
from reme_core.engine import Engine
from reme_core.postgres.embedded import files
from reme_core.settings import Settings
from reme_core.store import recall_sql
from reme_core.store.index import hnsw
from reme_core.store.relevance import Question

files._SMALL_SHM = 0  # as a server of the user's own, which takes /dev/shm as it is

async def main(folder):
    async with Engine(Settings(data_dir=Path(folder))) as reme:
        async with reme.database.owner_connection() as connection:
            await connection.execute("alter system set min_parallel_table_scan_size = 0")
            await connection.execute("select pg_reload_conf()")
        vectors = np.random.default_rng(0).normal(size=(300, 384))
        await reme.memories.add("w", [f"sentence {n}" for n in range(300)], embeddings=vectors)
        assert await hnsw.ensure(reme.database, "w", exact_below=100)
        async with reme.database.owner_connection() as connection:
            print(await (await connection.execute(sys.argv[2])).fetchall())

asyncio.run(main(sys.argv[1]))
"""


async def fill(reme: Engine, count: int = 200, *, workspace: str = "w") -> None:
    vectors = np.random.default_rng(0).normal(size=(count, 384))
    await reme.memories.add(workspace, [f"sentence {n}" for n in range(count)], embeddings=vectors)


@pytest.mark.skipif(bool(CITUS_URL), reason="the build that is cancelled runs on other servers")
async def test_a_build_that_was_broken_off_is_done_again(reme: Engine) -> None:
    await fill(reme)
    with psycopg.connect(reme.database.url) as other, psycopg.connect(reme.database.url, autocommit=True) as watch:
        other.execute("lock table reme.embedding in row exclusive mode")  # which a concurrent build waits for
        building = asyncio.create_task(hnsw.ensure(reme.database, "w", exact_below=100))
        async with asyncio.timeout(30):
            while not watch.execute(IS_VALID).fetchall():
                await asyncio.sleep(0.02)
        watch.execute("select pg_cancel_backend(pid) from pg_stat_progress_create_index")
        with pytest.raises(DatabaseError):
            await building
        assert watch.execute(IS_VALID).fetchall() == [(False,)]
        other.rollback()
        assert await hnsw.ensure(reme.database, "w", exact_below=100)
        assert watch.execute(IS_VALID).fetchall() == [(True,)]


async def test_what_gets_its_vector_while_the_index_is_built_joins_it_a_few_at_a_time(
    reme: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined: list[int] = []
    build, switch = hnsw._build, hnsw.switch_to_index

    async def build_while_others_write(*args: Any) -> None:
        await build(*args)
        await reme._indexing._embed("w")
        await reme.memories.add("w", [f"added meanwhile {n}" for n in range(250)])

    async def count_and_switch(conn: Any, *args: str) -> int | None:
        inside = "select count(*) from reme.embedding where hnsw"
        before = await (await conn.execute(inside)).fetchone()
        first = await switch(conn, *args)
        after = await (await conn.execute(inside)).fetchone()
        joined.append(after[0] - before[0])
        return first

    monkeypatch.setattr(hnsw, "_build", build_while_others_write)
    monkeypatch.setattr(hnsw, "switch_to_index", count_and_switch)
    monkeypatch.setattr(reme._indexing, "embed_soon", lambda workspace: asyncio.Event())
    # They get their vectors after memories with higher numbers.
    await reme.record("w", [Message(content=f"said {n}") for n in range(120)])
    await fill(reme)
    assert await hnsw.ensure(reme.database, "w", exact_below=100)
    # Whoever switches holds the write lock, and every other writer waits meanwhile.
    assert joined == [0]
    assert await reme.database.fetch("w", "select count(*), bool_and(hnsw) from reme.embedding") == [(570, True)]
    assert not await hnsw.left_behind(reme.database)


async def test_a_workspace_joins_the_index_of_others_a_few_at_a_time(
    reme: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[int] = []
    join = hnsw._join

    async def note_batch(*args: Any, batch: int, **more: Any) -> None:
        batches.append(batch)
        await join(*args, batch=batch, **more)

    monkeypatch.setattr(hnsw, "_join", note_batch)
    for workspace in ("first", "second"):
        await fill(reme, workspace=workspace)
        assert await hnsw.ensure(reme.database, workspace, exact_below=100)
        assert await reme.database.fetch(workspace, "select bool_and(hnsw) from reme.embedding") == [(True,)]
    assert batches == [hnsw._MARKED, hnsw.INSERTED]


async def test_many_that_are_added_at_once_join_the_index_later_and_are_found_before(
    reme: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = "select count(*) from reme.embedding where not hnsw"
    monkeypatch.setattr(hnsw, "INSERTED", 20)
    monkeypatch.setattr(recall_sql, "_FEW", 0)  # else so few are looked up without a search of the index
    reme.settings.recall.exact_below = 100
    vectors = np.random.default_rng(1).normal(size=(50, 384))
    await fill(reme)
    assert await hnsw.ensure(reme.database, "w", exact_below=100)
    reme._workspace_models.forget("w")
    await reme.memories.add("w", "one", embeddings=vectors[:1])
    assert await reme.database.fetch("w", outside) == [(0,)]
    with monkeypatch.context() as patched:
        # As if the process ended before it comes to it.
        patched.setattr(reme.memories, "_on_growth", lambda workspace: None)
        await reme.memories.add("w", [f"new {n}" for n in range(50)], embeddings=vectors)
    assert await reme.database.fetch("w", outside) == [(50,)]
    for place in (0, 49):
        hits = (await reme.recall("w", "whatever", embedding=vectors[place], limit=2)).hits
        assert f"new {place}" in [hit.content for hit in hits]
    await reme._indexing.embed_everywhere()
    async with asyncio.timeout(30):
        while await reme.database.fetch("w", outside) != [(0,)]:
            await asyncio.sleep(0.1)
    assert not await hnsw.left_behind(reme.database)
    assert not await hnsw.ensure(reme.database, "w", exact_below=100)


async def test_a_workspace_that_another_process_took_out_of_the_index_is_searched_by_meaning_at_once(
    reme: Engine, tmp_path: Path
) -> None:
    await fill(reme)
    assert await hnsw.ensure(reme.database, "w", exact_below=100)
    reme._workspace_models.forget("w")
    assert (await reme._workspace_models.of("w")).ef_search  # remembered for half a minute
    contents = ["Her flute sings", *(f"invoice {n} of the office" for n in range(20))]
    library = [json.dumps({"memory_id": f"m{n}", "content": content}) for n, content in enumerate(contents)]
    (tmp_path / "w.jsonl").write_text("\n".join(library))
    async with Engine(reme.settings) as other:
        await other.workspaces.load("w", tmp_path, replace=True)
    (vector,) = await reme._workspace_models.default.embed(contents[:1], "passage")
    hits = (await reme.recall("w", "invoice of the office", embedding=vector, limit=2)).hits
    assert contents[0] in [hit.content for hit in hits]


@pytest.mark.parametrize("kinds", [[], ["custom"]])
async def test_where_all_are_in_the_index_no_recall_reads_others(reme: Engine, kinds: list[str]) -> None:
    await fill(reme, 3_000)
    assert await hnsw.ensure(reme.database, "w", exact_below=100)
    vector = np.random.default_rng(0).normal(size=384)
    question = Question("w", "a sentence", vector, reme._workspace_models.default.name, 10, Filters(kinds=kinds))
    way = recall_sql.Plan(hnsw_dimensions=384, every_posting=False)
    plan = await explained(reme, question, way, recall_sql._INDEX_SETTINGS)
    of_vectors = re.findall(r"(.* Scan .*on embedding\S* .*)\n", plan)
    # The index, with a filter few that pass, what is not in the index, and the matches by words.
    assert len(of_vectors) == 3 + bool(kinds)
    read = [float(rows) for line in of_vectors for rows in re.findall(r"actual.* rows=([\d.]+)", line)]
    assert max(read) < 500


def test_each_model_has_an_index_of_its_own_however_it_is_named() -> None:
    names = [hnsw.index_name("模" * 40 + version) for version in "12"]
    assert len(set(names)) == 2
    assert max(len(name.encode()) for name in names) < 64  # bytes; Postgres cuts off the rest


async def test_many_vectors_join_the_index_quickly_before_the_first_analyze(reme: Engine) -> None:
    await fill(reme, 3_000)
    plan = "explain (analyze, format json) " + hnsw._SQL["join_batch"]
    values = {"workspace": "w", "model": reme._workspace_models.default.name, "after": -1, "limit": 3_000}
    async with reme.database.transaction("w") as conn:
        ((told,),) = await (await conn.execute(plan, values)).fetchall()
    assert "Nested Loop" not in str(told)  # which would compare each row with each: 50 s for 5,000 of 15,000 rows


async def test_a_large_workspace_is_searched_with_more_candidates(reme: Engine) -> None:
    await fill(reme)
    assert (await reme._workspace_models.of("w")).ef_search == 0  # it is not in the index
    assert await hnsw.ensure(reme.database, "w", exact_below=100)
    for documents, candidates in ((200, 200), (49_999, 200), (50_000, 300), (100_000, 400), (1_000_000, 800)):
        sized = "update reme.corpus_statistic set documents = %(documents)s"
        await reme.database.execute("w", sized, {"documents": documents})
        reme._workspace_models.forget("w")
        assert (await reme._workspace_models.of("w")).ef_search == candidates


@pytest.fixture
def own_data_dir() -> Iterator[Path]:
    """One that does not stand in /dev/shm, over which the test lays a smaller one."""
    folder = Path(tempfile.mkdtemp(prefix="reme-", dir="/tmp"))
    yield folder
    stop_embedded(folder)
    shutil.rmtree(folder)


def test_a_server_whose_processes_share_little_memory_builds_alone(migrated_data_dir: Path) -> None:
    mount = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=8m,mode=1777 tmpfs /dev/shm && exec "$@"', "sh"]
    if sys.platform != "linux" or subprocess.run([*mount, "true"], capture_output=True, check=False).returncode:
        pytest.skip("a /dev/shm of one's own takes Linux, and root")
    script = [sys.executable, "-c", WITH_LITTLE_SHARED_MEMORY, str(migrated_data_dir), IS_VALID]
    done = subprocess.run([*mount, *script], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.strip() == "[(True,)]", done.stderr
