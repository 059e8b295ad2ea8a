"""Coroutines side by side, whose first real error surfaces as itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import anyio

Result = TypeVar("Result")


async def side_by_side(calls: Sequence[Callable[[], Awaitable[Result]]]) -> list[Result]:
    """Run all at once and give their results in order.

    When one fails the others are cancelled, and its error is raised as it was, not inside a group; what failed in the
    same moment is told in a note.
    """
    results: dict[int, Result] = {}
    errors: list[Exception] = []

    async def one(number: int, call: Callable[[], Awaitable[Result]]) -> None:
        try:
            results[number] = await call()
        except Exception as error:
            errors.append(error)
            group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for number, call in enumerate(calls):
            group.start_soon(one, number, call)
    if errors:
        first, *others = errors
        for other in others:
            first.add_note(f"beside it failed: {type(other).__name__}: {other}")
        raise first
    return [results[number] for number in range(len(calls))]
