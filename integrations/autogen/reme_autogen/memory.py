"""`ReMeMemory`: AutoGen's `Memory` protocol on ReMe core."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar, Unpack

from autogen_core import CancellationToken, Component
from autogen_core.memory import Memory, MemoryContent, MemoryQueryResult, UpdateContextResult
from autogen_core.model_context import ChatCompletionContext
from autogen_core.models import LLMMessage, UserMessage
from pydantic import BaseModel, SecretStr

from reme_autogen.convert import NOTE_SOURCE, from_model, hit_content, to_content
from reme_core.errors import ConfigurationError, InputError
from reme_core.settings import Settings
from reme_core.turn import (
    Client,
    Note,
    ReMeLike,
    TurnMemory,
    TurnOptions,
    calls_in,
    check_session,
    holds_note,
    plain_json,
    stable_id,
)
from reme_core.types import Kind, Message, new_id
from reme_core.types import Memory as Remembered

Result = TypeVar("Result")

_CONTEXTS = 64  # conversations that one memory follows at a time


class ReMeMemoryConfig(BaseModel):
    """What a `ReMeMemory` is made again from. The URL is a secret: written as JSON it is masked."""

    workspace_id: str = "default"
    database_url: SecretStr | None = None
    data_dir: Path | None = None
    options: TurnOptions = {}
    session_id: str | None = None


class ReMeMemory(Memory, Component[ReMeMemoryConfig]):
    """Long-term memory for `AssistantAgent(memory=[…])`.

    Before each turn what is known is recalled into the model context, as one message of the user role that takes the
    place of the one before. AutoGen tells a memory nothing after a turn, so a turn is recorded when the next one
    begins, and the last one by `close`. (`ReMeAssistantAgent` records each turn at its end.)

    ```python
    agent = AssistantAgent("assistant", model_client, memory=[ReMeMemory(workspace_id="alice")])
    ```
    """

    component_type = "memory"
    component_config_schema = ReMeMemoryConfig
    component_provider_override = "reme_autogen.ReMeMemory"

    def __init__(
        self,
        database_url: ReMeLike = None,
        workspace_id: str | None = None,
        *,
        client: Client | None = None,
        session_id: str | None = None,
        **options: Unpack[TurnOptions],
    ) -> None:
        """Say whose memory it is.

        Args:
            database_url: A database URL or settings; None for what the environment says.
            workspace_id: The tenant. Default: `default`, which all share.
            client: An open `AsyncReMe` or `ReMe` in place of a URL; it is never closed here.
            session_id: Names the conversation, so that one that is restored in another process is continued and not
                recorded again. Default: a new one for each model context.
            options: How a turn uses memory.
        """
        self._turn = TurnMemory(database_url, workspace_id, client=client, **options)
        self._options = options
        self._settings = self._turn.settings
        self._session_id = check_session(session_id)
        self._recorders: OrderedDict[int, ContextRecorder] = OrderedDict()

    @property
    def turn(self) -> TurnMemory:
        """What the memory stands on: counts, tools, and the open `AsyncReMe`."""
        return self._turn

    async def update_context(self, model_context: ChatCompletionContext) -> UpdateContextResult:
        """Put what is known about the last message into the context, and record the turn before.

        The message with the note stands before the user's, and the one of the turn before is taken out.
        """
        recorder = self.recorder_of(model_context)
        messages = await recorder.messages()
        note = await self._turn.begin(await recorder.visible_messages())
        await _replace_note(model_context, note.text)
        await recorder.record(messages)
        return UpdateContextResult(memories=MemoryQueryResult(results=note_contents(note)))

    async def query(
        self, query: str | MemoryContent, cancellation_token: CancellationToken | None = None, **kwargs: Any
    ) -> MemoryQueryResult:
        """Search memory.

        Args:
            query: What to look for.
            cancellation_token: Stops the search.
            kwargs: `limit`: how many memories, and as many messages, at the most.

        Raises:
            ReMeError: Memory cannot be reached, or the query is no text.
        """
        text = _text(query) if isinstance(query, MemoryContent) else query
        hits = await cancellable(self._turn.recall(text, limit=kwargs.get("limit")), cancellation_token)
        return MemoryQueryResult(results=[hit_content(hit) for hit in hits])

    async def add(self, content: MemoryContent, cancellation_token: CancellationToken | None = None) -> None:
        """Store one memory. `metadata["kind"]` says what sort it is; without it, something told outright.

        Raises:
            InputError: It is not text (or JSON), or of a kind that there is none of.
            ReMeError: Memory cannot be reached.
        """
        metadata = plain_json(content.metadata or {})
        kind = metadata.pop("kind", Kind.CUSTOM)
        if kind not in list(Kind):
            raise InputError(f"there is no kind {kind!r}; known are {', '.join(Kind)}")
        memory = Remembered(kind=Kind(kind), content=_text(content), metadata=metadata, author="autogen")
        work = self._turn.reme.memories.add(self._turn.workspace_id, memory, actor="autogen")
        await cancellable(work, cancellation_token)

    async def clear(self) -> None:
        """Forget everything in the workspace, for good. The connection stays."""
        await self._turn.clear()
        self._recorders.clear()

    async def close(self) -> None:
        """Record what the last turns said and disconnect. Nothing is forgotten; the next use connects again."""
        for recorder in list(self._recorders.values()):
            await recorder.record(await recorder.messages())
        await self._turn.aclose()

    def recorder_of(self, model_context: ChatCompletionContext) -> ContextRecorder:
        """What of a model context was recorded; kept for the contexts that were used last."""
        key = id(model_context)
        if key not in self._recorders:
            self._recorders[key] = ContextRecorder(self._turn, model_context, self._session_id or new_id())
        self._recorders.move_to_end(key)
        if len(self._recorders) > _CONTEXTS:
            self._recorders.popitem(last=False)
        return self._recorders[key]

    def _to_config(self) -> ReMeMemoryConfig:
        return ReMeMemoryConfig(
            workspace_id=self._turn.workspace_id,
            database_url=self._settings.database_url,
            data_dir=self._settings.data_dir if self._settings.database_url is None else None,
            options=self._options,
            session_id=self._session_id,
        )

    @classmethod
    def _from_config(cls, config: ReMeMemoryConfig) -> Self:
        return cls(_settings_of(config), config.workspace_id, session_id=config.session_id, **config.options)


@dataclass
class ContextRecorder:
    """A model context, and how much of it was recorded."""

    turn: TurnMemory
    context: ChatCompletionContext
    session_id: str
    recorded: int = 0
    restarts: int = 0

    async def messages(self) -> list[LLMMessage]:
        """Everything in the context but notes, beyond what a window of it shows the model."""
        state = await self.context.save_state()
        whole = ChatState.model_validate(state).messages if "messages" in state else await self.context.get_messages()
        return [message for message in whole if not is_note(message)]

    async def visible_messages(self) -> list[Message]:
        """What of the context the model is shown, notes left out."""
        shown = [message for message in await self.context.get_messages() if not is_note(message)]
        return [said for message in shown for said in from_model(message)]

    def identify(self, messages: list[LLMMessage]) -> list[Message]:
        """Our form of the messages, each with an id that follows from its place and words."""
        if len(messages) < self.recorded:  # the context was cleared: another conversation begins
            self.recorded, self.restarts = 0, self.restarts + 1
        session = f"{self.session_id}#{self.restarts}" if self.restarts else self.session_id
        ours = []
        for place, message in enumerate(messages):
            for part, said in enumerate(from_model(message)):
                name = stable_id(session, place, part, said.role, said.content)
                ours.append(said.model_copy(update={"message_id": name, "session_id": session}))
        return ours

    async def record(self, messages: list[LLMMessage]) -> None:
        """Hand over what is new."""
        ours = self.identify(messages)
        self.recorded = len(messages)
        self.turn.record_calls(calls_in(ours))
        await self.turn.record(ours)


class ChatState(BaseModel):
    """The state that AutoGen's model contexts save."""

    messages: list[LLMMessage]


