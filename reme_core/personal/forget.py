"""Forgetting on request: closes the memories that name a topic, and keeps its messages out of later recalls.

A closed memory names these messages in `metadata["forgotten"]`. So they are found again once it is restored.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import count
from typing import Final

from reme_core.flows.deps import Deps
from reme_core.personal.nearby import QUOTED, STATED, subject_of
from reme_core.personal.state import PersonalState
from reme_core.prompts.transcript import condense
from reme_core.store.change import Change, forgotten_note
from reme_core.store.filters import Filters
from reme_core.store.messages import said_by_others
from reme_core.text.forgetting import names_topic
from reme_core.types import Kind, Memory, Message, Source, Status

_PAGE: Final = 1_000
_MESSAGES: Final = 100
"""How many messages are looked at for a topic, the nearest to it."""


async def memories_naming(topic: str, command: Message, state: PersonalState, deps: Deps) -> list[Memory]:
    """The active memories that name a topic, of the person who gives a command and within its scope."""
    filters, persons = Filters(kinds=STATED, **command.scope), (subject_of(command, state.user_name), "")
    naming: list[Memory] = []
    for offset in count(step=_PAGE):
        page = await deps.memories.list(state.workspace_id, filters, limit=_PAGE, offset=offset)
        naming += [m for m in page if m.subject in persons and names_topic(topic, m.content)]
        if len(page) < _PAGE:
            break
    return naming


async def keep_from_recall(
    change: Change, topic: str, command: Message, state: PersonalState, deps: Deps, *, gone: Collection[str] = ()
) -> None:
    """Add to a change that recall finds the messages no more that name a topic, besides those that are `gone` anyway.

    These are messages of the command's author and of the assistant, within its scope. They are named by a memory that
    the command closes. If it closes none, a closed memory of the command names them.
    """
    messages = Filters.of(kind=Kind.CONVERSATION, **command.scope)
    found = await deps.recall(state.workspace_id, topic, messages, limit=_MESSAGES, flow=deps.flow)
    naming = {hit.memory.memory_id for hit in found.hits if names_topic(topic, hit.content)}
    if command.author:
        naming -= await said_by_others(deps.database, state.workspace_id, list(naming), command.author)
    naming.difference_update(gone)
    if not naming - {command.message_id}:
        return
    for memory_id, note in change.annotate.items():
        if command.message_id in note.get("forgotten", ()):
            change.annotate = {**change.annotate, memory_id: {"forgotten": sorted(naming.union(note["forgotten"]))}}
            return
    subject, said = subject_of(command, state.user_name), condense(command.content, 300)
    record = Memory(
        kind=Kind.OBSERVATION,
        subject=subject,
        content=said,
        status=Status.EXPIRED,
        observed_at=command.sent_at,
        author=subject,
        sources=[Source(kind="message", id=command.message_id, quote=said)],
        metadata={"mode": QUOTED},
        **command.scope,
    )
    record.metadata |= forgotten_note(record, *naming)
    change.add = [*change.add, record]
