"""Without a chat model: what people said that tells something lasting, kept word for word.

Nothing is rewritten, and nothing but an explicit command closes what was said before: whoever reads the note later sees
dated statements about the same thing together, and judges.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from reme_core.flows.deps import Deps
from reme_core.flows.registry import op
from reme_core.marks import QUOTED, forgotten_note
from reme_core.personal.filter import statements
from reme_core.personal.forget import erasure_of, keep_from_recall, memories_to_forget, was_said_by
from reme_core.personal.judge import chances, is_short, parts_of, text_to_judge
from reme_core.personal.state import Outcome, PersonalState, carry_out
from reme_core.personal.voice import Voice, voices
from reme_core.prompts.transcript import condense, language, message_before, quoted_answer, speech_in
from reme_core.store.change import Change, Close, Embedded, Erase
from reme_core.store.filters import Filters
from reme_core.store.relevance import Question, judged_hits
from reme_core.text.commands import Command, command_of, validity_of_wishes
from reme_core.text.fiction import asks, own_words, sentences
from reme_core.text.forgetting import names_topic
from reme_core.text.likeness import same_days, says_the_same
from reme_core.text.timex import times_of, validity
from reme_core.text.wishes_ended import ends
from reme_core.types import PERSONAL_KINDS, Hit, Kind, Memory, Message, Source, TimeRange

KEEP_FROM: Final = 0.85
"""The probability of telling something lasting from which on a message is kept."""
KEEP_SHORT_FROM: Final = 0.6
"""The same of a short message, which has few words to be judged by, and among people, who say less for its own sake."""
_LONG: Final = 280
"""Characters from which on a message is taken apart, and only the sentences that are worth it are kept."""
STATED: Final = [str(kind) for kind in PERSONAL_KINDS if kind != Kind.INSIGHT]
"""The kinds that people state. Insights are not stated, but concluded from these."""
_ANSWER: Final = 200
"""Characters of a message that may be an answer; what is longer says by itself what it is about."""
_NEAR: Final = 5
_WISHES: Final = 1_000
"""How many standing wishes of a person are looked at for one that a new wish ends."""
_UNHEARD: Final = Voice(0, 0)
_COMMANDED: Final = 0.9
"""The importance of what somebody told us to remember."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A message, or a sentence of a long one, with the message that it may answer, and the command in it."""

    message: Message
    text: str
    asked: Message | None = None
    command: Command | None = None
    is_worth_keeping: bool = True
    """Whether it is kept for itself; what only ends a wish is not, unless there is that wish."""

    @property
    def kind(self) -> Kind:
        """What it would be as a memory: a standing instruction, or what somebody said."""
        return Kind.INSTRUCTION if self.command and self.command.action == "instruct" else Kind.OBSERVATION

    @property
    def topic(self) -> str:
        """What it asks to forget or to erase, if it does."""
        return self.command.topic if self.command else ""


@op(reads={"waiting"}, uses={"context", "user_name"}, writes={"memories", "closing", "update_result"})
async def keep_quotes(
    state: PersonalState, deps: Deps, *, threshold: float = KEEP_FROM, short: float = KEEP_SHORT_FROM
) -> None:
    """Keep what was said and is worth it, word for word; carry out what people told the memory to do.

    Args:
        threshold: The least probability, 0 to 1, of telling something lasting that a message must have to be kept.
        short: The same where a message is short, the only one of its conversation (which is rarely small talk), or one
            of a conversation among people.

    Raises:
        ConflictError: Others changed the workspace again and again.
    """
    # Here and below, texts are read in a thread: each takes milliseconds, and the event loop has to serve others.
    told, aside, taken_back = await asyncio.to_thread(statements, state.context, state.waiting)
    spoken = speech_in(state.context)
    state.report["heard"] = len(told)
    kept = await pieces_worth_keeping(told, spoken, threshold=threshold, short=short)
    kept += [piece for piece in await pieces_worth_keeping(aside, spoken) if piece.kind == Kind.INSTRUCTION]

    async def decide(waiting: Sequence[str]) -> Outcome:
        # What rests on messages that somebody else has summarised is theirs.
        return await _decide(state, [p for p in kept if p.message.message_id in waiting], taken_back, deps)

    waiting = [message.message_id for message in state.waiting]
    await carry_out(decide, waiting, state, deps, reason="said in a conversation")


