"""What a turn recalls: standing wishes, memories, and what was said in other conversations."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, zip_longest
from typing import Any, Final

from reme_core.engine import Engine
from reme_core.errors import InputError
from reme_core.prompts import Language
from reme_core.prompts.note import Note, render
from reme_core.store.filters import Filters
from reme_core.text.terms import language_of
from reme_core.types import SCOPES, Hit, Kind, Memory, Message, Scope, kinds_of, names_in

STANDING_KINDS: Final = (Kind.INSTRUCTION, Kind.PROFILE)
"""Kinds that are given with every note: recall hardly ever finds a standing wish."""
FILTERS: Final = frozenset(
    ("subject", "author", "session_id", "metadata", "min_stored_score", "known", "happened", "as_of", "held_at")
).union(SCOPES)
MOST_STANDING: Final = 50
_MOST_AT_ONCE: Final = 100  # messages of one recall, which has about as many candidates anyway
_LONGEST_QUERY: Final = 4_000  # characters of a question that are recalled by; its beginning says what it is about


class TurnRecall:
    """Recalls the kinds of memories that a turn uses.

    Args:
        kinds: Single kinds, as `spell_out` gives them.
        filters: What alone is recalled, as keyword arguments of `Engine.recall`.
        scope: What alone is recalled where the filters do not say otherwise.
        top_k: Memories, and as many messages, that a note holds at the most.
        token_budget: Tokens that a note takes at the most.
        min_relevance: The chance that anything fits, below which a note has standing memories alone.
    """

    def __init__(
        self,
        kinds: Sequence[str],
        filters: Mapping[str, Any],
        scope: Scope,
        *,
        top_k: int,
        token_budget: int,
        min_relevance: float,
    ) -> None:
        unknown = filters.keys() - FILTERS
        if unknown:
            raise InputError(f"there is no filter {min(unknown)!r}; there are {', '.join(sorted(FILTERS))}")
        if not 0 <= min_relevance <= 1:
            raise InputError(f"min_relevance is a chance, between 0 and 1, not {min_relevance!r}")
        self._filters: dict[str, Any] = {**names_in(scope), **filters}
        self._memory_kinds = [kind for kind in kinds if kind != Kind.CONVERSATION]
        self._message_kinds = [kind for kind in kinds if kind == Kind.CONVERSATION]
        self._top_k = top_k
        self._token_budget = token_budget
        self._min_relevance = min_relevance
        self._speaker = ""

    def about(self, person: str) -> TurnRecall:
        """The same for memories about one person, and messages of theirs or of the assistant."""
        other = copy.copy(self)
        other._filters, other._speaker = {**self._filters, "subject": person}, person
        return other

    def _may_quote(self, message: Memory) -> bool:
        return not self._speaker or message.author in ("", self._speaker)

    async def note(
        self, engine: Engine, workspace: str, question: Message | None, present: Sequence[Message], turn_id: str
    ) -> Note:
        """Recall, and write the note; `present` is what the model sees without it."""
        query, session = (question.content.strip(), question.session_id) if question else ("", "")
        standing, memories, quotes = await asyncio.gather(
            engine.memories.list(workspace, Filters.of(kind=STANDING_KINDS, **self._filters), limit=MOST_STANDING),
            self._recall(engine, workspace, query, self._memory_kinds, self._top_k, self._min_relevance, session),
            self._unseen_messages(engine, workspace, query, present, session),
        )
        language: Language = "zh" if language_of(query) == "zh" else "en"
        zone = engine.settings.timezone
        note = render([*memories, *quotes], self._token_budget, language, standing=standing, timezone=zone)
        return Note(note.text, note.hits, note.standing, note.tokens, turn_id)

    async def hits(self, engine: Engine, workspace: str, query: str, *, limit: int) -> list[Hit]:
        """Memories of the kinds in use, those that were added by hand and standing wishes; after them, messages."""
        kinds = list({*self._memory_kinds, Kind.CUSTOM, *STANDING_KINDS})
        memories, quotes = await asyncio.gather(
            self._recall(engine, workspace, query, kinds, limit),
            self._recall(engine, workspace, query, self._message_kinds, limit),
        )
        return [*memories, *quotes]

    async def _unseen_messages(
        self, engine: Engine, workspace: str, query: str, present: Sequence[Message], session: str
    ) -> list[Hit]:
        """The best messages that are not among `present`; of messages with equal words, only the best."""
        ids, texts = {m.message_id for m in present}, {m.content.strip() for m in present}
        # Of a long conversation the model sees much that fits its question. So some more are recalled than are needed,
        # and where that leaves too few, all that it sees is left out of a second recall, which takes longer.
        limit = max(2 * self._top_k, min(self._top_k + len(present), _MOST_AT_ONCE))
        for without in ([], [*ids, *texts]):
            hits = await self._recall(
                engine, workspace, query, self._message_kinds, limit, self._min_relevance, session, without
            )
            unseen_hits = [h for h in hits if h.memory.memory_id not in ids and h.content.strip() not in texts]
            fresh = [hit for hit in unseen_hits if self._may_quote(hit.memory)]
            unseen = {hit.content.strip(): hit for hit in reversed(fresh)}
            if len(unseen) >= self._top_k or len(hits) < limit:
                break
        return list(unseen.values())[::-1][: self._top_k]

    async def _recall(
        self,
        engine: Engine,
        workspace: str,
        query: str,
        kinds: Sequence[str],
        limit: int,
        min_relevance: float = 0.0,
        current_session: str = "",
        without: Sequence[str] = (),
    ) -> list[Hit]:
        if not query or not kinds:
            return []
        found = await engine.recall(
            workspace,
            query[:_LONGEST_QUERY],
            kind=kinds,
            limit=limit,
            min_relevance=min_relevance,
            current_session=current_session,
            without=without,
            flow="turn",
            **self._filters,
        )
        return found.hits


def interleave(hits: Sequence[Hit]) -> list[Hit]:
    """Memories and messages in turn, each best first: their scores cannot be compared."""
    memories = [hit for hit in hits if hit.memory.kind != Kind.CONVERSATION]
    messages = [hit for hit in hits if hit.memory.kind == Kind.CONVERSATION]
    return [hit for hit in chain.from_iterable(zip_longest(memories, messages)) if hit is not None]


def spell_out(kinds: Iterable[str]) -> list[str]:
    """The single kinds to recall, without the standing ones: those are part of every note.

    Raises:
        InputError: There is no such kind.
    """
    try:
        return [kind for kind in kinds_of(list(kinds)) if kind not in STANDING_KINDS]
    except ValueError as error:
        raise InputError(f"{error}; kinds are personal, task, tool, {', '.join(Kind)}") from None
