"""`Stage`: what a check works with, which is a workspace of a watched memory, a gate, and conversations."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from opentelemetry import trace

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


@dataclass(slots=True)
class Watch:
    """The calls of one workspace.

    Attributes:
        recalled: The query of each recall.
        recorded: The new messages of each record.
        traces: The id of the trace in which each recall ran.
        may_answer: Recalls wait until it is set, as it is by default.
        may_keep_calls: Tool memory waits likewise.
    """

    recalled: list[str] = field(default_factory=list)
    recorded: list[list[Message]] = field(default_factory=list)
    traces: list[int] = field(default_factory=list)
    may_answer: threading.Event = field(default_factory=threading.Event)
    may_keep_calls: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.may_answer.set()
        self.may_keep_calls.set()


class WatchedReMe(AsyncReMe):
    """A memory that keeps the arguments of its calls, and reports a pretended model call after each record.

    Attributes:
        watches: What was called, by workspace.
    """

    def __init__(self, settings: Settings) -> None:
        self.watches: defaultdict[str, Watch] = defaultdict(Watch)
        self._connect(Connection(settings, lambda settings: _WatchedEngine(settings, self)))


class _WatchedEngine(Engine):
    def __init__(self, settings: Settings, watched: WatchedReMe) -> None:
        super().__init__(settings)
        self._watched = watched

    def _assemble(self, database: Database, catalog: Catalog) -> None:
        super()._assemble(database, catalog)
        answer = self.recall_steps.answer

        async def watch_answer(questions: Sequence[Question], *rest: Any, **options: Any) -> Recollection:
            """Keep the query and the current trace, and answer when it may."""
            watch = self._watched.watches[questions[0].workspace]
            watch.recalled.append(questions[0].text)
            watch.traces.append(trace.get_current_span().get_span_context().trace_id)
            await _wait_for(watch.may_answer)
            return await answer(questions, *rest, **options)

        record = self.tools.record

        async def hold(workspace: str, calls: Any) -> Any:
            await _wait_for(self._watched.watches[workspace].may_keep_calls)
            return await record(workspace, calls)

        # In place of the methods, for this engine alone.
        self.recall_steps.answer = watch_answer  # type: ignore[method-assign]
        self.tools.record = hold  # type: ignore[method-assign]

    async def record(
        self, workspace: str, messages: MessageLike | Sequence[MessageLike], **options: Any
    ) -> list[Message]:
        """Record, and keep the new messages."""
        fresh = await super().record(workspace, messages, **options)
        self._watched.watches[workspace].recorded.append(fresh)
        for listener in self.log_writer.listeners:
            listener.count_call(workspace, ModelCall("kit", "kit", "summary", *SUMMARY_TOKENS))
        return fresh


async def _wait_for(event: threading.Event) -> None:
    if not event.is_set():
        await asyncio.to_thread(event.wait)


@dataclass
class Stage:
    """What one check works with; each has a workspace of its own."""

    driver: Driver
    memory: WatchedReMe
    """The memory that most checks give to the adapter, open on the database. All checks share it."""
    database_url: str
    folder: Path
    closing: AsyncExitStack = field(default_factory=AsyncExitStack)
    workspace: str = field(default_factory=lambda: f"kit-{new_id()}")
    conversations: int = 20
    """How many generated conversations to hold."""

    @cached_property
    def gate(self) -> Gate:
        """A gate before the database, for the connections that an adapter opens itself."""
        return self.closing.enter_context(Gate(self.database_url))

    @property
    def watch(self) -> Watch:
        """What was called in the check's workspace, of the shared memory."""
        return self.memory.watches[self.workspace]

    def options(self, **changed: Any) -> dict[str, Any]:
        """The keyword arguments for the adapter's memory, with those in `changed` in place of the kit's own."""
        return {
            **({} if "database_url" in changed else {"client": self.memory}),
            "workspace_id": self.workspace,
            "kinds": ("conversation",),
            "top_k": 3,
            "token_budget": BUDGET,
            "on_error": "log",
            "write": "awaited",
            "patience": 5.0,
            "spool": self.folder / f"{self.workspace}.sqlite3",
        } | changed

    async def talk(self, **changed: Any) -> tuple[Conversation, ScriptedModel]:
        """Start a conversation with a model; it is closed when the check ends, if not before."""
        model = ScriptedModel()
        conversation = await self.driver.start(model, self.options(**changed))
        self.closing.push_async_callback(conversation.aclose)
        return conversation, model

    async def tell(self, text: str, **changed: Any) -> ScriptedModel:
        """Let a user say this in a conversation of its own; the model has the prompt that it was shown."""
        conversation, model = await self.talk(**changed)
        await conversation.say(text)
        return model

    async def talk_through_gate(self, **changed: Any) -> tuple[Conversation, ScriptedModel]:
        """Start a conversation whose adapter opens the memory itself; the check may close the gate before it."""
        return await self.talk(database_url=self.gate.url, **changed)

    async def stored_messages(self) -> list[tuple[str, str]]:
        """The role and text of each message of the workspace, in the order in which they were stored."""
        return [(message.role, message.content) for message in await self.transcript()]

    async def transcript(self, workspace: str = "") -> list[Message]:
        """The messages of the workspace, or of another one, in the order in which they were stored."""
        names = ("role", "content", "author", "tool_calls", "tool_call_id", "session_id", "sent_at")
        sql = f"select {', '.join(names)} from reme.message where workspace_id = %s order by document_id"
        place = workspace or self.workspace
        rows = await self.memory.connection.run(lambda engine: engine.database.fetch(place, sql, [place]))
        return [Message.model_validate(dict(zip(names, row, strict=True))) for row in rows]


async def run_in_own_loop(work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Run a coroutine function in a new event loop, in another thread."""
    return await asyncio.to_thread(lambda: asyncio.run(work()))
