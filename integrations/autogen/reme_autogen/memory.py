"""`ReMeMemory`: AutoGen's `Memory` protocol on ReMe core."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Self, TypeVar, Unpack

from autogen_core import CancellationToken, Component, ComponentModel
from autogen_core.memory import Memory, MemoryContent, MemoryMimeType, MemoryQueryResult, UpdateContextResult
from autogen_core.model_context import ChatCompletionContext
from autogen_core.models import ChatCompletionClient
from pydantic import BaseModel, SecretStr

from reme_autogen.convert import MIME_TYPE, as_chat, prefer_person, to_content
from reme_autogen.recorder import (
    Contexts,
    is_note,
    listen_to_tool_calls,
    name_asker,
    replace_note,
    visible_messages,
    watch,
)
from reme_core.errors import ConfigurationError, InputError
from reme_core.settings import Settings
from reme_core.turn import (
    Client,
    Closing,
    Note,
    ReMeLike,
    TurnMemory,
    TurnOptions,
    also_redact,
    check_count,
    check_session,
    plain_json,
    refuse_unknown,
)
from reme_core.types import Kind
from reme_core.types import Memory as Remembered

log = logging.getLogger(__name__)

Result = TypeVar("Result")


class ReMeMemoryConfig(BaseModel):
    """The configuration of a `ReMeMemory`. The URL is a secret, so it is masked in JSON."""

    workspace_id: str = "default"
    database_url: SecretStr | None = None
    data_dir: Path | None = None
    redact: list[str] = []
    options: TurnOptions = {}
    session_id: str | None = None
    chat_model: ComponentModel | None = None


class ReMeMemory(Memory, Component[ReMeMemoryConfig], Closing):
    """Long-term memory for `AssistantAgent(memory=[…])`.

    Before each turn, a note is put into the model context, as a user message that replaces the note of the turn before.
    AutoGen does not tell a memory of the end of a turn. So the context is watched, and the turn is recorded when the
    answer, or the results of tools, are added to it.

    ```python
    agent = AssistantAgent("assistant", model_client, memory=[ReMeMemory(workspace_id="alice")])
    ```

    Attributes:
        turn: The `TurnMemory` behind this memory, with its counts and its `AsyncReMe`.
        session_id: The given id of the conversation.
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
        chat_model: ChatCompletionClient | None = None,
        **options: Unpack[TurnOptions],
    ) -> None:
        """Choose the workspace, and how a turn uses its memory.

        Args:
            database_url: A database URL or settings; None for the settings of the environment.
            workspace_id: The workspace. By default all users share the workspace `default`.
            client: An open `AsyncReMe` or `ReMe` in place of a URL; it is never closed here.
            session_id: The id of the conversation of all agents with this memory. With it, a conversation that is
                restored in another process is continued, not recorded again. By default each team, and each agent
                without a team, has its own.
            chat_model: The model that reads conversations for memory, such as the agent's own; by default the one in
                the settings. Without any, people's statements are kept word for word.
            options: How a turn uses memory; see `TurnOptions`.
        """
        chat = as_chat(chat_model) if chat_model is not None else None
        self.turn = TurnMemory(database_url, workspace_id, client=client, chat=chat, **options)
        self._chat_model = chat_model
        self._options = options
        self.session_id = check_session(session_id)
        self.contexts = Contexts(self.turn, self.session_id)
        listen_to_tool_calls()

    def __exit__(self, *exception: object) -> None:
        self.turn.call(self.close)

    async def update_context(self, model_context: ChatCompletionContext) -> UpdateContextResult:
        """Put the note into the context, before the user's last message, and let the turn be recorded when it ends.

        The note of the turn before is removed. If the context does not show the model the note, as a buffer of one
        message does not, there is a warning, and no note.

        Raises:
            InputError: `position` is `system`: AutoGen's system messages have no mark by which to remove them again.
                Or there is a `window`: a memory cannot change what the agent's own context shows the model.
        """
        for name, is_given in (("position='system'", self.turn.position == "system"), ("window", self.turn.window)):
            if is_given:
                raise InputError(f"for {name} use a ReMeAssistantAgent, or a ReMeModelContext around the memory")
        source = watch(model_context, self.contexts)
        await name_asker(model_context)
        await self.contexts.begin_turn(model_context)
        session_id = self.contexts.session_of(model_context)
        asked = prefer_person(await visible_messages(model_context))
        note = await self.turn.begin(asked, session_id=session_id)
        await replace_note(model_context, note.text, source)
        if note.text and not any(is_note(message, source) for message in await model_context.get_messages()):
            await replace_note(model_context, "", source)
            log.warning(
                "the model was not shown what was recalled: a %s leaves out the message with the note. "
                "Let it show more messages, or use a ReMeAssistantAgent, or a ReMeModelContext around the memory",
                type(model_context).__name__,
            )
            return UpdateContextResult(memories=MemoryQueryResult(results=[]))
        return UpdateContextResult(memories=MemoryQueryResult(results=note_contents(note)))

    async def query(
        self, query: str | MemoryContent, cancellation_token: CancellationToken | None = None, **kwargs: Any
    ) -> MemoryQueryResult:
        """Search memory.

        Args:
            query: What to look for.
            cancellation_token: Stops the search.
            kwargs: `top_k` (or `limit`, or `k`, as other memories call it) is how many memories to give at most; give
                one of the three.
                `min_relevance` is the chance that anything fits, 0 to 1, below which nothing is given.

        Raises:
            InputError: The query is not text or JSON, an option is unknown, or a value does not fit.
            ReMeError: Memory cannot be reached.
        """
        limits = [kwargs.pop(name) for name in ("top_k", "limit", "k") if name in kwargs]
        if len(limits) > 1:
            raise InputError("top_k, limit and k are the same; give one")
        min_relevance = kwargs.pop("min_relevance", 0.0)
        refuse_unknown(kwargs, known=("top_k", "limit", "k", "min_relevance"))
        text = _text(query) if isinstance(query, MemoryContent) else query
        limit = check_count("top_k", limits[0]) if limits else self.turn.top_k
        hits = await cancellable(self.turn.recall(text, limit=limit, min_relevance=min_relevance), cancellation_token)
        return MemoryQueryResult(results=[to_content(hit.memory, hit.parts.final) for hit in hits[:limit]])

    async def add(self, content: MemoryContent, cancellation_token: CancellationToken | None = None) -> None:
        """Store one memory. `metadata["kind"]` is its kind, by default `custom`.

        Raises:
            InputError: It is not text or JSON, or its kind is unknown.
            ReMeError: Memory cannot be reached.
        """
        metadata = plain_json(content.metadata or {})
        kind = metadata.pop("kind", Kind.CUSTOM)
        mime_type = content.model_dump()["mime_type"]  # as text, whether it was an enumeration or a text
        if mime_type != MemoryMimeType.TEXT.value:
            metadata[MIME_TYPE] = mime_type
        if kind not in list(Kind):
            raise InputError(f"there is no kind {kind!r}; known are {', '.join(Kind)}")
        memory = Remembered(
            kind=Kind(kind), content=_text(content), metadata=metadata, author="autogen", **self.turn.scope
        )
        work = self.turn.reme.memories.add(self.turn.workspace_id, memory, actor="autogen")
        await cancellable(work, cancellation_token)

    async def clear(self) -> None:
        """Erase the memories and messages of this memory's scope, or of the whole workspace if it has no scope."""
        await self.turn.clear()

    async def close(self) -> None:
        """Record unfinished turns, deliver what waits, and disconnect; the next use connects again."""
        await self.contexts.record_all()
        await self.turn.aclose()

    async def aclose(self) -> None:
        """`close`, as the other adapters call it."""
        await self.close()

    def _to_config(self) -> ReMeMemoryConfig:
        return ReMeMemoryConfig(
            workspace_id=self.turn.workspace_id,
            database_url=self.turn.settings.database_url,
            data_dir=self.turn.settings.data_dir if self.turn.settings.database_url is None else None,
            redact=self.turn.settings.redact,
            options=self._options,
            session_id=self.session_id,
            chat_model=self._chat_model.dump_component() if self._chat_model is not None else None,
        )

    @classmethod
    def _from_config(cls, config: ReMeMemoryConfig) -> Self:
        model = ChatCompletionClient.load_component(config.chat_model) if config.chat_model is not None else None
        return cls(
            _settings_of(config), config.workspace_id, session_id=config.session_id, chat_model=model, **config.options
        )


