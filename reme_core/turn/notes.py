"""The notes of turns: each is made once, even if several callers ask for it, one after the other or at once."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, Final

from reme_core.prompts.note import Note
from reme_core.turn.accounts import Counts
from reme_core.types import new_id

_TURNS_REMEMBERED: Final = 256  # whose notes are kept, for callers that ask again


class NotesByTurn:
    """The notes of the last turns, by the names of the turns; for a turn without a name nothing is remembered."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self._notes: OrderedDict[str, Note] = OrderedDict()
        self._making: dict[str, asyncio.Task[Note]] = {}
        self._waiting: Counter[asyncio.Task[Note]] = Counter()  # callers

    def get(self, key: str) -> Note | None:
        """The note that was made for a turn, if it is still remembered."""
        return self._notes.get(key)

    async def make(self, key: str, work: Callable[[], Coroutine[Any, Any, Note]]) -> Note:
        """The note of a turn: made by `work`, unless another caller's work is making it already.

        The work is cancelled when all who wait for it are.
        """
        name = key or new_id()
        task = self._making.get(name)
        if task is not None:
            self._counts.reused += 1
        else:
            task = self._making[name] = asyncio.get_running_loop().create_task(self._make(key, work))
        self._waiting[task] += 1
        try:
            # Shielded: if one caller is cancelled, the others still get the note.
            return await asyncio.shield(task)
        finally:
            self._waiting[task] -= 1
            if not self._waiting[task]:
                del self._waiting[task]
                self._making.pop(name, None)  # who asks from now on has it made anew
                task.cancel()  # if it has ended, nothing happens

    async def _make(self, key: str, work: Callable[[], Coroutine[Any, Any, Note]]) -> Note:
        note = await work()
        if key:
            self._notes[key] = note
            if len(self._notes) > _TURNS_REMEMBERED:
                self._notes.popitem(last=False)
        return note

    def clear(self) -> None:
        """Forget all notes."""
        self._notes.clear()
