"""Standard input and output of the MCP service, as the official SDK reads and writes them, line by line."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Final

import anyio.to_thread
from mcp import types
from pydantic import ValidationError

from reme_core.given import storable

log = logging.getLogger(__name__)

_HALF_OF_PAIR: Final = re.compile(r"\\u[dD][89a-fA-F]")  # such as JavaScript writes of a text that was cut in an emoji
_LAST_SECONDS: Final = 30.0  # for the calls that run when the input ends; a model may be slow


class Pipes:
    """The input as lines, and the output; the input ends when the calls that came before its end are answered."""

    # At the end of the input the SDK cancels what runs. So a call at the end of a pipe would get no answer.
    def __init__(self) -> None:
        self._unanswered: set[types.RequestId] = set()
        self._answered = asyncio.Event()

    async def lines(self) -> AsyncIterator[str]:
        """The lines of the standard input."""
        # The SDK's own reader waits in a thread that nothing ends but a line, so Ctrl-C would not end the process. It
        # has a descriptor of its own: Python closes `sys.stdin` when it ends, and this thread may still be reading.
        loop, lines = asyncio.get_running_loop(), asyncio.Queue[str]()

        def read() -> None:
            stdin = os.fdopen(os.dup(0), encoding="utf-8", errors="replace")
            with stdin, suppress(RuntimeError):  # a closed loop
                for line in stdin:
                    loop.call_soon_threadsafe(lines.put_nowait, line)
                loop.call_soon_threadsafe(lines.put_nowait, "")

        threading.Thread(target=read, name="stdin", daemon=True).start()
        while line := _readable(await lines.get()):
            message = _message(line)
            if isinstance(message, types.JSONRPCRequest):
                self._unanswered.add(message.id)
            yield line
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_SECONDS):
                while self._unanswered:
                    self._answered.clear()
                    await self._answered.wait()

    async def write(self, text: str) -> None:
        """Write a line to the standard output, and flush it; where nobody reads any more, it is lost."""
        try:
            await anyio.to_thread.run_sync(_write, text)
        except BrokenPipeError:
            # The end of the input, which follows, ends the service in order: what runs is finished, and stored.
            log.warning("nobody reads the answers any more")
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the rest of it would fail at the end
        message = _message(text)
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            self._unanswered.discard(message.id)
            self._answered.set()

    async def flush(self) -> None:
        """Do nothing: each line is flushed."""


def _readable(line: str) -> str:
    """A line with U+FFFD for halves of surrogate pairs, with which the SDK would not read it, and answer nothing."""
    if _HALF_OF_PAIR.search(line):
        with suppress(ValueError, RecursionError):
            return json.dumps(storable(json.loads(line))) + "\n"
    return line


def _write(text: str) -> None:
    sys.stdout.buffer.write(text.encode("utf-8"))
    sys.stdout.buffer.flush()


def _message(line: str) -> Any:
    """The message of a line as the SDK reads it; None if it is no message to it, which it answers by a notification."""
    try:
        return types.JSONRPCMessage.model_validate_json(line).root
    except ValidationError:
        return None
