"""Ctrl-C while modules are imported: it ends the process without a traceback."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def end_at_once() -> Iterator[None]:
    """Within this block Ctrl-C ends the process at once. Use it for imports, which open nothing that must be closed."""
    # An exception in the middle of an import could leave a module incomplete, or its lock taken.
    is_ours = threading.current_thread() is threading.main_thread()
    if not is_ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield  # the program that imports us has its own handler, or handles Ctrl-C in another thread
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
