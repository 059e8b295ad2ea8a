"""The steps of a retrieval: a query, the memories that fit it, their order, and an answer made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pydantic import BaseModel, Field

from reme_core.errors import InputError, ModelAnswerError
from reme_core.flows.degraded import ask_model, report_degraded
from reme_core.flows.deps import Deps
from reme_core.flows.drafts import confidence_of
from reme_core.flows.registry import op
from reme_core.flows.state import RetrievalState
from reme_core.given import part_to_read
from reme_core.models import ChatModel, Conversation, Reranker
from reme_core.models.rerank import ChatReranker
from reme_core.prompts import Language, prompt
from reme_core.prompts.fence import as_text, fence, note, numbered_list
from reme_core.prompts.transcript import condense, language, speech_in, transcript
from reme_core.store.recall import number_ranks
from reme_core.types import Hit, Kind, Message

# Of a conversation, as in ReMe 0.1: enough to show what it is about at the moment.
_LAST_MESSAGES, _QUERY_CHARACTERS, _TASK_CHARACTERS = 3, 200, 300


class _Query(BaseModel):
    query: str = Field(description="What to search the memory for")


@op(reads={"query", "messages"}, writes={"search_query"}, only_reads=True)
async def build_query(state: RetrievalState, deps: Deps, *, enable_llm_build: bool = True) -> None:
    """Take the caller's query; without one, let the model write one from the messages, or take the last three.

    Raises:
        InputError: There is neither.
    """
    messages = speech_in(state.messages)
    if state.query.strip():
        state.search_query = part_to_read(state.query.strip())
    elif not messages:
        raise InputError("query: nothing to search for; give a query, or messages to make one from")
    elif deps.chat is not None and enable_llm_build:
        request = prompt(
            "build_query", language(deps.language, messages), conversation=fence(transcript(messages), "conversation")
        )
        asking = deps.chat.complete_as(request, _Query, purpose="build_query")
        answer = await ask_model(asking, "build_query", state, deps)
        state.search_query = (answer.query.strip() if answer else "") or _join_last(messages)
    else:
        state.search_query = _join_last(messages)


def _join_last(messages: Sequence[Message]) -> str:
    said = [condense(message.content, _QUERY_CHARACTERS) for message in messages if message.content.strip()]
    return "\n".join(said[-_LAST_MESSAGES:])


@op(
    reads={"search_query", "top_k"},
    uses={"min_relevance", "now", "as_of", "held_at"},
    writes={"hits", "retrieval_id"},
    only_reads=True,
)
async def recall(
    state: RetrievalState, deps: Deps, *, kind: str = "task", candidates: int = 0, threshold_score: float | None = None
) -> None:
    """Find the memories that fit the search query and are not over.

    Args:
        kind: A kind, or a family of kinds: `task`, `personal`, `tool`.
        candidates: Find at least so many, for a reranker to choose `top_k` from.
        threshold_score: Leave out memories whose cosine similarity to the query is below.
    """
    found = await deps.recall(
        state.workspace_id,
        state.search_query,
        state.filters_of(kind, deps.now()),
        limit=max(state.top_k, candidates),
        min_relevance=state.min_relevance,
        flow=deps.flow,
    )
    hits = found.hits
    if threshold_score is not None:
        hits = [hit for hit in hits if hit.parts.similarity is not None and hit.parts.similarity >= threshold_score]
    state.hits, state.retrieval_id = number_ranks(hits), found.retrieval_id
    report_degraded(state, "recall", found.degraded)


@op(reads={"search_query", "hits", "top_k"}, writes={"hits"}, only_reads=True)
async def rerank(
    state: RetrievalState,
    deps: Deps,
    *,
    enable_llm_rerank: bool = True,
    enable_score_filter: bool = False,
    min_score_threshold: float = 0.3,
    top_k: int | None = None,
) -> None:
    """Order what was recalled: by the reranker, else by the chat model, else as it is; and keep the best.

    Args:
        enable_llm_rerank: Let the chat model order them where no reranker is set.
        enable_score_filter: Leave out memories that their makers rated low.
        min_score_threshold: The least mean of a memory's confidence (0.5 where untold) and its score that passes.
        top_k: How many to keep; default is what the caller asked for.
    """
    hits = state.hits
    if enable_score_filter:
        hits = [h for h in hits if (confidence_of(h.memory) + h.memory.score) / 2 >= min_score_threshold]
    ranker = deps.reranker or (ChatReranker(deps.chat) if deps.chat is not None and enable_llm_rerank else None)
    if ranker is not None and len(hits) > 1:
        speech = language(deps.language, [state.search_query])
        hits = await _order(ranker, hits, [fence(as_text(hit.memory, speech), "memory") for hit in hits], state, deps)
    state.hits = number_ranks(hits[: top_k or state.top_k])


@op(reads={"search_query", "hits", "top_k"}, writes={"hits"}, only_reads=True)
async def semantic_rank(
    state: RetrievalState, deps: Deps, *, enable_ranker: bool = True, least_candidates: int = 20
) -> None:
    """Let the rank model order what was recalled, where one is set and there is much to choose from.

    Args:
        enable_ranker: If false, recall's own order stands.
        least_candidates: With no more than this, recall's own order stands (MemoryScope's 20).
    """
    hits = [hit for hit in state.hits if hit.memory.kind != Kind.CONVERSATION]
    messages = [hit for hit in state.hits if hit.memory.kind == Kind.CONVERSATION]
    if deps.reranker is not None and enable_ranker and len(hits) > least_candidates:
        hits = await _order(deps.reranker, hits, [hit.content for hit in hits], state, deps)
    # Messages are not ranked: they stand behind, as recall ordered them.
    state.hits = number_ranks([*hits[: state.top_k], *messages])


async def _order(
    ranker: Reranker, hits: Sequence[Hit], texts: Sequence[str], state: RetrievalState, deps: Deps
) -> list[Hit]:
    # A ranker may leave some out, and has no answer if it failed; those keep their order, behind the others.
    ranked = await ask_model(ranker.rank(state.search_query, texts), "rerank", state, deps) or []
    return [hits[index] for index in dict.fromkeys([*(index for index, _ in ranked), *range(len(hits))])]


@op(reads={"hits", "query", "messages"}, writes={"answer"}, only_reads=True)
async def merge(state: RetrievalState, deps: Deps) -> None:
    """Write the recalled memories into a note, as a numbered list."""
    speech = _language(state, deps)
    state.answer = note(numbered_list(state.memories, speech), speech)


@op(reads={"hits", "query", "messages"}, writes={"answer"}, only_reads=True)
async def rewrite(state: RetrievalState, deps: Deps, *, enable_llm_rewrite: bool = True) -> None:
    """Let the model write one briefing for the task from the recalled memories; without a model, list them.

    If the model fails, they are listed too, and the report says why (`degraded`).
    """
    if deps.chat is None or not enable_llm_rewrite or not state.hits:
        await merge(state, deps)
        return
    speech = _language(state, deps)
    latest = speech_in(state.messages)[-_LAST_MESSAGES:]
    recent = [message.model_copy(update={"content": message.content[:_TASK_CHARACTERS]}) for message in latest]
    task = "\n".join(part for part in (state.query, transcript(recent)) if part.strip())
    request = prompt(
        "rewrite", speech, task=fence(task, "task"), memories=fence(numbered_list(state.memories, speech), "memories")
    )
    written = await ask_model(_write(request, deps.chat, deps.tell), "rewrite", state, deps)
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
    return language(deps.language, [state.query, *state.messages])
