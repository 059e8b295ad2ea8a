"""What a reading makes of the store: a model answers with operations, and those that are let through are one change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from pydantic import BaseModel, Field

from reme_core.marks import READ, forgotten_note, is_quote
from reme_core.personal.forget import erasure_of, was_said_by
from reme_core.personal.quotes import commands_to_forget
from reme_core.personal.state import Outcome, PersonalState
from reme_core.prompts.transcript import condense
from reme_core.store.change import Change, Close, Erase
from reme_core.text.commands import Command, validity_of_wishes
from reme_core.text.forgetting import erases, names_topic
from reme_core.text.likeness import part_told, says_the_same
from reme_core.text.timex import resolve_bound, validity, with_dates
from reme_core.types import Kind, Memory, Message, Source, Status, TimeRange, scope_of

_KINDS: Final = {"profile": Kind.PROFILE, "instruction": Kind.INSTRUCTION}
_IMPORTANCE: Final = {Kind.INSTRUCTION: 0.9, Kind.PROFILE: 0.8}


Operator = Literal["add", "confirm", "change", "end", "forget", "nothing"]

CLOSING: frozenset[Operator] = frozenset({"change", "end", "forget"})
"""What closes the memory that it names."""


class Operation(BaseModel):
    """One operation; see the prompt `personal/read` for what its fields mean."""

    op: Operator
    evidence: list[int] = Field(description="Numbers of the messages that say it")
    memory: int = Field(0, description="Number of the remembered statement; 0 for none")
    about: str = Field("", description="user, or whom else it is about")
    thing: str = Field("", description="What it is about, in one to three words")
    value: str = Field("", description="The value, in words of the messages")
    statement: str = Field("", description="One sentence that is understood alone")
    kind: Literal["fact", "profile", "event", "instruction"] = "fact"
    since: str = Field("", description="When it begins, in words of the messages or as YYYY-MM-DD; or empty")
    until: str = Field("", description="When it ends, likewise")


class Reading(BaseModel):
    """All operations of one window."""

    operations: list[Operation]


class _ShortOperation(BaseModel):
    op: Operator
    evidence: list[int]
    memory: int
    value: str
    statement: str


class ShortReading(BaseModel):
    """The same with the fields that a small model fills in reliably."""

    operations: list[_ShortOperation]


class Confirmation(BaseModel):
    """Which of the closing operations hold, now that their memories are shown in full."""

    holds: list[int] = Field(description="Numbers of the operations that hold")


@dataclass(frozen=True, slots=True)
class Accepted:
    """An operation that the guards let through, with what people said for it, and the memory that it names."""

    operation: Operation
    evidence: list[Message]
    memory: Memory | None
    statement: str


@dataclass(slots=True)
class Reconciliation:
    """Lays operations beside what they name, in the order of the model's answer.

    A closed memory ends on both axes: `superseded` or `expired`, and at the time of what ended it. What is told late,
    after something newer, is stored as history.
    """

    author: str  # the model
    state: PersonalState  # which says whom messages without an author are from
    timezone: str  # in which the speakers' days begin
    made_before: Sequence[Memory]  # of the same messages: quotes, or what was read before an edit
    new: dict[str, Memory] = field(default_factory=dict)
    again: dict[str, Memory] = field(default_factory=dict)  # stored ones that this answer states once more
    closing: dict[str, Close] = field(default_factory=dict)
    support: dict[str, list[Source]] = field(default_factory=dict)
    annotations: dict[str, dict[str, Any]] = field(default_factory=dict)
    erased: dict[str, Memory] = field(default_factory=dict)
    erasures: list[Erase] = field(default_factory=list)

    def take(self, item: Accepted) -> None:
        """Carry out one operation; a memory is closed once."""
        old, op = item.memory, item.operation.op
        if old is not None and not self._stands(old):
            if op not in ("add", "change"):
                return
            old = None
        earlier = self._earlier_addition(item) if old is None and op != "add" else None
        if earlier is not None and earlier.memory_id in self.new and op in CLOSING:
            self._replace(earlier, item)
        elif op in ("add", "change"):
            self._add(old or earlier if op == "change" else None, item)
        elif named := old or earlier:
            (self._confirm if op == "confirm" else self._end)(named, item)

    def forget(self, command: Command, message: Message, stored: Sequence[Memory]) -> None:
        """Let go of stored memories as a command says, and of what was said before it about its topic."""
        said = [m for m in self.new.values() if was_said_by(m, message.sent_at)]
        named = [*stored, *(m for m in said if names_topic(command.topic, m.content))]
        if command.action == "erase":
            self._erase(named, message)
            return
        for memory in named:
            if memory.memory_id in self.new:
                memory.status = Status.EXPIRED
                memory.metadata |= forgotten_note(memory, message.message_id)
            else:
                self._forget(memory, message)

    def outcome(self) -> Outcome:
        """What has come of the operations; quotes give way to what was made of their messages."""
        for quote in filter(is_quote, self.made_before):
            own = {source.id for source in quote.sources}
            heir = next((m for m in self.new.values() if own & {source.id for source in m.sources}), None)
            if quote.memory_id in self.closing:
                continue
            if heir is None and quote.kind == Kind.INSTRUCTION:
                self.annotations[quote.memory_id] = {"read": True}  # it stays, as no model contradicts it
            else:
                successor = heir.memory_id if heir else None
                self.closing[quote.memory_id] = Close(quote.memory_id, "superseded" if heir else "expired", successor)
        change = Change(
            add=list(self.new.values()),
            close=list(self.closing.values()),
            confirm=list(self.support),
            support=self.support,
            annotate=self.annotations,
            erase=self.erasures,
        )
        return Outcome(change, list(self.erased.values()))

    def _earlier_addition(self, item: Accepted) -> Memory | None:
        """What an earlier operation of this answer stated of the same person and thing, and that is not over yet."""
        thing, about = item.operation.thing.casefold(), item.operation.about.casefold() or "user"
        whose = self.state.subject_of(item.evidence[0]), scope_of(item.evidence).get("user_id")
        for memory in reversed([*self.again.values(), *self.new.values()]):
            known = memory.metadata
            # A caller may keep anything under these names.
            named = str(known.get("thing", "")).casefold(), str(known.get("about", "user")).casefold()
            is_own = (memory.subject, memory.user_id) == whose
            if thing and named == (thing, about) and is_own and self._stands(memory):
                return memory
        return None

    def _stands(self, memory: Memory) -> bool:
        gone = memory.memory_id in self.closing or memory.memory_id in self.erased
        return memory.status == Status.ACTIVE and not gone

    def _replace(self, earlier: Memory, item: Accepted) -> None:
        """Let what the same answer added be over, as the same conversation says."""
        if item.operation.op == "forget":
            del self.new[earlier.memory_id]
            self.support.pop(earlier.memory_id, None)
            return
        memory = self._memory(item)
        if item.operation.op == "change" and says_the_same(earlier.content, memory.content):
            return
        earlier.status, earlier.valid_until = Status.EXPIRED, _not_before(earlier, _time_said(item.evidence))
        if item.operation.op == "change":
            self.new[memory.memory_id] = memory
            earlier.status, earlier.superseded_by = Status.SUPERSEDED, memory.memory_id

    def _confirm(self, old: Memory, item: Accepted) -> None:
        known = {source.id for source in old.sources}
        if new := [source for source in _sources(item.evidence) if source.id not in known]:
            self.support.setdefault(old.memory_id, []).extend(new)

    def _end(self, old: Memory, item: Accepted) -> None:
        if item.operation.op == "forget":
            told = item.evidence[-1]
            # Nobody erases what others said; it is closed, and can be restored.
            is_theirs = old.subject in (self.state.subject_of(told), "")
            if is_theirs and _asks_to_erase(told, old):
                self._erase([old], told)
            else:
                self._forget(old, told)
            return
        since, until = self._bounds(item)
        at = next((r.start or r.end for r in (until, since) if r), None) or _time_said(item.evidence)
        self.closing[old.memory_id] = Close(old.memory_id, "expired", None, _not_before(old, at))

    def _erase(self, memories: Sequence[Memory], message: Message) -> None:
        self.erased |= {memory.memory_id: memory for memory in memories}
        self.erasures.append(erasure_of(memories, message, self.state))
        for memory in memories:
            self.closing.pop(memory.memory_id, None)

    def _forget(self, old: Memory, message: Message) -> None:
        self.annotations[old.memory_id] = forgotten_note(old, message.message_id)
        self.closing.setdefault(old.memory_id, Close(old.memory_id, "expired", None, _not_before(old, message.sent_at)))

    def _add(self, old: Memory | None, item: Accepted) -> None:
        memory = self._memory(item)
        if (same := self._same_as(memory, old)) is not None:
            if same.memory_id not in self.new:
                self.again[same.memory_id] = same
            self._confirm(same, item)
            return
        if old is not None and old.observed_at and old.observed_at > _time_said(item.evidence):
            # Told late: the present stays, and this is what was before it.
            until = old.valid_from or old.observed_at
            begins = memory.valid_from and min(memory.valid_from, until)
            history = {"status": Status.SUPERSEDED, "superseded_by": old.memory_id, "valid_until": until}
            memory = memory.model_copy(update={**history, "valid_from": begins})
        elif old is not None:
            memory.valid_from = memory.valid_from or _time_said(item.evidence)
            at = _not_before(old, memory.valid_from)
            self.closing[old.memory_id] = Close(old.memory_id, "superseded", memory.memory_id, at)
        self.new[memory.memory_id] = memory

    def _same_as(self, memory: Memory, old: Memory | None) -> Memory | None:
        """What says the same already: the memory that is to change, or what was read of the same message before."""
        if old is not None:
            return old if says_the_same(old.content, memory.content) else None
        evidence = {source.id for source in memory.sources}
        for stated in (*self.made_before, *self.new.values()):
            is_read = stated.metadata.get("mode") == READ and not evidence.isdisjoint(s.id for s in stated.sources)
            alike = (stated.subject, stated.kind) == (memory.subject, memory.kind)
            if is_read and self._stands(stated) and alike and says_the_same(stated.content, memory.content):
                return stated
        return None

    def _memory(self, item: Accepted) -> Memory:
        operation, said = item.operation, _time_said(item.evidence)
        subject = self.state.subject_of(item.evidence[0])
        kind = _KINDS.get(operation.kind, Kind.OBSERVATION)
        content = item.statement if kind == Kind.INSTRUCTION else with_dates(item.statement, said, self.timezone)
        holds = self._holds(item)
        named = {"about": operation.about, "thing": operation.thing, "value": operation.value}
        return Memory(
            kind=kind,
            subject=subject,
            content=condense(content, 1_000),
            keywords=[word for word in (operation.thing, operation.about) if word and word != "user"],
            importance=_IMPORTANCE.get(kind, 0.5),
            observed_at=said,
            valid_from=holds.start,
            valid_until=holds.end,
            author=self.author,
            sources=_sources(item.evidence),
            metadata={"mode": READ, **{name: value for name, value in named.items() if value}},
            **scope_of(item.evidence),
        )

    def _holds(self, item: Accepted) -> TimeRange:
        """When it holds: by the bounds that the model names, else by those of its own words."""
        since, until = self._bounds(item)
        if since is None and until is None:
            holds_for = validity_of_wishes if _KINDS.get(item.operation.kind) == Kind.INSTRUCTION else validity
            return holds_for(item.statement, _time_said(item.evidence), self.timezone)
        start = since.start if since else None
        end = until.end if until else since.end if since and item.operation.kind == "event" else None
        return TimeRange(start=start, end=end) if not (start and end and start > end) else TimeRange()

    def _bounds(self, item: Accepted) -> list[TimeRange | None]:
        """The times of `since` and `until`; None where nothing is named, or the evidence does not bear it out."""
        named = (item.operation.since, item.operation.until)
        return [resolve_bound(words, item.evidence, self.timezone) if words else None for words in named]


def _asks_to_erase(message: Message, memory: Memory) -> bool:
    """Whether a message asks to delete a memory; it may ask to forget this one, and to delete another."""
    commands = commands_to_forget(message)
    about = [command for command in commands if names_topic(command.topic, memory.content)] or commands
    if about:
        return all(command.action == "erase" for command in about)
    return erases(part_told(message.content, memory.content))


def _sources(evidence: Sequence[Message]) -> list[Source]:
    return [Source(kind="message", id=m.message_id, quote=condense(m.content, 300)) for m in evidence]


def _time_said(evidence: Sequence[Message]) -> datetime:
    return max(message.sent_at for message in evidence)


def _not_before(old: Memory, moment: datetime) -> datetime:
    """When a memory ends: never before it began, nor after it was to end anyway."""
    ends = min(moment, old.valid_until) if old.valid_until else moment
    return max(ends, old.valid_from) if old.valid_from else ends
