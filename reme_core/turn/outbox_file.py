"""The spool: messages and tool calls on their way to the database, kept until it has them.

A turn hands them over and goes on. They wait in memory and, where a file is given, on disk (an SQLite file,
written through to the medium), so that neither a database that is down nor a process that is killed loses what it was
asked to keep. Several processes may share one file: whichever reaches the database first delivers all of it, and what
is delivered twice is stored once, a message by its id and a call by its hash.
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

from reme_core.schema import Message, new_id
from reme_core.settings import Settings
from reme_core.store.translate import masked
from reme_core.text.plain import plain_json
from reme_core.tool_call import ToolCallResult

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
    """Entries that wait, oldest first. Any thread may use it; all but `put` and `waits` may block on the disk."""

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
    def waits(self) -> bool:
        """Whether anything may be waiting; True until the file has been looked into."""
        return bool(self._entries) or not self._looked

    def keep(self) -> None:
        """Write what is only in memory to the file; returns when it is on the medium. Without a file, nothing happens.

        A file that cannot be written (a read-only disk) is given up with a warning, and memory serves alone.
        """
        with self._file:
            with self._memory:
                new = [entry for entry_id, entry in self._entries.items() if entry_id not in self._on_disk]
            if self.path is None or not new:
                return
            try:
                with self._opened(self.path) as file:
                    file.executemany("insert or ignore into turn values (?, ?, ?, ?)", [_row(entry) for entry in new])
                    file.execute("delete from turn where rowid <= (select max(rowid) from turn) - ?", (self._most,))
            except (OSError, sqlite3.Error) as error:
                log.warning("cannot keep turns in %s, so they wait in memory only: %s", self.path, error)
                self.path = None
                return
            self._on_disk.update(entry.entry_id for entry in new)

    def waiting(self) -> list[Entry]:
        """What waits, oldest first, what other processes left in the file included."""
        with self._file:
            left = self._read()
            self._on_disk.update(left)
            self._looked = True
            with self._memory:
                self._entries = left | {k: entry for k, entry in self._entries.items() if k not in left}
                return list(self._entries.values())

    def done(self, entry_ids: Collection[str]) -> None:
        """Forget entries that were delivered.

        An entry that cannot be taken out of the file now is delivered again some day, which changes nothing.
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
                with self._opened(self.path) as file:
                    file.executemany("delete from turn where entry_id = ?", kept)
            except (OSError, sqlite3.Error) as error:
                log.warning("cannot take delivered turns out of %s: %s", self.path, error)

    def close(self) -> None:
        """Close the file; whatever comes next opens it again."""
        with self._file:
            self._drop()

    @contextlib.contextmanager
    def _opened(self, path: Path) -> Iterator[sqlite3.Connection]:
        """The file, in a transaction; opened anew where it was taken away or belongs to the process that forked."""
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
            with self._opened(self.path) as file:
                rows = file.execute("select entry_id, workspace, messages, calls from turn order by rowid").fetchall()
            return {row[0]: _entry(*row) for row in rows}
        except (OSError, sqlite3.Error, ValueError) as error:
            log.warning("cannot read the turns kept in %s: %s", self.path, error)
            return {}


class _File:
    """The open file. It stays open, since to open it anew for each turn takes three writes to the medium for one."""

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
    return entry.entry_id, entry.workspace, _dumped(entry.messages), _dumped(entry.calls)


def _dumped(values: Sequence[BaseModel]) -> str:
    return json.dumps([value.model_dump(mode="json") for value in values], ensure_ascii=False)


def _entry(entry_id: str, workspace: str, messages: str, calls: str) -> Entry:
    return Entry(
        workspace,
        [Message.model_validate(message) for message in json.loads(messages)],
        [ToolCallResult.model_validate(call) for call in json.loads(calls)],
        entry_id,
    )


def spool_path(spool: Literal["file", "memory"] | Path, settings: Settings) -> Path | None:
    """Where a spool stands: a file of one's own, none, or by default one for each database under `data_dir`."""
    if isinstance(spool, Path):
        return spool
    if spool == "memory":
        return None
    url = settings.database_url
    place = hashlib.sha256(masked(url.get_secret_value()).encode()).hexdigest()[:12] if url else "embedded"
    return settings.data_dir / "spool" / f"{place}.sqlite3"


def storable(message: Message) -> Message:
    """The message with nothing in it that Postgres or JSON cannot hold."""
    values: dict[str, Any] = {name: getattr(message, name) for name in type(message).model_fields}
    values["tool_calls"] = [call.model_dump() for call in message.tool_calls]
    sent_at = values.pop("sent_at")
    return Message.model_validate(plain_json(values) | {"sent_at": sent_at})
