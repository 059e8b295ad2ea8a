"""Lessons of one attempt by rules: what worked, what went wrong, and how an error was overcome."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from reme_core.flows.drafts import RULES, draft
from reme_core.prompts import Language, phrase
from reme_core.task.actions import (
    Action,
    Fix,
    actions_of,
    fixes_of,
    format_arguments,
    path_of,
    repeated_calls,
    unresolved_errors,
)
from reme_core.task.state import Segment, answer_of, is_request, is_scored, task_of
from reme_core.types import Memory, Message

_MAX_STEPS = 12  # a longer path is a log, not a lesson
_MAX_ARGUMENTS = 160  # characters


def success_lesson(segment: Segment, language: Language) -> Memory | None:
    """The lesson of a success: the tools that worked, in order, and the answer that was accepted.

    None if the messages show nothing of how it was done.
    """
    actions, answer = actions_of(segment.messages), answer_of(segment)
    path = format_path(actions)
    sentences = [phrase("success_done", language, score=_score(segment))]
    if path:
        sentences.append(phrase("success_path", language, path=path))
    elif any(m.role == "assistant" for m in segment.messages):
        sentences.append(phrase("success_plain", language))
    else:
        return None
    if answer:
        sentences.append(phrase("success_answer", language, answer=answer))
    # A path can be followed again, an answer can be recognised; the outcome alone says little.
    confidence = 0.8 if path else 0.6 if answer else 0.5
    tools = [action.tool for action in actions if not action.error]
    return _lesson(segment, sentences, language, actions, confidence=confidence, step_type="success", tools=tools)


def failure_lesson(segment: Segment, language: Language) -> Memory | None:
    """The lesson of a failure: errors that were not overcome, calls repeated in vain, the answer that was refused.

    None if the messages do not show what went wrong.
    """
    actions, answer = actions_of(segment.messages), answer_of(segment)
    # The last errors are nearest to how it ended; more than two are a log.
    stuck, loops = unresolved_errors(actions)[-2:], repeated_calls(actions)[:1]
    has_score = is_scored(segment.trajectory)
    # An attempt without a score may have gone well, and "it failed" alone helps nobody.
    if not (has_score or stuck) or not (actions or answer):
        return None
    sentences = [phrase("failure_done", language, score=_score(segment))] if has_score else []
    for action in stuck:
        arguments = format_arguments(action.arguments)[:_MAX_ARGUMENTS]
        sentences.append(phrase("failure_error", language, tool=action.tool, arguments=arguments, error=action.error))
    for action, count in loops:
        arguments = format_arguments(action.arguments)[:_MAX_ARGUMENTS]
        sentences.append(phrase("failure_loop", language, tool=action.tool, arguments=arguments, count=count))
    path = format_path(actions)
    if path:
        sentences.append(phrase("failure_path", language, path=path))
    if answer:
        sentences.append(phrase("failure_answer", language, answer=answer))
    elif actions:
        sentences.append(phrase("failure_open", language))
    confidence = 0.8 if stuck or loops else 0.6 if path else 0.5
    tools = [action.tool for action in actions]
    return _lesson(segment, sentences, language, actions, confidence=confidence, step_type="failure", tools=tools)


def fix_lessons(segment: Segment, language: Language) -> list[Memory]:
    """One lesson for each error that a later call of the same tool overcame."""
    return [
        draft(
            phrase("fix_when", language, tool=fix.failed.tool, error=fix.failed.error),
            phrase(
                "fix",
                language,
                tool=fix.failed.tool,
                arguments=format_arguments(fix.failed.arguments)[:_MAX_ARGUMENTS],
                error=fix.failed.error,
                how=describe_fix(fix, language),
            ),
            trajectories=[segment.trajectory],
            evidence=_messages(segment, {*fix.failed.message_ids, *fix.worked.message_ids}),
            author=RULES,
            confidence=0.8,
            step_type="fix",
            tools=[fix.failed.tool, *(action.tool for action in fix.between)],
        )
        for fix in fixes_of(actions_of(segment.messages))
    ]


def describe_fix(fix: Fix, language: Language) -> str:
    """The difference between the call that failed and the one that worked, in words."""
    old, new = fix.failed.arguments, fix.worked.arguments
    changed = [name for name in new if name in old and new[name] != old[name]]
    added = [name for name in new if name not in old]
    removed = [name for name in old if name not in new]
    ways = []
    if changed:
        ways.append(
            phrase("fix_changed", language, new=format_arguments(new, changed), old=format_arguments(old, changed))
        )
    if added:
        ways.append(phrase("fix_added", language, new=format_arguments(new, added)))
    if removed:
        ways.append(phrase("fix_removed", language, old=format_arguments(old, removed)))
    if fix.between:
        ways.append(phrase("fix_after", language, path=format_path(fix.between)))
    return phrase("fix_and", language).join(ways) or phrase("fix_again", language)


def format_path(actions: Sequence[Action]) -> str:
    """The calls that worked, in order; the middle of a very long path is left out."""
    path = path_of(actions)
    if len(path) > _MAX_STEPS:
        path = [*path[: _MAX_STEPS // 2], "…", *path[-_MAX_STEPS // 2 :]]
    return " → ".join(path)


def _lesson(
    segment: Segment,
    sentences: Sequence[str],
    language: Language,
    actions: Sequence[Action],
    *,
    confidence: float,
    step_type: str,
    tools: Sequence[str],
) -> Memory:
    request = next((m for m in segment.messages if is_request(m)), segment.messages[0])
    ids = {request.message_id, segment.messages[-1].message_id, *(i for a in actions for i in a.message_ids)}
    return draft(
        phrase("task_when", language, task=task_of(segment)),
        phrase("join", language).join(sentences),
        trajectories=[segment.trajectory],
        evidence=_messages(segment, ids),
        author=RULES,
        confidence=confidence,
        step_type=step_type,
        tools=tools,
    )


def _messages(segment: Segment, ids: Collection[str]) -> list[Message]:
    return [message for message in segment.messages if message.message_id in ids]


def _score(segment: Segment) -> str:
    return f"{segment.trajectory.score:g}"
