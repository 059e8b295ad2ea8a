"""The log of a process that runs until it is stopped: a service or a worker."""

from __future__ import annotations

import json
import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Final

from reme_core.settings import LogSettings

REQUEST_ID: Final[ContextVar[str]] = ContextVar("reme_request_id", default="")
"""The request that is being answered; a line of the log in JSON names it."""

# Loggers whose warnings and errors alone are shown.
_NOISY_LOGGERS = (
    # They log a line for each request, and httpx the URL, which may be private.
    *("httpx", "httpx2", "openai", "uvicorn.error", "mcp", "sse_starlette"),
    # They log their inner workings.
    *("procrastinate", "alembic.runtime.plugins"),
)


class _JsonLines(logging.Formatter):
    """A line for each record, as collectors of logs read it: one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "request_id": REQUEST_ID.get(),
            "exception": self.formatException(record.exc_info) if record.exc_info else "",
        }
        return json.dumps({name: value for name, value in line.items() if value}, ensure_ascii=False)


def log_to_stderr(settings: LogSettings) -> None:
    """Send all logs of this process to stderr."""
    # Not to stdout: over MCP's stdio transport, that carries the protocol.
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        _JsonLines()
        if settings.format == "json"
        else logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    )
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    # What other libraries say of their inner workings may have texts and keys in it: the headers of requests.
    logging.basicConfig(level=max(level, logging.INFO), handlers=[handler], force=True)
    logging.getLogger("reme_core").setLevel(level)
    for name in _NOISY_LOGGERS:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
