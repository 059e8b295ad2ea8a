"""`Stage`: what a check works with, which is a database behind a gate, a watched memory, and conversations."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opentelemetry import trace
from pydantic import SecretStr

from reme_core.client import AsyncReMe
from reme_core.connection import Connection
from reme_core.engine import Engine
from reme_core.errors import ReMeError
from reme_core.flows.catalog import Catalog
from reme_core.models import ModelCall
from reme_core.postgres.database import Database
from reme_core.settings import Settings
from reme_core.store.relevance import Question
from reme_core.testing.driver import Conversation, Driver
from reme_core.testing.gate import Gate
from reme_core.testing.model import ScriptedModel
from reme_core.text.chat_format import MessageLike
from reme_core.types import Message, Recollection, new_id

BUDGET = 300
"""How many tokens a note may have in the checks."""
SUMMARY_TOKENS = (70, 30)
"""The prompt and completion tokens that a watched memory reports for the pretended summaries."""


class BrokenRuleError(ReMeError):
    """An adapter has broken a rule; the message says what was observed."""


def expect(condition: object, seen: str) -> None:
    """Check a condition of a rule.

    Raises:
        BrokenRuleError: The condition does not hold; `seen` is its message.
    """
    if not condition:
        raise BrokenRuleError(seen)


class WatchedReMe(AsyncReMe):
    """A memory that keeps the arguments of its calls, and reports a pretended model call after each record.

    Attributes:
        recalled: The query of each recall.
        recorded: The new messages of each record.
        traces: The id of the trace in which each recall ran.
        may_answer: Recalls wait until it is set, as it is by default.
        may_keep_calls: Tool memory waits likewise.
    """

    def __init__(self, settings: Settings) -> None:
        self.recalled: list[str] = []
        self.recorded: list[list[Message]] = []
        self.traces: list[int] = []
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.may_keep_calls = threading.Event()
        self.may_keep_calls.set()
        self._connect(Connection(settings, lambda settings: _WatchedEngine(settings, self)))


class _WatchedEngine(Engine):
    def __init__(self, settings: Settings, watched: WatchedReMe) -> None:
        super().__init__(settings)
        self._watched = watched

    def _assemble(self, database: Database, catalog: Catalog) -> None:
        super()._assemble(database, catalog)
        answer = self.recall_steps.answer

        async def watch(questions: Sequence[Question], *rest: Any, **options: Any) -> Recollection:
            """Keep the query and the current trace, and answer when it may."""
            self._watched.recalled.append(questions[0].text)
            self._watched.traces.append(trace.get_current_span().get_span_context().trace_id)
            await asyncio.to_thread(self._watched.may_answer.wait)
            return await answer(questions, *rest, **options)

        record = self.tools.record

        async def hold(*calls: Any, **options: Any) -> Any:
            await asyncio.to_thread(self._watched.may_keep_calls.wait)
            return await record(*calls, **options)

        # In place of the methods, for this engine alone.
        self.recall_steps.answer = watch  # type: ignore[method-assign]
        self.tools.record = hold  # type: ignore[method-assign]

    async def record(
        self, workspace: str, messages: MessageLike | Sequence[MessageLike], **options: Any
    ) -> list[Message]:
        """Record, and keep the new messages."""
        fresh = await super().record(workspace, messages, **options)
        self._watched.recorded.append(fresh)
        for listener in self.log_writer.listeners:
            listener.count_call(workspace, ModelCall("kit", "kit", "summary", *SUMMARY_TOKENS))
        return fresh


@dataclass
class Stage:
    """What one check works with; each has a workspace of its own."""

    driver: Driver
    gate: Gate
    folder: Path
    closing: AsyncExitStack
    workspace: str = field(default_factory=lambda: f"kit-{new_id()}")
    conversations: int = 20
    """How many generated conversations to hold."""

    @property
    def settings(self) -> Settings:
        """Settings that lead to the database through the gate."""
        return Settings(database_url=SecretStr(self.gate.url), data_dir=self.folder)

    async def open_watched_memory(self) -> WatchedReMe:
        """Open a watched memory, which is closed when the check ends."""
        return await self.closing.enter_async_context(WatchedReMe(self.settings))

    def options(self, **changed: Any) -> dict[str, Any]:
        """The keyword arguments for the adapter's memory, with those in `changed` in place of the kit's own."""
        return {
            **({} if "client" in changed else {"database_url": self.gate.url}),
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
        """Start a conversation, which is closed when the check ends, if not before."""
        conversation = await self.driver.start(model, self.options(**changed))
        self.closing.push_async_callback(conversation.aclose)
        return conversation

    async def stored_messages(self) -> list[tuple[str, str]]:
        """The role and text of each message of the workspace, in the order in which they were stored."""
        return [(message.role, message.content) for message in await self.transcript()]

    async def transcript(self) -> list[Message]:
        """The messages of the workspace, in the order in which they were stored."""
        async with Engine(self.settings) as engine:
            rows = await engine.database.fetch(
                self.workspace,
                "select role, content, author, tool_calls, session_id from reme.message where workspace_id = %s"
                " order by document_id",
                [self.workspace],
            )
        names = ("role", "content", "author", "tool_calls", "session_id")
        return [Message.model_validate(dict(zip(names, row, strict=True))) for row in rows]


async def run_in_own_loop(work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Run a coroutine function in a new event loop, in another thread."""
    return await asyncio.to_thread(lambda: asyncio.run(work()))
