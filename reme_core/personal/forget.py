"""Forgetting on request: closes the memories that name a topic, and keeps its messages out of later recalls.

A closed memory names these messages in `metadata["forgotten"]`. So they are found again once it is restored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from reme_core.flows.deps import Deps
from reme_core.flows.ops.library import all_memories
from reme_core.marks import QUOTED, forgotten_note, kept_from_recall
from reme_core.personal.judge import parts_of
from reme_core.personal.state import Outcome, PersonalState
from reme_core.prompts.transcript import condense
from reme_core.store.change import Erase
from reme_core.store.filters import Filters
from reme_core.store.messages import said_by_others
from reme_core.store.recall import Recall
from reme_core.store.relevance import judged_hits
from reme_core.text.commands import Command
from reme_core.text.forgetting import names_topic, topic_to_forget
from reme_core.types import PERSONAL_KINDS, Kind, Memory, Message, Scope, Source, Status

_MESSAGES: Final = 100
"""So many messages, the nearest to a topic, are looked at together; further ones as long as some of these name it."""


async def memories_to_forget(command: Command, message: Message, state: PersonalState, deps: Deps) -> list[Memory]:
    """The memories that a command closes, or erases; it erases closed ones, too.

    They name its topic, are of its author and within its scope, and were said up to then; or they rest on such ones.
    """
    status = None if command.action == "erase" else Status.ACTIVE
    filters = Filters(kinds=list(map(str, PERSONAL_KINDS)), status=status, **message.scope)
    persons = state.subject_of(message), ""
    found = {
        m.memory_id: m
        async for m in all_memories(state, deps, filters)
        if m.subject in persons and was_said_by(m, message.sent_at) and names_topic(command.topic, m.content)
    }
    insights = await deps.memories.from_source(state.workspace_id, "memory", list(found))
    return list((found | {insight.memory_id: insight for insight in insights}).values())


def was_said_by(memory: Memory, moment: datetime) -> bool:
    """Whether a memory was said up to a moment: who wishes something about it then cannot mean what is said later."""
    return memory.observed_at is None or memory.observed_at <= moment


def erasure_of(memories: Sequence[Memory], told: Message, state: PersonalState) -> Erase:
    """The erasure that a message commands: of these memories. What other people said stays."""
    return Erase([memory.memory_id for memory in memories], state.subject_of(told), told.author, told.scope)


async def keep_from_recall(outcome: Outcome, topic: str, command: Message, state: PersonalState, deps: Deps) -> None:
    """Let the outcome of a command keep messages that name its topic from being found by recall.

    These are messages of the command's author and of the assistant, within its scope and up to it, and those that the
    memories which it erases kept from recall; what is evidence of these is erased with them. A memory that the command
    closes lists the ids. If it closes none, the command itself is stored as a closed memory that does.
    """
    change, about = outcome.change, await _messages_about(topic, command.scope, state.workspace_id, deps.recall)
    naming = {message.memory_id for message in about if was_said_by(message, command.sent_at)}
    naming -= await said_by_others(deps.database, state.workspace_id, list(naming), command.author)
    naming.update(*(kept_from_recall(memory) for memory in outcome.erased))
    naming.difference_update(source.id for memory in outcome.erased for source in memory.sources)
    if not naming or (naming == {command.message_id} and not _says_besides(command.content, topic)):
        return
    for memory_id, note in change.annotate.items():
        if command.message_id in note.get("forgotten", ()):
            change.annotate = {**change.annotate, memory_id: {"forgotten": sorted(naming.union(note["forgotten"]))}}
            return
    subject, words = state.subject_of(command), condense(command.content, 300)
    record = Memory(
        kind=Kind.OBSERVATION,
        subject=subject,
        content=words,
        status=Status.EXPIRED,
        observed_at=command.sent_at,
        author=subject,
        sources=[Source(kind="message", id=command.message_id, quote=words)],
        metadata={"mode": QUOTED},
        **command.scope,
    )
    record.metadata |= forgotten_note(record, *naming)
    change.add = [*change.add, record]


async def _messages_about(topic: str, scope: Scope, workspace: str, recall: Recall) -> list[Memory]:
    """All messages within a scope that name a topic."""
    filters, found = Filters.of(kind=Kind.CONVERSATION, **scope), list[Memory]()
    [question] = await recall.questions(workspace, topic, [(filters, _MESSAGES)])
    while True:
        left = replace(question, filters=replace(filters, without=[message.memory_id for message in found]))
        hits = judged_hits(left, await recall.find(left))[1]
        naming = [hit.memory for hit in hits if names_topic(topic, hit.content)]
        if not naming:
            return found
        found += naming


def _says_besides(text: str, topic: str) -> bool:
    """Whether a text with a command to forget something names it outside of the command, too."""
    return any(names_topic(topic, part) and not topic_to_forget(part) for part in parts_of(text))
