"""A memory, a turn of it, and a gate before its database, for the tests of adapters and of what they stand on."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator

import pytest

from reme_core import AsyncReMe
from reme_core.settings import Settings
from reme_core.testing import Gate, ScriptedModel
from reme_core.turn import TurnMemory

CONVERSATIONS = int(os.environ.get("REME_TEST_CONVERSATIONS", "10"))  # read here, since tests see no such variable


@pytest.fixture
def conversations() -> int:
    """How many generated conversations the kit holds with each adapter."""
    return CONVERSATIONS


@pytest.fixture
async def reme(settings: Settings) -> AsyncIterator[AsyncReMe]:
    settings.worker.embedded = False
    async with AsyncReMe(settings) as opened:
        yield opened


@pytest.fixture
async def turn(reme: AsyncReMe) -> AsyncIterator[TurnMemory]:
    async with TurnMemory(reme, "alice", write="awaited") as memory:
        yield memory


@pytest.fixture
def gate(database_url: str) -> Iterator[Gate]:
    with Gate(database_url) as opened:
        yield opened


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel()
