"""MemoryScope's way from messages to memories, by a chat model; each step is an op.

    info_filter >> (get_observation | get_observation_with_time) >> contra_repeat    (and `long_contra_repeat`)

`read_conversation` does all of it in one reading; these are for flows that are written in MemoryScope's ops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import numpy as np
from pydantic import BaseModel, Field

from reme_core.compat.memoryscope_forgetting import MOST, day_said, memories_about, time_said
from reme_core.errors import InputError
from reme_core.flows.deps import Deps
from reme_core.flows.registry import op
from reme_core.flows.state import Internal
from reme_core.given import zone_of
from reme_core.marks import READ
from reme_core.models import ChatModel
from reme_core.models.likeness import ALIKE, likeness
from reme_core.personal.filter import statements, take_in
from reme_core.personal.grounding import NO_EVIDENCE, VALUE, inventions
from reme_core.personal.quotes import STATED, keep_quotes, nearest
from reme_core.personal.state import PersonalState, add_to_result
from reme_core.prompts import phrase, prompt
from reme_core.prompts.fence import fence
from reme_core.prompts.transcript import condense, language, person_of
from reme_core.store.change import Change, Close
from reme_core.text.timex import has_time, validity, with_dates
from reme_core.types import Kind, Memory, Message, Source, scope_of

# Messages, or statements, in one question to the model.
_BATCH: Final = 30
_ANSWER_TOKENS: Final = 1_500
# Marks statements that a model has compared, so that it is asked about no pair twice.
_COMPARED: Final = "compared"

Relation = Literal["same", "contained", "fuller", "contradicts", "none"]
Pairs = Sequence[tuple[Memory, Sequence[Memory]]]
"""Newer statements, each with the older ones that it is compared with."""


class ExtractionState(PersonalState):
    """A conversation on its way through MemoryScope's ops."""

    heard: Internal[list[Message]] = Field(default_factory=list)
    """Messages that wait, and in which people may have said something about themselves."""
    drafts: Internal[list[Memory]] = Field(default_factory=list)
    """Observations that are not stored yet."""
    dated_drafts: Internal[list[Memory]] = Field(default_factory=list)
    """The same, from messages that name a time."""


class _Score(BaseModel):
    number: int = Field(description="The number of the message")
    score: int = Field(description="0 nothing about the person, 1 fiction or guess, 2 general, 3 explicit", ge=0, le=3)


class _Scores(BaseModel):
    scores: list[_Score]


class _Observation(BaseModel):
    evidence: list[int] = Field(description="The numbers of the messages it rests on")
    content: str = Field(description="One statement about the person, in the language of the messages")


class _Observations(BaseModel):
    observations: list[_Observation]


class _Judgement(BaseModel):
    new: int = Field(description="The number of the newer statement")
    old: int = Field(description="The number of the older statement")
    about: str = Field("", description="What both speak of, in one to three words")
    relation: Relation


class _Judgements(BaseModel):
    relations: list[_Judgement]


@op(
    uses={"waiting", "context", "messages", "trajectories", "session_id", "user_name"},
    writes={"waiting", "context", "heard"},
)
async def info_filter(
    state: ExtractionState, deps: Deps, *, preserved_scores: tuple[int, ...] | str = (2, 3), most_characters: int = 200
) -> None:
    """Keep the messages in which people say something about themselves, as the model scores them.

    Where `take_in` did not run before, it takes the conversation in.

    Args:
        preserved_scores: 0 nothing about the person, 1 fiction or guess, 2 general or to be inferred, 3 explicit; as
            numbers or as ReMe 0.1 wrote them, `2,3`.
        most_characters: A longer message is shown by its beginning and its end.

    Raises:
        InputError: `preserved_scores` holds something else than numbers.
    """
    preserved = _read_scores(preserved_scores)
    if not state.waiting:
        await take_in(state, deps)
    state.heard, state.report["heard"] = [], 0
    if deps.chat is None:
        return  # `contra_repeat` then keeps what was said word for word
    said, *_ = statements(state.context, state.waiting)
    for at in range(0, len(said), _BATCH):
        batch = said[at : at + _BATCH]
        lines = [f"[{number}] {_shorten(m.content, most_characters // 2)}" for number, m in enumerate(batch, 1)]
        request = prompt(
            "personal/info_filter",
            language(deps.language, batch),
            messages=fence("\n".join(lines), "messages"),
            count=len(batch),
        )
        answer = await deps.chat.complete_as(request, _Scores, purpose="info_filter", max_tokens=_ANSWER_TOKENS)
        scores = {scored.number: scored.score for scored in answer.scores}
        # A message that the model forgot counts as a 2, and is passed on to extraction.
        state.heard += [m for number, m in enumerate(batch, 1) if scores.get(number, 2) in preserved]
    state.report["heard"] = len(state.heard)


@op(reads={"heard"}, uses={"user_name"}, writes={"drafts"})
async def get_observation(state: ExtractionState, deps: Deps) -> None:
    """Draw observations from the messages that name no time."""
    state.drafts = await _draw([m for m in state.heard if not has_time(m.content)], state, deps)


