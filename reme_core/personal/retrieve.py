"""Retrieval of what is known about a person: one statement, no model call, and a note within a budget of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from reme_core.flows.degraded import report_degraded
from reme_core.flows.deps import Deps
from reme_core.flows.ops.query_time import askers_zone, narrowest
from reme_core.flows.registry import op
from reme_core.flows.state import RetrievalState
from reme_core.marks import is_quote
from reme_core.prompts.note import is_quoted, render, why_missing
from reme_core.prompts.transcript import language, person_of
from reme_core.store.filters import Filters
from reme_core.store.profile import get_profile
from reme_core.store.recall import MAX_HITS, number_ranks
from reme_core.store.recall_sql import Plan
from reme_core.text.timex import AskedTime, asked_time
from reme_core.types import Hit, Kind, Memory, Recollection, Status, TimeRange

TYPE_WEIGHTS: Final = {"observation": 1.0, "custom": 1.2, "insight": 2.0}
"""MemoryScope's weights by kind; see `recall_personal` for what they do here."""
_OVER: Final = 0.5
"""The factor of memories that are no longer true, if the query does not ask about the past."""


@op(
    reads={"search_query", "top_k"},
    uses={"time_ranges", "user_name", "as_of", "held_at", "now", "timezone", "min_relevance"},
    writes={"hits", "retrieval_id", "recalls"},
    only_reads=True,
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
        type_weights: Factors for kinds; default is `TYPE_WEIGHTS`.
        candidates: Where there is a reranker, find at least so many for it to choose `top_k` from.
        messages: Give as many messages behind the memories; default is `top_k`, as adapters do.
    """
    past = narrowest(state.time_ranges)
    asked = AskedTime([past]) if past else None
    plan = Plan(type_weights=type_weights or TYPE_WEIGHTS)
    limit = max(state.top_k, candidates) if deps.reranker is not None else state.top_k
    filters = Filters.of(
        kind="personal", subject=state.user_name or None, status=state.status, as_of=state.as_of,
        held_at=state.held_at, **state.scope,
    )  # fmt: skip
    state.recalls = []
    found = await _recall(state, deps, filters, plan, limit, asked)
    now = state.now or deps.now()
    hits = [_by_validity(hit, now, past) for hit in found.hits if _is_shown(hit.memory)]
    if past and past.end and past.end <= now and not (state.as_of or state.held_at):
        # What held then, and has been superseded since: "where did I live in May?" asks for that. It is scored among
        # all that held then; what is still in force was found already.
        then = await _recall(state, deps, replace(filters, status=None, happened=past), plan, limit, asked)
        hits += [hit for hit in then.hits if hit.memory.status != Status.ACTIVE and _is_shown(hit.memory)]
    hits = sorted(hits, key=lambda hit: -hit.parts.final)[:limit]
    wanted = state.top_k if messages is None else messages
    hits += await _quotes(state, deps, hits, wanted) if wanted else []
    state.hits = number_ranks(hits)
    state.retrieval_id = found.retrieval_id
    report_degraded(state, "recall", found.degraded)


@op(
    reads={"hits", "search_query", "token_budget"},
    uses={"user_name", "as_of", "held_at", "now", "timezone", "recalls"},
    writes={"answer"},
    only_reads=True,
)
async def write_note(state: RetrievalState, deps: Deps) -> None:
    """Render what was recalled as a fenced, dated note within the budget; standing instructions come first."""
    workspace, query, log = state.workspace_id, state.search_query, deps.log_writer
    about = state.user_name or None
    profile = await get_profile(
        deps.database, workspace, subject=about, as_of=state.as_of, held_at=state.held_at, now=state.now, **state.scope
    )
    speech, zone = language(deps.language, [query]), askers_zone(state, deps)
    note = render(state.hits, state.token_budget, speech, standing=profile.memories, timezone=zone)
    state.answer = note.text
    if note.standing:
        state.recalls.append(log.log_standing(workspace, query, note.standing, session_id=""))
    log.log_note(workspace, state.recalls, lambda hit: why_missing(note, hit, state.hits))
    told = {"memory_id", "kind", "content"}
    state.report["profile"] = [memory.model_dump(mode="json", include=told) for memory in profile.memories]


async def _recall(
    state: RetrievalState, deps: Deps, filters: Filters, plan: Plan, limit: int, asked: AskedTime | None
) -> Recollection:
    """Recall by the query, and remember that this was done."""
    found = await deps.recall(
        state.workspace_id, state.search_query, filters, plan, limit=limit, min_relevance=state.min_relevance,
        time=asked, flow=deps.flow,
    )  # fmt: skip
    state.recalls.append(found)
    return found


async def _quotes(state: RetrievalState, deps: Deps, hits: Sequence[Hit], limit: int) -> list[Hit]:
    """The best messages that no recalled memory quotes; those of the person, where one is named."""
    filters = Filters.of(kind=Kind.CONVERSATION, as_of=state.as_of, **state.scope)
    if state.user_name:
        filters = replace(filters, of_person=person_of(state.user_name))  # who has no name is nobody in messages
    asked = asked_time(state.search_query, now=state.now or deps.now(), timezone=askers_zone(state, deps))
    found = await _recall(state, deps, filters, Plan(), min(2 * limit, MAX_HITS), asked)
    memories = [hit.memory for hit in hits]
    return [hit for hit in found.hits if not is_quoted(hit.memory, memories)][:limit]


def _is_shown(memory: Memory) -> bool:
    """Whether a closed memory may still be told of: not what was deleted or forgotten, nor a quote that was read."""
    if memory.status == Status.ACTIVE:
        return True
    if memory.valid_until is None:  # it never held, or holds on in the words of its successor
        return False
    replaced = memory.status == Status.SUPERSEDED and is_quote(memory)
    return memory.status != Status.DELETED and not replaced and "forgotten" not in memory.metadata


def _by_validity(hit: Hit, now: datetime, asked: TimeRange | None) -> Hit:
    until = hit.memory.valid_until
    if asked is not None or until is None or until > now:
        return hit
    return hit.model_copy(update={"parts": hit.parts.model_copy(update={"final": hit.parts.final * _OVER})})
