"""Lessons from comparing attempts: the best with the worst at one task, and similar segments that ended differently."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from reme_core.flows.deps import Deps
from reme_core.flows.parallel import parallel
from reme_core.flows.registry import op
from reme_core.models import ChatModel
from reme_core.models.likeness import ALIKE, likeness
from reme_core.prompts import phrase
from reme_core.prompts.fence import fence
from reme_core.prompts.transcript import MAX_TRANSCRIPT, language, transcript
from reme_core.task.actions import actions_of
from reme_core.task.answers import ask_for_lessons
from reme_core.task.contrast import contrast
from reme_core.task.lessons import format_path
from reme_core.task.state import Segment, TaskState, is_scored, segments_of, task_key, task_of
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
        max_lessons: Lessons of one comparison.
        enable_soft_comparison: Compare the best with the worst attempt.
        enable_similarity_comparison: Compare similar segments.
        similarity_threshold: The least likeness of two segments that are compared, 0 (unrelated) to 1 (the same).
        max_similarity_sequences: So many segments of successes, and of failures, are looked at.
        max_similarity_pairs: So many pairs of segments are compared, the most similar.
    """
    attempts = [*state.successes, *state.failures] if enable_soft_comparison else []
    best_and_worst = _best_and_worst_of(_group_by_task(attempts))
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
        state.comparative_drafts = _compare_by_rules([pair for _, pair in pairs], deps.language)
        return
    made = await parallel(_compare_pair(name, pair, deps.language, deps.chat, max_lessons) for name, pair in pairs)
    state.comparative_drafts = [memory for drafts in made for memory in drafts]


@op(reads={"trajectories"}, writes={"memories"})
async def simple_comparative(state: TaskState, deps: Deps, *, max_lessons: int = 2) -> None:
    """Draw lessons from all attempts at a task together, by one request for each task."""
    groups = _group_by_task(state.trajectories)
    if deps.chat is None:
        state.memories = _compare_by_rules(_best_and_worst_of(groups), deps.language)
        return
    several = [attempts for attempts in groups if len(attempts) > 1]
    made = await parallel(_compare_attempts(attempts, deps.language, deps.chat, max_lessons) for attempts in several)
    state.memories = [memory for drafts in made for memory in drafts]


def _group_by_task(trajectories: Sequence[Trajectory]) -> list[list[Segment]]:
    """The attempts that have a score and messages, by task; those without a `task_id` by the text of their task."""
    groups: dict[str, list[Segment]] = {}
    for attempt in segments_of([trajectory for trajectory in trajectories if is_scored(trajectory)], []):
        groups.setdefault(task_key(attempt), []).append(attempt)
    return list(groups.values())


def _best_and_worst_of(groups: Sequence[Sequence[Segment]]) -> list[Pair]:
    """The best and the worst attempt of each group with two attempts of different score."""
    pairs = [(max(attempts, key=_score), min(attempts, key=_score)) for attempts in groups]
    return [(best, worst) for best, worst in pairs if _score(best) > _score(worst)]


def _score(segment: Segment) -> float:
    return segment.trajectory.score


def _compare_by_rules(pairs: Sequence[Pair], setting: str) -> list[Memory]:
    lessons = [contrast(better, worse, language(setting, better.messages)) for better, worse in pairs]
    return [lesson for lesson in lessons if lesson is not None]


async def _similar_pairs(
    good: Sequence[Segment], bad: Sequence[Segment], workspace: str, deps: Deps, *, least: float
) -> list[Pair]:
    """Pairs of a successful and a failed segment whose likeness is at least `least`, the most similar first.

    Each segment is in one pair at most.
    """
    if not good or not bad:
        return []
    embedder = await deps.workspace_models.embedder(workspace)
    alike = await likeness(embedder, [f"{task_of(s)}\n{format_path(actions_of(s.messages))}" for s in (*good, *bad)])
    alike = alike[: len(good), len(good) :]
    ranked = sorted(
        ((float(alike[g, b]), g, b) for g in range(len(good)) for b in range(len(bad)) if alike[g, b] >= least),
        key=lambda found: (-found[0], found[1], found[2]),  # the same order each time where pairs are equally alike
    )
    partners: dict[int, int] = {}
    for _, g, b in ranked:
        if g not in partners and b not in partners.values():
            partners[g] = b
    return [(good[g], bad[b]) for g, b in partners.items()]


async def _compare_pair(name: str, pair: Pair, setting: str, chat: ChatModel, most: int) -> list[Memory]:
    better, worse = pair
    half = MAX_TRANSCRIPT // 2  # both attempts stand in one prompt
    return await ask_for_lessons(
        chat,
        name,
        language(setting, better.messages),
        pair,
        most=most,
        better=fence(transcript(better.messages, budget=half), "attempt"),
        worse=fence(transcript(worse.messages, budget=half, first=len(better.messages) + 1), "attempt"),
        better_score=f"{_score(better):g}",
        worse_score=f"{_score(worse):g}",
    )


async def _compare_attempts(attempts: Sequence[Segment], setting: str, chat: ChatModel, most: int) -> list[Memory]:
    attempts = sorted(attempts, key=_score, reverse=True)  # the best first, as the prompt says
    speech = language(setting, [message for attempt in attempts for message in attempt.messages])
    shown = []
    number = 1
    for attempt in attempts:
        head = phrase("attempt_of", speech, score=f"{_score(attempt):g}")
        text = transcript(attempt.messages, budget=MAX_TRANSCRIPT // len(attempts), first=number)
        shown.append(f"{head}\n{fence(text, 'attempt')}")
        number += len(attempt.messages)
    return await ask_for_lessons(
        chat, "simple_comparative", speech, attempts, most=most, count=len(attempts), attempts="\n\n".join(shown)
    )
