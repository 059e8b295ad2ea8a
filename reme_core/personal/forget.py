"""Forgetting on request: closes the memories that name a topic, and keeps its messages out of later recalls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from reme_core.flows.deps import Deps
from reme_core.personal.nearby import STATED
from reme_core.store.filters import Filters
from reme_core.text.forgetting import names_topic
from reme_core.types import Kind, Memory, Message, Scope, Status

_MOST: Final = 1_000
_MESSAGES: Final = 30


async def memories_naming(workspace: str, topic: str, subject: str, scope: Scope, deps: Deps) -> list[Memory]:
    """The active memories of a person, within a scope, that name a topic."""
    stored = await deps.memories.list(workspace, Filters(kinds=STATED, **scope), limit=_MOST)
    return [m for m in stored if m.subject in (subject, "") and names_topic(topic, m.content)]


async def messages_naming(workspace: str, topic: str, scope: Scope, deps: Deps) -> list[str]:
    """The ids of the messages of a scope that name a topic, so that they are not recalled either."""
    messages = Filters.of(kind=Kind.CONVERSATION, **scope)
    found = await deps.recall(workspace, topic, messages, limit=_MESSAGES, flow=deps.flow)
    return [hit.memory.memory_id for hit in found.hits if names_topic(topic, hit.content)]


def forgotten_note(memory: Memory, command: Message, others: Iterable[str] = ()) -> dict[str, Any]:
    """The metadata of a forgotten memory: the ids of messages that recall must not find from now on."""
    own = [source.id for source in memory.sources if source.kind == "message"]
    return {"forgotten": sorted({*own, command.message_id, *others})}


async def forgotten_messages(workspace: str, deps: Deps) -> list[str]:
    """The ids of the messages of a workspace that recall must not find, since their topics are to be forgotten."""
    marked = Filters(status=Status.EXPIRED, metadata={"forgotten": []})  # contained in any list of that name
    closed = await deps.memories.list(workspace, marked, limit=_MOST)
    return sorted({message_id for memory in closed for message_id in memory.metadata["forgotten"]})
