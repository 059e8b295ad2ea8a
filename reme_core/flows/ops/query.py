"""The query to search with: the caller's, or one made from the conversation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pydantic import BaseModel, Field

from reme_core.errors import InputError
from reme_core.flows.degraded import ask_model
from reme_core.flows.deps import Deps
from reme_core.flows.registry import op
from reme_core.flows.state import RetrievalState
from reme_core.prompts import prompt
from reme_core.prompts.fence import fence
from reme_core.prompts.transcript import condense, language, speech_in, transcript
from reme_core.types import Message

_LAST_MESSAGES, _CHARACTERS = 3, 200  # as in ReMe 0.1: enough to show what a conversation is about at the moment


class _Query(BaseModel):
    query: str = Field(description="What to search the memory for")


@op(reads={"query", "messages"}, writes={"search_query"})
async def build_query(state: RetrievalState, deps: Deps, *, enable_llm_build: bool = True) -> None:
    """Take the caller's query; without one, let the model write one from the messages, or take the last three.

    Raises:
        InputError: There is neither.
    """
    messages = speech_in(state.messages)
    if state.query.strip():
        state.search_query = state.query.strip()
    elif not messages:
        raise InputError("query: nothing to search for; give a query, or messages to make one from")
    elif deps.chat is not None and enable_llm_build:
        request = prompt(
            "build_query", language(deps.language, messages), conversation=fence(transcript(messages), "conversation")
        )
        work = partial(deps.chat.complete_as, request, _Query, purpose="build_query")
        answer = await ask_model(work, "build_query", state, deps)
        state.search_query = (answer.query.strip() if answer else "") or _join_last(messages)
    else:
        state.search_query = _join_last(messages)


def _join_last(messages: Sequence[Message]) -> str:
    said = [condense(message.content, _CHARACTERS) for message in messages if message.content.strip()]
    return "\n".join(said[-_LAST_MESSAGES:])
