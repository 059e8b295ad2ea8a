"""Lessons in one step: a single question for each attempt, or for all attempts at one task."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from reme_core.models import ChatModel
from reme_core.ops.beside import side_by_side
from reme_core.ops.deps import Deps
from reme_core.ops.registry import op
from reme_core.ops.state import Segment, SummaryState
from reme_core.ops.task.answers import Lessons, drafts_of
from reme_core.ops.task.comparison import by_task, extremes
from reme_core.ops.task.contrast import contrast
from reme_core.ops.task.lessons import what_failed, what_was_overcome, what_worked
from reme_core.ops.task.pieces import is_scored, pieces
from reme_core.ops.transcript import MAX_TRANSCRIPT, language, transcript
from reme_core.prompts import Language, phrase, prompt
from reme_core.schema import Memory, Trajectory
from reme_core.text.fence import fenced


@op(reads={"trajectories"}, writes={"memories"})
async def simple_summary(
    state: SummaryState, deps: Deps, *, success_threshold: float = 0.9, max_lessons: int = 2
) -> None:
    """Draw lessons from each attempt by one question; those at the threshold count as successes."""
    found = pieces(state.trajectories, [])
    if deps.chat is None:
        made = [_by_rules(piece, deps.language, success_threshold, max_lessons) for piece in found]
    else:
        asked = [partial(_by_model, piece, deps, deps.chat, success_threshold, max_lessons) for piece in found]
        made = await side_by_side(asked)
    state.memories = [memory for drafts in made for memory in drafts]


@op(reads={"trajectories"}, writes={"memories"}, aliases=("simple_comparative_summary",))
async def simple_comparative(state: SummaryState, deps: Deps, *, max_lessons: int = 2) -> None:
    """Draw lessons from all attempts at each task together, by one question a task."""
    groups = [attempts for attempts in by_task(state.trajectories) if len(attempts) > 1]
    if deps.chat is None:
        pairs = [pieces(pair, []) for attempts in groups for pair in extremes(attempts)]
        made = [
            contrast(pair[0], pair[1], language(deps.language, pair[0].messages)) for pair in pairs if len(pair) == 2
        ]
        state.memories = [memory for memory in made if memory is not None]
        return
    asked = [partial(_compare_by_model, attempts, deps, deps.chat, max_lessons) for attempts in groups]
    state.memories = [memory for drafts in await side_by_side(asked) for memory in drafts]


def _by_rules(piece: Segment, setting: str, success_threshold: float, most: int) -> list[Memory]:
    speech = language(setting, piece.messages)
    good = piece.trajectory.score >= success_threshold
    outcome = what_worked(piece, speech) if good else what_failed(piece, speech)
    return [*([outcome] if outcome else []), *what_was_overcome(piece, speech)][:most]


async def _by_model(piece: Segment, deps: Deps, chat: ChatModel, success_threshold: float, most: int) -> list[Memory]:
    speech = language(deps.language, piece.messages)
    trajectory = piece.trajectory
    request = prompt(
        "simple_summary",
        speech,
        outcome=_outcome(trajectory, success_threshold, speech),
        attempt=fenced(transcript(piece.messages), "attempt"),
        most=most,
    )
    answer = await chat.structured(request, Lessons, purpose="simple_summary")
    return drafts_of(answer, piece.messages, [trajectory], author=chat.name, most=most)


def _outcome(trajectory: Trajectory, success_threshold: float, speech: Language) -> str:
    if not is_scored(trajectory):
        return phrase("outcome_open", speech)
    name = "outcome_good" if trajectory.score >= success_threshold else "outcome_bad"
    return phrase(name, speech, score=f"{trajectory.score:g}")


async def _compare_by_model(attempts: Sequence[Trajectory], deps: Deps, chat: ChatModel, most: int) -> list[Memory]:
    found = pieces(sorted(attempts, key=lambda t: -t.score), [])
    messages = [message for piece in found for message in piece.messages]
    speech = language(deps.language, messages)
    shown = []
    number = 1
    for piece in found:
        head = phrase("attempt_of", speech, score=f"{piece.trajectory.score:g}")
        text = transcript(piece.messages, budget=MAX_TRANSCRIPT // len(found), first=number)
        shown.append(f"{head}\n{fenced(text, 'attempt')}")
        number += len(piece.messages)
    request = prompt("simple_comparative", speech, count=len(found), attempts="\n\n".join(shown), most=most)
    answer = await chat.structured(request, Lessons, purpose="simple_comparative")
    return drafts_of(answer, messages, [piece.trajectory for piece in found], author=chat.name, most=most)
