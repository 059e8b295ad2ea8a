"""All the spools that an engine knows of: what is erased is erased in each, since it might be delivered again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import TypeVar
from weakref import WeakSet

from reme_core.settings import Settings
from reme_core.spool.waiting import Spool, spool_path
from reme_core.types import Scope

R = TypeVar("R")


class Spools:
    """The file under `data_dir`, and the spools of open turns, until these are gone."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._of_turns = WeakSet[Spool]()

    def add(self, spool: Spool) -> None:
        """Know of the spool of a turn."""
        self._of_turns.add(spool)

    async def erase(self, workspace: str, message_ids: Collection[str] | None = None) -> set[str]:
        """Erase what waits of a workspace, or of these ids; returns the ids of the messages that are gone."""
        return set().union(*await self._in_each(lambda spool: spool.erase(workspace, message_ids)))

    async def clear(self, workspace: str, scope: Scope) -> set[str]:
        """Erase what waits of a workspace, or only what is of a scope in it."""
        if not scope:
            return await self.erase(workspace)
        waiting = [entry for found in await self._in_each(Spool.entries) for entry in found]
        said = [message for entry in waiting if entry.workspace == workspace for message in entry.messages]
        of_scope = {m.message_id for m in said if scope.items() <= m.scope.items()}
        return await self.erase(workspace, of_scope)

    async def erase_words(self, workspace: str, words: Collection[str], cut: Callable[[str], str]) -> None:
        """Take words out of what waits of a workspace."""
        await self._in_each(lambda spool: spool.erase_words(workspace, words, cut))

    async def _in_each(self, work: Callable[[Spool], R]) -> list[R]:
        of_data_dir = Spool(spool_path("file", self._settings))
        try:  # the file first: who shares it looks there for what is gone
            return [await asyncio.to_thread(work, spool) for spool in (of_data_dir, *self._of_turns)]
        finally:
            await asyncio.to_thread(of_data_dir.close)
