"""Sets to measure retrieval on: workspaces with what they hold, and questions with what answers them.

A file is in one of four forms, told apart by what is in it:

- `[{workspace, kind?, docs: [{id, author, content, session, sent_at}], questions: [{q, category, evidence: [ids],
  answer?}]}]`; with the kind "memory" the documents are memories, else messages
- LoCoMo's own (Maharana et al., 2024); the questions of category 5, which have no answer, are left out
- `{library: [[beginning of a memory's id, question], …]}`, with the libraries in `../libraries` (`lib_x` is `x.jsonl`)
- a person of `benchmarks/data/people`
- `….jsonl`: small workspaces, a line each, with own queries about nothing (`benchmarks/data/first`, `…/turns`).
  The set has the name of the folder, and that of the file where this is not one of the halves `dev` and `test`
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.people import Person
from reme_core import Memory, Message

LOCOMO_CATEGORIES = {1: "multi_hop", 2: "temporal", 3: "open_domain", 4: "single_hop"}


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, the ids of the documents that answer it, and the right answer where the file has one."""

    text: str
    category: str
    evidence: frozenset[str]
    answer: str = ""


@dataclass(frozen=True, slots=True)
class Conversation:
    """What one workspace holds, and what is asked of it; `set` is the name of its file."""

    set: str
    workspace: str
    docs: Sequence[Message] | Sequence[Memory]
    questions: Sequence[Asked]
    nothing: Sequence[str] = ()
    """Queries that nothing in it answers, where the file has some."""
    language: str = ""
    """Its language, where the file names one."""

    @property
    def messages(self) -> list[Message]:
        """Its documents, where they are messages."""
        return [doc for doc in self.docs if isinstance(doc, Message)]

    @property
    def memories(self) -> list[Memory]:
        """Its documents, where they are memories."""
        return [doc for doc in self.docs if isinstance(doc, Memory)]


def read(path: Path) -> list[Conversation]:
    """The conversations of a file; questions whose evidence is not in it are left out.

    Raises:
        ValueError: The file is in none of the forms.
    """
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        name = path.parent.name if path.stem in ("dev", "test") else f"{path.parent.name} {path.stem}"
        return [small(line, name) for line in text.splitlines()]
    raw = json.loads(text)
    if isinstance(raw, dict) and "sessions" in raw:
        found = [_person(path)]
    elif isinstance(raw, dict):
        found = [_library(path, name, asked) for name, asked in raw.items()]
    elif raw and "conversation" in raw[0]:
        found = [_locomo(sample, number) for number, sample in enumerate(raw)]
    elif raw and "docs" in raw[0]:
        found = [_plain(workspace) for workspace in raw]
    else:
        raise ValueError(f"{path} is in none of the forms that benchmarks/sets.py tells of")
    name = "people" if isinstance(raw, dict) and "sessions" in raw else path.stem.removesuffix("_dev")
    return [Conversation(name, workspace, docs, list(_answered(asked, docs))) for workspace, docs, asked in found]


_Found = tuple[str, list[Message] | list[Memory], list[Asked]]


def _answered(questions: Sequence[Asked], docs: Sequence[Message | Memory]) -> Iterator[Asked]:
    known = {_id(doc) for doc in docs}
    for asked in questions:
        if evidence := asked.evidence & known:
            yield replace(asked, evidence=evidence)


def _id(doc: Message | Memory) -> str:
    return doc.message_id if isinstance(doc, Message) else doc.memory_id


def _plain(raw: dict[str, Any]) -> _Found:
    docs: list[Any]
    if raw.get("kind") == "memory":
        docs = [Memory(memory_id=d["id"], content=d["content"], observed_at=_moment(d["sent_at"])) for d in raw["docs"]]
    else:
        docs = [
            Message(
                message_id=d["id"],
                role="assistant" if d["author"] == "assistant" else "user",
                author="" if d["author"] in ("user", "assistant") else d["author"],
                content=d["content"],
                session_id=d["session"] or "",
                sent_at=_moment(d["sent_at"]) or datetime.now(UTC),
            )
            for d in raw["docs"]
        ]
    asked = [Asked(q["q"], q["category"], frozenset(q["evidence"]), str(q.get("answer", ""))) for q in raw["questions"]]
    return raw["workspace"], docs, asked


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text).replace(tzinfo=UTC) if text else None


def _library(path: Path, name: str, asked: list[tuple[str, str]]) -> _Found:
    lines = (path.parents[1] / "libraries" / f"{name.removeprefix('lib_')}.jsonl").read_text(encoding="utf-8")
    fields = ("memory_id", "when_to_use", "content", "score")
    raw = [json.loads(line) for line in lines.splitlines()]
    docs = [Memory(kind=r["memory_type"], **{field: r[field] for field in fields}) for r in raw]
    ids = {begins: next(m.memory_id for m in docs if m.memory_id.startswith(begins)) for begins, _ in asked}
    return name, docs, [Asked(question, "situation", frozenset([ids[begins]])) for begins, question in asked]


def small(line: str, name: str) -> Conversation:
    """The small workspace of a line; `name` is that of its set."""
    raw = json.loads(line)
    asked = [Asked(q["query"], q["kind"], frozenset(q["answer"])) for q in raw["questions"]]
    docs = [Message(**message) for message in raw["messages"]]
    return Conversation(name, raw["id"], docs, asked, raw["nothing"], raw["language"])


def _person(path: Path) -> _Found:
    person = Person.read(path)
    asked = [
        Asked(q.text, "personal", frozenset(e for f in q.facts for e in person.facts[f].evidence))
        for q in person.queries
    ]
    return person.name, person.messages, asked


def _locomo(sample: dict[str, Any], number: int) -> _Found:
    workspace = str(sample.get("sample_id", number))
    return workspace, messages_of(sample["conversation"]), questions_of(sample)


def messages_of(conversation: dict[str, Any]) -> list[Message]:
    """The turns of all sessions of LoCoMo, in order; an image counts by its caption."""
    messages = []
    for number in range(1, 1 + sum(key.startswith("session_") for key in conversation)):
        turns = conversation.get(f"session_{number}") or []
        date = conversation.get(f"session_{number}_date_time", "")
        said = datetime.strptime(date, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC) if date else datetime.now(UTC)
        for turn in turns:
            caption = f" ({turn['blip_caption']})" if turn.get("blip_caption") else ""
            messages.append(
                Message(
                    message_id=turn["dia_id"],
                    author=turn["speaker"],
                    content=turn["text"] + caption,
                    session_id=f"session_{number}",
                    sent_at=said,
                )
            )
    return messages


def questions_of(sample: dict[str, Any]) -> list[Asked]:
    """Everything that is asked in LoCoMo and has an answer, with the ids of the evidence turns."""
    known = {m.message_id for m in messages_of(sample["conversation"])}
    found = []
    for qa in sample["qa"]:
        evidence = {part for item in qa.get("evidence", []) for part in str(item).replace(";", " ").split()} & known
        if qa["category"] in LOCOMO_CATEGORIES and evidence:
            category = LOCOMO_CATEGORIES[qa["category"]]
            found.append(Asked(qa["question"], category, frozenset(evidence), str(qa.get("answer", ""))))
    return found
