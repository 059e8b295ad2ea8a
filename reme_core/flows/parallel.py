"""Runs coroutines at once, and raises the first error that one of them raises."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, TypeVar

Result = TypeVar("Result")


async def parallel(works: Iterable[Coroutine[Any, Any, Result]]) -> list[Result]:
    """Run all at once; returns their results in the order of `works`.

    If one fails, the others are cancelled, and its error is raised: the error itself, not an `ExceptionGroup`. Errors
    that others raised at the same moment are added to it as notes.
    """
    errors: Sequence[Exception] = ()
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in works]
    except ExceptionGroup as failures:  # callers' `except` clauses do not match the errors inside
        errors = failures.exceptions
    if errors:
        first, *others = errors
        for other in others:
            first.add_note(f"beside it failed: {type(other).__name__}: {other}")
        raise first
    return [task.result() for task in tasks]
