"""The outbox: delivers messages and tool calls of turns from the spool when the database answers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import weakref
from collections import OrderedDict
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import psycopg

from reme_core.errors import ConflictError, DatabaseUnavailableError, InputError, SpoolError
from reme_core.prompts.fence import is_note
from reme_core.prompts.transcript import calls_answered
from reme_core.spool.file import Entry
from reme_core.spool.waiting import Spool
from reme_core.store.tool_calls import ToolCallResult
from reme_core.text.ids import with_ids
from reme_core.turn.accounts import Counts
from reme_core.turn.connections import TurnConnection, log_failure, within
from reme_core.turn.options import Write
from reme_core.turn.tool_calls import OWN_TOOLS
from reme_core.types import Message, ToolCall

log = logging.getLogger(__name__)

_IDS_REMEMBERED: Final = 20_000  # of messages and calls; older ones the database recognises
_REFUSALS: Final = (InputError, psycopg.IntegrityError)  # trying again would not help
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0  # seconds between tries to write to a disk that is full
# A turn that ends should not share the processor with its delivery: its caller has an answer to give.
_AFTER_TURN: Final = 0.02


_outboxes: weakref.WeakSet[Outbox] = weakref.WeakSet()
_of_parents: list[_Tasks] = []  # kept in a forked child, or the garbage collector would report them


class Deduplicator:
    """Finds the messages and tool calls that were not handed over before."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, int] = OrderedDict()  # by id a hash of the words

    def new_messages(self, messages: Sequence[Message], turn: str) -> list[Message]:
        """The messages that were not handed over before, or have other words now.

        System prompts, notes and answers of the memory tools are left out. If a turn is named, a message without an id
        gets one made from the turn, its place and its words.
        """
        answers = zip(messages, calls_answered(messages), strict=True)
        said = [m for m, call in answers if m.role != "system" and not is_note(m) and not _is_recalled(m, call)]
        new = []
        for message in with_ids(said, turn) if turn else said:
            is_known = self._known.get(message.message_id) == (words := hash(message.content))
            if is_known or not (message.content.strip() or message.tool_calls or message.role == "tool"):
                continue
            self._known[message.message_id] = words
            new.append(message)
        self._drop_oldest()
        return new

    def new_calls(self, calls: Sequence[ToolCallResult]) -> list[ToolCallResult]:
        """The tool calls that were not handed over before, without calls of the memory tools."""
        new = [call for call in calls if call.call_hash not in self._known and call.tool_name not in OWN_TOOLS]
        self._known.update((call.call_hash, 0) for call in new)
        self._drop_oldest()
        return new

    def forget(self, messages: Sequence[Message], calls: Sequence[ToolCallResult]) -> None:
        """Let messages and calls be handed over again, because the spool did not accept them."""
        for known in (*(message.message_id for message in messages), *(call.call_hash for call in calls)):
            self._known.pop(known, None)

    def _drop_oldest(self) -> None:
        while len(self._known) > _IDS_REMEMBERED:
            self._known.popitem(last=False)


def _is_recalled(message: Message, call: ToolCall | None) -> bool:
    """Whether a message is an answer of a memory tool."""
    return message.role == "tool" and not OWN_TOOLS.isdisjoint((message.author, call.name if call else ""))


@dataclass(slots=True)
class _Tasks:
    """The tasks of an outbox in this process."""

    running: set[asyncio.Task[Any]] = field(default_factory=set)
    under_way: weakref.WeakValueDictionary[str, asyncio.Task[None]] = field(default_factory=weakref.WeakValueDictionary)
    """Deliveries, by their workspaces; some may have ended."""
    of_others: asyncio.Task[None] | None = None
    keeping: asyncio.Task[None] | None = None


