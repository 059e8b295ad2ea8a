"""The spool's file: an SQLite file, flushed to the disk, which several processes may share.

A file that is broken is set aside under another name; what can still be read of it goes into a new one at once. A row
that cannot be read is moved to the table `unreadable`, where a person may look at it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sqlite3
import weakref
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from reme_core.errors import SpoolError
from reme_core.store.tool_calls import ToolCallResult
from reme_core.types import Message, new_id

log = logging.getLogger(__name__)
R = TypeVar("R")
Row = tuple[Any, Any, Any, Any]

_BUSY_SECONDS: Final = 10.0  # how long another process may hold the file
_BROKEN: Final = frozenset((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR))
"""Codes of a damaged file, of one that is no SQLite, and (as our statements never change) of one with other tables."""
_MOST_UNREADABLE: Final = 10_000  # rows in succession, after which a broken file has no more to give
_COLUMNS: Final = "entry_id, workspace, messages, calls"
_SELECT: Final = (
    f"select turn.rowid, {_COLUMNS}, coalesce(reason, '') from turn left join refusal using (entry_id) order by 1"
)
_INSERT: Final = f"insert or ignore into turn ({_COLUMNS}) values (?, ?, ?, ?)"

_of_parents: list[sqlite3.Connection] = []


@dataclass(frozen=True, slots=True)
class Entry:
    """The messages of one turn, or calls of tools in it, and the workspace they are for."""

    workspace: str
    messages: Sequence[Message] = ()
    calls: Sequence[ToolCallResult] = ()
    entry_id: str = field(default_factory=new_id)
    refusal: str = ""
    """Why the database refuses it for good; empty while it waits."""

    def parts(self) -> list[Entry]:
        """An entry for each of its messages, and one for its calls."""
        whole = [Entry(self.workspace, [message]) for message in self.messages]
        whole += [Entry(self.workspace, calls=self.calls)] if self.calls else []
        return [replace(part, entry_id=f"{self.entry_id}/{number}") for number, part in enumerate(whole)]

    def without(self, message_ids: Collection[str] | None) -> Entry:
        """This entry without the messages of these ids; with None, without anything."""
        if message_ids is None:
            return replace(self, messages=(), calls=())
        return replace(self, messages=[m for m in self.messages if m.message_id not in message_ids])

    def without_words(self, cut: Callable[[str], str]) -> Entry:
        """This entry without the words that `cut` takes out of a text; calls that hold some are left out."""
        messages = [m.model_copy(update={"content": cut(m.content)}) for m in self.messages]
        calls = [c for c in self.calls if (told := c.model_dump_json()) == cut(told)]
        return replace(self, messages=[m for m in messages if m.content.strip() or m.tool_calls], calls=calls)


class SpoolFile:
    """The entries in one file. One thread at a time may use it.

    All methods raise a `SpoolError` where the file can be neither used nor replaced (a full or read-only disk); it is
    opened again by the next call.

    Attributes:
        path: Where it is; it is made when it is first written to.
        generation: Changes when another file takes its place, which need not hold what the former one held.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.generation = 0
        self._place: tuple[int, int] | None = None
        self._open: _Connection | None = None

    def write(self, entries: Iterable[Entry]) -> None:
        """Add entries, and return when they are on the disk; those that are there already are passed over."""
        new = list(entries)

        def insert(file: sqlite3.Connection) -> None:
            file.executemany(_INSERT, [_row(entry) for entry in new])
            refused = [(entry.entry_id, entry.refusal) for entry in new if entry.refusal]
            file.executemany("insert or replace into refusal values (?, ?)", refused)

        self._run(insert)

    def read(self) -> dict[str, Entry]:
        """All entries by their ids, oldest first. Rows that cannot be read are kept apart, and logged."""
        if not self.path.exists():
            return {}
        rows = self._run(lambda file: file.execute(_SELECT).fetchall())
        found: dict[str, Entry] = {}
        unreadable: list[tuple[int]] = []
        for number, *row in rows:
            try:
                entry = _entry(*row)
                found[entry.entry_id] = entry
            except (ValueError, TypeError, AttributeError) as error:
                unreadable.append((number,))
                log.error("a turn in %s cannot be read, and is kept in its table 'unreadable': %s", self.path, error)
        if unreadable:
            self._run(lambda file: _keep_apart(file, unreadable))
        return found

    def remove(self, entry_ids: Iterable[str]) -> None:
        """Remove entries."""
        rows = [(entry_id,) for entry_id in entry_ids]

        def delete(file: sqlite3.Connection) -> None:
            for table in ("turn", "refusal"):
                file.executemany(f"delete from {table} where entry_id = ?", rows)

        self._run(delete)

    def accept(self) -> None:
        """Let the entries that are refused wait again."""
        if self.path.exists():
            self._run(lambda file: file.execute("delete from refusal"))

    def erase(self, workspace: str, change: Callable[[Entry], Entry], marks: Collection[str]) -> None:
        """Take what was said out of the entries of a workspace, leaving no trace of it.

        Args:
            workspace: The workspace.
            change: Makes of an entry what is left of it.
            marks: Texts by which rows that cannot be read are known to hold what is to go; the empty one is in all.
        """
        if not self.path.exists():
            return
        rows = [_row(change(entry)) for entry in self.read().values() if entry.workspace == workspace]

        def rewrite(file: sqlite3.Connection) -> None:
            values = [(messages, calls, entry_id) for entry_id, _, messages, calls in rows]
            file.executemany("update turn set messages = ?, calls = ? where entry_id = ?", values)
            file.execute("delete from turn where messages = '[]' and calls = '[]'")
            file.execute("delete from refusal where entry_id not in (select entry_id from turn)")
            named = [(workspace, mark) for mark in marks]
            file.executemany("delete from unreadable where workspace = ? and instr(messages, ?) > 0", named)

        self._run(rewrite)
        assert self._open is not None
        with contextlib.suppress(sqlite3.OperationalError):  # another process reads; its next checkpoint does it
            self._open.connection.execute("pragma wal_checkpoint(truncate)")

    def close(self) -> None:
        """Close the file; whatever comes next opens it again."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def _run(self, work: Callable[[sqlite3.Connection], R]) -> R:
        """Do work in a transaction; in a new file where this one is broken."""
        try:
            try:
                return self._transact(work)
            except sqlite3.DatabaseError as error:
                if _code(error) not in _BROKEN:
                    raise
                self._replace_broken(error)
                return self._transact(work)
        except (OSError, sqlite3.Error) as error:
            raise SpoolError(f"the turns that wait in {self.path} cannot be read or written: {error}") from None

    def _transact(self, work: Callable[[sqlite3.Connection], R]) -> R:
        if _place(self.path) != self._place:
            self._place = None  # it was deleted or replaced; a new one may get the same number
        if self._open is not None and (
            self._place is None or self._open.process != os.getpid() or not _is_whole(self.path)
        ):
            self.close()
        try:
            if self._open is None:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self.path.touch(mode=0o600)  # what was said is nobody else's business
                if (place := _place(self.path)) != self._place:
                    self.generation, self._place = self.generation + 1, place
                self._open = _Connection(self.path)
            with self._open.connection as connection:
                return work(connection)
        except (OSError, sqlite3.Error):
            self.close()
            raise

    def _replace_broken(self, error: sqlite3.DatabaseError) -> None:
        if _place(self.path) != self._place:
            return  # another process has done so
        rows = _salvage(self.path)
        aside = self.path.with_name(f"{self.path.name}.broken-{datetime.now(UTC):%Y%m%dT%H%M%S.%f}")
        fresh = self.path.with_name(f"{self.path.name}.{new_id()}.part")
        try:
            fresh.touch(mode=0o600)
            file = _Connection(fresh)
            try:
                with file.connection as connection:
                    connection.executemany(_INSERT, rows)
            finally:
                file.close()
            for suffix in ("-wal", "-shm", ""):  # those beside it are parts of it
                with contextlib.suppress(FileNotFoundError):
                    self.path.with_name(self.path.name + suffix).rename(aside.with_name(aside.name + suffix))
            fresh.rename(self.path)
        finally:
            fresh.unlink(missing_ok=True)
        log.error(
            "%s is broken (%s) and was set aside as %s; %d turns could be read and wait in a new file",
            self.path, error, aside, len(rows),
        )  # fmt: skip


class _Connection:
    """The open file."""

    # It stays open: to open it again for each turn would take three writes to the disk instead of one.

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, check_same_thread=False)
        self.process = os.getpid()
        self.close = weakref.finalize(self, _close, self.process, self.connection)
        self.connection.text_factory = bytes  # a text that is no UTF-8 makes one row unreadable, and not all of them
        with contextlib.suppress(sqlite3.OperationalError):  # some network drives cannot; then it takes longer
            self.connection.execute("pragma journal_mode = wal")
        self.connection.execute("pragma synchronous = full")
        self.connection.execute("pragma secure_delete = on")
        for table, key in (("turn", "text unique not null"), ("unreadable", "text")):
            self.connection.execute(
                f"create table if not exists {table} (entry_id {key}, workspace text, messages text, calls text)"
            )
        self.connection.execute("create table if not exists refusal (entry_id text primary key, reason text)")


def _place(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except FileNotFoundError:
        return (0, 0)
    return found.st_dev, found.st_ino


def _is_whole(path: Path) -> bool:
    """Whether a file begins, and is as long, as SQLite left it; one that is open shows no damage until it is closed."""
    with path.open("rb") as file:
        header = file.read(32)
    page_size = int.from_bytes(header[16:18]) if header[16:18] != b"\0\1" else 65_536
    pages = int.from_bytes(header[28:32])
    return header.startswith(b"SQLite format 3\0") and path.stat().st_size >= pages * page_size


def _close(process: int, connection: sqlite3.Connection) -> None:
    if process == os.getpid():
        connection.close()
    else:  # SQLite must not be closed by a forked child, and the collector would do it
        _of_parents.append(connection)


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF  # what the driver itself refuses has none


def _salvage(path: Path) -> list[Row]:
    """The rows of a broken file that can still be read."""
    rows: list[Row] = []
    last = unreadable = 0
    with contextlib.closing(sqlite3.connect(path, timeout=_BUSY_SECONDS)) as file:
        file.text_factory = bytes
        file.execute("pragma writable_schema = on")  # opens a file that is shorter than it says
        while unreadable < _MOST_UNREADABLE:
            try:
                statement = f"select rowid, {_COLUMNS} from turn where rowid > {last} order by rowid"
                for number, entry_id, workspace, messages, calls in file.execute(statement):
                    rows.append((entry_id, workspace, messages, calls))
                    last, unreadable = number, 0
                break
            except sqlite3.DatabaseError as error:
                if _code(error) != sqlite3.SQLITE_CORRUPT:
                    break
                last, unreadable = last + 1, unreadable + 1  # until the next page that is whole
    return rows


def _keep_apart(file: sqlite3.Connection, numbers: Sequence[tuple[int]]) -> None:
    file.executemany(f"insert into unreadable select {_COLUMNS} from turn where rowid = ?", numbers)
    file.executemany("delete from turn where rowid = ?", numbers)


def _row(entry: Entry) -> Row:
    return entry.entry_id, entry.workspace, _dump(entry.messages), _dump(entry.calls)


def _dump(values: Sequence[BaseModel]) -> str:
    return json.dumps([value.model_dump(mode="json") for value in values], ensure_ascii=False)


def _entry(entry_id: bytes, workspace: bytes, messages: bytes, calls: bytes, refusal: bytes) -> Entry:
    return Entry(
        workspace.decode(),
        [Message.model_validate(message) for message in json.loads(messages)],
        [ToolCallResult.model_validate(call) for call in json.loads(calls)],
        entry_id.decode(),
        refusal.decode(),
    )
