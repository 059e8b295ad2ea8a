"""With a chat model: a conversation is read once, together with what is remembered near it.

The model answers with operations, each naming its evidence. Guards refuse what the evidence does not bear out; all else
is done as it says, in one change with the messages marked as summarised.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from functools import cached_property
from itertools import chain
from typing import Final

from reme_core.flows.deps import Deps
from reme_core.flows.registry import op
from reme_core.given import zone_of
from reme_core.marks import is_quote
from reme_core.models import ChatModel
from reme_core.personal import grounding
from reme_core.personal.filter import statements
from reme_core.personal.forget import keep_from_recall, memories_to_forget
from reme_core.personal.quotes import STATED, Piece, commands_to_forget, nearest, pieces_worth_keeping, words_of
from reme_core.personal.reconcile import (
    CLOSING,
    Accepted,
    Confirmation,
    Operation,
    Reading,
    Reconciliation,
    ShortReading,
)
from reme_core.personal.state import Outcome, PersonalState, carry_out
from reme_core.personal.voice import BELIEVE_FROM, Voice, voices
from reme_core.prompts import Language, phrase, prompt
from reme_core.prompts.fence import fence
from reme_core.prompts.transcript import condense, language, questions_of, speech_in
from reme_core.prompts.window import Window, windows
from reme_core.store.filters import Filters
from reme_core.text.commands import Command
from reme_core.text.fiction import BESIDE_WISH, own_words, sentences, unreal
from reme_core.text.likeness import is_told, part_told
from reme_core.types import Kind, Memory, Message, scope_of

_ATTEMPTS: Final = 4
"""Fewer than elsewhere, since each asks the model."""
_HEEDED: Final = ("instruction", "profile")
"""The kinds that are shown in every conversation, whatever is asked."""
_MOST_EVIDENCE: Final = 4
"""Messages from which on evidence is none if it is all that people said: small models name them all for anything."""
_GLOSS: Final = re.compile(r"\s*[(（][^()（）]*[)）]")
"""What a model adds in brackets, as a translation or a date. A statement that says too much is tried without that."""
_NEAR: Final = 10
"""Memories near one message that are looked at."""
_BRIEFLY: Final = 40
"""Memories that are shown by what they are about alone."""
_ANSWER_TOKENS: Final = 1_500
"""An answer of 24 messages took 900 at the most; without a bound, a small model that repeats itself never ends."""


@op(reads={"waiting"}, uses={"context", "user_name"}, writes={"waiting", "memories", "closing", "update_result"})
async def read_conversation(
    state: PersonalState, deps: Deps, *, small: bool = False, shown: int = 24, max_tokens: int = _ANSWER_TOKENS
) -> None:
    """Read what waits with the chat model and do what it finds, so that it waits no longer; without a model, leave it.

    What was kept word for word before there was a model is superseded by what is made of the same messages.

    Args:
        small: Ask for fewer fields, as models of few billion parameters need, and keep word for word what is worth it
            and they pass over.
        shown: Memories that are shown in full.
        max_tokens: The longest answer.

    Raises:
        ConflictError: Others changed the workspace again and again.
    """
    if deps.chat is None:
        return
    state.report["refused"] = []
    for window in windows(state.context, state.waiting):
        decide = _Reader(state, deps, deps.chat, window, small, shown, max_tokens).decide
        outcome = await carry_out(decide, window.ids, state, deps, reason="read in a conversation", attempts=_ATTEMPTS)
        state.report["refused"] += outcome.refused if outcome else []
    state.waiting = []


@dataclass(frozen=True)
class _Reader:
    """Reads one window."""

    state: PersonalState
    deps: Deps
    chat: ChatModel
    window: Window
    small: bool
    shown: int
    max_tokens: int

    @property
    def speech(self) -> Language:
        """The language to prompt and write in."""
        return language(self.deps.language, self.window.people)

    async def decide(self, waiting: Sequence[str]) -> Outcome | None:
        """Ask and check, and say what that makes of the memories; None where somebody else has read the window."""
        if len(waiting) < len(self.window.ids):
            return None
        accepted, refused = await self._operations() if self.window.people else ([], [])
        before = await self.deps.memories.from_source(self.state.workspace_id, "message", self.window.ids)
        made = Reconciliation(self.chat.name, self.state, self.deps.settings.timezone, before)
        for item in accepted:
            made.take(item)
        commands = await asyncio.to_thread(self._commands)
        for command, message in commands:
            made.forget(command, message, await memories_to_forget(command, message, self.state, self.deps))
        outcome = made.outcome()
        for command, message in commands:
            await keep_from_recall(outcome, command.topic, message, self.state, self.deps)
        outcome.refused = [
            {"operation": f"{o.op} {o.statement or o.value}".strip(), "reason": reason} for o, reason in refused
        ]
        return outcome

    def _commands(self) -> list[tuple[Command, Message]]:
        """What people ask to forget or to erase, with the messages that ask it."""
        meant = [m for m in self.window.people if m.message_id not in self._unreal]
        return [(command, message) for message in meant for command in commands_to_forget(message)]

    async def _operations(self) -> tuple[list[Accepted], list[tuple[Operation, str]]]:
        """The model's operations that the guards let through, and the others with the reasons."""
        remembered = await self._recall_nearby()
        answered = await self._ask(remembered)
        people = self.window.people
        found = await voices(people, [self.window.before(message) for message in people])
        heard = {message.message_id: voice for message, voice in zip(people, found, strict=True)}
        # Reading takes milliseconds a message, and meanwhile the event loop serves others.
        accepted, refused, unread = await asyncio.to_thread(self._judge, answered, remembered, heard)
        return accepted + await self._quotes(unread, accepted), refused

    def _judge(
        self, answered: Sequence[Operation], remembered: Sequence[Memory], heard: Mapping[str, Voice]
    ) -> tuple[list[Accepted], list[tuple[Operation, str]], list[Message]]:
        """The operations that the guards let through, the others with the reasons, and messages left to be read."""
        accepted: list[Accepted] = []
        refused: list[tuple[Operation, str]] = []
        # What a small model passes over may be worth keeping. Any model may spell out "uni", which nobody did, or take
        # one person's wish for a change of another's.
        unread = list(self.window.people) if self.small else []
        for operation in answered:
            people = [m for m in self.window.evidence(operation.evidence) if m.role == "user"]
            stated = operation.statement.strip() or operation.value.strip()
            # A model may give a number that there is not, or that of what another person of the conversation told.
            named = remembered[operation.memory - 1] if 0 < operation.memory <= len(remembered) else None
            own = [scope_of(people), scope_of(self.window.people), *(m.scope for m in people)]
            named = named if named and named.scope in own else None
            item = Accepted(operation, people, named, stated)
            if reason := self._refusal(item, heard):
                refused.append((operation, reason))
                if reason in (grounding.VALUE, grounding.ANOTHERS) and not self.small:
                    unread += [m.model_copy(update={"content": part_told(m.content, stated)}) for m in people]
                continue
            item = self._heed_only_own(item, heard)
            if operation.op in ("add", "change") and self._says_more(item, remembered):
                item = replace(item, statement=_GLOSS.sub("", item.statement))
                if self._says_more(item, remembered):
                    refused.append((operation, grounding.STATEMENT))
                    item = replace(item, statement=self._word_for_word(item))
            accepted.append(item)
        return accepted, refused, unread

    async def _quotes(self, messages: Sequence[Message], accepted: Sequence[Accepted]) -> list[Accepted]:
        """What of some messages is worth keeping without a model and stands in no statement: word for word."""
        stating, *_ = await asyncio.to_thread(statements, self._conversation, self.window.new)
        real = {message.message_id for message in stating}
        told = [message for message in messages if message.message_id in real]
        kept: list[Accepted] = []
        for piece in await pieces_worth_keeping(told, self._conversation):
            message = piece.message
            if piece.topic:
                continue  # `decide` carries commands out
            read = [i for i in accepted if message.message_id in [known.message_id for known in i.evidence]]
            if not is_told(piece.text, " ".join(item.statement for item in read)):
                is_wish = piece.kind == Kind.INSTRUCTION
                said = Operation(op="add", evidence=[], kind="instruction" if is_wish else "fact")
                kept.append(Accepted(said, [message], None, words_of(piece, self.deps)))
        return kept

    async def _recall_nearby(self) -> list[Memory]:
        """What a prompt shows: standing instructions, what is nearest, and what is newest."""
        workspace, memories = self.state.workspace_id, self.deps.memories
        found_near, _ = await nearest(workspace, self.window.people, self.deps, limit=_NEAR)
        near = [hit.memory for hit in sorted(chain.from_iterable(found_near), key=lambda hit: hit.rank)]
        scope = scope_of(self.window.people)
        instructions = Filters(kinds=[str(Kind.INSTRUCTION)], **scope)
        standing = await memories.list(workspace, instructions, limit=self.shown // 2)
        newest = await memories.list(workspace, Filters(kinds=STATED, **scope), limit=self.shown)
        found = {m.memory_id: m for m in [*standing, *near, *newest]}
        # A quote that no model has read yet does not stand as it is.
        settled = [m for m in found.values() if not is_quote(m) or m.metadata.get("read")]
        return settled[: self.shown + _BRIEFLY]

    async def _ask(self, remembered: Sequence[Memory]) -> list[Operation]:
        """The operations that the model answers with; what they close without having seen it in full, it confirms."""
        person, zone = phrase("person", self.speech), zone_of(self.deps.settings.timezone)
        request = prompt(
            "personal/read_small" if self.small else "personal/read",
            self.speech,
            person=person,
            remembered=fence(self._as_text(remembered, zone), "memories"),
            conversation=fence(self.window.as_text(self.speech, person, zone), "conversation"),
        )
        form = ShortReading if self.small else Reading
        answer = await self.chat.complete_as(request, form, purpose="read", max_tokens=self.max_tokens)
        answered = [o for o in Reading.model_validate(answer.model_dump()).operations if o.op != "nothing"]
        doubtful = [o for o in answered if o.op in CLOSING and self.shown < o.memory <= len(remembered)]
        holding = await self._confirm(doubtful, remembered) if doubtful else []
        return [o for o in answered if o not in doubtful or o in holding]

    def _as_text(self, remembered: Sequence[Memory], zone: tzinfo) -> str:
        """A line a memory, numbered from 1: what it says and when that was said, or briefly what it is about."""
        lines = []
        for number, memory in enumerate(remembered, 1):
            day = f" ({memory.observed_at.astimezone(zone):%Y-%m-%d})" if memory.observed_at else ""
            about = f"{memory.metadata.get('about', '')}: {memory.metadata.get('thing', '')}".strip(": ")
            brief = f"… {about or condense(memory.content, 30)}"
            lines.append(f"m{number}{day} {memory.content if number <= self.shown else brief}")
        return "\n".join(lines) or "-"

    async def _confirm(self, doubtful: Sequence[Operation], remembered: Sequence[Memory]) -> list[Operation]:
        """Those of some closing operations that hold when their memories are shown in full."""
        lines = []
        for number, operation in enumerate(doubtful, 1):
            closed = remembered[operation.memory - 1]
            said = " ".join(message.content for message in self.window.evidence(operation.evidence))
            lines.append(f"[{number}] {operation.op}: {closed.content}\n    {condense(said, 300)}")
        request = prompt("personal/confirm", self.speech, operations=fence("\n".join(lines), "operations"))
        answer = await self.chat.complete_as(request, Confirmation, purpose="confirm", max_tokens=200)
        return [operation for number, operation in enumerate(doubtful, 1) if number in answer.holds]

    def _refusal(self, item: Accepted, heard: Mapping[str, Voice]) -> str:
        """Why an operation is refused; empty where nothing speaks against it."""
        operation, people = item.operation, item.evidence
        if not people:
            return grounding.ASSISTANTS if self.window.evidence(operation.evidence) else grounding.NO_EVIDENCE
        if len(people) == len(self.window.people) >= _MOST_EVIDENCE:
            return grounding.ALL_MESSAGES
        if reason := self._why_wish_stays(item, heard):
            return reason
        if operation.op in ("end", "forget", "confirm"):
            return "" if item.memory or operation.thing else grounding.NO_MEMORY
        return self._misstatement(item)

    def _why_wish_stays(self, item: Accepted, heard: Mapping[str, Voice]) -> str:
        """Why an operation may not close a wish; empty where it may. Facts may be over by what another tells.

        Only whose wish it is ends it, in their own voice, without a quotation beside it.
        """
        operation, old = item.operation, item.memory
        if operation.op not in CLOSING or old is None or old.kind != Kind.INSTRUCTION:
            return ""
        if old.subject not in (self.state.subject_of(item.evidence[-1]), ""):
            return grounding.ANOTHERS
        if operation.op == "change" and operation.kind in _HEEDED:
            return ""  # `_heed_only_own` looks at that
        said = [m for m in self._in_person(item, heard) if heard[m.message_id].wish >= BELIEVE_FROM]
        return "" if any(own_words(m.content) == m.content for m in said) else grounding.BORROWED

    def _misstatement(self, item: Accepted) -> str:
        """Why a statement is refused: it is empty, has a value that nobody told, or is cited, pasted or made up.

        A dream that somebody tells of may come with facts, and a pasted letter with news of theirs.
        """
        if not item.statement:
            return grounding.NO_STATEMENT
        value, zone = item.operation.value.strip() or item.operation.statement, self.deps.settings.timezone
        if grounding.invented_value(value, item.operation.statement, item.evidence, self._grounds(item), zone):
            return grounding.VALUE
        own = [own_words(m.content) for m in self._conversation if m.role == "user"]
        answered = [self._question_before(m) for m in item.evidence]
        is_borrowed = grounding.is_borrowed(item.statement, "\n".join([*own, *answered]), self._all_words)
        return grounding.BORROWED if is_borrowed else ""

    def _heed_only_own(self, item: Accepted, heard: Mapping[str, Voice]) -> Accepted:
        """The operation as it is, unless it makes a wish or a profile of what its author did not say for themselves.

        Then it is their wish in their own words; or if they uttered none, a quote, which nobody heeds.
        """
        operation = item.operation
        if operation.op not in ("add", "change") or operation.kind not in _HEEDED:
            return item
        is_wish = operation.kind == "instruction"
        said = [
            (self._question_before(m), sentence)
            for m in self._in_person(item, heard)
            for sentence in self._own(m, item, heard)
        ]
        stated = item.statement if is_wish else operation.value.strip() or item.statement
        if grounding.is_said(stated, [f"{asked}\n{s}" for asked, s in said], self._all_words):
            return item
        heeded = [wish for m in self._in_person(item, heard) for wish in heard[m.message_id].wishes]
        if is_wish and (nearest := grounding.nearest_to(item.statement, [s for _, s in said]) or " ".join(heeded[:1])):
            return replace(item, statement=nearest)
        # What stands is not closed by what nobody heeds.
        added = {"op": "add", "memory": 0} if item.memory and item.memory.kind in _HEEDED else {}
        fact = operation.model_copy(update={"kind": "fact", **added})
        return Accepted(fact, item.evidence, None if added else item.memory, self._word_for_word(item))

    def _own(self, message: Message, item: Accepted, heard: Mapping[str, Voice]) -> Sequence[str]:
        """The sentences of a message in which its author may wish, or tell of themselves, what an operation states."""
        voice, is_wish = heard[message.message_id], item.operation.kind == "instruction"
        is_about = is_wish or grounding.is_about_author(message.content, self._question_before(message))
        if (voice.wish if is_wish else voice.fact) < BELIEVE_FROM or not is_about:
            return []
        own = own_words(message.content)
        if own != message.content and not grounding.is_repeated(item.statement, self._all_words):
            return []
        return (is_wish and voice.wishes) or sentences(own)

    def _in_person(self, item: Accepted, heard: Mapping[str, Voice]) -> list[Message]:
        """The messages of the evidence in which the author of the first one speaks in earnest.

        Next to a text to work on somebody may wish something, but only a wish that is heeded without a model counts.
        """
        is_wish = "instruction" in (item.operation.kind, item.memory and item.memory.kind)

        def in_earnest(message: Message) -> bool:
            reason = self._unreal.get(message.message_id)
            return reason is None or (is_wish and reason in BESIDE_WISH and bool(heard[message.message_id].wishes))

        return [m for m in item.evidence if m.author == item.evidence[0].author and in_earnest(m)]

    def _question_before(self, message: Message) -> str:
        asked = self.window.before(message)
        return questions_of(asked.content) if asked else ""

    @cached_property
    def _conversation(self) -> list[Message]:
        return [*self.window.context, *self.window.new]

    @cached_property
    def _unreal(self) -> dict[str, str]:
        """The ids of messages that state and command nothing, with the reasons: fiction, role play, pasted text."""
        # A play may have begun in a window before.
        sessions = {message.session_id for message in self.window.new}
        said = [m for m in self.state.context if m.session_id in sessions]
        return {name: reason for name, reason in unreal(speech_in(said)).items() if reason != "question"}

    @cached_property
    def _all_words(self) -> str:
        """All that was said, and by whom."""
        return "\n".join([*(m.content for m in self._conversation), *(m.author for m in self._conversation)])

    def _says_more(self, item: Accepted, remembered: Sequence[Memory]) -> bool:
        """Whether the statement has names or numbers that nobody told, here or before."""
        said = [m.content for m in self._conversation if m.role == "user"]
        known = [*self._grounds(item), *said, *(m.content for m in remembered)]
        return bool(grounding.inventions(item.statement, item.evidence, known, self.deps.settings.timezone))

    def _word_for_word(self, item: Accepted) -> str:
        """What was said of what an operation states, behind the question that it answers."""
        first, said = item.evidence[0], " ".join(part_told(m.content, item.statement) for m in item.evidence)
        return words_of(Piece(first, said, self.window.before(first)), self.deps)

    def _grounds(self, item: Accepted) -> list[str]:
        """What besides its evidence lends names and numbers: the question answered, the speaker, what is changed."""
        asked = [question.content for m in item.evidence if (question := self.window.before(m))]
        names = [message.author for message in self.window.people]
        changed = [item.memory.content] if item.memory else []
        return [*asked, *names, self.state.user_name, *changed]
