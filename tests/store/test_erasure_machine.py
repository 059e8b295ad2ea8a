"""Generated stories of adding, changing, deleting, restoring, undoing, loading, copying, recording and erasing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings, strategies
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from reme_core import Memory, Message, ReMe
from reme_core.errors import ConflictError, InputError, NotFoundError
from reme_core.settings import Settings
from reme_core.types import Source
from tests.store.erased import traces
from tests.store.recount import consistent

State = tuple[str, str] | None
"""Content and status of a memory; None if it is not there."""
_numbers = count()
PICK = strategies.integers(0, 1_000)


@dataclass
class Done:
    """A change as undo and restore see it."""

    changes: dict[str, tuple[State, State]]
    is_load: bool = False
    is_put_back: bool = False
    """By restore or undo, which are changes also where they change nothing."""
    lost: int = 0
    """How many of its memories were erased since."""


@dataclass
class Model:
    """What should be there."""

    states: dict[str, State] = field(default_factory=dict)
    log: list[Done] = field(default_factory=list)
    known: list[tuple[datetime, dict[str, str]]] = field(default_factory=list)
    """What was active at some moments."""
    said: dict[str, Message] = field(default_factory=dict)
    stored: dict[str, str] = field(default_factory=dict)
    evidence: dict[str, set[str]] = field(default_factory=dict)
    """The messages that each memory rests on."""
    parents: dict[str, str] = field(default_factory=dict)
    erased: set[str] = field(default_factory=set)
    """Words that stand nowhere any more."""

    def carry_out(self, after: dict[str, State], **how: bool) -> None:
        self.log.append(Done({name: (self.states.get(name), state) for name, state in after.items()}, **how))
        self.states |= after

    def wordings(self, name: str) -> set[str]:
        found = {state for done in self.log for state in done.changes.get(name, ()) if state is not None}
        return {content for content, _ in found}

    def before_last_change(self, name: str) -> State:
        for done in reversed(self.log):
            before, after = done.changes.get(name, (None, None))
            if before is not None and (done.is_load or before != after):
                return before
        return None

    def erase(self, names: set[str]) -> None:
        while more := {name for name, parent in self.parents.items() if parent in names} - names:
            names |= more
        for name in names:
            self.erased |= {content.split()[3] for content in self.wordings(name)}
        for message in {message for name in names for message in self.evidence.get(name, ())}:
            self.erased.add(self.said[message].content.split()[1])
            self.stored[message] = ""
        for wording in {wording for name in names for wording in self.wordings(name)}:
            self.stored = {message: content.replace(wording, "") for message, content in self.stored.items()}
        for name in names:
            self.states.pop(name, None)
            for done in self.log:
                done.lost += done.changes.pop(name, None) is not None
        self.known = [(at, {n: c for n, c in active.items() if n not in names}) for at, active in self.known]


class Story(RuleBasedStateMachine):
    """Each story has a workspace of its own in one database."""

    reme: ReMe
    folder: Path

    def __init__(self) -> None:
        super().__init__()
        self.workspace = f"w{next(_numbers)}"
        self.model = Model()
        self.dumped: dict[str, State] = {}

    def _name(self, pick: int) -> str:
        return sorted(self.model.states)[pick % len(self.model.states)]

    def _content(self) -> str:
        return f"The rare word token{next(_numbers)}x is what Nora keeps in mind."

    def _check_traces(self) -> None:
        async def look(engine: object) -> dict[str, int]:
            return await traces(engine.database, *self.model.erased)  # type: ignore[attr-defined]

        if self.model.erased:
            assert self.reme.connection.wait(look) == {}

    @rule(several=strategies.integers(1, 3), pick=PICK, rests=strategies.sampled_from(["", "message", "memory"]))
    def add(self, several: int, pick: int, rests: str) -> None:
        given = []
        for _ in range(several):
            name = f"m{next(_numbers)}"
            sources = []
            if rests == "message":
                message = Message(
                    message_id=f"s{next(_numbers)}", session_id="s", content=f"Said said{next(_numbers)}x today."
                )
                self.reme.record(self.workspace, message)
                self.model.said[message.message_id] = message
                self.model.stored[message.message_id] = message.content
                self.model.evidence[name] = {message.message_id}
                sources = [Source(kind="message", id=message.message_id)]
            elif rests == "memory" and (parents := [n for n, s in self.model.states.items() if s is not None]):
                self.model.parents[name] = sorted(parents)[pick % len(parents)]
                sources = [Source(kind="memory", id=self.model.parents[name])]
            given.append(Memory(memory_id=name, content=self._content(), sources=sources))
        self.reme.memories.add(self.workspace, given)
        self.model.carry_out({memory.memory_id: (memory.content, "active") for memory in given})

    @precondition(lambda self: self.model.states)
    @rule(pick=PICK)
    def update(self, pick: int) -> None:
        name, content = self._name(pick), self._content()
        state = self.model.states[name]
        if state is None or state[1] == "deleted":
            with pytest.raises(NotFoundError):
                self.reme.memories.update(self.workspace, name, content=content)
        else:
            self.reme.memories.update(self.workspace, name, content=content)
            self.model.carry_out({name: (content, state[1])})

    @precondition(lambda self: self.model.states)
    @rule(picks=strategies.lists(PICK, min_size=1, max_size=3))
    def delete(self, picks: list[int]) -> None:
        names = {self._name(pick) for pick in picks}
        open_ = {n: s for n in names if (s := self.model.states[n]) is not None and s[1] != "deleted"}
        assert self.reme.memories.delete(self.workspace, sorted(names)) == len(open_)
        if open_:
            self.model.carry_out({name: (content, "deleted") for name, (content, _) in open_.items()})

    @precondition(lambda self: self.model.states)
    @rule(pick=PICK)
    def restore(self, pick: int) -> None:
        name = self._name(pick)
        if (before := self.model.before_last_change(name)) is None:
            with pytest.raises(InputError):
                self.reme.memories.restore(self.workspace, name)
        else:
            restored = self.reme.memories.restore(self.workspace, name)
            assert (restored.content, str(restored.status)) == before
            self.model.carry_out({name: before}, is_put_back=True)

    @rule()
    def undo(self) -> None:
        log = self.model.log
        bulk = [place for place, done in enumerate(log) if done.changes and len(done.changes) + done.lost > 1]
        if not bulk:
            with pytest.raises(NotFoundError):
                self.reme.memories.undo(self.workspace)
            return
        done, later = log[bulk[-1]], log[bulk[-1] + 1 :]
        if any(_is_change(one, name) for one in later for name in done.changes):
            with pytest.raises(ConflictError):
                self.reme.memories.undo(self.workspace)
            return
        self.reme.memories.undo(self.workspace)
        after: dict[str, State] = {}
        for name, (before, _) in done.changes.items():
            present = self.model.states[name]
            after[name] = before or (present and (present[0], "deleted"))
        self.model.carry_out(after, is_put_back=True)

    @precondition(lambda self: any(self.model.states.values()))
    @rule(picks=strategies.lists(PICK, min_size=1, max_size=2))
    def erase(self, picks: list[int]) -> None:
        names = {self._name(pick) for pick in picks}
        self.reme.memories.delete(self.workspace, sorted(names), erase=True)
        self.model.erase(names)
        self.dumped = {}
        self._check_traces()

    @rule()
    def dump(self) -> None:
        if self.model.log or self.model.said:
            self.reme.workspaces.dump(self.workspace, self.folder / f"{self.workspace}.jsonl")
            self.dumped = {n: s for n, s in self.model.states.items() if s is not None and s[1] != "deleted"}

    @precondition(lambda self: self.dumped)
    @rule(replace=strategies.booleans())
    def load(self, replace: bool) -> None:
        self.reme.workspaces.load(self.workspace, self.folder / f"{self.workspace}.jsonl", replace=replace)
        gone = [n for n, s in self.model.states.items() if replace and s is not None and n not in self.dumped]
        self.model.carry_out(dict.fromkeys(gone) | self.dumped, is_load=True)

    @precondition(lambda self: self.model.states)
    @rule(pick=PICK)
    def quote(self, pick: int) -> None:
        state = self.model.states[self._name(pick)]
        if state is not None:
            name = f"q{next(_numbers)}"
            self.model.said[name] = Message(message_id=name, session_id="t", content=f"Somebody told: {state[0]} Yes.")
            self.model.stored[name] = self.model.said[name].content
            self.reme.record(self.workspace, self.model.said[name])
            self.reme.recall(self.workspace, state[0])

    @precondition(lambda self: self.model.said)
    @rule()
    def record_again(self) -> None:
        assert self.reme.record(self.workspace, list(self.model.said.values())) == []

    @precondition(lambda self: self.model.log)
    @rule()
    def copy(self) -> None:
        self.reme.workspaces.copy(self.workspace, "copy", replace=True)
        assert _active(self.reme, "copy") == _active(self.reme, self.workspace)
        self.reme.workspaces.clear("copy")

    @invariant()
    def is_as_it_should_be(self) -> None:
        expected = {n: s[0] for n, s in self.model.states.items() if s is not None and s[1] == "active"}
        assert _active(self.reme, self.workspace) == expected
        self.model.known.append((datetime.now(UTC), expected))
        said = [m.content for name in ("s", "t") for m in self.reme.messages(self.workspace, name)]
        assert sorted(said) == sorted(content for content in self.model.stored.values() if content)

    def teardown(self) -> None:
        for at, active in self.model.known[::4]:
            found = self.reme.memories.as_of(self.workspace, at)
            assert {memory.memory_id: memory.content for memory in found} == active
        self._check_traces()
        if self.model.log:
            assert self.reme.connection.wait(lambda engine: consistent(engine.database, self.workspace))
        if self.workspace in self.reme.workspaces.list():
            self.reme.workspaces.clear(self.workspace)


def _is_change(done: Done, name: str) -> bool:
    before, after = done.changes.get(name, (None, None))
    return before != after or ((done.is_load or done.is_put_back) and name in done.changes)


def _active(reme: ReMe, workspace: str) -> dict[str, str]:
    return {memory.memory_id: memory.content for memory in reme.memories.list(workspace, limit=1_000)}


async def test_stories_are_told_as_they_went(with_model: Callable[[str], Settings], tmp_path: Path) -> None:
    configured = with_model("words")
    configured.worker.embedded = False

    def tell() -> None:
        with ReMe(configured) as reme:
            told = type("Told", (Story,), {"reme": reme, "folder": tmp_path})
            run_state_machine_as_test(
                told,
                # Always the same stories: more of them, and others, are told with other numbers here.
                settings=settings(
                    max_examples=6, stateful_step_count=25, derandomize=True, deadline=None,
                    suppress_health_check=list(HealthCheck),
                ),
            )  # fmt: skip

    await asyncio.to_thread(tell)
