"""Ops of ReMe 0.1 that flows written for it name, and whose work ops of other names do here."""

from __future__ import annotations

from datetime import UTC, datetime

from reme_core.errors import ConfigurationError
from reme_core.flows.deps import Deps
from reme_core.flows.ops.query_time import narrowest
from reme_core.flows.ops.retrieval import build_query
from reme_core.flows.ops.store import store
from reme_core.flows.registry import op
from reme_core.flows.state import RetrievalState, State, SummaryState
from reme_core.personal.retrieve import TYPE_WEIGHTS, write_note
from reme_core.store.recall import number_ranks
from reme_core.types import Hit, Kind, Memory, TimeRange

# The weight of kinds that `fuse_ratio_dict` does not name, as in ReMe 0.1.
_OTHER_KINDS = 0.1
_KINDS = {"obs_customized": str(Kind.CUSTOM)}  # by its name in ReMe 0.1


@op(reads={"query", "messages"}, uses={"now"}, writes={"search_query", "now"}, only_reads=True)
async def set_query(state: RetrievalState, deps: Deps, *, timestamp: int | None = None) -> None:
    """Take the caller's query, and with a `timestamp` (seconds since 1970) the time at which it is asked.

    Raises:
        InputError: There is neither a query nor a message.
    """
    await build_query(state, deps, enable_llm_build=False)
    if timestamp is not None:
        state.now = datetime.fromtimestamp(timestamp, UTC)


@op(
    reads={"hits", "search_query", "token_budget"},
    uses={"time_ranges", "user_name", "as_of", "held_at", "now", "timezone"},
    writes={"hits", "answer"},
    only_reads=True,
)
async def fuse_rerank(
    state: RetrievalState,
    deps: Deps,
    *,
    fuse_ratio_dict: dict[str, float] | None = None,
    fuse_score_threshold: float = 0.1,
    fuse_time_ratio: float = 2.0,
    output_memory_max_count: int = 5,
) -> None:
    """Weigh memories by kind and by the time that is asked about, keep the best, and write the note.

    Args:
        fuse_ratio_dict: Factors by kind; default is MemoryScope's, `{"observation": 1, "obs_customized": 1.2, …}`.
        fuse_score_threshold: The least score of a hit, 0 to 1, before it is weighed.
        fuse_time_ratio: The factor of what meets the time that is asked about.
        output_memory_max_count: How many to keep.
    """
    asked = narrowest(state.time_ranges)
    ratios = (
        TYPE_WEIGHTS if fuse_ratio_dict is None else {_KINDS.get(k, k): ratio for k, ratio in fuse_ratio_dict.items()}
    )

    def weigh(hit: Hit) -> float:
        in_time = asked is not None and _meets(hit.memory, asked)
        return hit.parts.final * ratios.get(hit.memory.kind, _OTHER_KINDS) * (fuse_time_ratio if in_time else 1.0)

    strong = [hit for hit in state.hits if hit.parts.final >= fuse_score_threshold]
    state.hits = number_ranks(sorted(strong, key=weigh, reverse=True)[:output_memory_max_count])
    await write_note(state, deps)


@op(
    uses={
        "memories",
        "closing",
        "confirmed",
        "vectors",
        "same_from",
        "expected_version",
        "episode_ids",
        "update_result",
    },
    writes={"memories", "confirmed", "expected_version", "update_result"},
)
async def update_vector_store(state: SummaryState, deps: Deps) -> None:
    """Store what a flow has found, unless it is stored already."""
    # Most ops store what they find; the result tells that they did.
    if state.update_result is None:
        await store(state, deps)


@op(only_reads=True)
async def skip(state: State, deps: Deps) -> None:
    """Take the place of an op whose work another op does here; the log says which when the flow is built."""


@op(reads={"query"}, writes={"answer"}, only_reads=True)
async def use_mock_search(state: RetrievalState, deps: Deps) -> None:
    """Refuse: ReMe 0.1 tried its tool memory out on search results that a model made up, and nothing here does.

    Raises:
        ConfigurationError: Always.
    """
    raise ConfigurationError(
        "use_mock_search does not exist here: ReMe 0.1 made up results with it, for a trial; report the calls of real"
        " tools with add_tool_call_result"
    )


def _meets(memory: Memory, asked: TimeRange) -> bool:
    """Whether a memory was stated, or holds, within the time that is asked about."""
    # A memory of an earlier system says only when it was made.
    start = memory.valid_from or memory.observed_at or memory.created_at
    end = memory.valid_until or start
    return (asked.end is None or start < asked.end) and (asked.start is None or end >= asked.start)
