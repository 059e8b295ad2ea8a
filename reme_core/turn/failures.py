"""Reports of a memory that fails during a turn."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from opentelemetry import trace

from reme_core.errors import DatabaseUnavailableError, ReMeError

log = logging.getLogger(__name__)


def explain_timeout(error: Exception, patience: float) -> Exception:
    """The error; in place of a `TimeoutError`, which does not mention memory, an error that does."""
    if not isinstance(error, TimeoutError):
        return error
    waited = f"memory did not answer within {patience:g} seconds"
    return DatabaseUnavailableError(f"{waited}: it is still being opened, is busy, or cannot be reached")


@asynccontextmanager
async def within(patience: float) -> AsyncIterator[None]:
    """Let memory answer within so many seconds, or raise a `DatabaseUnavailableError` that says that it did not."""
    try:
        async with asyncio.timeout(patience):
            yield
    except TimeoutError as error:
        raise explain_timeout(error, patience) from None


def report_failure(span: trace.Span, error: Exception, patience: float, what: str) -> Exception:
    """Report an error to the trace and the log, and return it, explained; `what` says what it means for the turn."""
    problem = explain_timeout(error, patience)
    span.record_exception(problem)
    span.set_status(trace.StatusCode.ERROR, str(problem))
    log.warning("%s: %s", what, problem, exc_info=None if isinstance(problem, ReMeError) else problem)
    return problem
