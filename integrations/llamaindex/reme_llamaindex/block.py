"""`ReMeMemoryBlock`: long-term memory as a block of LlamaIndex's own `Memory`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from llama_index.core.llms import LLM, ChatMessage
from llama_index.core.memory import BaseMemoryBlock
from pydantic import PrivateAttr

from reme_core.errors import InputError
from reme_core.turn import Client, ReMeLike, TurnOptions, stable_id
from reme_core.types import Message
from reme_llamaindex.convert import from_llamaindex
from reme_llamaindex.long_term import LongTermMemory
from reme_llamaindex.usage import report_usage


class BlockOptions(TurnOptions, total=False):
    """The options of a `ReMeMemoryBlock`: those of a turn, and those of LlamaIndex's blocks."""

    name: str
    description: str
    priority: int
    accept_short_term_memory: bool
    chat_model: LLM


class ReMeMemoryBlock(LongTermMemory, BaseMemoryBlock[str]):
    """Recalls for LlamaIndex's `Memory`, and records messages that leave its short-term part.

    ```python
    memory = Memory.from_defaults(memory_blocks=[ReMeMemoryBlock("postgresql://…", "alice")])
    ```

    LlamaIndex gives a message to blocks only when the conversation exceeds its token limit. To record every turn, use
    `ReMeMemory`.
    """

    name: str = "reme"
    _turn_id: str = PrivateAttr(default="")

    def __init__(
        self,
        database_url: ReMeLike = None,
        workspace_id: str | None = None,
        *,
        client: Client | None = None,
        **options: Unpack[BlockOptions],
    ) -> None:
        """Choose the workspace, and how a turn uses its memory.

        Args:
            database_url: A database URL or settings; None for the settings of the environment.
            workspace_id: The workspace. By default all users share the workspace `default`.
            client: An open `AsyncReMe` or `ReMe` in place of a URL; it is never closed here.
            options: `chat_model`, the model that reads conversations for memory, such as the agent's own (by default
                the one in the settings; without any, people's statements are kept word for word); how a turn uses
                memory (see `TurnOptions`); and the options of LlamaIndex's `BaseMemoryBlock`.
        """
        if options.get("position", "user") != "user":
            raise InputError("the Memory decides where its blocks stand: Memory(insert_method=InsertMethod.SYSTEM)")
        super().__init__(database_url, workspace_id, client=client, **options)
        if self.turn.window is not None:
            raise InputError(
                "the Memory decides what the model is shown: Memory(token_limit=…), or ReMeMemory(window=…)"
            )

    @property
    def place(self) -> tuple[str, str]:
        """An empty id of the conversation, and the id of the turn, which is unique among conversations."""
        return "", self._turn_id

    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:
        present = from_llamaindex(messages or [])
        session_id = str(block_kwargs.get("session_id") or "")
        self._turn_id = _turn_id(present, session_id)
        return (await self.turn.begin(present, self._turn_id, session_id=session_id)).text if self._turn_id else ""

    async def _aput(self, messages: list[ChatMessage]) -> None:
        session_id = str(messages[0].additional_kwargs.get("session_id") or "") if messages else ""
        await self.turn.record(from_llamaindex(messages, session_id), session_id=session_id)
        report_usage(self.turn.take_usage())


def _turn_id(messages: Sequence[Message], session_id: object) -> str:
    """An id made from the question and its number in the conversation; empty if there is no question.

    LlamaIndex asks a block several times in a turn. After tool calls it gives the question twice in a row; this counts
    as one question.
    """
    asked: list[str] = []
    for before, message in zip([None, *messages], messages, strict=False):
        repeated = before is not None and before.role == "user" and before.content == message.content
        if message.role == "user" and not repeated:
            asked.append(message.content)
    return stable_id(session_id, len(asked), asked[-1]) if asked else ""