def note_contents(note: Note) -> list[MemoryContent]:
    """What stands in a note, as AutoGen shows it in its events."""
    return [*map(to_content, note.standing), *map(hit_content, note.hits)]


def is_note(message: LLMMessage) -> bool:
    """Whether a message of a model context is a note of ours."""
    return isinstance(message, UserMessage) and message.source == NOTE_SOURCE and holds_note(str(message.content))


async def cancellable(work: Coroutine[Any, Any, Result], token: CancellationToken | None) -> Result:
    """Await something that the token can cancel."""
    future = asyncio.ensure_future(work)
    if token is not None:
        token.link_future(future)
    return await future


async def _replace_note(context: ChatCompletionContext, note: str) -> None:
    """Put the note before the last user message, and take an older one out."""
    state = await context.save_state()
    if "messages" not in state:  # not one of AutoGen's own: it can only be appended to
        if note:
            await context.add_message(UserMessage(content=note, source=NOTE_SOURCE))
        return
    messages = ChatState.model_validate(state).messages
    kept = [message for message in messages if not is_note(message)]
    if note:
        users = [place for place, message in enumerate(kept) if isinstance(message, UserMessage)]
        kept.insert(users[-1] if users else len(kept), UserMessage(content=note, source=NOTE_SOURCE))
    if len(kept) != len(messages) or note:
        await context.load_state({**state, "messages": [message.model_dump() for message in kept]})


def _text(content: MemoryContent) -> str:
    if isinstance(content.content, str):
        return content.content
    if isinstance(content.content, dict):
        return json.dumps(plain_json(content.content), ensure_ascii=False)
    raise InputError(f"a memory is text or JSON, not {type(content.content).__name__}; describe it in words")


def _settings_of(config: ReMeMemoryConfig) -> Settings:
    """The settings of the environment, with what the configuration names.

    Raises:
        ConfigurationError: The URL was masked, and the environment names no database.
    """
    settings = Settings.load()
    url = config.database_url
    if url is not None and set(url.get_secret_value()) == {"*"}:
        if settings.database_url is None:
            raise ConfigurationError(
                "the database URL was masked when this component was written as JSON; set DATABASE_URL, or fill it in"
            )
        url = None
    named = {"database_url": url, "data_dir": config.data_dir}
    return settings.model_copy(update={name: value for name, value in named.items() if value is not None})
