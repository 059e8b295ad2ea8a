"""Reports of a memory that fails during a turn."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from opentelemetry import trace

from reme_core.errors import DatabaseUnavailableError, ReMeError

log = logging.getLogger(__name__)


@asynccontextmanager
async def within(patience: float) -> AsyncIterator[None]:
    """Let memory answer within so many seconds, or raise a `DatabaseUnavailableError` that says that it did not."""
    try:
        async with asyncio.timeout(patience):
            yield
    except TimeoutError:
        waited = f"memory did not answer within {patience:g} seconds"
        why = "it is still being opened, is busy, or cannot be reached"
        raise DatabaseUnavailableError(f"{waited}: {why}") from None


def report_failure(span: trace.Span, error: Exception, what: str) -> None:
    """Report an error to the trace and the log; `what` says what it means for the turn."""
    span.record_exception(error)
    span.set_status(trace.StatusCode.ERROR, str(error))
    log_failure(error, what)


def log_failure(error: Exception, what: str) -> None:
    """Report an error to the log, with its trace if it is none of ours."""
    log.warning("%s: %s", what, error, exc_info=None if isinstance(error, ReMeError) else error)
