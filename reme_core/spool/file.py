"""The spool's file: an SQLite file that is flushed to the disk; several processes may share it.

A broken file is renamed, and the rows that can still be read are copied to a new file at once. A row with invalid
values is moved to the table `unreadable`, where a person may look at it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from reme_core.errors import SpoolError
from reme_core.store.tool_calls import ToolCallResult
from reme_core.store.wordings import Cut, cut_json
from reme_core.types import Message, new_id

log = logging.getLogger(__name__)
R = TypeVar("R")
Row = tuple[Any, Any, Any, Any]

_BUSY_SECONDS: Final = 10.0  # to wait for another process that is writing
# The file is damaged, is no SQLite file, or has other tables. Our statements never change, so they fail for no other
# reason.
_BROKEN: Final = frozenset((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR))
_MOST_UNREADABLE: Final = 10_000  # after so many unreadable rows in succession, the rest of a broken file is left
_NOWHERE: Final = (0, 0)  # the place of a file that is not there
_COLUMNS: Final = "entry_id, workspace, messages, calls"
_SELECT: Final = (
    f"select turn.rowid, {_COLUMNS}, coalesce(reason, '') from turn left join refusal using (entry_id) order by 1"
)
# What was read of a broken file are bytes: stored as such, they would equal no text, and never be removed or erased.
_INSERT: Final = f"insert or ignore into turn ({_COLUMNS}) values ({', '.join(['cast(? as text)'] * 4)})"

_of_parents: list[sqlite3.Connection] = []  # connections of a process's parents, kept so that they are not closed

_heads: dict[tuple[int, int], tuple[FileIO, int]] = {}  # by place: a file to read the header in, and its users
_heads_guard = threading.Lock()


@dataclass(frozen=True, slots=True)
class Entry:
    """The messages of one turn, or its tool calls, and their workspace."""

    workspace: str
    messages: Sequence[Message] = ()
    calls: Sequence[ToolCallResult] = ()
    entry_id: str = field(default_factory=new_id)
    refusal: str = ""
    """The reason why the database refuses the entry for good; empty while it waits."""

    def parts(self) -> list[Entry]:
        """An entry for each message, and one for all calls."""
        whole = [Entry(self.workspace, [message]) for message in self.messages]
        whole += [Entry(self.workspace, calls=self.calls)] if self.calls else []
        return [replace(part, entry_id=f"{self.entry_id}/{number}") for number, part in enumerate(whole)]

    def without(self, message_ids: Collection[str] | None) -> Entry:
        """This entry without the messages of these ids; with None, without any messages and calls."""
        if message_ids is None:
            return replace(self, messages=(), calls=())
        return replace(self, messages=[m for m in self.messages if m.message_id not in message_ids])

    def without_words(self, cut: Cut) -> Entry:
        """This entry without the words that `cut` removes from a text.

        Calls with these words are left out, and so are messages of which nothing else is left.
        """
        messages = [_without_words(message, cut) for message in self.messages]
        calls = [call for call in self.calls if _call_without_words(call, cut) is call]
        return replace(self, messages=[m for m in messages if m.content.strip() or m.tool_calls], calls=calls)

    def rests(self, cut: Cut) -> list[Message | ToolCallResult]:
        """All of this entry, of which some messages or calls have the words, without these; a message may be empty."""
        messages = [_without_words(message, cut) for message in self.messages]
        return [*messages, *(_call_without_words(call, cut) for call in self.calls)]


def _without_words(message: Message, cut: Cut) -> Message:
    told = message.model_dump(mode="json", include={"content", "reasoning_content", "tool_calls", "metadata"})
    left = cut_json(told, cut)
    if left == told:
        return message
    if left["content"] != told["content"]:  # as in the database: it is not edited when it comes again with these words
        left["metadata"] = {**left["metadata"], "words_erased": True}
    return Message.model_validate(message.model_dump() | left)


def _call_without_words(call: ToolCallResult, cut: Cut) -> ToolCallResult:
    told = call.model_dump(mode="json")
    left = cut_json(told, cut)
    return call if left == told else ToolCallResult.model_validate(left | {"call_hash": call.call_hash})


class SpoolFile:
    """The entries in one file. One thread at a time may use it.

    All methods raise a `SpoolError` if the file can be neither used nor replaced (a full or read-only disk). The next
    call opens the file again.

    Attributes:
        path: The file; the first write creates it.
        generation: A number that grows when another file, perhaps with other entries, is found at `path`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.generation = 0
        self._place: tuple[int, int] | None = None
        self._open: _Connection | None = None

    def write(self, entries: Iterable[Entry]) -> None:
        """Add entries, and return when they are on the disk; entries that are there already are skipped."""
        new = list(entries)

        def insert(file: sqlite3.Connection) -> None:
            file.executemany(_INSERT, [_row(entry) for entry in new])
            refused = [(entry.entry_id, entry.refusal) for entry in new if entry.refusal]
            file.executemany("insert or replace into refusal values (?, ?)", refused)

        self._run(insert)

    def read(self) -> dict[str, Entry]:
        """All entries by their ids, oldest first. Rows with invalid values are moved to `unreadable`, and logged."""
        return self._run(self._entries) if self._is_there() else {}

    def _entries(self, file: sqlite3.Connection) -> dict[str, Entry]:
        found: dict[str, Entry] = {}
        unreadable: list[tuple[int]] = []
        for number, *row in file.execute(_SELECT).fetchall():
            try:
                entry = _entry(*row)
                found[entry.entry_id] = entry
            except (ValueError, TypeError, AttributeError) as error:
                unreadable.append((number,))
                log.error("a turn in %s cannot be read, and is kept in its table 'unreadable': %s", self.path, error)
        if unreadable:
            file.executemany(f"insert into unreadable select {_COLUMNS} from turn where rowid = ?", unreadable)
            file.executemany("delete from turn where rowid = ?", unreadable)
        return found

    def remove(self, entry_ids: Iterable[str]) -> None:
        """Remove entries."""
        rows = [(entry_id,) for entry_id in entry_ids]

        def delete(file: sqlite3.Connection) -> None:
            for table in ("turn", "refusal"):
                file.executemany(f"delete from {table} where entry_id = ?", rows)

        self._run(delete)

    def accept(self) -> None:
        """Let refused entries wait again."""
        if self._is_there():
            self._run(lambda file: file.execute("delete from refusal"))

    def erase(self, workspace: str, change: Callable[[Entry], Entry], named: Callable[[str], bool]) -> None:
        """Change the entries of a workspace, and leave no trace of what they had before; `change` gives their rest.

        Unreadable rows are deleted if their text is `named`.
        """
        if not self._is_there():
            return

        def rewrite(file: sqlite3.Connection) -> None:
            # At once, so that no other process changes what is read before it is written.
            file.execute("begin immediate")
            rows = [_row(change(entry)) for entry in self._entries(file).values() if entry.workspace == workspace]
            values = [(messages, calls, entry_id) for entry_id, _, messages, calls in rows]
            file.executemany("update turn set messages = ?, calls = ? where entry_id = ?", values)
            file.execute("delete from turn where messages = '[]' and calls = '[]'")
            file.execute("delete from refusal where entry_id not in (select entry_id from turn)")
            # Either may be missing in such a row.
            told = "cast(coalesce(messages, '') || coalesce(calls, '') as blob)"
            rest = file.execute(f"select rowid, {told} from unreadable where workspace = ?", [workspace]).fetchall()
            gone = [(number,) for number, text in rest if named(text.decode(errors="replace"))]
            file.executemany("delete from unreadable where rowid = ?", gone)

        self._run(rewrite)
        assert self._open is not None
        # The write-ahead log still has the old pages. If another process is reading, this fails, and its next
        # checkpoint clears them.
        with contextlib.suppress(sqlite3.OperationalError):
            self._open.connection.execute("pragma wal_checkpoint(truncate)")

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def _is_there(self) -> bool:
        try:
            return _place(self.path) != _NOWHERE
        except OSError as error:  # this process may not look into the folder
            raise self._unusable(error) from None

    def _unusable(self, error: Exception) -> SpoolError:
        problem = f"the turns that wait in {self.path} cannot be read or written: {error}"
        return SpoolError(f"{problem}; make room on its disk, or let this process write there")

    def _run(self, work: Callable[[sqlite3.Connection], R]) -> R:
        """Do work in a transaction. If the file is broken, replace it and do the work in the new one."""
        try:
            try:
                return self._transact(work)
            except sqlite3.DatabaseError as error:
                if _code(error) not in _BROKEN:
                    raise
                self._replace_broken(error)
                return self._transact(work)
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from None

    def _transact(self, work: Callable[[sqlite3.Connection], R]) -> R:
        if _place(self.path) != self._place:
            self._place = None  # the file was deleted or replaced; a new file may get the number of the old one
        if self._open is not None and (
            self._place is None or self._open.process != os.getpid() or not self._open.is_whole()
        ):
            self.close()
        try:
            if self._open is None:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self.path.touch(mode=0o600)  # nobody else may read what was said
                if (place := _place(self.path)) != self._place:
                    self.generation, self._place = self.generation + 1, place
                self._open = _Connection(self.path)
            with self._open.connection as connection:
                done = work(connection)
            if _place(self.path) != self._place:  # another process has replaced the file meanwhile
                return self._transact(work)
            return done
        except (OSError, sqlite3.Error):
            self.close()
            raise

    def _replace_broken(self, error: sqlite3.DatabaseError) -> None:
        if _place(self.path) != self._place:
            return  # another process has replaced it
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
            for suffix in ("-wal", "-shm", ""):  # SQLite's files beside it are parts of it
                with contextlib.suppress(FileNotFoundError):
                    self.path.with_name(self.path.name + suffix).rename(aside.with_name(aside.name + suffix))
            fresh.rename(self.path)
        finally:
            fresh.unlink(missing_ok=True)
        # Other processes may have written to the file until it was renamed.
        late = [row for row in _salvage(aside) if row not in rows]
        self._transact(lambda file: file.executemany(_INSERT, late))
        log.error(
            "%s is broken (%s) and was set aside as %s; %d turns could be read and wait in a new file",
            self.path, error, aside, len(rows) + len(late),
        )  # fmt: skip