def pieces_of(message: Message, asked: Message | None, voice: Voice = _UNHEARD) -> list[Piece]:
    """What of a message is judged, and kept or not: all of it, or each sentence of a long one.

    A wish stands for itself, since every conversation is shown it. So does what a message asks to forget, which takes
    with it what the message says of that before.
    """
    # What somebody cites commands nothing, and a quotation may hold several sentences.
    own = own_words(message.content)
    parts = [Piece(message, part, None, _command_in(part, own, voice)) for part in parts_of(message.content)]
    forgetting = [part for part in parts if part.topic]
    rest = [
        part
        for place, part in enumerate(parts)
        if not part.topic and not any(p.topic and names_topic(p.topic, part.text) for p in parts[place:])
    ]
    if len(message.content) > _LONG:
        return [*forgetting, *(part for part in rest if part.command or not asks(part.text))]
    wished = [part for part in rest if part.kind == Kind.INSTRUCTION]
    others = [part for part in rest if part not in wished]
    if not forgetting and not (wished and others):
        return [_together(rest, asked, message.content.strip())] if rest else []
    groups = wished, others
    return [*forgetting, *(_together(group, asked, " ".join(part.text for part in group)) for group in groups if group)]


def commands_to_forget(message: Message) -> list[Command]:
    """What a message asks to forget or to erase."""
    return [piece.command for piece in pieces_of(message, None) if piece.command and piece.topic]


def _together(parts: Sequence[Piece], asked: Message | None, text: str) -> Piece:
    # Of several commands a wish counts, else the first.
    commands = sorted((part.command for part in parts if part.command), key=lambda c: c.action != "instruct")
    command = commands[0] if commands else None
    # A wish is its author's words alone, and what they answer may be anybody's.
    return Piece(parts[0].message, text, None if command and command.action == "instruct" else asked, command)


def _command_in(sentence: str, own: str, voice: Voice) -> Command | None:
    """The command that a sentence gives, where its author says that and does not cite it; a topic may be in quotes."""
    said = own_words(sentence)
    if said.strip() not in own:
        return None
    command = command_of(sentence)
    if command is not None and command.topic:
        return command
    command = command_of(said)
    if command is not None and command.action in ("allow", "instruct"):
        return command if voice.is_own else None
    return Command("instruct") if sentence in voice.wishes else command


async def pieces_worth_keeping(
    told: Sequence[Message],
    spoken: Sequence[Message],
    *,
    threshold: float = KEEP_FROM,
    short: float = KEEP_SHORT_FROM,
) -> list[Piece]:
    """The pieces of what people told that are commands or worth keeping; `spoken` is the conversation around them."""
    before = [message_before(message, spoken) for message in told]
    heard = zip(told, before, await voices(told, before), strict=True)
    judged_alone = await asyncio.to_thread(lambda: [piece for one in heard for piece in pieces_of(*one)])
    # "Could you always answer in French?" is a wish; what else only asks tells nothing.
    pieces = [p for p in judged_alone if p.command or not all(map(asks, sentences(p.text)))]
    if not pieces:
        return []
    shown = [(piece.message.model_copy(update={"content": piece.text}), piece.asked) for piece in pieces]
    texts = await asyncio.to_thread(lambda: [text_to_judge(*one) for one in shown])
    # Without the offline model nothing is judged, and nothing kept but what is commanded.
    found = await chances(texts, "worth")
    worth = [0.0] * len(pieces) if found is None else [float(chance) for [chance] in found]
    bars = [short if is_eased else threshold for is_eased in _are_eased(pieces, spoken)]
    kept = []
    for piece, probability, bar in zip(pieces, worth, bars, strict=True):
        allows = piece.command is not None and piece.command.action == "allow"
        if piece.command or probability >= bar:
            kept.append(replace(piece, is_worth_keeping=probability >= bar or not allows))
    return kept


