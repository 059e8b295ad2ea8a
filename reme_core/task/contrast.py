"""Compare a better and a worse attempt by rules: their tools, the order of these, errors, length and answers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from reme_core.flows.drafts import RULES, draft
from reme_core.prompts import Language, phrase
from reme_core.task.actions import Action, actions_of, fixes_of
from reme_core.task.lessons import describe_fix
from reme_core.task.state import Segment, answer_of, task_key, task_of
from reme_core.types import Memory

_MANY_MORE = 1.5  # calls of the worse attempt for each of the better one, from which the length is worth a sentence


def contrast(better: Segment, worse: Segment, language: Language) -> Memory | None:
    """The lesson of two attempts; None if the rules find no difference."""
    good, bad = actions_of(better.messages), actions_of(worse.messages)
    differences = [
        *_tool_differences(good, bad, language),
        *_order_difference(good, bad, language),
        *_error_differences(good, bad, language),
        *_length_difference(good, bad, language),
        *_answer_difference(better, worse, language),
    ]
    if not differences:
        return None
    head = (
        phrase("compare_scores", language, best=f"{better.trajectory.score:g}", worst=f"{worse.trajectory.score:g}")
        if task_key(better) == task_key(worse)
        else phrase("compare_pair", language, best=task_of(better), worst=task_of(worse))
    )
    involved = {i for action in (*good, *bad) for i in action.message_ids}
    ends = {better.messages[-1].message_id, worse.messages[-1].message_id}
    return draft(
        phrase("compare_when", language, task=task_of(better)),
        phrase("join", language).join([head, *differences]),
        trajectories=[better.trajectory, worse.trajectory],
        evidence=[m for m in (*better.messages, *worse.messages) if m.message_id in involved | ends],
        author=RULES,
        confidence=0.8 if good and bad else 0.6,
        step_type="comparison",
        tools=[action.tool for action in (*good, *bad)],
    )


def _tool_differences(good: Sequence[Action], bad: Sequence[Action], language: Language) -> list[str]:
    differences = []
    for name, own, others in (("compare_only_best", good, bad), ("compare_only_worst", bad, good)):
        only = {a.tool for a in own if not a.error} - {a.tool for a in others}
        if tools := dict.fromkeys(a.tool for a in own if a.tool in only):
            differences.append(phrase(name, language, tools=", ".join(tools)))
    return differences


def _order_difference(good: Sequence[Action], bad: Sequence[Action], language: Language) -> list[str]:
    """The first two tools that the better attempt called in one order, and the worse attempt in the reverse one."""
    # Read backwards, so that the first call of each tool gives its place.
    places = {action.tool: place for place, action in reversed(list(enumerate(bad)))}
    order = list(dict.fromkeys(action.tool for action in good if action.tool in places))
    for first, second in itertools.pairwise(order):
        if places[second] < places[first]:
            return [phrase("compare_order", language, first=first, second=second)]
    return []


def _error_differences(good: Sequence[Action], bad: Sequence[Action], language: Language) -> list[str]:
    differences = []
    overcome = {(fix.failed.tool, fix.failed.error): fix for fix in fixes_of(good)}
    overcome_by_worse = {(fix.failed.tool, fix.failed.error) for fix in fixes_of(bad)}
    for tool, error in dict.fromkeys((a.tool, a.error) for a in bad if a.error):
        if (tool, error) in overcome_by_worse:
            continue  # not why it went worse
        differences.append(phrase("compare_error", language, tool=tool, error=error))
        if fix := overcome.get((tool, error)):
            differences.append(phrase("compare_overcome", language, how=describe_fix(fix, language)))
    return differences[:4]  # a lesson, not a log


def _length_difference(good: Sequence[Action], bad: Sequence[Action], language: Language) -> list[str]:
    # One call more says nothing.
    if good and len(bad) >= len(good) + 2 and len(bad) >= _MANY_MORE * len(good):
        return [phrase("compare_steps", language, best=len(good), worst=len(bad))]
    return []


def _answer_difference(better: Segment, worse: Segment, language: Language) -> list[str]:
    best, worst = answer_of(better), answer_of(worse)
    return [phrase("compare_answers", language, best=best, worst=worst)] if best and worst and best != worst else []
