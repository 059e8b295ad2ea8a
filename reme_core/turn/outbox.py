"""The way of a turn's messages and tool calls to the database: handed over at once, delivered when it answers."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final

from reme_core.errors import DatabaseError, InputError
from reme_core.links import Links
from reme_core.ops.identity import identified
from reme_core.schema import Message
from reme_core.spool import Entry, Spool, storable
from reme_core.text.fence import without_notes
from reme_core.tool_call import ToolCallResult
from reme_core.turn_calls import OWN_TOOLS

log = logging.getLogger(__name__)

_IDS_REMEMBERED: Final = 20_000  # that were handed over; what is forgotten here the database still knows


@dataclass(slots=True)
class Counts:
    """What a `TurnMemory` did since it was made."""

    recalls: int = 0
    """Turns for which the database was searched."""
    reused: int = 0
    """Times a turn asked again and got the note it had."""
    records: int = 0
    """Turns whose messages the database took."""
    messages: int = 0
    """Messages among them that were new to it."""
    tool_calls: int = 0
    """Calls of tools that the database took."""
    failures: int = 0
    """Recalls and deliveries that failed; what was not delivered waits and is tried again."""
    note_tokens: int = 0
    """Tokens of all notes together."""


@dataclass(slots=True)
class Usage:
    """What chat models did for memory: rewriting queries, making summaries."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    calls: int = 0


class Delta:
    """Finds out what of a conversation is new, and was really said."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, None] = OrderedDict()

    def of(self, messages: Sequence[Message], turn_id: str, session_id: str) -> list[Message]:
        """The messages that were not handed over before, without system prompts and injected notes.

        A message without an id of its own gets one that follows from the turn, its place and its words.
        """
        heard = [m for m in messages if m.role != "system" and not m.metadata.get("reme_note")]
        new = []
        for message in identified(heard, f"{session_id}/{turn_id}") if turn_id else heard:
            content = said(message)
            if message.message_id in self._known or not (content or message.tool_calls):
                continue
            self._known[message.message_id] = None
            changes = {"content": content, "session_id": message.session_id or session_id}
            new.append(storable(message.model_copy(update=changes)))
        self._forget_the_oldest()
        return new

    def of_calls(self, calls: Sequence[ToolCallResult]) -> list[ToolCallResult]:
        """The calls of tools that were not handed over before, without those of the memory tools."""
        new = [call for call in calls if call.call_hash not in self._known and call.tool_name not in OWN_TOOLS]
        self._known.update((call.call_hash, None) for call in new)
        self._forget_the_oldest()
        return new

    def _forget_the_oldest(self) -> None:
        while len(self._known) > _IDS_REMEMBERED:
            self._known.popitem(last=False)


def said(message: Message) -> str:
    """What a message says by itself, without notes that were injected into it."""
    return without_notes(message.content).strip()


class Delivery:
    """Takes entries into the spool and brings them to the database from there.

    All work runs in tasks of its own, so that cancelling a turn cancels none of it.
    """

    def __init__(self, links: Links, spool: Spool, counts: Counts) -> None:
        self._links = links
        self._spool = spool
        self._counts = counts
        self._tasks: set[asyncio.Task[Any]] = set()
        self._under_way: dict[asyncio.AbstractEventLoop, asyncio.Task[None]] = {}
        self._closed = False  # then nothing connects by itself; the next turn does

    def take_soon(self, entry: Entry) -> None:
        """Return at once; the entry is kept and delivered in the background, or with the next one."""
        self._spool.put(entry)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        self._spawn(self._keep_then_deliver())

    async def take_for_later(self, entry: Entry) -> None:
        """Return when the entry is safe from a crash; it is delivered in the background."""
        self._closed = False
        self._spool.put(entry)  # before the first await: whoever is cancelled below has handed it over
        await asyncio.shield(self._spawn(self._keep_then_deliver()))

    async def take(self, entry: Entry) -> None:
        """Return when the database has the entry.

        Raises:
            DatabaseError: It has not; the entry is kept and delivered some other time.
        """
        self._spool.put(entry)
        try:
            await self.flush()
        except BaseException:  # a lack of patience and a cancellation too: they leave the delivery under way
            await asyncio.shield(self._spawn(self._keep()))
            raise

    async def flush(self) -> None:
        """Deliver all that waits, what was left by other processes included.

        Raises:
            DatabaseError: The database did not take it; it goes on waiting.
        """
        self._closed = False
        while self._spool.waits:
            loop = asyncio.get_running_loop()
            under_way = self._under_way.get(loop)
            if under_way is None or under_way.done():
                under_way = self._under_way[loop] = self._spawn(self._deliver())
                await asyncio.shield(under_way)
                return
            await asyncio.wait([under_way])  # it may have begun before the last entry came, so look again

    async def drop(self, workspace: str) -> None:
        """Give up what waits for a workspace."""
        if tasks := [task for task in self._tasks if task.get_loop() is asyncio.get_running_loop()]:
            await asyncio.wait(tasks)
        waiting = await asyncio.to_thread(self._spool.waiting)
        await asyncio.to_thread(self._spool.done, [entry.entry_id for entry in waiting if entry.workspace == workspace])

    async def aclose(self, patience: float) -> None:
        """Finish what runs in this loop, and try once more to deliver what waits; else it stays where it is kept."""
        here = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(patience):
                if tasks := [task for task in self._tasks if task.get_loop() is here]:
                    await asyncio.wait(tasks)
                await self.flush()
        except Exception as error:  # closing goes on; the entries are where the next process looks for them
            log.warning(
                "turns that the database has not taken yet stay in %s: %s",
                self._spool,
                str(error) or "no answer in time",
            )
        await asyncio.to_thread(self._spool.close)
        self._closed = True

    async def _keep(self) -> None:
        await asyncio.to_thread(self._spool.keep)

    async def _keep_then_deliver(self) -> None:
        await self._keep()
        if not self._closed:
            self._spawn(self._deliver_in_background())

    async def _deliver_in_background(self) -> None:
        try:
            await self.flush()
        except Exception as error:  # nobody waits for this task: telling is all that can be done
            self._counts.failures += 1
            log.warning("what was said waits for the database: %s", error)

    async def _deliver(self) -> None:
        delivered: list[str] = []
        errors: list[Exception] = []
        try:
            for entry in await asyncio.to_thread(self._spool.waiting):
                try:
                    await self._bring(entry)
                except InputError as error:  # it would be refused for ever
                    log.error("a turn of workspace '%s' cannot be recorded: %s", entry.workspace, error)
                    errors.append(error)
                except Exception as error:  # others may be taken, unless the database is away
                    errors.append(error)
                    if isinstance(error, DatabaseError):
                        break
                    continue
                delivered.append(entry.entry_id)
        finally:
            await asyncio.to_thread(self._spool.done, delivered)
            await asyncio.to_thread(self._spool.keep)  # what was not delivered, or not in time
        if errors:
            raise errors[0]

    async def _bring(self, entry: Entry) -> None:
        reme = await self._links.reme()
        if entry.messages:
            fresh = await reme.record(entry.workspace, entry.messages)
            self._counts.records += 1
            self._counts.messages += len(fresh)
        if entry.calls:
            await reme.tools.record(entry.workspace, entry.calls)
            self._counts.tool_calls += len(entry.calls)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.debug("delivery failed, and whoever waited for it was told: %s", task.exception())
