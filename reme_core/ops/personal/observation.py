"""Observations: what people said about themselves, one statement each, with its evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, Field

from reme_core.models import ChatModel
from reme_core.ops.deps import Deps
from reme_core.ops.personal.claims import SINGLE, TASTE, Claim, kind_of
from reme_core.ops.personal.grounding import unsupported
from reme_core.ops.personal.reality import sentences, states
from reme_core.ops.personal.statements import by_rules, dated, person_of, said_when, statement, subject_of
from reme_core.ops.registry import op
from reme_core.ops.state import SummaryState
from reme_core.ops.transcript import language, transcript
from reme_core.prompts import prompt
from reme_core.schema import Kind, Memory, Message
from reme_core.text.fence import fenced
from reme_core.text.terms import terms
from reme_core.text.timex import has_time, render_date

_BATCH = 20
"""Messages that one question to the model is about; a small model forgets what stands in the middle of more."""


class _Observation(BaseModel):
    content: str = Field(description="One statement about the person, in the language of the messages")
    evidence: list[int] = Field(description="The numbers of the messages it rests on")
    quote: str = Field("", description="The words it rests on, copied from one of them")
    kind: Literal["observation", "profile", "instruction"] = "observation"
    attribute: str = Field("", description="What it says something about: one of the attributes listed, or empty")
    value: str = Field("", description="The value of that attribute")
    ended: bool = Field(False, description="True where it says that something is no longer so")
    keywords: list[str] = Field(default_factory=list)


class _Observations(BaseModel):
    observations: list[_Observation]


@op(reads={"heard"}, uses={"user_name"}, writes={"untimed_drafts"})
async def get_observation(state: SummaryState, deps: Deps) -> None:
    """Draw observations from messages that name no time: by the model where one is set, and by rules."""
    messages = [m for m in state.heard if not _timed(m, deps)]
    state.untimed_drafts = await _observed(messages, "personal/get_observation", state, deps)


@op(reads={"heard"}, uses={"user_name"}, writes={"timed_drafts"})
async def get_observation_with_time(state: SummaryState, deps: Deps) -> None:
    """Draw observations from messages that name a time, which is reckoned from when each was sent, never from today."""
    messages = [m for m in state.heard if _timed(m, deps)]
    state.timed_drafts = await _observed(messages, "personal/get_observation_with_time", state, deps)


def _timed(message: Message, deps: Deps) -> bool:
    return has_time(message.content) and bool(said_when(message.content, message.sent_at, deps.settings.timezone))


async def _observed(messages: Sequence[Message], name: str, state: SummaryState, deps: Deps) -> list[Memory]:
    found: list[Memory] = []
    by_subject: dict[str, list[Message]] = {}
    for message in messages:
        by_subject.setdefault(subject_of(message, state.user_name), []).append(message)
    for subject, own in by_subject.items():
        if deps.chat is not None:
            for at in range(0, len(own), _BATCH):
                found += await _asked(own[at : at + _BATCH], name, subject, deps, deps.chat)
        # The rules read little but hardly ever wrongly, so they fill in what a small model overlooks.
        for message in own:
            person, zone = person_of(subject), deps.settings.timezone
            found += by_rules(message, subject=subject, person=person, timezone=zone)
    return found


async def _asked(messages: Sequence[Message], name: str, subject: str, deps: Deps, chat: ChatModel) -> list[Memory]:
    speech = language(deps.language, messages)
    person = person_of(subject) or ("用户" if speech == "zh" else "The user")
    days = [render_date(message.sent_at, speech) for message in messages]
    shown = [m.model_copy(update={"author": day}) for m, day in zip(messages, days, strict=True)]
    request = prompt(
        name,
        speech,
        messages=fenced(transcript(shown), "messages"),
        person=person,
        attributes=", ".join(sorted(SINGLE | {TASTE, "allergy"})),
    )
    answer = await chat.structured(request, _Observations, purpose=name.partition("/")[2])
    found = [_checked(seen, messages, subject, person, chat.name, deps) for seen in answer.observations]
    return [memory for memory in found if memory is not None]


def _checked(
    seen: _Observation, messages: Sequence[Message], subject: str, person: str, author: str, deps: Deps
) -> Memory | None:
    """The observation as a memory, or nothing where its evidence does not bear it out."""
    zone = deps.settings.timezone
    evidence = [messages[number - 1] for number in dict.fromkeys(seen.evidence) if 0 < number <= len(messages)]
    content = seen.content.strip()
    if not content or content.endswith(("?", "？")) or unsupported(content, evidence, person=person, timezone=zone):
        return None
    quoted = next((m for m in evidence if seen.quote and seen.quote in m.content), evidence[0])
    quote = seen.quote if seen.quote and seen.quote in quoted.content else quoted.content
    attribute = _slot(seen, evidence)
    # What stands only in questions and suppositions was not said of oneself; a wish may well be asked for.
    real = any(states(sentence.text) for m in evidence for sentence in sentences(m))
    if not real and kind_of(attribute) != Kind.INSTRUCTION:
        return None
    mentions = said_when(quote, quoted.sent_at, zone)
    when = next((m.range for m in mentions if m.range.start and m.range.start <= quoted.sent_at), None)
    claim = Claim(
        dated(content, mentions),
        quote,
        attribute,
        seen.value.strip(),
        holds=not seen.ended,
        event=when is not None and not attribute,
        when=when,
    )
    return statement(claim, _latest_last(evidence), subject=subject, author=author, keywords=seen.keywords)


def _slot(seen: _Observation, evidence: Sequence[Message]) -> str:
    """The slot of an observation; one that a model made up, or whose value nobody said, is left out.

    A wrong slot would close what is true, and without any the statement is kept all the same.
    """
    said = {term for message in evidence for term in terms(message.content)}
    name = seen.attribute.strip().lower() if said.issuperset(terms(seen.value)) else ""
    if name in SINGLE or (name == TASTE and seen.value.strip()):
        return name
    if name.startswith("allergy") and seen.value.strip():
        return f"allergy:{seen.value.strip().lower()}"
    return "instruction" if seen.kind == "instruction" else ""


def _latest_last(evidence: Sequence[Message]) -> list[Message]:
    return sorted(evidence, key=lambda message: message.sent_at)
