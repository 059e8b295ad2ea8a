"""The proxy that makes the database unreachable ends every connection, those that are just being made too."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from reme_core.testing import Gate


@pytest.fixture
def target() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"host=127.0.0.1 port={server.getsockname()[1]}"


def test_a_connection_that_is_being_made_as_the_gate_closes_ends_as_well(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits, goes_on, connect = threading.Event(), threading.Event(), Gate._connect

    def slow(gate: Gate) -> socket.socket:
        waits.set()
        assert goes_on.wait(10)
        return connect(gate)

    monkeypatch.setattr(Gate, "_connect", slow)
    with Gate(target) as gate, socket.create_connection(("127.0.0.1", gate._port), timeout=10) as client:
        assert waits.wait(10)
        gate.close()
        goes_on.set()
        assert client.recv(1) == b""
        assert gate.connections == 0
