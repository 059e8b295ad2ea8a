"""Tries a change of memories again that met a conflict, because somebody else changed them at the same time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeVar

from reme_core.errors import ConflictError

Result = TypeVar("Result")

ATTEMPTS: Final = 8  # chosen, not measured: more than the writers that one workspace usually has at once


async def retry_conflicts(change: Callable[[int], Awaitable[Result]], attempts: int = ATTEMPTS) -> Result:
    """Await `change(0)`, then `change(1)` and so on, until one meets no conflict; each decides anew what to change.

    Raises:
        ConflictError: All attempts met a conflict.
    """
    for attempt in range(attempts - 1):
        with suppress(ConflictError):
            return await change(attempt)
    return await change(attempts - 1)  # the last one raises its conflict
