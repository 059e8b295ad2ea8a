"""What a check works with: a database that can be taken away, a memory that is watched, conversations to hold."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opentelemetry import trace
from pydantic import SecretStr

from reme_core.app import AsyncReMe
from reme_core.errors import ReMeError
from reme_core.models import ModelCall
from reme_core.schema import Message, Recollection, new_id
from reme_core.settings import Settings
from reme_core.testing.driver import Conversation, Driver
from reme_core.testing.gate import Gate
from reme_core.testing.model import ScriptedModel

BUDGET = 300
SUMMARY_TOKENS = (70, 30)
"""What the summary that a watched memory pretends to make has cost."""


class BrokenRuleError(ReMeError):
    """A check saw an adapter break its rule; the message says what was seen."""


def expect(condition: object, seen: str) -> None:
    """Go on if the condition holds.

    Raises:
        BrokenRuleError: It does not.
    """
    if not condition:
        raise BrokenRuleError(seen)


class WatchedReMe(AsyncReMe):
    """A memory that notes what is asked of it, and pretends that each record has a summary made."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.recalled: list[str] = []
        self.recorded: list[list[Message]] = []
        self.traces: list[int] = []

    async def recall(self, workspace: str, query: str, **options: Any) -> Recollection:
        """Recall, and note the query and the trace it was asked in."""
        self.recalled.append(query)
        self.traces.append(trace.get_current_span().get_span_context().trace_id)
        return await super().recall(workspace, query, **options)

    async def record(self, workspace: str, messages: Sequence[Message], *, wait: bool = False) -> list[Message]:
        """Record, and note what was new."""
        fresh = await super().record(workspace, messages, wait=wait)
        self.recorded.append(fresh)
        for listener in self.journal.listeners:
            listener(workspace, ModelCall("kit", "kit", "summary", *SUMMARY_TOKENS))
        return fresh


@dataclass
class Stage:
    """One check's surroundings; every check has a workspace of its own."""

    driver: Driver
    gate: Gate
    folder: Path
    closing: AsyncExitStack
    workspace: str = field(default_factory=lambda: f"kit-{new_id()}")

    @property
    def settings(self) -> Settings:
        """Settings of the database behind the gate."""
        return Settings(database_url=SecretStr(self.gate.url), data_dir=self.folder)

    async def watched(self) -> WatchedReMe:
        """An open memory that notes what is asked of it."""
        return await self.closing.enter_async_context(WatchedReMe(self.settings))

    def options(self, **changed: Any) -> dict[str, Any]:
        """What the adapter's memory is made with, unless `changed`."""
        return {
            "reme": self.gate.url,
            "workspace_id": self.workspace,
            "kinds": ("conversation",),
            "top_k": 3,
            "token_budget": BUDGET,
            "on_error": "log",
            "write": "awaited",
            "patience": 5.0,
            "spool": self.folder / f"{self.workspace}.sqlite3",
        } | changed

    async def talk(self, model: ScriptedModel, **changed: Any) -> Conversation:
        """A new conversation; it is closed after the check, unless the check does."""
        conversation = await self.driver.start(model, self.options(**changed))
        self.closing.push_async_callback(conversation.aclose)
        return conversation

    async def stored(self) -> list[tuple[str, str]]:
        """What the workspace's messages are: role and text, in order."""
        async with AsyncReMe(self.settings) as reme:
            rows = await reme.database.fetch(
                self.workspace,
                "select role, content from reme.message where workspace_id = %s order by document_id",
                [self.workspace],
            )
        return [(role, content) for role, content in rows]


async def elsewhere(work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Run a coroutine function in an event loop of its own, in another thread."""
    return await asyncio.to_thread(lambda: asyncio.run(work()))
