"""What rules can tell of two attempts, a better and a worse one: which tools, in which order, past which errors."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from reme_core.ops.drafts import RULES, draft
from reme_core.ops.state import Segment
from reme_core.ops.task.actions import Action, actions_of, fixes_of
from reme_core.ops.task.lessons import overcome_how
from reme_core.ops.task.pieces import answer_of, task_of
from reme_core.prompts import Language, phrase
from reme_core.schema import Memory

_MANY_MORE = 1.5  # calls of the worse attempt for each of the better, from which the length itself says something


def contrast(better: Segment, worse: Segment, language: Language) -> Memory | None:
    """The lesson of two attempts; None where nothing that rules can see sets them apart."""
    good, bad = actions_of(better.messages), actions_of(worse.messages)
    told = [
        *_tools_apart(good, bad, language),
        *_order_apart(good, bad, language),
        *_errors_apart(good, bad, language),
        *_length_apart(good, bad, language),
        *_answers_apart(better, worse, language),
    ]
    if not told:
        return None
    same_task = better.trajectory.task_id == worse.trajectory.task_id
    head = (
        phrase("compare_scores", language, best=f"{better.trajectory.score:g}", worst=f"{worse.trajectory.score:g}")
        if same_task
        else phrase("compare_pair", language, best=task_of(better), worst=task_of(worse))
    )
    involved = {i for action in (*good, *bad) for i in action.message_ids}
    ends = {better.messages[-1].message_id, worse.messages[-1].message_id}
    return draft(
        phrase("compare_when", language, task=task_of(better)),
        phrase("join", language).join([head, *told]),
        trajectories=[better.trajectory, worse.trajectory],
        evidence=[m for m in (*better.messages, *worse.messages) if m.message_id in involved | ends],
        author=RULES,
        confidence=0.8 if good and bad else 0.6,
        step_type="comparison",
        tools=[action.tool for action in (*good, *bad)],
    )


def _tools_apart(good: Sequence[Action], bad: Sequence[Action], language: Language) -> list[str]:
    used, used_worse = ({a.tool for a in actions if not a.error} for actions in (good, bad))
    only_best = list(dict.fromkeys(a.tool for a in good if a.tool in used - {b.tool for b in bad}))
    only_worst = list(dict.fromkeys(a.tool for a in bad if a.tool in used_worse - {b.tool for b in good}))
    told = []
    if only_best:
        told.append(phrase("compare_only_best", language, tools=", ".join(only_best)))
    if only_worst:
        told.append(phrase("compare_only_worst", language, tools=", ".join(only_worst)))
    return told


def _order_apart(good: Sequence[Action], bad: Sequence[Action], language: Language) -> list[str]:
    """The first pair of neighbours in the better attempt that the worse one called the other way round."""
    places = {action.tool: place for place, action in reversed(list(enumerate(bad)))}
    order = list(dict.fromkeys(action.tool for action in good if action.tool in places))
    for first, second in itertools.pairwise(order):
        if places[second] < places[first]:
            return [phrase("compare_order", language, first=first, second=second)]
    return []


def _errors_apart(good: Sequence[Action], bad: Sequence[Action], language: Language) -> list[str]:
    told = []
    overcome = {(fix.failed.tool, fix.failed.error): fix for fix in fixes_of(good)}
    fixed_by_both = {(fix.failed.tool, fix.failed.error) for fix in fixes_of(bad)}
    for tool, error in dict.fromkeys((a.tool, a.error) for a in bad if a.error):
        if (tool, error) in fixed_by_both:
            continue
        told.append(phrase("compare_error", language, tool=tool, error=error))
        if fix := overcome.get((tool, error)):
            told.append(phrase("compare_overcome", language, how=overcome_how(fix, language)))
    return told[:4]


def _length_apart(good: Sequence[Action], bad: Sequence[Action], language: Language) -> list[str]:
    if good and len(bad) >= len(good) + 2 and len(bad) >= _MANY_MORE * len(good):
        return [phrase("compare_steps", language, best=len(good), worst=len(bad))]
    return []


def _answers_apart(better: Segment, worse: Segment, language: Language) -> list[str]:
    best, worst = answer_of(better), answer_of(worse)
    return [phrase("compare_answers", language, best=best, worst=worst)] if best and worst and best != worst else []
