"""With a chat model: a conversation is read once, together with what is remembered near it.

The model answers with operations, each naming its evidence. Guards refuse what the evidence does not bear out; all else
is done as it says, in one change with the messages marked as summarised.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, Literal

from reme_core.flows.conflicts import retry_conflicts
from reme_core.flows.deps import Deps
from reme_core.flows.registry import op
from reme_core.flows.state import UpdateResult
from reme_core.models import ChatModel
from reme_core.personal import grounding
from reme_core.personal.filter import statements
from reme_core.personal.forget import keep_from_recall, memories_naming, messages_naming
from reme_core.personal.nearby import QUOTED, STATED, embed, nearest, subject_of
from reme_core.personal.operations import CLOSING, Confirmation, Operation, Reading, ShortReading
from reme_core.personal.quotes import pieces_of, pieces_worth_keeping, words_of
from reme_core.personal.reconcile import Accepted, Outcome, reconcile
from reme_core.personal.state import PersonalState
from reme_core.prompts import Language, phrase, prompt
from reme_core.prompts.fence import fence
from reme_core.prompts.transcript import condense, language, questions_of, quoted_answer, speech_in
from reme_core.prompts.window import Window, windows
from reme_core.store.filters import Filters
from reme_core.store.messages import unsummarised_messages
from reme_core.text.fiction import own_words, unreal
from reme_core.text.terms import terms
from reme_core.text.voice import in_own_name
from reme_core.types import Kind, Memory, Message, scope_of

_ATTEMPTS: Final = 4
"""Fewer than elsewhere, since each asks the model."""
_HEEDED: Final = ("instruction", "profile")
"""The kinds that every conversation has before it, whatever is asked."""
_OWN: Final = 1 / 3
"""The share of a statement's words that people may have said themselves where it is another's all the same."""
_MOST_EVIDENCE: Final = 4
"""Messages from which on evidence is none if it is all that people said: small models name them all for anything."""
_TOLD: Final = 1 / 3
"""The share of a message's words from which on a statement tells what the message does."""
_NEAR: Final = 10
"""Memories near one message that are looked at."""
_BRIEFLY: Final = 40
"""Memories that are shown by what they are about alone."""
_ANSWER_TOKENS: Final = 1_500
"""An answer of 24 messages took 900 at the most; without a bound, a small model that repeats itself never ends."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """What a prompt shows as remembered, numbered from 1; those from `in_full` on are shown briefly."""

    memories: list[Memory]
    in_full: int

    def of(self, operation: Operation) -> Memory | None:
        """The memory that an operation names."""
        return self.memories[operation.memory - 1] if 0 < operation.memory <= len(self.memories) else None

    def as_text(self) -> str:
        """A line a memory: what it says and when that was said, or briefly what it is about."""
        lines = []
        for number, memory in enumerate(self.memories, 1):
            day = f" ({memory.observed_at:%Y-%m-%d})" if memory.observed_at else ""
            about = f"{memory.metadata.get('about', '')}: {memory.metadata.get('thing', '')}".strip(": ")
            brief = f"… {about or condense(memory.content, 30)}"
            lines.append(f"m{number}{day} {memory.content if number <= self.in_full else brief}")
        return "\n".join(lines) or "-"


@op(
    reads={"waiting"},
    uses={"context", "user_name"},
    writes={"waiting", "memories", "closing", "update_result"},
)
async def read_conversation(
    state: PersonalState, deps: Deps, *, small: bool = False, shown: int = 24, max_tokens: int = _ANSWER_TOKENS
) -> None:
    """Read what waits with the chat model and do what it finds; without a model, leave it waiting.

    What was kept word for word before there was a model is superseded by what is made of the same messages.

    Args:
        state: Reads `waiting` and `context`; what was read waits no longer.
        deps: Uses `chat`, the embedding model and `memories`.
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
    for window in windows(state.waiting, state.context):
        await _Reader(state, deps, deps.chat, window, small=small, shown=shown, max_tokens=max_tokens).read()
    state.waiting = []


