"""Runs coroutines at once, and raises the first error that one of them raises."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import anyio

Result = TypeVar("Result")


async def parallel(calls: Sequence[Callable[[], Awaitable[Result]]]) -> list[Result]:
    """Call all at once; returns their results in the order of `calls`.

    If one fails, the others are cancelled, and its error is raised: the error itself, not an `ExceptionGroup`. Errors
    that others raised at the same moment are added to it as notes.
    """
    results: dict[int, Result] = {}
    errors: list[Exception] = []

    async def run_one(number: int, call: Callable[[], Awaitable[Result]]) -> None:
        try:
            results[number] = await call()
        except Exception as error:  # of the call, and raised again below
            # The group would raise it inside an `ExceptionGroup`, which callers' `except` clauses do not match.
            errors.append(error)
            group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for number, call in enumerate(calls):
            group.start_soon(run_one, number, call)
    if errors:
        first, *others = errors
        for other in others:
            first.add_note(f"beside it failed: {type(other).__name__}: {other}")
        raise first
    return [results[number] for number in range(len(calls))]
