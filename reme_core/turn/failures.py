"""Reports of a memory that fails during a turn."""

from __future__ import annotations

import logging

from opentelemetry import trace

from reme_core.errors import ReMeError

log = logging.getLogger(__name__)


def report_failure(span: trace.Span, problem: Exception, what: str) -> Exception:
    """Report a problem to the trace and the log, and return it; `what` says what the failure means for the turn."""
    span.record_exception(problem)
    span.set_status(trace.StatusCode.ERROR, str(problem))
    log.warning("%s: %s", what, problem, exc_info=None if isinstance(problem, ReMeError) else problem)
    return problem
