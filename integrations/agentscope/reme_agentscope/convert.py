"""Converts AgentScope 2's messages and models for memory."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from agentscope.message import Msg, TextBlock, ToolCallBlock, ToolResultBlock, ToolResultState
from agentscope.model import ChatModelBase, ChatResponse

from reme_core.turn import AgentChat, Completion, Position, check_model, heard_call, heard_message
from reme_core.types import Message

# What AgentScope itself tells an agent in a message of the user. It may begin in one block and end in another.
_REMINDER: Final = re.compile(
    r"<system-reminder>.*?(?:</system-reminder>|\Z)|\A(?:(?!<system-reminder>).)*?</system-reminder>", re.DOTALL
)


def from_msg(msg: Msg, session_id: str = "", agent: str = "") -> list[Message]:
    """A message as `Message`s: its tool calls and their results, and then its text.

    For the agent of that name, the words of another agent are those of a user. What AgentScope adds to the words of a
    user (`<system-reminder>`) is left out.
    """
    text = _message(msg, msg.id, session_id, _own_words(msg) if msg.role == "user" else msg.get_text_content())
    if agent and _is_heard(msg, agent):
        text = text.model_copy(update={"role": "user"})
    return [*from_reply(msg, session_id), text]


def _own_words(msg: Msg) -> str:
    """What a user said, without what AgentScope adds to it."""
    texts = [block.text for block in msg.content if isinstance(block, TextBlock)]
    # Where there is nothing to leave out, white space stays as it is.
    own = [_REMINDER.sub("", text).strip() if _REMINDER.search(text) else text for text in texts]
    return "\n".join(words for words, text in zip(own, texts, strict=True) if words or not text)


def _is_heard(msg: Msg, agent: str) -> bool:
    """Whether a user, or another agent, says this to the agent of that name."""
    return msg.role == "user" or (msg.role == "assistant" and msg.name != agent)


def from_reply(msg: Msg, session_id: str = "") -> list[Message]:
    """The tool calls in a message, each with the text before it, and their results, in order.

    Hints are left out, and so is the text after the last result, which is the answer.
    """
    done: list[Message] = []
    words: list[str] = []
    calls: list[ToolCallBlock] = []
    for block in msg.content:
        if isinstance(block, TextBlock):
            words.append(block.text)
        elif isinstance(block, ToolCallBlock):
            calls.append(block)
        elif isinstance(block, ToolResultBlock):
            if calls:
                done.append(_call_message(msg, session_id, calls, "\n".join(words)))
                words, calls = [], []
            done.append(_result_message(msg, session_id, block))
    return [*done, _call_message(msg, session_id, calls, "\n".join(words))] if calls else done


def _call_message(msg: Msg, session_id: str, calls: Sequence[ToolCallBlock], words: str) -> Message:
    ours = [heard_call(call.id, call.name, call.input) for call in calls]
    return _message(msg, f"{msg.id}:{calls[0].id}:call", session_id, words, tool_calls=ours)


def _result_message(msg: Msg, session_id: str, block: ToolResultBlock) -> Message:
    failed = {"is_error": True} if block.state == ToolResultState.ERROR else {}
    part = _message(msg, f"{msg.id}:{block.id}", session_id, text_of(block.output), tool_call_id=block.id)
    return part.model_copy(update={"role": "tool", "author": block.name, "metadata": failed})


def _message(msg: Msg, own_id: str, session_id: str, content: Any, **said: Any) -> Message:
    return heard_message(
        msg.role,
        content,
        author="" if msg.name == "user" else msg.name,
        own_id=own_id,
        session_id=session_id,
        sent_at=msg.created_at,
        metadata=msg.metadata,
        **said,
    )


def as_chat(model: ChatModelBase) -> AgentChat:
    """A model of the framework as the chat model of memory."""
    check_model(model, ChatModelBase)

    async def answer(messages: list[Message]) -> Completion:
        asked = [
            Msg.model_validate({"name": said.role, "role": said.role, "content": [TextBlock(text=said.content)]})
            for said in messages
        ]
        given = await model(asked)
        pieces = [given] if isinstance(given, ChatResponse) else [piece async for piece in given]
        response = pieces[-1]  # if the model streams, the last piece is the whole response
        used = response.usage
        tokens = (used.input_tokens, used.output_tokens) if used else (0, 0)
        return Completion(text_of(response.content), "", [], *tokens)

    return AgentChat(model.model, answer)


def with_note(messages: Sequence[Msg], note: str, position: Position, agent: str) -> list[Msg]:
    """The messages with the note: before the last one that the agent heard, or at the end of the system message."""
    shown, is_heard = list(messages), position == "user"
    places = [n for n, msg in enumerate(shown) if (_is_heard(msg, agent) if is_heard else msg.role == "system")]
    if note and places:
        place, block = places[-1 if is_heard else 0], TextBlock(text=note)
        content = shown[place].content
        noted = [block, *content] if is_heard else [*content, block]
        shown[place] = shown[place].model_copy(update={"content": noted})
    return shown


def text_of(output: Any) -> str:
    """The text of a tool's output, without images and other data."""
    if isinstance(output, str):
        return output
    return "\n".join(part.text for part in output if isinstance(part, TextBlock))
