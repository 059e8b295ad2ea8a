"""What a turn finds in memory: standing wishes, memories, and what was said in other conversations."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from reme_core.delivery import said
from reme_core.errors import InputError
from reme_core.links import Links
from reme_core.notes import Note, render
from reme_core.prompts import Language
from reme_core.schema import Hit, Kind, Message, kinds_of
from reme_core.store.filters import Filters
from reme_core.text.terms import language_of

STANDING_KINDS: Final = (Kind.INSTRUCTION, Kind.PROFILE)
"""Kinds that are given with every note: a search hardly ever finds a standing wish."""
MOST_STANDING: Final = 50
_MOST_AT_ONCE: Final = 100  # messages of one look; a recall has about as many candidates anyway
_LONGEST_QUERY: Final = 4_000  # characters of a question that are looked for; its beginning says what it is about


class Lookup:
    """Finds what is known of the kinds in use."""

    def __init__(self, links: Links, kinds: Sequence[str], *, top_k: int, token_budget: int) -> None:
        self._links = links
        self._memory_kinds = [kind for kind in kinds if kind != Kind.CONVERSATION]
        self._message_kinds = [kind for kind in kinds if kind == Kind.CONVERSATION]
        self._top_k = top_k
        self._token_budget = token_budget

    async def note(self, workspace: str, query: str, present: Sequence[Message], turn_id: str) -> Note:
        """Recall, and write the note; `present` is what the model sees without it."""
        reme = await self._links.reme()
        standing, memories, quotes = await asyncio.gather(
            reme.memories.list(workspace, Filters(kinds=STANDING_KINDS), limit=MOST_STANDING),
            self._find(workspace, query, self._memory_kinds, self._top_k),
            self._unseen(workspace, query, present),
        )
        language: Language = "zh" if language_of(query) == "zh" else "en"
        zone = reme.settings.timezone
        note = render([*memories, *quotes], self._token_budget, language, standing=standing, timezone=zone)
        return Note(note.text, note.hits, note.standing, note.tokens, turn_id)

    async def _unseen(self, workspace: str, query: str, present: Sequence[Message]) -> list[Hit]:
        """The best messages that the model does not see anyhow; of equal ones, the best.

        Of a long conversation it sees much that fits its question. So some more are looked for than are needed, and
        where that leaves too few, all that it sees is left out of a second look, which takes longer.
        """
        ids, texts = {m.message_id for m in present}, {said(m) for m in present}
        limit = max(2 * self._top_k, min(self._top_k + len(present), _MOST_AT_ONCE))
        for without in ([], [*ids, *texts]):
            hits = await self._find(workspace, query, self._message_kinds, limit, without=without)
            fresh = [hit for hit in hits if hit.memory.memory_id not in ids and hit.content.strip() not in texts]
            unseen = {hit.content.strip(): hit for hit in reversed(fresh)}
            if len(unseen) >= self._top_k or len(hits) < limit:
                break
        return list(unseen.values())[::-1][: self._top_k]

    async def search(self, workspace: str, query: str, *, limit: int) -> list[Hit]:
        """Memories of all kinds in use, of what was told outright and of standing wishes; then messages."""
        memories, quotes = await asyncio.gather(
            self._find(workspace, query, list({*self._memory_kinds, Kind.CUSTOM, *STANDING_KINDS}), limit),
            self._find(workspace, query, self._message_kinds, limit),
        )
        return [*memories, *quotes]

    async def _find(
        self, workspace: str, query: str, kinds: Sequence[str], limit: int, *, without: Sequence[str] = ()
    ) -> list[Hit]:
        if not query or not kinds:
            return []
        reme = await self._links.reme()
        asked = query[:_LONGEST_QUERY]
        found = await reme.recall(workspace, asked, kind=kinds, limit=limit, without=without, flow="turn")
        return found.hits


def families(kinds: Iterable[str]) -> list[str]:
    """Spell out the kinds to look for, without the standing ones, which are given anyhow.

    Raises:
        InputError: There is no such kind.
    """
    try:
        return [kind for kind in kinds_of(list(kinds)) if kind not in STANDING_KINDS]
    except ValueError as error:
        raise InputError(f"{error}; kinds are personal, task, tool, {', '.join(Kind)}") from None
