"""Memories and messages as rows of their tables, and checks that Postgres can store texts and JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from reme_core.errors import InputError
from reme_core.types import SCOPES, Memory, Message, Scope, Scoped, Source, ToolCall

AnyScoped = TypeVar("AnyScoped", bound=Scoped)
Thing = TypeVar("Thing")

COLUMNS = (
    "memory_id", "kind", "subject", "when_to_use", "content", "keywords", "importance", "score", "status",
    "superseded_by", "observed_at", "valid_during", "recorded_at", "expired_at", "created_at", "updated_at", "author",
    "seen_count", "freq", "utility", "metadata", *SCOPES,
)  # fmt: skip
"""Columns of `reme.memory` that make up a `Memory`, in the order that `to_memory` reads."""

MESSAGE_COLUMNS = (
    "message_id", "role", "author", "content", "session_id", "sent_at", "reasoning_content", "tool_calls",
    "tool_call_id", "metadata", *SCOPES,
)  # fmt: skip
"""Columns of `reme.message` that make up a `Message`, in the order that `to_message` reads."""


def select(columns: Sequence[str]) -> str:
    """Columns of a row `m` for a statement's text: `m.a, m.b, …`."""
    return ", ".join(f"m.{column}" for column in columns)


SELECTED = select(COLUMNS)
BY_IDS = (
    f"select m.document_id, {SELECTED} from reme.memory m"
    " where m.workspace_id = %(workspace)s and m.memory_id = any(%(ids)s)"
)
"""The document numbers and `COLUMNS` of the memories of some ids."""


def memory_values(workspace: str, row: Sequence[Any]) -> dict[str, Any]:
    """A row of `COLUMNS` as the values from which `Memory` is validated."""
    values = dict(zip(COLUMNS, row, strict=False))  # a row may have further columns behind these
    during = values.pop("valid_during")
    if during.isempty:  # it never held; equal ends say so, and are written back as an empty range
        values["valid_from"] = values["valid_until"] = values["observed_at"] or values["created_at"]
    else:
        values["valid_from"], values["valid_until"] = during.lower, during.upper
    values["workspace_id"] = workspace
    return values


def to_memory(workspace: str, row: Sequence[Any], sources: Sequence[Source] = ()) -> Memory:
    """A memory from a row of `COLUMNS`."""
    return Memory.model_validate(memory_values(workspace, row) | {"sources": sources})


def to_memories(workspace: str, found: Sequence[Sequence[Any]], sources: Iterable[Sequence[Any]]) -> list[Memory]:
    """Memories from rows of `COLUMNS` and from those of their sources, which are the id of the memory and a source."""
    of_memory: dict[str, list[Source]] = {}
    for memory_id, kind, source_id, quote in sources:
        of_memory.setdefault(memory_id, []).append(Source(kind=kind, id=source_id, quote=quote))
    return [to_memory(workspace, row, of_memory.get(row[0], ())) for row in found]


def from_memory(memory: Memory, document_id: int = 0) -> dict[str, Any]:
    """A memory as a JSON object that `jsonb_populate_recordset` turns into a row of `reme.memory`.

    Statements name the workspace themselves. A stored memory keeps its number, whichever is given here.
    """
    row = memory.model_dump(mode="json", include=set(COLUMNS))
    begun, ended = (time.isoformat() if time else "" for time in (memory.valid_from, memory.valid_until))
    return row | {
        "document_id": document_id,
        "valid_during": f"[{begun},{ended})",  # an open side is unbounded
        # A closed memory that comes without this time was closed when it was last changed.
        "expired_at": row["expired_at"] or (memory.updated_at.isoformat() if memory.status != "active" else None),
    }


def to_message(row: Sequence[Any]) -> Message:
    """A message from a row of `MESSAGE_COLUMNS`."""
    values = dict(zip(MESSAGE_COLUMNS, row, strict=False))
    # Not validated again: messages are valid when they are stored.
    values["tool_calls"] = [ToolCall.model_construct(**call) for call in values["tool_calls"]]
    return Message.model_construct(**values)


def check_scope(scope: Scope) -> Scope:
    """Return a scope as it is.

    Raises:
        InputError: It has a name that no scope has, or a value that is no text that Postgres can store.
    """
    for name, value in scope.items():
        if name not in SCOPES:
            raise InputError(
                f"there is no option {name!r}; {', '.join(SCOPES)} say whose something is, and other fields stand in "
                "the Memory or Message itself"
            )
        if not isinstance(value, str):
            raise InputError(f"{name} is a text, not {value!r:.60}")
        check_text(name, value)
    return scope


def within_scope(given: Sequence[AnyScoped], scope: Scope) -> list[AnyScoped]:
    """Memories or messages, where each name of the scope is filled in that they leave empty.

    Raises:
        InputError: There is no such scope.
    """
    if not any(check_scope(scope).values()):
        return list(given)
    return [one.model_copy(update={k: v for k, v in scope.items() if not getattr(one, k)}) for one in given]


def first_by(things: Iterable[Thing], key: Callable[[Thing], str]) -> dict[str, Thing]:
    """The things by their keys; of several with one key the first counts."""
    found: dict[str, Thing] = {}
    for thing in things:
        found.setdefault(key(thing), thing)
    return found


def name_of(one: Memory | Message, place: int, count: int) -> str:
    """What an error calls a memory or a message: by the id that its caller gave, else by its place among `count`."""
    kind, key = ("memory", "memory_id") if isinstance(one, Memory) else ("message", "message_id")
    if key in one.model_fields_set:
        return f"{kind} {getattr(one, key)!r}"
    return f"{kind} {place} of {count}" if count > 1 else f"the {kind}"


def check_texts(whose: str, holder: Memory | Message, names: Sequence[str]) -> None:
    """`check_text` for these texts of a memory or a message; the error names the text, and `whose` it is."""
    texts = [getattr(holder, name) for name in names]
    # Neither a NUL nor half of a surrogate pair is printable. Only where this quick check of all texts together fails,
    # each one is checked.
    if not "".join(texts).isprintable():
        for name, text in zip(names, texts, strict=True):
            check_text(f"{name} of {whose}", text)


def check_text(name: str, text: str) -> None:
    """Raise an `InputError` that begins with the name if a text has a NUL character or half of a surrogate pair."""
    if "\x00" in text:
        raise InputError(f"{name} holds a NUL character (U+0000), which Postgres cannot store; remove it")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise InputError(f"{name} holds half of a surrogate pair and is not valid Unicode; decode it again") from None


# An escaped NUL: its backslash is not itself escaped by another one before it.
_NUL_IN_JSON = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def check_json(name: str, value: Any) -> None:
    """The same for a value that is stored as JSON, which may have no number either that is not finite."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=str)
    except ValueError:
        raise InputError(f"{name} holds a number that is not finite; use null") from None
    check_text(name, _NUL_IN_JSON.sub("\x00", text) if "\\u0000" in text else text)
