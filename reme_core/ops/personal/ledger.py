"""Reconciliation: what becomes of stored statements, and of new ones, when they are laid side by side.

The ledger holds the stored statements that may be concerned, takes in new ones in the order in which they were said,
and in the end gives the one `Change` that has to be made. Nothing is deleted: a contradicted statement is closed on
both axes, `superseded` (when we knew it) and at the time of the newer one (when it held). A statement that comes late,
already contradicted by a stored one that was said after it, is stored as history.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

from reme_core.ops.personal.claims import TASTE, TIMELESS, Slot, is_single, slot_of
from reme_core.schema import Kind, Memory, Source, Status
from reme_core.store.change import Change, Close
from reme_core.text.terms import terms

Relation = Literal["same", "contained", "fuller", "contradicts", "none"]
"""What a newer statement is to an older one; `contained` says less than it, `fuller` more."""

_NEGATIONS: Final = re.compile(
    r"\b(?:not|no|never|none|nor|without|stopped|quit|gave up|given up|hates?|dislikes?)\b|n't\b"
    r"|[不没无未非戒别]|讨厌|放弃",
    re.IGNORECASE,
)
_DIGITS: Final = re.compile(r"\d+")
# "Drinking coffee" and "coffee" are one thing to like.
_GENERIC: Final = frozenset(terms("drink eat to play use do go have watch"))


@dataclass(slots=True)
class _Entry:
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
        return self.memory.status == Status.ACTIVE

    @property
    def said(self) -> datetime:
        return self.memory.observed_at or self.memory.created_at


class Ledger:
    """Stored statements about one person, and what new ones make of them.

    Args:
        stored: Active memories that new statements may restate, complete or contradict.
    """

    def __init__(self, stored: Iterable[Memory]) -> None:
        self._entries = [_entry(memory, stored=True) for memory in stored]

    def take(self, new: Memory, judged: Mapping[str, Relation] | None = None) -> None:
        """Lay one new statement beside all others.

        Args:
            new: The statement.
            judged: Relations to single memories, by id, that a model has seen; rules go before it.
        """
        entry = _entry(new, stored=False)
        if any(e.memory.memory_id == new.memory_id for e in self._entries):
            return
        closed_by: _Entry | None = None
        for old in [e for e in self._entries if e.active]:
            relation = relate(entry, old)
            if relation == "none" and judged:
                relation = _believed(judged.get(old.memory.memory_id, "none"), entry, old)
            if relation in ("same", "contained"):
                _restate(old, entry)
                return
            if relation == "fuller":
                _complete(old, entry)
            elif relation == "contradicts":
                if entry.said >= old.said:
                    _take_over(old, entry)
                elif closed_by is None or old.said < closed_by.said:
                    closed_by = old
        if closed_by is not None:
            _close(entry, closed_by, at=_begin(closed_by))
        self._entries.append(entry)

    def revisit(self, judged: Mapping[tuple[str, str], Relation] | None = None) -> None:
        """Lay the stored statements beside each other: repetitions are closed, and contradictions, the older first.

        Args:
            judged: Relations that a model has seen, by the ids of the newer and the older one; rules go before it.
        """
        ordered = sorted((e for e in self._entries if e.active), key=lambda e: e.said)
        for place, newer in enumerate(ordered):
            for older in ordered[:place]:
                if not (older.active and newer.active):
                    continue
                relation = relate(newer, older)
                if relation == "none" and judged:
                    relation = judged.get((newer.memory.memory_id, older.memory.memory_id), "none")
                    relation = _believed(relation, newer, older)
                if relation in ("same", "contained"):
                    _restate(older, newer)
                    _close(newer, older, at=None)
                elif relation == "fuller":
                    _close(older, newer, at=None)
                elif relation == "contradicts":
                    _take_over(older, newer)

    def expire(self, memory_ids: Iterable[str]) -> None:
        """Close stored statements without a successor: what they rest on was taken back."""
        wanted = set(memory_ids)
        for entry in self._entries:
            if entry.memory.memory_id in wanted and entry.active:
                entry.memory = entry.memory.model_copy(update={"status": Status.EXPIRED})

    def change(self, summarised: Sequence[str] = (), decided_after: int | None = None) -> Change:
        """Everything that has to be stored, closed and counted, as one change."""
        add = [
            e.memory.model_copy(
                update={
                    "sources": _distinct([*e.memory.sources, *e.support]),
                    "seen_count": e.memory.seen_count + e.restated,
                }
            )
            for e in self._entries
            if not e.stored
        ]
        close = [
            Close(
                e.memory.memory_id,
                "superseded" if e.memory.status == Status.SUPERSEDED else "expired",
                e.memory.superseded_by,
                e.memory.valid_until if e.memory.status == Status.SUPERSEDED else None,
            )
            for e in self._entries
            if e.stored and not e.active
        ]
        restated = [e for e in self._entries if e.stored and e.active and e.restated]
        return Change(
            add=add,
            close=close,
            restate=[e.memory.memory_id for e in restated],
            support={e.memory.memory_id: e.support for e in restated if e.support},
            summarised=summarised,
            decided_after=decided_after,
        )


def relate(new: _Entry, old: _Entry) -> Relation:
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
    newer, older = _entry(new, stored=False), _entry(old, stored=True)
    if relate(newer, older) != "none" or {newer.slot.name, older.slot.name} & TIMELESS:
        return False
    if (newer.memory.kind == Kind.INSTRUCTION) != (older.memory.kind == Kind.INSTRUCTION):
        return False
    return any(_believed(relation, newer, older) != "none" for relation in _BELIEVABLE)


_BELIEVABLE: Final[tuple[Relation, ...]] = ("same", "contradicts")
"""One relation of each sort that `_believed` tells apart."""


def _relate_words(new: _Entry, old: _Entry) -> Relation:
    if new.negative != old.negative or new.numbers != old.numbers or not _same_time(new, old):
        return "none"
    if (new.slot.name, new.memory.kind) != (old.slot.name, old.memory.kind) or min(len(new.terms), len(old.terms)) < 2:
        return "none"
    if new.terms <= old.terms:
        return "contained"
    return "fuller" if old.terms < new.terms else "none"


def _believed(relation: Relation, new: _Entry, old: _Entry) -> Relation:
    """What a model says of a pair, or `none` where the slots say that it cannot be: small models err often."""
    if new.slot.name and old.slot.name and new.slot.name != old.slot.name:
        return "none"
    if relation == "contradicts":
        # Which tastes speak against each other the rules know: "no coffee" ends no evening run.
        both_tastes = new.slot.name == TASTE == old.slot.name
        return "none" if both_tastes or (new.slot.event and old.slot.event) else relation
    same_sense = new.negative == old.negative and new.numbers == old.numbers and _same_time(new, old)
    return relation if same_sense else "none"


def _relate_values(new: _Entry, old: _Entry) -> Relation | None:
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


def _relate_tastes(new: _Entry, old: _Entry) -> Relation | None:
    if new.slot.holds == old.slot.holds:
        return None
    liked, disliked = (new, old) if new.slot.holds else (old, new)
    # Who dislikes black coffee may like coffee; who dislikes coffee does not like it black, in whichever language.
    ended = _object(disliked.slot.value), _object(disliked.slot.in_english)
    of = _object(liked.slot.value), _object(liked.slot.in_english)
    return "contradicts" if any(one and one <= other for one, other in zip(ended, of, strict=True)) else "none"


def _object(value: frozenset[str]) -> frozenset[str]:
    return (value - _GENERIC) or value


def _same_words(new: _Entry, old: _Entry) -> bool:
    words = [re.sub(r"\W+", " ", e.memory.content).casefold().strip() for e in (new, old)]
    return words[0] == words[1] and _same_time(new, old)


def _same_time(new: _Entry, old: _Entry) -> bool:
    """Two events are one only if they happened at the same time."""
    if not (new.slot.event or old.slot.event):
        return True
    return new.slot.event and old.slot.event and new.memory.valid_from == old.memory.valid_from


def _close(old: _Entry, new: _Entry, *, at: datetime | None) -> None:
    """End `old` because of `new`; `at` is when it ceased to hold, None where it holds on in other words."""
    until = min((moment for moment in (at, old.memory.valid_until) if moment), default=None)
    start = old.memory.valid_from
    if until and start and start > until:
        until = start
    old.memory = old.memory.model_copy(
        update={"status": Status.SUPERSEDED, "superseded_by": new.memory.memory_id, "valid_until": until}
    )


def _take_over(old: _Entry, new: _Entry) -> None:
    """Let `new` hold from where `old` ends."""
    if new.memory.valid_from is None and not new.stored:
        new.memory = new.memory.model_copy(update={"valid_from": new.said})
    _close(old, new, at=_begin(new))


def _complete(old: _Entry, new: _Entry) -> None:
    """Let `new`, which says more, stand for `old`: with its evidence, and since when it held."""
    new.restated += old.memory.seen_count
    new.support += old.memory.sources
    begins = [moment for moment in (old.memory.valid_from, new.memory.valid_from) if moment]
    if not new.slot.event and len(begins) == 2:
        new.memory = new.memory.model_copy(update={"valid_from": min(begins)})
    _close(old, new, at=None)


def _restate(old: _Entry, new: _Entry) -> None:
    known = {(source.kind, source.id) for source in (*old.memory.sources, *old.support)}
    if new.memory.sources and {(source.kind, source.id) for source in new.memory.sources} <= known:
        return  # the same message says it once, in however many words it was put
    old.restated += new.memory.seen_count
    old.support += new.memory.sources


def _begin(entry: _Entry) -> datetime:
    return entry.memory.valid_from or entry.said


def _entry(memory: Memory, *, stored: bool) -> _Entry:
    content = memory.content
    return _Entry(
        memory,
        stored,
        slot_of(memory.metadata),
        frozenset(terms(content)),
        frozenset(_DIGITS.findall(content)),
        bool(_NEGATIONS.search(content)),
    )


def _distinct(sources: Sequence[Source]) -> list[Source]:
    return list({(s.kind, s.id): s for s in reversed(sources)}.values())[::-1]
