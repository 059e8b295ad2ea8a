"""What rules can tell of an attempt: what worked, what went wrong, and how an error was overcome."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from reme_core.ops.drafts import RULES, draft
from reme_core.ops.state import Segment
from reme_core.ops.task.actions import (
    Action,
    Fix,
    actions_of,
    fixes_of,
    loops_of,
    path_of,
    shown,
    unresolved_of,
)
from reme_core.ops.task.pieces import answer_of, is_request, is_scored, task_of
from reme_core.prompts import Language, phrase
from reme_core.schema import Memory, Message

_MAX_STEPS = 12  # a longer path is a log, not a lesson
_MAX_ARGUMENTS = 160


def what_worked(piece: Segment, language: Language) -> Memory:
    """The tools that worked, in order, and the answer that was accepted."""
    actions, answer = actions_of(piece.messages), answer_of(piece)
    path = written_path(actions)
    told = [phrase("success_done", language, score=_score(piece))]
    if path:
        told.append(phrase("success_path", language, path=path))
    else:
        spoke = any(m.role == "assistant" for m in piece.messages)
        told.append(phrase("success_plain" if spoke else "success_bare", language))
    if answer:
        told.append(phrase("success_answer", language, answer=answer))
    # A path can be followed again; an answer alone may at least be recognised; a bare outcome says little.
    confidence = 0.8 if path else 0.6 if answer else 0.5
    tools = [action.tool for action in actions if not action.error]
    return _lesson(piece, told, language, actions, confidence=confidence, step_type="success", tools=tools)


def what_failed(piece: Segment, language: Language) -> Memory | None:
    """The errors that were never overcome, calls that led nowhere, and the answer that was not accepted.

    None where nothing shows what went wrong: "it failed" alone helps nobody, and an attempt without a score may have
    gone well.
    """
    actions, answer = actions_of(piece.messages), answer_of(piece)
    stuck, loops = unresolved_of(actions)[-2:], loops_of(actions)[:1]
    if not is_scored(piece.trajectory) and not stuck:
        return None
    told = [phrase("failure_done", language, score=_score(piece))] if is_scored(piece.trajectory) else []
    for action in stuck:
        arguments = shown(action.arguments)[:_MAX_ARGUMENTS]
        told.append(phrase("failure_error", language, tool=action.tool, arguments=arguments, error=action.error))
    for action, count in loops:
        arguments = shown(action.arguments)[:_MAX_ARGUMENTS]
        told.append(phrase("failure_loop", language, tool=action.tool, arguments=arguments, count=count))
    path = written_path(actions)
    if path:
        told.append(phrase("failure_path", language, path=path))
    if answer:
        told.append(phrase("failure_answer", language, answer=answer))
    elif actions:
        told.append(phrase("failure_open", language))
    if not (actions or answer):
        return None
    confidence = 0.8 if stuck or loops else 0.6 if path else 0.5
    tools = [action.tool for action in actions]
    return _lesson(piece, told, language, actions, confidence=confidence, step_type="failure", tools=tools)


def what_was_overcome(piece: Segment, language: Language) -> list[Memory]:
    """One lesson for each error that a later call got past."""
    return [
        draft(
            phrase("fix_when", language, tool=fix.failed.tool, error=fix.failed.error),
            phrase(
                "fix",
                language,
                tool=fix.failed.tool,
                arguments=shown(fix.failed.arguments)[:_MAX_ARGUMENTS],
                error=fix.failed.error,
                how=overcome_how(fix, language),
            ),
            trajectories=[piece.trajectory],
            evidence=_messages(piece, {*fix.failed.message_ids, *fix.worked.message_ids}),
            author=RULES,
            confidence=0.8,
            step_type="fix",
            tools=[fix.failed.tool, *(action.tool for action in fix.between)],
        )
        for fix in fixes_of(actions_of(piece.messages))
    ]


def overcome_how(fix: Fix, language: Language) -> str:
    """What differed between the call that failed and the one that worked."""
    old, new = fix.failed.arguments, fix.worked.arguments
    changed = [name for name in new if name in old and new[name] != old[name]]
    added = [name for name in new if name not in old]
    removed = [name for name in old if name not in new]
    ways = []
    if changed:
        ways.append(phrase("fix_changed", language, new=shown(new, changed), old=shown(old, changed)))
    if added:
        ways.append(phrase("fix_added", language, new=shown(new, added)))
    if removed:
        ways.append(phrase("fix_removed", language, old=shown(old, removed)))
    if fix.between:
        ways.append(phrase("fix_after", language, path=written_path(fix.between)))
    return phrase("fix_and", language).join(ways) or phrase("fix_again", language)


def written_path(actions: Sequence[Action]) -> str:
    """The calls that worked, in order; the middle of a very long path is left out."""
    path = path_of(actions)
    if len(path) > _MAX_STEPS:
        path = [*path[: _MAX_STEPS // 2], "…", *path[-_MAX_STEPS // 2 :]]
    return " → ".join(path)


def _lesson(
    piece: Segment,
    told: Sequence[str],
    language: Language,
    actions: Sequence[Action],
    *,
    confidence: float,
    step_type: str,
    tools: Sequence[str],
) -> Memory:
    request = next((m for m in piece.messages if is_request(m)), piece.messages[0])
    ids = {request.message_id, piece.messages[-1].message_id, *(i for a in actions for i in a.message_ids)}
    return draft(
        phrase("task_when", language, task=task_of(piece)),
        phrase("join", language).join(told),
        trajectories=[piece.trajectory],
        evidence=_messages(piece, ids),
        author=RULES,
        confidence=confidence,
        step_type=step_type,
        tools=tools,
    )


def _messages(piece: Segment, ids: Collection[str]) -> list[Message]:
    return [message for message in piece.messages if message.message_id in ids]


def _score(piece: Segment) -> str:
    return f"{piece.trajectory.score:g}"
