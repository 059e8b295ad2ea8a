"""What a person claims about themselves, and the slots that let a later claim replace an earlier one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from reme_core.ops.personal.things import in_english
from reme_core.schema import Kind, TimeRange
from reme_core.text.terms import terms

TASTE: Final = "taste"
"""The slot of likes, dislikes and habits: a claim replaces one of opposite sense about the same thing."""

SINGLE: Final = frozenset(
    {"name", "home", "origin", "employer", "job", "birthday", "age", "marital", "diet", "school",
     "answer_language", "answer_length", "address", "units"}
)  # fmt: skip
"""Slots with one value at a time, besides `favourite:…` and `own:…`; of others ("allergy:peanuts") many hold."""
_SINGLE_FAMILIES: Final = ("favourite:", "own:", "relation:")

TIMELESS: Final = frozenset({"name", "origin", "birthday", "age"})
"""Slots of which a year or a day belongs to the fact; it doesn't say since when the fact holds."""

_PROFILE: Final = frozenset(
    {"name", "home", "origin", "employer", "job", "birthday", "age", "marital", "diet", "school"}
)
_INSTRUCTIONS: Final = frozenset({"answer_language", "answer_length", "address", "units", "instruction"})
_IMPORTANCE: Final = {Kind.INSTRUCTION: 0.9, Kind.PROFILE: 0.8, Kind.OBSERVATION: 0.5}


def is_single(slot: str) -> bool:
    """Whether a slot holds one value at a time, so that a new one replaces the old.

    >>> is_single("home"), is_single("allergy:peanuts")
    (True, False)
    """
    return slot in SINGLE or slot.startswith(_SINGLE_FAMILIES)


def kind_of(slot: str, *, holds: bool = True) -> Kind:
    """What sort of memory a claim in this slot makes; what has ended is an observation."""
    if holds and (slot in _INSTRUCTIONS or slot.startswith("allergy:")):
        return Kind.INSTRUCTION
    return Kind.PROFILE if holds and slot in _PROFILE else Kind.OBSERVATION


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim.

    Attributes:
        content: The statement, about the person.
        quote: The words it rests on.
        slot: What it says something about; empty where nothing later could replace it.
        value: What it says of that.
        holds: False where it says that something has ended or isn't so ("I no longer smoke").
        event: Whether it happened at a time, rather than holding from then on.
        when: The time it names.
        importance: 0 to 1; that of its kind if not given.
    """

    content: str
    quote: str
    slot: str = ""
    value: str = ""
    holds: bool = True
    event: bool = False
    when: TimeRange | None = None
    importance: float | None = None

    @property
    def kind(self) -> Kind:
        """What sort of memory it makes."""
        return kind_of(self.slot, holds=self.holds)

    @property
    def weight(self) -> float:
        """Its importance, 0 to 1."""
        return self.importance if self.importance is not None else _IMPORTANCE[self.kind]


@dataclass(frozen=True, slots=True)
class Slot:
    """What a memory's metadata say of the place it fills; see `marks`."""

    name: str = ""
    value: frozenset[str] = field(default_factory=frozenset)
    holds: bool = True
    event: bool = False
    in_english: frozenset[str] = field(default_factory=frozenset)
    """The value by its English name, where it is nothing but a thing that has one."""


def marks(slot: str, value: str, *, holds: bool, event: bool) -> dict[str, Any]:
    """The metadata by which reconciliation knows a memory's slot again; what is usual is left out."""
    told = {"slot": slot, "value": value, "holds": holds, "event": event}
    usual = {"slot": "", "value": "", "holds": True, "event": False}
    return {name: told[name] for name in told if told[name] != usual[name]}


def slot_of(metadata: dict[str, Any]) -> Slot:
    """The slot that a memory's metadata tell of."""
    value = metadata.get("value", "")
    return Slot(
        str(metadata.get("slot", "")),
        frozenset(terms(value)) if isinstance(value, str) else frozenset(),
        metadata.get("holds", True) is not False,
        metadata.get("event", False) is True,
        frozenset(terms(in_english(value))) if isinstance(value, str) else frozenset(),
    )
