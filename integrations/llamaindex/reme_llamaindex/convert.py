"""Converts LlamaIndex's messages and models for memory."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from llama_index.core.base.llms.types import ToolCallBlock
from llama_index.core.callbacks.token_counting import get_tokens_from_response
from llama_index.core.llms import LLM, ChatMessage, MessageRole

from reme_core.turn import AgentChat, Completion, calls_of_api, check_model, heard_call, heard_message
from reme_core.types import Message, ToolCall, new_id

_ROLES: dict[MessageRole, str] = {
    MessageRole.SYSTEM: "system",
    MessageRole.DEVELOPER: "system",
    MessageRole.ASSISTANT: "assistant",
    MessageRole.CHATBOT: "assistant",
    MessageRole.MODEL: "assistant",
    MessageRole.TOOL: "tool",
    MessageRole.FUNCTION: "tool",
}

# How LlamaIndex's ReAct agents write their steps as text. The last step has the answer.
_REACT = re.compile(r"(?P<thoughts>(?:Thought: .*\n)?Thought: .*?)\nAnswer: (?P<answer>.*)", re.DOTALL)

_CODE_RESULT = "Result of executing the code given:\n\n"
"""How a message begins in which LlamaIndex's `CodeActAgent`, in the name of the user, tells what its code gave."""


def from_llamaindex(
    messages: Sequence[ChatMessage], session_id: str = "", agent: str = "", asker: str = ""
) -> list[Message]:
    """Messages with new ids, since LlamaIndex's have none.

    `agent` is the author of those of the assistant, and `asker` the one of those with the role of a user, if it is an
    agent that asks by a tool. The author of a result is the tool, if its call is among the messages.
    """
    authors = {"assistant": agent, "user": asker}
    said = [_message(message, session_id, authors) for message in messages]
    tools: dict[str, str] = {}
    for message in said:
        tools |= {call.id: call.name for call in message.tool_calls if call.id}
        if message.role == "tool":
            message.author = message.author or tools.get(message.tool_call_id, "")
    return said


def read_message(message: ChatMessage) -> list[Message]:
    """A single message as a `Message` in a list."""
    return from_llamaindex([message])


def _message(message: ChatMessage, session_id: str, authors: Mapping[str, str]) -> Message:
    role = _ROLES.get(message.role, "user")
    if role == "user" and (message.content or "").startswith(_CODE_RESULT):
        role = "tool"
    thoughts, answer = _thoughts_and_answer(message.content or "") if role == "assistant" else ("", message.content)
    return heard_message(
        role,
        answer,
        own_id=new_id(),
        session_id=session_id,
        reasoning_content=thoughts,
        author=message.additional_kwargs.get("name") or authors.get(role),
        tool_calls=_calls(message),
        tool_call_id=message.additional_kwargs.get("tool_call_id"),
    )


def _thoughts_and_answer(content: str) -> tuple[str, str]:
    """The thoughts and the answer of a ReAct agent, which it writes into one message."""
    # Of an agent that goes in circles, thousands of thoughts without an answer would be compared with each other.
    found = _REACT.fullmatch(content) if "\nAnswer: " in content else None
    return (found["thoughts"], found["answer"].strip()) if found else ("", content)


def as_chat(llm: LLM) -> AgentChat:
    """A model of the framework as the chat model of memory."""
    check_model(llm, LLM)

    async def answer(messages: list[Message]) -> Completion:
        asked = [ChatMessage(role=message.role, content=message.content) for message in messages]
        response = await llm.achat(asked)
        prompt_tokens, completion_tokens = get_tokens_from_response(response)
        return Completion(response.message.content or "", "", [], prompt_tokens, completion_tokens)

    return AgentChat(llm.metadata.model_name, answer)


def _calls(message: ChatMessage) -> list[ToolCall]:
    """The tool calls of a message: its blocks, or in `additional_kwargs` in the form of OpenAI's API."""
    blocks = [
        heard_call(block.tool_call_id, block.tool_name, block.tool_kwargs)
        for block in message.blocks
        if isinstance(block, ToolCallBlock)
    ]
    return blocks or calls_of_api(message.additional_kwargs.get("tool_calls"))
