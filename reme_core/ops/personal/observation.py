"""Observations: what people said about themselves, one statement each, with its evidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pydantic import BaseModel, Field

from reme_core.models import ChatModel
from reme_core.ops.deps import Deps
from reme_core.ops.personal.claims import SINGLE, TIMELESS, Claim, kind_of
from reme_core.ops.personal.grounding import unsupported
from reme_core.ops.personal.reality import Sentence, sentences, states
from reme_core.ops.personal.statements import by_rules, dated, person_of, said_when, statement, subject_of
from reme_core.ops.personal.trust import has_ended, in_slot, slot_for, stands_alone
from reme_core.ops.registry import op
from reme_core.ops.state import SummaryState
from reme_core.ops.transcript import language
from reme_core.prompts import Language, phrase, prompt
from reme_core.schema import Kind, Memory, Message
from reme_core.text.budget import count_tokens
from reme_core.text.fence import fenced
from reme_core.text.timex import has_time, render_date

_SENTENCES: Final = 30
"""Sentences that one question to the model is about; a small model forgets what stands in the middle of more."""
_TOKENS: Final = 2_000
"""Tokens of them: with the prompt and the answer, half of the 8,000 that small local models read in all."""


class _Observation(BaseModel):
    evidence: list[int] = Field(description="The numbers of the sentences it rests on")
    content: str = Field(description="One statement about the person, in the language of the sentences")
    attribute: str = Field("", description="What it says something about: one of the attributes listed, or empty")
    value: str = Field("", description="The value of that attribute")
    ended: bool = Field(False, description="True where it says that something is no longer so")


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
        person, zone = person_of(subject), deps.settings.timezone
        # The rules read little but hardly ever wrongly, so they fill in what a small model overlooks.
        read = [m for message in own for m in by_rules(message, subject=subject, person=person, timezone=zone)]
        if deps.chat is not None:
            for portion in _portions([sentence for message in own for sentence in sentences(message)]):
                seen = await _asked(portion, name, subject, deps, deps.chat)
                found += [slotted for memory in seen if (slotted := in_slot(memory, read))]
        found += read
    return found


def _portions(spoken: Sequence[Sentence]) -> Iterator[list[Sentence]]:
    """The sentences in portions that one question to the model takes."""
    portion: list[Sentence] = []
    spent = 0
    for sentence in spoken:
        cost = count_tokens(sentence.text)
        if portion and (len(portion) == _SENTENCES or spent + cost > _TOKENS):
            yield portion
            portion, spent = [], 0
        portion.append(sentence)
        spent += cost
    if portion:
        yield portion


async def _asked(spoken: Sequence[Sentence], name: str, subject: str, deps: Deps, chat: ChatModel) -> list[Memory]:
    speech = language(deps.language, list({s.message.message_id: s.message for s in spoken}.values()))
    person = person_of(subject) or phrase("person", speech)
    request = prompt(
        name,
        speech,
        messages=fenced(_numbered(spoken, speech, days=name.endswith("time")), "messages"),
        person=person,
        attributes=", ".join(sorted(SINGLE - {"address"} | {"allergy"})),
    )
    answer = await chat.structured(request, _Observations, purpose=name.partition("/")[2])
    found = [_checked(seen, spoken, subject, person, chat.name, deps) for seen in answer.observations]
    return [memory for memory in found if memory is not None]


def _numbered(spoken: Sequence[Sentence], speech: Language, *, days: bool) -> str:
    """The sentences, a line each; where days matter, below the day on which they were sent."""
    lines = []
    day = ""
    for number, sentence in enumerate(spoken, 1):
        sent = render_date(sentence.message.sent_at, speech)
        if days and sent != day:
            day = sent
            lines.append(phrase("sent_on", speech, day=day))
        lines.append(f"[{number}] {sentence.text}")
    return "\n".join(lines)


def _checked(
    seen: _Observation, spoken: Sequence[Sentence], subject: str, person: str, author: str, deps: Deps
) -> Memory | None:
    """The observation as a memory, or nothing where its evidence does not bear it out."""
    zone = deps.settings.timezone
    grounds = [spoken[number - 1] for number in dict.fromkeys(seen.evidence) if 0 < number <= len(spoken)]
    evidence = list({sentence.message.message_id: sentence.message for sentence in grounds}.values())
    content = seen.content.strip().rstrip(".。!！")
    if not stands_alone(content) or unsupported(content, evidence, person=person, timezone=zone):
        return None
    said = " ".join(message.content for message in evidence)
    attribute = slot_for(seen.attribute, seen.value, content, said, person=person)
    # What stands only in questions and suppositions was not said of oneself; a wish may well be asked for.
    if kind_of(attribute) != Kind.INSTRUCTION:
        grounds = [sentence for sentence in grounds if states(sentence.text)]
        if not grounds:
            return None
    first = grounds[0]
    mentions = [m for s in grounds for m in said_when(s.text, s.message.sent_at, zone)]
    when = next((m.range for m in mentions if m.range.start and m.range.start <= first.message.sent_at), None)
    claim = Claim(
        content if attribute in TIMELESS or kind_of(attribute) == Kind.INSTRUCTION else dated(content, mentions),
        first.text,
        attribute,
        seen.value.strip(),
        holds=not has_ended(seen.ended, " ".join(sentence.text for sentence in grounds)),
        event=when is not None and not attribute,
        when=when,
    )
    return statement(claim, _latest_last(evidence), subject=subject, author=author)


def _latest_last(evidence: Sequence[Message]) -> list[Message]:
    return sorted(evidence, key=lambda message: message.sent_at)
