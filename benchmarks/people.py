"""People whose conversations are remembered: what they say, and the key of what there is to know.

A file holds one invented person: sessions of messages, facts with their evidence and what ends them, messages that tell
nothing, moments at which a fact has to be in some state, and questions. `benchmarks/data/people/README.md` tells of
every field.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from reme_core.types import Message

DATA = Path(__file__).with_name("data") / "people"


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing to know, as the key has it."""

    id: str
    about: str
    thing: str
    statement: str
    evidence: tuple[str, ...]
    context: tuple[str, ...]
    says: tuple[tuple[str, ...], ...]
    known_from: str
    valid_from: str
    valid_until: str
    ended_by: str
    """The message that ends it; empty where it holds on."""
    how: str
    """replaced, ended, retracted, forgotten or elapsed."""
    successor: str

    @classmethod
    def of(cls, raw: dict[str, Any]) -> Fact:
        """A fact of a person's file."""
        ended = raw.get("ended") or {}
        return cls(
            raw["id"], raw["about"], raw["thing"], raw["statement"], tuple(raw["evidence"]),
            tuple(raw.get("context") or ()), tuple(map(tuple, raw["says"])), raw["known_from"],
            raw.get("valid_from") or "", raw.get("valid_until") or "",
            ended.get("message", ""), ended.get("how", ""), ended.get("by") or "",
        )  # fmt: skip

    def said_in(self, text: str) -> bool:
        """Whether a text says it: of every group of wordings one occurs."""
        return says(self.says, text)


def says(groups: Sequence[Sequence[str]], text: str) -> bool:
    """Whether of every group of wordings one occurs in a text."""
    folded = text.casefold()
    return all(any(word.casefold() in folded for word in group) for group in groups)


@dataclass(frozen=True, slots=True)
class Check:
    """The state that a fact has to be in at a moment: current, ended or absent."""

    at: datetime
    fact: str
    state: str


@dataclass(frozen=True, slots=True)
class Query:
    """A question that is asked at a moment, with the facts that answer it then."""

    at: datetime
    text: str
    facts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Person:
    """One person, with all that they say in order, and the key."""

    name: str
    language: str
    sessions: tuple[tuple[Message, ...], ...]
    facts: dict[str, Fact]
    never: dict[str, tuple[tuple[str, ...], ...]]
    """Messages of which nothing may be remembered; by id, how a wrong memory would be recognised."""
    checks: tuple[Check, ...]
    queries: tuple[Query, ...]
    wishes: tuple[str, ...]
    """Messages that tell the assistant how to behave from now on."""
    nothing: tuple[str, ...]
    """What may be said at any time, and no memory is of use for."""

    @classmethod
    def read(cls, path: Path) -> Person:
        """The person of a file; ids get the file's name before them, so that people can share a database."""
        raw = json.loads(path.read_text(encoding="utf-8"))
        sessions = tuple(tuple(_messages(session, raw["person"])) for session in raw["sessions"])
        return cls(
            raw["person"],
            raw["language"],
            sessions,
            {fact["id"]: Fact.of(fact) for fact in raw["facts"]},
            {n["message"]: tuple(map(tuple, n.get("false_says") or ())) for n in raw["never"]},
            tuple(Check(datetime.fromisoformat(c["at"]), c["fact"], c["state"]) for c in raw["checks"]),
            tuple(Query(datetime.fromisoformat(q["at"]), q["question"], tuple(q["facts"])) for q in raw["questions"]),
            tuple(wish["message"] for wish in raw.get("wishes") or ()),
            tuple(raw.get("nothing") or ()),
        )

    @property
    def messages(self) -> list[Message]:
        """All that is said, in order."""
        return [message for session in self.sessions for message in session]


def read_people(folder: Path) -> list[Person]:
    """The people of a folder, by name of file.

    Raises:
        FileNotFoundError: There is none.
    """
    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise FileNotFoundError(f"no people in {folder}; name a folder of their files with --people")
    return [Person.read(path) for path in paths]


def _messages(session: dict[str, Any], person: str) -> Iterator[Message]:
    for raw in session["messages"]:
        yield Message(
            message_id=raw["id"],
            session_id=f"{person}-{session['id']}",
            role=raw["role"],
            author=raw["name"] if raw["role"] == "user" else "",
            content=raw["text"],
            sent_at=datetime.fromisoformat(raw["at"]),
        )
