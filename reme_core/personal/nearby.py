"""Finds the stored statements that a new one may be about: those nearest to it in meaning and words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from reme_core.flows.deps import Deps
from reme_core.store.change import Embedded
from reme_core.store.filters import Filters
from reme_core.store.relevance import Question, judged_hits
from reme_core.types import PERSONAL_KINDS, Hit, Kind, Memory, Message

STATED: Final = [str(kind) for kind in PERSONAL_KINDS if kind != Kind.INSIGHT]
"""The kinds that people state. Insights are not stated, but concluded from these."""


async def nearest(
    workspace: str, said: Sequence[Message | Memory], deps: Deps, *, limit: int
) -> tuple[list[list[Hit]], Embedded]:
    """For each of these the active statements of its scope nearest to it, best first, at most `limit`; its vectors.

    Those near a memory are about the same person.
    """
    if not said:
        return [], {}
    embedder = await deps.workspace_models.embedder(workspace)
    vectors = await embedder.embed([one.content for one in said], "passage")
    hits = []
    for one, vector in zip(said, vectors, strict=True):
        filters = Filters(kinds=STATED, subject=one.subject if isinstance(one, Memory) else None, **one.scope)
        question = Question(workspace, one.content, vector, embedder.name, limit, filters)
        hits.append(judged_hits(question, await deps.recall.find(question))[1])
    return hits, {(embedder.name, one.content): vector for one, vector in zip(said, vectors, strict=True)}


def subject_of(message: Message, user_name: str) -> str:
    """The person whose memories a message adds to: its author, or `user_name` if it has none."""
    return message.author or user_name
