"""Retrieval of what is known about a person: one statement, no model call, and a note within a budget of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from reme_core.flows.degraded import report_degraded
from reme_core.flows.deps import Deps
from reme_core.flows.ops.query_time import narrowest
from reme_core.flows.registry import op
from reme_core.flows.state import RetrievalState
from reme_core.personal.nearby import QUOTED
from reme_core.prompts.note import is_quoted, render
from reme_core.prompts.transcript import language
from reme_core.store.filters import Filters
from reme_core.store.profile import get_profile
from reme_core.store.recall import MAX_HITS, number_ranks
from reme_core.store.recall_sql import Plan
from reme_core.text.timex import AskedTime, asked_time
from reme_core.types import Hit, Kind, Memory, Message, Recollection, Status, TimeRange

TYPE_WEIGHTS: Final = {"observation": 1.0, "custom": 1.2, "insight": 2.0}
"""MemoryScope's weights by kind; see `recall_personal` for what they do here."""
_OVER: Final = 0.5
"""The factor of memories that are no longer true, if the query does not ask about the past."""


@op(
    reads={"search_query", "top_k"},
    uses={"time_ranges", "user_name", "as_of", "held_at", "now", "timezone", "min_relevance"},
    writes={"hits", "retrieval_id", "recalls"},
)
async def recall_personal(
    state: RetrievalState,
    deps: Deps,
    *,
    type_weights: dict[str, float] | None = None,
    candidates: int = 0,
    messages: int | None = None,
) -> None:
    """Recall personal memories, then what was said in conversations, word for word.

    Memories are weighted by kind, count double where they meet the time that is asked about, and half where they are
    over. Where that time is past, what held then and was closed since is found as well.

    Args:
        state: Reads `search_query`, `top_k`, and the times and filters where they are set.
        deps: Uses `recall` and `reranker`.
        type_weights: Factors for kinds; default is `TYPE_WEIGHTS`.
        candidates: Where there is a reranker, find at least so many for it to choose `top_k` from.
        messages: Give as many messages behind the memories; default is `top_k`, as adapters do.
    """
    past = narrowest(state.time_ranges)
    plan = Plan.of(type_weights=type_weights or TYPE_WEIGHTS)
    limit = max(state.top_k, candidates) if deps.reranker is not None else state.top_k
    # What is over by now may have been true at the moment that is asked about.
    status = None if state.held_at is not None and state.as_of is None else Status.ACTIVE
    filters = Filters.of(
        kind="personal", subject=state.user_name or None, status=status, as_of=state.as_of, held_at=state.held_at,
        **state.scope,
    )  # fmt: skip
    state.recalls = []
    found = await _recall(state, deps, filters, limit, AskedTime([past]) if past else None, plan)
    now = state.now or deps.now()
    hits = [_by_validity(hit, now, past) for hit in found.hits if _is_shown(hit.memory)]
    if past and past.end and past.end <= now and not (state.as_of or state.held_at):
        hits += await _held_then(state, deps, past, limit, plan)
    hits = sorted(hits, key=lambda hit: -hit.parts.final)[:limit]
    wanted = state.top_k if messages is None else messages
    hits += await _quotes(state, deps, hits, wanted) if wanted else []
    state.hits = number_ranks(hits)
    state.retrieval_id = found.retrieval_id
    report_degraded(state, "recall", found.degraded)


@op(
    reads={"hits", "search_query", "token_budget"},
    uses={"user_name", "as_of", "held_at", "recalls"},
    writes={"answer"},
)
async def write_note(state: RetrievalState, deps: Deps) -> None:
    """Render what was recalled as a fenced, dated note within the budget; standing instructions come first."""
    profile = await get_profile(
        deps.memories,
        state.workspace_id,
        subject=state.user_name or None,
        as_of=state.as_of,
        held_at=state.held_at,
        **state.scope,
    )
    speech = language(deps.language, [Message(content=state.search_query)])
    zone = deps.settings.timezone
    note = render(state.hits, state.token_budget, speech, standing=profile.memories, timezone=zone)
    state.answer = note.text
    if note.standing:
        state.recalls.append(
            deps.log_writer.log_standing(state.workspace_id, state.search_query, note.standing, session_id="")
        )
    deps.log_writer.log_note(state.workspace_id, state.recalls, lambda hit: note.why_missing(hit, state.hits))
    state.report["profile"] = [
        {"memory_id": m.memory_id, "kind": str(m.kind), "content": m.content} for m in profile.memories
    ]


async def _recall(
    state: RetrievalState,
    deps: Deps,
    filters: Filters,
    limit: int,
    time: AskedTime | None,
    plan: Plan | None = None,
) -> Recollection:
    """Recall by the query, and remember that this was done."""
    found = await deps.recall(
        state.workspace_id, state.search_query, filters, plan or Plan(), limit=limit, min_relevance=state.min_relevance,
        time=time, flow=deps.flow,
    )  # fmt: skip
    state.recalls.append(found)
    return found


async def _held_then(state: RetrievalState, deps: Deps, past: TimeRange, limit: int, plan: Plan) -> list[Hit]:
    """What held in a time that is over, and has been superseded since: "where did I live in May?" asks for that.

    Scored among all that held then; what is still in force was found already.
    """
    filters = Filters.of(kind="personal", subject=state.user_name or None, status=None, happened=past, **state.scope)
    found = await _recall(state, deps, filters, limit, AskedTime([past]), plan)
    # One without an end holds on in the words of its successor.
    closed = [hit for hit in found.hits if hit.memory.status in (Status.SUPERSEDED, Status.EXPIRED)]
    return [hit for hit in closed if hit.memory.valid_until and _is_shown(hit.memory)]


async def _quotes(state: RetrievalState, deps: Deps, hits: Sequence[Hit], limit: int) -> list[Hit]:
    """The best messages that no recalled memory quotes."""
    filters = Filters.of(kind=Kind.CONVERSATION, as_of=state.as_of, **state.scope)
    zone = state.timezone or deps.settings.timezone
    asked = asked_time(state.search_query, now=state.now or deps.now(), timezone=zone)
    found = await _recall(state, deps, filters, min(2 * limit, MAX_HITS), asked)
    memories = [hit.memory for hit in hits]
    return [hit for hit in found.hits if not is_quoted(hit.memory, memories)][:limit]


def _is_shown(memory: Memory) -> bool:
    """Whether a closed memory may still be told of: not what was deleted or forgotten, nor a quote that was read."""
    if memory.status == Status.ACTIVE:
        return True
    replaced = memory.status == Status.SUPERSEDED and memory.metadata.get("mode") == QUOTED
    return memory.status != Status.DELETED and not replaced and "forgotten" not in memory.metadata


def _by_validity(hit: Hit, now: datetime, asked: TimeRange | None) -> Hit:
    until = hit.memory.valid_until
    if asked is not None or until is None or until > now:
        return hit
    return hit.model_copy(update={"parts": hit.parts.model_copy(update={"final": hit.parts.final * _OVER})})
