"""Fences around remembered text, and the notes that are made of it: inside a prompt it is data.

What was remembered may say anything, "ignore your instructions" included. It goes into a prompt only between two tags,
which it cannot close from within. The note that a retrieval gives to an agent is fenced in the same way.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, get_args

from reme_core.prompts import Language, phrase
from reme_core.types import Memory, Message

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
    return fence(f"{phrase('note_head', language)}\n{_mark_turns(text)}", NOTE)


def _mark_turns(text: str) -> str:
    """The text with a mark before each line that reads as somebody's turn: a remembered one may ("system: …")."""
    shown, places = _as_read(text) if _DISGUISES.search(text) else (text, range(len(text)))
    starts = [0, *(places[match.start()] for match in _TURN.finditer(shown)), len(text)]
    return "› ".join(text[start:end] for start, end in pairwise(starts))


# Letters that nobody sees, and wide ones.
_DISGUISES: Final = re.compile(r"[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\uff21-\uff5a]")
# Whatever signs stand around the name: "«##SYSTEM:", "【系统】：".
_TURN: Final = re.compile(
    r"^[^\w\n›-]{0,8}(?:system|user|human|assistant|ai|developer|tool)\b"
    r"(?:[ \t]{0,2}\([^()\n]{0,80}\))?[^\w\n:：]{0,8}[:：]"
    r"|^#{1,6}[ \t]{0,4}(?:new[ \t])?(?:system|user|assistant|instruction)"
    r"|^[^\w\n›-]{0,8}(?:系统|用户|助手|人类)[^\w\n:：]{0,8}[:：]",
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
