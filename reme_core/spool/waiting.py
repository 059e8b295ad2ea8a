"""The spool: messages and tool calls wait here until the database has them.

They wait in memory and, if a path is given, also in a file. So nothing is lost while the database is down, or when the
process is killed. Several processes may share one file: the first one that reaches the database delivers all entries.
Messages have ids and calls have hashes, so an entry that is delivered twice is stored once.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
import weakref
from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

from reme_core.errors import InputError, SpoolError
from reme_core.given import storable
from reme_core.postgres.errors import mask_password
from reme_core.settings import Settings
from reme_core.spool.file import Entry, SpoolFile
from reme_core.store.tool_calls import ToolCallResult
from reme_core.store.wordings import Cut
from reme_core.text.plain import encode_json, plain_json
from reme_core.types import SCOPES, Message

log = logging.getLogger(__name__)

MOST_WAITING: Final = 10_000
"""How many turns may wait; further turns are not accepted."""

_spools: weakref.WeakSet[Spool] = weakref.WeakSet()
_held: list[threading.Lock] = []  # while this process forks


class Spool:
    """Waiting entries, oldest first. Any thread may use them; `put`, `get` and properties never wait for the disk."""

    def __init__(self, path: Path | None = None) -> None:
        """Keep entries in memory and, if a path is given, in a file there, which the first write creates."""
        self.path = path
        self._disk = SpoolFile(path) if path is not None else None
        self._entries: dict[str, Entry] = {}
        self._on_disk: set[str] = set()
        self._generation = 0
        self._looked = path is None
        self._trouble = ""  # why the file could not be read when it was last looked at
        self._memory = threading.Lock()  # held for moments only: the event loop waits for it
        self._file = threading.Lock()  # held while the disk works; taken before `_memory`, never after it
        _spools.add(self)

    def __str__(self) -> str:
        return str(self.path) if self.path is not None else "the memory of this process"

    def put(self, entry: Entry) -> None:
        """Add an entry in memory.

        Raises:
            SpoolError: Too many entries wait already; this one was not added.
        """
        with self._memory:
            if sum(not waiting.refusal for waiting in self._entries.values()) >= MOST_WAITING:
                raise SpoolError(
                    f"{MOST_WAITING} turns wait for the database already, so this one was not taken; see why the"
                    " database takes none, and hand the turn over again"
                )
            self._entries[entry.entry_id] = entry

    def has_entries(self, workspace: str = "") -> bool:
        """Whether entries may wait, by default of any workspace; True until the file is read for the first time."""
        # A copy: other threads may change the dict meanwhile.
        waiting = [entry.workspace for entry in self._entries.copy().values() if not entry.refusal]
        return (workspace in waiting if workspace else bool(waiting)) or not self._looked

    def refusal_of(self, entry_id: str) -> str:
        """Why the database refuses an entry, or a part of it, for good; empty if it does not."""
        refused = [entry for entry in self._entries.copy().values() if entry.refusal]
        return next((entry.refusal for entry in refused if entry.entry_id.startswith(f"{entry_id}/")), "")

    @property
    def at_risk(self) -> int:
        """How many entries are not in the file yet, and would be lost in a crash; 0 if there is no file."""
        with self._memory:
            return 0 if self._disk is None else len(self._entries.keys() - self._on_disk)

    def get(self, entry_id: str) -> Entry | None:
        """The entry of this id as it is now; None if it was delivered or erased."""
        with self._memory:
            return self._entries.get(entry_id)

    def keep(self) -> None:
        """Write entries that are only in memory to the file, if there is one; return when they are on the disk.

        Raises:
            SpoolError: The file cannot be written, and the entries stay in memory only; the next call tries again.
        """
        with self._file:
            while self._disk is not None and (new := self._unkept()):
                try:
                    self._disk.write(new)
                except SpoolError as error:
                    raise SpoolError(
                        f"what was said waits in memory only, and a crash would lose it: {error}"
                    ) from None
                self._look_whether_replaced(self._disk)
                with self._memory:
                    self._on_disk.update(entry.entry_id for entry in new)

    def check(self) -> None:
        """Read the file, if there is one.

        Raises:
            SpoolError: It cannot be read; `entries` and `refusals` would warn of that, and give those in memory.
        """
        with self._file:
            if self._disk is not None:
                self._take_in(self._disk)

    def entries(self) -> list[Entry]:
        """The waiting entries, oldest first, including those that other processes wrote to the file."""
        return [entry for entry in self._all() if not entry.refusal]

    def refusals(self) -> list[Entry]:
        """The entries that the database has refused for good, with the reason, oldest first."""
        return [entry for entry in self._all() if entry.refusal]

    def set_aside(self, entry: Entry, reason: str) -> None:
        """Keep an entry that the database refuses: it no longer waits, and is among `refusals`.

        Its id begins with that of the waiting entry of which it is all or a part; what was erased of that meanwhile is
        left out.

        Raises:
            SpoolError: The file cannot be written; the refusal is in memory only.
        """
        self._all()
        with self._memory:
            waiting = [e for name, e in self._entries.items() if f"{entry.entry_id}/".startswith(f"{name}/")]
            said = {m.message_id: m for e in waiting for m in e.messages}
            calls = {call.call_hash for e in waiting for call in e.calls}
            messages = [said[m.message_id] for m in entry.messages if m.message_id in said]
            left = replace(entry, messages=messages, calls=[c for c in entry.calls if c.call_hash in calls])
            if left.messages or left.calls:
                self._entries[entry.entry_id] = replace(left, refusal=reason)
                self._on_disk.discard(entry.entry_id)
        self.keep()

    def accept(self) -> int:
        """Let refused entries wait again; returns their number."""
        again = self.refusals()
        with self._file:
            if self._disk is not None:
                self._disk.accept()
            with self._memory:
                self._entries.update({entry.entry_id: replace(entry, refusal="") for entry in again})
        return len(again)

    def _all(self) -> list[Entry]:
        with self._file:
            if self._disk is not None:
                try:
                    self._take_in(self._disk)
                    self._trouble = ""
                except SpoolError as error:  # entries in memory can still be delivered
                    if self._trouble != str(error):  # told once: every turn looks here
                        log.warning("%s", error)
                    self._trouble = str(error)
            with self._memory:
                return list(self._entries.values())

    def remove(self, entry_ids: Collection[str]) -> None:
        """Remove entries that were delivered.

        If the file cannot be written, they are delivered again later, which changes nothing.
        """
        with self._file:
            with self._memory:
                for entry_id in entry_ids:
                    self._entries.pop(entry_id, None)
                kept = [entry_id for entry_id in entry_ids if entry_id in self._on_disk]
                self._on_disk.difference_update(kept)
            if self._disk is not None and kept:
                try:
                    self._disk.remove(kept)
                except SpoolError as error:
                    log.warning("delivered turns will be delivered again: %s", error)

    def erase(self, workspace: str, message_ids: Collection[str] | None = None) -> list[Message]:
        """Erase what waits for a workspace, or only the messages of these ids; returns the erased messages.

        Raises:
            SpoolError: The file cannot be written, and still has the messages.
        """

        def is_named(text: str) -> bool:
            return message_ids is None or any(message_id in text for message_id in message_ids)

        changed = self._erase(workspace, lambda entry: entry.without(message_ids), is_named)
        return [m for before, left in changed for m in before.messages if m not in left.messages]

    def erase_words(self, workspace: str, cut: Cut) -> list[Message | ToolCallResult]:
        """Erase words from everything that waits for a workspace; `cut` removes them from a text.

        Returns what is left of the entries that had the words, also the messages and calls that wait no more.

        Raises:
            SpoolError: The file cannot be written, and still has the words.
        """
        changed = self._erase(workspace, lambda entry: entry.without_words(cut), lambda text: cut(text) != text)
        return [rest for before, left in changed if left != before for rest in before.rests(cut)]

    def _erase(
        self, workspace: str, change: Callable[[Entry], Entry], named: Callable[[str], bool]
    ) -> list[tuple[Entry, Entry]]:
        """Change what waits for a workspace; returns each entry as it was, and as it is."""
        with self._file:
            if self._disk is not None:
                try:
                    self._take_in(self._disk)
                    self._disk.erase(workspace, change, named)
                except SpoolError as error:  # nor does whoever asks for it erase anything in the database then
                    raise SpoolError(f"nothing was erased: {error}") from None
            changed: list[tuple[Entry, Entry]] = []
            with self._memory:
                for entry in [entry for entry in self._entries.values() if entry.workspace == workspace]:
                    left = change(entry)
                    changed.append((entry, left))
                    if left.messages or left.calls:
                        self._entries[entry.entry_id] = left
                    else:
                        del self._entries[entry.entry_id]
                        self._on_disk.discard(entry.entry_id)
            return changed

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        with self._file:
            if self._disk is not None:
                self._disk.close()

    def _unkept(self) -> list[Entry]:
        with self._memory:
            return [entry for entry_id, entry in self._entries.items() if entry_id not in self._on_disk]

    def _take_in(self, disk: SpoolFile) -> None:
        left = disk.read()
        self._look_whether_replaced(disk)
        self._looked = True
        with self._memory:
            # An entry that was in the file and is no longer there was delivered or erased by another process.
            own = {k: entry for k, entry in self._entries.items() if k not in self._on_disk and k not in left}
            self._entries = left | own
            self._on_disk = set(left)

    def _look_whether_replaced(self, disk: SpoolFile) -> None:
        if disk.generation != self._generation:  # the new file may lack entries that the old one had
            self._generation = disk.generation
            with self._memory:
                self._on_disk.clear()


def _hold_all() -> None:
    # In a child, locks that a thread of its parent held would stay held, and so would SQLite's own. So forking waits
    # until no thread uses a file.
    spools = list(_spools)
    for lock in [*(spool._file for spool in spools), *(spool._memory for spool in spools)]:
        lock.acquire()
        _held.append(lock)


def _let_all_go() -> None:
    held = _held.copy()
    _held.clear()  # before another thread that forks gets one of them
    for lock in reversed(held):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold_all, after_in_parent=_let_all_go, after_in_child=_let_all_go)


def spool_path(spool: Literal["file", "memory"] | Path, settings: Settings) -> Path | None:
    """The file of a spool: the given path; None for `memory`; for `file`, one under `data_dir` for each database.

    Raises:
        InputError: The name of the given path does not end in `.sqlite3`.
    """
    if isinstance(spool, Path):
        if spool.suffix != ".sqlite3":  # a broken spool is renamed and made anew, which must not happen to another file
            raise InputError(f"a spool is a file whose name ends in .sqlite3, not {spool}")
        return spool
    if spool == "memory":
        return None
    url = settings.database_url
    place = hashlib.sha256(mask_password(url.get_secret_value()).encode()).hexdigest()[:12] if url else "embedded"
    return settings.data_dir / "spool" / f"{place}.sqlite3"


def other_spools(settings: Settings) -> dict[Path, int]:
    """How many turns are in files of other databases under `data_dir`, by file.

    They may be for this database too, from a time when it had another address: nobody delivers them then.
    """
    own, found = spool_path("file", settings), {}
    for path in sorted({*(settings.data_dir / "spool").glob("*.sqlite3")} - {own}):
        with closing(SpoolFile(path)) as file:
            if turns := len(file.read()):
                found[path] = turns
    return found


def sanitise(message: Message) -> Message:
    """The message without characters and values that Postgres or JSON cannot hold.

    In ids such characters are escaped, so that two that differ never become one.
    """
    values: dict[str, Any] = {name: getattr(message, name) for name in type(message).model_fields}
    # Most messages are plain texts already. In the other two anything may stand, also what cannot be compared.
    texts = "".join(value for value in values.values() if isinstance(value, str))
    if not (message.metadata or message.tool_calls) and storable(texts) == texts:
        return message
    values["tool_calls"] = [call.model_dump() for call in message.tool_calls]
    sent_at = values.pop("sent_at")
    ids = {name: encode_json(values[name]) for name in ("message_id", "session_id", *SCOPES)}
    plain = {name: plain_json(value) for name, value in values.items()}
    return Message.model_validate(plain | ids | {"sent_at": sent_at})
