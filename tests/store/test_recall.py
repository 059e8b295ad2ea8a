"""Recall: both legs, every filter, every hit explained, and never fewer hits than there are."""

from __future__ import annotations

import asyncio

import pytest

from benchmarks import synthetic
from reme_core import Memory, Message, TimeRange
from reme_core.engine import Engine
from reme_core.errors import InputError
from reme_core.settings import VectorShares
from reme_core.store.change import Change, Close
from reme_core.store.filters import Filters
from reme_core.types import Status
from reme_core.types import now as present
from tests.store.recalled import day, found, said

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


async def test_status_names_are_checked(reme: Engine) -> None:
    with pytest.raises(InputError, match="status"):
        await reme.recall("w", "x", status="gone")
    assert Status("active") == "active"
