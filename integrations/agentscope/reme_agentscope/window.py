"""Shows the model the part of a context that fits its window; the agent's state keeps all messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from agentscope.message import Msg, TextBlock, ToolCallBlock, ToolResultBlock, UserMsg

from reme_agentscope.convert import text_of
from reme_core.turn import SESSION, CountTokens, TurnMemory, fit_messages
from reme_core.types import Message, ToolCall


class _Part(NamedTuple):
    """A block with text, a tool call or a result, after the blocks that belong to it (thoughts, hints, images)."""

    blocks: list[Any]
    message: Message


async def what_fits(
    turn: TurnMemory, messages: list[Msg], session_id: str, count_tokens: CountTokens | None
) -> list[Msg]:
    """The messages of a context that fit the memory's window, with a summary of the others."""
    SESSION.set(session_id)
    return await fit_messages(
        turn,
        messages,
        session_id,
        parts_of=lambda msg: [part.message for part in _parts(msg)],
        with_parts=_with_parts,
        summary=lambda text: UserMsg(name="memory", content=[TextBlock(text=text)]),
        count_tokens=count_tokens,
    )


def _with_parts(msg: Msg, kept: dict[int, Message]) -> Msg:
    parts = list(_parts(msg))
    blocks = [block for number, message in kept.items() for block in _blocks(parts[number], message)]
    return msg.model_copy(update={"content": blocks})


def _parts(msg: Msg) -> Iterator[_Part]:
    waiting: list[Any] = []
    for block in msg.content:
        waiting.append(block)
        if isinstance(block, TextBlock | ToolCallBlock | ToolResultBlock):
            yield _Part(waiting, _message(msg, block))
            waiting = []
    if waiting or not msg.content:
        yield _Part(waiting, Message(role=msg.role))


def _message(msg: Msg, block: Any) -> Message:
    if isinstance(block, ToolCallBlock):
        call = ToolCall(id=block.id, name=block.name, arguments=block.input)
        return Message(role="assistant", tool_calls=[call])
    if isinstance(block, ToolResultBlock):
        return Message(role="tool", author=block.name, tool_call_id=block.id, content=text_of(block.output))
    return Message(role=msg.role, content=block.text)


def _blocks(part: _Part, message: Message) -> list[Any]:
    if message.content == part.message.content:
        return part.blocks
    *before, block = part.blocks
    if isinstance(block, ToolResultBlock):
        data = [] if isinstance(block.output, str) else [one for one in block.output if not isinstance(one, TextBlock)]
        return [*before, block.model_copy(update={"output": [TextBlock(text=message.content), *data]})]
    return [*before, block.model_copy(update={"text": message.content})]
