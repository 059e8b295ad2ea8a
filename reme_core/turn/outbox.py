"""The outbox: takes messages and tool calls from a turn at once, and delivers them when the database answers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Collection, Coroutine, Sequence
from dataclasses import replace
from typing import Any, Final

import psycopg

from reme_core.errors import DatabaseError, InputError, SpoolError
from reme_core.ids import stable_id, with_ids
from reme_core.prompts.fence import is_note
from reme_core.spool.file import Entry
from reme_core.spool.waiting import Spool
from reme_core.store.tool_calls import ToolCallResult
from reme_core.turn.accounts import Counts
from reme_core.turn.connections import TurnConnection
from reme_core.turn.options import Write
from reme_core.turn.tool_calls import OWN_TOOLS
from reme_core.types import Message

log = logging.getLogger(__name__)

_IDS_REMEMBERED: Final = 20_000  # that were handed over; what is forgotten here the database still knows
_REFUSALS: Final = (InputError, psycopg.DataError, psycopg.IntegrityError)  # of what would be refused for ever
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0  # seconds between tries to write to a disk that is full


class Deduplicator:
    """Finds what is new in a conversation: what was not handed over before."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, str] = OrderedDict()  # by id what stands for the words

    def new_messages(self, messages: Sequence[Message], turn_id: str, session_id: str) -> list[Message]:
        """The messages that were not handed over before, or say something else now, as they are.

        System prompts are left out, and what was recalled: notes, and answers of the memory tools. A message without an
        id of its own gets one that follows from the turn, its place and its words.
        """
        own = {call.id for message in messages for call in message.tool_calls if call.name in OWN_TOOLS}
        heard = [m for m in messages if m.role != "system" and not is_note(m) and not _is_recalled(m, own)]
        new = []
        for message in with_ids(heard, f"{session_id}/{turn_id}") if turn_id else heard:
            is_known = self._known.get(message.message_id) == (words := stable_id(message.content))
            if is_known or not (message.content.strip() or message.tool_calls or message.role == "tool"):
                continue
            self._known[message.message_id] = words
            new.append(message.model_copy(update={"session_id": message.session_id or session_id}))
        self._drop_oldest()
        return new

    def new_calls(self, calls: Sequence[ToolCallResult]) -> list[ToolCallResult]:
        """The calls of tools that were not handed over before, without those of the memory tools."""
        new = [call for call in calls if call.call_hash not in self._known and call.tool_name not in OWN_TOOLS]
        self._known.update((call.call_hash, "") for call in new)
        self._drop_oldest()
        return new

    def forget(self, entry: Entry) -> None:
        """Let an entry that was not taken be handed over again."""
        for known in (*(m.message_id for m in entry.messages), *(call.call_hash for call in entry.calls)):
            self._known.pop(known, None)

    def _drop_oldest(self) -> None:
        while len(self._known) > _IDS_REMEMBERED:
            self._known.popitem(last=False)


def _is_recalled(message: Message, own_calls: Collection[str]) -> bool:
    """Whether it is what a memory tool answered."""
    return message.role == "tool" and (message.author in OWN_TOOLS or message.tool_call_id in own_calls)


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
        self._closed = False  # then nothing connects by itself; the next turn does

    def put(self, entry: Entry) -> None:
        """Take an entry, from any thread. It is delivered when one of the coroutines below runs next.

        Raises:
            SpoolError: Too many wait already; it was not taken.
        """
        self._spool.put(entry)

    async def make_safe(self, write: Write, patience: float) -> None:
        """Return when a crash cannot lose what was put any more; where writing is `awaited`, when the database has it.

        Where the spool's file cannot be written, the database is waited for in any case.

        Raises:
            SpoolError: It is in memory alone. It is delivered, or written to the file, some other time.
            DatabaseError: It is in the spool, but writing is `awaited`, and the database does not take it.
            TimeoutError: The same: the database took longer than `patience` seconds.
        """
        if write == "background":
            with contextlib.suppress(SpoolError):
                return await self.keep_for_later()
        try:
            async with asyncio.timeout(patience):
                await self.flush()
        except Exception:
            await self.keep_for_later()
            if write == "awaited":
                raise

    async def keep_for_later(self) -> None:
        """Return when what was put is in the spool's file; it is delivered in the background.

        Raises:
            SpoolError: It is in memory alone; the file is tried again until it can be written.
        """
        self._closed = False
        try:
            await self._keep()
        finally:
            self._spawn(self._deliver_in_background())

    async def flush(self) -> None:
        """Deliver all that waits, also what other processes left.

        Raises:
            DatabaseError: The database did not take it; it goes on waiting.
        """
        self._closed = False
        while self._spool.has_entries:
            if self._under_way is None or self._under_way.done():
                self._under_way = self._spawn(self._deliver())
                await asyncio.shield(self._under_way)
                return
            await asyncio.wait([self._under_way])  # it may have begun before the last entry came, so look again

    async def drop(self, workspace: str) -> None:
        """Delete what waits for a workspace."""
        if self._tasks:
            await asyncio.wait(set(self._tasks))
        await asyncio.to_thread(self._spool.erase, workspace)

    async def aclose(self, patience: float) -> None:
        """Wait for what runs, and try once more to deliver what waits; what cannot be delivered stays in the spool."""
        try:
            async with asyncio.timeout(patience):
                if self._tasks:
                    await asyncio.wait(set(self._tasks))
                await self.flush()
        except Exception as error:  # closing goes on; the entries are where the next process looks for them
            log.warning(
                "turns that the database has not taken yet stay in %s: %s",
                self._spool,
                str(error) or "no answer in time",
            )
        if self._keeping is not None:
            self._keeping.cancel()
        if self._spool.at_risk:
            log.error("%d turns are in memory alone, and lost when this process ends", self._spool.at_risk)
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
            with contextlib.suppress(SpoolError):  # it was told of, and the count shows it
                await self._keep()

    async def _deliver_in_background(self) -> None:
        if self._closed:
            return
        try:
            await self.flush()
        except Exception as error:  # nobody waits for this task: telling is all that can be done
            self._counts.failures += 1
            log.warning("what was said waits for the database: %s", error)

    async def _deliver(self) -> None:
        done: list[str] = []
        errors: list[Exception] = []
        try:
            for entry_id in [entry.entry_id for entry in await asyncio.to_thread(self._spool.entries)]:
                if (entry := self._spool.get(entry_id)) is None:
                    continue  # it was erased meanwhile
                try:
                    errors += await self._record_or_set_aside(entry)
                    done.append(entry_id)
                except Exception as error:  # others may be taken, unless the database is away
                    errors.append(error)
                    if isinstance(error, DatabaseError):
                        break
        finally:
            await asyncio.to_thread(self._spool.remove, done)
            with contextlib.suppress(SpoolError):  # whoever handed it over is told by `make_safe`
                await self._keep()  # what was not delivered, or not in time
        if errors:
            raise errors[0]

    async def _record_or_set_aside(self, entry: Entry) -> list[Exception]:
        """Record an entry; what of it would be refused for ever is set aside. Returns why."""
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
            log.debug("delivery failed, and whoever waited for it was told: %s", task.exception())
