"""What memory itself notes in the metadata of a memory: how it was made, what it corrects, what it keeps from recall.

Callers may keep anything under the same names; only what has the form of such a note counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reme_core.types import Memory, Status

READ, QUOTED = "read", "quoted"
"""How a memory was made, in its `metadata["mode"]`: read by a model, or what somebody said word for word."""

PRUNED = "pruned"
"""In the metadata of a lesson that was deleted because it seldom helped: if it is learned again, it is there again."""


def is_quote(memory: Memory) -> bool:
    """Whether a memory is what somebody said, word for word."""
    return memory.metadata.get("mode") == QUOTED


def is_pruned(memory: Memory) -> bool:
    """Whether a memory was deleted because it seldom helped, and by nobody's own wish."""
    return memory.status == Status.DELETED and memory.metadata.get(PRUNED) is True


def forgotten_note(memory: Memory, *others: str) -> dict[str, list[str]]:
    """Metadata for a memory that is closed: recall leaves out its messages and these others, until it is restored."""
    return {"forgotten": sorted({*others, *(source.id for source in memory.sources if source.kind == "message")})}


def kept_from_recall(memory: Memory) -> list[str]:
    """The ids of the messages that recall leaves out since the memory was closed."""
    return _messages_in(memory, "forgotten")


def messages_replaced_by(memory: Memory) -> list[str]:
    """The ids of the messages in whose place the memory stands, since its words were changed."""
    return _messages_in(memory, "corrects")


def _messages_in(memory: Memory, name: str) -> list[str]:
    note = memory.metadata.get(name)
    return [message for message in note if isinstance(message, str)] if isinstance(note, list) else []


def with_values(before: Memory, values: Mapping[str, Any]) -> Memory:
    """A memory with other values. New metadata replaces what callers keep there, and not these notes."""
    after = Memory(**{**before.model_dump(), **values})
    noted: dict[str, Any] = {
        name: note for name in ("corrects", "forgotten") if isinstance(note := before.metadata.get(name), list)
    }
    if is_quote(before):
        after.metadata = {name: value for name, value in after.metadata.items() if name != "mode"}
        # Nobody said new words: they are no quote, and take the place of the messages in a note.
        unchanged = after.content == before.content
        noted |= {"mode": QUOTED} if unchanged else {"corrects": forgotten_note(after)["forgotten"]}
    after.metadata = {**after.metadata, **noted}
    return after
