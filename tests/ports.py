"""Ports for servers that a test starts."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A port on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
