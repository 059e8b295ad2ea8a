"""An agent loop with a memory: the model searches the memory, saves to it, and answers."""

from __future__ import annotations

import json
from typing import Any

from reme_core.errors import ConfigurationError, ModelAnswerError
from reme_core.flows.deps import Deps
from reme_core.flows.registry import op
from reme_core.flows.state import RetrievalState
from reme_core.given import storable
from reme_core.models import Tool
from reme_core.prompts import prompt
from reme_core.prompts.fence import NOTE, NOTE_METADATA, fence, numbered_list
from reme_core.prompts.transcript import language
from reme_core.types import Kind, Memory, Message, ToolCall

_TEXT = {"type": "string"}
_SEARCH = Tool(
    "search_memory",
    "Look for what was learned from earlier tasks.",
    {"type": "object", "properties": {"query": _TEXT}, "required": ["query"]},
)
_SAVE = Tool(
    "save_memory",
    "Keep a lesson for later tasks: the situation in which it helps, and what to do there.",
    {"type": "object", "properties": {"when_to_use": _TEXT, "content": _TEXT}, "required": ["when_to_use", "content"]},
)
_TOOLS = {tool.name: tool for tool in (_SEARCH, _SAVE)}


@op(reads={"query", "messages", "top_k"}, uses={"now", "as_of", "held_at"}, writes={"answer", "transcript"})
async def react(state: RetrievalState, deps: Deps, *, max_steps: int = 8) -> None:
    """Answer the query in a loop of thinking, searching the memory and saving to it.

    Raises:
        ConfigurationError: No chat model is set.
        ModelAnswerError: The model still calls tools after `max_steps` steps.
    """
    if deps.chat is None:
        raise ConfigurationError(
            "the flow 'react' needs a chat model: set llm.default.model_name, .base_url and .api_key"
        )
    speech, at = language(deps.language, [state.query]), state.now or deps.now()
    instruction, request = prompt("react", speech, query=state.query, now=f"{at:%Y-%m-%d %H:%M %Z}")
    state.transcript = [Message(role="user", content=state.query)]
    conversation: list[Message | dict[str, Any]] = [instruction, *state.messages, request]
    for _ in range(max_steps):
        completion = await deps.chat.complete(conversation, tools=list(_TOOLS.values()), purpose="react")
        state.transcript.append(completion.as_message())
        if not completion.tool_calls:
            state.answer = completion.text
            return
        for call in completion.tool_calls:
            result = await _run_tool(call, state, deps, author=deps.chat.name)
            # Marked as a note, so that what was recalled is not learned again.
            state.transcript.append(
                Message(role="tool", content=result, tool_call_id=call.id, metadata=dict(NOTE_METADATA))
            )
        # The transcript begins with the bare query; the model is shown `request` in its place.
        conversation = [instruction, *state.messages, request, *state.transcript[1:]]
    raise ModelAnswerError(f"'{deps.chat.name}' gave no answer within {max_steps} steps; raise react(max_steps=...)")


async def _run_tool(call: ToolCall, state: RetrievalState, deps: Deps, *, author: str) -> str:
    # Errors are results too, so that the model can correct its call.
    if call.name not in _TOOLS:
        return f"Error: there is no tool '{call.name}'; call {' or '.join(_TOOLS)}."
    try:
        arguments = json.loads(call.arguments or "{}")
        values = {name: storable(str(arguments[name])) for name in _TOOLS[call.name].parameters["required"]}
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        return f"Error: {call.name}({call.arguments}) cannot be read: {error!r}. Give JSON with all required fields."
    if not all(value.strip() for value in values.values()):
        return "Error: a required field is empty."
    if call.name == _SEARCH.name:
        filters = state.filters_of("task", deps.now())
        found = await deps.recall(state.workspace_id, values["query"], filters, limit=state.top_k, flow=deps.flow)
        speech = language(deps.language, [state.query])
        return fence(numbered_list(found.memories, speech), NOTE) if found else "Nothing was found."
    lesson = Memory(kind=Kind.TASK, author=author, **values)
    [stored] = await deps.memories.add(
        state.workspace_id, lesson, actor=deps.flow, reason="saved by the model", **state.scope
    )
    # A model may save the same lesson at several steps.
    return "Saved." if stored.seen_count == 1 else "That is known already."
