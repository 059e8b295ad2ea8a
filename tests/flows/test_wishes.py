"""Standing wishes: they come with every note for the time that they name, until their author ends them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from reme_core.engine import Engine
from reme_core.errors import InputError
from reme_core.text.wishes_ended import allows_again
from reme_core.types import Kind, Memory
from tests.flows.personal_turns import everything, summarise, turn

MOVED = "I moved to Leipzig with my sister Ada last week."


async def test_instructions_come_with_every_note_before_all_else(reme: Engine) -> None:
    await summarise(reme, turn("From now on answer in short bullets."), turn("以后叫我老王"), turn(MOVED))
    kinds = {m.content: m.kind for m in await everything(reme)}
    assert kinds["From now on answer in short bullets."] == kinds["以后叫我老王"] == Kind.INSTRUCTION
    note = (await reme.retrieve("w", "How is the weather on Mars?")).answer
    assert note.index("short bullets") < note.index("Leipzig") if "Leipzig" in note else "short bullets" in note
    assert "老王" in note
    assert [m.kind for m in (await reme.get_profile("w")).memories] == [Kind.INSTRUCTION, Kind.INSTRUCTION]
    with pytest.raises(InputError, match="there is no filter 'userid'"):
        await reme.get_profile("w", userid="ann")  # type: ignore[call-arg]
    small = await reme.retrieve("w", "tea", token_budget=60)
    assert 0 < len(small.answer) <= len(note)


async def test_a_query_about_nothing_gets_the_instructions_alone_where_that_is_wished(reme: Engine) -> None:
    await summarise(reme, turn("From now on answer in short bullets."), turn(MOVED))
    plain = await reme.retrieve("w", "thanks!")
    held_back = await reme.retrieve("w", "thanks!", min_relevance=0.15)
    asked = await reme.retrieve("w", "Where did I move to?", min_relevance=0.15)
    assert "Leipzig" in plain.answer and "Leipzig" in asked.answer
    assert "Leipzig" not in held_back.answer and "short bullets" in held_back.answer


@pytest.mark.parametrize("said", ["Please always answer in French until Friday.", "周五之前请一直用法语回答我"])
async def test_a_wish_stands_until_it_ends(reme: Engine, said: str) -> None:
    await summarise(reme, turn(said, "2024-05-08"))  # a Wednesday
    asked = {"workspace_id": "w", "query": "How far is the moon?"}
    config = {"op.recall_personal.params.messages": 0}
    for day, stands in (("2024-05-09", True), ("2024-05-11", False)):
        for moment in ("now", "held_at"):
            found = await reme.execute(
                "retrieve_personal_memory", **asked, **{moment: f"{day}T12:00:00Z"}, config=config
            )
            assert [m["content"] for m in found.metadata["profile"]] == ([said] if stands else []), moment
            assert ("until 2024-05-" in found.answer) or moment == "held_at", "elsewhere it is told with its end"
    assert not await reme.get_profile("w")


@pytest.mark.parametrize(
    ("said", "days"),
    [
        ("answer in French this week pls", ("2024-05-08", "2024-05-12")),
        ("这周请都用法语回答我", ("2024-05-08", "2024-05-12")),
        ("at the weekend, answer in French pls", ("2024-05-11", "2024-05-12")),
        ("From Friday on, please answer in French", ("2024-05-10", "2025-01-01")),
        ("从周五起用法语回答我", ("2024-05-10", "2025-01-01")),
        ("from 2024-05-10 please answer in French", ("2024-05-10", "2025-01-01")),
        ("From Friday until Sunday, please answer in French", ("2024-05-10", "2024-05-12")),
        ("从5月10日到12日用法语回答我", ("2024-05-10", "2024-05-12")),
        ("From now on answer in French. Until Friday call me Bo.", ("2024-05-08", "2025-01-01")),
        ("Until Friday answer in French. Until Friday call me Bo.", ("2024-05-08", "2024-05-10")),
        (
            "Please always answer me in French, I have to practise for the move to Lyon, and reading is the only thing "
            "that ever helped me with languages, far more than the apps with the owl or the evening class that I quit "
            "in spring. I learn some words on the bus each morning, and on the way home I forget half of them again. "
            "Until Friday call me Bo.",
            ("2024-05-08", "2025-01-01"),
        ),
    ],
)
async def test_a_note_has_a_wish_on_the_days_that_it_names(reme: Engine, said: str, days: tuple[str, str]) -> None:
    await summarise(reme, turn(said, "2024-05-08"))  # a Wednesday
    asked = {"workspace_id": "w", "query": "How far is the moon?", "config": {"op.recall_personal.params.messages": 0}}
    for day in ("2024-05-08", "2024-05-10", "2024-05-12", "2024-05-13", "2025-01-01"):
        found = await reme.execute("retrieve_personal_memory", **asked, now=f"{day}T12:00:00Z")
        assert bool(found.metadata["profile"]) is (days[0] <= day <= days[1]), day


@pytest.mark.parametrize(
    ("wish", "said", "stand"),
    [
        ("never use emojis", "fine, you may use emojis again", 1),
        ("以后不要用表情", "你可以继续用表情了", 1),
        ("Call me Bobby from now on.", "sorry no, call me Robbie", 1),
        ("以后叫我小王", "不对，叫我小黄", 1),
        ("answer in French from now on", "ok you can answer in English again", 1),
        ("以后用英文回答", "算了，还是用中文吧", 1),
        ("from now on answer in French when I ask about Paris", "ok you can answer in English again", 2),
        ("never use tables", "fine, you may use emojis again", 2),
        ("Call me Bobby from now on.", "also call me out when I'm wrong", 2),
        ("Never call me Bobby.", "sorry no, call me Robbie", 2),
    ],
)
@pytest.mark.parametrize("together", [True, False])
async def test_a_wish_ends_when_it_is_allowed_again_or_another_name_is_given(
    reme: Engine, wish: str, said: str, stand: int, together: bool
) -> None:
    if together:
        await summarise(reme, turn(wish, "2024-05-08"), turn(said, "2024-05-08"))
    else:
        await summarise(reme, turn(wish, "2024-05-08"))
        await summarise(reme, turn(said, "2024-05-09"))
    wishes = [memory.content for memory in (await reme.get_profile("w")).instructions]
    assert (wish in wishes) is (stand == 2)
    if stand == 1 and not allows_again(said):
        assert wishes == [said]  # what is wished instead


@pytest.mark.parametrize(
    ("wish", "said", "ends"),
    [
        ("never use emojis", "ok emojis are fine again lol", True),
        ("stop calling me sir", "actually you can call me sir, it's funny", True),
        ("Always answer in German.", "ok back to english now", True),
        ("Please always be blunt.", "You don't have to be blunt any more.", True),
        ("Always address me as Dr. Lund.", "nah, call me Eva", True),
        ("别再发表情了", "可以发表情了", True),
        ("以后用英文回答", "不用英文了，用中文吧", True),
        ("以后叫我李总", "还是叫我小李吧，李总听着别扭", True),
        ("以后叫我李总", "别叫我李总了", True),
        ("never use emojis", "My colleague said emojis are fine again.", False),
        ("never use emojis", "Are emojis fine again?", False),
        ("never use emojis", "you can use emojis, but only in chats", False),
        ("never mention food", "food is fine again", False),
        ("Always answer in German.", "stop answering in German at work", False),
        ("以后请别用表情", "我现在可以用表情了", False),
        ("Call me Bobby from now on.", "no wait, call me later", False),
        ("以后叫我李总", "还是叫我去吧", False),
        ("每周五提醒我交工作日志", "别提工作了", False),
    ],
)
async def test_a_wish_ends_when_what_it_forbids_is_fine_or_it_is_no_longer_wanted(
    reme: Engine, wish: str, said: str, ends: bool
) -> None:
    await summarise(reme, turn(wish, "2024-05-08"))
    await summarise(reme, turn(said, "2024-05-09"))
    wishes = [memory.content for memory in (await reme.get_profile("w")).instructions]
    assert (wish in wishes) is not ends


async def test_what_only_ends_a_wish_is_no_memory_where_there_is_none(reme: Engine) -> None:
    await summarise(reme, turn("ok emojis are fine again lol"), turn("back to English please"))
    assert not await everything(reme)


@pytest.mark.parametrize("said", ["Can you please always keep it short?", "以后别用markdown ok？"])
async def test_a_wish_in_the_form_of_a_question_stands(reme: Engine, said: str) -> None:
    await summarise(reme, turn(said), turn("Should I always answer in French?"))
    assert [m.content for m in (await reme.get_profile("w")).instructions] == [said]


@pytest.mark.parametrize(
    ("said", "wishes"),
    [
        ("每次我发英文给你，就翻成中文。", 1),
        ("Look at the poems in my book, and from now on never praise them only to be nice.", 1),
        ("把这句翻成英文：以后都用敬语。", 0),
        ("Write a scene: a king says from now on call me Sire.", 0),
    ],
)
async def test_a_wish_is_heard_beside_a_text_to_work_on_and_not_in_it(reme: Engine, said: str, wishes: int) -> None:
    await summarise(reme, turn(said))
    profile = await reme.get_profile("w")
    assert [m.content for m in profile.instructions] == [said] * wishes


async def test_a_wish_that_names_a_past_limit_does_not_end(reme: Engine) -> None:
    await summarise(reme, turn("From now on never suggest films from before 1990."))
    assert [m.valid_until for m in (await reme.get_profile("w")).instructions] == [None]


async def test_a_day_ends_where_the_asker_is(reme: Engine) -> None:
    wish = Memory(kind=Kind.INSTRUCTION, content="Answer in French.", valid_until=datetime(2024, 5, 10, 22, tzinfo=UTC))
    await reme.memories.add("w", wish)
    asked = {"workspace_id": "w", "query": "How far is the moon?"}
    for moment, stands in (("2024-05-10T23:59:00+02:00", True), ("2024-05-11T00:00:00+02:00", False)):
        found = await reme.execute("retrieve_personal_memory", **asked, now=moment)
        assert bool(found.metadata["profile"]) is stands


@pytest.mark.parametrize(
    ("wish", "older"),
    [
        ("From now on never use emojis.", "ok, you may use emojis again"),
        ("Please call me Bobby from now on.", "sorry no, call me Robbie"),
    ],
)
async def test_what_was_said_before_a_wish_does_not_end_it(reme: Engine, wish: str, older: str) -> None:
    await summarise(reme, turn(wish, "2024-05-08"))
    await summarise(reme, turn(older, "2024-01-08"))
    assert wish in [m.content for m in await reme.memories.list("w")]
    await summarise(reme, turn(wish, "2024-05-09"), turn(older, "2024-01-09"), workspace="together")
    assert wish in [m.content for m in await reme.memories.list("together")]


async def test_who_wishes_again_what_has_just_ended_is_heard(reme: Engine) -> None:
    first = "Please call me Bobby from now on."
    await summarise(reme, turn(first, "2024-05-08"))
    await summarise(reme, turn("no, call me Robbie", "2024-05-09"), turn(first, "2024-05-10"))
    assert first in [m.content for m in await reme.memories.list("w")]
