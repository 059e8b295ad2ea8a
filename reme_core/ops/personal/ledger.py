"""Reconciliation: what becomes of stored statements, and of new ones, when they are laid side by side.

The ledger holds the stored statements that may be concerned, takes in new ones in the order in which they were said,
and in the end gives the one `Change` that has to be made. Nothing is deleted: a contradicted statement is closed on
both axes, `superseded` (when we knew it) and at the time of the newer one (when it held). A statement that comes late,
already contradicted by a stored one that was said after it, is stored as history.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from reme_core.ops.personal.relations import Entry, Relation, believed, entry_of, relate
from reme_core.schema import Memory, Source, Status
from reme_core.store.change import Change, Close


class Ledger:
    """Stored statements about one person, and what new ones make of them.

    Args:
        stored: Active memories that new statements may restate, complete or contradict.
    """

    def __init__(self, stored: Iterable[Memory]) -> None:
        self._entries = [entry_of(memory, stored=True) for memory in stored]

    def take(self, new: Memory, judged: Mapping[str, Relation] | None = None) -> None:
        """Lay one new statement beside all others.

        Args:
            new: The statement.
            judged: Relations to single memories, by id, that a model has seen; rules go before it.
        """
        entry = entry_of(new, stored=False)
        if any(e.memory.memory_id == new.memory_id for e in self._entries):
            return
        closed_by: Entry | None = None
        for old in [e for e in self._entries if e.active]:
            relation = relate(entry, old)
            if relation == "none" and judged:
                relation = believed(judged.get(old.memory.memory_id, "none"), entry, old)
            if relation in ("same", "contained"):
                _restate(old, entry)
                return
            if relation == "fuller":
                _complete(old, entry)
            elif relation == "contradicts":
                if entry.said >= old.said:
                    _take_over(old, entry)
                elif closed_by is None or old.said < closed_by.said:
                    closed_by = old
        if closed_by is not None:
            _close(entry, closed_by, at=_begin(closed_by))
        self._entries.append(entry)

    def revisit(self, judged: Mapping[tuple[str, str], Relation] | None = None) -> None:
        """Lay the stored statements beside each other: repetitions are closed, and contradictions, the older first.

        Args:
            judged: Relations that a model has seen, by the ids of the newer and the older one; rules go before it.
        """
        ordered = sorted((e for e in self._entries if e.active), key=lambda e: e.said)
        for place, newer in enumerate(ordered):
            for older in ordered[:place]:
                if not (older.active and newer.active):
                    continue
                relation = relate(newer, older)
                if relation == "none" and judged:
                    relation = judged.get((newer.memory.memory_id, older.memory.memory_id), "none")
                    relation = believed(relation, newer, older)
                if relation in ("same", "contained"):
                    _restate(older, newer)
                    _close(newer, older, at=None)
                elif relation == "fuller":
                    _close(older, newer, at=None)
                elif relation == "contradicts":
                    _take_over(older, newer)

    def expire(self, memory_ids: Iterable[str]) -> None:
        """Close stored statements without a successor: what they rest on was taken back."""
        wanted = set(memory_ids)
        for entry in self._entries:
            if entry.memory.memory_id in wanted and entry.active:
                entry.memory = entry.memory.model_copy(update={"status": Status.EXPIRED})

    def change(self, summarised: Sequence[str] = (), decided_after: int | None = None) -> Change:
        """Everything that has to be stored, closed and counted, as one change."""
        add = [
            e.memory.model_copy(
                update={
                    "sources": _distinct([*e.memory.sources, *e.support]),
                    "seen_count": e.memory.seen_count + e.restated,
                }
            )
            for e in self._entries
            if not e.stored
        ]
        close = [
            Close(
                e.memory.memory_id,
                "superseded" if e.memory.status == Status.SUPERSEDED else "expired",
                e.memory.superseded_by,
                e.memory.valid_until if e.memory.status == Status.SUPERSEDED else None,
            )
            for e in self._entries
            if e.stored and not e.active
        ]
        restated = [e for e in self._entries if e.stored and e.active and e.restated]
        return Change(
            add=add,
            close=close,
            restate=[e.memory.memory_id for e in restated],
            support={e.memory.memory_id: e.support for e in restated if e.support},
            summarised=summarised,
            decided_after=decided_after,
        )


def _close(old: Entry, new: Entry, *, at: datetime | None) -> None:
    """End `old` because of `new`; `at` is when it ceased to hold, None where it holds on in other words."""
    until = min((moment for moment in (at, old.memory.valid_until) if moment), default=None)
    start = old.memory.valid_from
    if until and start and start > until:
        until = start
    old.memory = old.memory.model_copy(
        update={"status": Status.SUPERSEDED, "superseded_by": new.memory.memory_id, "valid_until": until}
    )


def _take_over(old: Entry, new: Entry) -> None:
    """Let `new` hold from where `old` ends."""
    if new.memory.valid_from is None and not new.stored:
        new.memory = new.memory.model_copy(update={"valid_from": new.said})
    _close(old, new, at=_begin(new))


def _complete(old: Entry, new: Entry) -> None:
    """Let `new`, which says more, stand for `old`: with its evidence, and since when it held."""
    new.restated += old.memory.seen_count
    new.support += old.memory.sources
    begins = [moment for moment in (old.memory.valid_from, new.memory.valid_from) if moment]
    if not new.slot.event and len(begins) == 2:
        new.memory = new.memory.model_copy(update={"valid_from": min(begins)})
    _close(old, new, at=None)


def _restate(old: Entry, new: Entry) -> None:
    known = {(source.kind, source.id) for source in (*old.memory.sources, *old.support)}
    if new.memory.sources and {(source.kind, source.id) for source in new.memory.sources} <= known:
        return  # the same message says it once, in however many words it was put
    old.restated += new.memory.seen_count
    old.support += new.memory.sources


def _begin(entry: Entry) -> datetime:
    return entry.memory.valid_from or entry.said


def _distinct(sources: Sequence[Source]) -> list[Source]:
    return list({(s.kind, s.id): s for s in reversed(sources)}.values())[::-1]
