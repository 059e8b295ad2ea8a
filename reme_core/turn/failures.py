"""What is told of a memory that fails a turn."""

from __future__ import annotations

import logging

from opentelemetry import trace

from reme_core.errors import ReMeError

log = logging.getLogger(__name__)


def report_failure(span: trace.Span, problem: Exception, what: str) -> Exception:
    """Tell the trace and the log, and return the problem; `what` says what comes of it."""
    span.record_exception(problem)
    span.set_status(trace.StatusCode.ERROR, str(problem))
    log.warning("%s: %s", what, problem, exc_info=None if isinstance(problem, ReMeError) else problem)
    return problem
