"""The notes of turns: each is made once, however often, and by however many at once, it is asked for."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, Final

from reme_core.prompts.note import Note
from reme_core.types import new_id

_TURNS_REMEMBERED: Final = 256  # notes kept for turns that ask again


class NotesByTurn:
    """The notes of the last turns, by the names of the turns; a turn without a name is one of its own."""

    def __init__(self) -> None:
        self._notes: OrderedDict[str, Note] = OrderedDict()
        self._making: dict[str, asyncio.Task[Note]] = {}

    def get(self, turn_id: str) -> Note | None:
        """The note that a turn got."""
        return self._notes.get(turn_id)

    def is_making(self, turn_id: str) -> bool:
        """Whether the note of a turn is being made."""
        return turn_id in self._making

    async def make(self, turn_id: str, work: Callable[[], Coroutine[Any, Any, Note]]) -> Note:
        """The note of a turn, by `work`, or by the work of whoever asked before and still waits for it."""
        key = turn_id or new_id()
        task = self._making.get(key)
        if task is None:
            task = self._making[key] = asyncio.get_running_loop().create_task(self._make(turn_id, work))
            task.add_done_callback(lambda _: self._making.pop(key, None))
        # Whoever gives up waiting does not take the note from those who wait for it too.
        return await asyncio.shield(task)

    async def _make(self, turn_id: str, work: Callable[[], Coroutine[Any, Any, Note]]) -> Note:
        note = await work()
        if turn_id:
            self._notes[turn_id] = note
            if len(self._notes) > _TURNS_REMEMBERED:
                self._notes.popitem(last=False)
        return note

    def clear(self) -> None:
        """Forget all notes."""
        self._notes.clear()
