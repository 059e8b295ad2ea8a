"""Postings in segments: written beside others, merged size by size, and all the same to a question."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from reme_core import Message
from reme_core.engine import Engine
from reme_core.postgres.database import Database
from reme_core.store.index import postings
from reme_core.store.index.postings import SEGMENT, Document
from tests.conftest import CITUS_URL
from tests.store.recount import POSTINGS, consistent

WORDS = [f"w{number}" for number in range(40)]


@pytest.fixture
def reme(words: Engine) -> Engine:
    return words


async def all_postings(database: Database) -> list[tuple[object, ...]]:
    asked = f"select corpus, term, from_neighbour, document_id, impact from {POSTINGS} order by 1, 2, 3, 4"
    return await database.fetch("w", asked)


async def sizes(database: Database, term: str) -> list[int]:
    rows = await database.fetch("w", "select cardinality(documents) from posting where term = %s", [term])
    return sorted(row[0] for row in rows)


async def answers(reme: Engine) -> list[list[tuple[str, float]]]:
    return [
        [(hit.content, pytest.approx(hit.parts.lexical)) for hit in (await reme.recall("w", query, kind=kind)).hits]
        for query in ("w1 w7 w30", "w2", "w39 w0 elsewhere")
        for kind in (None, "conversation")
    ]


async def fill(reme: Engine, *, count: int = 60) -> None:
    """Memories and turns that come one by one, as an agent's do."""
    picked = random.Random(5)
    for number in range(count):
        await reme.memories.add("w", f"m{number} " + " ".join(picked.sample(WORDS, 6)))
        await reme.record("w", [Message(content=f"t{number} " + " ".join(picked.sample(WORDS, 6)), session_id="s")])
    await reme.record("w", [Message(content="the end", session_id="s")], wait=True)


async def test_merging_changes_no_answer_and_no_posting(reme: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postings, "MERGE_AFTER", 1_000_000)
    await fill(reme)
    before, found = await all_postings(reme.database), await answers(reme)
    assert set(await sizes(reme.database, "w1")) == {1}

    monkeypatch.setattr(postings, "MERGE_AFTER", 1)
    monkeypatch.setattr(postings, "_TERMS_PER_MERGE", 7)
    await postings.merge(reme.database, "w")

    assert await all_postings(reme.database) == before
    assert await answers(reme) == found
    assert max(await sizes(reme.database, "w1")) > 4
    crowded = await reme.database.fetch(
        "w",
        "select term from posting where cardinality(documents) < 4"
        " group by term, corpus, from_neighbour having count(*) >= 4",
    )
    assert crowded == []
    assert await reme.database.fetch("w", "select distinct unmerged_segments from corpus_statistic") == [(0,)]
    assert await consistent(reme.database, "w")


async def test_what_is_added_changed_and_erased_between_mergers_stays_right(
    reme: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postings, "MERGE_AFTER", 1)
    await fill(reme, count=20)
    await postings.merge(reme.database, "w")
    kept = await reme.memories.list("w")
    await reme.memories.update("w", kept[0].memory_id, content="w1 w2 something else")
    await reme.memories.delete("w", [kept[1].memory_id], erase=True)
    await fill(reme, count=10)
    assert await consistent(reme.database, "w")
    await postings.merge(reme.database, "w")
    assert await consistent(reme.database, "w")
    assert (await reme.recall("w", "something else")).hits[0].memory.memory_id == kept[0].memory_id


async def test_writers_and_mergers_do_not_hinder_each_other(reme: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postings, "MERGE_AFTER", 1)
    monkeypatch.setattr(postings, "_TERMS_PER_MERGE", 3)

    async def merge_again_and_again() -> None:
        for _ in range(5):
            await postings.merge(reme.database, "w")

    async with asyncio.timeout(60):
        await asyncio.gather(fill(reme, count=25), merge_again_and_again(), merge_again_and_again())
    assert await consistent(reme.database, "w")


async def test_what_was_written_bit_by_bit_is_merged_by_the_way(reme: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postings, "MERGE_AFTER", 50)
    monkeypatch.setattr("reme_core.store.index.rounds._QUIET_SECONDS", 0.05)
    await fill(reme, count=30)
    async with asyncio.timeout(20):
        while set(await sizes(reme.database, "w1")) == {1}:
            await asyncio.sleep(0.05)
    assert await consistent(reme.database, "w")


async def test_a_workspace_that_never_rests_is_seen_to_all_the_same(
    reme: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postings, "MERGE_AFTER", 20)
    monkeypatch.setattr("reme_core.store.index.rounds._QUIET_SECONDS", 30.0)
    monkeypatch.setattr("reme_core.store.index.rounds._MOST_SECONDS", 0.2)
    async with asyncio.timeout(30):
        for number in itertools.count():
            await reme.memories.add("w", f"w1 w2 w3 w4 w5 w6 number{number}")
            if max(await sizes(reme.database, "w1"), default=0) >= 4:
                break
    assert await consistent(reme.database, "w")