class Outbox:
    """Delivers the entries of a spool to the database, and sees to it that the spool's file has them before.

    It works in tasks of its own, so that cancelling a turn does not cancel a delivery.
    """

    def __init__(self, connection: TurnConnection, spool: Spool, counts: Counts) -> None:
        self._connection = connection
        self._spool = spool
        self._counts = counts
        self.tasks = _Tasks()
        _outboxes.add(self)
        self._closed = False  # if True, background work does not connect; the next turn opens it again

    async def make_safe(self, entry: Entry, write: Write, patience: float) -> None:
        """Return when a crash can no longer lose the entry; if `write` is `awaited`, when the database has it.

        If the spool's file cannot be written, it waits for the database in any case.

        Raises:
            SpoolError: The entry is in memory only. Delivery, and writing to the file, are tried again later.
            InputError: `write` is `awaited`, and the database refuses the entry, or a part of it, for good.
            DatabaseError: `write` is `awaited`, and the database did not take this entry, or not within `patience`
                seconds; it is in the spool.
        """
        self._follow(asyncio.current_task())
        if write == "background":
            with contextlib.suppress(SpoolError):
                await self.keep_for_later(entry.workspace)
                return
        try:
            async with within(patience):
                await self.flush(entry.workspace)
        except Exception:  # whatever kept the database from taking it: it is written down, and delivered later
            await self.keep_for_later(entry.workspace)
            if write == "awaited" and self._spool.get(entry.entry_id) is not None:  # else it failed for another entry
                raise
        if write == "awaited" and (reason := self._spool.refusal_of(entry.entry_id)):
            raise InputError(reason)

    async def keep_for_later(self, workspace: str) -> None:
        """Return when the entries are in the spool's file; those of the workspace are delivered in the background.

        Raises:
            SpoolError: They are in memory only; writing the file is tried again until it succeeds.
        """
        self._follow(asyncio.current_task())
        self._closed = False
        try:
            await self._keep()
        finally:
            self._spawn(self._deliver_after_turn(workspace))

    async def flush(self, workspace: str) -> None:
        """Deliver what waits for a workspace, also from other processes. That of others follows in the background.

        A workspace may be locked for long. So nobody waits for what others have said.

        Raises:
            DatabaseError: The database did not take some entries; they wait on.
        """
        self._closed = False
        if (begun := self.tasks.under_way.get(workspace)) is not None:
            await asyncio.wait([begun])  # it may have begun before the last entry
        if self._spool.has_entries(workspace):
            await asyncio.shield(self._delivery(workspace))
        if self._spool.has_entries() and (self.tasks.of_others is None or self.tasks.of_others.done()):
            self.tasks.of_others = self._spawn(self._report(self.deliver_all()))

    async def deliver_all(self) -> None:
        """Deliver what waits for any workspace, for one after the other; what is refused for good is set aside.

        Raises:
            DatabaseError: The database did not take some entries; they wait on.
        """
        waiting: dict[str, list[Entry]] = {}
        for entry in await asyncio.to_thread(self._spool.entries):
            waiting.setdefault(entry.workspace, []).append(entry)
        errors: list[Exception] = []
        for workspace, entries in waiting.items():
            try:
                await asyncio.shield(self._delivery(workspace, entries))
            except DatabaseUnavailableError:
                raise
            except Exception as error:  # of this workspace alone, such as a lock
                errors.append(error)
        if errors:
            raise errors[0]

    async def catch_up(self, workspace: str, seconds: float) -> None:
        """`flush` before a recall, for so many seconds at most; what is not delivered waits on.

        A recall only reads. While somebody holds the workspace's lock, or the database's disk is full, it finds what
        there is.
        """
        try:
            async with asyncio.timeout(seconds):
                await self.flush(workspace)
        except (TimeoutError, ConflictError):
            log.debug("a recall does not wait for what is being delivered")
        except Exception as error:  # whatever it is, the recall may go well
            log_failure(error, "what was said waits for the database")

    async def settle(self) -> None:
        """Wait for what is being delivered; from then on the engine erases what waits together with what is stored."""
        if self.tasks.running:
            await asyncio.wait(set(self.tasks.running))
        (await self._connection.engine()).spools.add(self._spool)

    async def aclose(self, patience: float) -> None:
        """Wait for running tasks, and try once more to deliver all entries; the others stay in the spool."""
        try:
            async with within(patience):
                if others := self.tasks.running - {asyncio.current_task()}:  # who said something may close it, too
                    await asyncio.wait(others)
                await self.deliver_all()
        except Exception as error:  # closing goes on, and the next process finds the entries in the spool
            log.warning("turns that the database has not taken yet stay in %s: %s", self._spool, error)
        self._connection.reme.connection.unfinished.difference_update(self.tasks.running)  # they were waited for
        if self.tasks.keeping is not None:
            self.tasks.keeping.cancel()
        if self._spool.at_risk:
            log.error("%d turns are in memory only, and are lost when this process ends", self._spool.at_risk)
        await asyncio.to_thread(self._spool.close)
        self._closed = True

    async def _keep(self) -> None:
        try:
            await asyncio.to_thread(self._spool.keep)
        except SpoolError as error:
            if self.tasks.keeping is None or self.tasks.keeping.done():
                log.warning("%s; the file is tried again until it can be written", error)
                self.tasks.keeping = asyncio.get_running_loop().create_task(self._keep_trying())
            raise
        finally:
            self._counts.at_risk = self._spool.at_risk

    async def _keep_trying(self) -> None:
        pause = _FIRST_PAUSE
        while self._spool.at_risk:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            with contextlib.suppress(SpoolError):  # it was logged before, and `counts.at_risk` shows it
                await self._keep()

    async def _deliver_after_turn(self, workspace: str) -> None:
        await asyncio.sleep(_AFTER_TURN)
        if not self._closed:
            await self._report(self.flush(workspace))

    async def _report(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:  # nobody awaits this task, so it is counted and logged
            self._counts.failures += 1
            log_failure(error, "what was said waits for the database")

    def _delivery(self, workspace: str, entries: Sequence[Entry] | None = None) -> asyncio.Task[None]:
        """The delivery for a workspace that is under way, or a new one."""
        task = self.tasks.under_way.get(workspace)
        if task is None or task.done():
            task = self.tasks.under_way[workspace] = self._spawn(self._deliver(workspace, entries))
        return task

    async def _deliver(self, workspace: str, entries: Sequence[Entry] | None) -> None:
        """Deliver these entries of a workspace, by default all that wait."""
        waiting = await asyncio.to_thread(self._spool.entries) if entries is None else entries
        done: list[str] = []
        errors: list[Exception] = []
        try:
            for entry_id in [entry.entry_id for entry in waiting if entry.workspace == workspace]:
                if (entry := self._spool.get(entry_id)) is None:
                    continue  # another task or process has erased it
                try:
                    await self._record_or_set_aside(entry)
                    done.append(entry_id)
                except Exception as error:  # the database may still take others, unless it or the workspace is away
                    errors.append(error)
                    if isinstance(error, DatabaseUnavailableError | ConflictError):
                        break
        finally:
            await asyncio.to_thread(self._spool.remove, done)
            with contextlib.suppress(SpoolError):  # `make_safe` raises it for the caller
                await self._keep()  # entries that were not delivered, or not in time
        if errors:
            raise errors[0]

    async def _record_or_set_aside(self, entry: Entry) -> None:
        """Record an entry. Parts that the database refuses for good are set aside: trying again would not help."""
        try:
            await self._record(entry)
        except _REFUSALS as error:
            if len(parts := entry.parts()) > 1:
                for part in parts:
                    await self._record_or_set_aside(part)
                return
            refused = replace(entry, entry_id=f"{entry.entry_id}/refused")
            await asyncio.to_thread(self._spool.set_aside, refused, str(error))
            self._counts.set_aside += 1
            log.error(
                "a turn of workspace '%s' cannot be recorded, and is set aside in %s: %s",
                entry.workspace, self._spool, error,
            )  # fmt: skip

    async def _record(self, entry: Entry) -> None:
        engine = await self._connection.engine()
        engine.spools.add(self._spool)
        if entry.messages:
            fresh = await engine.record(entry.workspace, entry.messages)
            self._counts.records += 1
            self._counts.messages += len(fresh)
        if entry.calls:
            await engine.tools.record(entry.workspace, entry.calls)
            self._counts.tool_calls += len(entry.calls)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._follow(task)
        return task

    def _follow(self, task: asyncio.Task[Any] | None) -> None:
        """Let whoever closes the outbox or the engine wait for a task: it takes over what was said, or delivers it."""
        if task is not None and task not in self.tasks.running:
            self.tasks.running.add(task)
            self._connection.reme.connection.unfinished.add(task)
            task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self.tasks.running.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.debug("delivery failed, and its caller has the error: %s", task.exception())


def _start_afresh() -> None:
    # A forked child has no loop in which the tasks of its parent would end.
    for outbox in _outboxes:
        _of_parents.append(outbox.tasks)
        outbox.tasks = _Tasks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_afresh)
