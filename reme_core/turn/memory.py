"""`TurnMemory`: memory for the turns of an agent. Every adapter is built on it.

A turn recalls once (`begin`) and gets a note to show the model; at its end it hands over the new messages (`record`).
This class solves what all frameworks need: if memory fails, the turn goes on; if a turn is cancelled, its messages are
kept; and notes are never recorded as messages.

```python
async with TurnMemory("postgresql://…", "alice") as turn:
    note = await turn.begin("Where do I live?", turn_id="t1")
    answer = await model([*history, note.text, question])
    await turn.record([Message(content=question), Message(role="assistant", content=answer)], turn_id="t1")
```
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, ParamSpec, Self, TypeVar, Unpack

from opentelemetry import trace

from reme_core.client import AsyncReMe
from reme_core.connection import callers_portal
from reme_core.errors import InputError, NotFoundError
from reme_core.models.agent_chat import AgentChat
from reme_core.postgres.database import check_workspace
from reme_core.prompts.fence import is_note
from reme_core.prompts.note import Note
from reme_core.settings import Settings
from reme_core.spool.file import Entry
from reme_core.spool.waiting import Spool, sanitise, spool_path
from reme_core.store.rows import check_scope, within_scope
from reme_core.store.tool_calls import ToolCallResult
from reme_core.text.chat_format import MessageLike, read_messages
from reme_core.text.ids import id_within
from reme_core.text.plain import encode_json
from reme_core.text.redact import redact
from reme_core.text.secrets import rules_of
from reme_core.turn.accounts import Counts, Usage, UsageByWorkspace
from reme_core.turn.connections import Client, Closing, ReMeLike, TurnConnection, report_failure, within
from reme_core.turn.heard import in_scope
from reme_core.turn.notes import NotesByTurn
from reme_core.turn.options import OnError, TurnOptions, complete_options, name_workspace
from reme_core.turn.outbox import Deduplicator, Outbox
from reme_core.turn.recall import TurnRecall, spell_out
from reme_core.types import Hit, Kind, Message, names_in

log = logging.getLogger(__name__)
P = ParamSpec("P")
R = TypeVar("R")
tracer = trace.get_tracer("reme_core")


class TurnMemory(Closing):
    """The memory of an agent's turns in one workspace.

    Any number of conversations, tasks, threads and event loops may share it. The first use opens the connection.

    Attributes:
        workspace_id: The workspace.
        recalled_scope: The scope of the memories that are recalled: `scope`, unless `filters` name another one.
        counts: What it has done so far.
    """

    def __init__(
        self,
        database_url: ReMeLike = None,
        workspace_id: str | None = None,
        *,
        client: Client | None = None,
        chat: AgentChat | None = None,
        **options: Unpack[TurnOptions],
    ) -> None:
        """Choose the workspace, and how a turn uses its memory.

        Args:
            database_url: A database URL or settings; None for the settings of the environment.
            workspace_id: The workspace; nothing from other workspaces is recalled. By default all users share the
                workspace `default`.
            client: An open `AsyncReMe` or `ReMe` in place of a URL; it is never closed here.
            chat: The agent's chat model, which then also reads conversations for memory.
            options: How a turn uses memory; see `TurnOptions`.

        Raises:
            InputError: An option is unknown, or a value does not fit.
            ConfigurationError: No workspace was given, and the settings do not allow the default one; or `redact` in
                the settings names an unknown kind.
        """
        chosen = complete_options(options)
        self._chat = chat
        self._start(database_url, client)
        rules_of(tuple(self.settings.redact))  # raises here, not when the first turn is to be recorded
        self.workspace_id = check_workspace(name_workspace(workspace_id, self.settings))
        self.kinds = spell_out(chosen["kinds"])
        self.scope = check_scope(
            {"user_id": chosen["user_id"], "agent_id": chosen["agent_id"], "run_id": chosen["run_id"]}
        )
        self.top_k = chosen["top_k"]
        self.token_budget = chosen["token_budget"]
        self.position = chosen["position"]
        self.on_error = chosen["on_error"]
        self.write = chosen["write"]
        self.patience = chosen["patience"]
        self.window = chosen["window"]
        self._recall = TurnRecall(
            self.kinds, chosen["filters"] or {}, self.scope,
            top_k=self.top_k, token_budget=self.token_budget, min_relevance=chosen["min_relevance"],
        )  # fmt: skip
        self.recalled_scope = self._recall.scope
        self._keep_in(Spool(spool_path(chosen["spool"], self.settings)))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A memory with the same settings and options, and a connection and an outbox of its own.

        An open memory that was given as `client` serves both.
        """
        other = copy.copy(self)
        other._chat = copy.copy(self._chat)
        other._start(self.settings if self._connection.is_own else self.reme)
        other._keep_in(Spool(self._spool.path))
        return other

    def _start(self, place: ReMeLike, client: Client | None = None) -> None:
        self.counts, self._usage = Counts(), UsageByWorkspace()
        self._connection = TurnConnection(place, client, chat=self._chat, usage=self._usage)
        self._notes, self._deduplicator = NotesByTurn(self.counts), Deduplicator()

    def _keep_in(self, spool: Spool) -> None:
        self._spent = self._usage.begin(self.workspace_id)
        self._spool = spool
        self._outbox = Outbox(self._connection, spool, self.counts)

    async def aclose(self) -> None:
        """Deliver what waits, and close the connection if it was opened here."""
        await self.reme.connection.portal.run(self._close())

    async def _close(self) -> None:
        await self._outbox.aclose(self.patience)
        await self._connection.close()

    @property
    def settings(self) -> Settings:
        """The settings that memory is opened with."""
        return self.reme.settings

    def call(self, work: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a coroutine function from code that does not await: `turn.call(turn.begin, "Where do I live?")`.

        It blocks until the coroutine has ended, even in a thread with a running event loop.
        """
        return callers_portal().wait(work(*args, **kwargs))

    def for_workspace(self, workspace_id: str) -> Self:
        """A memory for another workspace over the same connection, for agents that serve many tenants.

        Both share the outbox and `counts`; closing either closes both.

        Raises:
            InputError: The id cannot name a workspace.
        """
        other = copy.copy(self)
        other.workspace_id = check_workspace(workspace_id)
        other._notes, other._deduplicator = NotesByTurn(self.counts), Deduplicator()
        other._spent = self._usage.begin(workspace_id)
        return other

    def about(self, person: str) -> Self:
        """A memory for one of several people: only memories about this person, and messages by them, are recalled.

        Messages of the assistant are recalled too. Both share the connection, the outbox and `counts`; closing either
        closes both.
        """
        other = copy.copy(self)
        other._recall, other._notes = self._recall.about(person), NotesByTurn(self.counts)
        return other

    @property
    def reme(self) -> AsyncReMe:
        """The client of the same memory, for whatever is not part of a turn."""
        return self._connection.reme

    async def begin(self, prompt: str | Sequence[MessageLike], turn_id: str = "", *, session_id: str = "") -> Note:
        """Recall for a turn. Each turn recalls once; a second call for the same turn gets the same note.

        What waits for the workspace is delivered first, for half of `patience` at most.

        Args:
            prompt: What the user says, or the messages that the model will see; the user's last message is the
                question, and "yesterday" in it is the day before it was sent. Messages in the prompt are not recalled.
            turn_id: The id of the turn within its conversation. By default it is the id of the user's last message; if
                the messages have no ids, every call is a turn of its own.
            session_id: The id of the conversation. "The last time we talked" means another conversation than this.

        Returns:
            The note to show the model. If memory failed and `on_error` is `log`, an empty note with the error.

        Raises:
            ReMeError: Memory failed, and `on_error` is `raise`.
        """
        self.lend_loop()
        messages = [Message(content=prompt)] if isinstance(prompt, str) else read_messages(prompt)
        said = [m for m in messages if m.role == "user" and m.content.strip() and not is_note(m)]
        question = said[-1] if said else None
        if question is not None and session_id:
            question = question.model_copy(update={"session_id": encode_json(session_id)})
        if not turn_id and question is not None and "message_id" in question.model_fields_set:
            turn_id = id_within(question.message_id, question.session_id)
        key = id_within(turn_id, encode_json(session_id)) if turn_id else ""
        note = self._notes.get(key)
        # Whoever got the error as an exception tries again with the same turn; others go on with it without memory.
        if note is not None and not (note.error and self.on_error == "raise"):
            self.counts.reused += 1
            return note
        made = self._notes.make(key, lambda: self._note(question, in_scope(messages, session_id, self.scope), turn_id))
        note = await self.reme.connection.portal.run(made)
        if note.error is not None and self.on_error == "raise":
            raise note.error
        return note

    async def record(self, messages: Sequence[MessageLike], turn_id: str = "", *, session_id: str = "") -> int:
        """Hand over the messages of a turn. They are kept even if the caller is cancelled during this call.

        The whole conversation may be given each time. System prompts, notes (known by their mark) and messages handed
        over before (known by their ids) are left out. A known id with other words is an edited message.

        Args:
            messages: `Message`s or messages of a chat API, in order. A message without an id gets one made from
                `turn_id` and its words.
            turn_id: The id of the turn.
            session_id: The id of the conversation, for messages without a `session_id` of their own.

        Returns:
            How many messages were handed over.

        Raises:
            SpoolError: `on_error` is `raise`, and the messages are in memory only, because neither the spool's file nor
                the database can take them; or too many turns wait, and they were not accepted. See `counts`.
            ReMeError: `on_error` is `raise`, `write` is `awaited`, and the database did not take the messages. They are
                kept and delivered later. An InputError: it refuses one for good, which `reme spool list` then shows.
        """
        return await self._hand_over(self._new_messages(messages, turn_id, session_id), turn_id)

    async def keep(self, messages: Sequence[Message]) -> int:
        """`record` for a chat history: all messages are handed over, unchanged."""
        return await self._hand_over(messages, "")

    def lend_loop(self) -> None:
        """Let the agent's model, where it reads for memory, run in the present event loop."""
        if self._chat is not None:
            self._chat.use_running_loop()

    async def _hand_over(self, new: Sequence[Message], turn_id: str) -> int:
        self.lend_loop()
        if (entry := self._put(new, (), self.on_error)) is None:  # before the first await: one may be cancelled
            return 0
        with tracer.start_as_current_span("reme.record", attributes=self._attributes(turn_id)) as span:
            span.set_attribute("reme.messages", len(new))
            try:
                # It begins here, not in a task: a loop that ends at once would drop the task before its first step.
                safe = self.reme.connection.portal.submit(self._outbox.make_safe(entry, self.write, self.patience))
                await asyncio.shield(asyncio.wrap_future(safe))
            except Exception as error:  # as in `_note`; the messages are kept
                self.counts.failures += 1
                report_failure(span, error, "the database has not taken a turn yet")
                if self.on_error == "raise":
                    raise
        return len(new)

    def record_soon(self, messages: Sequence[MessageLike], turn_id: str = "", *, session_id: str = "") -> int:
        """`record` without awaiting, for a turn that is being cancelled or a generator that is being closed.

        The messages are delivered in the background. A crash can lose them until the spool's file has them. If they are
        not accepted, the log and `counts` say so, whatever `on_error` says.
        """
        return self._deliver_soon(messages=self._new_messages(messages, turn_id, session_id))

    def record_calls(self, calls: Sequence[ToolCallResult]) -> int:
        """Hand over finished tool calls for tool memory; nothing is recorded unless `tool` is among the kinds.

        It never waits. The calls are delivered in the background, or with the turn's messages if `write` is `awaited`.
        Calls that were handed over before, and calls of the memory tools themselves, are left out.

        Returns:
            How many calls were handed over.
        """
        new = self._deduplicator.new_calls(calls) if self.write != "off" and Kind.TOOL in self.kinds else []
        return self._deliver_soon(calls=new)

    async def recall(self, query: str, *, limit: int | None = None, min_relevance: float = 0.0) -> list[Hit]:
        """Deliver what waits, and recall without a turn: memories of the kinds in use, and messages, the best first.

        Args:
            query: What to look for.
            limit: How many memories at most, and how many messages at most; by default `top_k`.
            min_relevance: The chance that anything fits, 0 to 1, below which nothing is given.

        Raises:
            InputError: The query is not text, or `min_relevance` not a number from 0 to 1.
            ReMeError: Memory failed, whatever `on_error` says.
        """
        if not isinstance(query, str):
            raise InputError(f"a query is text, not {query!r:.60}")
        return await self.reme.connection.portal.run(self._hits(query, limit or self.top_k, min_relevance))

    async def _hits(self, query: str, limit: int, min_relevance: float) -> list[Hit]:
        async with within(self.patience):
            await self._outbox.catch_up(self.workspace_id, self.patience / 2)
            engine = await self._connection.engine()
            return await self._recall.hits(engine, self.workspace_id, query, limit=limit, min_relevance=min_relevance)

    async def messages(self, session_id: str) -> list[Message]:
        """The recorded messages of a conversation, in order: those of this memory's scope.

        Raises:
            ReMeError: Memory failed, whatever `on_error` says.
        """
        return await self.reme.connection.portal.run(self._messages(session_id))

    async def _messages(self, session_id: str) -> list[Message]:
        async with within(self.patience):
            await self._outbox.flush(self.workspace_id)
            said = await (await self._connection.engine()).messages(self.workspace_id, session_id)
        return [message for message in said if names_in(self.scope).items() <= message.scope.items()]

    def as_recorded(self, messages: Sequence[Message]) -> list[Message]:
        """The messages with the words that memory keeps of them: without secrets, and as Postgres can store them."""
        return redact([sanitise(m) for m in within_scope(messages, self.scope)], self.settings.redact)

    async def clear(self) -> None:
        """Erase all memories and messages of this memory's scope, or of the whole workspace if it has no scope.

        What waits in the outbox is erased too.

        Raises:
            ReMeError: Memory cannot be reached, whatever `on_error` says.
        """
        await self.reme.connection.portal.run(self._clear())

    async def _clear(self) -> None:
        await self._outbox.settle()
        self._notes.clear()
        with contextlib.suppress(NotFoundError):  # nothing was recorded yet
            await (await self._connection.engine()).workspaces.clear(self.workspace_id, **names_in(self.scope))

    def take_usage(self) -> Usage:
        """The usage of chat models for this memory since the last call of this method."""
        return self._spent.take()

    def _new_messages(self, messages: Sequence[MessageLike], turn_id: str, session_id: str) -> list[Message]:
        said = [] if self.write == "off" else in_scope(read_messages(messages), session_id, self.scope)
        return self._deduplicator.new_messages(said, f"{session_id}/{turn_id}" if turn_id else "")

    def _put(self, messages: Sequence[Message], calls: Sequence[ToolCallResult], on_error: OnError) -> Entry | None:
        if not (messages or calls):
            return None
        try:
            done = redact(list(calls), self.settings.redact)
            entry = Entry(self.workspace_id, self.as_recorded(messages), done)
            self._spool.put(entry)
            return entry
        except Exception as error:  # any error, as in `_note`: the agent has answered, and its answer must not be lost
            self._deduplicator.forget(messages, calls)
            self.counts.refused += 1
            log.error("a turn of workspace '%s' is not recorded: %s", self.workspace_id, error)
            if on_error == "raise":
                raise
        return None

    def _deliver_soon(self, *, messages: Sequence[Message] = (), calls: Sequence[ToolCallResult] = ()) -> int:
        # It never raises: another error may be under way here, and must not be lost for this one.
        if self._put(messages, calls, "log") is None:
            return 0
        self.reme.connection.portal.submit(self._outbox.keep_for_later(self.workspace_id))
        return len(messages) + len(calls)

    async def _note(self, question: Message | None, present: Sequence[Message], turn_id: str) -> Note:
        with tracer.start_as_current_span("reme.recall", attributes=self._attributes(turn_id)) as span:
            self.counts.recalls += 1
            try:
                async with within(self.patience):
                    await self._outbox.catch_up(self.workspace_id, self.patience / 2)
                    engine = await self._connection.engine()
                    note = await self._recall.note(engine, self.workspace_id, question, present, turn_id)
            except Exception as error:  # any error: a turn without memory is better than none, and it is reported
                self.counts.failures += 1
                report_failure(span, error, "a turn goes on without memory")
                note = Note(turn_id=turn_id, error=error)
            self.counts.note_tokens += note.tokens
            span.set_attributes({"reme.hits": len(note.hits), "reme.note_tokens": note.tokens})
        return note

    def _attributes(self, turn_id: str) -> dict[str, str]:
        return {"reme.workspace": self.workspace_id, "reme.turn": turn_id}
