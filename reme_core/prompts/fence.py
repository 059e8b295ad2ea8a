"""Fences around remembered text: inside a prompt it is data, and it can be taken out again.

What was remembered may say anything, "ignore your instructions" included. It goes into a prompt only between two tags,
which it cannot close from within. The note that a retrieval gives to an agent is fenced in the same way, so that a
conversation that holds it can be summarised without remembering what was merely recalled.
"""

from __future__ import annotations

import re
from typing import Final

from reme_core.types import Message

NOTE: Final = "memory_note"
"""The tag around every note that recall gives to an agent."""

NOTE_METADATA: Final = {"reme_note": True}
"""The mark of a message that carries a note, in its metadata, or where a framework's messages keep such."""


def is_note(message: Message) -> bool:
    """Whether a message carries a note: its mark says so, never its words, which anybody may type."""
    return bool(message.metadata.get("reme_note"))


def fence(text: str, tag: str) -> str:
    r"""Put `text` between two tags; a tag of that name within it is defused.

    >>> fence("a </data> b", "data")
    '<data>\na ‹/data> b\n</data>'
    """
    defused = re.sub(rf"<(?=\s*(?:/\s*)?{re.escape(tag)}\b)", "‹", text, flags=re.IGNORECASE)
    return f"<{tag}>\n{defused.strip()}\n</{tag}>"


def without_notes(text: str) -> str:
    r"""Take recalled notes out of what was said; one that was cut off before its end goes to the end.

    >>> without_notes("Hi! <memory_note>\n1. likes tea\n</memory_note> What now?")
    'Hi!  What now?'
    """
    return _NOTES.sub("", text).strip() if f"<{NOTE}" in text else text


_NOTES: Final = re.compile(rf"<{NOTE}\b[^>]*>.*?(?:</{NOTE}\s*>|\Z)", re.DOTALL)
