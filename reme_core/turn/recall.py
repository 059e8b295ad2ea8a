"""`TurnRecall`: what a turn recalls for its note, which is standing memories, other memories, and messages."""

from __future__ import annotations

import asyncio
import copy
import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from reme_core.engine import Engine
from reme_core.errors import InputError
from reme_core.prompts import language_for
from reme_core.prompts.note import Note, is_quoted, render, why_missing
from reme_core.prompts.transcript import person_of
from reme_core.spool.waiting import sanitise
from reme_core.store.filters import FilterOptions, Filters
from reme_core.store.profile import STANDING_KINDS, standing_memories
from reme_core.store.relevance import Question, turn_threshold
from reme_core.text.redact import redact
from reme_core.text.timex import AskedTime
from reme_core.types import SCOPES, Hit, Kind, Memory, Message, Scope, kinds_of, names_in

FILTERS: Final = frozenset(
    ("subject", "author", "session_id", "metadata", "min_stored_score", "known", "happened", "as_of", "held_at")
).union(SCOPES)
_MOST_AT_ONCE: Final = 100  # messages of one recall; it has about as many candidates
_LONG_AGO: Final = datetime(1, 1, 2, tzinfo=UTC)  # before any time that a query names
_LONGEST_QUERY: Final = 4_000  # characters of a question that recall uses: its beginning says what it is about


class TurnRecall:
    """Recalls the kinds of memories that a turn uses; its options are those of `TurnOptions`, the kinds single ones."""

    def __init__(
        self,
        kinds: Sequence[str],
        filters: Mapping[str, Any],
        scope: Scope,
        *,
        top_k: int,
        token_budget: int,
        min_relevance: float | None,
    ) -> None:
        self._kinds = kinds
        self._top_k = top_k
        self._token_budget = token_budget
        self._min_relevance = min_relevance
        self._person: str | None = None
        self._filter({**names_in(scope), **_check_filters(filters)})

    def _filter(self, filters: dict[str, Any]) -> None:
        self._filters = filters
        said = Filters.of(kind=[kind for kind in self._kinds if kind == Kind.CONVERSATION], **filters)
        self._messages = replace(said, of_person=self._person)
        self._memories = Filters.of(kind=[kind for kind in self._kinds if kind != Kind.CONVERSATION], **filters)

    def about(self, person: str) -> TurnRecall:
        """The same for one person: memories about them, what they said, and what agents said to them."""
        other = copy.copy(self)
        other._person = person_of(person)  # who has no name is nobody in messages
        other._filter({**self._filters, "subject": person})
        return other

    async def note(
        self, engine: Engine, workspace: str, question: Message | None, present: Sequence[Message], turn_id: str
    ) -> Note:
        """Recall for a question, and write the note; `present` are the messages that the model sees anyway."""
        query, session = (question.content.strip()[:_LONGEST_QUERY], question.session_id) if question else ("", "")
        present = [sanitise(message) for message in present]  # as they were recorded
        # In a long conversation, the model sees many messages that fit the question, and memories quote others.
        most = max(2 * self._top_k, min(2 * self._top_k + len(present), _MOST_AT_ONCE))
        parts = [(self._messages, most), (self._memories, self._top_k)]
        # "Yesterday" is counted from when it was asked, which may be before midnight, or long ago.
        now = question.sent_at if question else None
        questions = await self._questions(engine, workspace, query, session, parts, now)
        since = _asked_since(questions)
        least = self._min_relevance
        if least is None:
            least = turn_threshold(questions[0].model) if questions else 0.0
        answer = partial(engine.recall_steps.answer, min_relevance=least, flow="turn", session_id=session)
        # If several people share a workspace, wishes and profile of the others do not apply to whoever asks.
        asker = person_of(question.author) if question else ""
        lasting = replace(self._memories, of_person=asker or None)
        # With the vectors at hand, all statements go out at once: first that of the messages, which takes longest.
        found, standing = await asyncio.gather(
            asyncio.gather(*(answer([one]) for one in questions)),
            standing_memories(engine.database, workspace, lasting, now=now, facts_since=since),
        )
        messages = [told for one, told in zip(questions, found, strict=True) if one.filters.of_messages]
        memories = [told for one, told in zip(questions, found, strict=True) if not one.filters.of_messages]
        known = [hit for told in memories for hit in told.hits]
        why_unfit = self._why_unfit(present, [*standing, *(hit.memory for hit in known)], engine.settings.redact)
        offered = [hit for hit in known if not why_unfit(hit)]
        if len(offered) < len(known) and all(hit.relevance < least for hit in offered):
            offered = []  # only what quotes the words that the model sees is likely to fit
        hits = messages[0].hits if messages else []
        new = self._fit(hits, why_unfit)
        is_crowded = len(hits) == most and len(new) < self._top_k
        is_doubtful = bool(new) and all(hit.relevance < least for hit in new)
        if (is_crowded or is_doubtful) and any(why_unfit(hit) == "seen" for hit in hits):
            # Too few of them are new, or perhaps only what the model sees is likely to fit. A second recall, which
            # takes longer, leaves out what the model sees.
            seen = dict.fromkeys([*(m.message_id for m in present), *(m.content.strip() for m in present)])
            messages.append(await answer([replace(questions[0], filters=replace(self._messages, without=list(seen)))]))
            new = self._fit(messages[-1].hits, why_unfit)
        recalls = [*memories, *messages]
        offered += new
        zone = engine.settings.timezone
        note = render(offered, self._token_budget, language_for(query), standing=standing, timezone=zone)
        if note.standing:
            recalls.append(engine.log_writer.log_standing(workspace, query, note.standing, session_id=session))
        engine.log_writer.log_note(workspace, recalls, lambda hit: why_unfit(hit) or why_missing(note, hit, offered))
        return replace(note, turn_id=turn_id)

    @property
    def scope(self) -> FilterOptions:
        """The scope of what is recalled, as filters."""
        get = self._filters.get
        return {"user_id": get("user_id"), "agent_id": get("agent_id"), "run_id": get("run_id")}

    async def hits(self, engine: Engine, workspace: str, query: str, *, limit: int, min_relevance: float) -> list[Hit]:
        """Memories of the kinds in use, those added by hand and standing ones, and messages that they do not quote.

        The more relevant of the best memory and the best message comes first, and so on: scores of the two cannot be
        compared, relevance can.
        """
        lasting = replace(self._memories, kinds=list({*self._memories.kinds, Kind.CUSTOM, *STANDING_KINDS}))
        parts = [(lasting, limit), (self._messages, limit)]
        questions = await self._questions(engine, workspace, query.strip()[:_LONGEST_QUERY], "", parts)
        answer = partial(engine.recall_steps.answer, min_relevance=min_relevance, flow="turn")
        hits = [hit for found in await asyncio.gather(*(answer([one]) for one in questions)) for hit in found.hits]
        memories = [hit for hit in hits if hit.memory.kind != Kind.CONVERSATION]
        told = [hit.memory for hit in memories]
        new = [h for h in hits if h.memory.kind == Kind.CONVERSATION and not is_quoted(h.memory, told)]
        return list(heapq.merge(memories, new, key=lambda hit: -hit.relevance))

    def _fit(self, hits: Sequence[Hit], why_unfit: Callable[[Hit], str]) -> list[Hit]:
        """The best messages that may stand in the note; of several with equal words only the best."""
        fit = {hit.content.strip(): hit for hit in reversed(hits) if not why_unfit(hit)}
        return list(fit.values())[::-1][: self._top_k]

    def _why_unfit(
        self, present: Sequence[Message], memories: Sequence[Memory], redacted: Sequence[str]
    ) -> Callable[[Hit], str]:
        """A function that gives the reason why a hit must not stand in a note with these memories, or nothing."""
        ids, texts = {m.message_id for m in present}, {m.content.strip() for m in present}

        def is_seen(text: str) -> bool:
            # What stands around the marks is compared first: to redact all that the model sees would take long.
            begin, end = text.partition("[")[0], text.rpartition("]")[2]
            near = [one for one in texts if one.startswith(begin) and one.endswith(end)] if redacted else []
            return text in texts or any(redact(one, redacted) == text for one in near)

        def reason(hit: Hit) -> str:
            if hit.memory.kind != Kind.CONVERSATION:
                says_no_more = bool(hit.content) and not hit.memory.when_to_use
                return "seen" if says_no_more and any(hit.content in text for text in texts) else ""
            if hit.memory.memory_id in ids or is_seen(hit.content.strip()):
                return "seen"
            return "repeated" if is_quoted(hit.memory, memories) else ""

        return reason

    async def _questions(
        self,
        engine: Engine,
        workspace: str,
        query: str,
        session: str,
        parts: Sequence[tuple[Filters, int]],
        now: datetime | None = None,
    ) -> list[Question]:
        """The query, asked `now`, as a question to each of these parts that has a kind; none if there is no query."""
        asked = [(filters, limit) for filters, limit in parts if query and filters.kinds]
        if not asked:
            return []
        time = AskedTime.of("query", query, now=now, timezone=engine.settings.timezone, current_session=session)
        return await engine.recall_steps.questions(workspace, query, asked, time=time)


