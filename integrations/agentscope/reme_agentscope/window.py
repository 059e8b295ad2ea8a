"""Shows the model the part of a context that fits its window; the agent's state keeps all messages."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple

from agentscope.message import Msg, TextBlock, ToolCallBlock, ToolResultBlock, UserMsg

from reme_agentscope.convert import text_of
from reme_core.turn import SESSION, CountTokens, TurnMemory, fit_window
from reme_core.types import Message, ToolCall


class _Part(NamedTuple):
    """A block with text, a tool call or a result, after the blocks that belong to it (thoughts, hints, images)."""

    place: int
    blocks: list[Any]
    message: Message


async def what_fits(
    turn: TurnMemory, messages: list[Msg], session_id: str, count_tokens: CountTokens | None
) -> list[Msg]:
    """The messages of a context that fit the memory's window, with a summary of the others."""
    if turn.window is None:
        return messages
    SESSION.set(session_id)
    parts = [part for place, msg in enumerate(messages) for part in _parts(place, msg)]
    fitted = await fit_window(turn, [part.message for part in parts], session_id, count_tokens=count_tokens)
    if fitted is None:
        return messages
    shown: list[Msg] = []
    pairs = zip(fitted.places, fitted.messages, strict=True)
    for place, group in groupby(pairs, key=lambda pair: parts[pair[0]].place if pair[0] >= 0 else -1):
        kept = list(group)
        if place < 0:
            shown.append(UserMsg(name="memory", content=[TextBlock(text=kept[0][1].content)]))
        else:
            blocks = [block for number, message in kept for block in _blocks(parts[number], message)]
            shown.append(messages[place].model_copy(update={"content": blocks}))
    return shown


def _parts(place: int, msg: Msg) -> Iterator[_Part]:
    waiting: list[Any] = []
    for block in msg.content:
        waiting.append(block)
        if isinstance(block, TextBlock | ToolCallBlock | ToolResultBlock):
            yield _Part(place, waiting, _message(msg, block))
            waiting = []
    if waiting or not msg.content:
        yield _Part(place, waiting, Message(role=msg.role))


def _message(msg: Msg, block: Any) -> Message:
    if isinstance(block, ToolCallBlock):
        call = ToolCall(id=block.id, name=block.name, arguments=block.input)
        return Message(role="assistant", tool_calls=[call])
    if isinstance(block, ToolResultBlock):
        return Message(role="tool", author=block.name, tool_call_id=block.id, content=text_of(block.output))
    return Message(role=msg.role, content=block.text)


def _blocks(part: _Part, message: Message) -> list[Any]:
    if message is part.message:
        return part.blocks
    *before, block = part.blocks
    if isinstance(block, ToolResultBlock):
        data = [] if isinstance(block.output, str) else [one for one in block.output if not isinstance(one, TextBlock)]
        return [*before, block.model_copy(update={"output": [TextBlock(text=message.content), *data]})]
    return [*before, block.model_copy(update={"text": message.content})]
