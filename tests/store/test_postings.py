"""Postings in segments: written beside others, merged size by size, and all the same to a question."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable

import numpy as np
import pytest

from reme_core import AsyncReMe, Message, Settings
from reme_core.store import migrate, postings
from reme_core.store.database import Database
from reme_core.store.postings import SEGMENT, Document
from tests.store.recount import POSTINGS, consistent

WORDS = [f"w{number}" for number in range(40)]


@pytest.fixture
async def reme(with_model: Callable[[str], Settings]) -> AsyncIterator[AsyncReMe]:
    settings = with_model("words")
    settings.worker.embedded = False
    async with AsyncReMe(settings) as reme:
        yield reme


async def all_postings(database: Database) -> list[tuple[object, ...]]:
    asked = f"select corpus, term, lent, document_id, impact from {POSTINGS} order by 1, 2, 3, 4"
    return await database.fetch("w", asked)


async def sizes(database: Database, term: str) -> list[int]:
    rows = await database.fetch("w", "select cardinality(documents) from posting where term = %s", [term])
    return sorted(row[0] for row in rows)


async def answers(reme: AsyncReMe) -> list[list[tuple[str, float]]]:
    return [
        [(hit.content, pytest.approx(hit.parts.lexical)) for hit in (await reme.recall("w", query, kind=kind)).hits]
        for query in ("w1 w7 w30", "w2", "w39 w0 elsewhere")
        for kind in (None, "conversation")
    ]


async def fill(reme: AsyncReMe, *, count: int = 60) -> None:
    """Memories and turns that come one by one, as an agent's do."""
    picked = random.Random(5)
    for number in range(count):
        await reme.memories.add("w", f"m{number} " + " ".join(picked.sample(WORDS, 6)))
        await reme.record("w", [Message(content=f"t{number} " + " ".join(picked.sample(WORDS, 6)), session_id="s")])
    await reme.record("w", [Message(content="the end", session_id="s")], wait=True)


async def test_merging_changes_no_answer_and_no_posting(reme: AsyncReMe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postings, "MERGE_AFTER", 1_000_000)
    await fill(reme)
    before, found = await all_postings(reme.database), await answers(reme)
    assert set(await sizes(reme.database, "w1")) == {1}

    monkeypatch.setattr(postings, "MERGE_AFTER", 1)
    monkeypatch.setattr(postings, "_TERMS", 7)
    await postings.merge(reme.database, "w")

    assert await all_postings(reme.database) == before
    assert await answers(reme) == found
    assert max(await sizes(reme.database, "w1")) > 4
    crowded = await reme.database.fetch(
        "w",
        "select term from posting where cardinality(documents) < 4 group by term, corpus, lent having count(*) >= 4",
    )
    assert crowded == []
    assert await reme.database.fetch("w", "select distinct loose from corpus_statistic") == [(0,)]
    assert await consistent(reme.database, "w")