@op(reads={"heard"}, uses={"user_name"}, writes={"dated_drafts"})
async def get_observation_with_time(state: ExtractionState, deps: Deps) -> None:
    """Draw observations from the messages that name a time, which is counted from when each message was sent."""
    state.dated_drafts = await _draw([m for m in state.heard if has_time(m.content)], state, deps)


@op(
    reads={"waiting"},
    uses={"context", "user_name", "drafts", "dated_drafts"},
    writes={"memories", "closing", "update_result"},
)
async def contra_repeat(
    state: ExtractionState, deps: Deps, *, enable_contra_repeat: bool = True, neighbours: int = 5
) -> None:
    """Store observations; the model says which stored ones they repeat or contradict.

    The messages that wait then count as summarised. Without a model there are no observations, and what was said is
    kept word for word.

    Args:
        enable_contra_repeat: Ask the model; if false, every observation is stored.
        neighbours: Stored statements that one observation is compared with.
    """
    if deps.chat is None:
        await keep_quotes(state, deps)
        return
    version = await deps.memories.version(state.workspace_id)
    read = {m.message_id: m.content for m in state.waiting}
    # Of an edited message, what was observed before may still stand.
    before = await deps.memories.from_source(state.workspace_id, "message", list(read))
    stated = {(m.subject, m.content) for m in before if m.metadata.get("mode") == READ}
    distinct: dict[tuple[str, ...], Memory] = {}
    for draft in (*state.drafts, *state.dated_drafts):
        same = distinct.setdefault((draft.subject, draft.content, *map(str, draft.scope.values())), draft)
        same.sources = list(dict.fromkeys([*same.sources, *draft.sources]))
    drafts = [draft for draft in distinct.values() if (draft.subject, draft.content) not in stated]
    hits, embedded = await nearest(state.workspace_id, drafts, deps, limit=neighbours)
    pairs = [
        (draft, [hit.memory for hit in found] if enable_contra_repeat else [])
        for draft, found in zip(drafts, hits, strict=True)
    ]
    change = Change(summarised=read, expected_version=version, embedded=embedded)
    _decide(change, pairs, await _judge(pairs, deps, deps.chat))
    if change.summarised:
        await deps.memories.apply(state.workspace_id, change, actor=deps.flow, reason="said in a conversation")
    add_to_result(state, change)


@op(uses={"user_name"}, writes={"memories", "closing", "update_result"})
async def long_contra_repeat(
    state: PersonalState,
    deps: Deps,
    *,
    enable_long_contra_repeat: bool = True,
    similarity: float = ALIKE,
    neighbours: int = 3,
    most: int = MOST,
) -> None:
    """Close what was contradicted or repeated over months, as the model says of each statement's nearest older ones.

    Args:
        similarity: The least likeness at which the model is asked about a pair, 0 (unrelated) to 1 (the same).
        enable_long_contra_repeat: If false, nothing is done.
        neighbours: Older statements that one statement is compared with.
        most: How many statements are looked at, the newest.
    """
    if deps.chat is None or not enable_long_contra_repeat:
        return
    version = await deps.memories.version(state.workspace_id)
    ordered = sorted(await memories_about(state, deps, STATED, limit=most), key=time_said)
    if len(ordered) < 2:
        return
    embedder = await deps.workspace_models.embedder(state.workspace_id)
    # The triangle below the diagonal: each statement with those that are older.
    alike = np.tril(await likeness(embedder, [m.content for m in ordered]), -1)
    pairs = [
        (
            newer,
            [
                ordered[i]
                for i in np.argsort(-row)[:neighbours]
                if row[i] >= similarity and not (_is_compared(newer) and _is_compared(ordered[i]))
            ],
        )
        for newer, row in zip(ordered, alike, strict=True)
    ]
    judged = await _judge(pairs, deps, deps.chat)
    change = Change(expected_version=version, close=_closings(pairs, judged))
    change.annotate = {m.memory_id: {_COMPARED: True} for m in ordered if not _is_compared(m)}
    if change.close or change.annotate:
        await deps.memories.apply(state.workspace_id, change, actor=deps.flow, reason="contradicted or repeated")
    add_to_result(state, change)


async def _draw(heard: Sequence[Message], state: ExtractionState, deps: Deps) -> list[Memory]:
    """The observations that the model draws from messages; the report has those that were refused."""
    if deps.chat is None:
        return []
    refused: list[dict[str, str]] = state.report.setdefault("refused", [])
    by_subject: dict[str, list[Message]] = {}
    for message in heard:
        by_subject.setdefault(state.subject_of(message), []).append(message)
    found: list[Memory] = []
    for subject, said in by_subject.items():
        for at in range(0, len(said), _BATCH):
            found += await _observations(said[at : at + _BATCH], subject, deps, deps.chat, refused)
    return found


