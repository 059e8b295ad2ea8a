"""Lessons of attempts side by side: the best against the worst of one task, and similar stretches that ended unlike."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal

from reme_core.models import ChatModel
from reme_core.ops.beside import side_by_side
from reme_core.ops.deps import Deps
from reme_core.ops.registry import op
from reme_core.ops.state import Segment, SummaryState
from reme_core.ops.task.actions import actions_of
from reme_core.ops.task.answers import Lessons, drafts_of
from reme_core.ops.task.contrast import contrast
from reme_core.ops.task.lessons import written_path
from reme_core.ops.task.pieces import is_scored, pieces, task_of
from reme_core.ops.transcript import MAX_TRANSCRIPT, language, said, transcript
from reme_core.prompts import prompt
from reme_core.schema import Memory, Trajectory
from reme_core.text.fence import fenced

Pair = tuple[Segment, Segment]
"""A better and a worse one."""


@op(reads={"successes", "failures"}, uses={"segments"}, writes={"comparative_drafts"})
async def comparative_extraction(
    state: SummaryState,
    deps: Deps,
    *,
    max_lessons: int = 2,
    similarity_threshold: float = 0.3,
    max_similarity_sequences: int = 5,
    max_pairs: int = 3,
) -> None:
    """Compare the best with the worst attempt at each task, and similar segments that once succeeded and once failed.

    `max_pairs=0` leaves out the second kind. The thresholds are those of ReMe 0.1.
    """
    best_and_worst = [
        (_whole(better), _whole(worse)) for better, worse in extremes([*state.successes, *state.failures])
    ]
    similar = await _similar(
        pieces(state.successes, state.segments)[:max_similarity_sequences],
        pieces(state.failures, state.segments)[:max_similarity_sequences],
        state.workspace_id,
        deps,
        least=similarity_threshold,
    )
    compared = {(id(better.trajectory), id(worse.trajectory)) for better, worse in best_and_worst}
    if not state.segments:
        # Without segments a pair of the same two attempts would only say the same again.
        similar = [pair for pair in similar if (id(pair[0].trajectory), id(pair[1].trajectory)) not in compared]
    pairs: list[tuple[Literal["comparison_soft", "comparison_hard"], Pair]] = [
        *(("comparison_soft", pair) for pair in best_and_worst),
        *(("comparison_hard", pair) for pair in similar[:max_pairs]),
    ]
    if deps.chat is None:
        made = [contrast(*pair, language(deps.language, pair[0].messages)) for _, pair in pairs]
        state.comparative_drafts = [memory for memory in made if memory is not None]
        return
    asked = [partial(_by_model, name, pair, deps, deps.chat, max_lessons) for name, pair in pairs]
    state.comparative_drafts = [memory for drafts in await side_by_side(asked) for memory in drafts]


def by_task(trajectories: Sequence[Trajectory]) -> list[list[Trajectory]]:
    """The scored attempts at each task. Those that name no task belong together if they begin with the same request."""
    groups: dict[str, list[Trajectory]] = {}
    for trajectory in trajectories:
        if is_scored(trajectory):
            name = trajectory.task_id or f"\0{task_of(_whole(trajectory))}"
            groups.setdefault(name, []).append(trajectory)
    return list(groups.values())


def extremes(trajectories: Sequence[Trajectory]) -> list[tuple[Trajectory, Trajectory]]:
    """The best and the worst attempt at each task that has two of different score."""
    pairs = []
    for attempts in by_task(trajectories):
        best, worst = max(attempts, key=lambda t: t.score), min(attempts, key=lambda t: t.score)
        if best.score > worst.score:
            pairs.append((best, worst))
    return pairs


def _whole(trajectory: Trajectory) -> Segment:
    return Segment(trajectory, said(trajectory.messages))


async def _similar(
    good: Sequence[Segment], bad: Sequence[Segment], workspace: str, deps: Deps, *, least: float
) -> list[Pair]:
    """Pairs of a successful and a failed segment, the most similar first; each segment is in one pair at most."""
    if not good or not bad:
        return []
    embedder = await deps.serving.embedder(workspace)
    vectors = await embedder.embed([_gist(piece) for piece in (*good, *bad)], "passage")
    likeness = vectors[: len(good)] @ vectors[len(good) :].T
    ranked = sorted(
        ((float(likeness[g, b]), g, b) for g in range(len(good)) for b in range(len(bad)) if likeness[g, b] >= least),
        key=lambda found: (-found[0], found[1], found[2]),
    )
    pairs: list[Pair] = []
    taken_good: set[int] = set()
    taken_bad: set[int] = set()
    for _, g, b in ranked:
        if g not in taken_good and b not in taken_bad:
            pairs.append((good[g], bad[b]))
            taken_good.add(g)
            taken_bad.add(b)
    return pairs


def _gist(piece: Segment) -> str:
    return f"{task_of(piece)}\n{written_path(actions_of(piece.messages))}"


async def _by_model(name: str, pair: Pair, deps: Deps, chat: ChatModel, most: int) -> list[Memory]:
    better, worse = pair
    half = MAX_TRANSCRIPT // 2
    request = prompt(
        name,
        language(deps.language, better.messages),
        better=fenced(transcript(better.messages, budget=half), "attempt"),
        worse=fenced(transcript(worse.messages, budget=half, first=len(better.messages) + 1), "attempt"),
        better_score=f"{better.trajectory.score:g}",
        worse_score=f"{worse.trajectory.score:g}",
        most=most,
    )
    answer = await chat.structured(request, Lessons, purpose=name)
    trajectories = [better.trajectory, worse.trajectory]
    return drafts_of(answer, [*better.messages, *worse.messages], trajectories, author=chat.name, most=most)
