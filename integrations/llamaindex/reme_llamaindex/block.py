"""`ReMeMemoryBlock`: what is known, as a block of a stock LlamaIndex `Memory`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.llms import ChatMessage
from llama_index.core.memory import BaseMemoryBlock

from reme_core.ops.identity import stable_id
from reme_core.schema import Message
from reme_llamaindex.connected import Connected
from reme_llamaindex.convert import from_llamaindex
from reme_llamaindex.usage import report_usage


class ReMeMemoryBlock(Connected, BaseMemoryBlock[str]):
    """Recalls for a stock `Memory`, and records what leaves its short-term part.

    ```python
    memory = Memory.from_defaults(memory_blocks=[ReMeMemoryBlock("postgresql://…", "alice")])
    ```

    LlamaIndex tells a block of a message only when the conversation outgrows its token limit. To have every turn
    recorded, use `ReMeMemory`.
    """

    name: str = "reme"

    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:
        present = from_llamaindex(messages or [])
        turn_id = _turn_id(present, block_kwargs.get("session_id"))
        return (await self.turn.begin(present, turn_id)).text if turn_id else ""

    async def _aput(self, messages: list[ChatMessage]) -> None:
        session_id = str(messages[0].additional_kwargs.get("session_id") or "") if messages else ""
        await self.turn.record(from_llamaindex(messages, session_id), session_id=session_id)
        report_usage(self.turn.take_usage())


def _turn_id(messages: Sequence[Message], session_id: object) -> str:
    """Names the turn by its question and by how many went before, since LlamaIndex asks a block several times a turn.

    After tools it gives the question a second time, right behind the first; that is the same turn.
    """
    asked: list[str] = []
    for before, message in zip([None, *messages], messages, strict=False):
        repeated = before is not None and before.role == "user" and before.content == message.content
        if message.role == "user" and not repeated:
            asked.append(message.content)
    return stable_id(session_id, len(asked), asked[-1]) if asked else ""
