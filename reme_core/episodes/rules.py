"""Episodes and mistake cards, the rules that follow from episodes, and the order of cards.

The store and the dict of `reme_core.compat.agent_memory` both use these functions. Thresholds and limits are those of
the training helper whose files this memory reads and writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final

from pydantic import AfterValidator, AliasChoices, ConfigDict, Field, field_validator

from reme_core.given import Count, JsonObject, Measure, Moment, StrictlyNamed, storable
from reme_core.settings import EpisodeSettings
from reme_core.types import Message, new_id, now

THRESHOLDS: Final = EpisodeSettings()
MAX_TASK_RULES: Final = 10
"""So many rules of one task are shown, the newest."""
MAX_GLOBAL_RULES: Final = 20
MAX_CARDS: Final = 30
MAX_LOG: Final = 100
"""Episodes in the log of the helper's file."""
MAX_CARD_TEXT: Final = 300
"""Characters of a card's evidence and lesson that the helper keeps, and that a workspace's note shows."""

UNKNOWN_TASK: Final = "unknown"
_NO_LESSON: Final = "Avoid repeating this failure."

Card = dict[str, Any]
"""A mistake card as in the helper's file."""


class MistakeCard(StrictlyNamed):
    """A mistake and its lesson. Cards with the same type, task, worker and correct decision are the same card."""

    model_config = ConfigDict(extra="allow")

    mistake_type: str = ""
    task_id: str = ""
    """The task in which it was made; if empty, the task of the episode."""
    worker_id: Any = None
    bad_decision: Any = None
    correct_decision: Any = None
    evidence: str = ""
    lesson: str = ""

    @field_validator("mistake_type", "task_id", "evidence", "lesson", mode="before")
    @classmethod
    def _to_text(cls, value: Any) -> str:
        return str(value or "")


class Episode(StrictlyNamed):
    """One scored attempt at a task.

    An episode that is recorded twice is counted once: episodes of a workspace with the same `episode_id` are the same.
    """

    model_config = ConfigDict(populate_by_name=True, extra="ignore")

    task_id: str = UNKNOWN_TASK
    score: Measure = 0.0
    """How well the attempt went, 0 to 1; other numbers, such as a reward below 0, are compared likewise."""
    steps: Annotated[Count, Field(ge=0)] = 0
    summary: str = Field(default="", validation_alias=AliasChoices("summary", "trajectory_summary"))
    """What happened, in a sentence or two."""
    mistakes: list[str] = Field(default_factory=list)
    successes: list[str] = Field(default_factory=list)
    mistake_cards: list[MistakeCard] = Field(default_factory=list)
    messages: Annotated[list[Message], AfterValidator(storable)] = Field(default_factory=list)
    """The trajectory, which is stored as evidence. Ids of messages that name no session count within the episode."""
    episode_id: str = Field(default_factory=new_id, min_length=1)
    worker_id: str = ""
    """The worker that made the attempt, if there are several."""
    finished_at: Moment = Field(default_factory=now)
    metadata: JsonObject = Field(default_factory=dict)
    number: int | None = None
    """The number among all episodes of the workspace, from 1; set when the episode is recorded."""

    @field_validator("task_id")
    @classmethod
    def _default_task(cls, value: str) -> str:
        return value or UNKNOWN_TASK


def outcome_rules(
    score: float, mistakes: Iterable[str], successes: Iterable[str], thresholds: EpisodeSettings = THRESHOLDS
) -> list[str]:
    """The rules that follow from an episode for its task, in order, each with its outcome as a tag.

    >>> outcome_rules(0.9, ["guessed"], ["read the logs first"])
    ['[WORKS] read the logs first']
    """
    rules = [f"[WORKS] {success}" for success in successes] if score >= thresholds.works_from else []
    return rules + ([f"[AVOID] {mistake}" for mistake in mistakes] if score < thresholds.avoid_below else [])


def in_one_line(text: str) -> str:
    """The text without line breaks: what follows one would read as another rule or attempt, or as a heading."""
    return " ".join(line for line in str(text).splitlines() if line.strip())


def outcome_of(rule: str) -> str:
    """The outcome in a rule's tag: works, avoid, consolidated or high_score; `stated` for a rule without a tag."""
    tags = {"[WORKS] ": "works", "[AVOID] ": "avoid", "[CONSOLIDATED] ": "consolidated", "[HIGH SCORE ": "high_score"}
    return next((outcome for tag, outcome in tags.items() if rule.startswith(tag)), "stated")


def card_key(card: Mapping[str, Any]) -> tuple[Any, ...]:
    """The key of a card; cards with equal keys are the same card."""
    # A value that is missing, None or an empty text is the same value.
    decision = (card.get("worker_id") or "", card.get("correct_decision") or "")
    return (card.get("mistake_type"), card.get("task_id"), *decision)


def rank_cards(cards: Iterable[Card]) -> list[Card]:
    """Sort cards by how often they were seen, then by how recently, both falling."""
    return sorted(cards, key=lambda c: (int(c.get("seen_count", 0)), int(c.get("last_seen_episode", 0))), reverse=True)


def new_card(card: Mapping[str, Any], task_id: str, *, longest: int | None = None) -> Card:
    """The card of an episode for the list, with defaults for missing values; texts are cut to `longest` characters."""
    return {
        "mistake_type": str(card.get("mistake_type") or "unknown_mistake"),
        "task_id": str(card.get("task_id") or task_id),
        "worker_id": card.get("worker_id"),
        "bad_decision": card.get("bad_decision"),
        "correct_decision": card.get("correct_decision"),
        "evidence": str(card.get("evidence") or "")[:longest],
        "lesson": str(card.get("lesson") or _NO_LESSON)[:longest],
    }


def count_card(cards: list[Card], card: Card, episode: int, *, earlier: Card | None = None) -> Sequence[Card]:
    """Add a card from `new_card` to the list of the cards seen most; if the list has it, count it as seen once more.

    `earlier` is the same card with its counts, if it had dropped off the list. Returns the cards that this drops off.
    """
    known = next((there for there in cards if card_key(there) == card_key(card)), None)
    if known is not None:
        _count_sighting(known, card, episode)
        return ()
    if earlier is None:
        cards.append({**card, "seen_count": 1, "first_seen_episode": episode, "last_seen_episode": episode})
    else:
        _count_sighting(earlier, card, episode)
        cards.append(earlier)
    ordered = rank_cards(cards)
    cards[:] = ordered[:MAX_CARDS]
    return ordered[MAX_CARDS:]


def _count_sighting(known: Card, again: Card, episode: int) -> None:
    known["seen_count"] = int(known.get("seen_count", 1)) + 1
    known["last_seen_episode"] = episode
    for name in ("evidence", "lesson"):
        known[name] = again[name] or known.get(name, "")