class _Connection:
    """The open file. It stays open: opening it for each turn would take three writes to the disk instead of one."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, check_same_thread=False)
        self.process = os.getpid()
        self._head, place = _hold_head(path)
        # `finalize` also closes it when this object is garbage.
        self.close = weakref.finalize(self, _close, self.process, self.connection, place)
        self.connection.text_factory = bytes  # otherwise one text that is not UTF-8 would make all rows unreadable
        with contextlib.suppress(sqlite3.OperationalError):  # some network drives cannot do this; writing takes longer
            self.connection.execute("pragma journal_mode = wal")
        self.connection.execute("pragma synchronous = full")
        self.connection.execute("pragma secure_delete = on")  # erased words must not stay in free pages
        for table, key in (("turn", "text unique not null"), ("unreadable", "text")):
            self.connection.execute(
                f"create table if not exists {table} (entry_id {key}, workspace text, messages text, calls text)"
            )
        self.connection.execute("create table if not exists refusal (entry_id text primary key, reason text)")

    def is_whole(self) -> bool:
        """Whether the file has SQLite's header, and the length that the header gives."""
        # SQLite does not notice such damage while it has the file open.
        with _heads_guard:
            self._head.seek(0)
            header = self._head.read(32)
        page_size = int.from_bytes(header[16:18]) if header[16:18] != b"\0\1" else 65_536
        pages = int.from_bytes(header[28:32])
        return header.startswith(b"SQLite format 3\0") and os.fstat(self._head.fileno()).st_size >= pages * page_size