async def test_what_is_added_changed_and_erased_between_mergers_stays_right(
    reme: AsyncReMe, monkeypatch: pytest.MonkeyPatch
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


async def test_writers_and_mergers_do_not_hinder_each_other(reme: AsyncReMe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postings, "MERGE_AFTER", 1)
    monkeypatch.setattr(postings, "_TERMS", 3)

    async def merge_again_and_again() -> None:
        for _ in range(5):
            await postings.merge(reme.database, "w")

    async with asyncio.timeout(60):
        await asyncio.gather(fill(reme, count=25), merge_again_and_again(), merge_again_and_again())
    assert await consistent(reme.database, "w")


async def test_what_was_written_bit_by_bit_is_merged_by_the_way(
    reme: AsyncReMe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postings, "MERGE_AFTER", 50)
    monkeypatch.setattr("reme_core.indexing._QUIET_SECONDS", 0.05)
    await fill(reme, count=30)
    async with asyncio.timeout(20):
        while set(await sizes(reme.database, "w1")) == {1}:
            await asyncio.sleep(0.05)
    assert await consistent(reme.database, "w")


async def test_a_workspace_that_never_rests_is_seen_to_all_the_same(
    reme: AsyncReMe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postings, "MERGE_AFTER", 20)
    monkeypatch.setattr("reme_core.indexing._QUIET_SECONDS", 30.0)
    monkeypatch.setattr("reme_core.indexing._MOST_SECONDS", 0.2)
    async with asyncio.timeout(30):
        while max(await sizes(reme.database, "w1"), default=0) < 4:
            await reme.memories.add("w", "w1 w2 w3 w4 w5 w6")
    assert await consistent(reme.database, "w")


def segments(values: dict[str, object]) -> list[tuple[str, bool, list[int], list[float]]]:
    names = str(values["terms"]).split()
    arrays = {name: values[name].values for name in ("lent", "starts", "ends", "newest", "documents", "impacts")}  # type: ignore[attr-defined]
    found = []
    for term, lent, start, end, newest in zip(
        names, arrays["lent"], arrays["starts"], arrays["ends"], arrays["newest"], strict=True
    ):
        documents = arrays["documents"][start - 1 : end].tolist()
        assert newest == max(documents)
        found.append((term, bool(lent), documents, arrays["impacts"][start - 1 : end].tolist()))
    return found


def test_segments_list_the_best_first_and_none_is_too_long_for_a_page() -> None:
    documents = [Document(number, Counter({"common": 1 + number % 3, f"only{number}": 1})) for number in range(1_300)]
    found = segments(postings.postings("w", "memory", documents, 4.0))
    common = [(documents, impacts) for term, _, documents, impacts in found if term == "common"]
    assert [len(documents) for documents, _ in common] == [SEGMENT, SEGMENT, 1_300 - 2 * SEGMENT]
    in_order = [impact for _, impacts in common for impact in impacts]
    assert in_order == sorted(in_order, reverse=True)
    assert sorted(number for documents, _ in common for number in documents) == list(range(1_300))
    assert [term for term, *_ in found] == sorted(term for term, *_ in found)
    assert len(found) == 3 + 1_300


def test_what_is_only_lent_stands_apart() -> None:
    turns = [Document(1, Counter({"own": 1, "both": 2})), Document(2, Counter({"own": 0.5, "both": 1}), {"own"})]
    found = {
        (term, lent): documents for term, lent, documents, _ in segments(postings.postings("w", "message", turns, 2))
    }
    assert found == {("both", False): [1, 2], ("own", False): [1], ("own", True): [2]}


def test_nothing_makes_no_segment() -> None:
    assert segments(postings.postings("w", "memory", [], 1.0)) == []
    assert segments(postings.postings("w", "memory", [Document(1, Counter())], 1.0)) == []


async def test_a_term_that_many_hold_is_read_from_its_best_segments(reme: AsyncReMe) -> None:
    texts = ["rare " + "often " * 3, *["often " + " ".join(f"x{n}{k}" for k in range(20)) for n in range(1_100)]]
    vectors = np.eye(64, dtype=np.float32)[np.arange(len(texts)) % 64]
    await reme.memories.add("w", texts, embeddings=vectors)
    assert await sizes(reme.database, "often") == [1_101 - 2 * SEGMENT, SEGMENT, SEGMENT]
    hits = (await reme.recall("w", "often", embedding=vectors[5], limit=50)).hits
    (rare,) = (hit for hit in hits if hit.content.startswith("rare"))
    assert rare.parts.lexical == 1 and hits[0].parts.lexical < 1


async def test_migrating_back_and_forth_keeps_every_posting(reme: AsyncReMe) -> None:
    await fill(reme, count=15)
    asked = "select corpus, term, sum(cardinality(documents)) from posting where not lent group by 1, 2 order by 1, 2"
    before = [row[:2] + row[3:] for row in await all_postings(reme.database)]
    holding, found = await reme.database.fetch("w", asked), await answers(reme)
    url = reme.database.url

    await asyncio.to_thread(migrate.downgrade, url, "0008")
    single = await reme.database.fetch("w", "select corpus, term, document_id, impact from posting")
    counted = await reme.database.fetch("w", "select corpus, term, documents from term_statistic order by 1, 2")
    await asyncio.to_thread(migrate.upgrade, url)

    assert sorted(single) == sorted(before)
    assert counted == holding
    assert sorted(row[:2] + row[3:] for row in await all_postings(reme.database)) == sorted(before)
    assert await reme.database.fetch("w", asked) == holding
    assert await answers(reme) == found
