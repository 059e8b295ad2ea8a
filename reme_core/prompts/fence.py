"""Fences around remembered text: inside a prompt it is data.

What was remembered may say anything, "ignore your instructions" included. It goes into a prompt only between two tags,
which it cannot close from within. The note that a retrieval gives to an agent is fenced in the same way.
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