async def _observations(
    messages: Sequence[Message], subject: str, deps: Deps, chat: ChatModel, refused: list[dict[str, str]]
) -> list[Memory]:
    speech = language(deps.language, messages)
    person = person_of(subject) or phrase("person", speech)
    zone = zone_of(deps.settings.timezone)
    said = [f"({m.sent_at.astimezone(zone):%Y-%m-%d}) {condense(m.content, 1_500)}" for m in messages]
    lines = [f"[{number}] {line}" for number, line in enumerate(said, 1)]
    request = prompt("personal/get_observation", speech, messages=fence("\n".join(lines), "messages"), person=person)
    answer = await chat.complete_as(request, _Observations, purpose="get_observation", max_tokens=_ANSWER_TOKENS)
    found = []
    for seen in answer.observations:
        evidence = [messages[n - 1] for n in dict.fromkeys(seen.evidence) if 0 < n <= len(messages)]
        content = seen.content.strip()
        if not evidence or not content:
            refused.append({"operation": content, "reason": NO_EVIDENCE})
        elif inventions(content, evidence, [person], deps.settings.timezone):
            refused.append({"operation": content, "reason": VALUE})
        else:
            found.append(_observation(content, evidence, subject, chat.name, deps.settings.timezone))
    return found


def _observation(content: str, evidence: Sequence[Message], subject: str, author: str, timezone: str) -> Memory:
    said = max(message.sent_at for message in evidence)
    holds = validity(content, said, timezone)
    return Memory(
        kind=Kind.OBSERVATION,
        subject=subject,
        content=with_dates(content, said, timezone),
        observed_at=said,
        valid_from=holds.start,
        valid_until=holds.end,
        author=author,
        sources=[Source(kind="message", id=m.message_id, quote=condense(m.content, 300)) for m in evidence],
        metadata={"mode": READ},
        **scope_of(evidence),
    )


async def _judge(pairs: Pairs, deps: Deps, chat: ChatModel) -> dict[tuple[str, str], Relation]:
    """How newer statements relate to older ones, by the ids of both; `none` is left out."""
    asked = [(new, olds) for new, olds in pairs if olds]
    judged: dict[tuple[str, str], Relation] = {}
    for at in range(0, len(asked), _BATCH):
        numbered: list[tuple[str, str]] = []
        lines = []
        for number, (new, olds) in enumerate(asked[at : at + _BATCH], 1):
            lines.append(_line_with_day(new, f"New {number}", deps))
            for old in olds:
                # The numbers go on from one new statement to the next, so that the number of an old one names the pair.
                numbered.append((new.memory_id, old.memory_id))
                lines.append(f"  {_line_with_day(old, f'Old {len(numbered)}', deps)}")
        speech = language(deps.language, [new.content for new, _ in asked])
        request = prompt("personal/contra_repeat", speech, statements=fence("\n".join(lines), "statements"))
        answer = await chat.complete_as(request, _Judgements, purpose="contra_repeat", max_tokens=_ANSWER_TOKENS)
        for relation in answer.relations:
            if 0 < relation.old <= len(numbered) and relation.relation != "none":
                judged[numbered[relation.old - 1]] = relation.relation
    return judged


def _decide(change: Change, pairs: Pairs, judged: Mapping[tuple[str, str], Relation]) -> None:
    """Let the change add each draft, or confirm what it repeats, and close what it completes or contradicts."""
    new: list[tuple[Memory, Sequence[Memory]]] = []
    support: dict[str, list[Source]] = {}
    for draft, olds in pairs:
        same = [o.memory_id for o in olds if judged.get((draft.memory_id, o.memory_id)) in ("same", "contained")]
        if same:
            support.setdefault(same[0], []).extend(draft.sources)
        else:
            new.append((draft, olds))
    change.add, change.confirm, change.support = [draft for draft, _ in new], list(support), support
    # Nothing is closed in favour of a draft that is not stored, and nothing that another draft has just confirmed.
    change.close = [close for close in _closings(new, judged) if close.memory_id not in support]


def _closings(pairs: Pairs, judged: Mapping[tuple[str, str], Relation]) -> list[Close]:
    """The older statements that newer ones replace, each once: repeated, completed or contradicted ones."""
    replaced = {
        old.memory_id: Close(old.memory_id, "superseded", new.memory_id)
        for new, olds in pairs
        for old in olds
        if judged.get((new.memory_id, old.memory_id)) in ("fuller", "contradicts", "same")
    }
    return list(replaced.values())


def _is_compared(memory: Memory) -> bool:
    return bool(memory.metadata.get(_COMPARED))


def _line_with_day(memory: Memory, title: str, deps: Deps) -> str:
    day = day_said(memory, deps)
    return f"{title} ({day}): {memory.content}" if day else f"{title}: {memory.content}"


def _read_scores(given: tuple[int, ...] | str) -> set[int]:
    try:
        return {int(score) for score in (given.split(",") if isinstance(given, str) else given)}
    except ValueError:
        raise InputError(f"preserved_scores: {given!r} is not a list of numbers; write 2,3") from None


def _shorten(text: str, keep: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 2 * keep else f"{line[:keep]} … {line[-keep:]}"
