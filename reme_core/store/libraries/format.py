"""Memories on the wire: the JSON of ReMe 0.1 and its relatives, in files of one memory a line and over HTTP.

The plain form is ReMe's BaseMemory: `workspace_id, memory_id, memory_type, when_to_use, content, score, time_created,
time_modified, author, metadata`. Read are, besides, ExperienceMaker's `experience_id`/`experience_type`, MemoryScope's
MemoryNode, and the other type names that are met. Nothing is lost on the way in or out:

- What the wire has no place for (kind, keywords, status, sources …) goes into `metadata["reme_core"]`, only as far as
  it says something, and comes back from there.
- What a `Memory` has no place for (an unknown field, a score of null, the original spelling of a time or a type) is
  kept in the memory's own metadata under `"reme_wire"`, and stands in its old place when the memory is written again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final

from pydantic import ValidationError

from reme_core.errors import InputError, LibraryError
from reme_core.schema import PERSONAL_KINDS, TASK_KINDS, Kind, Memory, Status
from reme_core.store import change

EXTRAS_KEY: Final = "reme_core"
"""Key of the wire's `metadata` that holds what only we know of a memory."""
WIRE_KEY: Final = "reme_wire"
"""Key of a memory's own metadata that holds what only the wire knows of it."""

_TIME_FORMAT: Final = "%Y-%m-%d %H:%M:%S"

