"""Memories on the wire: the JSON of ReMe 0.1 and its relatives, in files of one memory a line and over HTTP.

The plain form is ReMe's BaseMemory: `workspace_id, memory_id, memory_type, when_to_use, content, score, time_created,
time_modified, author, metadata`. Other dialects are read as well (see `dialects`). Nothing is lost on the way in or
out:

- Values that the wire has no field for (kind, keywords, status, sources …) are written into `metadata["reme_core"]` and
  read from there. Default values are not written. What a caller keeps in the metadata under one of our names stands
  there under `"own"`.
- Values that a `Memory` has no field for (an unknown field, a score of null, the original spelling of a time or a type)
  are kept in the memory's own metadata under `"reme_wire"`, and written into their old fields again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final

from reme_core.errors import InputError, LibraryError
from reme_core.given import path_of
from reme_core.store import change
from reme_core.store.libraries.dialects import ALIASES, WireRow, excerpt, memory_of_node, type_of
from reme_core.types import PERSONAL_KINDS, SCOPES, Kind, Memory

EXTRAS_KEY: Final = "reme_core"
"""Key of the wire's `metadata` for values that the wire has no field for."""
WIRE_KEY: Final = "reme_wire"
"""Key of a memory's own metadata for values that a `Memory` has no field for."""
_OWN: Final = "own"
"""Key within the extras for what a caller keeps under one of these two keys."""

COUNTERS: Final = ("freq", "utility")
"""Attributes that the wire has in its `metadata`, as in ReMe 0.1; a 0 is written only if the row had a 0 there."""

_NOT_IN_FILE_NAMES: Final = {ord(character): f"%{ord(character):02X}" for character in '%/\\:*?"<>|'}

_ATTRIBUTES: Final = {
    **{name: name for name in ("workspace_id", "memory_id", "when_to_use", "content", "score", "author")},
    **{"memory_type": "kind", "time_created": "created_at", "time_modified": "updated_at"},
}
"""The attribute of a `Memory` that a field of the wire gives."""

# Attributes that the wire gives, but not with every value: its times, for example, have no fractions of a second.
_PARTLY_GIVEN: Final = ("kind", "subject", "when_to_use", "status", "expired_at", "created_at", "updated_at")
# Attributes that the wire does not give, with their defaults.
_NOT_GIVEN: Final[dict[str, Any]] = {
    name: Memory.model_fields[name].get_default(call_default_factory=True)
    for name in ("keywords", "importance", "superseded_by", "observed_at", "valid_from", "valid_until", "seen_count",
                 "sources", *SCOPES)
}  # fmt: skip


def to_wire(memory: Memory) -> dict[str, Any]:
    """A memory in the form of the wire, as JSON values.

    >>> made = datetime(2025, 7, 24, 21, 15, 17, tzinfo=UTC)
    >>> wire = to_wire(Memory(kind="rule", content="Log in first.", created_at=made, updated_at=made))
    >>> wire["memory_type"], wire["content"], wire["metadata"]
    ('task', 'Log in first.', {'reme_core': {'kind': 'rule'}})
    """
    metadata = {**memory.metadata}
    of_caller = {key: metadata.pop(key) for key in (EXTRAS_KEY, WIRE_KEY) if key in metadata}
    kept = of_caller.get(WIRE_KEY)
    # Where a caller keeps a count of something else under this name, it must not be read as the memory's own.
    own = {name for name in COUNTERS if _is_count(metadata.get(name))}
    for name in COUNTERS:
        if name not in own and ((count := getattr(memory, name)) or metadata.get(name) == 0):
            metadata[name] = count
    wire: dict[str, Any] = {
        "workspace_id": memory.workspace_id,
        "memory_id": memory.memory_id,
        "memory_type": type_of(memory.kind),
        "when_to_use": memory.when_to_use,
        "content": memory.content,
        "score": memory.score,
        "time_created": time_text(memory.created_at),
        "time_modified": time_text(memory.updated_at),
        "author": memory.author,
        "metadata": metadata,
    }
    if memory.subject and memory.kind in PERSONAL_KINDS:
        wire["target"] = memory.subject
        wire["reflection_subject"] = str(memory.metadata.get("attribute", ""))
    if memory.subject and memory.kind == Kind.TOOL:
        wire["when_to_use"] = memory.subject
    # A field is written in its original spelling, as long as that still means the value that the memory has.
    if kept and isinstance(kept, dict) and "metadata" not in kept and _can_be_read(original := WireRow(wire | kept)):
        wire |= {
            name: value
            for name, value in kept.items()
            if name not in _ATTRIBUTES or getattr(memory, _ATTRIBUTES[name]) == original.value_of(name)
        }
        del of_caller[WIRE_KEY]  # it is ours
    if extras := _extras(memory, WireRow(wire), own) | ({_OWN: of_caller} if of_caller else {}):
        metadata[EXTRAS_KEY] = extras
    return wire


def _can_be_read(row: WireRow) -> bool:
    # What `from_wire` kept can. A caller may put anything under the same name.
    try:
        row.memory_values()
    except InputError:
        return False
    return True


