"""The note: what an agent is told of what was recalled, as fenced data within a budget of tokens.

Standing wishes and facts come first, since they hold whatever is asked; then memories, best first; then what was said
in earlier conversations, word for word.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from reme_core.ops.notes import as_text, note
from reme_core.ops.transcript import condense
from reme_core.prompts import Language, phrase
from reme_core.schema import Hit, Kind, Memory, Message
from reme_core.text.budget import count_tokens, fit

Item = TypeVar("Item")

STANDING_SHARE: Final = 0.5
"""Of the budget, what standing memories may take, so that a long list of wishes leaves room for what was asked."""
LONGEST: Final = 1_200
"""Characters of one memory that a note quotes; a pasted file is not worth a whole budget."""


NOTE_METADATA: Final = {"reme_note": True}
"""Put into the metadata of a message that carries a note, where the framework's messages have metadata."""


@dataclass(frozen=True, slots=True)
class Note:
    """What a turn may tell its model. Falsy where nothing was recalled.

    Attributes:
        text: The fenced note, for a user-role message or the system prompt.
        hits: What stands in it, best first, without the standing memories.
        standing: The instructions and facts that stand in it whatever was asked.
        tokens: What it costs the model, about.
        turn_id: The turn it was made for.
        error: Why there is none, where memory failed and errors are logged.
    """

    text: str = ""
    hits: tuple[Hit, ...] = ()
    standing: tuple[Memory, ...] = ()
    tokens: int = 0
    turn_id: str = ""
    error: Exception | None = None

    def __bool__(self) -> bool:
        return bool(self.text)

    def as_message(self) -> Message:
        """The note as a message of the user role, marked so that it is never recorded."""
        return Message(role="user", author="memory", content=self.text, metadata=dict(NOTE_METADATA))


@dataclass(frozen=True, slots=True)
class Rendered:
    """A note's text, what of the given memories stands in it, and what it costs."""

    text: str = ""
    standing: tuple[Memory, ...] = ()
    hits: tuple[Hit, ...] = ()
    tokens: int = 0


def render(hits: Sequence[Hit], budget: int, language: Language = "en", *, standing: Sequence[Memory] = ()) -> Rendered:
    """Write a note of at most `budget` tokens (as `count_tokens` counts them), the fence included.

    Args:
        hits: What was recalled, best first; messages (kind `conversation`) are quoted below the memories.
        budget: Tokens. Memories that do not fit any more are left out whole, the worst first.
        language: Of the few words around the memories.
        standing: Memories that are always given (instructions, profile); one that was also recalled is not repeated.

    Returns:
        The note; its text is empty where nothing fits or nothing is known.
    """
    left = budget - count_tokens(note("-", language))
    titles = [phrase(name, language) for name in ("note_standing", "note_remembered", "note_said")]
    always, spent = _fitting(standing, min(left, int(budget * STANDING_SHARE)), titles[0], partial(_line, language))
    left -= spent
    known = {m.memory_id for m in always}
    recalled = [hit for hit in hits if hit.memory.memory_id not in known]
    memories = [hit for hit in recalled if hit.memory.kind != Kind.CONVERSATION]
    messages = [hit for hit in recalled if hit.memory.kind == Kind.CONVERSATION]
    kept, spent = _fitting(memories, left, titles[1], lambda hit: _line(language, hit.memory))
    quoted, _ = _fitting(messages, left - spent, titles[2], lambda hit: _quote(hit.memory))
    lines = [
        [_line(language, memory) for memory in always],
        [_line(language, hit.memory) for hit in kept],
        [_quote(hit.memory) for hit in quoted],
    ]
    text = note(
        "\n".join("\n".join([title, *part]) for title, part in zip(titles, lines, strict=True) if part), language
    )
    return Rendered(text, tuple(always), (*kept, *quoted), count_tokens(text))


def _fitting(items: Sequence[Item], budget: int, title: str, text_of: Callable[[Item], str]) -> tuple[list[Item], int]:
    """The items whose lines fit below their title, and the tokens that all of it takes."""
    left = budget - count_tokens(title) - 1
    kept = fit(items, left, text_of=text_of) if left > 0 else []
    if not kept:
        return [], 0
    return kept, count_tokens("\n".join([title, *map(text_of, kept)])) + 1


def _line(language: Language, memory: Memory) -> str:
    day = f" ({memory.observed_at:%Y-%m-%d})" if memory.observed_at else ""
    return f"- {condense(as_text(memory, language), LONGEST)}{day}"


def _quote(message: Memory) -> str:
    day = f", {message.observed_at:%Y-%m-%d}" if message.observed_at else ""
    return f"- {message.author}{day}: {condense(message.content, LONGEST)}"
