"""The answer of a retrieval: a briefing that the model writes, or the memories as a list."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from reme_core.errors import ModelAnswerError
from reme_core.flows.degraded import ask_model
from reme_core.flows.deps import Deps
from reme_core.flows.registry import op
from reme_core.flows.state import RetrievalState
from reme_core.models import ChatModel, Conversation
from reme_core.prompts import Language, prompt
from reme_core.prompts.fence import fence
from reme_core.prompts.note_text import note, numbered_list
from reme_core.prompts.transcript import language, speech_in, transcript
from reme_core.types import Message

_LAST_MESSAGES, _CHARACTERS = 3, 300  # of the conversation, as in ReMe 0.1


@op(reads={"hits", "query", "messages"}, writes={"answer"})
async def merge(state: RetrievalState, deps: Deps) -> None:
    """Write the recalled memories into a note, as a numbered list."""
    speech = _language(state, deps)
    state.answer = note(numbered_list(state.memories, speech), speech)


@op(reads={"hits", "query", "messages"}, writes={"answer"})
async def rewrite(state: RetrievalState, deps: Deps, *, enable_llm_rewrite: bool = True) -> None:
    """Let the model write one briefing for the task from the recalled memories; without a model, list them.

    If the model fails, they are listed too, and the report says why (`degraded`).
    """
    if deps.chat is None or not enable_llm_rewrite or not state.hits:
        await merge(state, deps)
        return
    speech = _language(state, deps)
    recent = [
        m.model_copy(update={"content": m.content[:_CHARACTERS]}) for m in speech_in(state.messages)[-_LAST_MESSAGES:]
    ]
    task = "\n".join(part for part in (state.query, transcript(recent)) if part.strip())
    request = prompt(
        "rewrite", speech, task=fence(task, "task"), memories=fence(numbered_list(state.memories, speech), "memories")
    )
    written = await ask_model(partial(_write, request, deps.chat, deps.tell), "rewrite", state, deps)
    state.answer = note(numbered_list(state.memories, speech) if written is None else written, speech)


async def _write(request: Conversation, chat: ChatModel, tell: Callable[[str], None] | None) -> str:
    pieces = []
    if tell is None:
        pieces.append((await chat.complete(request, purpose="rewrite")).text)
    else:
        async for piece in chat.stream(request, purpose="rewrite"):
            pieces.append(piece)
            tell(piece)
    if not (text := "".join(pieces)).strip():
        raise ModelAnswerError(f"{chat.name} wrote nothing")
    return text


def _language(state: RetrievalState, deps: Deps) -> Language:
    return language(deps.language, [Message(role="user", content=state.query), *state.messages])
