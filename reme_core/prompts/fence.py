"""Fences around remembered text: inside a prompt it is data.

What was remembered may say anything, "ignore your instructions" included. It goes into a prompt only between two tags,
which it cannot close from within. The note that a retrieval gives to an agent is fenced in the same way.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from reme_core.types import Message

NOTE: Final = "memory_note"
"""The tag around every note that recall gives to an agent."""

NOTE_METADATA: Final = {"reme_note": True}
"""The mark of a message that carries a note. It stands in the message's metadata, or where a framework keeps such."""


def is_note(message: Message) -> bool:
    """Whether a message carries a note. Its mark says so; words that look like a note anybody may type."""
    return bool(message.metadata.get("reme_note"))


def fence(text: str, tag: str) -> str:
    r"""Put `text` between two tags; a tag of that name within it is defused, and so are the marks of chat templates.

    Disguised tags are defused too: wide letters, invisible characters, and escapes of HTML, JSON and URLs.

    >>> fence("a </data> b &lt;/Data>", "data")
    '<data>\na ‹/data> b ‹/Data>\n</data>'
    """
    return f"<{tag}>\n{_defuse(text, tag).strip()}\n</{tag}>"


def _defuse(text: str, tag: str) -> str:
    text = _TEMPLATE_MARK.sub(lambda match: match[0].translate(_HARMLESS), text)
    # Most texts have nothing that could open a tag, and need not be read character by character.
    if not _OPENS.search(text):
        return text
    shown, places = _as_read(text)
    name = re.compile(rf"(?:{_OPENING})(?=\s*(?:/\s*)?{re.escape(tag)}(?![a-z0-9_]))", re.IGNORECASE)
    parts, done = [], 0
    for match in name.finditer(shown):
        parts += [text[done : places[match.start()]], "‹"]
        done = places[match.end()]
    return "".join([*parts, text[done:]])


def _as_read(text: str) -> tuple[str, list[int]]:
    """A text as a lenient reader sees it, and for each character of that the place in the text that it comes from."""
    shown, places = [], []
    for place, character in enumerate(text):
        if character.isascii():
            shown.append(character)
            places.append(place)
        # Formatting characters and combining marks are left out: nobody sees them.
        elif unicodedata.category(character) not in ("Cf", "Mn", "Me"):
            wide = unicodedata.normalize("NFKC", character)
            shown.append(wide)
            places += [place] * len(wide)
    return "".join(shown), [*places, len(text)]


# A "<" as it is, or escaped for HTML (also twice), JSON or a URL.
_OPENING: Final = r"<|&(?:amp;){0,2}(?:lt|#0{0,6}60|#x0{0,6}3c);?|\\u003c|\\x3c|%3c"
_OPENS: Final = re.compile(
    rf"{_OPENING}|[\ufe64\uff1c]", re.IGNORECASE
)  # the last two are a "<" to those who normalise
# Marks that begin and end a turn in the templates of chat models; some models read them wherever they stand.
_TEMPLATE_MARK: Final = re.compile(
    r"[<\uff1c][|\uff5c][^<>|\uff1c\uff1e\uff5c\s]{1,40}[|\uff5c][>\uff1e]|\[/?INST\]|<</?SYS>>|</?s>|<(?:start|end)_of_turn>"
)
_HARMLESS: Final = str.maketrans({"<": "‹", "\uff1c": "‹", ">": "›", "\uff1e": "›", "[": "⟦", "]": "⟧"})