# The first kind of a type is what it means where nothing says more.
_KINDS_OF_TYPE: Final[dict[str, tuple[Kind, ...]]] = {
    "task": TASK_KINDS,
    "tool": (Kind.TOOL,),
    "personal": PERSONAL_KINDS,
}
_TYPE_OF_KIND: Final = {
    **{kind: name for name, kinds in _KINDS_OF_TYPE.items() for kind in kinds},
    Kind.CONVERSATION: "personal",  # what was said word for word is recalled among personal memories
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

# Names of other dialects for fields of the plain form.
_ALIASES: Final = {
    "memory_id": ("memory_id", "experience_id", "id"),
    "memory_type": ("memory_type", "experience_type"),
    "time_created": ("time_created", "created_time", "created_at", "timestamp"),
    "time_modified": ("time_modified", "modified_time", "updated_at"),
    "target": ("target", "target_name"),
}
_SAID: Final = ("kind", "subject", "status", "expired_at", "created_at", "updated_at")
"""Fields that the wire says something of, though not always all."""
_DEFAULTS: Final[dict[str, Any]] = {
    name: Memory.model_fields[name].get_default(call_default_factory=True)
    for name in ("keywords", "importance", "superseded_by", "observed_at", "valid_from", "valid_until", "seen_count",
                 "freq", "utility", "sources")
}  # fmt: skip
"""Fields that the wire knows nothing of."""


def type_of(kind: Kind) -> str:
    """The wire's `memory_type` of a kind: `task`, `personal` or `tool`."""
    return _TYPE_OF_KIND[kind]


def kind_of(memory_type: str) -> Kind:
    """The kind that a `memory_type` of any dialect stands for.

    Raises:
        InputError: It is unknown.

    >>> kind_of("procedural"), kind_of("personal"), kind_of("identity")
    (<Kind.TASK: 'task'>, <Kind.OBSERVATION: 'observation'>, <Kind.PROFILE: 'profile'>)
    """
    if (kind := _KIND_OF_TYPE.get(memory_type)) is None:
        raise InputError(f"memory_type '{memory_type}' is unknown; known are {', '.join(sorted(_KIND_OF_TYPE))}")
    return kind


def to_wire(memory: Memory) -> dict[str, Any]:
    """A memory as the wire has it: JSON values only.

    >>> made = datetime(2025, 7, 24, 21, 15, 17, tzinfo=UTC)
    >>> wire = to_wire(Memory(kind="rule", content="Log in first.", created_at=made, updated_at=made))
    >>> wire["memory_type"], wire["content"], wire["metadata"]
    ('task', 'Log in first.', {'reme_core': {'kind': 'rule'}})
    """
    metadata = {**memory.metadata}
    kept = metadata.pop(WIRE_KEY, {})
    wire: dict[str, Any] = {
        "workspace_id": memory.workspace_id,
        "memory_id": memory.memory_id,
        "memory_type": type_of(memory.kind),
        "when_to_use": memory.when_to_use,
        "content": memory.content,
        "score": memory.score,
        "time_created": _time_text(memory.created_at),
        "time_modified": _time_text(memory.updated_at),
        "author": memory.author,
        "metadata": metadata,
    }
    if memory.subject and memory.kind in PERSONAL_KINDS:
        wire["target"] = memory.subject
    # An original spelling stands only as long as it says what the memory says.
    spelt = _Row(wire | kept)
    wire |= {k: v for k, v in kept.items() if k not in _CURRENT or _CURRENT[k](memory) == spelt.value_of(k)}
    if extras := _extras(memory, _Row(wire)):
        metadata[EXTRAS_KEY] = extras
    return wire


def from_wire(row: Mapping[str, Any]) -> Memory:
    """A memory from the wire, in any dialect; `to_wire` gives the same back.

    Raises:
        InputError: It cannot be one; the message names the field.

    >>> from_wire({"experience_id": "e1", "experience_type": "text", "when_to_use": "Before paying"}).kind
    <Kind.TASK: 'task'>
    """
    read = _Row(row)
    metadata = dict(read.metadata)
    if WIRE_KEY in metadata:
        raise InputError(f"metadata.{WIRE_KEY} is reserved; give it another name")
    extras = metadata.pop(EXTRAS_KEY, {})
    if not isinstance(extras, dict):
        raise InputError(f"metadata.{EXTRAS_KEY} must be an object, not {_shown(extras)}")
    if unknown := sorted(extras.keys() - Memory.model_fields.keys()):
        raise InputError(f"metadata.{EXTRAS_KEY} holds '{unknown[0]}', which is no field of a memory")
    values = read.values() | {"metadata": metadata} | extras
    try:
        memory = Memory.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{place}: {first['msg']}") from None
    change.check([memory])
    if kept := _unspoken(row, to_wire(memory)):
        memory.metadata[WIRE_KEY] = kept
    return memory


def read_lines(file: BinaryIO, path: Path | str) -> Iterator[tuple[int, Memory]]:
    """The memories of a library, one by one, each with the number of its line; empty lines are passed over.

    Raises:
        LibraryError: A line cannot be read; it says which, and why.
    """
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"), parse_constant=_no_constant)
            if not isinstance(row, dict):
                raise InputError(f"a JSON object is needed, not {type(row).__name__}")
            yield number, from_wire(row)
        except UnicodeDecodeError as error:
            raise bad_line(path, number, f"it is not UTF-8 (byte {error.start + 1})") from None
        except json.JSONDecodeError as error:
            raise bad_line(path, number, f"it is not JSON: {error.msg} (character {error.pos + 1})") from None
        except RecursionError:
            raise bad_line(path, number, "its JSON is nested too deeply") from None
        except InputError as error:
            raise bad_line(path, number, str(error)) from None


def bad_line(path: Path | str, number: int, reason: str) -> LibraryError:
    """The complaint about one line of a library."""
    return LibraryError(f"{path}, line {number}: {reason}; nothing was loaded", path=str(path), line=number)


def to_line(memory: Memory) -> str:
    """A memory as a line of a library, without its end."""
    return json.dumps(to_wire(memory), ensure_ascii=False)


def library_path(path: Path | str, workspace: str) -> Path:
    """The file of a workspace: `path` itself, or, where that is a folder, `<workspace>.jsonl` in it.

    Raises:
        InputError: The workspace's name cannot be that of a file.
    """
    path = Path(path)
    if not path.is_dir():
        return path
    if workspace in (".", "..") or any(character in workspace for character in "/\\:\0"):
        raise InputError(f"workspace '{workspace}' cannot name a file in {path}; name the file itself")
    return path / f"{workspace}.jsonl"


class _Row:
    """A JSON object of any dialect, read field by field."""

    def __init__(self, row: Mapping[str, Any]) -> None:
        self._row = row
        self.metadata = self._object("metadata")

    def values(self) -> dict[str, Any]:
        """What a `Memory` is made of, as far as the plain fields say it."""
        created = self.value_of("time_created")
        identity = self._named("memory_id")
        values = {
            "workspace_id": self._text("workspace_id"),
            "memory_id": self._fingerprint() if identity in (None, "") else self.value_of("memory_id"),
            "kind": self.value_of("memory_type"),
            "subject": self._subject(),
            "when_to_use": self._text("when_to_use"),
            "content": self.value_of("content"),
            "score": self.value_of("score"),
            "created_at": created,
            "updated_at": self.value_of("time_modified") or created,
            "author": self._text("author") or self._text("author", self.metadata),
            "status": Status.EXPIRED if self._row.get("store_status") == "expired" else Status.ACTIVE,
        }
        if values["status"] != Status.ACTIVE:
            values["expired_at"] = values["updated_at"]
        return {name: value for name, value in values.items() if value is not None}

    def value_of(self, name: str) -> Any:
        """What one field of the wire means to a `Memory`; None where it is not there."""
        match name:
            case "memory_type":
                return self._kind()
            case "time_created" | "time_modified":
                given = self._named(name)
                return _moment(name, given if given is not None else self._named(name, self.metadata))
            case "score":
                return self._score()
            case "content" if not isinstance(self._row.get(name), str | None):
                return _compact(self._row[name])  # ExperienceMaker's content may be an object
            case "memory_id":
                given = self._named(name)
                return str(given) if isinstance(given, int) else self._text_of(name, given)
            case _:
                return self._text(name)

    def _kind(self) -> Kind:
        given = self._text_of("memory_type", self._named("memory_type"))
        if given:
            return kind_of(given)
        return Kind.TASK if self._text("when_to_use") else Kind.OBSERVATION

    def _subject(self) -> str:
        target = self._text_of("target", self._named("target"))
        # A tool memory of ReMe 0.1 has the tool's name where others have the situation.
        return target or (self._text("when_to_use") if self._row.get("memory_type") == "tool" else "")

    def _score(self) -> float:
        given = self._row.get("score")
        if given is None:
            return 0.0
        if isinstance(given, bool) or not isinstance(given, int | float):
            raise InputError(f"score must be a number or null, not {_shown(given)}")
        return float(given)

    def _named(self, name: str, among: Mapping[str, Any] | None = None) -> Any:
        row = self._row if among is None else among
        return next((row[alias] for alias in _ALIASES[name] if row.get(alias) is not None), None)

    def _text(self, name: str, among: Mapping[str, Any] | None = None) -> str:
        return self._text_of(name, (self._row if among is None else among).get(name))

    @staticmethod
    def _text_of(name: str, value: Any) -> str:
        if value is None:
            return ""
        if not isinstance(value, str):
            raise InputError(f"{name} must be a string, not {_shown(value)}")
        return value

    def _object(self, name: str) -> Mapping[str, Any]:
        value = self._row.get(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise InputError(f"{name} must be an object, not {_shown(value)}")
        return value

    def _fingerprint(self) -> str:
        """An id for a row that has none: the same each time it is read, wherever it stands."""
        row = {name: value for name, value in self._row.items() if name != "workspace_id"}
        return hashlib.blake2b(_compact(row).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


_CURRENT: Final = {
    "memory_type": lambda memory: memory.kind,
    "score": lambda memory: memory.score,
    "content": lambda memory: memory.content,
    "time_created": lambda memory: memory.created_at,
    "time_modified": lambda memory: memory.updated_at,
    "when_to_use": lambda memory: memory.when_to_use,
    "author": lambda memory: memory.author,
    "workspace_id": lambda memory: memory.workspace_id,
    "memory_id": lambda memory: memory.memory_id,
}
"""What a memory says now, for fields whose original spelling may have been kept."""


def _extras(memory: Memory, read: _Row) -> dict[str, Any]:
    """What the wire cannot say of a memory, or what would be read otherwise from it."""
    said = read.values()
    defaults = _DEFAULTS | {name: said.get(name) for name in _SAID}
    changed = {name for name, default in defaults.items() if getattr(memory, name) != default}
    return memory.model_dump(mode="json", include=changed) if changed else {}


def _unspoken(row: Mapping[str, Any], wire: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a row that the memory made from it would not bring back as they are."""
    translated = {alias for name, aliases in _ALIASES.items() if name in wire for alias in aliases if alias != name}
    kept = {name: value for name, value in row.items() if name != "metadata" and name not in translated}
    return {
        name: value
        for name, value in kept.items()
        if name not in wire or wire[name] != value or type(wire[name]) is not type(value)
    }


def _time_text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime(_TIME_FORMAT)


def _moment(name: str, value: Any) -> datetime | None:
    if value is None or value == "":
        return None
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError, OverflowError, OSError):
        raise InputError(f"{name} must be a time like 2025-07-24 21:15:17, not {_shown(value)}") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _no_constant(name: str) -> Any:
    raise InputError(f"{name} is no JSON number; write null")


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}…"
