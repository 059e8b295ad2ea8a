"""A model server for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.loopback import Loopback


@pytest.fixture
def loopback() -> Iterator[Loopback]:
    """A server for each test: a request that hangs in it takes no answer that another test has scripted."""
    with Loopback() as server:
        yield server
