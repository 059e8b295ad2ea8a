"""`Spools`: counts and erases entries in all spools of an engine, before they reach the database."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import Any, TypeVar
from weakref import WeakSet

from psycopg import AsyncConnection

from reme_core.settings import Settings
from reme_core.spool.file import Entry
from reme_core.spool.waiting import Spool, spool_path
from reme_core.store import messages, tool_calls
from reme_core.store.erasure import REFUSALS
from reme_core.store.tool_calls import ToolCallResult
from reme_core.store.wordings import Cut
from reme_core.text.redact import redact
from reme_core.types import Message, Scope

R = TypeVar("R")
Queue = Callable[[AsyncConnection[Any], str], Awaitable[None]]


class Spools:
    """The spool under `data_dir`, and the spools of turns, which are held weakly."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._of_turns = WeakSet[Spool]()

    def add(self, spool: Spool) -> None:
        """Add the spool of a turn."""
        self._of_turns.add(spool)

    async def count(self) -> tuple[int, int]:
        """How many entries wait for the database, and how many it has refused for good."""
        found = await self._all_entries()
        # By their ids: several spools may share one file, so the same entry is found several times.
        refusals = {entry.entry_id: entry.refusal for entries in found for entry in entries}
        refused = sum(map(bool, refusals.values()))
        return len(refusals) - refused, refused

    async def erase(self, workspace: str, message_ids: Collection[str] | None = None) -> list[Message]:
        """Erase what waits for a workspace, or only the messages of these ids; returns the erased messages."""
        found = await self._in_each(lambda spool: spool.erase(workspace, message_ids))
        return list({message.message_id: message for gone in found for message in gone}.values())

    async def clear(self, workspace: str, scope: Scope) -> list[Message]:
        """Erase what waits for a workspace, or only the messages of a scope; returns the erased messages.

        What the database refused goes as well. Calls of tools belong to no scope, and stay where one is named.
        """
        if not scope:
            return await self.erase(workspace)
        waiting = [entry for found in await self._all_entries() for entry in found]
        said = [message for entry in waiting if entry.workspace == workspace for message in entry.messages]
        of_scope = {m.message_id for m in said if scope.items() <= m.scope.items()}
        return await self.erase(workspace, of_scope)

    async def erase_words(self, conn: AsyncConnection[Any], workspace: str, cut: Cut, queue: Queue) -> None:
        """Remove words from what waits for a workspace, and record what is left of that; see `EraseWaiting`.

        `queue` queues the summaries of what was recorded.
        """
        found = await self._in_each(lambda spool: spool.erase_words(workspace, cut))
        for rest in [redact(rest, self._settings.redact) for rests in found for rest in rests]:
            with suppress(*REFUSALS):  # what the database refuses will never be recorded
                async with conn.transaction():
                    if isinstance(rest, ToolCallResult):
                        call = rest.model_copy(update={"success": rest.success is not False})
                        await tool_calls.insert(conn, workspace, [(call, "")])
                        continue
                    await messages.add(conn, workspace, [rest])
                    if not (rest.content.strip() or rest.tool_calls):
                        await messages.rewrite(conn, workspace, {rest.message_id: ""}, without_trace=True)
        if any(found):
            await queue(conn, workspace)

    async def _all_entries(self) -> list[list[Entry]]:
        return await self._in_each(lambda spool: [*spool.entries(), *spool.refusals()])

    async def _in_each(self, work: Callable[[Spool], R]) -> list[R]:
        of_data_dir = Spool(spool_path("file", self._settings))
        try:
            # The file first: a spool that shares it drops the entries that the file does not have any more.
            return [await asyncio.to_thread(work, spool) for spool in (of_data_dir, *self._of_turns)]
        finally:
            await asyncio.to_thread(of_data_dir.close)