def _place(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return _NOWHERE
    return found.st_dev, found.st_ino


def _hold_head(path: Path) -> tuple[FileIO, tuple[int, int]]:
    """An open file to read the header in, and its place; `_let_head_go` releases it."""
    # If a process closes any descriptor of a file, it loses all of SQLite's locks on it (POSIX). Another process may
    # then assume that it is the last user, and delete the log that this process goes on writing to. So each file is
    # opened once, and closed after all connections to it.
    with _heads_guard:
        place = _place(path)
        head, held = _heads.get(place) or (path.open("rb", buffering=0), 0)
        _heads[place] = head, held + 1
        return head, place


def _let_head_go(place: tuple[int, int]) -> None:
    with _heads_guard:
        head, held = _heads.pop(place)
        if held > 1:
            _heads[place] = head, held - 1
        else:
            head.close()


def _close(process: int, connection: sqlite3.Connection, place: tuple[int, int]) -> None:
    if process == os.getpid():
        connection.close()
        _let_head_go(place)
    else:  # a forked child must not close its parent's connection, which garbage collection would do
        _of_parents.append(connection)


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF  # errors of the driver itself have no code


def _salvage(path: Path) -> list[Row]:
    """The rows of a broken file that can still be read."""
    rows: list[Row] = []
    last = unreadable = 0
    with contextlib.closing(sqlite3.connect(path, timeout=_BUSY_SECONDS)) as file:
        file.text_factory = bytes
        file.execute("pragma writable_schema = on")  # with this, SQLite opens a file that is shorter than it should be
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
                last, unreadable = last + 1, unreadable + 1  # try row by row, until the next readable page
    return rows


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
