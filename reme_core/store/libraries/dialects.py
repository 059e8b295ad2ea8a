"""Memories as JSON objects in several dialects: the names of their fields, and what each of these means to a `Memory`.

The plain dialect is ReMe's BaseMemory. The others are those of ExperienceMaker (`experience_id`, `experience_type`), of
the nodes in which the local stores of both kept memories, and of MemoryScope's MemoryNode.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from reme_core.errors import InputError
from reme_core.given import moment_of
from reme_core.types import PERSONAL_KINDS, TASK_KINDS, Kind, Status

ALIASES: Final = {
    "memory_id": ("memory_id", "experience_id", "id"),
    "memory_type": ("memory_type", "experience_type"),
    "time_created": ("time_created", "created_time", "created_at", "timestamp"),
    "time_modified": ("time_modified", "modified_time", "updated_at"),
    "target": ("target", "target_name"),
}
"""The names of a field in all dialects, by its name in the plain one, which comes first."""

# A type without a kind means the first of its kinds.
_KINDS_OF_TYPE: Final[dict[str, tuple[Kind, ...]]] = {
    "task": TASK_KINDS,
    "tool": (Kind.TOOL,),
    "personal": PERSONAL_KINDS,
}
_TYPE_OF_KIND: Final = {
    **{kind: name for name, kinds in _KINDS_OF_TYPE.items() for kind in kinds},
    Kind.CONVERSATION: "personal",  # messages are recalled among personal memories
}
_KIND_OF_TYPE: Final[dict[str, Kind]] = {
    **{str(kind): kind for kind in Kind if kind != Kind.CONVERSATION},
    **{name: kinds[0] for name, kinds in _KINDS_OF_TYPE.items()},
    "procedural": Kind.TASK,
    "text": Kind.TASK,  # ExperienceMaker's only type
    "identity": Kind.PROFILE,
    "summary": Kind.INSIGHT,
    "history": Kind.OBSERVATION,
    "conversation": Kind.OBSERVATION,
    "obs_customized": Kind.CUSTOM,
}


def type_of(kind: Kind) -> str:
    """The wire's `memory_type` of a kind: `task`, `personal` or `tool`."""
    return _TYPE_OF_KIND[kind]


def kind_of(memory_type: str) -> Kind:
    """The kind that a `memory_type` of any dialect stands for.

    >>> kind_of("procedural"), kind_of("personal"), kind_of("identity")
    (<Kind.TASK: 'task'>, <Kind.OBSERVATION: 'observation'>, <Kind.PROFILE: 'profile'>)
    """
    if (kind := _KIND_OF_TYPE.get(memory_type)) is None:
        raise InputError(f"memory_type '{memory_type}' is unknown; known are {', '.join(sorted(_KIND_OF_TYPE))}")
    return kind


def memory_of_node(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The memory in a node of a local store, ReMe 0.1's or ExperienceMaker's; any other row as it is.

    The files of these stores hold a node a line.
    """
    fields = row.get("metadata")
    if "unique_id" not in row or not isinstance(fields, dict) or not fields.keys() & ALIASES["memory_type"]:
        return row
    # ExperienceMaker's name, since the content of its node is another one.
    fields = {"content" if name == "experience_content" else name: value for name, value in fields.items()}
    # The node's own content is what it is found by; its vector is made anew.
    where = {"workspace_id": row.get("workspace_id", ""), "memory_id": row["unique_id"]}
    return fields | where | {"when_to_use": row.get("content", "")}


class WireRow:
    """One memory's JSON object, read field by field.

    Each method raises `InputError` with the field's name if a value does not fit.
    """

    def __init__(self, row: Mapping[str, Any]) -> None:
        self._row = row
        self.metadata: Mapping[str, Any] = {} if (found := row.get("metadata")) is None else found
        if not isinstance(self.metadata, dict):
            raise InputError(f"metadata must be an object, not {excerpt(self.metadata)}")

    def memory_values(self) -> dict[str, Any]:
        """The values of a `Memory` that the row gives; those without a field are left out."""
        created = self._time("time_created")
        updated = self._time("time_modified") or created
        is_expired = self._row.get("store_status") == "expired"
        author = self.metadata.get("author")  # of ExperienceMaker it is the name; callers may keep anything there
        values = {
            "workspace_id": self._text("workspace_id"),
            "memory_id": self._memory_id() or self._fingerprint(),
            "kind": self._kind(),
            "subject": self._subject(),
            "when_to_use": self._text("when_to_use"),
            "content": self._content(),
            "score": self._score(),
            "observed_at": _moment("timestamp", self._row.get("timestamp")),  # in a MemoryNode, when it was said
            "created_at": created,
            "updated_at": updated,
            "author": self._text("author") or (author if isinstance(author, str) else ""),
            "status": Status.EXPIRED if is_expired else Status.ACTIVE,
            "expired_at": updated if is_expired else None,
        }
        return {name: value for name, value in values.items() if value is not None}

    def value_of(self, field: str) -> Any:
        """The value that one field, by its plain name, gives to a `Memory`; empty or None if the row lacks it."""
        match field:
            case "memory_id":
                return self._memory_id()
            case "memory_type":
                return self._kind()
            case "content":
                return self._content()
            case "score":
                return self._score()
            case "time_created" | "time_modified":
                return self._time(field)
            case _:
                return self._text(field)

    def _memory_id(self) -> str:
        value = _first_alias(self._row, "memory_id")
        return str(value) if isinstance(value, int) else _string("memory_id", value)

    def _kind(self) -> Kind:
        if memory_type := _string("memory_type", _first_alias(self._row, "memory_type")):
            return kind_of(memory_type)
        return Kind.TASK if self._text("when_to_use") else Kind.OBSERVATION

    def _subject(self) -> str:
        if target := _string("target", _first_alias(self._row, "target")):
            return target
        # A tool memory of ReMe 0.1 has the name of its tool in the field for the situation.
        return self._text("when_to_use") if self._row.get("memory_type") == "tool" else ""

    def _content(self) -> str:
        value = self._row.get("content")
        # ExperienceMaker's content may be an object.
        return compact_json(value) if not isinstance(value, str | None) else value or ""

    def _score(self) -> float:
        value = self._row.get("score")
        if value is None:
            return 0.0
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(f"score must be a number or null, not {excerpt(value)}")
        return float(value)

    def _time(self, field: str) -> datetime | None:
        value = _first_alias(self._row, field)
        return _moment(field, value if value is not None else _first_alias(self.metadata, field))

    def _text(self, field: str) -> str:
        return _string(field, self._row.get(field))

    def _fingerprint(self) -> str:
        # The id of a row without one. The same row gets the same id in every workspace, so loading it again changes
        # nothing.
        row = {name: value for name, value in self._row.items() if name != "workspace_id"}
        return hashlib.blake2b(compact_json(row).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def excerpt(value: Any) -> str:
    """A JSON value for an error message, 60 characters at most."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}…"


def compact_json(value: Any) -> str:
    """A value as JSON text; equal values give equal texts."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _first_alias(row: Mapping[str, Any], field: str) -> Any:
    return next((row[alias] for alias in ALIASES[field] if row.get(alias) is not None), None)


def _string(field: str, value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InputError(f"{field} must be a string, not {excerpt(value)}")
    return value


def _moment(field: str, value: Any) -> datetime | None:
    if value is None or value == "":
        return None
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError, OverflowError, OSError):
        raise InputError(f"{field} must be a time like 2025-07-24 21:15:17, not {excerpt(value)}") from None
    return moment_of(moment)
