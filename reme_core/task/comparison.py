"""Lessons from comparing attempts: the best with the worst at one task, and similar segments that ended differently."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal

from reme_core.flows.deps import Deps
from reme_core.flows.parallel import parallel
from reme_core.flows.registry import op
from reme_core.models import ChatModel
from reme_core.models.likeness import ALIKE, likeness
from reme_core.prompts.fence import fence
from reme_core.prompts.transcript import MAX_TRANSCRIPT, language, speech_in, transcript
from reme_core.task.actions import actions_of
from reme_core.task.answers import ask_for_lessons
from reme_core.task.contrast import contrast
from reme_core.task.lessons import format_path
from reme_core.task.segments import is_scored, segments_of, task_of
from reme_core.task.state import Segment, TaskState
from reme_core.types import Memory, Trajectory

Pair = tuple[Segment, Segment]
"""A better and a worse segment."""


@op(reads={"successes", "failures"}, uses={"segments"}, writes={"comparative_drafts"})
async def comparative_extraction(
    state: TaskState,
    deps: Deps,
    *,
    # The numbers are those of ReMe 0.1.
    max_lessons: int = 2,
    enable_soft_comparison: bool = True,
    enable_similarity_comparison: bool = True,
    similarity_threshold: float = ALIKE,
    max_similarity_sequences: int = 5,
    max_similarity_pairs: int = 3,
) -> None:
    """Compare the best with the worst attempt at each task, and similar segments of a success and of a failure.

    Args:
        state: Reads `successes`, `failures` and `segments`.
        deps: Uses `chat` and the embedding model.
        max_lessons: Lessons of one comparison.
        enable_soft_comparison: Compare the best with the worst attempt.
        enable_similarity_comparison: Compare similar segments.
        similarity_threshold: The least likeness of two segments that are compared, 0 (unrelated) to 1 (the same).
        max_similarity_sequences: So many segments of successes, and of failures, are looked at.
        max_similarity_pairs: So many pairs of segments are compared, the most similar.
    """
    best_and_worst = [
        (_whole_attempt(better), _whole_attempt(worse))
        for better, worse in best_and_worst_of([*state.successes, *state.failures])
        if enable_soft_comparison
    ]
    looked_at = max_similarity_sequences if enable_similarity_comparison else 0
    similar = await _similar_pairs(
        segments_of(state.successes, state.segments)[:looked_at],
        segments_of(state.failures, state.segments)[:looked_at],
        state.workspace_id,
        deps,
        least=similarity_threshold,
    )
    compared = {(id(better.trajectory), id(worse.trajectory)) for better, worse in best_and_worst}
    if not state.segments:
        # If the attempts are not divided, comparing the same two again gives the same lesson.
        similar = [pair for pair in similar if (id(pair[0].trajectory), id(pair[1].trajectory)) not in compared]
    pairs: list[tuple[Literal["comparison_soft", "comparison_hard"], Pair]] = [
        *(("comparison_soft", pair) for pair in best_and_worst),
        *(("comparison_hard", pair) for pair in similar[:max_similarity_pairs]),
    ]
    if deps.chat is None:
        lessons = [contrast(*pair, language(deps.language, pair[0].messages)) for _, pair in pairs]
        state.comparative_drafts = [memory for memory in lessons if memory is not None]
        return
    requests = [partial(_compare_by_model, name, pair, deps.language, deps.chat, max_lessons) for name, pair in pairs]
    state.comparative_drafts = [memory for drafts in await parallel(requests) for memory in drafts]


def group_by_task(trajectories: Sequence[Trajectory]) -> list[list[Trajectory]]:
    """The attempts that have a score, by task; those without a `task_id` by the text of their task."""
    groups: dict[str, list[Trajectory]] = {}
    for trajectory in trajectories:
        if is_scored(trajectory):
            # No `task_id` begins with a NUL, so no id is taken for the text of a task.
            name = trajectory.task_id or f"\0{task_of(_whole_attempt(trajectory))}"
            groups.setdefault(name, []).append(trajectory)
    return list(groups.values())


def best_and_worst_of(trajectories: Sequence[Trajectory]) -> list[tuple[Trajectory, Trajectory]]:
    """The best and the worst attempt at each task with two attempts of different score."""
    pairs = []
    for attempts in group_by_task(trajectories):
        best, worst = max(attempts, key=lambda t: t.score), min(attempts, key=lambda t: t.score)
        if best.score > worst.score:
            pairs.append((best, worst))
    return pairs


def _whole_attempt(trajectory: Trajectory) -> Segment:
    return Segment(trajectory, speech_in(trajectory.messages))


async def _similar_pairs(
    good: Sequence[Segment], bad: Sequence[Segment], workspace: str, deps: Deps, *, least: float
) -> list[Pair]:
    """Pairs of a successful and a failed segment whose likeness is at least `least`, the most similar first.

    Each segment is in one pair at most.
    """
    if not good or not bad:
        return []
    embedder = await deps.workspace_models.embedder(workspace)
    alike = await likeness(embedder, [_embedding_text(segment) for segment in (*good, *bad)])
    alike = alike[: len(good), len(good) :]
    ranked = sorted(
        ((float(alike[g, b]), g, b) for g in range(len(good)) for b in range(len(bad)) if alike[g, b] >= least),
        key=lambda found: (-found[0], found[1], found[2]),  # the same order each time where pairs are equally alike
    )
    pairs: list[Pair] = []
    free_good, free_bad = set(range(len(good))), set(range(len(bad)))
    for _, g, b in ranked:
        if g in free_good and b in free_bad:
            pairs.append((good[g], bad[b]))
            free_good.remove(g)
            free_bad.remove(b)
    return pairs


def _embedding_text(segment: Segment) -> str:
    return f"{task_of(segment)}\n{format_path(actions_of(segment.messages))}"


async def _compare_by_model(name: str, pair: Pair, setting: str, chat: ChatModel, most: int) -> list[Memory]:
    better, worse = pair
    half = MAX_TRANSCRIPT // 2  # both attempts stand in one prompt
    return await ask_for_lessons(
        chat,
        name,
        language(setting, better.messages),
        [*better.messages, *worse.messages],
        [better.trajectory, worse.trajectory],
        most=most,
        better=fence(transcript(better.messages, budget=half), "attempt"),
        worse=fence(transcript(worse.messages, budget=half, first=len(better.messages) + 1), "attempt"),
        better_score=f"{better.trajectory.score:g}",
        worse_score=f"{worse.trajectory.score:g}",
    )
