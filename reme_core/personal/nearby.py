"""Finds the stored statements that a new one may be about: those nearest to it in meaning and words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from reme_core.flows.deps import Deps
from reme_core.store.filters import Filters
from reme_core.store.recall_sql import Plan, find, hits_of
from reme_core.store.relevance import Question, judge
from reme_core.types import PERSONAL_KINDS, Hit, Kind, Message, Scope

Vectors = npt.NDArray[np.float32]

STATED: Final = [str(kind) for kind in PERSONAL_KINDS if kind != Kind.INSIGHT]
"""The kinds that people state. Insights are not stated, but concluded from these."""
READ, QUOTED = "read", "quoted"
"""How a memory was made, in its `metadata["mode"]`: read by a model, or what somebody said word for word."""


async def embed(workspace: str, texts: Sequence[str], deps: Deps) -> Vectors:
    """The vectors of texts by the workspace's own model, shape (number of texts, width)."""
    if not texts:
        return np.zeros((0, 0), dtype=np.float32)
    embedder = await deps.workspace_models.embedder(workspace)
    return await embedder.embed(list(texts), "passage")


async def nearest(
    workspace: str, texts: Sequence[str], vectors: Vectors, deps: Deps, *, limit: int, scopes: Sequence[Scope]
) -> list[list[Hit]]:
    """For each text the active statements of its scope nearest to it, best first, at most `limit`."""
    embedder = await deps.workspace_models.embedder(workspace)
    hits = []
    for text, vector, scope in zip(texts, vectors, scopes, strict=True):
        question = Question(workspace, text, vector, embedder.name, limit)
        found = await find(deps.database, question, Filters(kinds=STATED, **scope), Plan())
        hits.append(hits_of(found, judge(question, found)[1]))
    return hits


def subject_of(message: Message, user_name: str) -> str:
    """The person whose memories a message adds to: its author, or `user_name` if it has none."""
    return message.author or user_name


def person_of(subject: str) -> str:
    """The name of a subject in statements; empty for a user without a name, for whom each language has its word."""
    return "" if subject.lower() in ("", "user", "human") else subject