def segments(values: dict[str, object]) -> list[tuple[str, bool, list[int], list[float]]]:
    names = str(values["terms"]).split()
    arrays = {
        name: values[name].values for name in ("from_neighbour", "starts", "ends", "best", "documents", "impacts")
    }  # type: ignore[attr-defined]
    found = []
    for term, from_neighbour, start, end, best in zip(
        names, arrays["from_neighbour"], arrays["starts"], arrays["ends"], arrays["best"], strict=True
    ):
        impacts = arrays["impacts"][start - 1 : end].tolist()
        assert best == max(impacts)
        found.append((term, bool(from_neighbour), arrays["documents"][start - 1 : end].tolist(), impacts))
    return found


def test_segments_list_documents_in_order_and_none_is_too_long_for_a_page() -> None:
    documents = [Document(number, Counter({"common": 1 + number % 3, f"only{number}": 1})) for number in range(1_300)]
    found = segments(postings.postings("w", "memory", documents, 4.0))
    common = [documents for term, _, documents, _ in found if term == "common"]
    assert [len(documents) for documents in common] == [SEGMENT, SEGMENT, 1_300 - 2 * SEGMENT]
    assert [number for documents in common for number in documents] == list(range(1_300))
    assert [term for term, *_ in found] == sorted(term for term, *_ in found)
    assert len(found) == 3 + 1_300


def test_terms_from_neighbours_only_stand_apart() -> None:
    turns = [Document(1, Counter({"own": 1, "both": 2})), Document(2, Counter({"own": 0.5, "both": 1}), {"own"})]
    found = {
        (term, from_neighbour): documents
        for term, from_neighbour, documents, _ in segments(postings.postings("w", "message", turns, 2))
    }
    assert found == {("both", False): [1, 2], ("own", False): [1], ("own", True): [2]}


def test_nothing_makes_no_segment() -> None:
    assert segments(postings.postings("w", "memory", [], 1.0)) == []
    assert segments(postings.postings("w", "memory", [Document(1, Counter())], 1.0)) == []


async def test_a_term_that_many_hold_is_read_from_its_best_segments(reme: Engine) -> None:
    texts = ["rare " + "often " * 3, *["often " + " ".join(f"x{n}{k}" for k in range(20)) for n in range(1_100)]]
    vectors = np.eye(64, dtype=np.float32)[np.arange(len(texts)) % 64]
    await reme.memories.add("w", texts, embeddings=vectors)
    assert await sizes(reme.database, "often") == [1_101 - 2 * SEGMENT, SEGMENT, SEGMENT]
    hits = (await reme.recall("w", "often", embedding=vectors[5], limit=50)).hits
    (rare,) = (hit for hit in hits if hit.content.startswith("rare"))
    assert rare.parts.lexical == 1 and hits[0].parts.lexical < 1


@pytest.mark.skipif(bool(CITUS_URL), reason="the plan of another server's part is shown in another form")
async def test_what_is_erased_is_looked_for_where_it_can_be_and_each_segment_is_written_by_itself(reme: Engine) -> None:
    for batch in range(3):
        await reme.memories.add("w", [f"often n{number}" for number in range(batch * 400, batch * 400 + 400)])
    numbers = [row[0] for row in await reme.database.fetch("w", "select document_id from memory order by 1")]
    opened, sorted_at_once = await work_of_removal(reme.database, [numbers[600]])
    assert 0 < opened < 10, "of 1,203"
    opened, sorted_at_once = await work_of_removal(reme.database, numbers[::2])
    assert 0 < sorted_at_once <= SEGMENT
    newest = await reme.memories.list("w", limit=300)
    await reme.memories.delete("w", [memory.memory_id for memory in newest], erase=True)
    assert await consistent(reme.database, "w")


async def work_of_removal(database: Database, numbers: list[int]) -> tuple[int, int]:
    """How many segments a removal looks into, and the most postings that it sorts at once; nothing is removed."""
    told: list[dict[str, Any]] = []

    def walk(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield node
        for below in node.get("Plans", ()):
            yield from walk(below)

    class Explaining:
        async def execute(self, statement: str, values: dict[str, Any]) -> None:
            async with database.transaction("w") as conn:
                plan = await (await conn.execute(f"explain (analyze, format json) {statement}", values)).fetchone()
                told.extend(walk(plan[0][0]["Plan"]))
                await conn.rollback()

    await postings.remove(Explaining(), "w", numbers)  # type: ignore[arg-type]
    opened = sum(node["Actual Loops"] for node in told if node.get("Alias") == "held")
    return opened, max((node["Actual Rows"] for node in told if node["Node Type"] == "Sort"), default=0)


@pytest.mark.skipif(bool(CITUS_URL), reason="tables of other servers are left to their autovacuum")
async def test_the_planner_looks_at_a_table_that_has_grown_before_autovacuum_does(reme: Engine) -> None:
    analysed = "select count(*) from pg_stat_user_tables where relname = any(%s) and last_analyze is not null"
    await reme.record("w", [Message(content=f"w{number} and w{number + 1}") for number in range(600)], wait=True)
    assert await reme.database.fetch("w", analysed, [["message"]]) == [(1,)]
    await reme.memories.add("w", [f"w{number} and w{number + 1}" for number in range(600)])
    async with asyncio.timeout(5):
        while await reme.database.fetch("w", analysed, [["message", "memory"]]) != [(2,)]:
            await asyncio.sleep(0.1)
