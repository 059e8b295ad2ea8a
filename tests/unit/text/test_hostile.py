"""No text makes a reader of texts slow: what people, models and tools send may be long, and odd on purpose."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from reme_core.errors import ModelAnswerError
from reme_core.flows.tool_output import error_in, is_output
from reme_core.models.endpoint import text_of_error
from reme_core.personal.grounding import is_borrowed
from reme_core.personal.judge import text_to_judge
from reme_core.prompts.fence import fence, note, without_notes
from reme_core.store.query import asks_what_assistant_said
from reme_core.store.relevance import query_traits
from reme_core.text.answers import parse_json, strip_thinking
from reme_core.text.commands import command_of
from reme_core.text.fiction import asks, own_words, sentences, unreal
from reme_core.text.redact import redact
from reme_core.text.terms import language_of, terms
from reme_core.text.timex import find_times, validity, with_dates
from reme_core.text.wish_times import validity_of_wish
from reme_core.types import Message

LENGTH: Final = 12_500
SOON: Final = LENGTH / 100_000
NOW: Final = datetime(2025, 1, 1, tzinfo=UTC)
PATTERNS: Final = (
    "< ", "a", " ", "\n", "\t ", "1", "(", "-", "'", "我", "把", "。 ", "```\n", '{"a":', "[", "\",'", "1-", "1/2/",
    "a.", "a@", "<think>", "</think>", "<title>", "<memory_note ", "</memory_note ",
    note("x", "en"), note("x", "en")[:-1],
    "forget what ", "what I told you ",
    "“", "「a", "---", "--- a-", "<<<", "&lt;", "<\u200b", "＜memory_note", "user: a\n",
    "4242 ", "DE89 3704 ", "-----BEGIN PRIVATE KEY-----", "eyJaaaaaaaa.", "http://a:", "password is ", "abc def ",
    "on monday at 5 ", "from May to ", "from 3 to 10 May ", "3 days ago ", "上个月", "春节我", "3天后", "12月25日",
    "in October, ", "forget my x. ", "\nError: ", "Traceback (most recent call last)\n",
)  # fmt: skip


def texts(length: int) -> list[str]:
    return [*((pattern * length)[:length] for pattern in PATTERNS), "<" + " " * length, " " * length + "x"]


READERS: Final[dict[str, Callable[[str], Any]]] = {
    "strip_thinking": strip_thinking,
    "parse_json": parse_json,
    "unreal": lambda text: unreal([Message(content=text)]),
    "sentences": lambda text: [asks(sentence) for sentence in sentences(text)[:100]],
    "own_words": own_words,
    "command_of": command_of,
    "terms": terms,
    "language_of": language_of,
    "fence": lambda text: fence(text, "note"),
    "without_notes": without_notes,
    "error_in": error_in,
    "is_output": is_output,
    "find_times": lambda text: find_times(text, now=NOW),
    "validity": lambda text: validity(text, NOW, "UTC"),
    "validity_of_wish": lambda text: validity_of_wish(text, NOW, "UTC"),
    "with_dates": lambda text: with_dates(text, NOW, "UTC"),
    "redact": lambda text: redact(text, ["all"]),
    "query_traits": query_traits,
    "asks_what_assistant_said": asks_what_assistant_said,
    "is_borrowed": lambda text: is_borrowed(text, text, text),
    "text_of_error": lambda text: text_of_error(16 * text),
    "text_to_judge": lambda text: text_to_judge(Message(content=text), None),
}


def seconds(reader: str, text: str, *, tries: int = 1) -> float:
    """The CPU time that a text takes: the least of some tries, since a collection of garbage may fall into one."""
    spent = []
    for _ in range(tries):
        begun = time.process_time()
        with suppress(ModelAnswerError):
            READERS[reader](text)
        spent.append(time.process_time() - begun)
    return min(spent)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("reader", READERS)
def test_no_text_takes_long_to_read(reader: str) -> None:
    for text in texts(LENGTH // 100):  # what it imports or reads when it is first called is not measured
        seconds(reader, text)
    for text, quarter in zip(texts(LENGTH), texts(LENGTH // 4), strict=True):
        # A linear reader takes four times as long as for a quarter, a quadratic one sixteen times, on any machine.
        is_soon = seconds(reader, text) < SOON
        assert is_soon or seconds(reader, text, tries=3) < 8 * seconds(reader, quarter, tries=3), repr(text[:40])


def test_a_reader_that_is_quadratic_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(READERS, "quadratic", lambda text: [text.count("b") for _ in text])
    long = "a" * 4 * LENGTH
    assert seconds("quadratic", long, tries=3) > 8 * seconds("quadratic", long[:LENGTH], tries=3)
