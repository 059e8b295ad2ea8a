"""Lessons of single attempts: what to do again, and what to avoid. By the model, or by rules where none is set."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from reme_core.models import ChatModel
from reme_core.ops.beside import side_by_side
from reme_core.ops.deps import Deps
from reme_core.ops.registry import op
from reme_core.ops.state import Segment, SummaryState
from reme_core.ops.task.answers import Lessons, drafts_of
from reme_core.ops.task.lessons import what_failed, what_was_overcome, what_worked
from reme_core.ops.task.pieces import is_scored, pieces
from reme_core.ops.transcript import language, transcript
from reme_core.prompts import phrase, prompt
from reme_core.schema import Memory
from reme_core.text.fence import fenced


@op(reads={"successes"}, uses={"segments"}, writes={"success_drafts"})
async def success_extraction(state: SummaryState, deps: Deps, *, max_lessons: int = 3) -> None:
    """Draw lessons from attempts that succeeded, segment by segment where segments are marked."""
    found = pieces(state.successes, state.segments)
    if deps.chat is not None:
        state.success_drafts = await _by_model("success_extraction", found, deps, deps.chat, max_lessons)
        return
    for piece in found:
        speech = language(deps.language, piece.messages)
        drafts = [what_worked(piece, speech), *what_was_overcome(piece, speech)]
        state.success_drafts += drafts[:max_lessons]


@op(reads={"failures"}, uses={"segments"}, writes={"failure_drafts"})
async def failure_extraction(state: SummaryState, deps: Deps, *, max_lessons: int = 3) -> None:
    """Draw lessons from attempts that failed, segment by segment where segments are marked."""
    found = pieces(state.failures, state.segments)
    if deps.chat is not None:
        state.failure_drafts = await _by_model("failure_extraction", found, deps, deps.chat, max_lessons)
        return
    for piece in found:
        speech = language(deps.language, piece.messages)
        failed = what_failed(piece, speech)
        drafts = [*([failed] if failed else []), *what_was_overcome(piece, speech)]
        state.failure_drafts += drafts[:max_lessons]


async def _by_model(name: str, found: Sequence[Segment], deps: Deps, chat: ChatModel, most: int) -> list[Memory]:
    async def ask(piece: Segment) -> list[Memory]:
        speech = language(deps.language, piece.messages)
        request = prompt(
            name,
            speech,
            score=f"{piece.trajectory.score:g}" if is_scored(piece.trajectory) else phrase("no_score", speech),
            attempt=fenced(transcript(piece.messages), "attempt"),
            most=most,
        )
        answer = await chat.structured(request, Lessons, purpose=name)
        return drafts_of(answer, piece.messages, [piece.trajectory], author=chat.name, most=most)

    return [memory for drafts in await side_by_side([partial(ask, piece) for piece in found]) for memory in drafts]
