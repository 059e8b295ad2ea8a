"""What memory itself notes in the metadata of a memory: which messages it quotes, corrects or keeps from recall.

Callers may keep anything under the same names; only what has the form of such a note counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reme_core.types import Memory


def forgotten_note(memory: Memory, *others: str) -> dict[str, list[str]]:
    """Metadata for a memory that is closed: recall leaves out its messages and these others, until it is restored."""
    return {"forgotten": sorted({*others, *(source.id for source in memory.sources if source.kind == "message")})}


def kept_from_recall(memory: Memory) -> list[str]:
    """The ids of the messages that such a note names."""
    note = memory.metadata.get("forgotten")
    return [name for name in note if isinstance(name, str)] if isinstance(note, list) else []


def with_values(before: Memory, values: Mapping[str, Any]) -> Memory:
    """A memory with other values. New metadata replaces what callers keep there, and not these notes."""
    after = Memory(**{**before.model_dump(), **values})
    noted: dict[str, Any] = {
        name: note for name in ("corrects", "forgotten") if isinstance(note := before.metadata.get(name), list)
    }
    if before.metadata.get("mode") == "quoted":
        after.metadata = {name: value for name, value in after.metadata.items() if name != "mode"}
        # Nobody said new words: they are no quote, and take the place of the messages in a note.
        is_quote = after.content == before.content
        noted |= {"mode": "quoted"} if is_quote else {"corrects": forgotten_note(after)["forgotten"]}
    after.metadata = {**after.metadata, **noted}
    return after
