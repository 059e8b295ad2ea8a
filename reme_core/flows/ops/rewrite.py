"""What a retrieval says in the end: one briefing that the model writes, or the memories as a list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from reme_core.models import ChatModel
from reme_core.ops.deps import Deps
from reme_core.ops.notes import listed, note
from reme_core.ops.registry import op
from reme_core.ops.state import RetrievalState
from reme_core.ops.transcript import language, said, transcript
from reme_core.prompts import Language, prompt
from reme_core.schema import Message
from reme_core.text.fence import fenced

_LAST_MESSAGES, _CHARACTERS = 3, 300  # ReMe 0.1's


@op(reads={"hits", "query", "messages"}, writes={"answer"}, aliases=("merge_memory", "merge_experience"))
async def merge(state: RetrievalState, deps: Deps) -> None:
    """Put the recalled memories into one note, as a numbered list."""
    speech = _language(state, deps)
    state.answer = note(listed(state.memories, speech), speech)


@op(reads={"hits", "query", "messages"}, writes={"answer"}, aliases=("rewrite_memory", "rewrite_experience"))
async def rewrite(state: RetrievalState, deps: Deps, *, enable_llm_rewrite: bool = True) -> None:
    """Let the model merge the recalled memories into one briefing for this task; without a model, list them."""
    if deps.chat is None or not enable_llm_rewrite or not state.hits:
        await merge(state, deps)
        return
    speech = _language(state, deps)
    recent = [m.model_copy(update={"content": m.content[:_CHARACTERS]}) for m in said(state.messages)[-_LAST_MESSAGES:]]
    task = "\n".join(part for part in (state.query, transcript(recent)) if part.strip())
    request = prompt(
        "rewrite", speech, task=fenced(task, "task"), memories=fenced(listed(state.memories, speech), "memories")
    )
    state.answer = note(await _written(request, deps.chat, deps.tell), speech)


async def _written(
    request: Sequence[Message | dict[str, Any]], chat: ChatModel, tell: Callable[[str], None] | None
) -> str:
    if tell is None:
        return (await chat.complete(request, purpose="rewrite")).text
    pieces = []
    async for piece in chat.stream(request, purpose="rewrite"):
        pieces.append(piece)
        tell(piece)
    return "".join(pieces)


def _language(state: RetrievalState, deps: Deps) -> Language:
    return language(deps.language, [Message(role="user", content=state.query), *state.messages])
