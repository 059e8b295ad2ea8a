"""Distil a few rules for all tasks from many episodes."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import BaseModel, Field

from reme_core.episodes.rules import THRESHOLDS, in_one_line
from reme_core.errors import ModelError
from reme_core.models import ChatModel
from reme_core.prompts import prompt
from reme_core.prompts.fence import fence
from reme_core.prompts.transcript import language

log = logging.getLogger(__name__)

MAX_EPISODES: Final = 30
"""So many of the newest episodes are shown to a model."""
MAX_RULES: Final = 5


class _Rules(BaseModel):
    rules: list[str] = Field(description="Rules for all tasks, one sentence each")


@dataclass(frozen=True)
class Attempt:
    """The part of an episode that consolidation reads."""

    task_id: Any
    score: float
    summary: str


@dataclass(frozen=True)
class Consolidation:
    """The result of a consolidation."""

    due: bool
    """Whether there was anything to do; not if too few episodes are new, or another caller has just done it."""
    rules: list[str] = field(default_factory=list)
    """The new rules for all tasks."""
    author: str = ""
    """The model's name, or `rules`."""
    error: str = ""
    """Why the model failed, if it did; the rules then come from the summaries of good episodes."""


def consolidation_by_rules(
    attempts: Sequence[Attempt], works_from: float = THRESHOLDS.works_from, error: str = ""
) -> Consolidation:
    """Rules made without a model: the summaries of good attempts, without repetitions.

    >>> consolidation_by_rules([Attempt("t", 0.91, "Checked twice."), Attempt("t", 0.2, "Guessed.")]).rules
    ['[HIGH SCORE 0.91] Checked twice.']
    """
    good = [a for a in attempts if a.score >= works_from and a.summary]
    rules = dict.fromkeys(f"[HIGH SCORE {a.score:.2f}] {a.summary[:120]}" for a in good)
    return Consolidation(True, list(rules), "rules", error)


async def distil(
    attempts: Sequence[Attempt],
    chat: ChatModel | None,
    *,
    works_from: float = THRESHOLDS.works_from,
    setting: str = "auto",
) -> Consolidation:
    """Make rules from the newest attempts, which come last: by the model, or from the summaries of good attempts.

    If the model fails, its error is logged and returned, and the summaries are used. The prompt is in the language of
    the `setting`, `en` or `zh`, or else of the summaries.
    """
    if chat is None or not attempts:
        return consolidation_by_rules(attempts, works_from)
    latest = attempts[-MAX_EPISODES:]
    listing = "\n".join(in_one_line(f"task={a.task_id} score={a.score:.2f}: {a.summary}") for a in latest)
    speech = language(setting, [a.summary for a in latest])
    request = prompt("consolidate_episodes", speech, episodes=fence(listing, "episodes"), most=MAX_RULES)
    try:
        answer = await chat.complete_as(request, _Rules, purpose="consolidate_episodes")
    except ModelError as error:
        log.warning("the chat model did not distil rules from episodes, their summaries serve instead: %s", error)
        return consolidation_by_rules(attempts, works_from, str(error))
    stated = list(dict.fromkeys(" ".join(rule.split()) for rule in answer.rules if rule.strip()))
    return Consolidation(True, [f"[CONSOLIDATED] {rule}" for rule in stated[:MAX_RULES]], chat.name)
