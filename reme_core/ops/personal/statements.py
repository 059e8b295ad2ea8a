"""Statements about a person on their way to the store: dated, with evidence and with the slot they fill."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from reme_core.ops.drafts import RULES
from reme_core.ops.identity import stable_id
from reme_core.ops.personal import chinese, english, english_wishes, reality
from reme_core.ops.personal.claims import TASTE, TIMELESS, Claim, marks
from reme_core.ops.transcript import condense
from reme_core.schema import Kind, Memory, Message, Source, TimeRange
from reme_core.text.terms import language_of, terms
from reme_core.text.timex import TimeMention, find_times

MAX_QUOTE = 300
_MAX_KEYWORDS = 8
_LONGEST = 1_000
"""Characters of a statement; what is longer is no single statement."""


def by_rules(message: Message, *, subject: str, person: str, timezone: str) -> list[Memory]:
    """What a message says about its speaker, by the offline rules.

    Args:
        message: From a person, and not `reality.unreal`.
        subject: Whom it is about.
        person: What the speaker is called in statements; empty for "the user".
        timezone: In which the speaker's days begin.
    """
    found = []
    for sentence in reality.sentences(message):
        in_chinese = language_of(sentence.text) == "zh"
        claims = (chinese if in_chinese else english_wishes).wishes(sentence.text, person)
        if not claims and reality.states(sentence.text):
            claims = (chinese if in_chinese else english).claims(sentence.text, person)
        alone = len(claims) == 1
        found += [_remembered(claim, sentence, subject, alone=alone, timezone=timezone) for claim in claims]
    return list({memory.memory_id: memory for memory in found}.values())


def statement(
    claim: Claim,
    evidence: Sequence[Message],
    *,
    subject: str,
    author: str,
    keywords: Sequence[str] = (),
) -> Memory:
    """A claim as a memory.

    It was observed when the last message of its evidence was said, never today. A state holds from then, or from the
    time it names; an event holds for as long as it took. Its id follows from its words and its first evidence.
    """
    observed = max(message.sent_at for message in evidence)
    when = claim.when or TimeRange()
    # States that something later may end hold from when they were said; tastes and undated events just were said then.
    ends_some_day = bool(claim.slot) and claim.slot != TASTE and claim.slot not in TIMELESS
    quote = condense(claim.quote, MAX_QUOTE)
    return Memory(
        memory_id=stable_id("personal", subject, claim.content, evidence[0].message_id),
        kind=claim.kind,
        subject=subject,
        content=condense(claim.content, _LONGEST),
        keywords=list(keywords) or keywords_of(claim.content),
        importance=claim.weight,
        observed_at=observed,
        valid_from=when.start or (observed if ends_some_day else None),
        valid_until=when.end if claim.event else None,
        author=author,
        sources=[Source(kind="message", id=m.message_id, quote=_quoted(quote, m)) for m in evidence],
        metadata=marks(claim.slot, claim.value, holds=claim.holds, event=claim.event),
    )


def said_when(text: str, sent_at: datetime, timezone: str) -> list[TimeMention]:
    """The stretches of time that a text names, reckoned from when it was said; habits and anchors are left out."""
    found = find_times(text, now=sent_at, timezone=timezone)
    return [m for m in found if not (m.recurring or m.anchor) and (m.range.start or m.range.end)]


def dated(content: str, mentions: Sequence[TimeMention]) -> str:
    """The content with the date behind each relative time: "yesterday (2024-05-06)" is still true in a year."""
    for mention in mentions:
        written = _written(mention)
        if mention.relative and written and mention.text in content and written not in content:
            content = content.replace(mention.text, f"{mention.text} ({written})", 1)
    return content


def keywords_of(content: str) -> list[str]:
    """The rarest-looking terms of a statement: the longest ones."""
    distinct = list(dict.fromkeys(terms(content)))
    return sorted(distinct, key=len, reverse=True)[:_MAX_KEYWORDS]


def subject_of(message: Message, user_name: str) -> str:
    """Whom a message's statements are about: its author, where it has one, else the workspace's person."""
    return message.author or user_name


def person_of(subject: str) -> str:
    """What statements call a subject; empty for the nameless user, whom each language calls in its own way."""
    return "" if subject.lower() in ("", "user", "human") else subject


def _remembered(claim: Claim, sentence: reality.Sentence, subject: str, *, alone: bool, timezone: str) -> Memory:
    message = sentence.message
    # A time in another clause may belong to another claim; where there is but one claim, it belongs to that.
    mentions = said_when(sentence.text if alone else claim.quote, message.sent_at, timezone)
    past = [m for m in mentions if m.range.start is None or m.range.start <= message.sent_at]
    named = past[0].range if past and claim.slot not in TIMELESS and (claim.slot != TASTE or not claim.holds) else None
    quoted = claim.kind == Kind.INSTRUCTION or claim.slot in TIMELESS
    content = claim.content if quoted else dated(claim.content, mentions)
    value = _undated(claim.value, mentions) if claim.slot == TASTE and not claim.holds else claim.value
    told = replace(claim, content=content, value=value, quote=sentence.text, when=named)
    return statement(told, [message], subject=subject, author=RULES)


def _undated(value: str, mentions: Sequence[TimeMention]) -> str:
    """A value without the time: who gave up "coffee at the beginning of July" gave up coffee."""
    for mention in mentions:
        when = rf"\s*(?:\b(?:at|in|on|since|from|by|around|during)\s+)?(?:\bthe\s+)?{re.escape(mention.text)}"
        value = re.sub(when, "", value, count=1).strip(" ,，") or value
    return value


def _quoted(quote: str, message: Message) -> str:
    return quote if quote in reality.plain(message.content) else condense(message.content, MAX_QUOTE)


def _written(mention: TimeMention) -> str:
    start, end = mention.range.start, mention.range.end
    if start is None or end is None:
        return ""
    if mention.precision in ("year", "month"):
        return f"{start:%Y}" if mention.precision == "year" else f"{start:%Y-%m}"
    if mention.precision in ("week", "season"):
        last = end.fromtimestamp(end.timestamp() - 1, tz=end.tzinfo)
        return f"{start:%Y-%m-%d}–{last:%Y-%m-%d}"
    return f"{start:%Y-%m-%d}"
