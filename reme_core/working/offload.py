"""Replaces long outputs of tools by their beginning, their end, and a handle by which the whole can be read."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from reme_core.prompts import Language, phrase
from reme_core.prompts.budget import most_tokens
from reme_core.prompts.fence import fence
from reme_core.prompts.transcript import assignments, calls_answered, condense
from reme_core.store.artifacts import Artifact, stored_text
from reme_core.text.ids import stable_id
from reme_core.types import Message, ToolCall
from reme_core.working.window import CountTokens, exceeds, is_short

GREP: Final = "grep_working_memory"
READ: Final = "read_working_memory"
READING_TOOLS: Final = frozenset((GREP, READ))
"""The tools that read artifacts. Their answers are short, and are not offloaded."""

_HANDLE = re.compile(rf'{READ}\("([0-9a-f]{{12}})"\)')
_WORD = re.compile(r"\b[0-9a-f]{12}\b")  # a summary names outputs by their handles alone
BARE: Final = 32
"""A limit in tokens under which an excerpt has no words of its text: it names the handle alone."""
_MOST_KNOWN: Final = 2_000  # excerpts; of about a kilobyte each, so two megabytes in a process
_SOURCE: Final = 80  # characters of a call, shown as the source of its output


class Excerpt(NamedTuple):
    """The text that replaces a message, and how many tokens the message had."""

    text: str
    tokens: int


_excerpts: Final[dict[tuple[object, ...], Excerpt]] = {}
"""Excerpts that were made in this process, since the same conversation is given again at each turn."""


@dataclass(slots=True)
class Offloading:
    """The messages with long ones shortened, the artifacts made of these, and how many tokens this saves."""

    messages: list[Message]
    artifacts: list[Artifact] = field(default_factory=list)
    saved: int = 0


@dataclass(frozen=True, slots=True)
class Style:
    """How messages are shortened; `redacted` are the kinds of secrets that are taken out of what is stored."""

    count: CountTokens = most_tokens
    head_tokens: int = 200
    tail_tokens: int = 100
    language: Language = "en"
    redacted: tuple[str, ...] = ()

    def excerpt(self, artifact: Artifact, limit: int) -> Excerpt | None:
        """The excerpt of an artifact; None if it has at most `limit` tokens."""
        text, by_estimate = artifact.content, self.count is most_tokens
        form = (self.language, self.head_tokens, self.tail_tokens, self.redacted)
        key = (artifact.artifact_id, hash(text), artifact.source, limit, by_estimate, *form)
        known = _excerpts.get(key)
        # Numbers of tokens are known by the estimate only: each call may come with another tokenizer.
        if known is None or not by_estimate:
            if not exceeds(text, limit, self.count):
                return None
            if len(_excerpts) >= _MOST_KNOWN:
                _excerpts.clear()
            known = Excerpt(known.text if known else self._shorten(artifact, limit), self.count(text))
            _excerpts[key] = known
        return known

    def _shorten(self, artifact: Artifact, limit: int) -> str:
        text = stored_text(artifact.content, self.redacted)
        if limit <= BARE:
            about = {"source": artifact.source, "handle": artifact.artifact_id, "length": f"{len(text):,}"}
            return phrase("artifact_alone", self.language, read=READ, **about)
        head, tail = head_of(text, min(self.head_tokens, limit // 4)), tail_of(text, min(self.tail_tokens, limit // 8))
        return phrase(
            "artifact", self.language,
            source=artifact.source, handle=artifact.artifact_id, length=f"{len(text):,}", left=len(text) - len(tail),
            grep=GREP, read=READ, head=fence(head, "beginning"), tail=fence(tail, "end"),
        )  # fmt: skip


def handle_of(*parts: object) -> str:
    """A handle made from the parts; equal parts give equal handles."""
    return stable_id(*parts)[:12]  # short: the model has to read and write it


def source_of(message: Message, call: ToolCall | None) -> str:
    """The source of a message: the tool call that it answers, or its author."""
    if call is None:
        return message.author or message.role
    return condense(f"{call.name}({assignments(call.arguments)})", _SOURCE)


def offload(
    messages: Sequence[Message],
    session_id: str,
    limit: int,
    style: Style,
    *,
    roles: Collection[str] = ("tool",),
    passed_over: Collection[int] = (),
) -> Offloading:
    """Shorten messages of these `roles` with more than `limit` tokens, except at the places in `passed_over`.

    The same message of the same conversation always gets the same handle and the same excerpt.
    """
    done = Offloading([])
    for place, (message, call) in enumerate(zip(messages, calls_answered(messages), strict=True)):
        text = message.content
        # The model asked for the answer of a reading tool, so it stays.
        is_reading = message.role == "tool" and (call.name if call else message.author) in READING_TOOLS
        if message.role not in roles or place in passed_over or is_reading or is_short(text, limit):
            done.messages.append(message)
            continue
        artifact = Artifact(handle_of(session_id, text), "output", source_of(message, call), text)
        excerpt = style.excerpt(artifact, limit)
        saved = excerpt.tokens - style.count(excerpt.text) if excerpt else 0
        if excerpt is None or saved <= 0:  # what an excerpt says of the handle may be longer than a short text
            done.messages.append(message)
            continue
        done.messages.append(message.model_copy(update={"content": excerpt.text}))
        done.artifacts.append(artifact)
        done.saved += saved
    return done


def handle_in(text: str) -> str:
    """The handle that a shortened message, or a summary, names; empty for any other text."""
    found = _HANDLE.search(text)
    return found[1] if found else ""


def is_excerpt(text: str) -> bool:
    """Whether a text is what stands in the place of a shortened message."""
    return text.startswith("[") and text.endswith(("</end>", '")]')) and handle_in(text) != ""


def handles_in(messages: Iterable[Message]) -> set[str]:
    """All handles that shortened messages and summaries name, those of outputs in a summary included."""
    return {word for message in messages if handle_in(message.content) for word in _WORD.findall(message.content)}


def head_of(text: str, tokens: int) -> str:
    """The beginning of a text, with at most so many tokens; it ends at the end of a line, unless the line is long."""
    piece = text[: 8 * tokens]  # a token of `most_tokens` has at most eight characters, blanks aside
    # By bisection, which counts about ten pieces instead of one for each character.
    size = bisect_right(range(len(piece)), tokens, key=lambda n: most_tokens(piece[: n + 1]))
    cut = piece.rfind("\n", size // 2, size)
    return piece[: cut + 1 if cut >= 0 and size < len(text) else size]


def tail_of(text: str, tokens: int) -> str:
    """The end of a text, with at most so many tokens; it begins at the start of a line, unless the line is long."""
    piece = text[max(len(text) - 8 * tokens, 0) :]
    size = bisect_right(range(len(piece)), tokens, key=lambda n: most_tokens(piece[len(piece) - n - 1 :]))
    cut = piece.find("\n", len(piece) - size, len(piece) - size // 2)
    return piece[cut + 1 if cut >= 0 and size < len(text) else len(piece) - size :]
