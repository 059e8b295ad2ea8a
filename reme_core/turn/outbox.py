"""The outbox: takes messages and tool calls from a turn at once, and delivers them when the database answers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any, Final

import psycopg

from reme_core.errors import DatabaseError, InputError, SpoolError
from reme_core.prompts.fence import is_note
from reme_core.spool.file import Entry
from reme_core.spool.waiting import Spool
from reme_core.store.tool_calls import ToolCallResult
from reme_core.text.ids import with_ids
from reme_core.turn.accounts import Counts
from reme_core.turn.connections import TurnConnection
from reme_core.turn.options import Write
from reme_core.turn.tool_calls import OWN_TOOLS
from reme_core.types import Message, ToolCall
from reme_core.working.offload import calls_answered

log = logging.getLogger(__name__)

_IDS_REMEMBERED: Final = 20_000  # of messages and calls; older ones the database recognises
_REFUSALS: Final = (InputError, psycopg.IntegrityError)  # trying again would not help
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0  # seconds between tries to write to a disk that is full
# A turn that ends should not share the processor with its delivery: its caller has an answer to give.
_AFTER_TURN: Final = 0.02


class Deduplicator:
    """Finds the messages and tool calls that were not handed over before."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, int] = OrderedDict()  # by id a hash of the words

    def new_messages(self, messages: Sequence[Message], turn_id: str, session_id: str) -> list[Message]:
        """The messages that were not handed over before, or have other words now.

        System prompts, notes and answers of the memory tools are left out. If a turn is named, a message without an id
        gets one made from the turn, its place and its words.
        """
        answers = zip(messages, calls_answered(messages), strict=True)
        said = [m for m, call in answers if m.role != "system" and not is_note(m) and not _is_recalled(m, call)]
        new = []
        for message in with_ids(said, f"{session_id}/{turn_id}") if turn_id else said:
            is_known = self._known.get(message.message_id) == (words := hash(message.content))
            if is_known or not (message.content.strip() or message.tool_calls or message.role == "tool"):
                continue
            self._known[message.message_id] = words
            new.append(message.model_copy(update={"session_id": message.session_id or session_id}))
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


class Outbox:
    """Puts entries into the spool, and delivers them from there to the database.

    It works in tasks of its own, so that cancelling a turn does not cancel a delivery.
    """

    def __init__(self, connection: TurnConnection, spool: Spool, counts: Counts) -> None:
        self._connection = connection
        self._spool = spool
        self._counts = counts
        self._tasks: set[asyncio.Task[Any]] = set()
        self._under_way: asyncio.Task[None] | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._closed = False  # if True, background work does not connect; the next turn opens it again

    def put(self, entry: Entry) -> None:
        """Accept an entry, from any thread. The next of the coroutines below delivers it.

        Raises:
            SpoolError: Too many entries wait already; this one was not accepted.
        """
        self._spool.put(entry)

    async def make_safe(self, write: Write, patience: float) -> None:
        """Return when a crash can no longer lose the entries; if `write` is `awaited`, when the database has them.

        If the spool's file cannot be written, it waits for the database in any case.

        Raises:
            SpoolError: The entries are in memory only. Delivery, and writing to the file, are tried again later.
            DatabaseError: `write` is `awaited`, and the database did not take the entries; they are in the spool.
            TimeoutError: The same, because the database took longer than `patience` seconds.
        """
        if write == "background":
            with contextlib.suppress(SpoolError):
                return await self.keep_for_later()
        try:
            async with asyncio.timeout(patience):
                await self.flush()
        except Exception:  # whatever kept the database from taking them: they are written down, and delivered later
            await self.keep_for_later()
            if write == "awaited":
                raise

    async def keep_for_later(self) -> None:
        """Return when the entries are in the spool's file; they are delivered in the background.

        Raises:
            SpoolError: They are in memory only; writing the file is tried again until it succeeds.
        """
        self._closed = False
        try:
            await self._keep()
        finally:
            self._spawn(self._deliver_in_background())

    async def flush(self) -> None:
        """Deliver all entries, including those of other processes.

        Raises:
            DatabaseError: The database did not take some entries; they wait on.
        """
        self._closed = False
        while self._spool.has_entries:
            if self._under_way is None or self._under_way.done():
                self._under_way = self._spawn(self._deliver())
                await asyncio.shield(self._under_way)
                return
            await asyncio.wait([self._under_way])  # it may have begun before the last entry, so look again

    async def settle(self) -> None:
        """Wait for what is being delivered; from then on the engine erases what waits together with what is stored."""
        if self._tasks:
            await asyncio.wait(set(self._tasks))
        (await self._connection.engine()).spools.add(self._spool)

    async def aclose(self, patience: float) -> None:
        """Wait for running tasks, and try once more to deliver all entries; the others stay in the spool."""
        try:
            async with asyncio.timeout(patience):
                if self._tasks:
                    await asyncio.wait(set(self._tasks))
                await self.flush()
        except Exception as error:  # closing goes on, and the next process finds the entries in the spool
            log.warning(
                "turns that the database has not taken yet stay in %s: %s",
                self._spool,
                str(error) or "no answer in time",
            )
        if self._keeping is not None:
            self._keeping.cancel()
        if self._spool.at_risk:
            log.error("%d turns are in memory only, and are lost when this process ends", self._spool.at_risk)
        await asyncio.to_thread(self._spool.close)
        self._closed = True

    async def _keep(self) -> None:
        try:
            await asyncio.to_thread(self._spool.keep)
        except SpoolError as error:
            if self._keeping is None or self._keeping.done():
                log.warning("%s; the file is tried again until it can be written", error)
                self._keeping = asyncio.get_running_loop().create_task(self._keep_trying())
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

    async def _deliver_in_background(self) -> None:
        await asyncio.sleep(_AFTER_TURN)
        if self._closed:
            return
        try:
            await self.flush()
        except Exception as error:  # nobody awaits this task, so it is counted and logged
            self._counts.failures += 1
            log.warning("what was said waits for the database: %s", error)

    async def _deliver(self) -> None:
        done: list[str] = []
        errors: list[Exception] = []
        try:
            for entry_id in [entry.entry_id for entry in await asyncio.to_thread(self._spool.entries)]:
                if (entry := self._spool.get(entry_id)) is None:
                    continue  # another task or process has erased it
                try:
                    errors += await self._record_or_set_aside(entry)
                    done.append(entry_id)
                except Exception as error:  # the database may still take others, unless it is away
                    errors.append(error)
                    if isinstance(error, DatabaseError):
                        break
        finally:
            await asyncio.to_thread(self._spool.remove, done)
            with contextlib.suppress(SpoolError):  # `make_safe` raises it for the caller
                await self._keep()  # entries that were not delivered, or not in time
        if errors:
            raise errors[0]

    async def _record_or_set_aside(self, entry: Entry) -> list[Exception]:
        """Record an entry. Parts that the database refuses for good are set aside; returns the reasons."""
        try:
            await self._record(entry)
        except _REFUSALS as error:
            if len(parts := entry.parts()) > 1:
                return [reason for part in parts for reason in await self._record_or_set_aside(part)]
            refused = replace(entry, entry_id=f"{entry.entry_id}/refused")
            await asyncio.to_thread(self._spool.set_aside, refused, str(error))
            self._counts.set_aside += 1
            log.error(
                "a turn of workspace '%s' cannot be recorded, and is set aside in %s: %s",
                entry.workspace, self._spool, error,
            )  # fmt: skip
            return [error]
        return []

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
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.debug("delivery failed, and its caller has the error: %s", task.exception())
