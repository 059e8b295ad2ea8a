"""Finds memories, and puts what was found in order."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from reme_core.flows.degraded import ask_model, report_degraded
from reme_core.flows.deps import Deps
from reme_core.flows.drafts import confidence_of
from reme_core.flows.registry import op
from reme_core.flows.state import RetrievalState
from reme_core.models import Reranker
from reme_core.models.rerank import ChatReranker
from reme_core.prompts.fence import fence
from reme_core.prompts.note_text import as_text
from reme_core.prompts.transcript import language
from reme_core.store.filters import Filters
from reme_core.store.recall import number_ranks
from reme_core.types import Hit, Kind, Message


@op(
    reads={"search_query", "top_k"},
    uses={"min_relevance"},
    writes={"hits", "retrieval_id"},
)
async def recall(
    state: RetrievalState,
    deps: Deps,
    *,
    kind: str = "task",
    candidates: int = 0,
    threshold_score: float | None = None,
) -> None:
    """Find the memories that fit the search query.

    Args:
        state: Reads `search_query` and `top_k`; uses `min_relevance`.
        deps: Uses `recall`.
        kind: A kind, or a family of kinds: `task`, `personal`, `tool`.
        candidates: Find at least so many, for a reranker to choose `top_k` from.
        threshold_score: Leave out memories whose cosine similarity to the query is below.
    """
    wanted = max(state.top_k, candidates)
    filters = Filters.of(kind=kind, **state.scope)
    found = await deps.recall(
        state.workspace_id,
        state.search_query,
        filters,
        limit=wanted,
        min_relevance=state.min_relevance,
        flow=deps.flow,
    )
    # The similarity stays in the hit's parts: a memory's own score is how good it proved, not how near it is.
    state.hits = number_ranks(
        [
            hit
            for hit in found.hits
            if threshold_score is None or (hit.parts.similarity is not None and hit.parts.similarity >= threshold_score)
        ]
    )
    state.retrieval_id = found.retrieval_id
    report_degraded(state, "recall", found.degraded)


@op(reads={"search_query", "hits", "top_k"}, writes={"hits"})
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
        state: Reads `search_query`, `hits` and `top_k`.
        deps: Uses `reranker`, or `chat`.
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
        speech = language(deps.language, [Message(role="user", content=state.search_query)])
        hits = await _order(ranker, hits, [fence(as_text(hit.memory, speech), "memory") for hit in hits], state, deps)
    state.hits = number_ranks(hits[: top_k or state.top_k])


@op(reads={"search_query", "hits", "top_k"}, writes={"hits"})
async def semantic_rank(
    state: RetrievalState, deps: Deps, *, enable_ranker: bool = True, least_candidates: int = 20
) -> None:
    """Let the rank model order what was recalled, where one is set and there is much to choose from.

    Args:
        state: Reads `search_query`, `hits` and `top_k`.
        deps: Uses `reranker`.
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
    ranked = await ask_model(partial(ranker.rank, state.search_query, texts), "rerank", state, deps) or []
    return [hits[index] for index in dict.fromkeys([*(index for index, _ in ranked), *range(len(hits))])]
