"""`ReMeMemory`: LlamaIndex's `Memory` with a long-term memory.

LlamaIndex asks a memory several times in a turn (before the model, after tools, and at the end), and gives its blocks
only the messages that no longer fit. This class recalls once in a turn, and records the turn when the answer is put.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, Self, Unpack
from weakref import WeakValueDictionary

from llama_index.core.llms import LLM, ChatMessage, TextBlock
from llama_index.core.memory import BaseMemoryBlock, InsertMethod, Memory
from llama_index.core.prompts import RichPromptTemplate
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore
from llama_index.core.tools import BaseTool
from pydantic import BaseModel, Field, PrivateAttr

from reme_core.errors import InputError, ReMeError
from reme_core.turn import (
    Client,
    ConversationIds,
    Note,
    Position,
    ReMeLike,
    TurnOptions,
    asking_agent,
    check_session,
    fit_messages,
    with_recorded_ids,
)
from reme_core.types import Message, new_id
from reme_llamaindex.convert import from_llamaindex, read_message
from reme_llamaindex.long_term import LongTermMemory
from reme_llamaindex.noted_message import NotedMessage
from reme_llamaindex.run_events import is_run_begun, running_agent
from reme_llamaindex.short_term import ConversationStore, StoredMessage
from reme_llamaindex.tools import window_tools
from reme_llamaindex.usage import report_usage

log = logging.getLogger(__name__)

SHORT_TERM_TOKENS: Final = 30_000
"""LlamaIndex's default for `token_limit`."""
_UNLIMITED: Final = 2**31


class MemoryOptions(TurnOptions, total=False):
    """The options of a `ReMeMemory`: those of a turn, and those of LlamaIndex's `Memory`."""

    token_limit: int
    token_flush_size: int
    chat_history_token_ratio: float
    memory_blocks: list[BaseMemoryBlock[Any]]
    memory_blocks_template: RichPromptTemplate
    insert_method: InsertMethod
    """The position of the note, by default `InsertMethod.USER`."""
    image_token_size_estimate: int
    audio_token_size_estimate: int
    video_token_size_estimate: int
    document_token_size_estimate: int
    tokenizer_fn: Callable[[str], list[Any]]
    sql_store: AsyncDBChatStore
    chat_store: AsyncDBChatStore
    """Another name of `sql_store`, as `Memory.from_defaults` has it."""
    session_id: str | None
    chat_model: LLM


class _ConversationState(BaseModel):
    """The state of a `ReMeMemory`'s conversation, besides its fields."""

    turn_id: str = ""
    asked: bool = False  # whether the user's message of this turn was put
    answered: bool = False  # whether the answer of this turn was put
    expected: str = ""  # the question that a chat engine will put
    waiting: list[Message] = []
    history: list[Message] = []  # set as a whole; parts may have been recorded
    stored: list[StoredMessage] = []  # only where it is serialised


# The memories of contexts whose next run begins; LlamaIndex then serialises each and makes it again.
_going_on: WeakValueDictionary[str, ReMeMemory] = WeakValueDictionary()


