"""The spool: where messages and tool calls wait until the database has them.

They wait in memory and, where a file is given, in an SQLite file that is flushed to the disk. So nothing is lost while
the database is down, or when the process is killed. Several processes may share one file: the first that reaches the
database delivers all of it. What is delivered twice is stored once, since messages have ids and calls have hashes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import sqlite3
import threading
import weakref
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel

from reme_core.postgres.errors import mask_password
from reme_core.settings import Settings
from reme_core.text.plain import plain_json
from reme_core.tools.types import ToolCallResult
from reme_core.types import Message, new_id

log = logging.getLogger(__name__)

MOST_WAITING: Final = 10_000
"""Turns that wait at the most; then the oldest are given up, with a warning."""
_BUSY_SECONDS: Final = 10.0  # how long another process may hold the file

_of_parents: list[sqlite3.Connection] = []


@dataclass(frozen=True, slots=True)
class Entry:
    """The messages of one turn, or calls of tools in it, and the workspace they are for."""

    workspace: str
    messages: Sequence[Message] = ()
    calls: Sequence[ToolCallResult] = ()
    entry_id: str = field(default_factory=new_id)


class Spool:
    """Entries that wait, oldest first. Any thread may use it; all but `put` and `has_entries` may block on the disk."""

    def __init__(self, path: Path | None = None, *, most: int = MOST_WAITING) -> None:
        """Keep entries in memory, and in the file at `path` (made when the first entry needs it) if one is given."""
        self.path = path
        self._most = most
        self._entries: dict[str, Entry] = {}
        self._on_disk: set[str] = set()
        self._looked = path is None
        self._memory = threading.Lock()  # held for moments, since the event loop waits for it
        self._file = threading.Lock()  # held while the disk works
        self._open: _File | None = None

    def __str__(self) -> str:
        return str(self.path) if self.path is not None else "the memory of this process"

    def put(self, entry: Entry) -> None:
        """Take an entry into memory; never waits for the disk."""
        with self._memory:
            self._entries[entry.entry_id] = entry
            excess = list(self._entries)[: max(0, len(self._entries) - self._most)]
            for entry_id in excess:
                del self._entries[entry_id]
        if excess:
            log.warning("%d turns wait for the database already; gave up the oldest", self._most)

    @property
    def has_entries(self) -> bool:
        """Whether entries may be waiting; True until the file was read for the first time."""
        return bool(self._entries) or not self._looked

    def keep(self) -> None:
        """Write what is only in memory to the file, and return when it is on the disk. Without a file, nothing happens.

        If the file cannot be written (a read-only disk), a warning is logged and only memory is used from then on.
        """
        with self._file:
            with self._memory:
                new = [entry for entry_id, entry in self._entries.items() if entry_id not in self._on_disk]
            if self.path is None or not new:
                return
            try:
                with self._open_file(self.path) as file:
                    file.executemany("insert or ignore into turn values (?, ?, ?, ?)", [_row(entry) for entry in new])
                    file.execute("delete from turn where rowid <= (select max(rowid) from turn) - ?", (self._most,))
            except (OSError, sqlite3.Error) as error:
                log.warning("cannot keep turns in %s, so they wait in memory only: %s", self.path, error)
                self.path = None
                return
            self._on_disk.update(entry.entry_id for entry in new)

    def entries(self) -> list[Entry]:
        """What waits, oldest first, also what other processes left in the file."""
        with self._file:
            left = self._read()
            self._on_disk.update(left)
            self._looked = True
            with self._memory:
                self._entries = left | {k: entry for k, entry in self._entries.items() if k not in left}
                return list(self._entries.values())

    def remove(self, entry_ids: Collection[str]) -> None:
        """Remove entries that were delivered.

        An entry that cannot be removed from the file is delivered again later, which changes nothing.
        """
        with self._file:
            with self._memory:
                for entry_id in entry_ids:
                    self._entries.pop(entry_id, None)
            kept = [(entry_id,) for entry_id in entry_ids if entry_id in self._on_disk]
            self._on_disk.difference_update(entry_ids)
            if self.path is None or not kept:
                return
            try:
                with self._open_file(self.path) as file:
                    file.executemany("delete from turn where entry_id = ?", kept)
            except (OSError, sqlite3.Error) as error:
                log.warning("cannot take delivered turns out of %s: %s", self.path, error)

    def close(self) -> None:
        """Close the file; whatever comes next opens it again."""
        with self._file:
            self._drop()

    @contextlib.contextmanager
    def _open_file(self, path: Path) -> Iterator[sqlite3.Connection]:
        """The file, in a transaction; opened again if it was deleted, or was opened before this process forked."""
        if self._open is not None and (self._open.process, self._open.place) != (os.getpid(), _place(path)):
            self._drop()
        try:
            self._open = self._open or _File(path)
            with self._open.connection as file:
                yield file
        except (OSError, sqlite3.Error):
            self._drop()
            raise

    def _drop(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def _read(self) -> dict[str, Entry]:
        if self.path is None or not self.path.exists():
            return {}
        try:
            with self._open_file(self.path) as file:
                rows = file.execute("select entry_id, workspace, messages, calls from turn order by rowid").fetchall()
            return {row[0]: _entry(*row) for row in rows}
        except (OSError, sqlite3.Error, ValueError) as error:
            log.warning("cannot read the turns kept in %s: %s", self.path, error)
            return {}


class _File:
    """The open file."""

    # It stays open: to open it again for each turn would take three writes to the disk instead of one.

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)  # what was said is nobody else's business
        self.connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, check_same_thread=False)
        self.process, self.place = os.getpid(), _place(path)
        self.close = weakref.finalize(self, _close, self.process, self.connection)
        with contextlib.suppress(sqlite3.OperationalError):  # some network drives cannot; then it takes longer
            self.connection.execute("pragma journal_mode = wal")
        self.connection.execute("pragma synchronous = full")
        self.connection.execute(
            "create table if not exists turn (entry_id text unique not null, workspace text, messages text, calls text)"
        )


def _place(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except FileNotFoundError:
        return (0, 0)
    return found.st_dev, found.st_ino


def _close(process: int, connection: sqlite3.Connection) -> None:
    if process == os.getpid():
        connection.close()
    else:  # SQLite must not be closed by a forked child, and the collector would do it
        _of_parents.append(connection)


def _row(entry: Entry) -> tuple[str, str, str, str]:
    return entry.entry_id, entry.workspace, _dump(entry.messages), _dump(entry.calls)


def _dump(values: Sequence[BaseModel]) -> str:
    return json.dumps([value.model_dump(mode="json") for value in values], ensure_ascii=False)


def _entry(entry_id: str, workspace: str, messages: str, calls: str) -> Entry:
    return Entry(
        workspace,
        [Message.model_validate(message) for message in json.loads(messages)],
        [ToolCallResult.model_validate(call) for call in json.loads(calls)],
        entry_id,
    )


def spool_path(spool: Literal["file", "memory"] | Path, settings: Settings) -> Path | None:
    """The file of a spool: the given one, none, or by default one for each database under `data_dir`."""
    if isinstance(spool, Path):
        return spool
    if spool == "memory":
        return None
    url = settings.database_url
    place = hashlib.sha256(mask_password(url.get_secret_value()).encode()).hexdigest()[:12] if url else "embedded"
    return settings.data_dir / "spool" / f"{place}.sqlite3"


def sanitise(message: Message) -> Message:
    """The message without what Postgres or JSON cannot hold."""
    values: dict[str, Any] = {name: getattr(message, name) for name in type(message).model_fields}
    values["tool_calls"] = [call.model_dump() for call in message.tool_calls]
    sent_at = values.pop("sent_at")
    return Message.model_validate(plain_json(values) | {"sent_at": sent_at})