def _are_eased(pieces: Sequence[Piece], spoken: Sequence[Message]) -> list[bool]:
    """Which pieces are short, alone in their conversation, or of one among people."""
    said = [message for message in spoken if message.role == "user"]
    messages = Counter(message.session_id for message in said)
    people = Counter(session for session, _ in {(message.session_id, message.author) for message in said})
    sessions = [piece.message.session_id for piece in pieces]
    return [messages[s] == 1 or people[s] > 1 or is_short(p.text) for s, p in zip(sessions, pieces, strict=True)]


async def _decide(state: PersonalState, kept: Sequence[Piece], taken_back: Sequence[str], deps: Deps) -> Outcome:
    """What comes of the pieces that are kept; memories of what was taken back are closed."""
    drafts: dict[tuple[str, Kind], Memory] = {}  # of a message what is heeded, and what is not
    untrue = await deps.memories.from_source(state.workspace_id, "message", taken_back) if taken_back else []
    closing = [memory.memory_id for memory in untrue]
    forgotten: dict[str, dict[str, Any]] = {}
    erased: dict[str, Memory] = {}
    erasures: list[Erase] = []
    # A command concerns what was said before it, whatever was recorded first.
    for piece in sorted(kept, key=lambda piece: piece.message.sent_at):
        message, subject = piece.message, state.subject_of(piece.message)
        if piece.command is None or not piece.topic:
            if piece.command and piece.command.action in ("instruct", "allow"):
                ended = await _wishes_to_end(piece, subject, state.workspace_id, deps)
                left = {k: d for k, d in drafts.items() if d.subject != subject or not _is_ended(d, piece.text)}
                is_kept = piece.is_worth_keeping or ended or len(left) < len(drafts)
                drafts, closing = left, [*closing, *ended]
                if not is_kept:
                    continue
            key = message.message_id, piece.kind
            drafts[key] = await asyncio.to_thread(_quote, piece, drafts.get(key), subject, deps)
            continue
        drafts = {k: d for k, d in drafts.items() if d.subject != subject or not names_topic(piece.topic, d.content)}
        found = await memories_to_forget(piece.command, message, state, deps)
        if piece.command.action == "erase":
            erased |= {m.memory_id: m for m in found}
            erasures.append(erasure_of(found, message, state))
        else:
            forgotten |= {m.memory_id: forgotten_note(m, message.message_id) for m in found}
    gone = {*closing, *forgotten, *erased}
    support, repeated, embedded = await _repetitions(state.workspace_id, list(drafts.values()), gone, deps)
    change = Change(
        add=[draft for draft in drafts.values() if draft.memory_id not in repeated],
        close=[Close(key, "expired") for key in dict.fromkeys([*closing, *forgotten]) if key not in erased],
        confirm=list(support),
        support=support,
        annotate={key: note for key, note in forgotten.items() if key not in erased},
        erase=erasures,
        embedded=embedded,
    )
    outcome = Outcome(change, list(erased.values()))
    for piece in kept:
        if piece.topic:
            await keep_from_recall(outcome, piece.topic, piece.message, state, deps)
    return outcome


async def _wishes_to_end(piece: Piece, subject: str, workspace: str, deps: Deps) -> list[str]:
    """The ids of the person's standing wishes that a later wish of theirs ends."""
    filters = Filters(kinds=[str(Kind.INSTRUCTION)], subject=subject, **piece.message.scope)
    known = await deps.memories.list(workspace, filters, limit=_WISHES)
    standing = [memory for memory in known if was_said_by(memory, piece.message.sent_at)]
    ended = await asyncio.to_thread(lambda: [memory for memory in standing if _is_ended(memory, piece.text)])
    return [memory.memory_id for memory in ended]


def _is_ended(memory: Memory, said: str) -> bool:
    return memory.kind == Kind.INSTRUCTION and any(ends(sentence, memory.content) for sentence in sentences(said))


