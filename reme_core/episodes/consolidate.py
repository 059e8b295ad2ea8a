"""Distilling what many episodes have in common into a few rules for all tasks."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, Field

from reme_core.errors import ModelError
from reme_core.experience import WORKS_FROM, high_score_rules
from reme_core.models import ChatModel
from reme_core.prompts import Language, prompt
from reme_core.text.fence import fenced
from reme_core.text.terms import language_of

log = logging.getLogger(__name__)

LOOKED_AT: Final = 30
"""Newest episodes that a model is shown."""
MAX_RULES: Final = 5


class _Rules(BaseModel):
    rules: list[str] = Field(description="Rules for all tasks, one sentence each")


@dataclass(frozen=True)
class Attempt:
    """An episode as consolidation sees it."""

    task_id: Any
    score: float
    summary: str


@dataclass(frozen=True)
class Distilled:
    """Rules for all tasks, who made them, and why a model did not where one should have."""

    rules: list[str]
    author: str
    error: str = ""


async def distil(
    attempts: Sequence[Attempt], chat: ChatModel | None, *, works_from: float = WORKS_FROM, setting: str = "auto"
) -> Distilled:
    """Make rules of the newest episodes (given oldest first), by the model, or from the summaries of good ones.

    A model that fails is logged and told in the result, and the summaries serve.
    """
    by_rules = high_score_rules([(a.score, a.summary) for a in attempts], works_from=works_from)
    if chat is None or not attempts:
        return Distilled(by_rules, "rules")
    latest = attempts[-LOOKED_AT:]
    told = "\n".join(f"task={a.task_id} score={a.score:.2f}: {a.summary}" for a in latest)
    request = prompt(
        "consolidate_episodes", _language(setting, latest), episodes=fenced(told, "episodes"), most=MAX_RULES
    )
    try:
        answer = await chat.structured(request, _Rules, temperature=0.0, purpose="consolidate_episodes")
    except ModelError as error:
        log.warning("the chat model did not distil rules from episodes, their summaries serve instead: %s", error)
        return Distilled(by_rules, "rules", str(error))
    stated = list(dict.fromkeys(" ".join(rule.split()) for rule in answer.rules if rule.strip()))
    return Distilled([f"[CONSOLIDATED] {rule}" for rule in stated[:MAX_RULES]], chat.name)


def _language(setting: str, attempts: Sequence[Attempt]) -> Language:
    if setting in ("en", "zh"):
        return "zh" if setting == "zh" else "en"
    return "zh" if language_of(" ".join(a.summary for a in attempts)[:4_000]) == "zh" else "en"
