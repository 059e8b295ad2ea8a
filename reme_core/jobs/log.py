"""The log of a process that runs until it is stopped: a service or a worker."""

from __future__ import annotations

import logging
import sys

# Loggers whose warnings and errors alone are shown.
_NOISY_LOGGERS = (
    # They log a line for each request, and httpx the URL, which may be private.
    *("httpx", "httpx2", "openai", "uvicorn.error", "mcp", "sse_starlette"),
    # They log their inner workings.
    *("procrastinate", "alembic.runtime.plugins"),
)


def log_to_stderr() -> None:
    """Send all logs of this process to stderr."""
    # Not to stdout: over MCP's stdio transport, that carries the protocol.
    form = "%(asctime)s %(levelname)s %(name)s: %(message)s"
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format=form, force=True)
    for name in _NOISY_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
