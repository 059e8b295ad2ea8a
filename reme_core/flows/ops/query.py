"""What to search for: the query as it was asked, or one that is made from the conversation."""

from __future__ import annotations

from pydantic import BaseModel, Field

from reme_core.errors import InputError
from reme_core.ops.deps import Deps
from reme_core.ops.registry import op
from reme_core.ops.state import RetrievalState
from reme_core.ops.transcript import condense, language, said, transcript
from reme_core.prompts import prompt
from reme_core.text.fence import fenced

_LAST_MESSAGES, _CHARACTERS = 3, 200  # ReMe 0.1's: enough to tell what a conversation is about just now


class _Query(BaseModel):
    query: str = Field(description="What to search the memory for")


@op(reads={"query", "messages"}, writes={"search_query"})
async def build_query(state: RetrievalState, deps: Deps, *, enable_llm_build: bool = True) -> None:
    """Take the query as given; else make one from the messages, by the model or from the last three.

    Raises:
        InputError: There is neither.
    """
    messages = said(state.messages)
    if state.query.strip():
        state.search_query = state.query.strip()
    elif not messages:
        raise InputError("query: nothing to search for; give a query, or messages to make one from")
    elif deps.chat is not None and enable_llm_build:
        request = prompt(
            "build_query", language(deps.language, messages), conversation=fenced(transcript(messages), "conversation")
        )
        answer = await deps.chat.structured(request, _Query, purpose="build_query")
        state.search_query = answer.query.strip() or _recent(state)
    else:
        state.search_query = _recent(state)


def _recent(state: RetrievalState) -> str:
    told = [condense(message.content, _CHARACTERS) for message in said(state.messages) if message.content.strip()]
    return "\n".join(told[-_LAST_MESSAGES:])