def from_wire(row: Mapping[str, Any]) -> Memory:
    """A memory from the wire, in any dialect; `to_wire` gives the same row back, of a node the memory in it.

    Raises:
        InputError: The row cannot be read as a memory; the message names the field.

    >>> from_wire({"experience_id": "e1", "experience_type": "text", "when_to_use": "Before paying"}).kind
    <Kind.TASK: 'task'>
    """
    row = memory_of_node(row)
    wire_row = WireRow(row)
    metadata = dict(wire_row.metadata)
    if WIRE_KEY in metadata:
        raise InputError(f"metadata.{WIRE_KEY} is reserved; give it another name")
    extras = metadata.pop(EXTRAS_KEY, {})
    if not isinstance(extras, dict):
        raise InputError(f"metadata.{EXTRAS_KEY} must be an object, not {excerpt(extras)}")
    of_caller = extras.get(_OWN, {})
    if not isinstance(of_caller, dict) or of_caller.keys() - {EXTRAS_KEY, WIRE_KEY}:
        raise InputError(f"metadata.{EXTRAS_KEY}.{_OWN} holds {EXTRAS_KEY} and {WIRE_KEY}, not {excerpt(of_caller)}")
    extras = {name: value for name, value in extras.items() if name != _OWN}
    if unknown := sorted(extras.keys() - (Memory.model_fields.keys() - {"metadata"})):
        raise InputError(f"metadata.{EXTRAS_KEY} holds '{unknown[0]}', which does not belong there; leave it out")
    counts = {name: metadata.pop(name) for name in COUNTERS if name not in extras and _is_count(metadata.get(name))}
    values = wire_row.memory_values() | {"metadata": metadata | of_caller} | counts | extras
    memory = Memory(**values)
    change.check([memory])
    if kept := _fields_to_keep(row, to_wire(memory)):
        memory.metadata[WIRE_KEY] = kept
    return memory


def read_lines(file: BinaryIO, path: Path | str) -> Iterator[tuple[int, Memory]]:
    """The memories of a library, one by one, each with the number of its line; empty lines are skipped.

    Raises:
        LibraryError: A line cannot be read; the message says which one, and why.
    """
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            # A file from Windows may begin with a byte order mark.
            row = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"), parse_constant=_refuse_constant)
            if not isinstance(row, dict):
                raise InputError(f"a JSON object is needed, not {type(row).__name__}")
            yield number, from_wire(row)
        except UnicodeDecodeError as error:
            raise bad_line(path, number, f"it is not UTF-8 (byte {error.start + 1}); convert the file") from None
        except json.JSONDecodeError as error:
            raise bad_line(path, number, f"it is not JSON: {error.msg} (character {error.pos + 1})") from None
        except RecursionError:
            raise bad_line(path, number, "its JSON is nested too deeply; flatten it") from None
        except (ValueError, OverflowError) as error:  # an `InputError` is one, and so is a number of too many digits
            raise bad_line(path, number, str(error)) from None


def bad_line(path: Path | str, number: int, reason: str) -> LibraryError:
    """The error for one line of a library."""
    return LibraryError(f"{path}, line {number}: {reason}; nothing was loaded", path=str(path), line=number)


def library_path(path: Path | str, workspace: str) -> Path:
    """The file of a workspace: `path` itself, or, where that is a folder, `<workspace>.jsonl` in it.

    Characters that are not allowed in the name of a file are written as in a URL.

    >>> library_path(".", "team/alice").name
    'team%2Falice.jsonl'
    """
    path = path_of(path)
    is_folder = os.path.isdir(path)  # noqa: PTH112 - `Path.is_dir` raises where nobody may look
    return path / f"{workspace.translate(_NOT_IN_FILE_NAMES)}.jsonl" if is_folder else path


def _extras(memory: Memory, wire: WireRow, named: set[str]) -> dict[str, Any]:
    """The attributes that are `named`, and those that cannot be read from the fields of the wire with their values."""
    given = wire.memory_values()
    defaults = _NOT_GIVEN | {name: given.get(name) for name in _PARTLY_GIVEN}
    changed = named | {name for name, default in defaults.items() if getattr(memory, name) != default}
    return memory.model_dump(mode="json", include=changed) if changed else {}


def _fields_to_keep(row: Mapping[str, Any], wire: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a row that `wire` does not have, or not with their values; `wire` is the row read and written."""
    aliases = {alias for name, names in ALIASES.items() if name in wire for alias in names if alias != name}
    return {
        name: value
        for name, value in row.items()
        if name != "metadata"
        and name not in aliases
        and not (name == "memory_type" and value is None)  # clients expect a text
        # 1 and 1.0 and True are equal in Python, and not the same in JSON.
        and (name not in wire or wire[name] != value or type(wire[name]) is not type(value))
    }


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**31


def time_text(moment: datetime) -> str:
    """A time in the form of the wire: `2025-07-24 21:15:17`, in UTC."""
    # Not by `strftime`, which writes the year 2 as "2": a time that is unset in Go or .NET comes as the year 1.
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "seconds")


def _refuse_constant(name: str) -> Any:
    raise InputError(f"{name} is no JSON number; write null")