def _asked_since(questions: Sequence[Question]) -> datetime | None:
    """When the time begins that a query asks about; None if it names none."""
    times = [time for question in questions if question.time for time in question.time.ranges]
    return min((time.start or _LONG_AGO for time in times), default=None)


def _check_filters(filters: Mapping[str, Any]) -> FilterOptions:
    """The filters with parsed values: a serialised adapter has times as texts.

    Raises:
        InputError: A filter is unknown, or a value does not fit.
    """
    unknown = filters.keys() - FILTERS
    if unknown:
        raise InputError(f"there is no filter {min(unknown, key=str)!r}; there are {', '.join(sorted(FILTERS))}")
    try:
        return TypeAdapter(FilterOptions).validate_python(dict(filters))
    except ValidationError as error:
        first = error.errors()[0]
        name, problem = first["loc"][0], first["msg"].removeprefix("Value error, ")
        raise InputError(f"the filter {name!r} cannot be {filters[str(name)]!r:.60}: {problem}") from None


def spell_out(kinds: Iterable[str]) -> list[str]:
    """The single kinds that the given kinds stand for, without the standing kinds, which are in every note.

    Raises:
        InputError: A kind is unknown, or these are not several kinds.
    """
    if isinstance(kinds, str) or not isinstance(kinds, Iterable):
        raise InputError(f"kinds are several, such as ('personal', 'conversation'); not {kinds!r:.60}")
    return [kind for kind in kinds_of(list(kinds)) if kind not in STANDING_KINDS]
