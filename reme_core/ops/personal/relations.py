"""What one statement about a person is to another: the same, more, less, or its contradiction.

By rule where slots or words make it certain; what a model says of a pair is believed only where they do not speak
against it, for small models err often.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

from reme_core.ops.personal.claims import TASTE, TIMELESS, Slot, is_single, slot_of
from reme_core.schema import Kind, Memory, Source, Status
from reme_core.text.terms import terms

Relation = Literal["same", "contained", "fuller", "contradicts", "none"]
"""What a newer statement is to an older one; `contained` says less than it, `fuller` more."""

_NEGATIONS: Final = re.compile(
    r"\b(?:not|no|never|none|nor|without|stopped|quit|gave up|given up|hates?|dislikes?)\b|n't\b"
    r"|[不没无未非戒别]|讨厌|放弃",
    re.IGNORECASE,
)
_DIGITS: Final = re.compile(r"\d+")
_PERSON: Final = frozenset(terms("user 用户"))
_SHARED: Final = 0.25
"""The least share of their words that two statements have in common if a model may call one a repetition."""
# "Drinking coffee" and "coffee" are one thing to like.
_GENERIC: Final = frozenset(terms("drink eat to play use do go have watch"))


@dataclass(slots=True)
class Entry:
    """A statement as the ledger holds it, with what of it is compared."""

    memory: Memory
    stored: bool
    slot: Slot
    terms: frozenset[str]
    numbers: frozenset[str]
    negative: bool
    support: list[Source] = field(default_factory=list)
    restated: int = 0

    @property
    def active(self) -> bool:
        """Whether it still counts."""
        return self.memory.status == Status.ACTIVE

    @property
    def said(self) -> datetime:
        """When it was said, or else made."""
        return self.memory.observed_at or self.memory.created_at


def entry_of(memory: Memory, *, stored: bool) -> Entry:
    """A memory as it is compared with others; `stored` tells what is in the store from what is new."""
    content = memory.content
    return Entry(
        memory,
        stored,
        slot_of(memory.metadata),
        frozenset(terms(content)),
        frozenset(_DIGITS.findall(content)),
        bool(_NEGATIONS.search(content)),
    )


def relate(new: Entry, old: Entry) -> Relation:
    """What a statement is to another one, by slot and by words, where that is certain."""
    if _same_words(new, old):
        return "same"
    if new.slot.name and new.slot.name == old.slot.name:
        by_slot = _relate_tastes(new, old) if new.slot.name == TASTE else _relate_values(new, old)
        if by_slot is not None:
            return by_slot
    return _relate_words(new, old)


def undecided(new: Memory, old: Memory) -> bool:
    """Whether a model may say what a statement is to an older one: rules see no relation, and none rule it out."""
    newer, older = entry_of(new, stored=False), entry_of(old, stored=True)
    if relate(newer, older) != "none" or {newer.slot.name, older.slot.name} & TIMELESS:
        return False
    if (newer.memory.kind == Kind.INSTRUCTION) != (older.memory.kind == Kind.INSTRUCTION):
        return False
    return any(believed(relation, newer, older) != "none" for relation in _BELIEVABLE)


_BELIEVABLE: Final[tuple[Relation, ...]] = ("same", "contradicts")
"""One relation of each sort that `believed` tells apart."""


def _relate_words(new: Entry, old: Entry) -> Relation:
    if new.negative != old.negative or new.numbers != old.numbers or not _same_time(new, old):
        return "none"
    if (new.slot.name, new.memory.kind) != (old.slot.name, old.memory.kind) or min(len(new.terms), len(old.terms)) < 2:
        return "none"
    if new.terms <= old.terms:
        return "contained"
    return "fuller" if old.terms < new.terms else "none"


def believed(relation: Relation, new: Entry, old: Entry) -> Relation:
    """What a model says of a pair, or `none` where the slots say that it cannot be: small models err often."""
    if new.slot.name and old.slot.name and new.slot.name != old.slot.name:
        return "none"
    if relation == "contradicts":
        # Which tastes speak against each other the rules know: "no coffee" ends no evening run.
        both_tastes = new.slot.name == TASTE == old.slot.name
        return "none" if both_tastes or (new.slot.event and old.slot.event) else relation
    same_sense = new.negative == old.negative and new.numbers == old.numbers and _same_time(new, old)
    return relation if same_sense and _share_words(new, old) else "none"


def _share_words(new: Entry, old: Entry) -> bool:
    """Whether two statements speak of one thing in some of the same words: a fact must not go for another's sake."""
    person = _PERSON | frozenset(terms(new.memory.subject))
    ours, theirs = new.terms - person, old.terms - person
    return len(ours & theirs) >= _SHARED * min(len(ours), len(theirs))


def _relate_values(new: Entry, old: Entry) -> Relation | None:
    same_value = new.slot.value == old.slot.value
    if new.slot.holds and old.slot.holds:
        if same_value or new.slot.value < old.slot.value:
            return "fuller" if old.terms < new.terms else "contained"
        if old.slot.value < new.slot.value:
            return "fuller"
        return "contradicts" if is_single(new.slot.name) else None
    if new.slot.holds == old.slot.holds:
        return "contained" if same_value else "none"
    # One says that it has ended: of everything in the slot where it names no value, else of that value.
    ended = old if new.slot.holds else new
    other = new if new.slot.holds else old
    ends = not ended.slot.value or ended.slot.value <= other.slot.value or other.slot.value <= ended.slot.value
    return "contradicts" if ends else "none"


def _relate_tastes(new: Entry, old: Entry) -> Relation | None:
    if new.slot.holds == old.slot.holds:
        return None
    liked, disliked = (new, old) if new.slot.holds else (old, new)
    # Who dislikes black coffee may like coffee; who dislikes coffee does not like it black, in whichever language.
    ended = _object(disliked.slot.value), _object(disliked.slot.in_english)
    of = _object(liked.slot.value), _object(liked.slot.in_english)
    return "contradicts" if any(one and one <= other for one, other in zip(ended, of, strict=True)) else "none"


def _object(value: frozenset[str]) -> frozenset[str]:
    return (value - _GENERIC) or value


def _same_words(new: Entry, old: Entry) -> bool:
    words = [re.sub(r"\W+", " ", e.memory.content).casefold().strip() for e in (new, old)]
    return words[0] == words[1] and _same_time(new, old)


def _same_time(new: Entry, old: Entry) -> bool:
    """Two events are one only if they happened at the same time."""
    if not (new.slot.event or old.slot.event):
        return True
    return new.slot.event and old.slot.event and new.memory.valid_from == old.memory.valid_from
