"""The text of notes: what was recalled, fenced as data, and how to take notes out of a text again."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Final, get_args

from reme_core.prompts import Language, phrase
from reme_core.prompts.fence import NOTE, fence
from reme_core.types import Memory


def as_text(memory: Memory, language: Language) -> str:
    """One memory as an agent reads it: the situation, and what to do."""
    if not memory.when_to_use or not memory.content:
        return memory.content or memory.when_to_use
    return phrase("note_item", language, when=memory.when_to_use, content=memory.content)


def numbered_list(memories: Sequence[Memory], language: Language) -> str:
    """Memories as a numbered list."""
    return "\n".join(f"{number}. {as_text(memory, language)}" for number, memory in enumerate(memories, 1))


def note(text: str, language: Language) -> str:
    """A note for an agent's prompt, which says that it is data; empty if the text is."""
    if not text.strip():
        return ""
    # A remembered text may have lines that read as somebody's turn ("system: …").
    told = _TURN.sub(lambda match: f"› {match[0]}", text)
    return fence(f"{phrase('note_head', language)}\n{told}", NOTE)


_TURN: Final = re.compile(
    r"^[ \t#*\[@<]{0,8}(?:system|user|human|assistant|ai|developer|tool)\b"
    r"(?:[ \t]{0,2}\([^()\n]{0,80}\))?[\]*@> \t]{0,8}[:：]"
    r"|^#{1,6}[ \t]{0,4}(?:new[ \t])?(?:system|user|assistant|instruction)|^(?:系统|用户|助手|人类)[ \t]?[:：]",
    re.IGNORECASE | re.MULTILINE,
)


def without_notes(text: str) -> str:
    r"""A text without the notes in it. Only what `note` writes counts, head and tags; anything else is kept.

    >>> without_notes(note("1. likes tea", "en") + "\nWhat does <memory_note> mean?")
    'What does <memory_note> mean?'
    """
    # Clients of the services put a note before the words of their user. What only looks like one somebody has typed.
    return _notes().sub("", text).strip() if f"<{NOTE}>" in text else text


@functools.cache
def _notes() -> re.Pattern[str]:
    heads = "|".join(re.escape(phrase("note_head", language)) for language in get_args(Language))
    within = rf"[^<]*(?:<(?!/?{NOTE}\b)[^<]*)*"  # no fence holds its own tag, so that each search ends at the next one
    return re.compile(rf"<{NOTE}>\n(?:{heads})\n{within}</{NOTE}>")