class _Reader:
    """Reads one window."""

    def __init__(
        self,
        state: PersonalState,
        deps: Deps,
        chat: ChatModel,
        window: Window,
        *,
        small: bool,
        shown: int,
        max_tokens: int,
    ) -> None:
        self._state, self._deps, self._chat, self._window = state, deps, chat, window
        self._small, self._shown, self._max_tokens = small, shown, max_tokens
        self._speech: Language = language(deps.language, window.people)

    async def read(self) -> None:
        """Ask, check and store; all of it anew where somebody else changed the memories meanwhile."""
        done = await retry_conflicts(self._attempt, _ATTEMPTS)
        if done is None:
            return
        outcome, refused = done
        if outcome.erased:
            await self._deps.memories.delete(
                self._state.workspace_id, outcome.erased, erase=True, actor=self._deps.flow
            )
        self._report(outcome, refused)

    async def _attempt(self, attempt: int) -> tuple[Outcome, list[dict[str, str]]] | None:
        """What was made of the window, and what was refused; None if somebody else has read it."""
        workspace, memories, ids = self._state.workspace_id, self._deps.memories, self._window.ids
        if attempt:
            left = await unsummarised_messages(self._deps.database, workspace, ids=ids, limit=len(ids))
            if len(left) < len(ids):
                return None
        version = await memories.version(workspace)
        accepted, refused = await self._operations() if self._window.people else ([], [])
        quotes = await memories.from_source(workspace, "message", ids)
        outcome = reconcile(
            accepted,
            self._window,
            [m for m in quotes if m.metadata.get("mode") == QUOTED],
            author=self._chat.name,
            user_name=self._state.user_name,
            timezone=self._deps.settings.timezone,
        )
        for message, topic in self._topics_to_forget():
            passed_over = await messages_naming(workspace, topic, message, self._deps)
            keep_from_recall(outcome.change, message, passed_over, self._state.user_name)
        outcome.change.expected_version = version
        await memories.apply(workspace, outcome.change, actor=self._deps.flow, reason="read in a conversation")
        return outcome, refused

    async def _operations(self) -> tuple[list[Accepted], list[dict[str, str]]]:
        """The model's operations that the guards let through, and the others with the reasons."""
        remembered = await self._recall_nearby()
        answered = [o for o in (await self._ask(remembered)).operations if o.op != "nothing"]
        doubtful = [o for o in answered if o.op in CLOSING and o.memory > remembered.in_full and remembered.of(o)]
        if doubtful:
            holding = await self._confirm(doubtful, remembered)
            answered = [o for o in answered if o not in doubtful or o in holding]
        accepted, refused = [], []
        # What a small model passes over may be worth keeping. Any model may spell out "uni", which nobody did.
        unread = self._window.people if self._small else []
        for operation in answered:
            memory = remembered.of(operation)
            evidence = self._window.evidence(operation.evidence)
            people = [m for m in evidence if m.role == "user"]
            if reason := self._refusal(operation, memory):
                refused.append(_refusal(operation, reason))
                unread = [*unread, *(people if reason == grounding.VALUE else [])]
            else:
                statement = operation.statement.strip() or operation.value.strip()
                if operation.op in ("add", "change") and self._says_more(operation, memory, remembered):
                    refused.append(_refusal(operation, grounding.STATEMENT))
                    statement = self._word_for_word(people)
                accepted.append(Accepted(self._in_doubt_a_fact(operation, people), people, memory, statement))
        if unread:
            accepted += await self._quotes(unread, accepted)
        return accepted, refused

    async def _quotes(self, messages: Sequence[Message], accepted: Sequence[Accepted]) -> list[Accepted]:
        """What of some messages is worth keeping without a model and stands in no statement: word for word."""
        window, workspace = self._window, self._state.workspace_id
        told = [message for message in statements(window.context, window.new)[0] if message in messages]
        pieces = await pieces_worth_keeping(workspace, told, speech_in([*window.context, *window.new]), self._deps)
        kept: list[Accepted] = []
        for piece in pieces:
            message = piece.message
            if piece.command and piece.command.topic:
                subject = subject_of(message, self._state.user_name)
                found = await memories_naming(workspace, piece.command.topic, subject, message.scope, self._deps)
                kept += [Accepted(Operation(op="forget", evidence=[]), [message], memory, "") for memory in found]
            elif not _is_told(piece.text, [item for item in accepted if message in item.evidence]):
                kind: Literal["fact", "instruction"] = "instruction" if piece.kind == Kind.INSTRUCTION else "fact"
                said = Operation(op="add", evidence=[], kind=kind)
                kept.append(Accepted(said, [message], None, words_of(piece, self._deps)))
        return kept

    async def _recall_nearby(self) -> Remembered:
        """What a prompt shows: standing instructions, what a command to forget names, and what is nearest."""
        workspace, memories = self._state.workspace_id, self._deps.memories
        texts = [message.content for message in self._window.people]
        named: list[Memory] = []
        for message, topic in self._topics_to_forget():
            subject = subject_of(message, self._state.user_name)
            named += await memories_naming(workspace, topic, subject, message.scope, self._deps)
        vectors = await embed(workspace, texts, self._deps)
        scopes = [message.scope for message in self._window.people]
        found_near = await nearest(workspace, texts, vectors, self._deps, limit=_NEAR, scopes=scopes)
        near = [hit.memory for hit in sorted(chain.from_iterable(found_near), key=lambda hit: hit.rank)]
        scope = scope_of(self._window.people)
        instructions = Filters(kinds=[str(Kind.INSTRUCTION)], **scope)
        standing = await memories.list(workspace, instructions, limit=self._shown // 2)
        newest = await memories.list(workspace, Filters(kinds=STATED, **scope), limit=self._shown)
        found = {m.memory_id: m for m in [*standing, *named, *near, *newest] if _is_settled(m)}
        return Remembered(list(found.values())[: self._shown + _BRIEFLY], self._shown)

    def _topics_to_forget(self) -> list[tuple[Message, str]]:
        """What people ask to forget or to erase in so many words, with the messages in which they do."""
        pieces = [piece for message in self._window.people for piece in pieces_of(message, None)]
        return [(p.message, p.command.topic) for p in pieces if p.command and p.command.topic]

    async def _ask(self, remembered: Remembered) -> Reading:
        request = prompt(
            "personal/read_small" if self._small else "personal/read",
            self._speech,
            person=phrase("person", self._speech),
            remembered=fence(remembered.as_text(), "memories"),
            conversation=fence(self._window.as_text(self._speech, phrase("person", self._speech)), "conversation"),
        )
        if self._small:
            short = await self._chat.complete_as(request, ShortReading, purpose="read", max_tokens=self._max_tokens)
            return short.in_full()
        return await self._chat.complete_as(request, Reading, purpose="read", max_tokens=self._max_tokens)

    async def _confirm(self, doubtful: Sequence[Operation], remembered: Remembered) -> list[Operation]:
        """Those of some closing operations that hold when their memories are shown in full."""
        lines = []
        for number, operation in enumerate(doubtful, 1):
            memory = remembered.of(operation)
            assert memory is not None
            said = " ".join(message.content for message in self._window.evidence(operation.evidence))
            lines.append(f"[{number}] {operation.op}: {memory.content}\n    {condense(said, 300)}")
        request = prompt("personal/confirm", self._speech, operations=fence("\n".join(lines), "operations"))
        answer = await self._chat.complete_as(request, Confirmation, purpose="confirm", max_tokens=200)
        return [operation for number, operation in enumerate(doubtful, 1) if number in answer.holds]

    def _refusal(self, operation: Operation, memory: Memory | None) -> str:
        """Why an operation is refused; empty where nothing speaks against it."""
        evidence = self._window.evidence(operation.evidence)
        people = [message for message in evidence if message.role == "user"]
        if not people:
            return grounding.ASSISTANTS if evidence else grounding.NO_EVIDENCE
        if len(people) == len(self._window.people) >= _MOST_EVIDENCE:
            return grounding.ALL_MESSAGES
        if operation.op in ("end", "forget", "confirm"):
            return "" if memory or operation.thing else grounding.NO_MEMORY
        if not (operation.statement.strip() or operation.value.strip()):
            return grounding.NO_STATEMENT
        value = operation.value.strip() or operation.statement
        known = self._grounds(operation, memory)
        zone = self._deps.settings.timezone
        if grounding.invented_value(value, operation.statement, people, known, zone):
            return grounding.VALUE
        replaces = operation.op == "change" and self._is_doubtful(operation, people)
        return grounding.BORROWED if replaces or self._is_borrowed(operation, people) else ""

    def _is_doubtful(self, operation: Operation, people: Sequence[Message]) -> bool:
        """Whether an operation makes a wish or a profile of what nobody said in their own name."""
        is_made = operation.op in ("add", "change") and operation.kind in _HEEDED
        return is_made and self._is_borrowed(operation, people, in_own_name)

    def _in_doubt_a_fact(self, operation: Operation, people: Sequence[Message]) -> Operation:
        """The operation; where it is doubtful whose wish something is, it is kept as a fact, which nobody heeds."""
        return operation.model_copy(update={"kind": "fact"}) if self._is_doubtful(operation, people) else operation

    def _is_borrowed(
        self, operation: Operation, people: Sequence[Message], own_part: Callable[[str], str] = own_words
    ) -> bool:
        """Whether the words of a statement are rather what people cited, pasted or made up, or what others said."""
        spoken = [*self._window.context, *self._window.new]
        # A dream that somebody tells of may come with facts, and a pasted letter with news of theirs. For wishes and
        # who one is, the bar is higher: they are heeded in every conversation.
        is_news = operation.kind not in _HEEDED
        made_up = set() if is_news else {name for name, reason in unreal(spoken).items() if reason != "question"}
        by = [m for m in spoken if m.role == "user" and (is_news or m.author == people[0].author)]
        own = [own_part(m.content) for m in by if m.message_id not in made_up]
        answered = [questions_of(q.content) for m in people if (q := self._window.question_before(m))]
        statement = operation.statement.strip() or operation.value
        heard = "\n".join([*(m.content for m in spoken), *(m.author for m in spoken)])
        return grounding.is_borrowed(statement, "\n".join([*own, *answered]), heard, 0 if is_news else _OWN)

    def _says_more(self, operation: Operation, memory: Memory | None, remembered: Remembered) -> bool:
        """Whether the statement has names or numbers that nobody told, here or before."""
        people = [m for m in self._window.evidence(operation.evidence) if m.role == "user"]
        earlier = [m.content for m in [*self._window.context, *self._window.people] if m.role == "user"]
        known = [*self._grounds(operation, memory), *earlier, *(m.content for m in remembered.memories)]
        return bool(grounding.inventions(operation.statement, people, known, self._deps.settings.timezone))

    def _word_for_word(self, people: Sequence[Message]) -> str:
        """What was said, behind the question that it answers."""
        said = " ".join(message.content for message in people)
        asked = self._window.question_before(people[0])
        return quoted_answer(said, asked, self._speech) if asked else said

    def _grounds(self, operation: Operation, memory: Memory | None) -> list[str]:
        """What besides its evidence lends names and numbers: the question answered, the speaker, what is changed."""
        evidence = self._window.evidence(operation.evidence)
        questions = [q.content for m in evidence if m.role == "user" and (q := self._window.question_before(m))]
        names = [message.author for message in self._window.people]
        return [*questions, *names, self._state.user_name, *([memory.content] if memory else [])]

    def _report(self, outcome: Outcome, refused: Sequence[dict[str, str]]) -> None:
        change, state = outcome.change, self._state
        state.memories += [m.model_copy(update={"workspace_id": state.workspace_id}) for m in change.add]
        state.closing += change.close
        state.report["refused"] += refused
        done = state.update_result or UpdateResult()
        state.update_result = UpdateResult(
            done.deleted_count + len(change.close) + len(outcome.erased),
            done.inserted_count + len(change.add),
            done.updated_count + len(change.confirm),
        )


def _refusal(operation: Operation, reason: str) -> dict[str, str]:
    return {"operation": f"{operation.op} {operation.statement or operation.value}".strip(), "reason": reason}


def _is_told(text: str, accepted: Sequence[Accepted]) -> bool:
    """Whether statements that rest on a text have a good part of its words."""
    said = set(terms(text))
    repeated = set(terms(" ".join(item.statement for item in accepted)))
    return len(said & repeated) >= _TOLD * len(said)


def _is_settled(memory: Memory) -> bool:
    """Whether a memory stands as it is: a quote that no model has read yet does not."""
    return memory.metadata.get("mode") != QUOTED or bool(memory.metadata.get("read"))
