"""Forgetting on request: closes the memories that name a topic, and keeps its messages out of later recalls.

A closed memory names these messages in `metadata["forgotten"]`. So they are found again once it is restored.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from itertools import count
from typing import Final

from reme_core.flows.deps import Deps
from reme_core.personal.nearby import QUOTED, STATED, subject_of
from reme_core.prompts.transcript import condense
from reme_core.store.change import Change, forgotten_note
from reme_core.store.filters import Filters
from reme_core.store.messages import said_by_others
from reme_core.text.forgetting import names_topic
from reme_core.types import Kind, Memory, Message, Scope, Source, Status

_PAGE: Final = 1_000
_MESSAGES: Final = 100
"""How many messages are looked at for a topic, the nearest to it."""


async def memories_naming(workspace: str, topic: str, subject: str, scope: Scope, deps: Deps) -> list[Memory]:
    """The active memories of a person, within a scope, that name a topic."""
    stored = _all(workspace, Filters(kinds=STATED, **scope), deps)
    return [m async for m in stored if m.subject in (subject, "") and names_topic(topic, m.content)]


async def _all(workspace: str, filters: Filters, deps: Deps) -> AsyncIterator[Memory]:
    for page in count():
        found = await deps.memories.list(workspace, filters, limit=_PAGE, offset=page * _PAGE)
        for memory in found:
            yield memory
        if len(found) < _PAGE:
            return


async def messages_naming(workspace: str, topic: str, command: Message, deps: Deps) -> list[str]:
    """The ids of the messages that name a topic, within the scope of a command: its author's and the assistant's."""
    messages = Filters.of(kind=Kind.CONVERSATION, **command.scope)
    found = await deps.recall(workspace, topic, messages, limit=_MESSAGES, flow=deps.flow)
    ids = [hit.memory.memory_id for hit in found.hits if names_topic(topic, hit.content)]
    others = await said_by_others(deps.database, workspace, ids, command.author) if command.author else set()
    return [message_id for message_id in ids if message_id not in others]


def keep_from_recall(change: Change, command: Message, message_ids: Sequence[str], user_name: str) -> None:
    """Add to a change that recall finds some messages no more.

    They are named by a memory that the command closes. If it closes none, a closed memory of the command names them.
    """
    if not set(message_ids) - {command.message_id}:
        return
    for memory_id, note in change.annotate.items():
        if command.message_id in note.get("forgotten", ()):
            all_of_them = sorted({*note["forgotten"], *message_ids})
            change.annotate = {**change.annotate, memory_id: {"forgotten": all_of_them}}
            return
    subject, said = subject_of(command, user_name), condense(command.content, 300)
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
    record.metadata |= forgotten_note(record, *message_ids)
    change.add = [*change.add, record]