def _quote(piece: Piece, earlier: Memory | None, subject: str, deps: Deps) -> Memory:
    """The piece as a memory, behind an earlier one of its kind and message."""
    message, zone = piece.message, deps.settings.timezone
    content = f"{earlier.content} {words_of(piece, deps)}" if earlier else words_of(piece, deps)
    times = [{"text": w.text, **w.range.model_dump(mode="json")} for w in times_of(piece.text, message.sent_at, zone)]
    if earlier:
        times = [*earlier.metadata.get("times", ()), *times]
    holds = _holds(piece, earlier, zone)
    return Memory(
        kind=piece.kind,
        subject=subject,
        content=content,
        importance=_COMMANDED if piece.command else 0.5,
        observed_at=message.sent_at,
        valid_from=holds.start,
        valid_until=holds.end,
        author=subject,
        sources=[Source(kind="message", id=message.message_id, quote=condense(piece.text, 300))],
        metadata={"mode": QUOTED, **({"times": times} if times else {})},
        **message.scope,
    )


def _holds(piece: Piece, earlier: Memory | None, zone: str) -> TimeRange:
    """When the piece holds, with the earlier one; open where these hold at different times."""
    holds_for = validity_of_wishes if piece.kind == Kind.INSTRUCTION else validity
    holds = holds_for(piece.text, piece.message.sent_at, zone)
    differs = earlier and (earlier.valid_from, earlier.valid_until) != (holds.start, holds.end)
    return TimeRange() if differs else holds


def words_of(piece: Piece, deps: Deps) -> str:
    """The words, behind the question they answer, since "yep, Wednesdays at 7" says little without it."""
    if piece.asked is None or len(piece.text) > _ANSWER:
        return condense(piece.text, 1_000)
    return quoted_answer(piece.text, piece.asked, language(deps.language, [piece.message]))


async def _repetitions(
    workspace: str, drafts: Sequence[Memory], gone: Collection[str], deps: Deps
) -> tuple[dict[str, list[Source]], set[str], Embedded]:
    """The evidence that drafts add to stored memories which say the same, the ids of these drafts, and all vectors.

    What is said again of a memory that is `gone` with this change is no repetition of it.
    """
    near, embedded = await nearest(workspace, drafts, deps, limit=_NEAR)
    support: dict[str, list[Source]] = {}
    repeated = set()
    for draft, hits in zip(drafts, near, strict=True):
        stored = (hit.memory for hit in hits if hit.memory.memory_id not in gone)
        same = next((memory for memory in stored if _repeats(draft, memory)), None)
        if same is not None:
            repeated.add(draft.memory_id)
            if not any(s.id == draft.sources[0].id for s in same.sources):  # the same message says it once
                support.setdefault(same.memory_id, []).extend(draft.sources)
    return support, repeated, embedded


async def nearest(
    workspace: str, said: Sequence[Message | Memory], deps: Deps, *, limit: int
) -> tuple[list[list[Hit]], Embedded]:
    """The active statements nearest to each of these, best first, at most `limit` each; and the vectors of these.

    They are of the same scope, and those near a memory are about the same person.
    """
    if not said:
        return [], {}
    embedder = await deps.workspace_models.embedder(workspace)
    vectors = await embedder.embed([one.content for one in said], "passage")
    hits = []
    for one, vector in zip(said, vectors, strict=True):
        filters = Filters(kinds=STATED, subject=one.subject if isinstance(one, Memory) else None, **one.scope)
        question = Question(workspace, one.content, vector, embedder.name, limit, filters)
        hits.append(judged_hits(question, await deps.recall.find(question))[1])
    return hits, {(embedder.name, one.content): vector for one, vector in zip(said, vectors, strict=True)}


def _repeats(draft: Memory, stored: Memory) -> bool:
    return says_the_same(draft.content, stored.content) and same_days(_times_in(draft), _times_in(stored))


def _times_in(memory: Memory) -> list[dict[str, Any]]:
    """The times of a quote. Callers may keep anything under that name."""
    times = memory.metadata.get("times")
    return [time for time in times if _is_time(time)] if isinstance(times, list) else []


def _is_time(value: object) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("text"), str):
        return False
    return "start" in value and isinstance(value["start"], str | None)
