"""`ConversationStore`: the default store for the short-term part of a `ReMeMemory`.

LlamaIndex's own default is an SQLite database in memory, which it never closes. Each memory then keeps a thread, which
may outlive its event loop, and the memory cannot be copied or pickled after its first use. A list has none of these
problems.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from llama_index.core.llms import ChatMessage
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus
from pydantic import Field
from pydantic_core import PydanticSerializationError

from reme_core.turn import plain_json


class StoredMessage(NamedTuple):
    """A message with its number, counted over the whole store."""

    number: int
    status: MessageStatus
    data: dict[str, Any]  # as JSON, so that a change of a message that was read changes nothing here

    @property
    def message(self) -> ChatMessage:
        """The message as an object of LlamaIndex."""
        return ChatMessage.model_validate(self.data)


class ConversationStore(AsyncDBChatStore):
    """Conversations in this process, by their keys; it need not be opened or closed.

    ```python
    memory = Memory.from_defaults(chat_store=ConversationStore())
    ```
    """

    stored: dict[str, list[StoredMessage]] = Field(default_factory=dict, repr=False)
    """The messages of each conversation, in order."""
    count: int = 0
    """The number of the last message."""

    @classmethod
    def class_name(cls) -> str:
        """The name of the class in LlamaIndex's serialised objects."""
        return "ConversationStore"

    async def get_messages(
        self,
        key: str,
        status: MessageStatus | None = MessageStatus.ACTIVE,
        limit: int | None = None,
        offset: int | None = None,
    ) -> list[ChatMessage]:
        """The messages with this status (None: any), in order: at most `limit`, after the first `offset`."""
        found = self._of(key, status)[offset or 0 :]
        return [stored.message for stored in found[:limit]]

    async def count_messages(self, key: str, status: MessageStatus | None = MessageStatus.ACTIVE) -> int:
        """How many messages have this status (None: any)."""
        return len(self._of(key, status))

    async def add_message(self, key: str, message: ChatMessage, status: MessageStatus = MessageStatus.ACTIVE) -> None:
        """Append a message."""
        await self.add_messages(key, [message], status)

    async def add_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Append messages."""
        self.load(key, [StoredMessage(0, status, _as_json(message)) for message in messages])

    async def set_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Replace all messages."""
        await self.delete_messages(key)
        await self.add_messages(key, messages, status)

    async def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Remove the message with this number, counted from 1 over the whole store, and return it."""
        found = [stored for stored in self._of(key, None) if stored.number == idx]
        self._drop(key, found)
        return found[0].message if found else None

    async def delete_messages(self, key: str, status: MessageStatus | None = None) -> None:
        """Remove the messages with this status (None: any)."""
        self._drop(key, self._of(key, status))

    async def delete_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Remove the oldest `n` active messages, and return them."""
        oldest = self._of(key, MessageStatus.ACTIVE)[:n]
        self._drop(key, oldest)
        return [stored.message for stored in oldest]

    async def archive_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Archive the oldest `n` active messages, and return them."""
        oldest = self._of(key, MessageStatus.ACTIVE)[:n]
        archived = {stored.number for stored in oldest}
        self.stored[key] = [
            stored._replace(status=MessageStatus.ARCHIVED) if stored.number in archived else stored
            for stored in self._of(key, None)
        ]
        return [stored.message for stored in oldest]

    async def get_keys(self) -> list[str]:
        """The conversations that have messages."""
        return [key for key, stored in self.stored.items() if stored]

    def dump(self, key: str) -> list[StoredMessage]:
        """All messages of a conversation, to be serialised."""
        return self._of(key, None)

    def load(self, key: str, messages: Iterable[StoredMessage]) -> None:
        """Append messages of a conversation, such as `dump` gave, each with its status and a new number."""
        for stored in messages:
            self.count += 1
            self.stored.setdefault(key, []).append(stored._replace(number=self.count))

    def _of(self, key: str, status: MessageStatus | None) -> list[StoredMessage]:
        return [stored for stored in self.stored.get(key, ()) if status is None or stored.status == status]

    def _drop(self, key: str, unwanted: list[StoredMessage]) -> None:
        numbers = {stored.number for stored in unwanted}
        self.stored[key] = [stored for stored in self._of(key, None) if stored.number not in numbers]


def _as_json(message: ChatMessage) -> dict[str, Any]:
    try:
        return message.model_dump(mode="json")
    except (PydanticSerializationError, ValueError):  # an object of an SDK stands beside the words, say
        beside = plain_json(message.additional_kwargs)
        return message.model_copy(update={"additional_kwargs": beside}).model_dump(mode="json")