class ReMeMemory(LongTermMemory, Memory):
    """Short-term memory as LlamaIndex keeps it, and long-term memory on Postgres.

    ```python
    memory = ReMeMemory("postgresql://…", "alice")
    response = await agent.run("Where does my dog live?", memory=memory)
    ```

    Each object is one conversation; any number of them may use one workspace. The model is shown the note with the last
    user message (or, with `position="system"`, in a system message at the head); the note is never stored. A memory can
    be serialised and made again, also in another process, where it connects to the same database.
    """

    insert_method: InsertMethod = InsertMethod.USER
    sql_store: AsyncDBChatStore = Field(default_factory=ConversationStore, exclude=True)
    """The store of the short-term part: by default in this process. The application must close a store of its own."""
    _state: _ConversationState = PrivateAttr(default_factory=_ConversationState)

    def __init__(
        self,
        database_url: ReMeLike = None,
        workspace_id: str | None = None,
        *,
        client: Client | None = None,
        **options: Unpack[MemoryOptions],
    ) -> None:
        """Choose the workspace, and how a turn uses its memory.

        Args:
            database_url: A database URL or settings; None for the settings of the environment.
            workspace_id: The workspace. By default all users share the workspace `default`.
            client: An open `AsyncReMe` or `ReMe` in place of a URL; it is never closed here.
            options: `chat_model`, the model that reads conversations for memory, such as the agent's own (by default
                the one in the settings; without any, people's statements are kept word for word); how a turn uses
                memory (see `TurnOptions`); and the options of LlamaIndex's `Memory`.

        Raises:
            InputError: An option is unknown, or a value does not fit.
        """
        # With a window, the short-term part keeps all messages, and the model is shown those that fit.
        limit = SHORT_TERM_TOKENS if options.get("window") is None else _UNLIMITED
        given: dict[str, Any] = {"token_limit": limit} | options
        if check_session(given.get("session_id")) is None:
            given.pop("session_id", None)
        if "chat_store" in given and "sql_store" in given:
            raise InputError("chat_store and sql_store are the same; give one")
        if given.get("insert_method") in (InsertMethod.SYSTEM, "system") and given.get("position") == "user":
            raise InputError("insert_method says 'system' and position 'user', which are the same option; give one")
        if "chat_store" in given:
            given["sql_store"] = given.pop("chat_store")
        state = _ConversationState.model_validate(given.pop("conversation", {}))  # after deserialising
        super().__init__(database_url, workspace_id, client=client, **given)
        if isinstance(self.sql_store, ConversationStore):
            self.sql_store.load(self.session_id, state.stored)
        self._state = state.model_copy(update={"stored": []})

    @classmethod
    def class_name(cls) -> str:
        """The name of the class in LlamaIndex's serialised objects."""
        return "ReMeMemory"

    @classmethod
    def from_defaults(  # type: ignore[override]  # LlamaIndex's subclasses differ in what they take
        cls,
        database_url: ReMeLike = None,
        workspace_id: str | None = None,
        *,
        client: Client | None = None,
        chat_history: Sequence[ChatMessage] | None = None,
        **options: Unpack[MemoryOptions],
    ) -> Self:
        """A memory whose short-term part begins with `chat_history`; the other arguments are those of the class."""
        memory = cls(database_url, workspace_id, client=client, **options)
        if chat_history is not None:
            memory.set(list(chat_history))
        return memory

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """The memory as plain JSON, without the password, the memory blocks and their template.

        It has the conversation, unless this is in a store of your own.
        """
        dumped = self.model_dump(mode="json", exclude={"memory_blocks", "memory_blocks_template"}, **kwargs)
        stored = self.sql_store.dump(self.session_id) if isinstance(self.sql_store, ConversationStore) else []
        state = self._state.model_copy(update={"stored": stored})
        told = {**dumped, "conversation": state.model_dump(mode="json"), "class_name": self.class_name()}
        if is_run_begun():
            told["going_on"] = new_id()
            _going_on[told["going_on"]] = self
        return told

    @classmethod
    def from_dict(cls, data: dict[str, Any], **kwargs: Any) -> Self:
        """The memory that `to_dict` wrote down, as another object.

        Only a run in the `Context` of an earlier one goes on with the same object, as it does with a stock `Memory`.
        """
        told = dict(data)
        going_on = _going_on.pop(told.pop("going_on", ""), None)
        return going_on if isinstance(going_on, cls) else super().from_dict(told, **kwargs)

    async def aclose(self) -> None:
        """Record the messages of an unfinished turn, deliver what waits, and disconnect."""
        self.turn.record_soon(await self._take_waiting(), self._state.turn_id, session_id=self.session_id)
        await super().aclose()

    @property
    def place(self) -> tuple[str, str]:
        """The ids of the conversation and of the turn."""
        return self.session_id, self._state.turn_id

    async def aget(self, input: str | ChatMessage | None = None, **block_kwargs: Any) -> list[ChatMessage]:  # noqa: A002 - its name
        """The messages that fit the `window`; the last one of the user brings the note.

        Only LlamaIndex's models are shown the note, when they are called with these messages. For another model, put it
        in with `show_notes`.
        """
        seen = await self._what_fits(await super().aget(input=input, **block_kwargs))
        note = await self._note(seen, input)
        return self._with_note(seen, note.text) if note else seen

    async def aput(self, message: ChatMessage) -> None:
        """Add a message; an answer of the assistant ends the turn, which is then recorded."""
        await super().aput(message)
        await self._take_in([message])

    async def aput_messages(self, messages: list[ChatMessage]) -> None:
        """Add messages; an answer of the assistant ends the turn, which is then recorded."""
        await super().aput_messages(messages)
        await self._take_in(messages)

    async def aset(self, messages: list[ChatMessage]) -> None:
        """Set the conversation; its new messages are recorded with the answer."""
        self.turn.record_soon(await self._take_waiting(), self._state.turn_id, session_id=self.session_id)
        await super().aset(messages)
        self._state.history = from_llamaindex(messages, self.session_id)
        if any(message.role == "user" for message in self._state.history):
            self._state.turn_id, self._state.asked = new_id(), True
            self._state.answered = _is_answer(self._state.history[-1])

    async def areset(self, status: Any = None) -> None:
        """Empty the conversation and begin another one, with a new `session_id`. Long-term memory stays.

        With a `status`, only the messages of that status are removed.
        """
        await super().areset(status=status)
        if status is None:
            self.turn.record_soon(await self._take_waiting(), self._state.turn_id, session_id=self.session_id)
            self.session_id, self._state.turn_id = new_id(), ""

    # The framework's own methods run a new event loop for each call, in which no connection could stay open.

    def get(self, input: str | ChatMessage | None = None, **block_kwargs: Any) -> list[ChatMessage]:  # noqa: A002 - its name
        """`aget` without awaiting; it also works where an event loop is running."""
        return self.turn.call(self.aget, input, **block_kwargs)

    def get_all(self, status: Any = None) -> list[ChatMessage]:
        """`aget_all` without awaiting."""
        return self.turn.call(self.aget_all, status)

    def put(self, message: ChatMessage) -> None:
        """`aput` without awaiting."""
        self.turn.call(self.aput, message)

    def put_messages(self, messages: list[ChatMessage]) -> None:
        """`aput_messages` without awaiting."""
        self.turn.call(self.aput_messages, messages)

    def set(self, messages: list[ChatMessage]) -> None:
        """`aset` without awaiting."""
        self.turn.call(self.aset, messages)

    def reset(self) -> None:
        """`areset` without awaiting."""
        self.turn.call(self.areset)

    def window_tools(self) -> list[BaseTool]:
        """The tools that search and read what left the agent's window; none if no `window` is set."""
        return window_tools(self.turn, lambda: self.session_id)

    async def _what_fits(self, seen: list[ChatMessage]) -> list[ChatMessage]:
        return await fit_messages(
            self.turn,
            seen,
            self.session_id,
            parts_of=read_message,
            with_parts=lambda message, parts: _with_words(message, parts[0].content),
            summary=lambda text: ChatMessage(role="user", content=text),
            count_tokens=lambda text: len(self.tokenizer_fn(text)),
        )

    async def _note(self, seen: Sequence[ChatMessage], asked: str | ChatMessage | None) -> Note:
        present = from_llamaindex(seen)
        # The words of a `QueryBundle`, which some chat engines give, are its text.
        question = (asked.content if isinstance(asked, ChatMessage) else str(asked or "")) or ""
        if question and self._is_asked_early(question):
            self._state.turn_id, self._state.expected = new_id(), question
            self._state.asked = self._state.answered = False
        if not self._state.asked and self._state.expected:
            present.append(Message(content=self._state.expected))
        if not any(message.role == "user" for message in present):
            return Note()
        if not self._state.turn_id:
            self._state.turn_id, self._state.asked = new_id(), True
        return await self.turn.begin(present, self._state.turn_id, session_id=self.session_id)

    def _is_asked_early(self, question: str) -> bool:
        """Whether this begins a turn: chat engines call `aget` with the question before they put it."""
        if not self._state.turn_id or self._state.answered:
            return True
        return not self._state.asked and question != self._state.expected

    def _with_note(self, seen: Sequence[ChatMessage], note: str) -> list[ChatMessage]:
        position: Position = "system" if self.insert_method == InsertMethod.SYSTEM else self.turn.position
        asked = [place for place, message in enumerate(seen) if message.role == "user"]
        place = asked[-1] if asked and (self._state.asked or not self._state.expected) else None
        if place is None:
            # LlamaIndex adds the question after these messages, so a note behind them stands beside it. A message of
            # its own would be among those of which an engine condenses the question.
            last = seen[-1] if seen else ChatMessage(role=position, blocks=[])
            return [*seen[:-1], NotedMessage.of(last, note, position, behind=bool(seen))]
        return [*seen[:place], NotedMessage.of(seen[place], note, position), *seen[place + 1 :]]

    async def _take_in(self, messages: Sequence[ChatMessage]) -> None:
        ours = from_llamaindex(messages, self.session_id, running_agent(), asking_agent())
        self._state.waiting += ours
        if any(message.role == "user" for message in ours):
            if self._state.asked or not self._state.turn_id:
                self._state.turn_id = new_id()
            self._state.asked, self._state.answered, self._state.expected = True, False, ""
        if any(map(_is_answer, ours)):
            self._state.answered = True
            try:
                await self.turn.record(await self._take_waiting(), self._state.turn_id, session_id=self.session_id)
            finally:
                report_usage(self.turn.take_usage())

    async def _take_waiting(self) -> list[Message]:
        """Take out the messages that are to be recorded, in order."""
        recorded: Sequence[Message] = []
        if self._state.history and self.turn.write != "off":
            try:
                recorded = await self.turn.messages(self.session_id)
            except ReMeError as error:  # then the whole history is recorded, with ids that stay the same next time
                log.warning("which messages of a conversation are new is unknown, so all are recorded: %s", error)
        # Taken out only here: a run that is cancelled while it waits leaves them to the next one.
        history, self._state.history = self._state.history, []
        waiting, self._state.waiting = self._state.waiting, []
        ids = ConversationIds(self.session_id, self.turn.scope["user_id"])
        return [*with_recorded_ids(history, recorded, ids, self.turn.as_recorded), *waiting]


def _is_answer(message: Message) -> bool:
    """Whether a message ends a turn."""
    return message.role == "assistant" and not message.tool_calls


def _with_words(message: ChatMessage, words: str) -> ChatMessage:
    """The message with these words in place of its own, and with its other blocks."""
    others = [block for block in message.blocks if not isinstance(block, TextBlock)]
    return message.model_copy(update={"blocks": [TextBlock(text=words), *others]})
