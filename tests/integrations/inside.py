"""What the tests of adapters share: what is told and asked, and a look behind the public face of an `AsyncReMe`."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from reme_core import AsyncReMe
from reme_core.engine import Engine
from reme_core.testing.checks import QUESTION, STATEMENT

TOLD, ASKED = STATEMENT, QUESTION


async def engine_of(reme: AsyncReMe) -> Engine:
    """The open engine. It belongs to the library's event loop, so its coroutines must not be awaited here."""

    async def itself(engine: Engine) -> Engine:
        return engine

    return await reme.connection.run(itself)


async def fetch(reme: AsyncReMe, workspace: str, sql: str) -> list[Any]:
    """Rows of a workspace."""
    return await reme.connection.run(lambda engine: engine.database.fetch(workspace, sql))


async def stored_rows(reme: AsyncReMe, columns: str = "role, content", workspace: str = "alice") -> list[Any]:
    """These columns of the messages of a workspace, in order."""
    return await fetch(reme, workspace, f"select {columns} from reme.message order by document_id")


async def stored(reme: AsyncReMe, workspace: str = "alice") -> list[str]:
    """What the messages of a workspace say, in order."""
    return [content for (content,) in await stored_rows(reme, "content", workspace)]


async def hold_up_recalls(reme: AsyncReMe, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Let no recall of this memory end from now on; the event is set once one has begun."""
    engine, recalling = await engine_of(reme), threading.Event()

    async def recall_for_ever(*query: object, **options: object) -> None:
        recalling.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(engine.recall_steps, "answer", recall_for_ever)
    return recalling
