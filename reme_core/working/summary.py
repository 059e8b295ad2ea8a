"""The summary of turns that leave the window: some of their sentences, word for word, and a short story of the rest.

A chat model chooses the sentences by their numbers, so they are never reworded. Without a model, or if it fails, rules
choose. The story may not name a file or a number that nobody named.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from pydantic import BaseModel, Field

from reme_core.errors import ModelError
from reme_core.models import ChatModel
from reme_core.models.json_in_words import read_answer
from reme_core.prompts import Language, phrase, prompt
from reme_core.prompts.fence import NOTE, fence
from reme_core.prompts.transcript import calls_answered
from reme_core.text.answers import strip_thinking
from reme_core.types import Message
from reme_core.working.offload import READ, handle_in, is_excerpt, source_of
from reme_core.working.window import CountTokens

log = logging.getLogger(__name__)

Section = Literal["tasks", "decisions", "facts", "outputs"]

# Sections are filled in this order. The number is the share of the summary's tokens that is spent at most by then.
_SHARES: Final[dict[Section, float]] = {"outputs": 0.2, "tasks": 0.5, "decisions": 0.75, "facts": 1.0}
_LONGEST: Final = 600  # characters of a sentence; a longer one is cut
_STORY: Final = 1_200  # characters of the story
_TASK = re.compile(
    r"to-?do\b|\[ \]|\bnext(?: step|:)|\bstill (?:needs?|has|have|must|open)|\bremain(?:s|ing)\b|\bpending\b"
    r"|\bnot yet\b|\bopen (?:task|question|point|issue)|\b(?:needs?|ha(?:s|ve)) to\b|\bmust\b|\bshould\b|\bplease\b"
    r"|待办|下一步|还需|还要|尚未|未完成|待处理|需要|请",
    re.IGNORECASE,
)
_DECISION = re.compile(
    r"\bdeci(?:ded?|sion)|\bagreed?\b|\bchose\b|\b(?:we(?:'ll| will)|let's) (?:use|go|keep|take)|\bgo(?:ing)? with\b"
    r"|\bsettled\b|\binstead of\b|决定|采用|选定|改用|约定|就用|选择",
    re.IGNORECASE,
)
# Numbers, paths and file names, which the rest of a task needs word for word.
_NAMED = re.compile(r"[\w-]*\d[\w.,:/%-]*\w%?|\d|(?:[\w.~-]*/)+[\w.-]+|\b[\w-]+\.[a-zA-Z]\w{0,5}\b")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=\S)|(?<=[。！？；])|\n+")


class _Choice(BaseModel):
    tasks: list[int] = Field(default_factory=list)
    decisions: list[int] = Field(default_factory=list)
    facts: list[int] = Field(default_factory=list)
    story: str = ""


@dataclass(frozen=True, slots=True)
class _Line:
    """A sentence of the turns; `section` is its section in an earlier summary."""

    text: str
    role: str
    section: Section | None = None


class _Place(NamedTuple):
    """The section of a sentence, and its rank there; the lowest ranks come first."""

    section: Section
    rank: int


# The words of people come first, then those of the agent, then outputs of tools. 0 is the choice of a model.
_RANKS: Final = {"user": 1, "summary": 1, "assistant": 2, "tool": 3}
_PASSED_OVER: Final = 4  # sentences that a model was shown and did not choose


@dataclass(slots=True)
class Summary:
    """The summary that replaces turns in the window.

    Attributes:
        sections: Sentences of the turns, word for word.
        story: What happened, in the words of a chat model.
        author: The model's name, or `rules`.
        failed: Whether a model was called and gave no usable answer.
    """

    sections: dict[Section, list[str]] = field(default_factory=dict)
    story: str = ""
    author: str = "rules"
    failed: bool = False

    def as_text(self, handle: str, count: int, language: Language) -> str:
        """The summary as text for the window: fenced as data, with the handle of the `count` messages."""
        by = "summary_by_rules_instead" if self.failed else "summary_by_rules"
        author = phrase(by if self.author == "rules" else "summary_by_model", language, model=self.author)
        parts = [phrase("summary_head", language, count=count, author=author, handle=handle, read=READ)]
        if self.story:
            parts.append(f"{phrase('summary_story', language)} {self.story}")
        for section in ("tasks", "decisions", "facts", "outputs"):
            if told := self.sections.get(section):
                parts.append("\n".join([phrase(f"summary_{section}", language), *(f"- {line}" for line in told)]))
        return fence("\n\n".join(parts), NOTE)


async def summarise_turns(
    turns: Sequence[Message],
    chat: ChatModel | None,
    *,
    budget: int,
    most_read: int,
    count: CountTokens,
    language: Language,
    patience: float,
) -> Summary:
    """Summarise turns by at most one call of the chat model; by rules if there is no model, or if it fails.

    Long outputs in the turns are shortened, and the first turn may be an earlier summary. The sentences have at most
    `budget` tokens, and the model is shown at most `most_read` tokens of the turns, the newest first.
    """
    lines = _lines(turns)
    chosen = {n: place for n, line in enumerate(lines) if (place := _place(line))}
    summary = Summary()
    if chat is not None:
        shown = _readable(lines, most_read, count)
        try:
            async with asyncio.timeout(patience):
                choice = await _choose(chat, lines, shown, language)
        except (ModelError, TimeoutError) as error:
            why = str(error) or f"no answer within {patience:g} s"
            log.warning("rules choose what stays of a conversation, since the chat model failed: %s", why)
            summary.failed = True
        else:
            chosen = _merge(chosen, choice, shown, lines)
            summary.author, summary.story = chat.name, _without_inventions(choice.story, lines)
    summary.sections = _fit([(lines[n].text, place) for n, place in sorted(chosen.items())], budget, count)
    return summary


def _lines(turns: Sequence[Message]) -> list[_Line]:
    """All sentences, in order; for a shortened message only its handle."""
    lines: list[_Line] = []
    for message, call in zip(turns, calls_answered(turns), strict=True):
        if message.content.startswith(f"<{NOTE}>") and handle_in(message.content):
            lines += _lines_of_summary(message.content)
        elif is_excerpt(message.content):
            lines.append(_Line(f"{handle_in(message.content)}: {source_of(message, call)}", "tool", "outputs"))
        elif message.role != "system":
            text = strip_thinking(message.content) if message.role == "assistant" else message.content
            sentences = (sentence.strip() for sentence in _SENTENCE.split(text))
            lines += [_Line(_clip(sentence), message.role) for sentence in sentences if sentence]
    return lines


def _lines_of_summary(text: str) -> Iterable[_Line]:
    # An earlier summary may be in the other language.
    languages: tuple[Language, ...] = ("en", "zh")
    headings = {phrase(f"summary_{section}", language): section for section in _SHARES for language in languages}
    section: Section | None = None
    for line in text.splitlines():
        section = headings.get(line, section)
        if line.startswith("- ") and section:
            yield _Line(line.removeprefix("- "), "summary", section)


def _place(line: _Line) -> _Place | None:
    """The place that rules give to a sentence; None if they leave it out."""
    rank = _RANKS.get(line.role, 0)
    if line.section or line.role == "tool":
        return _Place(line.section, rank) if line.section else _Place("facts", rank) if _is_named(line) else None
    if line.role == "assistant" and line.text.endswith(("?", "？")):
        return None  # a question of the agent states nothing
    if _DECISION.search(line.text):
        return _Place("decisions", rank)
    if _TASK.search(line.text):
        return _Place("tasks", rank)
    return _Place("facts", rank) if line.role == "user" or _is_named(line) else None


def _is_named(line: _Line) -> bool:
    return bool(_NAMED.search(line.text))


def _readable(lines: Sequence[_Line], most: int, count: CountTokens) -> list[int]:
    """The indexes of the lines that a model is shown: those of an earlier summary, then the newest that fit."""
    order = sorted(range(len(lines)), key=lambda n: (not lines[n].section, -n))
    # Four tokens for a line's number and role.
    costs = itertools.accumulate(count(lines[n].text) + 4 for n in order)
    return sorted(n for n, cost in zip(order, costs, strict=True) if cost <= most)


async def _choose(chat: ChatModel, lines: Sequence[_Line], shown: Sequence[int], language: Language) -> _Choice:
    record = "\n".join(f"[{n}] {lines[n].role}: {lines[n].text}" for n in shown)
    asked = prompt("compact", language, record=fence(record, "record"))
    answer = await chat.complete(asked, purpose="compact")
    return read_answer(answer.text, _Choice)


def _merge(
    chosen: Mapping[int, _Place], choice: _Choice, shown: Collection[int], lines: Sequence[_Line]
) -> dict[int, _Place]:
    """The lines that a model chose; after them those with names or numbers that it was shown and did not choose."""
    merged: dict[int, _Place] = {}
    for n, place in chosen.items():
        # The choice of the rules stands for handles, and for lines that the model was not shown.
        if n not in shown or place.section == "outputs":
            merged[n] = place
        elif _is_named(lines[n]):
            merged[n] = _Place("facts", _PASSED_OVER)
    sections: tuple[Section, ...] = ("facts", "decisions", "tasks")
    for section in sections:
        merged |= {n: _Place(section, 0) for n in getattr(choice, section) if n in shown}
    return merged


def _without_inventions(story: str, lines: Sequence[_Line]) -> str:
    """A story without sentences that name a file or a number which is not in the turns."""
    named = {name for line in lines for name in _NAMED.findall(line.text)}
    # A model that fails may write one word without end, in which to look for names would take minutes.
    sentences = map(_clip, _SENTENCE.split(story.strip()))
    kept = [said for said in sentences if set(_NAMED.findall(said)) <= named]
    return " ".join(kept)[:_STORY]


def _fit(told: Sequence[tuple[str, _Place]], budget: int, count: CountTokens) -> dict[Section, list[str]]:
    """The lines of each section that fit, in order and each once; the newest of the best rank are taken first."""
    kept: set[int] = set()
    seen: set[str] = set()
    spent = 0
    for section, share in _SHARES.items():
        places = [n for n, (_, place) in enumerate(told) if place.section == section]
        for n in sorted(places, key=lambda n: (told[n][1].rank, -n)):
            text = told[n][0]
            cost = count(text) + 2  # with the dash before it and the line break
            if text not in seen and spent + cost <= budget * share:
                kept.add(n)
                seen.add(text)
                spent += cost
    return {section: [told[n][0] for n in sorted(kept) if told[n][1].section == section] for section in _SHARES}


def _clip(sentence: str) -> str:
    return sentence if len(sentence) <= _LONGEST else sentence[: _LONGEST - 1] + "…"