def load_memory(config: ComponentModel, owner: str) -> ReMeMemory:
    """The memory of a component that is made again from its configuration."""
    memory = Memory.load_component(config)
    if not isinstance(memory, ReMeMemory):
        raise ConfigurationError(f"the memory of a {owner} is a ReMeMemory, not {type(memory).__name__}")
    return memory


def note_contents(note: Note) -> list[MemoryContent]:
    """The memories of a note, in the form of AutoGen's events."""
    return [*map(to_content, note.standing), *(to_content(hit.memory, hit.parts.final) for hit in note.hits)]


async def cancellable(work: Coroutine[Any, Any, Result], token: CancellationToken | None) -> Result:
    """Await a coroutine; the token can cancel it."""
    future = asyncio.ensure_future(work)
    if token is not None:
        token.link_future(future)
    return await future


def _text(content: MemoryContent) -> str:
    if isinstance(content.content, str):
        return content.content
    if isinstance(content.content, dict):
        return json.dumps(plain_json(content.content), ensure_ascii=False)
    raise InputError(f"a memory is text or JSON, not {type(content.content).__name__}; describe it in words")


def _settings_of(config: ReMeMemoryConfig) -> Settings:
    """The settings of the environment, with the database of the configuration, which take out its secrets too.

    Raises:
        ConfigurationError: The URL was masked, and the environment names no database.
    """
    settings = also_redact(Settings.load(), config.redact)
    url = config.database_url
    if url is not None and set(url.get_secret_value()) == {"*"}:
        if settings.database_url is None:
            raise ConfigurationError(
                "the database URL was masked when this component was written as JSON; set DATABASE_URL, or fill it in"
            )
        url = None
    named = {"database_url": url, "data_dir": config.data_dir}
    return settings.model_copy(update={name: value for name, value in named.items() if value is not None})
