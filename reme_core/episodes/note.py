"""Write the note about past episodes for a system prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from reme_core.episodes.rules import Card, in_one_line
from reme_core.prompts import Language, phrase
from reme_core.prompts.budget import count_tokens

SHOWN_MISTAKES: Final = 3
SHOWN_CARDS: Final = 3
MAX_SUMMARY: Final = 100
"""Characters of an episode's summary that the note shows."""

# The most useful part for its length comes first. The mean score is one short line, so it comes before whole lists.
_PRIORITY: Final = ("task_rules", "cards", "mean", "global_rules", "mistakes", "recent")


@dataclass(frozen=True)
class PastEpisodes:
    """The content of a note, for one task and for all; lists begin with the oldest, cards with the one seen most."""

    task_id: str = ""
    task_rules: Sequence[str] = ()
    global_rules: Sequence[str] = ()
    mistakes: Sequence[str] = ()
    cards: Sequence[Card] = ()
    recent: Sequence[tuple[float, Any, str]] = ()
    """Episodes of the task: score, steps, summary."""
    mean: tuple[float, int] | None = None
    """Mean score at the task, and the number of its episodes."""


def episode_note(past: PastEpisodes, language: Language = "en", *, token_budget: int | None = None) -> str:
    """Write the note, at most as long as the budget, as `count_tokens` counts; empty if nothing is known.

    Rules of the task are put in first, then cards, the mean score, rules for all tasks, mistakes and recent episodes.
    The newest of a list come first, and the cards seen most.
    """
    if token_budget is None:
        return _render(past, language)
    kept = PastEpisodes(past.task_id)
    for name in _PRIORITY:
        part = getattr(past, name)
        # One member more at a time, and measured in the whole note: the first one brings the heading of its list.
        counts = range(1, len(part) + 1) if name != "mean" else ()
        for best in [part[:n] if name == "cards" else part[-n:] for n in counts] or [part]:
            extended = replace(kept, **{name: best})
            if count_tokens(_render(extended, language)) > token_budget:
                break
            kept = extended
    return _render(kept, language)


def _render(past: PastEpisodes, language: Language) -> str:
    task = in_one_line(past.task_id)
    cards = [
        phrase(
            "episode_card",
            language,
            type=card.get("mistake_type", "mistake"),
            seen=int(card.get("seen_count", 1)),
            lesson=card.get("lesson", ""),
            evidence=card.get("evidence", ""),
        )
        for card in past.cards
    ]
    recent = [
        phrase("episode_one", language, score=f"{score:.2f}", steps=steps, summary=summary[:MAX_SUMMARY])
        for score, steps, summary in past.recent
    ]
    mistakes = [phrase("episode_mistake", language, text=text) for text in past.mistakes]
    sections = [
        (phrase("episode_task_rules", language, task=task), past.task_rules),
        (phrase("episode_global_rules", language), past.global_rules),
        (phrase("episode_mistakes", language), mistakes),
        (phrase("episode_cards", language), cards),
        (phrase("episode_recent", language, task=task), recent),
    ]
    lines = []
    for heading, items in sections:
        if items:
            lines += ["", heading, *(f" - {in_one_line(item)}" for item in items)]
    if past.mean is not None:
        mean, count = past.mean
        lines += ["", phrase("episode_mean", language, task=task, mean=f"{mean:.2f}", count=count)]
    return "\n".join([phrase("episode_head", language), *lines]) if lines else ""
