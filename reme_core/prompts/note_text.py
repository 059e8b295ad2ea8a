"""The notes that agents are given: what was recalled, fenced as data."""

from __future__ import annotations

from collections.abc import Sequence

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
    """A note for an agent's prompt, said to be data; empty where there is nothing to say."""
    return fence(f"{phrase('note_head', language)}\n{text}", NOTE) if text.strip() else ""
